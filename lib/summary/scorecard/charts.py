"""Heads under protocols, coloured by verdict: the front page's figure, and its table.

``matrix`` draws; a cell leads to the page that gave its verdict. ``listing`` is the same as a
table of links, for those who use a keyboard or hear the page. ``uses`` is what follows for who
must choose: a row a head, with the cells that say so. Addresses start at the site's root;
``book/_static/charts.js`` and ``lib.book.theming`` make them right for the page that shows them,
so all may stand on any page. The first two may end with a row for what the longer response alone
wins, set apart from the heads and without a verdict.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import quote

import altair as alt
import numpy as np
import pandas as pd

from lib.charts import theme
from lib.charts.grid import APART, LONG, LOWER, MIDDLE, UPPER, apart, column_names, head_names
from lib.charts.render import (
    Chart,
    frame,
    inline,
    layered,
    menu,
    nothing,
    plain,
    require,
    spanned,
    written,
)
from lib.data.asks import of, of_subset, whole
from lib.data.concepts import CLAIMED, OPPOSED, OTHER
from lib.data.items import count
from lib.markup import READ, Html, escape
from lib.stats.winrates import ALL, LONGER
from lib.summary.scorecard.stats import AGAINST, CELLS, LENGTHS, NO_CONCEPT, UNKNOWN, USE
from lib.summary.tables import NOT_RUN
from lib.words import LEARNED

LATER = (
    "relation",
    "trained",
    "part",
    "lacks",
    "counted",
)  # columns that tables of before may lack
DRAWN = tuple(name for name in CELLS if name not in ("p", "length", *LATER))
OWN = "own criterion"  # what a dataset's column holds that asks a thing of its own by criterion
OPPOSITE, TRAINED = "⇄", LEARNED  # marks of cells
WHOLE = "whole datasets"  # the first choice of the menu
CROWDED = 10  # columns above which a cell has its mark above its number in wide containers too
FULL = 16  # columns above which a phone's cells have room for the mark alone
ROW, TALL_ROW, NARROW_ROW, NAME = 30, 38, 56, 18  # px; a narrow row has its name above
FAMILY = "all heads and subsets of its page (Holm)"
NO_HEAD = "baseline"  # in the column of verdicts, for a row that has none
LINE = 44  # characters of each line below
BREAK = "; "  # between the lines of a column's name
SHORT = 18  # characters of a column's name
TOLD = 40  # heads in the alternative text

CAPTION = (
    "Share of comparisons won by each head on each protocol, with its verdict: "
    + ", ".join(f"{mark.glyph} {READ.get(name, name)}" for name, mark in theme.VERDICTS.items())
    + ". Filled or framed: the labels ask what the head's name claims. Without either: they ask "
    f"something else, so to go against them is no fault; {OPPOSITE}: they ask the opposite, so to "
    f"go against them is what the name says. {TRAINED}: trained on other prompts of this source, "
    "or on the measure that its pairs had to move. "
    "Below a protocol's name stand the part that was audited and how much it is. Of a dataset in "
    "which each criterion varies a thing of its own a head has the criterion that it claims; the "
    "menu shows all. Point at a cell for its 95% interval, which is uncorrected; click it for the "
    "page. Each verdict is corrected within its own page, so an interval may exclude one half and "
    "the cell still be inconclusive."
)
HOW_USED = (
    "Use for: the labels ask what the head's name claims, and the head goes with them beyond "
    "chance, and beyond length or a liking for refusals unless it claims that. Not for: it goes "
    "against the labels, whatever they ask, or is at chance on what it claims. Not known: the "
    "labels ask what it claims, and the data can't say, or length does as well, or refusing (the "
    "head wins where refusals are marked as better and loses where answers are). Numbers are "
    f"shares of comparisons won. {TRAINED}: trained on other prompts of this source, or on the "
    "measure that its pairs had to move. Each entry is a verdict of its own page, false as often "
    "as that page's are. Of so few comparisons that no test could reach .05 there is no entry, "
    "unless a head has no other."
)
ALONE = "rests on this data set alone"
ONE = "one comparison, which can't say"
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
    require(table, DRAWN, "verdicts", empty=True)
    if table.empty:
        return nothing("No validity page was executed: there are no verdicts.", table, "matrix")
    table = known(table)
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
    rows = rows[rows["part"] != OWN]  # each of those has a criterion of its own
    places = rows[[*keys, "page"]].drop_duplicates(keys)
    found = places.merge(below.drop(columns="page"), on=keys, how="left")
    always = {"head": LONGER, "verdict": NO_HEAD}
    return found.fillna({"n": 0, "note": NOT_RUN}).assign(**always)


def known(table: pd.DataFrame) -> pd.DataFrame:
    """The cells with every column, the heads first whose name claims what some labels ask."""
    empty = dict.fromkeys(LATER, "") | {"trained": False}
    table = table.assign(**{name: empty[name] for name in LATER if name not in table})
    claims = table["relation"].eq(CLAIMED).groupby(table["head"]).transform("any")
    return pd.concat([table[claims], table[~claims]], ignore_index=True)


def front(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of the first view: the criteria that heads claim, then whole datasets.

    Of a targeted dataset each head has one cell, that of the criterion that it claims.
    """
    targeted = ~table["dataset"].map(whole).astype(bool) & table["relation"].eq(CLAIMED)
    own = table[targeted].drop_duplicates(["head", "dataset"])
    return pd.concat([own.assign(part=OWN), table[table["subset"] == ALL]], ignore_index=True)


