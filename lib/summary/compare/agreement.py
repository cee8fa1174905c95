"""Do two models fail on the same comparisons? From who won each, without running either.

On one comparison a model is right or wrong. Of n comparisons in subset s let p_s and q_s be the
shares that the models get wrong and r_s the share that both do. With weights n_s/n

    κ = 2 Σ w_s (r_s − p_s q_s) / Σ w_s (p_s + q_s − 2 p_s q_s),

Cohen's (1960) κ of the two models' choices with what their accuracies in each subset give taken
out; it is above 0 just where both are wrong more often than independent errors would be. A subset
that is hard for every model doesn't count as a shared failure. Comparisons on which either ties are
left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd
from scipy import stats

from lib.stats import permutation
from lib.stats.proportions import clustered
from lib.stats.winrates import POWER
from lib.summary.compare.stats import (
    KEY,
    NO_NUMBERS,
    NOTHING_SHARED,
    common,
    kept_outcomes,
    shared_datasets,
)
from lib.summary.tables import Tables

AGREEMENT = ("model", "other", "dataset", "n", "prompts", "ties", "wrong", "other_wrong")
AGREEMENT += ("both_wrong", "expected", "kappa", "low", "high", "p", "p_adjusted", "mde", "verdict")
AGREEMENT += ("note",)
TOGETHER, APART, NOT_SHOWN = "fail together", "fail apart", "not shown"
UNDEFINED = "undefined"
NEVER = "a model is never wrong, or always, in every subset"


def agreement(
    given: Sequence[Tables], *, draws: int = 9_999, seed: int = 0, alpha: float = 0.05
) -> pd.DataFrame:
    """Agreement and shared failures of every two models on each dataset of both.

    Parameters
    ----------
    given
        Tables of two models or more.
    draws, seed
        Of the permutation test where prompts have several comparisons.
    alpha
        Level of the intervals, one by one, and of the family: all rows.

    Returns
    -------
    pandas.DataFrame
        One row a pair of models and dataset of both: ``model``, ``other``, ``dataset``, ``n``
        (comparisons in common that neither ties), ``prompts``, ``ties`` (comparisons left out),
        ``wrong`` and ``other_wrong`` (shares), ``both_wrong`` (share) and ``expected`` (what
        independent errors give), ``kappa`` with ``low`` and ``high`` (delta method, t, prompts as
        clusters), ``p`` (two-sided), ``p_adjusted`` (Holm over the table), ``mde`` (the κ that
        would be found with power .8 at α/m, by the normal theory of the permuted ones),
        ``verdict`` (``fail together``, ``fail apart``, ``not shown``, ``undefined``) and ``note``.
    """
    rows = []
    for one, other in combinations(given, 2):
        for dataset in shared_datasets(one, other):
            row = {"model": one.model, "other": other.model, "dataset": dataset, "note": ""}
            found = [kept_outcomes(each, dataset) for each in (one, other)]
            notes = [
                f"{each} ({name})"
                for name, each in zip((one.model, other.model), found, strict=True)
                if isinstance(each, str)
            ]
            if notes:
                rows.append(row | {"n": 0, "note": "; ".join(notes)})
                continue
            rows.append(row | _row(common(*found), draws, seed, alpha))
    return judged(pd.DataFrame(rows).reindex(columns=[*AGREEMENT, "scale"]), alpha)


def _row(both: pd.DataFrame, draws: int, seed: int, alpha: float) -> dict:
    if both.empty:
        return {"n": 0, "note": NOTHING_SHARED}
    both = both.sort_values(KEY, kind="stable")
    mine, theirs = both["outcome"].to_numpy(float), both["outcome_other"].to_numpy(float)
    if not (np.isfinite(mine).all() and np.isfinite(theirs).all()):
        return {"n": len(both), "note": NO_NUMBERS}
    decided = (mine != 0.5) & (theirs != 0.5)
    left = {"ties": int((~decided).sum())}
    if not decided.any():
        return left | {"n": 0, "note": NOTHING_SHARED}
    _, prompt = np.unique(both["prompt"].to_numpy(str)[decided], return_inverse=True)
    _, subset = np.unique(both["subset"].to_numpy(str)[decided], return_inverse=True)
    return left | shared(
        mine[decided] == 0,
        theirs[decided] == 0,
        prompt,
        subset,
        draws=draws,
        seed=seed,
        alpha=alpha,
    )


def shared(
    wrong: np.ndarray,
    other: np.ndarray,
    prompt: np.ndarray,
    subset: np.ndarray | None = None,
    *,
    draws: int = 9_999,
    seed: int = 0,
    alpha: float = 0.05,
) -> dict:
    """κ of two models, its interval, and p of the failures that they share.

    Parameters
    ----------
    wrong, other
        Is each model wrong, shape (comparisons,); rows of a prompt in one order for all prompts.
    prompt, subset
        Integers from 0, shape (comparisons,); one subset by default.

    Returns
    -------
    dict
        Columns of ``agreement``, and ``scale``: the standard deviation of κ under the null.

    Notes
    -----
    Which of the other model's prompts stand beside which is exchanged at random among prompts
    with the same subsets and number of comparisons, so what each model gets wrong stays as it is.
    With one comparison a prompt and one subset the count of both is hypergeometric, and p is
    exact: twice the smaller tail. κ and its standard error are checked against
    ``statsmodels.stats.inter_rater.cohens_kappa``, moments against enumeration.
    """
    subset = np.zeros(len(wrong), int) if subset is None else subset
    a, b = np.asarray(wrong, float), np.asarray(other, float)
    p, q, r = (_by(subset, each) for each in (a, b, a * b))
    below = (p + q - 2 * p * q).mean()
    row = {"n": len(a), "prompts": int(prompt.max()) + 1}
    row |= {"wrong": a.mean(), "other_wrong": b.mean(), "both_wrong": (a * b).mean()}
    blocks = _blocks(a, b, prompt, subset)
    count, mean, variance = _moments(blocks)
    row |= {"expected": mean / len(a)}
    if below <= 0 or variance <= 0:
        return row | {"note": NEVER}
    kappa = 2 * (r - p * q).mean() / below
    lean = 2 * (a * b - r - q * (a - p) - p * (b - q))
    lean -= kappa * ((a - p) * (1 - 2 * q) + (b - q) * (1 - 2 * p))
    around = clustered(lean / below, prompt, 1 - alpha)
    row |= {"kappa": kappa, "low": max(-1.0, kappa + around.low - around.estimate)}
    row |= {"high": min(1.0, kappa + around.high - around.estimate)}
    if len(blocks) == 1 and blocks[0].shape == (len(a), len(a)):
        known = stats.hypergeom(len(a), int(a.sum()), int(b.sum()))
        tail = min(known.cdf(round(count)), known.sf(round(count) - 1))
        row |= {"p": min(1.0, 2 * float(tail))}
    else:
        null = _permuted(blocks, draws, seed)
        far = np.abs(null - mean) >= abs(count - mean) - 1e-9
        row |= {"p": float((1 + far.sum()) / (1 + draws))}
    return row | {"scale": 2 * np.sqrt(variance) / (len(a) * below)}


def judged(table: pd.DataFrame, alpha: float = 0.05) -> pd.DataFrame:
    """``p_adjusted``, ``mde`` and ``verdict`` of a family of rows of ``shared``.

    ``scale`` is dropped.
    """
    table = table.copy()
    table["p_adjusted"] = permutation.holm(table["p"].to_numpy(float))
    family = max(1, int(table["p"].notna().sum()))
    least = stats.norm.ppf(1 - alpha / family / 2) + stats.norm.ppf(POWER)
    mde = least * table.pop("scale").to_numpy(float)
    table["mde"] = np.where(mde <= 1, mde, np.nan)
    found = table["p_adjusted"] < alpha
    kinds = [table["p"].isna(), found & (table["both_wrong"] > table["expected"]), found]
    table["verdict"] = np.select(kinds, [UNDEFINED, TOGETHER, APART], NOT_SHOWN)
    return table


def _by(subset: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Each row's mean over its subset."""
    return (np.bincount(subset, values) / np.maximum(np.bincount(subset), 1))[subset]


