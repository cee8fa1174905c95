"""Heads under protocols, coloured by verdict: the front page's figure, and its table.

``matrix`` draws; a cell leads to the page that gave its verdict. ``listing`` is the same as a
table of links, for those who use a keyboard or hear the page. Addresses start at the site's
root; ``book/_static/charts.js`` and ``lib.book.theming`` make them right for the page that shows
them, so both may stand on any page. Both may end with a row for what the longer response alone
wins, set apart from the heads and without a verdict.
"""

from __future__ import annotations

import os
from urllib.parse import quote

import altair as alt
import numpy as np
import pandas as pd

from lib.charts import theme
from lib.charts.grid import APART, LONG, LOWER, MIDDLE, UPPER, apart, column_names, head_names
from lib.charts.render import Chart, frame, inline, menu, nothing, plain, require, spanned, written
from lib.markup import Html, escape
from lib.stats.winrates import ALL, LONGER
from lib.summary.scorecard.stats import CELLS, LENGTHS
from lib.summary.tables import NOT_RUN

DRAWN = tuple(name for name in CELLS if name not in ("p", "length"))
WHOLE = "whole datasets"  # the first choice of the menu
CROWDED = 10  # columns above which a cell has its mark above its number in wide containers too
FULL = 16  # columns above which a phone's cells have room for the mark alone
ROW, TALL_ROW, NARROW_ROW, NAME = 30, 38, 56, 18  # px; a narrow row has its name above
NO_HEAD = "baseline"  # in the column of verdicts, for a row that has none
SHORT = 18  # characters of a column's name
TOLD = 40  # heads in the alternative text

CAPTION = (
    "Verdict of each head on each protocol, with its share of comparisons won: "
    + ", ".join(f"{mark.glyph} {name}" for name, mark in theme.VERDICTS.items())
    + ". Blue ranks first what the data set marks as better, vermilion what it marks as worse. "
    "A data set in which each criterion varies a thing of its own has no column among whole "
    "datasets; the menu shows its criteria. Point at a cell for its interval; click it for the "
    "page. Each verdict is corrected within its own page."
)
BASELINE = (
    " Below the heads, the share that the longer response alone wins: a head that goes up and down "
    "with it may read nothing but length."
)


def matrix(table: pd.DataFrame, longer: pd.DataFrame | None = None) -> Chart:
    """Heat map of verdicts; a menu chooses whole datasets or the subsets of one.

    Parameters
    ----------
    table
        As ``lib.summary.matrix`` returns it.
    longer
        As ``lib.summary.longer`` returns it: a row below the heads.

    Raises
    ------
    DataError
        When a column is missing.
    """
    require(table.reindex(range(1)) if table.empty else table, DRAWN, "verdicts")
    if table.empty:
        return nothing("No validity page was executed: there are no verdicts.", table, "matrix")
    heads = list(dict.fromkeys(table["head"]))
    if longer is None or longer.empty:
        below = None
    else:
        require(longer, LENGTHS, "the longer response")
        below = longer.assign(head=LONGER, verdict=NO_HEAD).reindex(columns=list(DRAWN))
    views = _views(table)
    drawn = pd.concat(
        [
            _cells(rows, heads, column, _beside(rows, below)).assign(part=k)
            for k, (_, column, rows) in enumerate(views)
        ],
        ignore_index=True,
    )
    return Chart(
        _drawing(drawn, len(heads), [label for label, _, _ in views]),
        alternative=_in_words(table, heads, below),
        data=table if below is None else pd.concat([table, below], ignore_index=True),
        name="matrix",
        caption=CAPTION + (BASELINE if below is not None else ""),
        height=ROW * len(heads) + 150,
    )


def _beside(rows: pd.DataFrame, below: pd.DataFrame | None) -> pd.DataFrame | None:
    """The baseline on every dataset and subset of a view, whether it was computed there or not."""
    if below is None:
        return None
    keys = ["dataset", "subset"]
    places = rows[[*keys, "page"]].drop_duplicates(keys)
    found = places.merge(below.drop(columns="page"), on=keys, how="left")
    always = {"head": LONGER, "verdict": NO_HEAD}
    return found.fillna({"n": 0, "note": NOT_RUN}).assign(**always)


