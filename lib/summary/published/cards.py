"""Every claim as a card: nothing that decides lies beyond a narrow screen or a sheet of paper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from lib.markup import Html, chip, escape
from lib.summary.published.words import of

REFERENCES = "../methods.html#references"  # seen from the page
UNRECORDED = "section, figure and line not written down"
ROWS = {
    "published": "Published",
    "formula": "Defined as",
    "recomputed": "It comes to",
    "evidence": "Why",
}


def cards(claims: pd.DataFrame, sources: Mapping[str, Any], system: str, part: str = "") -> Html:
    """The claims of one system, or of one part of them, a card each.

    Parameters
    ----------
    claims
        As ``claims.claims`` returns it.
    sources
        Of the published figures.

    Raises
    ------
    DataError
        When there is no claim of that system and part.
    """
    rows = of(claims, system, part).to_dict("records")
    made = "".join(_card(row, sources[row["source"]]) for row in rows)
    return Html(f'<div class="claims mathjax_ignore">{made}</div>')


def keys(claims: pd.DataFrame) -> Html:
    """Every claim by its key and verdict, as links to the cards: folded, a list a group."""
    groups = claims.groupby(["system", "part"], sort=False)
    lists = "".join(
        f"<h4>{escape(': '.join(filter(None, group)))}</h4><ul>{''.join(map(_key, rows))}</ul>"
        for group, rows in ((group, own.to_dict("records")) for group, own in groups)
    )
    return Html(
        f'<details class="claim-keys mathjax_ignore"><summary>All {len(claims)} claims by key'
        f"</summary>{lists}</details>"
    )


def _key(row: Mapping[str, str]) -> str:
    key = escape(row["key"])
    return f'<li><a href="#claim-{key}">{key}</a> {chip(row["verdict"])}</li>'


def _card(row: Mapping[str, str], source: Mapping[str, Any]) -> str:
    told = {label: escape(row[name]) for name, label in ROWS.items() if row[name]}
    key = escape(row["key"])
    code = [_link(place, source) for place in row["code"].split()]
    rests = {
        "Computed from": escape(row["computed_from"]),
        "Source": _source(source),
        "Where": "; ".join([escape(row["where"] or UNRECORDED), *code]),
        "Dispute": f'<a href="#how-to-dispute-this" data-dispute="{key}">how to dispute this</a>, '
        f"with the key <code>{key}</code>",
    }
    return (
        f'<section class="claim" id="claim-{key}"><p class="title">{escape(row["claim"])} '
        f"{chip(row['verdict'])}</p>{_pairs(told)}"
        f'<div class="rests">{_pairs(rests)}</div></section>'
    )


def _pairs(told: Mapping[str, str]) -> str:
    pairs = (f"<dt>{label}</dt><dd>{text}</dd>" for label, text in told.items() if text)
    return f"<dl>{''.join(pairs)}</dl>"


def _source(source: Mapping[str, Any]) -> str:
    title, address = escape(source["title"]), escape(source["address"])
    if address.startswith("https://"):
        title = f'<a href="{address}">{title}</a>'
    cited = f' (<a href="{REFERENCES}">in the references</a>)' if "cite" in source else ""
    return f"{title}{cited}; version: {escape(source['version'])}; read: {escape(source['read'])}"


def _link(place: str, source: Mapping[str, Any]) -> str:
    """``utils.py#L30-L50``, a link where the source has a commit."""
    path, _, lines = place.partition("#")
    text = escape(f"{path} {lines.replace('L', '').replace('-', '–')}".strip())
    commit = source.get("files", {}).get(path, source.get("commit"))
    if not commit:
        return text
    return f'<a href="{escape(source["address"])}/blob/{commit}/{escape(place)}">{text}</a>'
