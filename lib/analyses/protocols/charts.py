"""Win rates by protocol: the same heads, a column an evaluation."""

from __future__ import annotations

import pandas as pd

from lib.charts.heatmap import STEP, TOLD, cell, heatmap
from lib.charts.render import Chart, plain, require
from lib.data.asks import KINDS

COLUMNS = ("protocol", "kind", "head", "n", "prompts", "win_rate", "low", "high", "note")
CAPTION = (
    "Share of comparisons in which the head scores the preferred response higher, ties "
    "counted half; blue above one half, vermilion below. Intervals are told where the pointer "
    "or finger rests, and in the table of the cells."
)


BASELINE = (
    " Below the heads, without colour: the share that the longer response alone wins, which a "
    "head that reads nothing but length wins too."
)


def protocols(table: pd.DataFrame, longer: pd.DataFrame | None = None) -> Chart:
    """Heat map of heads and protocols, kinds of protocol side by side.

    Parameters
    ----------
    table
        As ``stats.protocol_matrix`` returns it.
    longer
        As ``stats.longer`` returns it for the same runs: a row below the heads.

    Raises
    ------
    DataError
        When a column is missing or there is no row.
    """
    require(table, COLUMNS, "win rates by protocol")
    found = table.drop_duplicates("protocol")
    place = found["kind"].map({kind: place for place, kind in enumerate(KINDS)})
    order = found.assign(place=place).sort_values(["place", "protocol"])  # as on the front page
    data = table
    if longer is not None:
        require(longer, COLUMNS, "the longer response")
        data = pd.concat([table, longer.dropna(axis="columns", how="all")], ignore_index=True)
    return Chart(
        heatmap(table, "protocol", order["protocol"].tolist(), longer),
        alternative=_in_words(table, longer),
        data=data,
        name="protocols",
        caption=CAPTION + (BASELINE if longer is not None else ""),
        height=STEP * table["head"].nunique() + 120,
    )


def _in_words(table: pd.DataFrame, longer: pd.DataFrame | None) -> str:
    told = []
    groups = list(table.groupby("head", sort=False))
    for head, rows in groups[:TOLD]:
        known = rows[rows["win_rate"].notna()].reset_index(drop=True)
        if known.empty:
            told.append(f"{plain(head)}: {plain(rows['note'].iloc[0])}")
            continue
        high, low = known.loc[known["win_rate"].idxmax()], known.loc[known["win_rate"].idxmin()]
        told.append(
            f"{plain(head)}: from {cell(low)} on {plain(low['protocol'])} "
            f"to {cell(high)} on {plain(high['protocol'])}"
        )
    if len(groups) > TOLD:
        told.append(f"and {len(groups) - TOLD} more")
    if longer is not None:
        where = [f"{cell(row)} on {plain(row.protocol)}" for row in longer.itertuples()]
        told.append(f"for comparison, the longer response wins {', '.join(where)}")
    return (
        f"Win rates by head and protocol, {len(groups)} by {table['protocol'].nunique()}. "
        f"{'; '.join(told)}."
    )