def _views(table: pd.DataFrame) -> list[tuple[str, str, pd.DataFrame]]:
    """Choices of the menu: label, the column that goes across, rows."""
    overall = table[table["subset"] == ALL]
    views = [(WHOLE, "dataset", overall)] if len(overall) else []
    for dataset, rows in table.groupby("dataset", sort=False):
        if rows["subset"].nunique() > 1 or not (rows["subset"] == ALL).any():
            views.append((f"{dataset} by subset", "subset", rows))
    return views


def _cells(
    rows: pd.DataFrame, heads: list[str], column: str, below: pd.DataFrame | None
) -> pd.DataFrame:
    """One record a cell, keyed by numbers since names may clash."""
    across = list(dict.fromkeys(rows[column]))
    row = rows["head"].map(heads.index)
    if below is not None:
        row = pd.concat([row, pd.Series(len(heads), below.index)], ignore_index=True)
        rows = pd.concat([rows, below], ignore_index=True)
    short = dict(zip(across, _short(across), strict=True))
    glyphs = {name: mark.glyph for name, mark in theme.VERDICTS.items()} | {NOT_RUN: "–"}
    way = np.select([rows["win_rate"] > 0.5, rows["win_rate"] < 0.5], ["↑", "↓"], "–")
    return pd.DataFrame(
        {
            "row": row,
            "column": rows[column].map(across.index),
            "name": rows["head"].map(plain),
            "across": rows[column].map(lambda text: plain(text, LONG)),
            "short": rows[column].map(lambda text: plain(short[text], SHORT)),
            "protocol": rows["dataset"].map(plain),
            "subset": rows["subset"].map(plain),
            "verdict": rows["verdict"],
            "glyph": rows["verdict"].map(glyphs).fillna(pd.Series(way, rows.index)),
            "n": rows["n"].astype(int),
            "rate": rows["win_rate"].round(5),
            "low": rows["low"].round(5),
            "high": rows["high"].round(5),
            "p": rows["p_adjusted"].round(5),
            "mde": rows["mde"].round(5),
            "note": rows["note"].fillna("").map(plain),
            "page": rows["page"],
        }
    )


def _short(names: list[str]) -> list[str]:
    """The last part of each name where that tells it from the others."""
    last = [name.rsplit("/", 1)[-1] for name in names]
    return [end if last.count(end) == 1 else name for name, end in zip(names, last, strict=True)]


_TEXTS = {
    "number": "!isValid(datum.rate) ? '' : datum.rate >= 0.995 ? '1' : "
    "slice(format(datum.rate, '.2f'), 1)",
    "precise": written("rate", ".3f"),
    "interval": spanned(".3f"),
    "p_text": "!isValid(datum.p) ? '–' : datum.p < 0.001 ? 'below 0.001' : format(datum.p, '.3f')",
    "mde_text": written("mde", ".3f", before="±"),
    "n_text": "format(datum.n, ',')",
    "note_text": "datum.note || '–'",
    "link": "datum.page ? root + datum.page : ''",
}
_HEADS, _OTHER = f"datum.verdict !== '{NO_HEAD}'", f"datum.verdict === '{NO_HEAD}'"
_SOLID = [name for name, mark in theme.VERDICTS.items() if not mark.hollow and name != "undefined"]
_IS_SOLID = f"indexof({_SOLID}, datum.verdict) >= 0"


