"""Separability: the published probe beside what predicts it, probes and readout losses."""

from __future__ import annotations

import altair as alt
import numpy as np
import pandas as pd

from lib.analyses.separability.words import AT_LEAST
from lib.charts import theme
from lib.charts.intervals import intervals
from lib.charts.render import Chart, frame, inline, layer, plain, require, tips
from lib.charts.rows import toned

TONES = {"not read out": "worse", AT_LEAST: "worse", "read out": "better"}


def published(probe: pd.DataFrame, ceiling: pd.DataFrame) -> Chart:
    """Accuracy of the published probe against the accuracy that PCA's share predicts.

    ``probe`` and ``ceiling`` are what ``separability_as_published`` and ``ceiling`` return.
    """
    require(probe, ("head", "components", "accuracy"), "published probes")
    require(ceiling, ("head", "components", "share", "predicted"), "shares")
    both = probe.merge(ceiling, on=["head", "components"], suffixes=("", "_ceiling"))
    drawn = both[["head", "components", "accuracy", "share", "predicted"]].dropna()
    drawn = drawn.assign(head=drawn["head"].map(plain)).round(5)
    low = float(min([0.5, *drawn["accuracy"], *drawn["predicted"]]))
    scale = alt.Scale(domain=[low, 1.0], nice=False, zero=False)
    axis = alt.Axis(tickCount=5, format=".2f")
    x = alt.X(
        "predicted:Q", scale=scale, title="predicted from the share of variance kept", axis=axis
    )
    y = alt.Y("accuracy:Q", scale=scale, title="accuracy of the probe", axis=axis)
    ends = alt.Chart(alt.InlineData(values=[{"at": low}, {"at": 1.0}]))
    size = alt.Size(
        "components:O",
        title="components",
        scale=alt.Scale(range=[30, 160]),
        legend=alt.Legend(orient="top", direction="horizontal", symbolStrokeColor="gray"),
    )
    layers = [
        ends.mark_line(stroke=theme.ink("muted"), strokeDash=[3, 3]).encode(
            x=alt.X("at:Q", scale=scale), y=alt.Y("at:Q", scale=scale)
        ),
        alt.Chart(inline(drawn))
        .mark_point(strokeWidth=1.5, stroke=theme.ink("better"))
        .encode(
            x=x,
            y=y,
            size=size,
            tooltip=tips(
                {
                    "head": "",
                    "components:Q": "",
                    "share": ("share of variance", ".3f"),
                    "predicted": ("", ".3f"),
                    "accuracy": ("", ".3f"),
                }
            ),
        ),
    ]
    chart = frame(layer(*layers), height=280)
    return Chart(
        chart,
        alternative=_published_in_words(drawn, both),
        data=both,
        name="separability-as-published",
        caption="Each point is a head at one number of components; on the dashed line, the "
        "probe's accuracy is what the share of the head's variance inside them predicts.",
        height=360,
    )


def _published_in_words(drawn: pd.DataFrame, both: pd.DataFrame) -> str:
    if drawn.empty:
        return f"No probe could be fitted: {plain(both['note'].iloc[0])}."
    off = (drawn["accuracy"] - drawn["predicted"]).abs()
    return (
        f"Accuracy of {len(drawn)} median-split probes against what the share of variance "
        f"predicts: they differ by {off.mean():.3f} on average and {off.max():.3f} at most."
    )


def probes(table: pd.DataFrame) -> Chart:
    """Concept probes with their intervals, and each one's length-only baseline in grey.

    ``table`` is as ``stats.probes`` returns it.
    """
    require(table, ("concept", "accuracy", "low", "high", "length", "note"), "concept probes")
    rows = []
    for row in table.itertuples():
        rows.append((row.concept, row.accuracy, row.low, row.high, row.note, "better"))
        if pd.notna(row.accuracy):
            length = (f"{row.concept}, length alone", row.length, np.nan, np.nan)
            rows.append((*length, "", "baseline"))
    frame = pd.DataFrame(rows, columns=["name", "value", "low", "high", "note", "tone"])
    return intervals(
        frame.assign(group="all comparisons"),
        title="held-out accuracy",
        reference=0.5,
        domain=(0.4, 0.8),
        data=table,
        name="probes",
        what="Concept probes",
        caption="Share of comparisons that a linear probe of the state ranks as the data set "
        "marks them, on prompts it never saw, with 95% intervals, uncorrected; grey: the same "
        "probe on length alone.",
    )


def readout(table: pd.DataFrame) -> Chart:
    """Readout losses with their intervals; a loss that was found wears another colour.

    ``table`` is as ``words.told`` returns it.
    """
    columns = ("concept", "head", "loss", "low", "high", "verdict", "note")
    require(table, columns, "readout losses")
    names = [
        f"{row.concept} → {row.head}{', at least' * (row.verdict == AT_LEAST)}"
        if row.head
        else row.concept
        for row in table.itertuples()
    ]
    frame = pd.DataFrame(
        {
            "name": names,
            "group": "all comparisons",
            "value": table["loss"].to_numpy(float),
            "low": table["low"].to_numpy(float),
            "high": table["high"].to_numpy(float),
            "note": table["note"].to_numpy(),
            "tone": toned(table["verdict"], TONES),
        }
    )
    return intervals(
        frame,
        title="accuracy lost from state to head",
        reference=0.0,
        domain=(-0.1, 0.2),
        data=table,
        name="readout",
        what="Readout losses",
        caption="Accuracy of a probe of the state less that of the head that claims the concept, "
        "on the same held-out comparisons, with 95% intervals, uncorrected. Where a loss is shown "
        "though its size can't be measured, it is at least what stands here. Grey: no verdict on "
        "the loss can be given.",
    )