def _blocks(a: np.ndarray, b: np.ndarray, prompt: np.ndarray, subset: np.ndarray) -> list:
    """For prompts with the same subsets: in how many comparisons both would be wrong if prompt i
    of one model stood beside prompt j of the other, shape (prompts, prompts) each.
    """
    order = np.argsort(prompt, kind="stable")
    edges = np.flatnonzero(np.diff(prompt[order])) + 1
    alike: dict[bytes, list[np.ndarray]] = {}
    for rows in np.split(order, edges):
        rows = rows[np.argsort(subset[rows], kind="stable")]
        alike.setdefault(subset[rows].tobytes(), []).append(rows)
    stacked = (np.stack(rows) for rows in alike.values())
    return [(a[rows] @ b[rows].T) for rows in stacked]


def _moments(blocks: list[np.ndarray]) -> tuple[float, float, float]:
    """How many both get wrong, and its mean and variance under random order (Hoeffding 1951)."""
    count = mean = variance = 0.0
    for block in blocks:
        n = len(block)
        count, mean = count + np.trace(block), mean + block.sum() / n
        if n > 1:
            rest = block - block.mean(axis=0) - block.mean(axis=1, keepdims=True) + block.mean()
            variance += (rest**2).sum() / (n - 1)
    return count, mean, variance


def _permuted(blocks: list[np.ndarray], draws: int, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    out = np.zeros(draws)
    for block in blocks:
        place = np.arange(len(block))
        step = max(1, 2_000_000 // len(block))
        for start in range(0, draws, step):
            part = slice(start, min(draws, start + step))
            order = generator.random((part.stop - start, len(block))).argsort(axis=1)
            out[part] += block[place, order].sum(axis=1)
    return out
