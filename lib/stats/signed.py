"""Means over prompts of what has a sign: an interval, an exact test, and how steady the sign is.

If which response of a pair is called better says nothing of a quantity, each prompt's value is
as likely as its negative. The null distribution of the sum over all 2^G patterns of signs is
found exactly, by adding one prompt at a time, on values that are rounded first.

Rounding takes nothing from exactness: it is odd, so a rounded value is as likely as its
negative as well. Values move by at most 1/256 of the column's largest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from lib.stats import proportions

STEPS = 128  # of the largest value of a column


def per_prompt(values: np.ndarray, prompt: np.ndarray) -> np.ndarray:
    """Each prompt's mean of its comparisons: (comparisons, …) to (prompts, …)."""
    totals, sizes = proportions.by_prompt(np.asarray(values, float), prompt)
    return totals / sizes.reshape(-1, *[1] * (totals.ndim - 1))


def flipped(values: np.ndarray) -> np.ndarray:
    """Two-sided p of each column's sum under random signs of its rows.

    Parameters
    ----------
    values
        One a prompt, shape (prompts, …).

    Returns
    -------
    numpy.ndarray
        P(|S| ≥ |observed|), of the trailing shape; 1 for a column of zeros, NaN for one that
        holds no number somewhere.

    Notes
    -----
    Exact for values rounded to ``STEPS`` of the column's largest. Checked against enumeration of
    all patterns of signs, and against ``lib.stats.permutation.sign_flip`` on whole numbers.
    """
    values = np.asarray(values, float)
    columns = values.reshape(len(values), -1).T
    return np.asarray([_flipped(column) for column in columns]).reshape(values.shape[1:])


def _flipped(column: np.ndarray) -> float:
    most = np.abs(column).max(initial=0.0)
    if not np.isfinite(most):
        return np.nan
    if most == 0:
        return 1.0
    whole = np.rint(column / most * STEPS).astype(int)
    sizes = np.sort(np.abs(whole[whole != 0]))
    # Sums from −S to S; after each prompt all of the sum's parity, so every second is kept.
    mass = np.ones(1)
    for size in sizes:
        grown = np.zeros(len(mass) + size)
        grown[size:] = mass
        grown[: len(mass)] += mass
        mass = grown / 2
    # Entry i is the sum 2i − S, and S is the sum of sizes.
    least = (sizes.sum() + abs(int(whole.sum()))) // 2
    return float(min(1.0, 2 * mass[least:].sum())) if whole.sum() else 1.0


@dataclass(frozen=True)
class Signed:
    """Means with their intervals and tests; each field has the trailing shape of the values.

    ``same`` is the share of prompts whose value has the sign of the mean, zeros counted half.
    """

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    p: np.ndarray
    same: np.ndarray


def signed(values: np.ndarray, level: float = 0.95) -> Signed:
    """Mean over prompts with its t interval, the sign-flip test, and how steady the sign is.

    Parameters
    ----------
    values
        One a prompt (``per_prompt``), shape (prompts, …).
    level
        Of the intervals.

    Notes
    -----
    The interval is mean ± t · sd/√G on G − 1 degrees of freedom; infinite for one prompt.
    Checked against ``scipy.stats.ttest_1samp(...).confidence_interval()``.
    """
    values = np.asarray(values, float)
    count = len(values)
    mean = values.mean(axis=0)
    if count < 2:
        half = np.full_like(mean, np.inf)
    else:
        spread = values.std(axis=0, ddof=1) / np.sqrt(count)
        half = stdtrit(count - 1, (1 + level) / 2) * spread
    same = (1 + np.sign(values) * np.sign(mean)).mean(axis=0) / 2
    return Signed(mean, mean - half, mean + half, flipped(values), same)
