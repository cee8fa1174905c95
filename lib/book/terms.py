"""A Sphinx extension: the first use of a glossary's term on a page leads to its entry.

It does so in prose and in the takeaways that pages write, so neither has to name its terms. The
link shows what the entry says where a pointer rests on it. ``ORDINARY`` words are left alone: most
of their uses aren't the term's, and a page that means the term names it with ``{term}``.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from docutils import nodes

ORDINARY = {
    "as published",
    "better",
    "chance",
    "chosen",
    "coefficient",
    "convergent",
    "coverage",
    "gap",
    "margin",
}
ORDINARY |= {"page", "rejected", "run", "score", "strong", "undefined", "worse"}
PLURALS = {"criterion": "criteria"}
SKIPPED = (nodes.title, nodes.reference, nodes.literal, nodes.math, nodes.raw)
LISTED = re.compile(r"(?<=<li>)[^<]*(?=</li>)")
BOX = '<aside class="takeaways'
TERM = "xref std std-term"


@dataclass(frozen=True)
class Entry:
    """Of the glossary: its page, its place there, its text; several terms may share it."""

    page: str
    place: str
    text: str


@dataclass
class Terms:
    """What a page has yet to link: each entry once."""

    entries: Mapping[str, Entry]  # by term, in lower case
    seen: set[Entry] = field(default_factory=set)

    @cached_property
    def _forms(self) -> re.Pattern:
        return pattern(self.entries)

    def split(self, text: str) -> Iterator[tuple[str, Entry | None]]:
        """The text in pieces: those that are the first use of a term come with its entry."""
        at = 0
        for found in self._forms.finditer(text):
            entry = self.entries[singular(found[0], self.entries)]
            if entry in self.seen:
                continue
            self.seen.add(entry)
            yield text[at : found.start()], None
            yield found[0], entry
            at = found.end()
        yield text[at:], None


def pattern(terms: Iterable[str]) -> re.Pattern:
    """Finds terms as whole words, in the singular and the plural, the longest first."""
    forms = (form for term in terms for form in (term, plural(term)))
    longest = sorted(set(forms), key=lambda form: (-len(form), form))
    either = "|".join(re.escape(form) for form in longest) or "(?!)"
    return re.compile(rf"(?<![\w/:&#-])(?:{either})(?![\w/:-]*\w)", re.IGNORECASE)


def plural(term: str) -> str:
    """Of a term of the glossary."""
    if term in PLURALS:
        return PLURALS[term]
    return f"{term[:-1]}ies" if term.endswith("y") else f"{term}s"


def singular(form: str, terms: Iterable[str]) -> str:
    """The term of which this is a form."""
    return next(term for term in terms if form.lower() in (term, plural(term)))


def boxed(markup: str, terms: Terms, address: Callable[[Entry], str]) -> str:
    """A box of takeaways, whose text is escaped, with links to the terms that it uses first."""

    def link(text: re.Match) -> str:
        return "".join(
            piece
            if entry is None
            else f'<a class="reference internal" href="{html.escape(address(entry))}" '
            f'title="{html.escape(entry.text)}"><span class="{TERM}">{piece}</span></a>'
            for piece, entry in terms.split(text[0])
        )

    return LISTED.sub(link, markup)


# ---- In Sphinx ----


def entries(app: Any) -> dict[str, Entry]:
    """The entries of all glossaries by their terms."""
    found = {}
    for page in {place[0] for place in app.env.domains["std"]._terms.values()}:
        for item in app.env.get_doctree(page).findall(nodes.definition_list_item):
            named = [term for term in item.findall(nodes.term) if term["ids"]]
            if named:
                text = next(item.findall(nodes.paragraph)).astext()
                entry = Entry(page, named[0]["ids"][0], " ".join(text.split()))
                found |= {term.astext().lower(): entry for term in named}
    return found


def _link_page(app: Any, doctree: nodes.document, page: str) -> None:
    if app.builder.format != "html":
        return
    if not hasattr(app, "glossary_entries"):
        app.glossary_entries = entries(app)
    known = app.glossary_entries
    terms = Terms({term: entry for term, entry in known.items() if term not in ORDINARY})
    if page in {entry.page for entry in known.values()}:
        return

    def address(entry: Entry) -> str:
        return f"{app.builder.get_relative_uri(page, entry.page)}#{entry.place}"

    for node in list(doctree.findall()):
        if isinstance(node, nodes.raw) and node.astext().startswith(BOX):
            text = boxed(node.astext(), terms, address)
            node.replace_self(nodes.raw("", text, format="html"))
        elif isinstance(node, nodes.inline) and "std-term" in node["classes"]:
            place = node.parent.get("refuri", "").partition("#")[2]
            for named in {entry for entry in known.values() if entry.place == place}:
                terms.seen.add(named)
                node.parent["reftitle"] = named.text
        elif isinstance(node, nodes.Text) and _prose(node):
            made = [_made(piece, entry, address) for piece, entry in terms.split(str(node))]
            if len(made) > 1:
                node.parent.replace(node, made)


def _prose(node: nodes.Text) -> bool:
    above, inside = node.parent, False
    while above is not None:
        if isinstance(above, SKIPPED) or "sd-card" in above.get("classes", ()):
            return False
        inside |= isinstance(above, nodes.paragraph)
        above = above.parent
    return inside


def _made(piece: str, entry: Entry | None, address: Callable[[Entry], str]) -> nodes.Node:
    if entry is None:
        return nodes.Text(piece)
    shown = nodes.inline(piece, piece, classes=TERM.split())
    given = {"refuri": address(entry), "reftitle": entry.text, "internal": True}
    return nodes.reference("", "", shown, **given)


def setup(app: Any) -> dict[str, Any]:
    """Link pages when what they refer to is known."""
    app.connect("doctree-resolved", _link_page)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
