"""Models compared: differences told between equal models or two and a copy with noise, those that
are there, shared failures, depths.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
from scipy.stats import norm

from lib.planted.checks import COVERAGE, FALSE, POWER, check, generator, many
from lib.planted.worlds import model_wins
from lib.summary.compare import agreement, lens
from lib.summary.compare.stats import judged, paired

ALPHA = 0.05
WITHIN = 0.05  # of the power that the page tells
RATE = 0.65  # of models that are equal
DATASETS = 3  # in the family
PROMPTS, ROWS = 150, 3
FOUND = ("higher", "lower")
HARD = 0.45  # rate on a subset where both models win less
ALIKE = 0.5  # correlation of the normals behind two models' errors
PERMUTED = 299
SURE = 0.8  # rate of a model that gets noise
TRIED = 8  # worlds in which an MDE is looked up
LAYERS = 12  # of two models whose depths are paired
LENSES = 80  # prompts that both have a lens of


def checks(draws: int, seed: int) -> list[dict]:
    """Rows on pairs of models."""
    world = f"{DATASETS} data sets of {PROMPTS} prompts of {ROWS}, half alike"
    equal = _judged(many(draws, 400), seed, "equal", RATE)
    three = _three(many(draws, 300), seed)
    mde = float(equal["mde"].median())
    better = _judged(many(draws, 400), seed, "better", RATE + mde)
    first = better["dataset"] == 0
    return [
        *_agreement(draws, seed),
        *_noisy(draws, seed),
        *_later(draws, seed),
        check(
            "one model ranks more than another",
            f"both win {RATE} everywhere; {world}",
            "false-positive rate",
            equal["verdict"].isin(FOUND).groupby(equal["draw"]).any().to_numpy(),
            at_most=FALSE,
        ),
        check(
            "one model ranks more than another",
            f"3 models win {RATE} everywhere; {world}",
            "false-positive rate",
            three["verdict"].isin(FOUND).groupby(three["draw"]).any().to_numpy(),
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


def _three(draws: int, seed: int) -> pd.DataFrame:
    """Three models that win equally often, each two of them on each data set: one family."""
    source = generator(seed, "comparing/three")
    prompt = np.repeat(np.arange(PROMPTS), ROWS)
    tables = []
    for draw in range(draws):
        rows = []
        for dataset in range(DATASETS):
            won = model_wins(source, PROMPTS, ROWS, [RATE] * 3).T
            rows += [
                {"dataset": dataset} | paired(*two, prompt, ALPHA) for two in combinations(won, 2)
            ]
        tables.append(judged(pd.DataFrame(rows), ALPHA).assign(draw=draw))
    return pd.concat(tables, ignore_index=True)


def _noisy(draws: int, seed: int) -> list[dict]:
    """A model beside its own scores with noise: more noise, until the page would find it."""
    prompt = np.repeat(np.arange(PROMPTS), ROWS)

    def drawn(source: np.random.Generator, noise: float) -> pd.DataFrame:
        rows = []
        for dataset in range(DATASETS):
            own, more = source.standard_normal((2, len(prompt)))
            margin = norm.ppf(SURE) + own
            other = margin + noise * more if dataset == 0 else margin
            won = (np.stack([margin, other]) > 0).astype(float)
            rows.append({"dataset": dataset} | paired(*won, prompt, ALPHA))
        return judged(pd.DataFrame(rows), ALPHA)

    source = generator(seed, "comparing/noise/how much")
    for noise in np.arange(0.2, 3, 0.05):
        lost = SURE - norm.cdf(norm.ppf(SURE) / np.hypot(1, noise))
        stated = np.nanmedian([drawn(source, noise)["mde"][0] for _ in range(TRIED)])
        if lost >= stated:
            break
    source = generator(seed, "comparing/noise")
    verdicts = np.asarray([drawn(source, noise)["verdict"] for _ in range(many(draws, 300))])
    world = f"a copy with noise loses {lost:.3f} on 1 of {DATASETS} data sets of {len(prompt)} rows"
    return [
        check(
            "a model ranks more than itself with noise, at the stated MDE",
            world,
            "power",
            verdicts[:, 0] == "higher",
            at_least=POWER - WITHIN,
            at_most=POWER + WITHIN,
        ),
        check(
            "a model ranks more than its own copy",
            world,
            "false-positive rate",
            np.isin(verdicts[:, 1:], FOUND).any(axis=1),
            at_most=0.0,
        ),
    ]


def _agreement(draws: int, seed: int) -> list[dict]:
    """Models whose errors are independent, though one subset is harder, and some that share."""
    rows = []
    for size in (1, ROWS):
        made = f"2 subsets of {PROMPTS} prompts of {size}, one with more errors"
        independent, correlated = f"errors are independent; {made}", f"errors correlate; {made}"
        apart = _shared(many(draws, 400 // size), seed, size, 0.0)
        alike = _shared(many(draws, 60), seed, size, ALIKE)
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


def _later(draws: int, seed: int) -> list[dict]:
    """Models whose margins stay from the same part of the layers on, or from a later one."""
    world = f"{LAYERS} layers, {DATASETS} data sets of {LENSES} prompts"
    equal = _depths(many(draws, 2000), seed, 0.0)
    mde = float(equal["mde"].median())
    apart = _depths(many(draws, 2000), seed, mde)
    first = apart["dataset"] == 0
    told = equal["verdict"].isin([lens.LATER, lens.EARLIER]).groupby(equal["draw"]).any()
    claim = "margins of one model are made later, as a share of its layers"
    return [
        check(
            claim,
            f"either model is as likely to be later by as much; {world}",
            "false-positive rate",
            told.to_numpy(),
            at_most=FALSE,
        ),
        check(
            f"{claim}, at the stated MDE",
            f"one is later by {mde:.3f} on 1 of them; {world}",
            "power",
            (apart.loc[first, "verdict"] == lens.LATER).to_numpy(),
            at_least=POWER - WITHIN,
            at_most=POWER + WITHIN,
        ),
        check(
            "the interval holds the difference of depths",
            f"one is later by {mde:.3f} on 1 of them; {world}",
            "coverage",
            ((apart["low"] <= mde) & (mde <= apart["high"]))[first].to_numpy(),
            at_least=COVERAGE[0],
            at_most=COVERAGE[1],
        ),
    ]


def _depths(draws: int, seed: int, later: float) -> pd.DataFrame:
    """Depths of two models on a family of data sets; the first is later on the first of them."""
    source = generator(seed, f"comparing/depths/{later > 0}")
    prompt = np.arange(LENSES)
    tables = []
    for draw in range(draws):
        rows = []
        for dataset in range(DATASETS):
            # a prompt's own depth, well within the layers, and what each model adds to it
            shared = source.beta(4, 4, LENSES) * 0.4 + 0.3
            mine, theirs = (
                np.rint((shared + 0.1 * source.standard_normal(LENSES)) * LAYERS) / LAYERS
                for _ in range(2)
            )
            steps = later * (dataset == 0) * LAYERS
            moved = np.floor(steps) + (source.random(LENSES) < steps % 1)
            mine = mine + moved / LAYERS
            rows.append({"dataset": dataset} | lens.paired(mine, theirs, prompt, ALPHA))
        tables.append(lens.judged(pd.DataFrame(rows), ALPHA).assign(draw=draw))
    return pd.concat(tables, ignore_index=True)
