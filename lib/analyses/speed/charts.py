"""How long each way of running a model takes: bars under one another, a part for each set."""

from __future__ import annotations

import altair as alt
import pandas as pd

from lib.analyses.speed.stats import WAYS
from lib.charts import theme
from lib.charts.render import Chart, inline, nothing, plain, require

STEP, NARROW_STEP = 28, 46  # px of a row
RIGHT = 128  # px kept for a bar's number
BAR = 14  # px
LINE, WORDS = theme.either(11, 0), theme.either(-9, 0)
ROW = alt.Y("row:O", axis=None)


def seconds(table: pd.DataFrame) -> Chart:
    """Seconds per 1,000 items of each way, ours in colour; bars of one part share a scale.

    Parameters
    ----------
    table
        As ``stats.ways`` returns it.

    Raises
    ------
    DataError
        When a column is missing.
    """
    require(table.reindex(range(1)) if table.empty else table, WAYS, "ways")
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
    gutter = int(min(270, max(110, 7.2 * drawn["name"].map(len).max() + 16)))
    start = theme.either(0, gutter)
    scale = alt.Scale(domain=[0, 1], range=[start, alt.ExprRef(f"width - {RIGHT}")], nice=False)
    tones = ["better", "bar"]
    inks = alt.Scale(domain=tones, range=[theme.ink(tone) for tone in tones])
    words = {"baseline": "middle", "fontSize": theme.SIZE, "align": "left"}
    band = alt.Y("row:O", axis=None, scale=alt.Scale(type="band", domain=order, padding=0))
    base = alt.Chart()
    titles = base.transform_filter("isValid(datum.title)")
    bars = base.transform_filter("isValid(datum.name)")
    words["fontWeight"] = alt.ExprRef("datum.tone === 'better' || isValid(datum.title) ? 600 : 400")
    layers = [
        titles.mark_text(dy=4, limit=alt.ExprRef("width"), **words).encode(
            x=alt.value(0), y=band, text="title:N"
        ),
        bars.mark_rule(strokeWidth=BAR, yOffset=LINE).encode(
            x=alt.X("start:Q", scale=scale, axis=None),
            x2="length:Q",
            y=ROW,
            stroke=alt.Stroke("tone:N", scale=inks, legend=None),
        ),
        bars.mark_text(yOffset=WORDS, **words).encode(x=alt.value(0), y=ROW, text="name:N"),
        bars.mark_text(yOffset=LINE, dx=6, **words).encode(
            x=alt.X("length:Q", scale=scale, axis=None), y=ROW, text="label:N"
        ),
        bars.mark_rect(fill="transparent").encode(
            x=alt.value(0),
            x2=alt.value("width"),
            y=ROW,
            tooltip=[
                alt.Tooltip("name:N"),
                alt.Tooltip("label:N", title="per 1,000 items"),
                alt.Tooltip("tokens:N", title="tokens computed"),
                alt.Tooltip("peak:N", title="memory at its peak"),
            ],
        ),
    ]
    return (
        alt.layer(*layers, data=inline(drawn))
        .add_params(*theme.parameters())
        .properties(
            width="container",
            height=STEP * len(order),
            autosize=alt.AutoSizeParams(type="fit-x", contains="padding"),
            usermeta={"narrow": {"height": NARROW_STEP * len(order)}},
        )
    )


def _in_words(table: pd.DataFrame) -> str:
    told = []
    for title, rows in _parts(table):
        each = ", ".join(
            f"{plain(row.way)} {row.seconds_per_1000:,.2f}" for row in rows.itertuples()
        )
        told.append(f"{plain(title)}: {each}")
    return f"Seconds per 1,000 items. {'; '.join(told)}."
