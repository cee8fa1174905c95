"""Steering: latents that are said to correct a criterion, or to move the others."""

from __future__ import annotations

import numpy as np

from lib.analyses.steering import stats
from lib.planted.checks import FALSE, POWER, check, many, seeds
from lib.planted.latents import latent_world
from lib.stats.latents import Sparse

NULL, SOME, FEW = 600, 100, 40
SHIFT, WEIGHT = -1.8, 6.0
PAIRS, CRITERIA = 240, 4
SIZE = f"60 latents, 6 kept, {CRITERIA} criteria of {PAIRS // CRITERIA} pairs"
CLAIMS = ("suppressing a feature corrects or harms a criterion", "it moves the other criteria")


def checks(draws: int, seed: int) -> list[dict]:
    """Rows on latents that are blind to what is better, and on one that misleads a criterion."""
    own, side, published = [], [], []
    for one in seeds(seed, "steering/null", many(draws, NULL)):
        table = stats.targets(_world(0.0, 1.0, one))
        own.append(table["verdict"].isin([stats.CORRECTS, stats.HARMS]).any())
        side.append(table["side_verdict"].isin([stats.HELPS, stats.HARMS]).any())
    for one in seeds(seed, "steering/few", many(draws, FEW)):
        published.append(stats.corrections(_world(0.0, 1.0, one))["correctable"].iloc[0] > 0)
    some = []
    for one in seeds(seed, "steering/misled", many(draws, SOME)):
        first = stats.targets(_world(SHIFT, WEIGHT, one))
        first = first.set_index("criterion").loc["criterion 0"]
        some.append(first["verdict"] == stats.CORRECTS)
    null = f"no latent differs between better and worse; {SIZE}"
    return [
        check(CLAIMS[0], null, "false-positive rate", np.asarray(own), at_most=FALSE),
        check(CLAIMS[1], null, "false-positive rate", np.asarray(side), at_most=FALSE),
        check(
            "suppressing one feature corrects one preference",
            null,
            "false-positive rate",
            np.asarray(published),
            at_most=FALSE,
            form="as published",
            note="a preference and its feature are chosen together",
        ),
        check(
            CLAIMS[0],
            f"one latent misleads one criterion, by {-SHIFT:g} sd; {SIZE}",
            "power",
            np.asarray(some),
            at_least=POWER,
        ),
    ]


def _world(shift: float, weight: float, seed: int) -> Sparse:
    return latent_world(
        shift, pairs=PAIRS, latents=60, k=6, criteria=CRITERIA, weight=weight, seed=seed
    )
