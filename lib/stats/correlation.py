"""Correlations of heads: kinds of it, rank correlation, and which columns have none."""

from __future__ import annotations

import numpy as np
from scipy import stats as scipy_stats

KINDS = ("pooled", "between", "within")
NOT_NUMBERS = "scores that are not numbers"
CONSTANT = "the same for all responses"
TOO_FEW = "fewer than three responses"  # two are on a line, whatever they are


def spearman(scores: np.ndarray) -> np.ndarray:
    """Rank correlations, always (columns, columns): NaN cells where a column doesn't vary.

    Checked against ``scipy.stats.spearmanr``, which gives a scalar for two columns and one
    NaN for all when any is constant.
    """
    scores = np.asarray(scores, float)
    usable = np.asarray([not unusable(column) for column in scores.T], dtype=bool)
    out = np.full((scores.shape[1], scores.shape[1]), np.nan)
    if usable.any():
        ranks = scipy_stats.rankdata(scores[:, usable], axis=0)
        out[np.ix_(usable, usable)] = np.corrcoef(ranks, rowvar=False)
    return out


def unusable(column: np.ndarray) -> str:
    """Why a column can't be correlated; empty where it can."""
    if not np.isfinite(column).all():
        return NOT_NUMBERS
    if len(column) < 3:
        return TOO_FEW
    return CONSTANT if np.ptp(column) == 0 else ""
