"""Directions of concepts: are they in the states, and do heads read along them?

A direction is the mean difference of the states of matched pairs.

``found``      does a direction from half of the prompts rank the pairs of the other half?
``by_layer``   the same along the depth of the model, without a test
``alignment``  does a head pay for the concept, and what is its cosine with the direction?
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import stdtrit

from lib.analyses.concepts.cosines import jackknife, left_out, squared_length
from lib.analyses.concepts.pairs import SPLITS, Pairs, halves, pairs, within
from lib.stats import permutation, proportions, signed

FLIPS = 1999
UNLIKE = "scores that are not numbers, or equal"
FOUND = ("found", "only as length", "not shown", "undefined")
PAID = ("for", "against", "only as length", "not shown", "undefined")
_FOUND = ["concept", "n", "accuracy", "low", "high", "p", "p_adjusted", "auroc", "without_length"]
_FOUND += ["p_without_length", "p_without_adjusted", "length", "halves", "verdict", "note"]
_ALIGNED = ["concept", "head", "n", "gap", "gap_low", "gap_high", "p", "p_adjusted"]
_ALIGNED += ["gap_without_length", "p_without_length", "p_without_adjusted", "published", "cosine"]
_ALIGNED += ["low", "high", "verdict", "note"]


def found(
    run: xr.Dataset,
    *,
    flips: int = FLIPS,
    splits: int = SPLITS,
    alpha: float = 0.05,
    seed: int = 0,
) -> pd.DataFrame:
    """Does the mean difference of half of the pairs rank the other half?

    Parameters
    ----------
    run
        A Run with states, whose criteria are concepts.
    flips
        Draws of the null: better and worse exchanged at random in each pair, all of it done
        again.
    splits
        Random halvings of the prompts; each half serves the other.
    alpha
        Level of the intervals and of each family of tests.
    seed
        Of halves and flips.

    Returns
    -------
    pandas.DataFrame
        One row a concept: ``concept``, ``n`` (prompts), ``accuracy`` (share of held-out pairs
        ranked rightly) with ``low`` and ``high`` (Wilson), ``p`` (one-sided) and ``p_adjusted``
        (Holm over concepts), ``auroc`` (of held-out responses of different prompts),
        ``without_length`` (the accuracy with length taken out) with its ``p_without_length``
        and ``p_without_adjusted``, ``length`` (of length alone), ``halves`` (mean cosine of the
        directions of two halves), ``verdict`` (of ``FOUND``) and ``note``.

    Notes
    -----
    If labels say nothing, each pair's difference is as likely as its negative, so the accuracy
    and those of ``flips`` exchanged draws are exchangeable: p = (1 + #{a_f ≥ a})/(1 + flips).
    ``found`` needs both tests, with length left in and taken out.
    """
    rows = []
    for number, asked in enumerate(pairs(run)):
        row = {"concept": asked.concept, "n": len(asked), "note": asked.note}
        if not asked.note:
            row |= _ranked(asked, flips, splits, alpha, seed + number)
        rows.append(row)
    table = pd.DataFrame(rows).reindex(columns=_FOUND)
    for p, adjusted in (("p", "p_adjusted"), ("p_without_length", "p_without_adjusted")):
        table[adjusted] = permutation.holm(table[p].to_numpy(float))
    some, rest = table["p_adjusted"] < alpha, table["p_without_adjusted"] < alpha
    kinds = [table["accuracy"].isna(), some & rest, some]
    names = ["undefined", "found", "only as length"]
    table["verdict"] = np.select(kinds, names, "not shown")
    return table


def _ranked(asked: Pairs, flips: int, splits: int, alpha: float, seed: int) -> dict:
    difference, n = asked.difference, len(asked)
    products, cut = difference @ difference.T, halves(n, splits, seed)
    drawn = np.random.default_rng([seed, 3]).random((n, flips)) < 0.5
    signs = np.column_stack([np.ones(n), np.where(drawn, -1.0, 1.0)])
    right = _right(products, None, signs, cut)
    left = _right(products, asked.length, signs, cut)
    apart = np.outer(asked.length, asked.length)
    interval = proportions.wilson(right[:, 0], np.ones(n), 1 - alpha)
    accuracy, without = right.mean(axis=0), left.mean(axis=0)
    return {
        "accuracy": accuracy[0],
        "low": float(interval.low),
        "high": float(interval.high),
        "p": _beyond(accuracy),
        "auroc": _auroc(asked, cut),
        "without_length": without[0],
        "p_without_length": _beyond(without),
        "length": _right(apart, None, signs[:, :1], cut).mean(),
        "halves": _agreement(products, cut),
    }


def _right(products, length, signs, cut) -> np.ndarray:
    """Share of halvings in which each prompt's pair is ranked rightly, shape (prompts, draws)."""
    total, size = np.zeros(signs.shape), np.zeros(len(signs))
    for fit, tried in cut:
        margin = within(products, length, fit, tried) @ signs[fit] * signs[tried]
        scale = 1e-9 * max(np.abs(products).max(), 1e-300)
        total[tried] += np.where(np.abs(margin) <= scale, 0.5, margin > 0)
        size[tried] += 1
    return total / size[:, None]


def _beyond(accuracy: np.ndarray) -> float:
    """Of the first among exchangeable ones its p; ties, of which there are many, count."""
    return float((accuracy >= accuracy[0] - 1e-9).mean())


def _auroc(asked: Pairs, cut) -> float:
    """Held-out responses of different prompts: how often is the one with more ranked higher?"""
    share = []
    for fit, tried in cut:
        direction = asked.difference[fit].mean(axis=0)
        more, less = asked.high[tried] @ direction, asked.low[tried] @ direction
        apart = ~np.eye(len(tried), dtype=bool)
        share.append((np.sign(more[:, None] - less)[apart].mean() + 1) / 2)
    return float(np.mean(share))


def _agreement(products: np.ndarray, cut) -> float:
    cosines = []
    for a, b in cut[::2]:
        across, one, other = (products[np.ix_(x, y)].mean() for x, y in ((a, b), (a, a), (b, b)))
        cosines.append(across / np.sqrt(one * other) if one * other > 0 else np.nan)
    return float(np.nanmean(cosines)) if np.isfinite(cosines).any() else np.nan


def by_layer(
    run: xr.Dataset, *, splits: int = SPLITS, alpha: float = 0.05, seed: int = 0
) -> pd.DataFrame:
    """``found`` at the last token's residual stream of every depth, without a test.

    Returns
    -------
    pandas.DataFrame
        One row a concept and depth: ``concept``, ``depth`` (0: as it enters the first layer),
        ``n``, ``accuracy`` with ``low`` and ``high`` (Wilson, one at a time) and
        ``without_length``. Empty for a run without the states of layers.
    """
    columns = ["concept", "depth", "n", "accuracy", "low", "high", "without_length"]
    rows = []
    for depth in range(run.sizes.get("layer", 0)):
        for number, asked in enumerate(pairs(run, run["layer_hidden"].values[:, depth])):
            if asked.note:
                continue
            cut, ones = halves(len(asked), splits, seed + number), np.ones((len(asked), 1))
            products = asked.difference @ asked.difference.T
            right = _right(products, None, ones, cut)[:, 0]
            left = _right(products, asked.length, ones, cut)
            interval = proportions.wilson(right, np.ones(len(right)), 1 - alpha)
            numbers = (right.mean(), float(interval.low), float(interval.high), left.mean())
            rows.append((asked.concept, depth, len(asked), *numbers))
    table = pd.DataFrame(rows, columns=columns)
    return table.sort_values(["concept", "depth"], kind="stable", ignore_index=True)


def alignment(
    run: xr.Dataset, weight: np.ndarray | None = None, *, alpha: float = 0.05
) -> pd.DataFrame:
    """Does a head pay for a concept, and how does it lie to the concept's direction?

    Parameters
    ----------
    run
        A Run with states.
    weight
        Head weights, shape (heads, features); without them there is no cosine.
    alpha
        Level of the intervals and of each family of tests.

    Returns
    -------
    pandas.DataFrame
        One row a concept and head: ``concept``, ``head``, ``n`` (prompts), ``gap`` (mean, in
        standard deviations of the head's scores) with ``gap_low`` and ``gap_high`` (t), ``p``
        (exact sign flip) and ``p_adjusted`` (Holm over concepts × heads),
        ``gap_without_length`` with ``p_without_length`` and ``p_without_adjusted``,
        ``published`` (cosine of the head with the mean difference), ``cosine`` (the same with
        the direction's length estimated without bias) with ``low`` and ``high`` (jackknife over
        prompts), ``verdict`` (of ``PAID``) and ``note``.

    Notes
    -----
    A head is linear in the state, so w · mean(d) is its mean gap: what a cosine can say about a
    head beyond its gap is scale. |mean(d)|² is too large by the scatter of d over n, so the
    published cosine shrinks with it; here it is (|Σd|² − Σ|d|²)/(n(n − 1)), whose expectation is
    |E d|². Where that isn't above 0, with all prompts or without one of them, the direction can't
    be told from nothing, and there is no cosine. Length is taken
    out of the gaps by their slope on the difference of log lengths through the origin, which no
    exchange of better and worse changes.
    """
    sd = run["score"].values.astype(float).std(axis=0)
    sd = np.where(sd > 0, sd, np.nan)
    heads, tables = run["head"].values, [pd.DataFrame(columns=_ALIGNED)]
    for asked in pairs(run):
        cells = {"concept": asked.concept, "head": heads, "n": len(asked), "note": asked.note}
        if not asked.note:
            cells |= _aligned(asked, sd, weight, alpha)
            cells["note"] = np.where(np.isfinite(cells["gap"]), "", UNLIKE).astype(object)
        tables.append(pd.DataFrame(cells))
    table = pd.concat(tables[1:] or tables, ignore_index=True).reindex(columns=_ALIGNED)
    for p, adjusted in (("p", "p_adjusted"), ("p_without_length", "p_without_adjusted")):
        table[adjusted] = permutation.holm(table[p].to_numpy(float))
    some, rest = table["p_adjusted"] < alpha, table["p_without_adjusted"] < alpha
    both = some & rest & (np.sign(table["gap"]) == np.sign(table["gap_without_length"]))
    kinds = [table["gap"].isna(), both & (table["gap"] > 0), both, some]
    names = ["undefined", "for", "against", "only as length"]
    table["verdict"] = np.select(kinds, names, "not shown")
    return table


def _aligned(asked: Pairs, sd: np.ndarray, weight: np.ndarray | None, alpha: float) -> dict:
    gap = asked.gap / sd
    length = asked.length
    square = length @ length
    rest = gap - np.outer(length, length @ gap / square) if square > 0 else gap
    test, left = signed.signed(gap, 1 - alpha), signed.signed(rest, 1 - alpha)
    out = {"gap": test.mean, "gap_low": test.low, "gap_high": test.high, "p": test.p}
    out |= {"gap_without_length": left.mean, "p_without_length": left.p}
    if weight is None:
        return out
    return out | _cosines(asked.difference, weight, alpha)


def _cosines(difference: np.ndarray, weight: np.ndarray, alpha: float) -> dict:
    n = len(difference)
    size = np.linalg.norm(weight, axis=1, keepdims=True)
    unit = weight / np.where(size > 0, size, np.nan)
    along = difference @ unit.T
    products = difference @ difference.T
    published = along.mean(axis=0) / np.linalg.norm(difference.mean(axis=0))
    cosine = along.mean(axis=0) / np.sqrt(squared_length(products))
    without = (along.sum(axis=0) - along) / (n - 1) / np.sqrt(left_out(products))[:, None]
    half = stdtrit(n - 1, 1 - alpha / 2) * jackknife(without)
    cosine = np.where(np.isfinite(half), cosine, np.nan)
    low, high = np.clip(cosine - half, -1, 1), np.clip(cosine + half, -1, 1)
    return {"published": published, "cosine": cosine, "low": low, "high": high}
