"""Means over prompts and seeds together, each of which is drawn.

``mean``       of values that every seed has for every prompt, with an interval
``predicted``  where the value of a further seed, or the mean of some, is to be expected
``by_prompt``  comparisons of a prompt as one value
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import stdtr, stdtrit


class Mean(NamedTuple):
    """A mean with its interval; NaN bounds where there is one seed or one prompt."""

    estimate: float
    low: float
    high: float
    p: float  # of no difference from 0, two-sided


def by_prompt(values: np.ndarray, prompt: np.ndarray) -> np.ndarray:
    """Values (seeds, comparisons) to (seeds, prompts), whose mean is that of the comparisons.

    Each is a prompt's sum over the mean number of comparisons a prompt.
    """
    code = np.unique(prompt, return_inverse=True)[1]
    sums = np.stack([np.bincount(code, row) for row in np.asarray(values, float)])
    return sums / (len(prompt) / (code.max() + 1))


def mean(values: np.ndarray, level: float = 0.95) -> Mean:
    """Mean of values that come crossed, seeds with prompts.

    Parameters
    ----------
    values
        Shape (seeds, prompts).
    level
        Of the interval.

    Returns
    -------
    Mean
        With v̄_s, v̄_p the means of each seed and prompt and MS the mean square of what is left
        of a value after both, V = V_S + V_P − V_SP where V_S = var(v̄_s)/S, V_P = var(v̄_p)/P and
        V_SP = MS/(SP), since the first two both hold the third; at least the larger of them
        (Cameron, Gelbach & Miller, 2011, for means). t on Satterthwaite's degrees of freedom,
        (M + V_P)²/(M²/(S − 1) + V_P²/(P − 1)) with M the larger of V_S and V_P: a few seeds that
        lie close by chance don't make the interval short.
    """
    values = np.asarray(values, float)
    n_seeds, n_prompts = values.shape
    estimate = float(values.mean())
    if min(values.shape) < 2:
        return Mean(estimate, np.nan, np.nan, np.nan)
    of_seed, of_prompt = values.mean(axis=1), values.mean(axis=0)
    left = values - of_seed[:, None] - of_prompt + estimate
    seeds, prompts = of_seed.var(ddof=1) / n_seeds, of_prompt.var(ddof=1) / n_prompts
    both = (left**2).sum() / ((n_seeds - 1) * (n_prompts - 1)) / values.size
    variance = max(seeds + prompts - both, seeds, prompts)
    if variance == 0:
        return Mean(estimate, estimate, estimate, float(estimate == 0))
    larger = max(seeds, prompts)
    freedom = (larger + prompts) ** 2 / (larger**2 / (n_seeds - 1) + prompts**2 / (n_prompts - 1))
    se = np.sqrt(variance)
    half = stdtrit(freedom, (1 + level) / 2) * se
    p = float(2 * stdtr(freedom, -abs(estimate) / se))
    return Mean(estimate, estimate - half, estimate + half, p)


def predicted(values: np.ndarray, of: int = 1, level: float = 0.95) -> tuple[float, float]:
    """Where the mean of so many further seeds is expected, from the values of some (seeds,).

    Student's prediction interval, mean ± t · sd · √(1/of + 1/S) on S − 1 degrees of freedom; NaN
    for one seed.
    """
    values = np.asarray(values, float)
    n = len(values)
    if n < 2:
        return np.nan, np.nan
    half = stdtrit(n - 1, (1 + level) / 2) * values.std(ddof=1) * np.sqrt(1 / of + 1 / n)
    return float(values.mean() - half), float(values.mean() + half)
