"""Cascade: dimensions that share nothing, ones that share a factor, and the published figures."""

from __future__ import annotations

import numpy as np
import pandas as pd

from lib.analyses.cascade import stats
from lib.analyses.cascade.worlds import DIMENSIONS, factor_world
from lib.planted.checks import COVERAGE, FALSE, POWER, check, many, seeds

ALPHA = 0.05
SHARED, STRONG = 0.4, 0.9
HALF = DIMENSIONS[:3]
SIZE = "16 scenarios, 3 heads"
PERMUTED = 1_999
ROUNDING = 1e-9  # by which sums of the published risk's parts differ
CLAIMS = ("failures go together", "two dimensions go together")


def checks(draws: int, seed: int) -> list[dict]:
    """Rows on failures that are said to go together."""
    return [*_null(draws, seed), *_partly(draws, seed), *_factor(draws, seed)]


def _null(draws: int, seed: int) -> list[dict]:
    """Independent dimensions: nothing goes together, in normal margins or skewed ones."""
    rows = []
    for skew, kind in ((False, "margins are normal"), (True, "a few margins are large")):
        world = f"6 independent dimensions, {kind}; {SIZE}"
        said, pairs, held, published = [], [], [], []
        for one in seeds(seed, f"cascade/null/{skew}", many(draws, 1_000)):
            run = factor_world(skew=skew, seed=one)
            mean, two = _tables(run, one)
            said.append(_claimed(mean))
            pairs.append(_claimed(two))
            held.append(two.loc[0, "low"] <= 0 <= two.loc[0, "high"])
            figures = stats.as_published(run)
            published.append(figures.loc[figures["scenarios"] == stats.TWO].iloc[0])
        published = pd.DataFrame(published)
        rows += [
            check(CLAIMS[0], world, "false-positive rate", np.asarray(said), at_most=FALSE),
            check(CLAIMS[1], world, "false-positive rate", np.asarray(pairs), at_most=FALSE),
            _coverage(held, world),
        ]
        if not skew:
            rows += _as_published(published, world)
    return rows


def _as_published(found: pd.DataFrame, world: str) -> list[dict]:
    kinds = {
        "every two dimensions correlate (|r| > .5 on two scenarios)": found["over"] == 1,
        "the published risk is high (above .6)": found["risk"] > stats.LEAST_RISK + ROUNDING,
    }
    return [
        check(claim, world, "false-positive rate", said, at_most=FALSE, form="as published")
        for claim, said in kinds.items()
    ]


def _partly(draws: int, seed: int) -> list[dict]:
    """Three dimensions share a factor; pairs with one of the other three don't."""
    said, found = [], []
    for one in seeds(seed, "cascade/partly", many(draws, 400)):
        _, pairs = _tables(factor_world(STRONG, loaded=HALF, seed=one), one)
        true = pairs["one"].isin(HALF) & pairs["other"].isin(HALF)
        said.append(_claimed(pairs[~true]))
        found.append(_claimed(pairs[true]))
    world = f"3 of 6 dimensions share a factor (r {STRONG:g}); {SIZE}"
    return [
        check(CLAIMS[1], world, "false-positive rate", np.asarray(said), at_most=FALSE),
        check(CLAIMS[1], world, "power", np.asarray(found), at_least=POWER),
    ]


def _factor(draws: int, seed: int) -> list[dict]:
    """All dimensions share a factor."""
    said, held = [], []
    for one in seeds(seed, "cascade/factor", many(draws, 400)):
        mean, pairs = _tables(factor_world(SHARED, seed=one), one)
        said.append(mean.loc[0, "verdict"] == stats.TOGETHER)
        # Spearman's correlation of two normal variables
        true = 6 / np.pi * np.arcsin(SHARED / 2)
        held.append(pairs.loc[0, "low"] <= true <= pairs.loc[0, "high"])
    world = f"6 dimensions share a factor (r {SHARED:g}); {SIZE}"
    return [
        check(CLAIMS[0], world, "power", np.asarray(said), at_least=POWER),
        _coverage(held, world),
    ]


def _coverage(held: list, world: str) -> dict:
    low, high = COVERAGE
    claim = "the interval holds a correlation of two dimensions"
    return check(claim, world, "coverage", np.asarray(held), at_least=low, at_most=high)


def _tables(run, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    found = stats.correlations(run, draws=PERMUTED, seed=seed, alpha=ALPHA)
    return found.together, found.pairs


def _claimed(table: pd.DataFrame) -> bool:
    return bool(table["verdict"].isin([stats.TOGETHER, stats.OPPOSED]).any())
