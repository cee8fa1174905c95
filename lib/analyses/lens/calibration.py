"""Lens: depths from which choices are called settled, and orders that are told apart."""

from __future__ import annotations

import numpy as np
import pandas as pd

from lib.analyses.lens import orders, stats
from lib.analyses.lens.worlds import LAYERS, ordered_world, settled_margins, settled_world
from lib.planted.checks import COVERAGE, FALSE, POWER, check, many, seeds

PAIRS, SETTLED = 100, 8
MANY, MOST, FEW = 10_000, 800, 200
ORDERS = 199
GROWTH = 3.5
SIZE = f"1 head, {LAYERS} layers, {PAIRS} pairs"
CLAIM = "choices are settled from a depth on"
BEFORE = (
    ("chosen and rejected are exchanged at random per pair before that depth", 0.5),
    (f"before that depth exactly {stats.ALIKE:.0%} are as at the end", stats.ALIKE),
)


def checks(draws: int, seed: int) -> list[dict]:
    """Rows on settled depths, on the interval of the median depth, and on random orders."""
    rows = []
    for world, before in BEFORE:
        rows.append(
            check(
                CLAIM,
                f"{world}; {SIZE}",
                "false-positive rate",
                _settled(before, draws, seed) < SETTLED,
                at_most=FALSE,
                note="a depth before the true one",
            )
        )
    found = _depths(draws, seed)
    true = _median()
    world = f"98% are as at the end from a depth on, half before it; {SIZE}"
    rows += [
        check(CLAIM, world, "power", found["settled"].to_numpy() <= SETTLED, at_least=POWER),
        check(
            "the interval holds the median depth from which margins stay",
            world,
            "coverage",
            ((found["stays_low"] <= true) & (found["stays_high"] >= true)).to_numpy(),
            at_least=COVERAGE[0],
            note="depths are whole, so it holds more than it need",
        ),
    ]
    none, late = (
        _verdicts(growth, draws, most, seed) for growth, most in ((0, MOST), (GROWTH, FEW))
    )
    return [
        *rows,
        check(
            "margins are made later, or earlier, than in random order",
            f"layers differ, and their place says nothing; {SIZE}",
            "false-positive rate",
            none != orders.NEITHER,
            at_most=FALSE,
        ),
        check(
            "margins are made later, or earlier, than in random order",
            f"the last layers write {np.exp(GROWTH):.0f} times as much as the first; {SIZE}",
            "power",
            late == orders.LATER,
            at_least=POWER,
        ),
    ]


def _settled(before: float, draws: int, seed: int) -> np.ndarray:
    """The depth that is called settled in each world, without the rest of the page's table."""
    worlds = (
        settled_margins(SETTLED, before, 1.0, pairs=PAIRS, seed=each)
        for each in seeds(seed, f"lens/settled/{before}", many(draws, MANY))
    )
    return np.asarray([stats.settled(each, np.arange(PAIRS)) for each in worlds])


def _depths(draws: int, seed: int) -> pd.DataFrame:
    one = seeds(seed, "lens/depths", many(draws, FEW))
    worlds = (settled_world(SETTLED, 0.5, 0.98, pairs=PAIRS, seed=each) for each in one)
    return pd.concat([stats.depths(world, seed=0) for world in worlds], ignore_index=True)


def _median() -> float:
    """The median depth in a world of very many pairs."""
    margins = settled_margins(SETTLED, 0.5, 0.98, pairs=200_000)
    return float(np.median(stats.reached(margins[..., None])[1]))


def _verdicts(growth: float, draws: int, most: int, seed: int) -> np.ndarray:
    one = seeds(seed, f"lens/order/{growth}", many(draws, most))
    worlds = (ordered_world(growth, pairs=PAIRS, seed=each) for each in one)
    return np.asarray([orders.order(each, orders=ORDERS)["verdict"].iloc[0] for each in worlds])
