"""Win rates as a forest plot: one row a head, its interval always drawn, its verdict named."""

from __future__ import annotations

import math

import altair as alt
import numpy as np
import pandas as pd

from lib.charts import theme
from lib.charts.render import (
    A_PAGE,
    DRAWN,
    Chart,
    frame,
    inline,
    layered,
    menu,
    pages,
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
    touch,
    turn,
    won,
    write,
)
from lib.data.items import count
from lib.errors import DataError
from lib.markup import READ
from lib.stats.winrates import ALL, CHANCE, MEAN, STRONG, distinct

COLUMNS = ("head", "subset", "n", "wins", "ties", "losses", "win_rate", "low", "high")
COLUMNS += ("p_adjusted", "verdict", "mde", "note")
BASELINE_COLUMNS = ("baseline", "subset", "n", "win_rate", "low", "high", "note")
SHOWN = 40  # heads in the alternative text
FAMILY = "all heads and subsets of this page (Holm)"

BANDS = (
    "Grey band: {:g} to {:g}, within which the whole interval must lie for a head to be called "
    "chance. Dashed: {:g}, above which it must lie to be called strong."
).format(*CHANCE, STRONG)
CAPTION = (
    "Share of comparisons in which the head scores the preferred response higher, ties "
    "counted half; the line is its 95% interval, uncorrected. Verdicts rest on tests corrected by "
    f"Holm, so an interval may exclude one half and the head still be inconclusive. {BANDS}"
)


def validity(
    table: pd.DataFrame, baselines: pd.DataFrame | None = None, family: str = FAMILY
) -> Chart:
    """Forest plot of win rates; a menu chooses the subset where there are several.

    Parameters
    ----------
    table
        As ``lib.stats.validity`` returns it.
    baselines
        As ``lib.stats.baselines`` returns it; drawn in grey below the heads.
    family
        What p is corrected over, for the tooltip.

    Raises
    ------
    DataError
        When a column is missing, no row is left, or a verdict is unknown.

    Notes
    -----
    Heads keep one order in all subsets, by their win rate on ``"all"``, so that a change of
    subset shows who moved. Nothing is computed here: every number stands in the tables.

    More than 60 heads come in pages of 40 in that order. More than 4,000 rows aren't drawn: of
    the subsets those with most comparisons are, as many as fit, and the caption says so.
    """
    require(table, COLUMNS, "win rates")
    odd = sorted(set(map(str, table["verdict"])) - set(theme.VERDICTS))
    if odd:
        raise DataError(
            f"verdicts among {', '.join(theme.VERDICTS)}",
            repr(odd[0]),
            "Give the table as lib.stats.validity returns it.",
        )
    table = table[table["note"] != MEAN]
    found = _subsets(table)
    subsets = _largest(table, found)
    rows = _rows(table, baselines, subsets)
    order = sorted(set(map(int, rows["row"])))
    overall = table[table["subset"] == subsets[0]]
    left, data = "", _download(table, baselines)
    if len(subsets) < len(found):
        left = f" Of {len(found)} subsets those {len(subsets)} with most comparisons are drawn."
        data = data[data["subset"].isin(subsets)]
    return Chart(
        _forest(rows, order, subsets, pages(table["head"].nunique()), family),
        alternative=_in_words(overall, subsets),
        data=data,
        name="validity",
        caption=CAPTION + left,
        height=STEP * len(order) + 80,
    )


def _subsets(table: pd.DataFrame) -> list[str]:
    """Subsets in order, "all" first; a part of all rows repeats "all" and is left out."""
    found = dict.fromkeys(distinct(table)["subset"])
    return sorted(found, key=lambda name: name != ALL)


