"""A model's weights: the cosines between heads, and the scores of its card."""

from __future__ import annotations

import altair as alt
import pandas as pd

from lib.charts import theme
from lib.charts.intervals import intervals
from lib.charts.render import Chart, frame, inline, layer, nothing, plain, require, tips
from lib.errors import DataError

CELL, NARROW_CELL = 30, 24  # px
WRITTEN = 12  # cells hold their number up to this many heads
SHOWN = 5


def cosines(table: pd.DataFrame) -> Chart:
    """Heatmap of the cosines between heads' weights.

    ``table`` is as ``stats.cosines`` returns it.
    """
    require(table, ("head", "other", "cosine"), "cosines")
    size = round(len(table) ** 0.5)
    if size**2 != len(table):
        raise DataError(
            "heads × heads rows in the table of cosines",
            f"{len(table)}",
            "Give the table as lib.analyses.model.stats returns it.",
        )
    if size == 1:
        return nothing("One head: there is no pair to compare.", table, "cosines")
    names = [plain(name) for name in table["other"][:size]]
    drawn = pd.DataFrame(
        {
            "row": [i // size for i in range(len(table))],
            "column": [i % size for i in range(len(table))],
            "head": table["head"].map(plain).to_numpy(),
            "other": table["other"].map(plain).to_numpy(),
            "cosine": table["cosine"].astype(float).round(4).to_numpy(),
        }
    )
    places = list(range(size))
    label = f"{_quoted(names)}[datum.value]"
    colour = alt.Color(
        "cosine:Q",
        scale=theme.association(),
        legend=alt.Legend(title="cosine", orient="top", direction="horizontal"),
    )
    tick = {"labelExpr": label, "title": None, "ticks": False, "labelLimit": 150}
    base = alt.Chart(inline(drawn)).encode(
        x=alt.X("column:O", sort=places, axis=alt.Axis(labelAngle=-60, labelOverlap=False, **tick)),
        y=alt.Y("row:O", sort=places, axis=alt.Axis(labelOverlap=False, **tick)),
    )
    layers = [
        base.mark_rect(stroke=theme.ink("hairline")).encode(
            color=colour,
            tooltip=tips({"head": "", "other": "", "cosine": ("", ".3f")}),
        )
    ]
    if size <= WRITTEN:
        layers.append(
            base.mark_text(
                fontSize=theme.either(theme.SMALL - 3, theme.SMALL),
                fill=theme.on_association("datum.cosine"),
                tooltip=None,
            )
            .transform_filter("isValid(datum.cosine) && datum.row !== datum.column")
            .transform_calculate(
                short="replace(replace(format(datum.cosine, narrow ? '.1f' : '.2f'), '-', '−'), "
                "'0.', '.')"
            )
            .encode(text=alt.Text("short:N"))
            .properties(name="numbers")  # the site draws no halo around these
        )
    chart = frame(layer(*layers), height=CELL * size, narrow=NARROW_CELL * size)
    return Chart(
        chart,
        alternative=_in_words(drawn),
        data=table,
        name="cosines",
        caption="Cosine of each two heads' weights, in the coordinates of the stored state. "
        "Teal: they point the same way; purple: opposite ways.",
        height=CELL * size + 190,
    )


def _quoted(names: list[str]) -> str:
    """A Vega list of texts."""
    parts = [name.replace("\\", "\\\\").replace("'", "\\'") for name in names]
    return "[" + ",".join(f"'{part}'" for part in parts) + "]"


def _in_words(drawn: pd.DataFrame) -> str:
    pairs = drawn[(drawn["row"] < drawn["column"]) & drawn["cosine"].notna()]
    heads = drawn["row"].max() + 1
    if pairs.empty:
        return f"Cosines between the weights of {heads} heads: no pair to compare."
    largest = pairs.loc[pairs["cosine"].abs().sort_values(ascending=False).index[:SHOWN]]
    sentences = "; ".join(f"{r.head} and {r.other} {r.cosine:.2f}" for r in largest.itertuples())
    mean = pairs["cosine"].abs().mean()
    return (
        f"Cosines between the weights of {heads} heads. Mean size {mean:.2f}; "
        f"the largest: {sentences}."
    )


def scores(table: pd.DataFrame) -> Chart:
    """Held-out scores of a card's heads with their intervals.

    ``table`` is as ``stats.scores`` returns it.
    """
    require(table, ("head", "score", "held_out", "held_out_low", "held_out_high", "note"), "scores")
    rows = pd.DataFrame(
        {
            "name": [
                f"{row.head} ({row.score})" if isinstance(row.head, str) else "card"
                for row in table.itertuples()
            ],
            "group": "held-out prompts",
            "value": table["held_out"].to_numpy(float),
            "low": table["held_out_low"].to_numpy(float),
            "high": table["held_out_high"].to_numpy(float),
            "note": table["note"].to_numpy(),
        }
    )
    return intervals(
        rows,
        title="held-out score",
        reference=0.5,
        domain=(0.4, 1.0),
        data=table,
        name="card",
        what="Scores of the card",
        caption="Held-out score of each head on what it was trained for: accuracy on "
        "comparisons and labels, Spearman's correlation on measures. The line at one half is "
        "chance for accuracies only.",
    )
