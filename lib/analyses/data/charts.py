"""What a dataset holds: response lengths, and what was left out."""

from __future__ import annotations

import altair as alt
import pandas as pd

from lib.charts import theme
from lib.charts.render import Chart, frame, inline, layer, plain, require, tips
from lib.charts.rows import END, LEFT, STEP, band, between, gutter, limit, touch, write

SIDES = {"better": "preferred", "worse": "other"}
NARROW_STEP = 42  # px of a row of dropped


def lengths(table: pd.DataFrame) -> Chart:
    """Distributions of response lengths, the preferred against the other.

    ``table`` is as ``stats.lengths`` returns it: bins of ``side``, from ``low`` to below ``high``
    tokens, each with its ``share``.
    """
    require(table, ("side", "low", "high", "share"), "lengths")
    drawn = table[["side", "low", "high", "share"]].round({"share": 5})
    drawn["side"] = drawn["side"].map(SIDES)
    # a step line needs the right edge of its last bin
    last = drawn.loc[drawn.groupby("side")["high"].idxmax()]
    edges = pd.concat([drawn, last.assign(low=last["high"])], ignore_index=True)
    first, final = float(table["low"].min()), float(table["high"].max())
    ticks = [2**k for k in range(20) if first <= 2**k <= final]
    x = alt.X(
        "low:Q",
        scale=alt.Scale(type="log", domain=[first, final], nice=False),
        axis=alt.Axis(
            values=ticks,
            format="~d",
            title="tokens in the response (logarithmic)",
            grid=False,
            labelOverlap=True,
        ),
    )
    y = alt.Y(
        "share:Q",
        stack=None,
        axis=alt.Axis(format=".0%", title="share of responses", tickCount=4, ticks=False),
    )
    names = list(SIDES.values())
    colours = [theme.ink("better"), theme.ink("worse")]
    colour = alt.Scale(domain=names, range=colours)
    legend = alt.Legend(
        title=None, orient="top", direction="horizontal", symbolType="stroke", symbolSize=400
    )
    side = alt.Stroke("side:N", scale=colour, legend=legend)
    dashes = alt.Scale(domain=names, range=[[1, 0], [5, 3]])
    base = alt.Chart(inline(edges))
    layers = [
        base.transform_filter(f"datum.side === '{names[0]}'")
        .mark_area(interpolate="step-after", opacity=0.18, fill=theme.ink("better"))
        .encode(x=x, y=y),
        base.mark_line(interpolate="step-after", strokeWidth=2).encode(
            x=x, y=y, stroke=side, strokeDash=alt.StrokeDash("side:N", scale=dashes)
        ),
        alt.Chart(inline(_bins(table)))
        .mark_rect(fill="transparent")
        .encode(
            x=x,
            x2=alt.X2("high:Q"),
            y=alt.YValue(0),
            y2=alt.Y2Value("height"),
            tooltip=tips({"tokens": "", **{side: (name, ".1%") for side, name in SIDES.items()}}),
        ),
    ]
    return Chart(
        frame(layer(*layers), height=220),
        alternative=_lengths_in_words(table),
        data=table,
        name="lengths",
        caption="Lengths of preferred and other responses in the audited model's tokens.",
        height=310,
    )


def _bins(table: pd.DataFrame) -> pd.DataFrame:
    wide = table.pivot(index=["low", "high"], columns="side", values="share").reset_index()
    tokens = [
        f"{low:.0f}" if high == low + 1 else f"{low:.0f} to {high - 1:.0f}"
        for low, high in zip(wide["low"], wide["high"], strict=True)
    ]
    return wide.round({"better": 5, "worse": 5}).assign(tokens=tokens)


def _lengths_in_words(table: pd.DataFrame) -> str:
    if not table["share"].any():
        return "No comparison is there, so no length is counted."
    sentences = []
    for side, name in SIDES.items():
        rows = table[table["side"] == side]
        peak = rows.loc[rows["share"].idxmax()]
        sentences.append(
            f"{name} responses have most often {peak['low']:.0f} to {peak['high'] - 1:.0f} "
            f"tokens ({peak['share']:.0%})"
        )
    low, high = table["low"].min(), table["high"].max() - 1
    return (
        f"Distributions of response lengths from {low:.0f} to {high:.0f} tokens: "
        f"{'; '.join(sentences)}."
    )


def dropped(table: pd.DataFrame) -> Chart:
    """Items by step, from those read to those scored, with each reason to leave some out.

    ``table`` is as ``stats.counts`` returns it: ``step``, ``reason`` and ``items``.
    """
    require(table, ("step", "reason", "items"), "counts")
    drawn = pd.DataFrame(
        {
            "row": range(len(table)),
            "label": [
                plain(f"{step}: {reason}" if reason else step)
                for step, reason in zip(table["step"], table["reason"], strict=True)
            ],
            "items": table["items"].to_numpy(),
            "left": ["left out" if reason else "kept" for reason in table["reason"]],
        }
    )
    left, right = gutter(drawn["label"], least=90), 64
    most = max(1, int(drawn["items"].max()))
    scale = alt.Scale(domain=[0, most], range=between(left, right, edge=0), nice=False)
    y = band(drawn["row"].tolist())
    base = alt.Chart(inline(drawn))
    above = {"yOffset": theme.either(-8, 0)}
    fills = alt.Scale(domain=["kept", "left out"], range=[theme.ink("bar"), theme.ink("text")])
    layers = [
        base.mark_bar(height=10, yOffset=theme.either(9, 0)).encode(
            x=alt.X("items:Q", axis=None, scale=scale),
            y=y,
            color=alt.Color("left:N", scale=fills, legend=None),
        ),
        write(base, "label", LEFT, y, limit=limit(left, right), **above),
        write(base, "items", END, y, fontWeight=600, **above).encode(
            text=alt.Text("items:Q", format=",")
        ),
        touch(base, tips({"label": "step", "items": ("", ",")}), y),
    ]
    sentences = "; ".join(f"{row.label} {row.items:,}" for row in drawn.itertuples())
    return Chart(
        frame(layer(*layers), height=STEP * len(drawn), narrow=NARROW_STEP * len(drawn)),
        alternative=f"Items by step: {sentences}.",
        data=table,
        name="counts",
        caption="Items read, left out for each reason, and scored.",
        height=STEP * len(drawn) + 12,
    )