def _largest(table: pd.DataFrame, subsets: list[str]) -> list[str]:
    """The first subset, and of the others those with most comparisons, as many as are drawn."""
    room = max(1, DRAWN // table["head"].nunique())
    if len(subsets) <= room:
        return subsets
    size = table.groupby("subset", sort=False)["n"].max()
    kept = sorted(subsets[1:], key=lambda name: -size[name])[: room - 1]
    return [subsets[0], *(name for name in subsets[1:] if name in set(kept))]


def _rows(table: pd.DataFrame, baselines: pd.DataFrame | None, subsets: list[str]) -> pd.DataFrame:
    """What is drawn: one record a row and subset, keyed by numbers since names may clash."""
    number = {subset: k for k, subset in enumerate(subsets)}
    first = table[table["subset"] == subsets[0]].sort_values(
        "win_rate", ascending=False, kind="stable", na_position="last"
    )
    heads = list(dict.fromkeys([*first["head"], *table["head"]]))
    drawn = table.loc[table["subset"].isin(subsets)].reindex(
        columns=[*COLUMNS, "length", "relation"]
    )
    drawn = drawn.rename(columns={"head": "name", "p_adjusted": "p", "win_rate": "rate"})
    drawn = drawn.assign(kind="head", row=drawn["name"].map(heads.index))
    drawn, turning, _ = turn(drawn, len(heads), "")
    below_heads = A_PAGE if turning else len(heads)
    if baselines is not None:
        require(baselines, BASELINE_COLUMNS, "baselines")
        below = baselines.loc[baselines["subset"].isin(subsets), list(BASELINE_COLUMNS)].rename(
            columns={"baseline": "name", "win_rate": "rate"}
        )
        names = list(dict.fromkeys(below["name"]))
        offset = below_heads + 1
        below = below.assign(kind="baseline", row=below["name"].map(names.index) + offset)
        title = {"kind": "title", "name": "For comparison", "row": below_heads}
        drawn = pd.concat([drawn, pd.DataFrame([title]), below], ignore_index=True)
    drawn["subset"] = drawn["subset"].map(number)
    for column in ("name", "note", "length", "relation"):
        drawn[column] = drawn[column].astype(object).fillna("").map(plain)
    shown = ["rate", "low", "high", "p", "mde"]
    drawn[shown] = drawn[shown].astype(float).round(5)
    counted = ["n", "wins", "ties", "losses"]
    columns = ["row", "kind", "name", "subset", *counted, *shown, "verdict", "note", "length"]
    columns.append("relation")
    return drawn[[*columns, *(["page"] if turning else [])]]


def _forest(
    rows: pd.DataFrame, order: list[int], subsets: list[str], turned: list[str], family: str
):
    left = gutter(rows["name"], most=250)
    heads = alt.Chart().transform_filter("datum.kind === 'head'")
    others = alt.Chart().transform_filter("datum.kind === 'baseline'")
    layers = [
        *_backdrop(rows, order, left),
        *_intervals(heads, others),
        *_words(heads, others, left),
        *_touch(heads, others, *(bool(rows[name].ne("").any()) for name in ("length", "relation"))),
    ]
    turning = [menu("page", "Heads, by win rate", turned)] if turned else []
    on_page = " && (datum.kind !== 'head' || datum.page === page)" if turned else ""
    # a title has no subset: it belongs to all
    kept = f"datum.kind === 'title' || datum.subset === subset{on_page}"
    chart = layered(layers, inline(rows), kept, **_TEXTS, family=f"'{family}'")
    heights = {"height": STEP * len(order), "narrow": NARROW_STEP * len(order)}
    return frame(chart, menu("subset", "Subset", subsets), *turning, **heights)


_TEXTS = {
    "number": written("rate", ".2f"),
    "precise": written("rate", ".3f"),
    "interval": spanned(".3f"),
    "p_text": "!isValid(datum.p) ? '–' : datum.p < 0.001 ? 'below 0.001' : format(datum.p, '.3f')",
    **{f"{what}_text": written(what, ",") for what in ("n", "wins", "ties", "losses")},
    "mde_text": written("mde", ".3f", before="±"),
    "length_text": "datum.length || '–'",
    "relation_text": "datum.relation || '–'",
    "verdict_text": f"datum.verdict === 'inverted' ? '{READ['inverted']}' : datum.verdict",
}

RIGHT, NUMERAL = 166, 40  # px kept for verdict and number, and of these for the number


def _backdrop(rows, order, left) -> list[alt.Chart]:
    """Band, reference lines, row lines; the scales and axes that all layers share."""
    low, high = won(rows["low"], rows["rate"], rows["high"])
    x_scale = alt.Scale(
        domain=[low, high],
        range=between(left, RIGHT),
        zero=False,
        nice=False,
    )
    axis = alt.Axis(
        values=[round(tick, 1) for tick in np.arange(low, high + 0.01, 0.1)],
        format=".1f",
        title="share of comparisons won",
        grid=False,
        labelFlush=False,
        labelOverlap=False,
        tickSize=4,
    )
    alone = alt.Chart(alt.InlineData(values=[{}]))
    full = {"y": alt.YValue(0), "y2": alt.Y2Value("height")}
    grey = theme.ink("muted")

    def at(value, **rest):
        return alt.XDatum(value, type="quantitative", **rest)

    def named(value, text):
        mark = alone.mark_text(baseline="bottom", fontSize=theme.SMALL, fill=grey, text=text)
        return mark.encode(x=at(value), y=alt.YValue(-4))

    return [
        alone.mark_rect(fill=theme.ink("band")).encode(
            x=at(CHANCE[0], scale=x_scale, axis=axis), x2=alt.X2Datum(CHANCE[1]), **full
        ),
        hairlines(alt.Chart(), band(order)),
        alone.mark_rule(stroke=grey).encode(x=at(0.5), **full),
        alone.mark_rule(stroke=grey, strokeDash=[3, 3]).encode(x=at(STRONG), **full),
        named(0.5, "chance"),
        named(STRONG, "strong"),
    ]


def _intervals(heads, others) -> list[alt.Chart]:
    """An interval and a point for each head; the same in grey for what it is compared with."""
    span = {"x": alt.X("low:Q"), "x2": alt.X2("high:Q"), "y": ROW}
    stroke = alt.Stroke("verdict:N", scale=theme.verdict_colour(), legend=None)
    grey = theme.ink("baseline")
    return [
        others.mark_rule(stroke=grey, strokeWidth=1.5, yOffset=LINE).encode(**span),
        others.mark_tick(color=grey, thickness=2, height=11, yOffset=LINE, opacity=1).encode(
            x=alt.X("rate:Q"), y=ROW
        ),
        heads.mark_rule(strokeWidth=2.5, strokeCap="round", yOffset=LINE).encode(
            **span, stroke=stroke
        ),
        heads.mark_point(size=72, strokeWidth=2, yOffset=LINE).encode(
            x=alt.X("rate:Q"),
            y=ROW,
            stroke=stroke,
            fill=alt.Fill("verdict:N", scale=theme.verdict_fill(), legend=None),
            shape=alt.Shape("verdict:N", scale=theme.verdict_shape(), legend=None),
        ),
    ]


def _words(heads, others, left) -> list[alt.Chart]:
    """Names at the left, verdicts and numbers at the right: the chart needs no legend."""
    titles = alt.Chart().transform_filter("datum.kind === 'title'")
    unknown = heads.transform_filter("datum.verdict === 'undefined'")
    name = {"limit": limit(left, RIGHT)}
    quiet = {"fill": theme.ink("muted")}
    small = quiet | {"fontSize": theme.SMALL}
    colour = alt.Color("verdict:N", scale=theme.verdict_colour(), legend=None)
    beside_name = alt.XValue(theme.either(0, left))
    return [
        write(heads, "name", LEFT, fontWeight=600, **name),
        write(others, "name", LEFT, **name, **quiet),
        write(titles, "name", LEFT, yOffset=theme.either(10, 3), **small),
        write(heads, "verdict_text", END, dx=-NUMERAL).encode(color=colour),
        write(heads, "number", END, fontWeight=600),
        write(others, "number", END, **quiet),
        write(unknown, "note", beside_name, yOffset=LINE, fontStyle="italic", **small),
    ]


def _touch(heads, others, beside_length: bool, related: bool) -> list[alt.Chart]:
    """Whole rows as targets of pointer and finger, with all that the table says."""
    numbers = {"precise": "win rate", "interval": "", "n_text": "comparisons"}
    of_heads = {"name": "head"} | ({"relation_text": "head's name"} if related else {})
    of_heads |= (
        {"verdict_text": "verdict"}
        | numbers
        | {f"{what}_text": what for what in ("wins", "ties", "losses")}
    )
    of_heads |= {"p_text": "adjusted p", "family": "corrected over", "mde_text": "detectable"}
    of_heads |= {"length_text": "beside length"} if beside_length else {}
    return [
        touch(heads, tips(of_heads)).properties(name="touch_heads"),
        touch(others, tips({"name": "baseline", **numbers})).properties(name="touch_others"),
    ]


def _in_words(overall: pd.DataFrame, subsets: list[str]) -> str:
    sentences = []
    ordered = overall.sort_values("win_rate", ascending=False, kind="stable")
    for row in ordered.head(SHOWN).itertuples():
        name = plain(row.head)
        if math.isnan(row.win_rate):
            sentences.append(f"{name} {row.verdict} ({plain(row.note)})")
        else:
            owed = getattr(row, "length", "")
            sentences.append(
                f"{name} {row.win_rate:.2f} [{row.low:.2f}, {row.high:.2f}] "
                f"{READ.get(row.verdict, row.verdict)}" + (f" ({owed})" if owed else "")
            )
    if len(ordered) > SHOWN:
        sentences.append(f"and {len(ordered) - SHOWN} more")
    parts = f" A menu chooses among {len(subsets)} subsets." if len(subsets) > 1 else ""
    return (
        f"Win rates of {count(len(ordered), 'head')} with intervals and verdicts, on "
        f"{plain(subsets[0])}: {'; '.join(sentences)}.{parts}"
    )


def _download(table: pd.DataFrame, baselines: pd.DataFrame | None) -> pd.DataFrame:
    if baselines is None:
        return table
    below = baselines.rename(columns={"baseline": "head"}).assign(verdict="baseline")
    return pd.concat([table, below], ignore_index=True)[list(table.columns)]
