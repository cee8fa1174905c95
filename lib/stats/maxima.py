"""Many means under one test: the largest of all, under exchanges of better and worse.

If which response of a comparison is called better says nothing of any quantity, each prompt's
row of values is as likely as its negative. The null distribution of the largest of all columns
keeps what ties them, so that no column is corrected for more than it need be.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

CHUNK = 64  # draws at a time
SLACK = 1e-9  # equal but for rounding


@dataclass(frozen=True)
class Maxima:
    """``statistic`` and ``p_adjusted`` of each column; ``largest`` of every draw."""

    statistic: np.ndarray
    p_adjusted: np.ndarray
    largest: np.ndarray


def flips(
    values: np.ndarray, *, scale: np.ndarray | None = None, draws: int = 1999, seed: int = 0
) -> Maxima:
    """Family-wise p of the sums of columns under random signs of rows.

    Parameters
    ----------
    values
        One row a prompt, shape (prompts, columns).
    scale
        What each column's sum is divided by, (columns,): a number that exchanging better and
        worse doesn't change. √Σ v² by default, which makes columns alike.
    draws, seed
        Of sign patterns.

    Returns
    -------
    Maxima
        ``statistic`` is |Σ v|/scale, 0 for a column of zeros; ``p_adjusted`` is the share of
        patterns (with the one observed) whose largest statistic is at least that (Westfall and
        Young's (1993) single-step maxT).

    Notes
    -----
    Checked against enumeration of all patterns.
    """
    values = np.asarray(values, float)
    if scale is None:
        scale = np.sqrt((values**2).sum(axis=0))
    safe = np.where(scale > 0, scale, np.inf)
    statistic = np.abs(values.sum(axis=0)) / safe
    generator = np.random.default_rng(seed)
    scaled = (values / safe).astype(np.float32)
    largest = np.empty(draws)
    for at in range(0, draws, CHUNK):
        count = min(CHUNK, draws - at)
        signs = generator.integers(0, 2, (count, len(values))).astype(np.float32) * 2 - 1
        largest[at : at + count] = np.abs(signs @ scaled).max(axis=1, initial=0)
    ordered = np.sort(largest)
    above = draws - np.searchsorted(ordered, statistic * (1 - 1e-6) - SLACK)
    return Maxima(statistic, (1 + above) / (1 + draws), largest)
