"""The published figures, and runs on the two parts of hh-rlhf."""

import numpy as np
import pytest

from lib.data import published
from lib.planted.worlds import make_run


@pytest.fixture(autouse=True)
def _planted_once(planted_once):
    """Worlds are planted once for all tables of the same figures."""


@pytest.fixture(scope="session")
def figures():
    return published.figures()


@pytest.fixture(scope="session")
def part():
    """Makes a run of the heads ``harm`` and ``help`` whose winners have so much higher scores."""

    def make(dataset, harm, help, pairs=300):
        label = np.tile([1.0, 0.0], pairs)[:, None]
        noise = np.random.default_rng(0).standard_normal((2 * pairs, 2))
        return make_run(noise + label * [harm, help], heads=["harm", "help"], name=dataset)

    return make
