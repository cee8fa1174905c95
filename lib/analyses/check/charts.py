"""A check's rows; what moves a score, what windows cut, and what the wrong template costs."""

from __future__ import annotations

import numpy as np
import pandas as pd

from lib import markup
from lib.charts.intervals import intervals
from lib.charts.render import Chart, nothing, require
from lib.charts.rows import won
from lib.check.lines import Checked

EMPTY = dict.fromkeys(["low", "high"], np.nan)


def lines(checked: Checked) -> markup.Html:
    """All rows as a table on one screen; a block a row on a narrow one."""
    frame = checked.frame()
    parts = zip(frame["expected"], frame["do"], strict=True)
    table = pd.DataFrame(
        {
            "line": frame["line"] + ": " + frame["what"],
            "verdict": frame["verdict"],
            "found": frame["found"],
            "expected; what to do": ["; ".join(filter(None, pair)) or "–" for pair in parts],
        }
    )
    return markup.table(table, fold=40, compact=True, stacked=True)


def shifts(table: pd.DataFrame) -> Chart:
    """Largest shift of a score in each way to compute it, as a power of ten of its sd.

    ``table`` is ``shifts`` of a check.
    """
    if table.empty:
        return nothing("No score was computed in another way.", table, "shifts")
    require(table, ("way", "largest"), "shifts")
    largest = table["largest"].to_numpy(float)
    powers = np.log10(np.where(largest > 0, largest, np.nan))
    rows = pd.DataFrame(
        {"name": table["way"], "group": "the shortest items", "value": powers, **EMPTY}
    )
    return intervals(
        rows.assign(note=np.where(largest > 0, "", "no shift")),
        title="largest shift in standard deviations, as a power of ten",
        number="isValid(datum.value) ? "
        "format(pow(10, datum.value), datum.value < -3 ? '.1~e' : '.2~g') : '–'",
        reference=-3.0,
        domain=(-7.0, 1.0),
        data=table,
        name="shifts",
        what="Largest shifts, as powers of ten",
        caption="How far a score moves when the same text is computed in another way: −3 is a "
        "thousandth of the score's standard deviation, the most that float32 may move it. "
        "Number types move it further; the table has their spread.",
    )


def windows(table: pd.DataFrame) -> Chart:
    """Share of texts that a window cuts; ``table`` is ``windows`` of a check."""
    if table.empty:
        return nothing("No text was tokenised.", table, "windows")
    require(table, ("window", "cut"), "windows")
    rows = pd.DataFrame(
        {
            "name": [f"{window:,} tokens" for window in table["window"]],
            "group": "every text",
            "value": table["cut"],
            **EMPTY,
            "note": "",
        }
    )
    return intervals(
        rows,
        title="share of texts cut",
        reference=0.0,
        domain=(0.0, 1.0),
        data=table,
        name="windows",
        what="Shares of texts that a window cuts",
        caption="Share of texts, prompt with response, that are longer than a window that others "
        "score with. Nothing is cut here.",
    )


def costs(table: pd.DataFrame) -> Chart:
    """Rates under the model's own template, under none and another family's."""
    if table.empty:
        return nothing("What another template costs wasn't measured.", table, "costs")
    require(table, ("template", "rate", "low", "high"), "costs")
    own = table["template"] == "its own"
    rows = table.rename(columns={"template": "name", "rate": "value"})
    return intervals(
        rows.assign(group="stimuli", note="", tone=np.where(own, "better", "baseline")),
        title="right response wins",
        reference=0.5,
        domain=won(table["low"], table["rate"], table["high"]),
        data=table,
        name="costs",
        what="Win rates of right responses by template",
        caption="How often the right response scores higher, by the template that the same texts "
        "are written in. Differences from its own template, paired, are in the table.",
    )