def _drawing(drawn: pd.DataFrame, heads: int, labels: list[str]) -> alt.TopLevelMixin:
    columns = int(drawn["column"].max()) + 1
    below = bool((drawn["verdict"] == NO_HEAD).any())
    more = (heads + 1, APART) if below else (heads, 0)
    stacked = columns > CROWDED
    row = TALL_ROW if stacked else ROW
    longest, shortest = drawn["across"].map(len).max(), drawn["short"].map(len).max()
    wide_top, narrow_top = int(18 + 4.4 * longest), int(14 + 6.8 * shortest)
    gutter = int(min(230, max(90, 7.2 * drawn["name"].map(len).max() + 14)))
    right = int(min(120, 4.6 * longest))
    x = alt.X(
        "column:O",
        axis=None,
        scale=alt.Scale(
            type="band",
            range=[theme.either(0, gutter), alt.ExprRef(f"narrow ? width : width - {right}")],
            padding=0.04,
        ),
    )
    top, step = f"(narrow ? {narrow_top} : {wide_top})", f"(narrow ? {NARROW_ROW} : {row})"
    together = (
        "!datum.number ? datum.glyph : "
        f"(narrow && {str(columns > FULL).lower()}) ? datum.glyph : "
        f"{_OTHER} ? datum.number : "
        f"(narrow || {str(stacked).lower()}) ? [datum.glyph, datum.number] : "
        "datum.glyph + ' ' + datum.number"
    )
    start = f"{top} + datum.row * {step} + ({_OTHER} ? {APART} : 0)"
    places = {
        "upper": f"{start} + (narrow ? {NAME} : 1)",
        "lower": f"{start} + {step} - 1",
        "middle": "(datum.upper + datum.lower) / 2 - (isArray(datum.words) ? 7 : 0)",
        "title": f"{start} + (narrow ? 9 : {row / 2})",
        "line": f"{start} - {APART / 2}",
    }
    layers = [
        *_colours(x),
        _words(x, columns, stacked),
        head_names(gutter, _HEADS),
        column_names(x, wide_top, narrow_top, short=True),
        _touch(x, _HEADS, "touch_heads", _TOLD),
    ]
    if below:
        layers += [
            apart(_OTHER),
            head_names(gutter, _OTHER, quiet=True),
            _touch(x, _OTHER, "touch_others", _TOLD_OF_OTHERS),
        ]
    return frame(
        alt.layer(*layers, data=inline(drawn))
        .transform_filter("datum.part === part")
        .transform_calculate(**_TEXTS)
        .transform_calculate(words=together)
        .transform_calculate(**places),
        alt.param(name="root", value=""),  # set by the site
        menu("part", "Columns", labels),
        height=wide_top + row * more[0] + more[1],
        narrow=narrow_top + NARROW_ROW * more[0] + more[1],
    )


def _colours(x) -> list[alt.Chart]:
    """Cells: filled by what was found, outlined where nothing was, empty where nothing ran."""
    known = alt.Chart().transform_filter(f"datum.verdict !== '{NOT_RUN}' && {_HEADS}")
    fill = alt.Scale(
        domain=list(theme.VERDICTS),
        range=[theme.ink(name if name in _SOLID else "band") for name in theme.VERDICTS],
    )
    place = {"x": x, "y": UPPER, "y2": LOWER}
    outlined = known.transform_filter(f"!({_IS_SOLID})")
    return [
        known.mark_rect().encode(**place, fill=alt.Fill("verdict:N", scale=fill, legend=None)),
        outlined.mark_rect(fillOpacity=0, stroke=theme.ink("rule"), strokeWidth=1).encode(**place),
    ]


def _words(x, columns: int, stacked: bool) -> alt.Chart:
    size = theme.either(theme.SMALL if columns <= CROWDED else 10, 11 if stacked else theme.SMALL)
    return (
        alt.Chart()
        .mark_text(baseline="middle", lineHeight=14, fontSize=size)
        .properties(name="numbers")
        .encode(
            x=x,
            y=MIDDLE,
            text="words:N",
            fill=alt.condition(
                _IS_SOLID, alt.value(theme.ink("background")), alt.value(theme.ink("text"))
            ),
        )
    )


def _touch(x, only: str, name: str, told: list[alt.Tooltip]) -> alt.Chart:
    """What answers to the pointer on the cells of some rows."""
    return (
        alt.Chart()
        .transform_filter(only)
        .mark_rect(fill="transparent")
        .properties(name=name)
        .encode(x=x, y=UPPER, y2=LOWER, tooltip=told, href="link:N")
    )


_TOLD = [
    alt.Tooltip("name:N", title="head"),
    alt.Tooltip("protocol:N"),
    alt.Tooltip("subset:N"),
    alt.Tooltip("verdict:N"),
    alt.Tooltip("precise:N", title="win rate"),
    alt.Tooltip("interval:N"),
    alt.Tooltip("n_text:N", title="comparisons"),
    alt.Tooltip("p_text:N", title="adjusted p"),
    alt.Tooltip("mde_text:N", title="detectable"),
    alt.Tooltip("note_text:N", title="note"),
]
_TOLD_OF_OTHERS = [
    alt.Tooltip("name:N", title="baseline"),
    alt.Tooltip("protocol:N"),
    alt.Tooltip("subset:N"),
    alt.Tooltip("precise:N", title="win rate"),
    alt.Tooltip("interval:N"),
    alt.Tooltip("n_text:N", title="comparisons"),
    alt.Tooltip("note_text:N", title="note"),
]


