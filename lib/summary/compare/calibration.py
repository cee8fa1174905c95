"""Models compared: differences told between equal models, those that are there, shared failures."""

from __future__ import annotations

import numpy as np
import pandas as pd

from lib.planted.checks import COVERAGE, FALSE, POWER, check, generator, many
from lib.planted.worlds import model_wins
from lib.summary.compare import agreement
from lib.summary.compare.stats import judged, paired

ALPHA = 0.05
WITHIN = 0.05  # of the power that the page tells
RATE = 0.65  # of models that are equal
DATASETS = 3  # in the family
PROMPTS, ROWS = 150, 3
FOUND = ("higher", "lower")
HARD = 0.45  # rate on a subset where both models win less
ALIKE = 0.5  # correlation of the normals behind two models' errors
PERMUTED = 999


def checks(draws: int, seed: int) -> list[dict]:
    """Rows on pairs of models."""
    world = f"{DATASETS} data sets of {PROMPTS} prompts of {ROWS}, half alike"
    equal = _judged(many(draws, 600), seed, "equal", RATE)
    mde = float(equal["mde"].median())
    better = _judged(many(draws, 600), seed, "better", RATE + mde)
    first = better["dataset"] == 0
    return [
        *_agreement(draws, seed),
        check(
            "one model ranks more than another",
            f"both win {RATE} everywhere; {world}",
            "false-positive rate",
            equal["verdict"].isin(FOUND).groupby(equal["draw"]).any().to_numpy(),
            at_most=FALSE,
        ),
        check(
            "one model ranks more, at the stated MDE",
            f"one wins {RATE} + {mde:.3f} on 1 of {world}",
            "power",
            (better.loc[first, "verdict"] == "higher").to_numpy(),
            at_least=POWER - WITHIN,
            at_most=POWER + WITHIN,
        ),
        check(
            "the interval holds the difference",
            f"one wins {RATE} + {mde:.3f} on 1 of {world}",
            "coverage",
            ((better["low"] <= mde) & (mde <= better["high"]))[first].to_numpy(),
            at_least=COVERAGE[0],
            at_most=COVERAGE[1],
        ),
    ]


def _judged(draws: int, seed: int, name: str, rate: float) -> pd.DataFrame:
    """Pairs of models on a family of data sets, judged as the page judges them.

    The first model wins ``rate`` on the first data set and ``RATE`` on the others.
    """
    source = generator(seed, f"comparing/{name}")
    prompt = np.repeat(np.arange(PROMPTS), ROWS)
    tables = []
    for draw in range(draws):
        rows = []
        for dataset in range(DATASETS):
            rates = [rate if dataset == 0 else RATE, RATE]
            won = model_wins(source, PROMPTS, ROWS, rates)
            rows.append({"dataset": dataset} | paired(*won.T, prompt, ALPHA))
        tables.append(judged(pd.DataFrame(rows), ALPHA).assign(draw=draw))
    return pd.concat(tables, ignore_index=True)


def _agreement(draws: int, seed: int) -> list[dict]:
    """Models whose errors are independent, though one subset is harder, and some that share."""
    rows = []
    for size in (1, ROWS):
        made = f"2 subsets of {PROMPTS} prompts of {size}, one with more errors"
        independent, correlated = f"errors are independent; {made}", f"errors correlate; {made}"
        apart = _shared(many(draws, 600), seed, size, 0.0)
        alike = _shared(many(draws, 300), seed, size, ALIKE)
        found = apart["verdict"].isin([agreement.TOGETHER, agreement.APART])
        inside = (apart["low"] <= 0) & (apart["high"] >= 0)
        claim = "two models share failures"
        said = found.groupby(apart["draw"]).any().to_numpy()
        told = (alike["verdict"] == agreement.TOGETHER).to_numpy()
        low, high = COVERAGE
        rows += [
            check(claim, independent, "false-positive rate", said, at_most=FALSE),
            check(claim, correlated, "power", told, at_least=POWER),
            check(
                "the interval holds κ",
                independent,
                "coverage",
                inside.to_numpy(),
                at_least=low,
                at_most=high,
            ),
        ]
    return rows


def _shared(draws: int, seed: int, size: int, alike: float) -> pd.DataFrame:
    """A pair of models on a family of data sets, judged as the page judges them."""
    source = generator(seed, f"comparing/shared/{size}/{alike}")
    prompt = np.repeat(np.arange(2 * PROMPTS), size)
    subset = np.repeat([0, 1], PROMPTS * size)
    tables = []
    for draw in range(draws):
        rows = []
        for dataset in range(DATASETS):
            wins = [model_wins(source, PROMPTS, size, [r, r], alike) for r in (RATE, HARD)]
            wrong = np.concatenate(wins) == 0
            one = agreement.shared(*wrong.T, prompt, subset, draws=PERMUTED, seed=draw)
            rows.append({"dataset": dataset, "note": ""} | one)
        columns = [*agreement.AGREEMENT, "scale"]
        found = pd.DataFrame(rows).reindex(columns=columns)
        tables.append(agreement.judged(found, ALPHA).assign(draw=draw))
    return pd.concat(tables, ignore_index=True)
