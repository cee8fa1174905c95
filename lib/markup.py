"""What pages show besides charts, as HTML: text, tables, sentences.

Text that comes from data or models is escaped wherever it is shown.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pandas as pd

from lib import downloads
from lib.errors import ParameterError
from lib.visible import visible

OPEN = 5  # takeaways that are read without unfolding
FOLDED = 15  # rows above which a table is folded
MANY, FIRST = 1000, 50  # rows above which a table has pages, and rows of its first page
PACKED = 300_000  # characters that such a table's rows may take
READ = {"inverted": "against these labels"}  # how a verdict reads whose word alone misleads
HELD = 50_000  # characters that a link to a table's data may take
NAME = "table"  # of the file, to which the site adds the page
_NUMBER = ' class="number"'


@dataclass(frozen=True)
class Html:
    """Markup for a page; whatever data it shows was escaped when it was made."""

    markup: str

    def _repr_html_(self) -> str:
        return self.markup


def escape(text: Any) -> str:
    """Text as itself in HTML: markup, control codes and direction marks are shown, not obeyed.

    Control characters become their visible pictures (ESC is ␛); direction marks their
    names in brackets; a dollar sign is written as an entity so that no formula is made.
    """
    return html.escape(visible(str(text)), quote=True).replace("$", "&#36;")


def table(
    frame: pd.DataFrame,
    formats: Mapping[str, str] | None = None,
    links: Mapping[str, Sequence[str]] | None = None,
    fold: int = FOLDED,
    compact: bool = False,
    stacked: bool = False,
    empty: str = "There are no rows.",
) -> Html:
    """A table with escaped cells; ``formats`` maps a column to a format such as ``".3f"``.

    A ``compact`` one has less room between its columns, and texts that break sooner. On a narrow
    screen a row of a ``stacked`` one is a block, a line a cell, each with its column's name.

    Verdicts get a chip each, missing numbers a dash, and a table of more than ``fold`` rows
    is folded; one of none says so in the words of ``empty``, or is not shown at all. One of more
    than 1,000 rows, unless it has links, is filtered and shown by pages, of as many of its first
    rows as 300,000 characters hold, compressed; it says how many. Links below it hold the table
    as CSV and Parquet, where those aren't too long
    for a page. ``links`` maps a column to an address for each row, within the site.

    Raises
    ------
    ParameterError
        For a link that leaves the site.
    """
    formats, links = formats or {}, links or {}
    for address in (address for column in links.values() for address in column):
        if urlsplit(address).scheme or address.startswith(("/", "\\")):
            raise ParameterError(
                "links within the site", repr(address), "Give a path relative to the page."
            )
    numeric = [_NUMBER if pd.api.types.is_numeric_dtype(kind) else "" for kind in frame.dtypes]
    head = "".join(
        f"<th{kind}>{escape(column)}</th>"
        for column, kind in zip(frame.columns, numeric, strict=True)
    )
    if frame.empty:
        return Html(f'<p class="no-rows">{escape(empty)}</p>' if empty else "")
    paged = len(frame) > MANY and not links
    rows = []
    shown = frame.head(FIRST) if paged else frame
    for index, values in enumerate(shown.itertuples(index=False, name=None)):
        cells = []
        for column, value in zip(frame.columns, values, strict=True):
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            text = escape(_text(value, formats.get(column)))
            if column == "verdict" and column not in formats and not _missing(value):
                text = chip(value)
            elif column not in formats and not _missing(value):
                text = f"<bdi>{text}</bdi>"
            if column in links:
                text = f'<a href="{escape(links[column][index])}">{text}</a>'
            named = f' data-label="{escape(column)}"' if stacked else ""
            cells.append(f"<td{_NUMBER if number else ''}{named}>{text}</td>")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    markup = (
        f'<div class="table-scroll{" compact" * compact} mathjax_ignore" tabindex="0">'
        f'<table class="result{" stacked" * stacked}">'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )
    if paged:
        markup = _paged(markup, frame, formats)
    if data := downloads.links(frame, NAME, longest=HELD):
        markup += f'<p class="table-data">Data: {data}</p>'
    if len(frame) > fold:
        markup = f"<details><summary>Table of {len(frame)} rows</summary>{markup}</details>"
    return Html(markup)


def chip(verdict: str) -> str:
    """A verdict in its tone, escaped."""
    kind = re.sub(r"[^a-z]+", "-", str(verdict).lower()).strip("-")
    return f'<span class="verdict verdict-{kind}">{escape(READ.get(verdict, verdict))}</span>'


def _missing(value: Any) -> bool:
    return pd.api.types.is_scalar(value) and pd.isna(value)


def _text(value: Any, given: str | None) -> str:
    """What a cell says."""
    if _missing(value):
        return "–"
    return format(value, given) if given is not None else str(value)


def _paged(markup: str, frame: pd.DataFrame, formats: Mapping[str, str]) -> str:
    """A table with its first rows packed beside it, for ``book/_static/charts.js`` to page."""
    many = min(len(frame), PACKED // 4)  # a row takes more than three characters
    packed = _pack(frame.head(many), formats)
    while len(packed) > PACKED:
        many = int(many * min(0.9, PACKED / len(packed)))
        packed = _pack(frame.head(many), formats)
    left = "" if many == len(frame) else f"The first {many} of {len(frame)} rows are on this page; "
    left += "the page's saved table has all of them." if left else ""
    return (
        f'<div class="table-paged" data-size="{FIRST}"><p class="table-note">{left}</p>'
        f'<p class="table-status">Rows 1 to {FIRST} of {many}.</p>{markup}'
        f'<script type="application/gzip" class="table-rows">{packed}</script></div>'
    )


def _pack(frame: pd.DataFrame, formats: Mapping[str, str]) -> str:
    """Columns of a table as Base64 of compressed JSON: distinct texts, and which of them by row."""
    columns = []
    for column in frame:
        codes, values = pd.factorize(frame[column], use_na_sentinel=False)
        texts = [visible(_text(value, formats.get(column))) for value in values]
        number = pd.api.types.is_numeric_dtype(frame[column])
        again, distinct = pd.factorize(pd.array(texts, dtype=object))
        columns.append(
            {
                "name": visible(str(column)),
                "number": number and not pd.api.types.is_bool_dtype(frame[column]),
                "chip": column == "verdict",
                "texts": [
                    READ.get(text, text) if column == "verdict" else text for text in distinct
                ],
                "rows": again[codes].tolist(),
            }
        )
    text = json.dumps(columns, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def takeaways(sentences: Iterable[str]) -> Html:
    """The page's key-takeaways box; sentences are escaped.

    They are given in the order of importance, verdicts first: five stand open, the rest is folded.
    """
    return Html(
        '<aside class="takeaways mathjax_ignore"><p class="title">Key takeaways</p>'
        f"{_listed(sentences)}</aside>"
    )


def said(sentences: Iterable[str]) -> Html:
    """What a section says of its table or figure: a list, folded as takeaways are."""
    return Html(f'<div class="said mathjax_ignore">{_listed(sentences)}</div>')


def _listed(sentences: Iterable[str]) -> str:
    items = [f"<li>{escape(sentence)}</li>" for sentence in sentences]
    shown, rest = items[:OPEN], items[OPEN:]
    markup = f"<ul>{''.join(shown)}</ul>"
    if rest:
        more = f"{len(rest)} more sentence{'' if len(rest) == 1 else 's'}"
        markup += f"<details><summary>{more}</summary><ul>{''.join(rest)}</ul></details>"
    return markup
