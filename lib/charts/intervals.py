"""Rows of estimates with their intervals: the figure that several analyses share.

One row a thing; its name at the left, its number at the right, a point with its interval
between, and maybe a grey tick for what it is compared with. A menu chooses the group where
there are several.
"""

from __future__ import annotations

import math

import altair as alt
import numpy as np
import pandas as pd

from lib.charts import theme
from lib.charts.render import (
    A_PAGE,
    Chart,
    frame,
    inline,
    layered,
    menu,
    plain,
    require,
    spanned,
    tips,
    written,
)
from lib.charts.rows import (
    END,
    LEFT,
    LINE,
    NARROW_STEP,
    ROW,
    STEP,
    band,
    between,
    gutter,
    hairlines,
    limit,
    tones,
    touch,
    turn,
    write,
)

RIGHT = 64
NUMBER = written("value", ".3f")
COLUMNS = ("name", "group", "value", "low", "high", "note")


def intervals(
    rows: pd.DataFrame,
    *,
    title: str,
    reference: float,
    data: pd.DataFrame,
    name: str,
    caption: str,
    what: str,
    domain: tuple[float, float] = (math.inf, -math.inf),
    beside: str = "",
    number: str = NUMBER,
    menu_name: str = "Subset",
) -> Chart:
    """Draw rows of intervals.

    Parameters
    ----------
    rows
        ``name``, ``group``, ``value``, ``low``, ``high``, ``note``, and ``tone`` (the ink
        of the row, ``better`` unless given) where rows differ. Names keep their
        order of appearance in every group, unless ``row`` says from 0 where each stands in
        its own; more than 60 come in pages of 40.
    title
        Of the axis.
    reference
        Where the upright line stands.
    data, name, caption
        As for ``Chart``.
    what
        Of the alternative text: ``"Readout losses"``.
    domain
        The axis holds at least this.
    beside
        Name of what each row is compared with; its values stand in the column ``beside``.
    number
        Vega expression of what is written at a row's end.
    menu_name
        What a group is, where a menu chooses among several.

    Raises
    ------
    DataError
        When a column is missing or there is no row.
    """
    require(rows, (*COLUMNS, "beside") if beside else COLUMNS, what)
    groups = list(dict.fromkeys(rows["group"]))
    names = list(dict.fromkeys(rows["name"]))
    row = rows["row"] if "row" in rows else rows["name"].map(names.index)
    count = int(row.max()) + 1
    drawn = pd.DataFrame(
        {
            "row": row,
            "group": rows["group"].map(groups.index),
            "name": rows["name"].map(plain),
            **{part: rows[part].astype(float).round(5) for part in ("value", "low", "high")},
            "note": rows["note"].fillna("").map(plain),
            "tone": rows.get("tone", "better"),
            **({"beside": rows["beside"].astype(float).round(5)} if beside else {}),
        }
    ).replace([np.inf, -np.inf], np.nan)
    drawn, turning, on_page = turn(drawn, count, "Rows")
    order = list(range(A_PAGE if turning else count))
    scale = _scale(drawn, reference, domain)
    inks = tones(*drawn["tone"].unique())
    chart = layered(
        _layers(drawn["name"], order, title, reference, scale, beside, inks),
        inline(drawn),
        f"datum.group === group && {on_page}",
        number=number,
        interval=spanned(".3f"),
        **({"compared": written("beside", ".3f")} if beside else {}),
    )
    heights = {"height": STEP * len(order), "narrow": NARROW_STEP * len(order)}
    return Chart(
        frame(chart, menu("group", menu_name, groups), *turning, **heights),
        alternative=_in_words(rows[rows["group"] == groups[0]], groups, what, beside),
        data=data,
        name=name,
        caption=caption,
        height=STEP * len(order) + 60,
    )


def _scale(drawn: pd.DataFrame, reference: float, domain: tuple[float, float]) -> alt.Scale:
    """Holds every number of every group, the reference and the given domain."""
    held = drawn[drawn.columns.intersection(["value", "low", "high", "beside"])].to_numpy(float)
    held = [reference, *held[np.isfinite(held)]]
    ends = min([*held, domain[0]]), max([*held, domain[1]])
    return alt.Scale(
        domain=[round(float(end), 5) for end in ends],
        range=between(gutter(drawn["name"]), RIGHT),
        zero=False,
        nice=True,
    )


def _layers(names, order, title, reference, scale, beside, inks) -> list[alt.Chart]:
    left = gutter(names)
    axis = alt.Axis(title=title, grid=False, tickCount=5, labelFlush=False)
    base, grey = alt.Chart(), theme.ink("baseline")
    other = (
        base.transform_filter("isValid(datum.beside)")
        .mark_tick(color=grey, thickness=2, height=16, yOffset=LINE, opacity=1)
        .encode(x=alt.X("beside:Q"), y=ROW)
    )
    shown = {"name": "", "number": title, "interval": "", "compared": beside, "note": ""}
    if not beside:
        del shown["compared"]
    return [
        alt.Chart(alt.InlineData(values=[{}]))
        .mark_rule(stroke=theme.ink("muted"))
        .encode(x=alt.XDatum(reference, type="quantitative", scale=scale, axis=axis)),
        hairlines(base, band(order)),
        *([other] if beside else []),
        base.mark_rule(strokeWidth=2.5, strokeCap="round", yOffset=LINE).encode(
            x=alt.X("low:Q"),
            x2=alt.X2("high:Q"),
            y=ROW,
            stroke=alt.Stroke("tone:N", scale=inks, legend=None),
        ),
        base.mark_point(size=64, strokeWidth=2, yOffset=LINE, filled=True).encode(
            x=alt.X("value:Q", scale=scale, axis=axis),
            y=ROW,
            color=alt.Color("tone:N", scale=inks, legend=None),
        ),
        write(base, "name", LEFT, fontWeight=600, limit=limit(left, RIGHT)),
        write(base, "number", END, fontWeight=600),
        write(
            base.transform_filter("!isValid(datum.value)"),
            "note",
            alt.XValue(theme.either(0, left)),
            yOffset=LINE,
            fontStyle="italic",
            fill=theme.ink("muted"),
            fontSize=theme.SMALL,
        ),
        touch(base, tips(shown)),
    ]


def _in_words(rows: pd.DataFrame, groups: list, what: str, beside: str) -> str:
    sentences = []
    for row in rows.itertuples():
        if not np.isfinite(row.value):
            sentences.append(f"{plain(row.name)}: {plain(row.note) or 'no number'}")
        elif np.isfinite(row.low) and np.isfinite(row.high):
            sentences.append(f"{plain(row.name)} {row.value:.3f} [{row.low:.3f}, {row.high:.3f}]")
        else:
            sentences.append(f"{plain(row.name)} {row.value:.3f}")
        if beside and np.isfinite(row.beside):
            sentences[-1] += f" ({beside} {row.beside:.3f})"
    parts = f" A menu chooses among {len(groups)} groups." if len(groups) > 1 else ""
    return f"{what} on {plain(groups[0])}: {'; '.join(sentences)}.{parts}"
