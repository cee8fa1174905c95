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
from lib.charts.render import A_PAGE, Chart, inline, menu, pages, plain, require

STEP, NARROW_STEP = 28, 46  # px of a row
RIGHT = 64
COLUMNS = ("name", "group", "value", "low", "high", "note")
ROW = alt.Y("row:O", axis=None)
LINE, WORDS = theme.either(11, 0), theme.either(-9, 0)


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
) -> Chart:
    """Draw rows of intervals.

    Parameters
    ----------
    rows
        ``name``, ``group``, ``value``, ``low``, ``high``, ``note``, and ``tone`` (``better``,
        ``worse`` or ``baseline``, the ink of the row) where rows differ. Names keep their
        order of appearance in every group; more than 60 come in pages of 40.
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

    Raises
    ------
    DataError
        When a column is missing or there is no row.
    """
    require(rows, (*COLUMNS, "beside") if beside else COLUMNS, what)
    groups = list(dict.fromkeys(rows["group"]))
    names = list(dict.fromkeys(rows["name"]))
    drawn = pd.DataFrame(
        {
            "row": rows["name"].map(names.index),
            "group": rows["group"].map(groups.index),
            "name": rows["name"].map(plain),
            **{part: rows[part].astype(float).round(5) for part in ("value", "low", "high")},
            "note": rows["note"].fillna("").map(plain),
            "tone": rows.get("tone", "better"),
            **({"beside": rows["beside"].astype(float).round(5)} if beside else {}),
        }
    ).replace([np.inf, -np.inf], np.nan)
    turned = pages(len(names))
    if turned:
        drawn = drawn.assign(page=drawn["row"] // A_PAGE, row=drawn["row"] % A_PAGE)
    order = list(range(A_PAGE if turned else len(names)))
    return Chart(
        _layers(drawn, order, groups, title, reference, domain, beside, turned),
        alternative=_in_words(rows[rows["group"] == groups[0]], groups, what, beside),
        data=data,
        name=name,
        caption=caption,
        height=STEP * len(order) + 60,
    )


def _layers(drawn, order, groups, title, reference, domain, beside, turned) -> alt.TopLevelMixin:
    gutter = int(min(270, max(110, 7.2 * drawn["name"].map(len).max() + 16)))
    shown = drawn[["value", "low", "high", *(["beside"] if beside else [])]].to_numpy(float)
    shown = shown[np.isfinite(shown)]
    low = min([reference, domain[0], *shown])
    high = max([reference, domain[1], *shown])
    scale = alt.Scale(
        domain=[round(float(low), 5), round(float(high), 5)],
        range=[theme.either(11, gutter), alt.ExprRef(f"narrow ? width - 11 : width - {RIGHT}")],
        zero=False,
        nice=True,
    )
    axis = alt.Axis(title=title, grid=False, tickCount=5, labelFlush=False)
    x = alt.X("value:Q", scale=scale, axis=axis)
    tones = ["better", "worse", "baseline"]
    inks = alt.Scale(domain=tones, range=[theme.ink(tone) for tone in tones])
    stroke = alt.Stroke("tone:N", scale=inks, legend=None)
    band = alt.Y("row:O", axis=None, scale=alt.Scale(type="band", domain=order, padding=0))
    base = alt.Chart()
    untold = base.transform_filter("!isValid(datum.value)")
    word = {"baseline": "middle", "yOffset": WORDS, "fontSize": theme.SIZE}
    limit = alt.ExprRef(f"narrow ? width - {RIGHT + 4} : {gutter - 14}")
    other = [
        base.transform_filter("isValid(datum.beside)")
        .mark_tick(color=theme.ink("baseline"), thickness=2, height=16, yOffset=LINE, opacity=1)
        .encode(x=alt.X("beside:Q"), y=ROW)
    ]
    layers = [
        alt.Chart(alt.InlineData(values=[{}]))
        .mark_rule(stroke=theme.ink("muted"))
        .encode(x=alt.XDatum(reference, type="quantitative", scale=scale, axis=axis)),
        base.mark_rule(stroke=theme.ink("hairline"), yOffset=theme.either(23, 14)).encode(
            x=alt.value(0), x2=alt.value("width"), y=band
        ),
        *(other if beside else []),
        base.mark_rule(strokeWidth=2.5, strokeCap="round", yOffset=LINE).encode(
            x=alt.X("low:Q"), x2="high:Q", y=ROW, stroke=stroke
        ),
        base.mark_point(size=64, strokeWidth=2, yOffset=LINE, filled=True).encode(
            x=x, y=ROW, color=alt.Color("tone:N", scale=inks, legend=None)
        ),
        base.mark_text(align="left", fontWeight=600, limit=limit, **word).encode(
            x=alt.value(0), y=ROW, text="name:N"
        ),
        base.mark_text(align="right", fontWeight=600, **word).encode(
            x=alt.value("width"), y=ROW, text="number:N"
        ),
        untold.mark_text(
            align="left",
            fontStyle="italic",
            fill=theme.ink("muted"),
            **word | {"yOffset": LINE, "fontSize": theme.SMALL},
        ).encode(x=alt.value(theme.either(0, gutter)), y=ROW, text="note:N"),
        base.mark_rect(fill="transparent").encode(
            x=alt.value(0),
            x2=alt.value("width"),
            y=ROW,
            tooltip=[
                alt.Tooltip("name:N"),
                alt.Tooltip("number:N", title=title),
                alt.Tooltip("interval:N"),
                *([alt.Tooltip("compared:N", title=beside)] if beside else []),
                alt.Tooltip("note:N"),
            ],
        ),
    ]
    turning = [menu("page", "Rows", turned)] if turned else []
    on_page = " && datum.page === page" if turned else ""
    return (
        alt.layer(*layers, data=inline(drawn))
        .transform_filter(f"datum.group === group{on_page}")
        .transform_calculate(
            number="isValid(datum.value) ? format(datum.value, '.3f') : '–'",
            interval="isValid(datum.low) ? format(datum.low, '.3f') + ' to ' + "
            "format(datum.high, '.3f') : '–'",
            **({"compared": _COMPARED} if beside else {}),
        )
        .add_params(*theme.parameters(), menu("group", "Subset", groups), *turning)
        .properties(
            width="container",
            height=STEP * len(order),
            autosize=alt.AutoSizeParams(type="fit-x", contains="padding"),
            usermeta={"narrow": {"height": NARROW_STEP * len(order)}},
        )
    )


_COMPARED = "isValid(datum.beside) ? format(datum.beside, '.3f') : '–'"


def _in_words(rows: pd.DataFrame, groups: list, what: str, beside: str) -> str:
    told = []
    for row in rows.itertuples():
        if not np.isfinite(row.value):
            told.append(f"{plain(row.name)}: {plain(row.note) or 'no number'}")
        elif np.isfinite(row.low) and np.isfinite(row.high):
            told.append(f"{plain(row.name)} {row.value:.3f} [{row.low:.3f}, {row.high:.3f}]")
        else:
            told.append(f"{plain(row.name)} {row.value:.3f}")
        if beside and np.isfinite(row.beside):
            told[-1] += f" ({beside} {row.beside:.3f})"
    parts = f" A menu chooses among {len(groups)} groups." if len(groups) > 1 else ""
    return f"{what} on {plain(groups[0])}: {'; '.join(told)}.{parts}"
