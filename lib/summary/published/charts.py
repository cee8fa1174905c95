"""The published audits at a glance: verdicts by system, and rates under their true names."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd

from lib.charts import theme, winrates
from lib.charts.intervals import intervals
from lib.charts.render import Chart, inline, nothing, plain, require
from lib.charts.rows import won
from lib.errors import DataError, unknown
from lib.summary.published.words import ABOVE, BELOW, VERDICTS

ABSENT = "No head of the runs at hand follows people on either part of hh-rlhf"
SHOWN = list(VERDICTS.values())
ROLES = ("tracks", "inverted", "worse", "baseline")  # of their colours, in that order
STEP, BAR = 46, 20  # px of a row, and of its bar
FITS = 26  # characters of a name
COLUMNS = ("system", "part", "verdict", "claims")
FAMILY = "all heads of the model, published or not (Bonferroni)"
CAPTION = "Claims of each published system by verdict; a number in a bar counts claims."


def verdicts(table: pd.DataFrame) -> Chart:
    """One bar a system (or part of one), its claims by verdict.

    Parameters
    ----------
    table
        As ``words.counts`` returns it: the verdicts of a bar in their order.

    Raises
    ------
    DataError
        When a column is missing, there is no row, or a verdict is unknown.
    """
    require(table, COLUMNS, "claims by verdict")
    odd = set(map(str, table["verdict"])) - set(SHOWN)
    if odd:
        raise unknown("verdict", min(odd), SHOWN, DataError)
    part = table["part"].where(table["part"] == "", ": " + table["part"])
    drawn = table.assign(name=(table["system"] + part).map(plain))
    drawn["row"], names = pd.factorize(drawn["name"])
    drawn["end"] = drawn.groupby("row")["claims"].cumsum()
    drawn["start"] = drawn["end"] - drawn["claims"]
    drawn["middle"] = (drawn["start"] + drawn["end"]) / 2
    drawn = drawn[drawn["claims"] > 0]
    return Chart(
        _bars(drawn[["row", "name", "verdict", "claims", "start", "middle", "end"]], len(names)),
        alternative=_in_words(drawn, names),
        data=table,
        name="published",
        caption=CAPTION,
        height=STEP * len(names) + 80,
    )


def _bars(drawn: pd.DataFrame, rows: int) -> alt.TopLevelMixin:
    scale = alt.Scale(domain=[0, int(drawn["end"].max())], nice=False)
    x = alt.X("start:Q", scale=scale, axis=None)
    row = alt.Y("row:O", axis=None, scale=alt.Scale(domain=list(range(rows)), padding=0))
    legend = alt.Legend(
        title=None, orient="top", columns=theme.either(1, 2), symbolType="square", labelLimit=280
    )
    colour = alt.Scale(domain=SHOWN, range=list(map(theme.ink, ROLES)))
    base = alt.Chart()
    layers = [
        base.mark_bar(height=BAR, yOffset=9, stroke=theme.ink("background"), strokeWidth=1).encode(
            x=x,
            x2=alt.X2("end:Q"),
            y=row,
            fill=alt.Fill("verdict:N", scale=colour, legend=legend),
            tooltip=[
                alt.Tooltip("name:N", title="system"),
                alt.Tooltip("verdict:N"),
                alt.Tooltip("claims:Q"),
            ],
        ),
        base.mark_text(baseline="middle", yOffset=10, fontWeight=600, fill=theme.ink("background"))
        .encode(x=alt.X("middle:Q", scale=scale, axis=None), y=row, text=alt.Text("claims:Q"))
        .properties(name="numbers"),
        base.transform_filter("datum.start === 0")
        .mark_text(align="left", baseline="middle", yOffset=-11, fontSize=theme.SIZE)
        .encode(x=alt.XValue(0), y=row, text=alt.Text("name:N")),
    ]
    return (
        alt.layer(*layers, data=inline(drawn))
        .add_params(*theme.parameters())
        .properties(
            width="container",
            height=STEP * rows,
            autosize=alt.AutoSizeParams(type="fit-x", contains="padding"),
        )
    )


def _in_words(drawn: pd.DataFrame, names: Sequence[str]) -> str:
    counted = (drawn["claims"].astype(str) + " " + drawn["verdict"]).groupby(drawn["name"])
    lists = counted.agg(", ".join).reindex(names, fill_value="no claim")
    return f"Claims by system and verdict. {'; '.join(lists.index + ': ' + lists)}."


def accuracy(table: pd.DataFrame) -> Chart:
    """Published rates of one evaluation, each head by its true name and the one it was called.

    Parameters
    ----------
    table
        Rows of one ``subset`` of ``stats.rates``.
    """
    require(table, ("called", *winrates.COLUMNS), "published rates")
    both = [_both(row.called, row.head) for row in table.itertuples()]
    chart = winrates.validity(table.assign(head=both, subset=winrates.ALL), family=FAMILY)
    chart.name = "published_rates"
    chart.caption = (
        f"Published share of comparisons won on {table['subset'].iloc[0]}, with 95% intervals as "
        f"if pairs were independent. Left of an arrow is the name used, right of it the true one. "
        f"{winrates.BANDS}"
    )
    return chart


def _both(called: str, head: str) -> str:
    """One name where the head was called by its own; else two, short enough for a phone."""
    if head.endswith(f"-{called}"):
        return head
    whole = f"{called} → {head}"
    return whole if len(whole) <= FITS else f"{called} → {head.partition('-')[2]}"


def shares(table: pd.DataFrame, kept: float) -> Chart:
    """The variance share that each published probe accuracy stands for.

    Parameters
    ----------
    table
        As ``stats.probe_shares`` returns it.
    kept
        Share of the states' variance inside the components: the upright line.
    """
    require(table, ("called", "head", "share", "low", "high"), "variance shares")
    rows = table.rename(columns={"head": "name", "share": "value"})
    return intervals(
        rows[["name", "value", "low", "high"]].assign(group="probes", note=""),
        title="share of the head's variance inside the components",
        reference=kept,
        data=table,
        name="probe_shares",
        caption=(
            "What the published probe accuracies imply if scores are normal, one standard "
            "deviation either side. The line is the share of the states' own variance."
        ),
        what="Variance shares",
        domain=(0.4, 1.0),
    )


def crossover(table: pd.DataFrame) -> Chart:
    """Heads that follow people on one part of hh-rlhf, on both parts.

    Parameters
    ----------
    table
        As ``stats.crossover`` returns it. Without such a head, what is missing
        is said in words.
    """
    follows = table[table["verdict"].isin(ABOVE)]
    kept = table[table["head"].isin(follows["head"])].sort_values("head", kind="stable")
    if kept.empty:
        return nothing(f"{ABSENT}: nothing to draw.", table, "crossover")
    rows = pd.DataFrame(
        {
            "name": kept["head"] + " on " + kept["dataset"].str.rpartition("/")[2],
            "group": "both parts of hh-rlhf",
            "value": kept["win_rate"],
            "low": kept["low"],
            "high": kept["high"],
            "note": kept["note"],
            "tone": np.select(
                [kept["verdict"].isin(ABOVE), kept["verdict"].isin(BELOW)],
                ["tracks", "inverted"],
                "baseline",
            ),
        }
    )
    return intervals(
        rows,
        title="share of comparisons won",
        reference=0.5,
        data=kept,
        name="crossover",
        caption="Win rates of the model at hand, with intervals over prompts.",
        what="Win rates",
        domain=won(rows["value"], rows["low"], rows["high"]),
    )
