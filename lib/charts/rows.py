"""What figures of rows share: a name at the left, a number at the right, one scale between.

A wide row is one line; a narrow one has its words above its line. The data have ``row`` from 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import altair as alt
import pandas as pd

from lib.charts import theme
from lib.charts.render import A_PAGE, menu, pages

STEP, NARROW_STEP = 28, 46  # px of a row
LINE, WORDS = theme.either(11, 0), theme.either(-9, 0)
LEFT, END = alt.XValue(0), alt.XValue("width")
TO_END = alt.X2Value("width")
ROW = alt.Y("row:O", axis=None)
MIDDLE_OF_ALL = (0.2, 0.8)


def won(*shares: pd.Series) -> tuple[float, float]:
    """Ends of an axis of shares of comparisons won: where all numbers lie within .2 to .8 these,
    else 0 and 1, so that figures side by side mostly have one axis.
    """
    held = pd.concat(shares).dropna()
    return MIDDLE_OF_ALL if held.between(*MIDDLE_OF_ALL).all() else (0.0, 1.0)


def gutter(names: pd.Series, most: int = 270, least: int = 110) -> int:
    """Room for names at the left of a wide page, px."""
    return int(min(most, max(least, 7.2 * names.map(len).max() + 16)))


def limit(left: int, right: int) -> alt.ExprRef:
    """How long a name may be: the gutter's width, or on a phone up to the number."""
    return alt.ExprRef(f"narrow ? width - {right + 4} : {left - 14}")


def between(left: int, right: int, edge: int = 11) -> list[alt.ExprRef]:
    """Range of a scale between gutter and numbers; on a phone all but the edges, px."""
    return [theme.either(edge, left), alt.ExprRef(f"width - (narrow ? {edge} : {right})")]


def band(order: Sequence[int]) -> alt.Y:
    """Places of all rows, in order: the scale that a chart's other layers share as ``ROW``."""
    return alt.Y("row:O", axis=None, scale=alt.Scale(type="band", domain=order, padding=0))


def tones(*names: str) -> alt.Scale:
    """Names of inks → their colours."""
    return alt.Scale(domain=names, range=[theme.ink(name) for name in names])


def toned(verdicts: Iterable[str], inks: Mapping[str, str]) -> list[str]:
    """Each row's ink by its verdict; grey for a verdict that has none."""
    return [inks.get(verdict, "baseline") for verdict in verdicts]


def score_first(rows: pd.DataFrame) -> pd.DataFrame:
    """The last group, a model's one score where it has one, before the others in a menu."""
    last = rows["group"] == rows["group"].iloc[-1]
    return pd.concat([rows[last], rows[~last]])


def hairlines(chart: alt.Chart, y: alt.Y) -> alt.Chart:
    """A faint line below each row."""
    mark = chart.mark_rule(stroke=theme.ink("hairline"), yOffset=theme.either(23, 14))
    return mark.encode(x=LEFT, x2=TO_END, y=y)


def write(chart: alt.Chart, field: str, x: alt.XValue, y: alt.Y = ROW, **mark) -> alt.Chart:
    """Words in a row: right-aligned at its end, else left-aligned."""
    mark = {"baseline": "middle", "yOffset": WORDS, "fontSize": theme.SIZE} | mark
    mark["align"] = "right" if x is END else "left"
    return chart.mark_text(**mark).encode(
        x=x, y=y, text=alt.Text(field if ":" in field else f"{field}:N")
    )


def touch(chart: alt.Chart, tooltip: list[alt.Tooltip], y: alt.Y = ROW) -> alt.Chart:
    """Whole rows as targets of pointer and finger."""
    return chart.mark_rect(fill="transparent").encode(x=LEFT, x2=TO_END, y=y, tooltip=tooltip)


def turn(rows: pd.DataFrame, count: int, title: str) -> tuple[pd.DataFrame, list, str]:
    """Rows of so many names on pages, with the menus that turn them and the test of a record."""
    choices = pages(count)
    if not choices:
        return rows, [], "true"
    paged = rows.assign(page=rows["row"] // A_PAGE, row=rows["row"] % A_PAGE)
    return paged, [menu("page", title, choices)], "datum.page === page"
