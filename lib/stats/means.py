"""Means over prompts, the unit that was sampled: tests, and intervals of a mean or a ratio.

``by_prompt``  rows averaged within their prompt
``flips``      the sign-flip test of each column's mean
``interval``   Student's, of each column's mean
``share``      Fieller's, of the mean of each column over the mean of another
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy import stats

from lib.stats import proportions

CHUNK = 2_000_000  # numbers of one piece of patterns


class Interval(NamedTuple):
    """An estimate with its interval; each has the columns' shape, NaN where there is none."""

    estimate: np.ndarray
    low: np.ndarray
    high: np.ndarray


def by_prompt(values: np.ndarray, prompt: np.ndarray) -> np.ndarray:
    """Rows averaged within prompts, (rows, …) → (prompts, …), so that each prompt counts once.

    ``prompt`` holds an integer for the prompt of each row.
    """
    totals, sizes = proportions.by_prompt(np.asarray(values, float), prompt)
    return totals / sizes.reshape(-1, *(1,) * (totals.ndim - 1))


def flips(values: np.ndarray, *, draws: int = 100_000, seed: int = 0) -> np.ndarray:
    """Two-sided p of each column's mean under random signs of its rows, of any real numbers.

    Parameters
    ----------
    values
        One row a prompt, shape (prompts, …).
    draws
        Sign patterns at most; where there are no more than these, each is looked at once.
    seed
        Of the patterns that are drawn, which all columns share.

    Returns
    -------
    numpy.ndarray
        Of the trailing shape; 1 for a column of zeros, NaN where a column isn't all numbers or
        there is no row.

    Notes
    -----
    A pattern and its opposite give the same size of mean, so the first sign is held. Exact up
    to 2^(prompts − 1) = ``draws``; beyond, (1 + those as large) / (1 + draws), which keeps the
    test's level at any number of draws (Phipson & Smyth 2010). Checked against enumeration and
    ``scipy.stats.permutation_test``.
    """
    values = np.asarray(values, float)
    shape = values.shape[1:]
    columns = values.reshape(len(values), math.prod(shape))
    told = np.isfinite(columns).all(axis=0) & (len(values) > 0)
    columns = np.where(told, columns, 0.0)
    # What is equal may be rounded otherwise.
    observed = np.abs(columns.sum(axis=0)) - 1e-12 * np.abs(columns).sum(axis=0)
    free = max(len(values) - 1, 0)
    exact = 2.0**free <= draws
    total = 2**free if exact else draws
    generator = np.random.default_rng(seed)
    as_large = np.zeros(columns.shape[1])
    step = max(1, min(total, CHUNK // max(columns.shape[1], len(values), 1)))
    for start in range(0, total, step):
        many = min(step, total - start)
        if exact:
            bits = (np.arange(start, start + many)[:, None] >> np.arange(free)) & 1
        else:
            bits = generator.integers(0, 2, (many, free), dtype=np.int8)
        signs = np.hstack([np.ones((many, len(values) - free)), 1.0 - 2.0 * bits])
        as_large += (np.abs(signs @ columns) >= observed).sum(axis=0)
    p = as_large / total if exact else (1 + as_large) / (1 + total)
    return np.where(told, p, np.nan).reshape(shape)


def interval(values: np.ndarray, level: float = 0.95) -> Interval:
    """Mean and Student's interval of values (prompts, …), which need two prompts.

    Checked against ``scipy.stats.ttest_1samp``.
    """
    values = np.asarray(values, float)
    n = len(values)
    mean = values.mean(axis=0) if n else np.full(values.shape[1:], np.nan)
    if n < 2:
        return Interval(mean, np.full_like(mean, np.nan), np.full_like(mean, np.nan))
    half = stats.t.ppf((1 + level) / 2, n - 1) * values.std(axis=0, ddof=1) / np.sqrt(n)
    return Interval(mean, mean - half, mean + half)


def share(values: np.ndarray, of: np.ndarray, level: float = 0.95) -> Interval:
    """Mean of ``values`` over the mean of ``of``, both (prompts, …), with Fieller's interval.

    Returns
    -------
    Interval
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
        return Interval(*np.full((3, *a.shape), np.nan))
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
    return Interval(np.where(told, a / b, np.nan), (middle - half) / bound, (middle + half) / bound)
