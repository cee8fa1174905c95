"""Where entanglement lives, gauge by gauge, and how correlations build up over directions."""

from __future__ import annotations

import math

import altair as alt
import pandas as pd

from lib.charts import theme
from lib.charts.kinds import KIND_NAMES, kinds_menu
from lib.charts.render import Chart, frame, inline, layer, menu, nothing, plain, require, tips
from lib.charts.rows import END, LEFT, band, between, write

GAUGE_COLUMNS = ("kind", "gauge", "rms_r", "rms_heads", "rms_backbone", "reading", "note")
SPECTRUM_COLUMNS = ("kind", "gauge", "head", "other", "components", "added", "r", "variance")
MEASURES = {
    "rms_heads": "heads alone",
    "rms_backbone": "backbone alone",
    "rms_r": "the scores",
}
STEP, NARROW_STEP = 44, 58
PAIRS = 6  # drawn of a spectrum


def gauges(table: pd.DataFrame) -> Chart:
    """What heads and backbone would each entangle alone, one row a gauge.

    ``table`` is as ``stats.gauges`` returns it.
    """
    require(table, GAUGE_COLUMNS, "gauges")
    if table["rms_r"].isna().all():
        sentence = f"Nothing to draw: {table['note'].iloc[0]}."
        return nothing(sentence, table, "gauges")
    kinds = list(dict.fromkeys(table["kind"]))
    order = list(dict.fromkeys(table["gauge"]))
    long = table.melt(
        id_vars=["kind", "gauge", "reading", "note"],
        value_vars=list(MEASURES),
        var_name="measure",
        value_name="rms",
    )
    long = long.assign(
        kind=long["kind"].map(kinds.index),
        row=long["gauge"].map(order.index),
        measure=long["measure"].map(MEASURES),
        note=long["note"].map(plain),
        rms=long["rms"].round(4),
    )
    chart = frame(
        layer(*_gauge_rows(long, order)),
        kinds_menu(kinds),
        height=STEP * len(order),
        narrow=NARROW_STEP * len(order),
    )
    return Chart(
        chart,
        alternative=_gauges_in_words(table, kinds),
        data=table,
        name="gauges",
        caption="Root mean square over pairs of heads: of their cosines (what they would share on "
        "round states), of the correlations that the states give orthogonal heads, and of the "
        "scores' own correlations, which no gauge changes.",
        height=STEP * len(order) + 90,
    )


def _gauge_rows(long: pd.DataFrame, order: list[str]) -> list[alt.Chart]:
    names = list(MEASURES.values())
    gutter, right = 104, 170
    x = alt.X(
        "rms:Q",
        scale=alt.Scale(
            domain=[0, 1],
            range=between(gutter, right, edge=8),
        ),
        axis=alt.Axis(
            values=[0, 0.25, 0.5, 0.75, 1],
            format=".2f",
            title="root mean square",
            grid=False,
            labelFlush=False,
        ),
    )
    rows = list(range(len(order)))
    y = band(rows)
    colour = alt.Scale(
        domain=names, range=[theme.ink("better"), theme.ink("worse"), theme.ink("text")]
    )
    shape = alt.Scale(domain=names, range=["triangle-up", "square", "M0,-1L0,1"])
    legend = alt.Legend(title=None, orient="top", direction="horizontal", columns=3)
    base = alt.Chart(inline(long)).transform_filter("datum.kind === kind")
    once = base.transform_filter(f"datum.measure === '{names[-1]}'")
    line, words = theme.either(12, 0), theme.either(-14, 0)
    hair = alt.Chart(inline(pd.DataFrame({"row": rows})))
    return [
        hair.mark_rule(stroke=theme.ink("hairline"), yOffset=line).encode(
            x=alt.XValue(theme.either(0, gutter)),
            x2=alt.X2Value(alt.ExprRef(f"narrow ? width : width - {right - 8}")),
            y=y,
        ),
        base.mark_point(size=90, strokeWidth=2, yOffset=line, opacity=1)
        .encode(
            x=x,
            y=y,
            stroke=alt.Stroke("measure:N", scale=colour, legend=legend),
            shape=alt.Shape("measure:N", scale=shape, legend=legend),
            tooltip=tips(
                {
                    "gauge": "",
                    "measure": "of",
                    "rms": ("root mean square", ".3f"),
                    "reading": "",
                    "note": "",
                }
            ),
        )
        .properties(name="points"),
        write(once, "gauge", LEFT, y, yOffset=words, fontWeight=600),
        write(once, "reading", END, y, yOffset=words, fill=theme.ink("muted")),
    ]


def _gauges_in_words(table: pd.DataFrame, kinds: list[str]) -> str:
    sentences = []
    for row in table.itertuples():
        numbers = (
            f"heads alone {_number(row.rms_heads)}, backbone alone {_number(row.rms_backbone)}, "
            f"scores {_number(row.rms_r)}, reading {row.reading}"
        )
        note = f" ({plain(row.note)})" if row.note else ""
        sentences.append(f"{KIND_NAMES[row.kind]}, {row.gauge}: {numbers}{note}")
    return f"Entanglement in each gauge, {len(kinds)} kinds. {'; '.join(sentences)}."


