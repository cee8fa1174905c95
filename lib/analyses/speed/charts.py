"""How long each way of running a model takes: bars under one another, a part for each set."""

from __future__ import annotations

import altair as alt
import pandas as pd

from lib.analyses.speed.stats import WAYS
from lib.charts import theme
from lib.charts.render import Chart, frame, inline, layer, nothing, plain, require, tips
from lib.charts.rows import (
    LEFT,
    LINE,
    NARROW_STEP,
    ROW,
    STEP,
    band,
    gutter,
    tones,
    touch,
    write,
)

RIGHT = 128  # px kept for a bar's number
BAR = 14  # px


def seconds(table: pd.DataFrame) -> Chart:
    """Seconds per 1,000 items of each of ``stats.ways``, ours in colour; a scale a part."""
    require(table, WAYS, "ways", empty=True)
    if table.empty:
        return nothing("No way of running a model was measured.", table, "speed")
    drawn = _rows(table)
    return Chart(
        _layers(drawn),
        alternative=_in_words(table),
        data=table,
        name="speed",
        caption="Seconds per 1,000 items, and in brackets how many times those of ours. Bars start "
        "at zero; those of one part share a scale, parts don't. The time is the model's alone: "
        "tokens were at hand.",
        height=STEP * len(drawn),
    )


def _parts(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """A title and the rows of each set of each file; same titles are told apart by file."""
    found = []
    for (file, name), rows in table.groupby(["file", "set"], sort=False):
        first = rows.iloc[0]
        title = f"{name} · {first['model']} · {first['card']} · {first['items']:,} items"
        found.append((title, file, rows))
    titles = [title for title, _, _ in found]
    return [
        (title if titles.count(title) == 1 else f"{title} · {file}", rows)
        for title, file, rows in found
    ]


def _rows(table: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for title, ways in _parts(table):
        rows.append({"title": plain(title), "name": "", "label": "", "tone": "bar"})
        slowest = ways["seconds_per_1000"].max()
        rows += [
            {
                "title": "",
                "name": plain(way.way),
                "length": round(way.seconds_per_1000 / slowest, 5),
                "label": f"{way.seconds_per_1000:,.2f} s"
                + ("" if way.ours else f" ({way.ratio:.2f}×)"),
                "tone": "better" if way.ours else "bar",
                "tokens": f"{way.tokens:,}",
                "peak": f"{way.peak_gb:.1f} GB",
            }
            for way in ways.itertuples()
        ]
    return pd.DataFrame(rows).assign(row=range(len(rows)), start=0)


def _layers(drawn: pd.DataFrame) -> alt.TopLevelMixin:
    order = drawn["row"].tolist()
    start = theme.either(0, gutter(drawn["name"]))
    scale = alt.Scale(domain=[0, 1], range=[start, alt.ExprRef(f"width - {RIGHT}")], nice=False)
    titles = alt.Chart().transform_filter("isValid(datum.title)")
    bars = alt.Chart().transform_filter("isValid(datum.name)")
    weight = alt.ExprRef("datum.tone === 'better' || isValid(datum.title) ? 600 : 400")
    end = alt.X("length:Q", scale=scale, axis=None)
    shown = {"name": "", "label": "per 1,000 items"}
    shown |= {"tokens": "tokens computed", "peak": "memory at its peak"}
    title = {"yOffset": 0, "dy": 4, "limit": alt.ExprRef("width"), "fontWeight": weight}
    layers = [
        write(titles, "title", LEFT, band(order), **title),
        bars.mark_rule(strokeWidth=BAR, yOffset=LINE).encode(
            x=alt.X("start:Q", scale=scale, axis=None),
            x2=alt.X2("length:Q"),
            y=ROW,
            stroke=alt.Stroke("tone:N", scale=tones("better", "bar"), legend=None),
        ),
        write(bars, "name", LEFT, fontWeight=weight),
        write(bars, "label", end, yOffset=LINE, dx=6, fontWeight=weight),
        touch(bars, tips(shown)),
    ]
    heights = {"height": STEP * len(order), "narrow": NARROW_STEP * len(order)}
    return frame(layer(*layers, data=inline(drawn)), **heights)


def _in_words(table: pd.DataFrame) -> str:
    sentences = []
    for title, rows in _parts(table):
        each = ", ".join(
            f"{plain(row.way)} {row.seconds_per_1000:,.2f}" for row in rows.itertuples()
        )
        sentences.append(f"{plain(title)}: {each}")
    return f"Seconds per 1,000 items. {'; '.join(sentences)}."