def _in_words(table: pd.DataFrame, heads: list[str], below: pd.DataFrame | None = None) -> str:
    overall = table[table["subset"] == ALL]
    told = []
    for head in heads[:TOLD]:
        own = overall[overall["head"] == head]
        places = own.groupby("verdict", sort=False)["dataset"].agg(list)
        ordered = [name for name in (*theme.VERDICTS, NOT_RUN) if name in places]
        says = [f"{name} on {', '.join(map(plain, places[name]))}" for name in ordered]
        if says:
            told.append(f"{plain(head)}: {'; '.join(says)}")
    if len(heads) > TOLD:
        told.append(f"and {len(heads) - TOLD} more heads")
    subsets = table.loc[table["subset"] != ALL, "dataset"].unique()
    if below is not None:
        known = below[(below["subset"] == ALL) & below["win_rate"].notna()]
        where = [f"{row.win_rate:.2f} on {plain(row.dataset)}" for row in known.itertuples()]
        told += [f"For comparison, the longer response wins {', '.join(where)}"] if where else []
    if overall.empty:
        told = [f"By criterion only: {', '.join(map(plain, subsets))}"]
    return (
        f"Verdicts of {len(heads)} heads on {overall['dataset'].nunique()} protocols. "
        f"{'. '.join(told)}. The scorecard has the same as a table with links."
    )


def listing(table: pd.DataFrame, folder: str = "", longer: pd.DataFrame | None = None) -> Html:
    """The matrix as a folded table: a row a head, a column a protocol, each verdict a link.

    Parameters
    ----------
    table
        As ``lib.summary.matrix`` returns it; whole datasets are listed.
    folder
        Of the page that shows it, from the site's root: links work without scripts there.
        Elsewhere the site's script makes them right.
    longer
        As ``lib.summary.longer`` returns it: the table's foot.
    """
    overall = table[table["subset"] == ALL]
    if overall.empty:
        return Html("<p>No dataset was judged as a whole.</p>")
    datasets = list(dict.fromkeys(overall["dataset"]))
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in ("head", *datasets))
    rows = []
    for name, own in overall.groupby("head", sort=False):
        cells = {row.dataset: _linked(row, folder) for row in own.itertuples()}
        row = "".join(f"<td>{cells[dataset]}</td>" for dataset in datasets)
        rows.append(f'<tr><th scope="row"><bdi>{escape(name)}</bdi></th>{row}</tr>')
    return Html(
        "<details><summary>The same as a table with links</summary>"
        '<div class="table-scroll mathjax_ignore" tabindex="0"><table class="result">'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody>"
        f"{_foot(longer, datasets, folder)}</table></div></details>"
    )


def _foot(longer: pd.DataFrame | None, datasets: list[str], folder: str) -> str:
    """A last row for the longer response, without verdicts."""
    if longer is None or longer.empty:
        return ""
    own = longer[longer["subset"] == ALL]
    cells = {row.dataset: _linked(row, folder) for row in own.itertuples()}
    row = "".join(f"<td>{cells.get(dataset, '–')}</td>" for dataset in datasets)
    return f'<tfoot><tr><th scope="row">{LONGER}</th>{row}</tr></tfoot>'


def _linked(row, folder: str) -> str:
    number = f"{row.win_rate:.2f}" if pd.notna(row.win_rate) else ""
    chip = number or "–"
    if hasattr(row, "verdict"):
        verdict = escape(row.verdict)
        chip = (
            f'{number}<span class="verdict verdict-{verdict.replace(" ", "-")}" '
            f'style="margin-left: 0.4em">{verdict}</span>'  # a space would be underlined
        )
    if not row.page:
        return chip
    page = escape(row.page)
    near = quote(os.path.relpath(row.page, folder or "."), safe="/%.-_~")
    return f'<a href="{escape(near)}" data-page="{page}">{chip}</a>'
