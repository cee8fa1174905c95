"""Calibration: how often things happened in planted worlds, beside how often they may."""

from __future__ import annotations

import altair as alt
import numpy as np
import pandas as pd

from lib.charts import theme
from lib.charts.render import Chart, inline, menu, plain, require
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

    Parameters
    ----------
    table
        As ``lib.calibration.calibrate`` returns it.

    Raises
    ------
    DataError
        When a column is missing or there is no row.
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
    told = SHORT[row.measure]
    told += f", worst of {row.worlds} worlds" if row.worlds > 1 else ""
    if row.form == "as published":
        return f"as published: {told}"
    return f"fails: {told}" if row.verdict == "fails" else told


def _layers(drawn: pd.DataFrame, groups: list) -> alt.TopLevelMixin:
    edge = float(_odds(pd.Series([1 - EDGE])).iloc[0])
    scale = alt.Scale(
        domain=[-edge, edge],
        nice=False,
        range=[theme.either(6, GUTTER), alt.ExprRef(f"narrow ? width - 6 : width - {RIGHT}")],
    )
    axis = alt.Axis(
        title="share of planted worlds",
        values=[float(value) for value in _odds(pd.Series(TICKS))],
        labelExpr="format(1 / (1 + exp(-datum.value)), '.0%')",
        grid=False,
        labelFlush=False,
    )
    x = alt.X("value:Q", scale=scale, axis=axis)
    tones = ["better", "worse", "baseline"]
    inks = alt.Scale(domain=tones, range=[theme.ink(tone) for tone in tones])
    shapes = alt.Scale(domain=tones, range=["circle", "diamond", "square"])
    y = alt.Y("row:O", axis=None, sort="ascending")
    base, line = alt.Chart(), theme.either(20, 0)
    head, under = theme.either(-20, -8), theme.either(-3, 9)
    limit = alt.ExprRef(f"narrow ? width - {RIGHT + 4} : {GUTTER - 12}")
    layers = [
        base.mark_rect(
            fill=theme.ink("rule"), opacity=0.6, height=14, yOffset=line, cornerRadius=2
        ).encode(x=alt.X("zone_low:Q", scale=scale, axis=axis), x2="zone_high:Q", y=y),
        base.mark_rule(strokeWidth=2.5, strokeCap="round", yOffset=line).encode(
            x=alt.X("low99:Q", scale=scale, axis=axis),
            x2="high99:Q",
            y=y,
            stroke=alt.Stroke("tone:N", scale=inks, legend=None),
        ),
        base.mark_point(size=60, filled=True, yOffset=line).encode(
            x=x,
            y=y,
            color=alt.Color("tone:N", scale=inks, legend=None),
            shape=alt.Shape("tone:N", scale=shapes, legend=None),
        ),
        base.mark_text(
            align="left", fontWeight=600, baseline="middle", yOffset=head, limit=limit
        ).encode(x=alt.value(0), y=y, text="claim:N"),
        base.mark_text(
            align="left",
            baseline="middle",
            yOffset=under,
            fontSize=theme.SMALL,
            fill=theme.ink("muted"),
            limit=limit,
        ).encode(x=alt.value(0), y=y, text="under:N"),
        base.mark_text(align="right", fontWeight=600, baseline="middle", yOffset=head).encode(
            x=alt.value("width"), y=y, text="rate:N"
        ),
        base.mark_rect(fill="transparent").encode(
            x=alt.value(0),
            x2=alt.value("width"),
            y=y,
            tooltip=[
                alt.Tooltip(f"{name}:N") for name in ("claim", "world", "rate", "target", "under")
            ],
        ),
    ]
    return (
        alt.layer(*layers, data=inline(drawn))
        .transform_filter("datum.group === group")
        .add_params(*theme.parameters(), menu("group", "Analysis", groups))
        .properties(
            width="container",
            height={"step": STEP},
            autosize=alt.AutoSizeParams(type="fit-x", contains="padding"),
            usermeta={"narrow": {"height": {"step": NARROW_STEP}}},
        )
    )


def _in_words(rows: pd.DataFrame, groups: list) -> str:
    told = []
    for group in groups:
        some = rows[rows["analysis"] == group]
        parts = [
            f"{plain(row.claim)}: {_under(row)} {row.rate:.1%} [{row.low99:.1%}, "
            f"{row.high99:.1%}], target {row.target}"
            for row in some.itertuples()
        ]
        told.append(f"{plain(group)}: {'; '.join(parts)}.")
    menu_words = f" A menu chooses among {len(groups)} analyses." if len(groups) > 1 else ""
    return f"Rates in planted worlds.{menu_words} {' '.join(told)}"
