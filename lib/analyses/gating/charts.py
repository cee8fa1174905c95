"""Gating: coefficients by subset, and the gate beside rules that don't read the prompt."""

from __future__ import annotations

import pandas as pd

from lib.charts.intervals import intervals
from lib.charts.render import Chart, require
from lib.charts.rows import won
from lib.stats.winrates import GATE, distinct


def coefficients(table: pd.DataFrame) -> Chart:
    """Mean coefficient of each head, with the middle 80% of prompts; a menu of subsets.

    Parameters
    ----------
    table
        As ``stats.coefficients`` returns it.

    Raises
    ------
    DataError
        When a column is missing or there is no row.
    """
    require(table, ("head", "subset", "prompts", "mean", "low", "high", "note"), "coefficients")
    rows = distinct(table.assign(n=table["prompts"]))
    rows = rows.rename(columns={"head": "name", "subset": "group", "mean": "value"})
    rows = rows.assign(tone=["worse" if value < 0 else "better" for value in rows["value"]])
    return intervals(
        rows,
        title="coefficient in the score",
        reference=0.0,
        data=table,
        name="coefficients",
        what="Mean coefficients",
        caption="Mean coefficient of each head in the score; the line holds the middle four "
        "fifths of prompts.",
    )


def rules(table: pd.DataFrame) -> Chart:
    """Win rate of the gate and of fixed rules, with intervals; a menu of subsets.

    Parameters
    ----------
    table
        As ``stats.rules`` returns it.

    Raises
    ------
    DataError
        When a column is missing or there is no row.
    """
    require(table, ("rule", "subset", "win_rate", "low", "high", "note"), "rules")
    rows = distinct(table).rename(columns={"rule": "name", "subset": "group", "win_rate": "value"})
    rows = rows.assign(tone=["better" if name == GATE else "baseline" for name in rows["name"]])
    return intervals(
        rows,
        title="share of comparisons won",
        reference=0.5,
        domain=won(rows["value"], rows["low"], rows["high"]),
        data=table,
        name="rules",
        what="Win rates of the gate and of fixed rules",
        caption="Share of comparisons that each rule ranks as the data set marks them. Rules in "
        "grey are the gate without debiasing, and rules that are the same for every prompt; all of "
        "these but equal weights and length were chosen on other prompts.",
    )
