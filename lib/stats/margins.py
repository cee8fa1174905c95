"""How sure a rule is of each comparison, beside who won it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr

from lib.run import align
from lib.stats import winrates


def outcomes(run: xr.Dataset, comparisons: pd.DataFrame | None = None) -> pd.DataFrame:
    """Who won each comparison, by every rule (``winrates.outcomes``), and by what margin.

    Returns
    -------
    pandas.DataFrame
        That table with ``margin``: what the rule scores the better response above the worse,
        over the root of the mean square of that in this run; NaN where a score is no number.
    """
    aligned = align(run, comparisons)
    scores = run["score"].values.T
    if "final" in run:
        scores = [*scores, run["final"].values]
    with np.errstate(invalid="ignore", divide="ignore"):
        gaps = np.stack([aligned.gaps(score) for score in scores])
        finite = np.isfinite(gaps)
        square = np.where(finite, gaps, 0) ** 2
        scale = np.sqrt(square.sum(axis=1) / finite.sum(axis=1))
        margin = np.where(finite, gaps / scale[:, None], np.nan)
    table = winrates.outcomes(run, comparisons)
    return table.assign(margin=margin.ravel().astype(np.float32))