def _views(table: pd.DataFrame) -> list[tuple[str, str, pd.DataFrame]]:
    """Choices of the menu: label, the column that goes across, rows."""
    overall = front(table)
    views = [(WHOLE, "dataset", overall)] if len(overall) else []
    for dataset, rows in table.groupby("dataset", sort=False):
        if rows["subset"].nunique() > 1 or not (rows["subset"] == ALL).any():
            views.append((f"{dataset} by subset", "subset", rows.assign(part="", counted="")))
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
    lines = {name: _lines(own) for name, own in rows.groupby(column, sort=False)}
    way = np.select([rows["win_rate"] > 0.5, rows["win_rate"] < 0.5], ["↑", "↓"], "–")
    return pd.DataFrame(
        {
            "row": row,
            "column": rows[column].map(across.index),
            "name": rows["head"].map(plain),
            "across": rows[column].map(lambda text: plain(text, LONG)),
            "short": rows[column].map(lambda text: plain(short[text], SHORT)),
            "lines": rows[column].map(lines),
            "relation": rows["relation"].fillna(""),
            "mark": np.where(rows["trained"].fillna(False).astype(bool), TRAINED, ""),
            "lacks": rows["lacks"].fillna("").map(plain),
            "protocol": rows["dataset"].map(plain),
            "subset": rows["subset"].map(plain),
            "verdict": rows["verdict"],
            "glyph": rows["verdict"]
            .map(glyphs)
            .fillna(pd.Series(way, rows.index))
            .mask(rows["relation"] == OPPOSED, OPPOSITE),
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


def _lines(own: pd.DataFrame) -> str:
    """What stands below a column's name: the part, and how much it is."""
    first = own.iloc[0]
    counted = first["counted"]
    if first["part"] == OWN or not counted:
        n, prompts = (int(own[name].max()) for name in ("n", "prompts"))
        each = " each" if first["part"] == OWN else ""
        counted = f"{n:,} comparisons{each}" + (f", {prompts:,} prompts" if prompts < n else "")
    pieces = [plain(piece, LINE) for piece in [*first["part"].split("; "), counted] if piece]
    return BREAK.join(pieces)


def _short(names: list[str]) -> list[str]:
    """The last part of each name where that tells it from the others."""
    last = [name.rsplit("/", 1)[-1] for name in names]
    return [end if last.count(end) == 1 else name for name, end in zip(names, last, strict=True)]


_TEXTS = {
    "number": "!isValid(datum.rate) ? '' : (datum.rate >= 0.995 ? '1' : "
    "slice(format(datum.rate, '.2f'), 1)) + (datum.mark || '')",
    "precise": written("rate", ".3f"),
    "interval": spanned(".3f"),
    "p_text": "!isValid(datum.p) ? '–' : datum.p < 0.001 ? 'below 0.001' : format(datum.p, '.3f')",
    "mde_text": written("mde", ".3f", before="±"),
    "n_text": "format(datum.n, ',')",
    "family": f"'{FAMILY}'",
    "note_text": "datum.note || '–'",
    "relation_text": "datum.relation || '–'",
    "trained_text": "datum.mark ? 'yes' : 'no'",
    "lacks_text": "datum.lacks || 'nothing'",
    "verdict_text": f"datum.verdict === 'inverted' ? '{READ['inverted']}' : datum.verdict",
    "link": "datum.page ? root + datum.page : ''",
}
_HEADS, _OTHER = f"datum.verdict !== '{NO_HEAD}'", f"datum.verdict === '{NO_HEAD}'"
_SOLID = [name for name, mark in theme.VERDICTS.items() if not mark.hollow and name != "undefined"]
_MUTED = f"indexof({[OTHER, OPPOSED]}, datum.relation) >= 0"
_IS_SOLID = f"(indexof({_SOLID}, datum.verdict) >= 0 && !({_MUTED}))"


def _drawing(drawn: pd.DataFrame, heads: int, labels: list[str]) -> alt.TopLevelMixin:
    columns = int(drawn["column"].max()) + 1
    below = bool((drawn["verdict"] == NO_HEAD).any())
    more = (heads + 1, APART) if below else (heads, 0)
    stacked = columns > CROWDED
    row = TALL_ROW if stacked else ROW
    roomy = columns <= CROWDED
    under = drawn["lines"].str.split(BREAK).explode().map(len).max() if roomy else 0
    longest, shortest = (max(under, drawn[name].map(len).max()) for name in ("across", "short"))
    upright = 14 + 6.2 * np.array([longest, shortest])
    wide_top, narrow_top = int(upright[0] if roomy else 18 + 4.4 * longest), int(upright[1])
    gutter = int(min(230, max(90, 7.2 * drawn["name"].map(len).max() + 14)))
    right = 0 if roomy else int(min(120, 4.6 * longest))
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
        column_names(x, wide_top, narrow_top, short=True, below=BREAK if roomy else ""),
        _touch(x, _HEADS, "touch_heads", _TOLD),
    ]
    if below:
        layers += [
            apart(_OTHER),
            head_names(gutter, _OTHER, quiet=True),
            _touch(x, _OTHER, "touch_others", _TOLD_OF_OTHERS),
        ]
    return frame(
        layered(layers, inline(drawn), "datum.part === part", **_TEXTS, words=together, **places),
        alt.param(name="root", value=""),  # set by the site
        menu("part", "Columns", labels),
        height=wide_top + row * more[0] + more[1],
        narrow=narrow_top + NARROW_ROW * more[0] + more[1],
    )


def _colours(x) -> list[alt.Chart]:
    """Cells: filled by what was found, outlined where nothing was.

    Empty where nothing ran, and where labels don't ask what the head claims.
    """
    known = alt.Chart().transform_filter(
        f"datum.verdict !== '{NOT_RUN}' && {_HEADS} && !({_MUTED})"
    )
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
            text=alt.Text("words:N"),
            fill=alt.condition(
                _IS_SOLID,
                alt.value(theme.ink("background")),
                alt.value(alt.ExprRef(f"{_MUTED} ? {_ink('muted')} : {_ink('text')}")),
            ),
        )
    )


