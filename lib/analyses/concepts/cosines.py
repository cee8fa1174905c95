"""Lengths of mean differences without the bias of finite samples, and spreads of cosines.

All of inner products, so that features cost nothing.
"""

from __future__ import annotations

import numpy as np


def squared_length(products: np.ndarray) -> float:
    """|E d|² without bias, of inner products of n differences; NaN where it isn't above 0."""
    n = len(products)
    value = (products.sum() - np.trace(products)) / (n * (n - 1))
    return float(value) if value > 0 else np.nan


def left_out(products: np.ndarray) -> np.ndarray:
    """``squared_length`` without each of the differences in turn, shape (n,)."""
    n, own = len(products), np.diag(products)
    off = products.sum() - own.sum()
    values = (off - 2 * (products.sum(axis=1) - own)) / ((n - 1) * (n - 2))
    return np.where(values > 0, values, np.nan)


def jackknife(without: np.ndarray) -> np.ndarray:
    """Standard error of an estimate from its values without each prompt, shape (n, …).

    √((n − 1)/n · Σ(θ₍ᵢ₎ − mean θ₍ᵢ₎)²) (Tukey 1958); NaN where one of them is.
    """
    n = len(without)
    return np.sqrt((n - 1) / n * ((without - without.mean(axis=0)) ** 2).sum(axis=0))
