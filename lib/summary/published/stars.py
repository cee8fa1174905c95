"""The published star: a one-sided Wilcoxon signed-rank test of margins, and no test of a win rate.

``p_range``  every p that a number of wins leaves open, as margins were not published
``again``    the star of each head of the runs at hand, beside an exact test of its wins
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats as scipy_stats

from lib.run import align

FEWEST = 10  # margins other than 0, below which the published code tests nothing
COLUMNS = ["dataset", "head", "win_rate", "star_p", "wins_p"]


def p_range(wins: int, n: int) -> tuple[float, float]:
    """Smallest and largest one-sided p of Wilcoxon's signed-rank test for so many wins of n.

    The statistic is the sum of the ranks of the positive margins (Wilcoxon, 1945). It is
    largest where each won margin is larger than each lost one, and smallest where each is
    smaller. No ties, no margins of 0. p as ``scipy.stats.wilcoxon`` gives it.
    """
    ranks = np.arange(1.0, n + 1)
    low = _star(np.where(ranks > n - wins, ranks, -ranks))
    return low, _star(np.where(ranks <= wins, ranks, -ranks))


def again(runs: Sequence[xr.Dataset]) -> pd.DataFrame:
    """The published test on heads of the runs, beside one of the win rate.

    Returns
    -------
    pandas.DataFrame
        ``dataset``, ``head``, ``win_rate`` (share of margins above 0), ``star_p`` (as
        published: Wilcoxon, of margins other than 0, one-sided, rows as if independent) and
        ``wins_p`` (exact binomial of the same rows, one-sided, a tie no win); heads without
        finite scores left out.
    """
    rows = []
    for run in runs:
        found = align(run)
        margins = run["score"].values[found.better] - run["score"].values[found.worse]
        for head, own in zip(run["head"].values, margins.T.astype(float), strict=True):
            if not len(own) or not np.isfinite(own).all():
                continue
            wins = int((own > 0).sum())
            test = scipy_stats.binomtest(wins, len(own), alternative="greater")
            numbers = (wins / len(own), _star(own[own != 0]), test.pvalue)
            rows.append((run.attrs["dataset"], str(head), *numbers))
    return pd.DataFrame(rows, columns=COLUMNS)


def _star(margins: np.ndarray) -> float:
    if len(margins) < FEWEST:
        return 1.0
    return float(scipy_stats.wilcoxon(margins, alternative="greater").pvalue)