def _ink(role: str) -> str:
    return f"({theme.ink(role).to_dict()['expr']})"


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
    alt.Tooltip("relation_text:N", title="head's name"),
    alt.Tooltip("verdict_text:N", title="verdict"),
    alt.Tooltip("precise:N", title="win rate"),
    alt.Tooltip("interval:N"),
    alt.Tooltip("n_text:N", title="comparisons"),
    alt.Tooltip("trained_text:N", title="trained on this"),
    alt.Tooltip("lacks_text:N", title="audited without"),
    alt.Tooltip("p_text:N", title="adjusted p"),
    alt.Tooltip("family:N", title="corrected over"),
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
    rows = front(table)
    rows = rows.assign(about=rows["relation"].where(rows["relation"] != CLAIMED, ""))
    for head in heads[:TOLD]:
        own = rows[rows["head"] == head]
        places = own.groupby(["about", "verdict"])["dataset"].agg(list)
        ordered = [
            (about, name)
            for about in ("", OPPOSED, OTHER)
            for name in (*theme.VERDICTS, NOT_RUN)
            if (about, name) in places
        ]
        says = [
            f"{READ.get(name, name)} on {', '.join(map(plain, places[about, name]))}"
            + (f" ({about})" if about else "")
            for about, name in ordered
        ]
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
        f"Verdicts of {count(len(heads), 'head')} on {overall['dataset'].nunique()} protocols. "
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
    overall = front(known(table))
    if overall.empty:
        return Html("<p>No dataset was judged as a whole.</p>")
    datasets = list(dict.fromkeys(overall["dataset"]))
    titles = [_title(rows) for _, rows in overall.groupby("dataset", sort=False)]
    head = "".join(f'<th scope="col">{title}</th>' for title in ("head", *titles))
    rows = []
    for name, own in overall.groupby("head", sort=False):
        cells = {row.dataset: _linked(row, folder) for row in own.itertuples()}
        row = _row(cells, datasets)
        rows.append(f'<tr><th scope="row"><bdi>{escape(name)}</bdi></th>{row}</tr>')
    return Html(
        "<details><summary>The same as a table, with intervals and links</summary>"
        '<div class="table-scroll compact listing mathjax_ignore" tabindex="0">'
        '<table class="result stacked">'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody>"
        f"{_foot(longer, datasets, folder)}</table></div></details>"
    )


