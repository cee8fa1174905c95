"""What grids of heads by columns share: where a cell lies, and the names around it.

The data have ``row`` and ``column`` from 0, ``title``, ``upper``, ``middle`` and ``lower`` (px),
``name`` (the head's) and ``across`` (the column's); ``line`` (px) for a row set apart.
"""

from __future__ import annotations

import altair as alt

from lib.charts import theme

LONG = 26  # characters of a column's name
LINE, LIMIT = 12, 240  # px between the lines of a column's name, and of its length
APART = 14  # px between the heads and what they are compared with
UPPER, LOWER = alt.Y("upper:Q", scale=None, axis=None), alt.Y2("lower")
MIDDLE = alt.Y("middle:Q", scale=None, axis=None)


def head_names(gutter: int, only: str = "true", quiet: bool = False) -> alt.Chart:
    """Names of the heads, left of their rows; above them where the page is narrow.

    Parameters
    ----------
    gutter
        Room for them on a wide page, px.
    only
        An expression that tells which rows these are.
    quiet
        Are these no heads, but what heads are compared with?
    """
    return (
        alt.Chart()
        .transform_joinaggregate(leftmost="min(column)", groupby=["row"])
        .transform_filter(f"datum.column === datum.leftmost && {only}")
        .mark_text(
            align="left",
            baseline="middle",
            fontSize=theme.SIZE,
            fontWeight=400 if quiet else 600,
            fill=theme.ink("muted" if quiet else "text"),
            limit=alt.ExprRef(f"narrow ? width : {gutter - 10}"),
        )
        .encode(x=alt.XValue(0), y=alt.Y("title:Q", scale=None, axis=None), text=alt.Text("name:N"))
    )


def apart(only: str) -> alt.Chart:
    """A line between the heads and what they are compared with, right above its row."""
    return (
        alt.Chart()
        .transform_joinaggregate(leftmost="min(column)", groupby=["row"])
        .transform_filter(f"datum.column === datum.leftmost && {only}")
        .mark_rule(stroke=theme.ink("rule"))
        .encode(x=alt.XValue(0), x2=alt.X2Value("width"), y=alt.Y("line:Q", scale=None, axis=None))
    )


def column_names(
    x: alt.X, wide_top: int, narrow_top: int, short: bool = False, below: str = ""
) -> alt.Chart:
    """Names of the columns, slanted above them; upright where the page is narrow.

    Parameters
    ----------
    x
        Where a column lies.
    wide_top, narrow_top
        Where the first row begins, px.
    short
        Are there names in ``short`` for a narrow page?
    below
        What separates the further lines, in ``lines``; empty where there are none. With them
        names are upright on a wide page too, centred on their column.
    """
    chart = (
        alt.Chart()
        .transform_joinaggregate(topmost="min(row)", groupby=["column"])
        .transform_filter("datum.row === datum.topmost")
    )
    if short:
        lines = f" + (datum.lines ? '{below}' + datum.lines : '')" if below else ""
        chart = chart.transform_calculate(title=f"(narrow ? datum.short : datum.across){lines}")
    return chart.mark_text(
        align="left",
        baseline="middle",
        angle=270 if below else theme.either(270, 325),
        fontSize=theme.SMALL,
        fill=theme.ink("muted"),
        limit=LIMIT if below else 7 * LONG,
        **(
            {
                "lineBreak": below,
                "lineHeight": LINE,
                "dy": alt.ExprRef(
                    f"datum.lines ? {-LINE / 2} * length(split(datum.lines, '{below}')) : 0"
                ),
            }
            if below
            else {}
        ),
    ).encode(
        x=x,
        y=alt.YValue(theme.either(narrow_top - 4, wide_top - 8)),
        text=alt.Text("title:N" if short else "across:N"),
    )
