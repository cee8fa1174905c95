"""Made-up pairs and a small gated model, which patches and effects are tried on."""

from __future__ import annotations

import pytest
from made_up import TEXTS

from lib.data.items import Builder
from lib.models import load_model


@pytest.fixture(scope="session")
def pairs():
    builder = Builder("made-up")
    for n, (prompt, better, worse) in enumerate(TEXTS):
        builder.add(f"item {n}", prompt, [worse, better], [(1, 0, "c", "s")])
    return builder.build()


@pytest.fixture(scope="session")
def gated(write_tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("gated")
    write_tiny.write_armorm(folder, heads=3)
    return load_model(str(folder), device="cpu")
