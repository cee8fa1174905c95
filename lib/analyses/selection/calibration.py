"""Selection: picks that are no better than random, picks that are, and gold itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm

from lib.analyses.selection import stats
from lib.analyses.selection.worlds import candidate_world
from lib.planted.checks import COVERAGE, FALSE, POWER, check, many, seeds

ALPHA = 0.05
WITHIN = 0.05  # of the power that the page tells
HEADS = 4
FEW = 30  # prompts, below which an interval may be too wide
TRIED = 4  # worlds in which an MDE is looked up
FOUND = (stats.BETTER, stats.WORSE)
CLAIM = "picks are better or worse than random"
WORLDS: Mapping[str, dict[str, Any]] = {
    "1 of 4 right": {"items": 60},
    "1 of 4 right, few prompts": {"items": 20},
    "3 of 6 right, which share most of their noise": {"k": 6, "right": 3, "blocks": True},
    "4 rated, 2 items a prompt that are half alike": {"rated": True, "per_prompt": 2},
}


def checks(draws: int, seed: int) -> list[dict]:
    """Rows on picks that are said to beat random ones."""
    return [*_nothing(draws, seed), *_something(draws, seed)]


def _nothing(draws: int, seed: int) -> list[dict]:
    """Scores that know nothing of the gold."""
    rows = []
    for world, given in WORLDS.items():
        tables = _drawn(many(draws, 120), seed, world, given, [0.0] * HEADS)
        told = f"scores know nothing; {world}; {given.get('items', 120)} items"
        said = [table["verdict"].isin(FOUND).any() for table in tables]
        held = [_first(table)["gain_low"] <= 0 <= _first(table)["gain_high"] for table in tables]
        low, high = COVERAGE
        rows += [
            check(CLAIM, told, "false-positive rate", np.asarray(said), at_most=FALSE),
            check(
                "the interval holds the gain",
                told,
                "coverage",
                np.asarray(held),
                at_least=low,
                at_most=high if given.get("items", 120) >= FEW else 1.0,
            ),
        ]
    return rows


def _something(draws: int, seed: int) -> list[dict]:
    """One head of four whose picks gain what the page says that it would find."""
    world, given = "1 of 4 right", {"items": 120}
    for gain in np.arange(0.1, 0.5, 0.005):  # the page's word on the world in which that is true
        strength = _strength(0.25 + gain)
        some = _drawn(TRIED, seed, "stated", given, [strength, *[0.0] * (HEADS - 1)])
        if gain >= np.nanmedian([_first(table)["mde"] for table in some]):
            break
    tables = _drawn(many(draws, 160), seed, "power", given, [strength, *[0.0] * (HEADS - 1)])
    told = f"one head gains {gain:.3f}; {world}; {given['items']} items"
    low, high = COVERAGE
    first = [_first(table) for table in tables]
    regret = [row["regret"] for row in first]
    return [
        check(
            f"{CLAIM}, at the stated MDE",
            told,
            "power",
            np.asarray([row["verdict"] == stats.BETTER for row in first]),
            at_least=POWER - WITHIN,
            at_most=POWER + WITHIN,
        ),
        check(
            "the interval holds the regret",
            told,
            "coverage",
            np.asarray([row["regret_low"] <= 0.75 - gain <= row["regret_high"] for row in first]),
            at_least=low,
            at_most=high,
        ),
        check(
            "a rule has less regret than gold itself",
            told,
            "false-positive rate",
            np.asarray(regret) < 0,
            at_most=0.0,
        ),
    ]


def _first(table: pd.DataFrame) -> pd.Series:
    """The row of the head that knows something."""
    return table[table["rule"] == "head_0"].iloc[0]


def _strength(rate: float) -> float:
    """How much more a right response must score to be picked of three wrong ones at a rate."""
    at, tried = np.linspace(-6, 6, 301), np.linspace(0, 3, 61)
    rates = np.trapezoid(norm.pdf(at - tried[:, None]) * norm.cdf(at) ** 3, at, axis=1)
    return float(np.interp(rate, rates, tried))


def _drawn(
    draws: int, seed: int, name: str, given: Mapping[str, Any], strength: Sequence[float]
) -> list[pd.DataFrame]:
    """Picks of heads, and of the one score beside them, of worlds of a kind."""
    tables = []
    for one in seeds(seed, f"selection/{name}", draws):
        run = candidate_world(strength=strength, seed=one, **given)
        picks = stats.selection(stats.candidates(run), ALPHA, by_n=False).picks
        tables.append(picks)
    return tables