def _number(value: float) -> str:
    return "no number" if math.isnan(value) else f"{value:.2f}"


def spectrum(table: pd.DataFrame) -> Chart:
    """Signed, cumulative correlations of the most correlated pairs over principal directions.

    ``table`` is as ``stats.spectrum`` returns it.
    """
    if table.empty:
        sentence = "No head weights, or no states: nothing to draw."
        return nothing(sentence, table, "spectrum")
    require(table, SPECTRUM_COLUMNS, "the spectral form")
    choices = list(dict.fromkeys(zip(table["kind"], table["gauge"], strict=True)))
    drawn, shown = _strongest(table)
    rows = drawn[list(SPECTRUM_COLUMNS)]
    drawn["choice"] = [choices.index(c) for c in zip(drawn["kind"], drawn["gauge"], strict=True)]
    drawn = drawn[["choice", "pair", "components", "added", "r", "variance"]].round(4)
    colours = ["better", "worse", "text", "baseline", "better", "worse"][: len(shown)]
    dashes = [[1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 4], [1, 3]][: len(shown)]
    legend = alt.Legend(
        title=None,
        orient="bottom",
        direction="vertical",
        columns=1,
        symbolType="stroke",
        symbolSize=400,
        labelLimit=300,
    )
    x = alt.X(
        "components:Q",
        scale=alt.Scale(type="log", nice=False),
        axis=alt.Axis(
            title="principal directions of the states, largest first",
            format="~d",
            grid=False,
            values=sorted(set(drawn["components"])),
            labelOverlap=True,
        ),
    )
    y = alt.Y(
        "r:Q",
        scale=alt.Scale(domain=[min(0.0, drawn["r"].min()), max(0.0, drawn["r"].max())], nice=True),
        axis=alt.Axis(title="correlation so far", format=".1f", tickCount=6),
    )
    base = alt.Chart(inline(drawn)).transform_filter("datum.choice === choice")
    colour = alt.Scale(domain=shown, range=[theme.ink(role) for role in colours])
    encoded = base.encode(
        x=x,
        y=y,
        stroke=alt.Stroke("pair:N", scale=colour, legend=legend),
    )
    zero = alt.Chart(alt.InlineData(values=[{}]))
    layers = [
        zero.mark_rule(stroke=theme.ink("rule")).encode(y=alt.YDatum(0, type="quantitative")),
        encoded.mark_line(strokeWidth=2).encode(
            strokeDash=alt.StrokeDash(
                "pair:N", scale=alt.Scale(domain=shown, range=dashes), legend=legend
            )
        ),
        encoded.mark_point(size=40, strokeWidth=2, opacity=1, fill=theme.ink("background"))
        .encode(
            tooltip=tips(
                {
                    "pair": "",
                    "components:Q": "directions",
                    "r": ("correlation so far", ".3f"),
                    "added": ("", "+.3f"),
                    "variance": ("of the states' variance", ".1%"),
                }
            )
        )
        .properties(name="points"),
    ]
    labels = [f"{KIND_NAMES[kind]}, {gauge}" for kind, gauge in choices]
    chart = frame(layer(*layers), menu("choice", "States", labels), height=260)
    return Chart(
        chart,
        alternative=_spectrum_in_words(drawn, labels[0]),
        data=rows,
        name="spectrum",
        caption="Each pair's correlation as a signed sum over the principal directions of the "
        "states: later directions may take away what earlier ones gave.",
        height=300 + 22 * len(shown),
    )


def _strongest(table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Rows of the pairs with the largest correlation in the first choice, and their names."""
    first = table[
        (table["kind"] == table["kind"].iloc[0]) & (table["gauge"] == table["gauge"].iloc[0])
    ]
    last = first.groupby(["head", "other"], sort=False).tail(1)
    strong = last.loc[last["r"].abs().sort_values(ascending=False, kind="stable").index].head(PAIRS)
    names = {
        (row.head, row.other): f"{k + 1}. {plain(row.head, 40)} and {plain(row.other, 40)}"
        for k, row in enumerate(strong.itertuples())
    }
    pair = pd.Series(list(zip(table["head"], table["other"], strict=True)), index=table.index)
    drawn = table.assign(pair=pair.map(names))
    return drawn[drawn["pair"].notna()].copy(), list(names.values())


def _spectrum_in_words(drawn: pd.DataFrame, label: str) -> str:
    sentences = []
    for pair, rows in drawn[drawn["choice"] == 0].groupby("pair"):
        ordered = rows.sort_values("components")
        first, last = ordered.iloc[0], ordered.iloc[-1]
        sentences.append(
            f"{pair}: {first['r']:z.2f} after the first direction, {last['r']:z.2f} in all"
        )
    return f"Correlations built up over principal directions ({label}). {'; '.join(sentences)}."
