"""What two models contest most: comparisons on which both are sure, and of different responses."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd

from lib.summary.compare.stats import common, kept_outcomes, shared_datasets
from lib.summary.tables import Tables

CONTESTED = ("model", "other", "dataset", "item", "criterion", "subset", "better", "worse")
CONTESTED += ("margin", "other_margin", "by")
MOST = 20


def contested(given: Sequence[Tables], most: int = MOST) -> pd.DataFrame:
    """The items that every two models contest most, over all datasets of both.

    A margin is what a model's score gives the better response more than the worse, over the root
    of its mean square on that dataset. A comparison is contested where one margin is above 0 and
    the other below, the more so the larger the smaller of the two is. An item stands for the
    comparison of it that is contested most.

    Parameters
    ----------
    given
        Tables of two models or more.
    most
        Items of a pair of models.

    Returns
    -------
    pandas.DataFrame
        One row a pair of models and item, most contested first: ``model``, ``other``,
        ``dataset``, ``item``, ``criterion``, ``subset``, ``better`` and ``worse`` (places within
        the item, as the data set marks them), ``margin`` and ``other_margin`` (above 0: that
        model chooses ``better``), and ``by`` (how many comparisons of the item are contested).
    """
    found = [pd.DataFrame(columns=list(CONTESTED))]
    for one, other in combinations(given, 2):
        parts = []
        for dataset in shared_datasets(one, other):
            sides = [kept_outcomes(each, dataset) for each in (one, other)]
            if not any(isinstance(side, str) for side in sides):
                parts.append(_opposed(common(*sides)).assign(dataset=dataset))
        if not parts:
            continue
        rows = pd.concat(parts, ignore_index=True)
        rows = rows.sort_values("least", ascending=False, kind="stable")
        rows = rows.drop_duplicates(["dataset", "item"]).head(most)
        found.append(rows.assign(model=one.model, other=other.model)[list(CONTESTED)])
    found = [table for table in found if len(table)] or found[:1]
    return pd.concat(found, ignore_index=True)


def _opposed(both: pd.DataFrame) -> pd.DataFrame:
    """Comparisons of which the two models choose different responses, with ``least`` and ``by``."""
    mine, theirs = (both[name].to_numpy(float) for name in ("margin", "margin_other"))
    rows = both[mine * theirs < 0].rename(columns={"margin_other": "other_margin"})
    least = np.minimum(np.abs(mine), np.abs(theirs))[mine * theirs < 0]
    by = rows.groupby("item")["item"].transform("size")
    rows = rows.assign(least=least, by=by.astype(int))
    rows[["margin", "other_margin"]] = rows[["margin", "other_margin"]].astype(float)
    return rows
