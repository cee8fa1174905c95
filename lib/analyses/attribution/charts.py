"""What each component carries of a head's margins, by layer; a menu of heads."""

from __future__ import annotations

import math

import altair as alt
import pandas as pd

from lib.analyses.attribution.stats import TOWARD_BETTER, TOWARD_WORSE
from lib.charts import theme
from lib.charts.render import Chart, frame, inline, layer, menu, nothing, plain, require, tips
from lib.effects import CONSTANT

COLUMNS = ("head", "component", "mean", "low", "high", "same", "p_adjusted", "verdict")
COLUMNS += ("carries", "carries_low", "carries_high", "carries_raw", "note")
KINDS = {"attention": "attention", "mlp": "MLP", "embedding": "embedding"}
SHAPES, INKS = ("circle", "square", "diamond"), ("better", "worse", "text")
HEIGHT = 280
TOLD = 6  # components in the alternative text


def parts(table: pd.DataFrame) -> Chart:
    """Share of the margins that each component carries, with its interval.

    ``table`` is as ``stats.parts`` returns it.
    """
    require(table, COLUMNS, "parts")
    known = table[table["carries"].notna() & (table["component"] != CONSTANT)]
    if known.empty:
        return nothing("No head's margins can be shared out: nothing to draw.", table, "parts")
    heads = list(dict.fromkeys(known["head"]))
    words = known["component"].str.split(" ")
    drawn = pd.DataFrame(
        {
            "head": known["head"].map(heads.index),
            "layer": [int(each[1]) if len(each) > 1 else 0 for each in words],
            "kind": [KINDS[each[0]] for each in words],
            "name": known["component"],
            **{c: known[c].round(5) for c in ("carries", "carries_low", "carries_high")},
            **{c: known[c].round(5) for c in ("carries_raw", "mean", "same", "p_adjusted")},
            "verdict": known["verdict"],
            "told": known["verdict"].isin([TOWARD_BETTER, TOWARD_WORSE]).astype(int),
        }
    )
    return Chart(
        frame(
            layer(*_layers(drawn)),
            menu("head", "Head", [plain(head) for head in heads]),
            height=HEIGHT,
        ),
        alternative=_in_words(known, heads),
        data=table,
        name="parts",
        caption="Share of the head's margins that each component carries, whichever response they "
        "favour, with its interval; shares sum to 1. Filled: its mean part is shown to go toward "
        "the better response or toward the worse.",
        height=HEIGHT + 90,
    )


def _layers(drawn: pd.DataFrame) -> list[alt.Chart]:
    kinds = list(KINDS.values())
    x = alt.X(
        "place:Q",
        axis=alt.Axis(title="layer", format="d", grid=False, tickMinStep=1, labelFlush=False),
        scale=alt.Scale(domain=[0, int(drawn["layer"].max()) + 1], nice=False),
    )
    y = alt.Y(
        "carries:Q",
        scale=alt.Scale(zero=True, nice=True),  # of the head that is chosen
        axis=alt.Axis(title="share of the margins", format=".2f", tickCount=6, grid=False),
    )
    colour = alt.Scale(domain=kinds, range=[theme.ink(role) for role in INKS])
    shape = alt.Scale(domain=kinds, range=list(SHAPES))
    legend = alt.Legend(title=None, orient="bottom", direction="horizontal", symbolSize=120)
    base = (
        alt.Chart(inline(drawn))
        .transform_filter("datum.head === head")
        .transform_calculate(
            place="datum.layer + (datum.kind === 'attention' ? -0.17 : 0.17)",
            p="!isValid(datum.p_adjusted) ? '–' : datum.p_adjusted < 0.001 ? 'below 0.001' "
            ": format(datum.p_adjusted, '.3f')",
        )
    )
    stroke = alt.Stroke("kind:N", scale=colour, legend=legend)
    points = {
        "x": x,
        "y": y,
        "stroke": stroke,
        "shape": alt.Shape("kind:N", scale=shape, legend=legend),
        "tooltip": tips(
            {
                "name": "",
                "carries": ("share of the margins", ".3f"),
                "carries_low": ("from", ".3f"),
                "carries_high": ("to", ".3f"),
                "carries_raw": ("as published", ".3f"),
                "mean": ("mean part", "+.4f"),
                "same": ("prompts of its sign", ".2f"),
                "p": "adjusted p",
                "verdict": "",
            }
        ),
    }
    size = theme.either(26, 48)
    return [
        alt.Chart(alt.InlineData(values=[{}]))
        .mark_rule(stroke=theme.ink("rule"))
        .encode(y=alt.YDatum(0, type="quantitative")),
        base.mark_rule(strokeWidth=1.5).encode(
            x=x, y=alt.Y("carries_low:Q"), y2=alt.Y2("carries_high:Q"), stroke=stroke
        ),
        base.transform_filter("datum.told === 0")
        .mark_point(size=size, strokeWidth=1.5, opacity=1, fill=theme.ink("background"))
        .encode(**points)
        .properties(name="points"),
        base.transform_filter("datum.told === 1")
        .mark_point(size=size, strokeWidth=1.5, opacity=1)
        .encode(**points, fill=alt.Fill("kind:N", scale=colour, legend=None))
        .properties(name="told"),
    ]


def _in_words(known: pd.DataFrame, heads: list[str]) -> str:
    own = known[known["head"] == heads[0]]
    order = own["carries"].abs().sort_values(ascending=False, kind="stable").index
    largest = "; ".join(
        f"{row.component} {row.carries:z.2f}"
        + (
            f" [{row.carries_low:z.2f}, {row.carries_high:z.2f}]"
            if math.isfinite(row.carries_low)
            else ""
        )
        + (f" ({row.verdict})" if str(row.verdict).startswith("toward") else "")
        for row in own.loc[order].head(TOLD).itertuples()
    )
    others = f" A menu chooses among {len(heads)} heads." if len(heads) > 1 else ""
    return (
        f"Share of the margins that each of {len(own)} components carries, for {plain(heads[0])}; "
        f"the largest: {largest}.{others}"
    )
