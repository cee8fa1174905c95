"""Calibration: how often things happened in planted worlds, beside how often they may."""

from __future__ import annotations

import altair as alt
import numpy as np
import pandas as pd

from lib.charts import theme
from lib.charts.render import Chart, frame, inline, layered, menu, plain, require, tips
from lib.charts.rows import END, LEFT, between, tones, touch, write
from lib.planted.checks import COLUMNS, tightest

STEP, NARROW_STEP = 44, 64  # px of a row
GUTTER, RIGHT = 340, 62
EDGE = 0.003  # rates nearer to 0 or 1 are drawn here
TICKS = (0.01, 0.05, 0.2, 0.5, 0.8, 0.95, 0.99)
SHORT = {"false-positive rate": "false positives", "power": "power", "coverage": "coverage"}
CAPTION = (
    "Share of planted worlds in which a thing was said (false positives where it is false, power "
    "where it is true) or an interval held the truth (coverage), with its 99% interval; the band "
    "is the target. Of several worlds the one nearest to its limit, or farthest beyond, is drawn. "
    "Rates are spaced by log odds, so that 5% and 6% can be told apart."
)


def calibration(table: pd.DataFrame) -> Chart:
    """A row a claim and measure: rate, interval and target; a menu of analyses.

    ``table`` is as ``lib.calibration.calibrate`` returns it.
    """
    require(table, ("analysis", *COLUMNS), "calibration")
    rows = tightest(table.reset_index(drop=True)).reset_index(drop=True)
    groups = list(dict.fromkeys(rows["analysis"]))
    published = rows["form"] == "as published"
    drawn = pd.DataFrame(
        {
            "row": rows.index,
            "group": rows["analysis"].map(groups.index),
            "claim": rows["claim"].map(plain),
            "under": [_under(row) for row in rows.itertuples()],
            "world": rows["world"].map(plain),
            "rate": rows["rate"].map("{:.1%}".format),
            "target": rows["target"],
            **{name: _odds(rows[name]) for name in ("low99", "high99")},
            "value": _odds(rows["rate"]),
            "zone_low": _odds(rows["at_least"]),
            "zone_high": _odds(rows["at_most"]),
            "tone": np.select(
                [published, rows["verdict"] == "fails"], ["baseline", "worse"], "better"
            ),
        }
    )
    most = int(drawn.groupby("group").size().max())
    return Chart(
        _layers(drawn, groups),
        alternative=_in_words(rows, groups),
        data=table,
        name="calibration",
        caption=CAPTION,
        height=STEP * most + 60,
    )


def _odds(rate: pd.Series) -> pd.Series:
    clipped = rate.astype(float).clip(EDGE, 1 - EDGE)
    return np.log(clipped / (1 - clipped)).round(4)


def _under(row) -> str:
    measured = SHORT[row.measure]
    measured += f", worst of {row.worlds} worlds" if row.worlds > 1 else ""
    if row.form == "as published":
        return f"as published: {measured}"
    return f"fails: {measured}" if row.verdict == "fails" else measured


def _layers(drawn: pd.DataFrame, groups: list) -> alt.TopLevelMixin:
    edge = float(_odds(pd.Series([1 - EDGE])).iloc[0])
    scale = alt.Scale(
        domain=[-edge, edge],
        nice=False,
        range=between(GUTTER, RIGHT, edge=6),
    )
    axis = alt.Axis(
        title="share of planted worlds",
        values=[float(value) for value in _odds(pd.Series(TICKS))],
        labelExpr="format(1 / (1 + exp(-datum.value)), '.0%')",
        grid=False,
        labelFlush=False,
    )
    names = ["better", "worse", "baseline"]
    inks = tones(*names)
    shapes = alt.Scale(domain=names, range=["circle", "diamond", "square"])
    y = alt.Y("row:O", axis=None, sort="ascending")
    base, line = alt.Chart(), theme.either(20, 0)
    head, under = theme.either(-20, -8), theme.either(-3, 9)
    limit = alt.ExprRef(f"narrow ? width - {RIGHT + 4} : {GUTTER - 12}")
    layers = [
        base.mark_rect(
            fill=theme.ink("rule"), opacity=0.6, height=14, yOffset=line, cornerRadius=2
        ).encode(x=alt.X("zone_low:Q", scale=scale, axis=axis), x2=alt.X2("zone_high:Q"), y=y),
        base.mark_rule(strokeWidth=2.5, strokeCap="round", yOffset=line).encode(
            x=alt.X("low99:Q", scale=scale, axis=axis),
            x2=alt.X2("high99:Q"),
            y=y,
            stroke=alt.Stroke("tone:N", scale=inks, legend=None),
        ),
        base.mark_point(size=60, filled=True, yOffset=line).encode(
            x=alt.X("value:Q", scale=scale, axis=axis),
            y=y,
            color=alt.Color("tone:N", scale=inks, legend=None),
            shape=alt.Shape("tone:N", scale=shapes, legend=None),
        ),
        write(base, "claim", LEFT, y, yOffset=head, fontWeight=600, limit=limit),
        write(
            base,
            "under",
            LEFT,
            y,
            yOffset=under,
            fontSize=theme.SMALL,
            fill=theme.ink("muted"),
            limit=limit,
        ),
        write(base, "rate", END, y, yOffset=head, fontWeight=600),
        touch(base, tips(dict.fromkeys(("claim", "world", "rate", "target", "under"), "")), y),
    ]
    chart = layered(layers, inline(drawn), "datum.group === group")
    return frame(
        chart,
        menu("group", "Analysis", groups),
        height={"step": STEP},
        narrow={"step": NARROW_STEP},
    )


def _in_words(rows: pd.DataFrame, groups: list) -> str:
    sentences = []
    for group in groups:
        some = rows[rows["analysis"] == group]
        parts = [
            f"{plain(row.claim)}: {_under(row)} {row.rate:.1%} [{row.low99:.1%}, "
            f"{row.high99:.1%}], target {row.target}"
            for row in some.itertuples()
        ]
        sentences.append(f"{plain(group)}: {'; '.join(parts)}.")
    menu_words = f" A menu chooses among {len(groups)} analyses." if len(groups) > 1 else ""
    return f"Rates in planted worlds.{menu_words} {' '.join(sentences)}"
