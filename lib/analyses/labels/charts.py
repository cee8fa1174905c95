"""Win rates as a table of colours: a row a head, a column a criterion or protocol.

``labels`` draws what ``stats.label_matrix`` returned.
"""

from __future__ import annotations

import pandas as pd

from lib.charts.heatmap import STEP, TOLD, cell, heatmap
from lib.charts.render import Chart, plain, require

COLUMNS = ("head", "criterion", "n", "prompts", "win_rate", "low", "high", "claims", "claimed")
COLUMNS += ("note",)

CAPTION = (
    "Share of comparisons in which the head scores the response with more of it higher, ties "
    "counted half; blue above one half, vermilion below. Outlined: what the head's name "
    "claims. Intervals, of 95% and uncorrected, are told where the pointer or finger rests, and in "
    "the table below."
)


def labels(table: pd.DataFrame) -> Chart:
    """Heat map of heads and criteria, the claimed ones outlined.

    Parameters
    ----------
    table
        As ``stats.label_matrix`` returns it.

    Raises
    ------
    DataError
        When a column is missing or there is no row.
    """
    require(table, COLUMNS, "win rates by criterion")
    order = _claimed_first(table)
    return Chart(
        heatmap(table, "criterion", order),
        alternative=_in_words(table),
        data=table,
        name="labels",
        caption=CAPTION,
        height=STEP * table["head"].nunique() + 120,
    )


def _claimed_first(table: pd.DataFrame) -> list[str]:
    """Criteria in the order of the heads that claim them, so that right names make a diagonal."""
    found = list(dict.fromkeys(table["criterion"]))
    claimed = dict.fromkeys(table["claims"])
    return [name for name in claimed if name in found] + [
        name for name in found if name not in claimed
    ]


def _in_words(table: pd.DataFrame) -> str:
    told = []
    groups = list(table.groupby("head", sort=False))
    for head, rows in groups[:TOLD]:
        known = rows[rows["win_rate"].notna()]
        if known.empty:
            told.append(f"{plain(head)}: {plain(rows['note'].iloc[0])}")
            continue
        own = known[known["claimed"]]
        best = known.loc[known["win_rate"].idxmax()]
        claims = "".join(
            f"claims {plain(row.criterion)} and wins {cell(row)} there, "
            for row in own.itertuples()
        )
        told.append(f"{plain(head)}: {claims}highest on {plain(best['criterion'])} {cell(best)}")
    if len(groups) > TOLD:
        told.append(f"and {len(groups) - TOLD} more")
    return (
        f"Win rates by head and criterion, {len(groups)} by {table['criterion'].nunique()}. "
        f"{'; '.join(told)}."
    )
