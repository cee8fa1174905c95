"""The exact sign-flip test on prompts, and Holm's correction.

If a head knows nothing of the labels, each prompt's wins minus losses is as
likely as its negative. The null distribution of their sum over all 2^G sign patterns is
found exactly by convolution, without draws.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy import stats

CHUNK = 2_000_000


@lru_cache(maxsize=4096)
def _null(counts: tuple[tuple[int, int], ...]) -> np.ndarray:
    """P(Σ ±d = s) for s = −S…S, where ``counts`` lists (|d|, how many prompts)."""
    distribution = np.ones(1)
    for size, many in counts:
        steps = np.zeros(2 * size * many + 1)
        steps[:: 2 * size] = stats.binom.pmf(np.arange(many + 1), many, 0.5)
        distribution = np.convolve(distribution, steps)
    return distribution


def sign_flip(net: np.ndarray) -> np.ndarray:
    """Two-sided exact p of each column's sum under random signs of its rows.

    Parameters
    ----------
    net
        Wins minus losses of each prompt, whole numbers, shape (prompts, columns).

    Returns
    -------
    numpy.ndarray
        Shape (columns,): P(|S| ≥ |observed|); 1 for a column of zeros.

    Notes
    -----
    With one comparison a prompt this is the two-sided sign test, checked against
    ``scipy.stats.binomtest``; in general against enumeration of all sign patterns.
    """
    net = np.asarray(np.rint(net), dtype=np.int64)
    out = np.ones(net.shape[1])
    for column in range(net.shape[1]):
        sizes, many = np.unique(np.abs(net[:, column]), return_counts=True)
        counts = tuple((int(s), int(m)) for s, m in zip(sizes, many, strict=True) if s)
        observed = abs(int(net[:, column].sum()))
        if counts and observed:
            distribution = _null(counts)
            centre = len(distribution) // 2
            out[column] = min(1.0, 2 * distribution[centre + observed :].sum())
    return out


def sign_flips(net: np.ndarray) -> np.ndarray:
    """``sign_flip`` of many columns at once, to within rounding (about 1e-13).

    Parameters
    ----------
    net
        Wins minus losses of each prompt, whole numbers, shape (prompts, …).

    Returns
    -------
    numpy.ndarray
        p, of the trailing shape.

    Notes
    -----
    The characteristic function of Σ ±d is Π cos(d ω). On a grid of 2M + 1 frequencies, M the
    largest possible sum, its discrete Fourier transform is the null distribution exactly, and
    P(|S| < c) is a sum of it against Dirichlet's kernel. Checked against ``sign_flip``.
    """
    net = np.asarray(np.rint(net), dtype=np.int64)
    shape = net.shape[1:]
    net = net.reshape(len(net), -1)
    distinct = np.unique(np.abs(net))
    distinct = distinct[distinct > 0]
    if not len(distinct):
        return np.ones(shape)
    unit = np.gcd.reduce(distinct)
    sizes, net = distinct // unit, net // unit
    many = np.stack([(np.abs(net) == size).sum(axis=0) for size in sizes])
    observed = np.abs(net.sum(axis=0))
    (*many, observed), place = np.unique(np.vstack([many, observed]), axis=1, return_inverse=True)
    most = int((sizes[:, None] * np.stack(many)).sum(axis=0).max())
    frequency = 2 * np.pi * np.arange(most + 1) / (2 * most + 1)
    weight = np.where(frequency == 0, 1.0, 2.0) / (2 * most + 1)
    cosines = np.cos(np.arange(most)[:, None] * frequency)
    # Row c holds the weights of P(|S| < c).
    inside = np.vstack([np.zeros(most + 1), (2 * cosines.cumsum(axis=0) - 1) * weight])
    powers = [
        np.cos(size * frequency) ** np.arange(count.max() + 1)[:, None]
        for size, count in zip(sizes, many, strict=True)
    ]
    out = np.empty(len(observed))
    step = max(1, CHUNK // (most + 1))
    for start in range(0, len(out), step):
        some = slice(start, start + step)
        product = inside[observed[some]]
        for power, count in zip(powers, many, strict=True):
            product *= power[count[some]]
        out[some] = 1 - product.sum(axis=1)
    return np.clip(out, 0, 1)[place.ravel()].reshape(shape)


def holm(p: np.ndarray) -> np.ndarray:
    """Holm (1979) adjusted p-values along the last axis; NaN is not part of the family.

    Checked against ``statsmodels.stats.multitest.multipletests(method="holm")``.
    """
    p = np.asarray(p, float)
    order = np.argsort(p, axis=-1)  # NaN sorts last
    ranked = np.take_along_axis(p, order, axis=-1)
    m = np.isfinite(p).sum(axis=-1, keepdims=True)
    factor = m - np.arange(p.shape[-1])
    stepped = np.maximum.accumulate(np.where(np.isfinite(ranked), ranked * factor, -np.inf), -1)
    adjusted = np.where(np.isfinite(ranked), np.minimum(stepped, 1), np.nan)
    out = np.empty_like(p)
    np.put_along_axis(out, order, adjusted, axis=-1)
    return out
