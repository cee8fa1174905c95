"""A mean as a share of another mean, over prompts, with Fieller's interval.

Where no test is asked for, ``mean`` is what ``lib.stats.signed`` gives without it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import stats


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
    scale = stats.t.ppf((1 + level) / 2, n - 1) ** 2 / (n * (n - 1))
    left, right = values - a, of - b
    va, vb, both = (
        (x * y).sum(axis=0) * scale for x, y in ((left,) * 2, (right,) * 2, (left, right))
    )
    bound = b**2 - vb
    told = bound > 0
    bound = np.where(told, bound, np.nan)
    middle = a * b - both
    half = np.sqrt(np.maximum(middle**2 - (a**2 - va) * bound, 0))
    return Ratio(np.where(told, a / b, np.nan), (middle - half) / bound, (middle + half) / bound)


def mean(values: np.ndarray, level: float = 0.95) -> Ratio:
    """Mean of values (prompts, …) with Student's interval, NaN for one prompt.

    A share of 1: Fieller's interval is then Student's. Checked against
    ``scipy.stats.ttest_1samp``.
    """
    values = np.asarray(values, float)
    return share(values, np.ones(()), level)._replace(estimate=values.mean(axis=0))
