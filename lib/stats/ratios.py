"""A mean as a share of another mean, over prompts, with Fieller's interval.

Where no test is asked for, ``mean`` is what ``lib.stats.signed`` gives without it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from lib.stats.signed import per_prompt


class Ratio(NamedTuple):
    """A ratio of means with its interval; each has the columns' shape, NaN where there is none."""

    estimate: np.ndarray
    low: np.ndarray
    high: np.ndarray


def share(values: np.ndarray, of: np.ndarray, level: float = 0.95) -> Ratio:
    """Mean of ``values`` over the mean of ``of``, both (prompts, …), with Fieller's interval.

    Returns
    -------
    Ratio
        NaN where the interval of the mean of ``of`` holds 0: the ratio then has no bounds.

    Notes
    -----
    The ratios ρ for which the mean of values − ρ · of isn't told from 0 (Fieller 1954): with
    means a and b, their variances and covariance V_a, V_b and C, and t the quantile,

        (ab − t²C ± √((ab − t²C)² − (a² − t²V_a)(b² − t²V_b))) / (b² − t²V_b).

    Checked against the t test of values − ρ · of at both ends.
    """
    values, of = np.broadcast_arrays(np.asarray(values, float), np.asarray(of, float))
    n = len(values)
    a, b = values.mean(axis=0), of.mean(axis=0)
    if n < 2:
        return Ratio(*np.full((3, *a.shape), np.nan))
    scale = stdtrit(n - 1, (1 + level) / 2) ** 2 / (n * (n - 1))
    left, right = values - a, of - b
    va, vb, both = (
        (x * y).sum(axis=0) * scale for x, y in ((left,) * 2, (right,) * 2, (left, right))
    )
    bound = b**2 - vb
    told = bound > 0
    bound, b = (np.where(told, each, np.nan) for each in (bound, b))
    middle = a * b - both
    half = np.sqrt(np.maximum(middle**2 - (a**2 - va) * bound, 0))
    return Ratio(a / b, (middle - half) / bound, (middle + half) / bound)


def mean(values: np.ndarray, level: float = 0.95) -> Ratio:
    """Mean of values (prompts, …) with Student's interval, NaN for one prompt.

    A share of 1: Fieller's interval is then Student's. Checked against
    ``scipy.stats.ttest_1samp``.
    """
    values = np.asarray(values, float)
    return share(values, np.ones(()), level)._replace(estimate=values.mean(axis=0))


def slope(values: np.ndarray, of: np.ndarray, prompt: np.ndarray, level: float = 0.95) -> Ratio:
    """Σ values · of / Σ of²: the slope through zero, over prompts, with Fieller's interval.

    Parameters
    ----------
    values
        One a comparison, (comparisons, …).
    of
        What they are shares of, of a shape that goes with theirs.
    prompt
        Of each comparison; each sum is of means over a prompt's comparisons.

    Returns
    -------
    Ratio
        The estimate is NaN only where ``of`` is 0 throughout.
    """
    square, product = (per_prompt(x * of, prompt) for x in (of, values))
    mean_square = square.mean(axis=0)
    sizes = np.where(mean_square > 0, mean_square, np.nan)  # above 0, whatever the interval
    found = share(product, square, level)
    return found._replace(estimate=product.mean(axis=0) / sizes)