def uses(table: pd.DataFrame, folder: str = "") -> Html:
    """A row a head: use it for, not for, not known; each with the cells that say so, as links.

    Heads that may be used come first, and the rule before all. ``table`` as ``lib.summary.uses``
    returns it, ``folder`` as for ``listing``.
    """
    if table.empty:
        return Html("<p>No validity page says what its labels ask.</p>")
    table = table[~_blind(table)]
    usable = table["use"].eq(USE).groupby(table["head"]).transform("any")
    rows, heads = [], {}
    for row in pd.concat([table[usable], table[~usable]]).itertuples():
        heads.setdefault(row.head, []).append(row)
    for name, own in heads.items():
        cells = "".join(
            f'<td data-label="{use}">'
            f"{_reasons([row for row in own if row.use == use], folder) or '–'}</td>"
            for use in (USE, AGAINST, UNKNOWN)
        )
        claims = f"<small>{escape(_claim(own[0].claims))}</small>"
        rows.append(f'<tr><th scope="row"><bdi>{escape(name)}</bdi>{claims}</th>{cells}</tr>')
    head = "".join(f'<th scope="col">{title}</th>' for title in ("head", USE, AGAINST, UNKNOWN))
    return Html(
        f'<div class="uses mathjax_ignore"><p class="table-note">{HOW_USED}</p>'
        '<table class="result">'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _blind(table: pd.DataFrame) -> pd.Series:
    """Cells of so few comparisons that no exact test could reach .05, of heads that have others."""
    least = 2.0 ** (
        1 - table["n"].astype(float).clip(lower=1)
    )  # of a two-sided sign-flip test of as many
    blind = (table["use"] == UNKNOWN) & (table["dataset"] != "") & (least >= 0.05)
    return blind & (~blind).groupby(table["head"]).transform("any")


def _claim(concept: str) -> str:
    return concept if concept in (NO_CONCEPT, NOT_RUN) else f"claims {concept}"


def _reasons(rows: list, folder: str) -> str:
    """The cells that say so, a line each: a link, the win rate, what is asked, what it lacks."""
    lines = []
    alone = all(row.use == USE for row in rows) and len({row.dataset for row in rows}) == 1
    for row in rows:
        if not row.dataset:
            lines.append("<li>no labels here ask what the name claims</li>")
            continue
        place = row.dataset if row.subset == ALL else f"{row.dataset}: {row.subset}"
        link = _to(row.page, f"<bdi>{escape(place)}</bdi>", folder)
        rate = "" if pd.isna(row.win_rate) else f" {row.win_rate:.2f}"
        why = [_asked(row), *_lacking(row), *([ALONE] if alone else [])]
        small = f" <small>{escape('; '.join(filter(None, why)))}</small>" if any(why) else ""
        lines.append(f"<li>{link}{rate}{TRAINED if row.trained else ''}{small}</li>")
    return f"<ul>{''.join(lines)}</ul>" if lines else ""


def _asked(row) -> str:
    if row.subset != ALL:
        return of_subset(row.dataset, row.subset)
    return of(row.dataset).question + (f" ({row.part})" if row.part else "")


def _lacking(row) -> list[str]:
    """What a reader must know of an entry: its relation, what it owes to length, how little."""
    if row.use == AGAINST:
        opposite = f"{row.relation}: it does what its name says"
        return [opposite] if row.relation == OPPOSED else []
    if row.use == USE:
        return [row.length]
    if row.n == 1:
        return [ONE]
    owed = row.length if row.verdict in ("strong", "tracks") else ""
    return [owed or f"{row.verdict}, {count(row.n, 'comparison')}"]


def _title(rows: pd.DataFrame) -> str:
    """A dataset's name, which part of it was audited, how much that is, what it lacks."""
    first = rows.iloc[0]
    lacks = f"{BREAK}lacks {first['lacks']}" if first["lacks"] else ""
    under = f"{_lines(rows)}{lacks}"
    return f"{escape(first['dataset'])}<br><small>{escape(under)}</small>"


def _foot(longer: pd.DataFrame | None, datasets: list[str], folder: str) -> str:
    """A last row for the longer response, without verdicts."""
    if longer is None or longer.empty:
        return ""
    own = longer[longer["subset"] == ALL]
    cells = {row.dataset: _linked(row, folder) for row in own.itertuples()}
    return f'<tfoot><tr><th scope="row">{LONGER}</th>{_row(cells, datasets)}</tr></tfoot>'


def _row(cells: Mapping[str, str], datasets: list[str]) -> str:
    named = [(escape(dataset), cells.get(dataset, "–")) for dataset in datasets]
    return "".join(f'<td data-label="{name}">{cell}</td>' for name, cell in named)


def _linked(row, folder: str) -> str:
    """A cell of the listing: the win rate, its verdict, its interval, what its labels ask."""
    number = "" if pd.isna(row.win_rate) else f"{row.win_rate:.2f}"
    ends = "" if pd.isna([row.low, row.high]).any() else f"[{row.low:.2f}, {row.high:.2f}]"
    chip, under = number or "–", [ends]
    if hasattr(row, "verdict"):
        verdict = escape(row.verdict)
        muted = " muted" if row.relation in (OTHER, OPPOSED) else ""
        chip = (
            f"{number}{TRAINED if row.trained else ''}"
            f'<span class="verdict verdict-{verdict.replace(" ", "-")}{muted}" '
            f'style="margin-left: 0.4em">{escape(READ.get(row.verdict, row.verdict))}</span>'
        )  # a space would be underlined
        under.append(escape(row.relation) if muted else "")
    below = "".join(f"<br><small>{text}</small>" for text in under if text)
    return _to(row.page, f"{chip}{below}", folder)


def _to(page: str, markup: str, folder: str) -> str:
    """A link to a page of the site, from a page in a folder; the markup alone without a page."""
    if not page:
        return markup
    near = quote(os.path.relpath(page, folder or "."), safe="/%.-_~")
    return f'<a href="{escape(near)}" data-page="{escape(page)}">{markup}</a>'
