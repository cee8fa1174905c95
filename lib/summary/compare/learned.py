"""Which of the compared models learned from other prompts of a data set's source."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from lib.summary.tables import Tables, together
from lib.words import LEARNED as MARK


def learned(table: pd.DataFrame, given: Sequence[Tables]) -> pd.DataFrame:
    """A table of models and data sets, with the column ``learned``.

    Parameters
    ----------
    table
        With ``model``, maybe ``other``, and ``dataset``.
    given
        Tables of the models.

    Returns
    -------
    pandas.DataFrame
        The same; ``learned`` names those of the row's models of which a head was trained on
        labels of the data set's source, of pooled ones on any of them, as the model's card says.
    """
    pools = {together(names): names for model in given if (names := model.pooled())}
    known = {model.model: model for model in given}
    columns = [name for name in ("model", "other") if name in table]

    def names(row: pd.Series) -> str:
        sources = pools.get(row["dataset"], [row["dataset"]])
        own = [row[name] for name in columns if row[name] in known]
        return ", ".join(
            name for name in own if any(known[name].trained(source) for source in sources)
        )

    return table.assign(learned=[names(row) for _, row in table.iterrows()])


def marks(table: pd.DataFrame) -> list[str]:
    """The mark of each row of which one model alone learned from the source; empty for others.

    Without the column ``learned`` no row is marked.
    """
    models = table[[name for name in ("model", "other") if name in table]]
    names = table.get("learned", pd.Series("", table.index))
    return [f" {MARK}" if alone else "" for alone in models.eq(names, axis=0).any(axis=1)]
