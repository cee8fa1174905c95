"""Lines of several kinds, told apart by ink, dash and mark, and one of them in its band."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import altair as alt
import pandas as pd

from lib.charts import theme
from lib.charts.render import inline, tips


@dataclass(frozen=True)
class Look:
    """How a kind of line is drawn: role of its ink, dashes, shape of its points."""

    ink: str
    dash: tuple[int, int]
    shape: str


def lines(
    drawn: pd.DataFrame,
    looks: Mapping[str, Look],
    *,
    kind: str,
    x: alt.X,
    y: alt.Y,
    where: str,
    band: str,
    told: Mapping[str, Any],
    legend: alt.Legend,
) -> list[alt.Chart]:
    """Layers of a band, lines and points.

    Parameters
    ----------
    drawn
        Rows of points, with ``low`` and ``high``.
    looks
        Of each kind, in the legend's order.
    kind
        The column that names it.
    where
        Expression of the rows that are shown, by what the reader chose.
    band
        The kind whose ``low`` and ``high`` are drawn.
    told
        Columns of the tooltip (``render.tips``).
    """
    domain = list(looks)
    colour = alt.Scale(domain=domain, range=[theme.ink(look.ink) for look in looks.values()])
    dash = alt.Scale(domain=domain, range=[list(look.dash) for look in looks.values()])
    shape = alt.Scale(domain=domain, range=[look.shape for look in looks.values()])
    base = alt.Chart(inline(drawn)).transform_filter(where)
    stroke = alt.Stroke(f"{kind}:N", scale=colour, legend=legend)
    return [
        base.transform_filter(f"datum.{kind} === '{band}'")
        .mark_area(opacity=0.18, fill=theme.ink("better"))
        .encode(x=x, y=alt.Y("low:Q"), y2=alt.Y2("high:Q")),
        base.mark_line(strokeWidth=2).encode(
            x=x,
            y=y,
            stroke=stroke,
            strokeDash=alt.StrokeDash(f"{kind}:N", scale=dash, legend=legend),
        ),
        base.mark_point(size=44, strokeWidth=2, opacity=1, fill=theme.ink("background"))
        .encode(
            x=x,
            y=y,
            stroke=stroke,
            shape=alt.Shape(f"{kind}:N", scale=shape, legend=legend),
            tooltip=tips(told),
        )
        .properties(name="points"),
    ]
