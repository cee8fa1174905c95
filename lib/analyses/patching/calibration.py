"""Patching: nodes confirmed where none carries anything, where some do, and where one is undone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import xarray as xr

from lib.analyses.patching import stats
from lib.analyses.patching.worlds import LAYERS, OWN, exchanged, patching_world
from lib.planted.checks import COVERAGE, FALSE, POWER, check, many, seeds

HEADS = 2
PROMPTS = (24, 48, 100)
SIZES = {"mlp 4": 0.5, "mlp 6": 0.75, "mlp 9": 1.0}  # means that are always tried, in sd
CARRIER, DECOY, UNDOES = "attention 5", "attention 7", "mlp 7"
SPREAD = np.sqrt(1 + OWN**2 / 2)  # sd of the mean of noising and denoising, of a node's
NODES = f"{2 * LAYERS} nodes, {HEADS} heads"
FALSE_RATE = "false-positive rate"


def checks(draws: int, seed: int) -> list[dict]:
    """Rows on confirmed nodes, on decoys and on intervals."""
    return [*_labels(draws, seed), *_none(draws, seed), *_decoys(draws, seed), *_power(draws, seed)]


def _labels(draws: int, seed: int) -> list[dict]:
    """Better and worse exchanged at random, so that nothing goes with being better."""

    def world(one: int) -> xr.Dataset:
        return exchanged(patching_world(48, HEADS, carry=SIZES, seed=one), one + 1)

    tables = _judged(world, "exchanged", draws, 600, seed)
    any_one = [table["verdict"].ne(stats.NOT_SHOWN).any() for table in tables]
    told = [table["pulls"].ne("").any() for table in tables]
    said = f"better and worse exchanged at random in each comparison; 48 prompts, {NODES}"
    return [
        check("a node carries or opposes", said, FALSE_RATE, any_one, at_most=FALSE),
        check(
            "a node pulls towards a response",
            said,
            FALSE_RATE,
            told,
            at_most=FALSE,
            note="said whichever side the head's mean margin is on, and if it is on none",
        ),
    ]


def _none(draws: int, seed: int) -> list[dict]:
    """A margin that is told from 0, and nodes that vary with nothing to do with it on average."""
    rows = []
    for prompts in PROMPTS:

        def world(one: int, prompts: int = prompts) -> xr.Dataset:
            return patching_world(prompts, HEADS, seed=one)

        tables = _judged(world, f"none/{prompts}", draws, 1000, seed)
        said = f"nodes carry nothing on average; {prompts} prompts, {NODES}"
        happened = [table["verdict"].ne(stats.NOT_SHOWN).any() for table in tables]
        held = pd.concat([table.iloc[[0]] for table in tables])
        rows += [
            check("a node carries or opposes", said, FALSE_RATE, happened, at_most=FALSE),
            check(
                "the interval of what a node carries",
                said,
                "coverage",
                (held["low"] <= 0) & (held["high"] >= 0),
                at_least=COVERAGE[0],
                at_most=COVERAGE[1],
            ),
        ]
    return rows


def _decoys(draws: int, seed: int) -> list[dict]:
    """A node that carries much, all of which another takes back."""

    def world(one: int) -> xr.Dataset:
        return patching_world(48, HEADS, carry={DECOY: 1.5}, cancel={DECOY: UNDOES}, seed=one)

    tables = _judged(world, "decoy", draws, 400, seed)
    pair = [table.loc[table["node"].isin([DECOY, UNDOES]), "verdict"] for table in tables]
    said = f"one node takes back 1.5 sd that another carries; 48 prompts, {NODES}"
    return [
        check(
            "a node that is taken back is confirmed",
            said,
            FALSE_RATE,
            [rows.eq(stats.CONFIRMED).any() for rows in pair],
            at_most=FALSE,
        ),
        check(
            "the two are called cancelled",
            said,
            "power",
            [rows.eq(stats.CANCELLED).all() for rows in pair],
            at_least=POWER,
        ),
    ]


def _power(draws: int, seed: int) -> list[dict]:
    """A node that carries what the page says it would find, and others of given sizes."""
    rows = []
    for prompts in PROMPTS:
        mean = detectable(prompts)

        def world(one: int, prompts: int = prompts, mean: float = mean) -> xr.Dataset:
            return patching_world(prompts, HEADS, carry=SIZES | {CARRIER: mean}, seed=one)

        tables = _judged(world, f"power/{prompts}", draws, 300, seed)
        found = pd.DataFrame(
            [
                table[table["head"] == "head_0"].set_index("node")["verdict"] == stats.CONFIRMED
                for table in tables
            ]
        )
        rates = ", ".join(f"{size:g} sd {found[name].mean():.0%}" for name, size in SIZES.items())
        rows.append(
            check(
                "a node is confirmed",
                f"it carries {mean:.2f} sd, the stated MDE; {prompts} prompts, {NODES}",
                "power",
                found[CARRIER].to_numpy(),
                at_least=POWER - 0.1,
                note=f"beside it, means of {rates}; a stated MDE is nominal, so .1 is allowed",
            )
        )
    return rows


def detectable(prompts: int) -> float:
    """The mean that the page says it would find, in a node's standard deviations."""
    values = np.zeros((prompts, 1))
    values[: prompts // 2], values[prompts // 2 :] = 1, -1
    values *= SPREAD / values.std(ddof=1)
    return float(stats.detectable(values, stats.ALPHA / (2 * LAYERS * HEADS))[0])


def _judged(
    world: Callable[[int], xr.Dataset], name: str, draws: int, most: int, seed: int
) -> list[pd.DataFrame]:
    """Verdicts in every world."""
    return [
        stats.verdicts(world(one)) for one in seeds(seed, f"patching/{name}", many(draws, most))
    ]
