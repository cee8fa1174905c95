"""Win rates as a table of colours: heads down, something across, each cell with its number.

Colour only helps the eye: blue above one half, vermilion below.
"""

from __future__ import annotations

import math

import altair as alt
import pandas as pd

from lib.charts import theme
from lib.charts.grid import APART, LONG, LOWER, MIDDLE, UPPER, apart, column_names, head_names
from lib.charts.render import Chart, frame, inline, layered, plain, spanned, tips, written

# Win rate → (light, dark): at .2 and below, at one half, at .8 and above. Words in the text
# colour keep a contrast of 4.5 on all of them.
HEAT = (("#f0a583", "#86391a"), ("#f1f3f5", "#262b31"), ("#8fbfe8", "#1b5286"))
ENDS = (0.2, 0.5, 0.8)
STEP, NARROW_STEP, NAME = 30, 46, 17  # px: a row; a narrow row and its name above the cells
TOLD = 40  # heads in the alternative text


def heatmap(
    table: pd.DataFrame, column: str, order: list[str], below: pd.DataFrame | None = None
) -> alt.TopLevelMixin:
    """The drawing: heads down, ``column`` across in the given order.

    ``table`` has ``head``, ``column``, ``n``, ``prompts``, ``win_rate``, ``low``, ``high``,
    ``note`` and maybe ``claimed``. Cells are keyed by numbers, since names may clash. ``below``
    has the same columns: one row set apart from the heads, without their colours.
    """
    heads = list(dict.fromkeys(table["head"]))
    row, rows, height = table["head"].map(heads.index), len(heads), 0
    if below is not None:
        row = pd.concat([row, pd.Series(rows, below.index)], ignore_index=True)
        table = pd.concat([table, below], ignore_index=True)
        rows, height = rows + 1, APART
    drawn = pd.DataFrame(
        {
            "row": row,
            "column": table[column].map(order.index),
            "name": table["head"].map(plain),
            "across": table[column].map(plain),
            "rate": table["win_rate"].astype(float).round(5),
            "low": table["low"].astype(float).round(5),
            "high": table["high"].astype(float).round(5),
            "n": table["n"],
            "prompts": table["prompts"],
            "own": table["claimed"].astype(int) if "claimed" in table else 0,
            "note": table["note"].fillna("").map(plain),
        }
    )
    longest = min(LONG, drawn["across"].map(len).max())
    wide_top, narrow_top = int(18 + 4.2 * longest), int(14 + 6.8 * longest)
    gutter = int(min(230, max(90, 7.2 * drawn["name"].map(len).max() + 14)))
    right = int(min(120, 4.6 * longest))
    x = alt.X(
        "column:O",
        axis=None,
        scale=alt.Scale(
            type="band",
            domain=list(range(len(order))),
            range=[theme.either(0, gutter), alt.ExprRef(f"narrow ? width : width - {right}")],
            padding=0.04,
        ),
    )
    top = f"(narrow ? {narrow_top} : {wide_top})"
    step = f"(narrow ? {NARROW_STEP} : {STEP})"
    own, other = f"datum.row < {len(heads)}", f"datum.row === {len(heads)}"
    start = f"{top} + datum.row * {step} + ({other} ? {height} : 0)"
    places = {
        "upper": f"{start} + (narrow ? {NAME} : 1)",
        "lower": f"{start} + {step} - 1",
        "middle": "(datum.upper + datum.lower) / 2",
        "title": f"narrow ? {start} + 9 : datum.middle",
        "line": f"{start} - {APART / 2}",
        **_TEXTS,
    }
    layers = [
        *_cells(x, len(order), own),
        head_names(gutter, own),
        column_names(x, wide_top, narrow_top),
        _touch(x, column),
    ]
    if below is not None:
        layers += [apart(other), head_names(gutter, other, quiet=True)]
    return frame(
        layered(layers, inline(drawn), **places),
        height=wide_top + STEP * rows + height,
        narrow=narrow_top + NARROW_STEP * rows + height,
    )


_TEXTS = {
    "number": "!isValid(datum.rate) ? '–' : datum.rate >= 0.995 ? '1' : "
    "slice(format(datum.rate, '.2f'), 1)",
    "precise": written("rate", ".3f"),
    "interval": spanned(".3f"),
}


def heat() -> alt.Scale:
    """Win rate → colour of its cell."""
    colours = [alt.ExprRef(f"dark ? '{dark}' : '{light}'") for light, dark in HEAT]
    return alt.Scale(domain=list(ENDS), range=colours, clamp=True, interpolate="rgb")


def _cells(x, count: int, coloured: str) -> list[alt.Chart]:
    known = alt.Chart().transform_filter(f"isValid(datum.rate) && {coloured}")
    own = alt.Chart().transform_filter("datum.own === 1")
    size = theme.either(theme.SMALL if count <= 10 else 9, theme.SIZE if count <= 14 else 10)
    return [
        known.mark_rect().encode(
            x=x, y=UPPER, y2=LOWER, color=alt.Color("rate:Q", scale=heat(), legend=None)
        ),
        own.mark_rect(fillOpacity=0, stroke=theme.ink("text"), strokeWidth=2).encode(
            x=x, y=UPPER, y2=LOWER
        ),
        alt.Chart()
        .mark_text(baseline="middle", fontSize=size, fill=theme.ink("text"))
        .properties(name="numbers")
        .encode(x=x, y=MIDDLE, text=alt.Text("number:N")),
    ]


def _touch(x, column: str) -> alt.Chart:
    shown = {"name": "head", "across": column, "precise": "win rate", "interval": ""}
    shown |= {"n:Q": "comparisons", "prompts:Q": "prompts", "note": "note"}
    return (
        alt.Chart()
        .mark_rect(fill="transparent")
        .properties(name="touch_heads")
        .encode(x=x, y=UPPER, y2=LOWER, tooltip=tips(shown))
    )


def preferences(table: pd.DataFrame, column: str, preferred: str, name: str) -> Chart:
    """Heat map of how often rules score the ``preferred`` answer higher, by ``column``.

    ``table`` is as for ``heatmap``; columns keep their order of appearance.
    """
    order = list(dict.fromkeys(table[column]))
    told = [
        f"{plain(head)}: "
        + ", ".join(
            f"{plain(across)} {cell(row)}"
            for across, row in zip(rows[column], rows.itertuples(), strict=True)
        )
        for head, rows in list(table.groupby("head", sort=False))[:TOLD]
    ]
    left = table["head"].nunique() - len(told)
    told += [f"and {left} more"] if left else []
    return Chart(
        heatmap(table, column, order),
        alternative=f"Share of {preferred}s preferred, by {column}. {'; '.join(told)}.",
        data=table,
        name=name,
        caption=f"Share of comparisons in which the {preferred} scores higher, ties counted half; "
        "blue above one half, vermilion below. Intervals are told where the pointer or finger "
        "rests, and in the table below.",
        height=STEP * table["head"].nunique() + 120,
    )


def cell(row) -> str:
    """``0.71 [0.60, 0.80]``, or a dash."""
    if math.isnan(row.win_rate):
        return "–"
    return f"{row.win_rate:.2f} [{row.low:.2f}, {row.high:.2f}]"
