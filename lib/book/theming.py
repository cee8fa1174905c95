"""A Sphinx extension that mends what the theme and Sphinx's search get wrong.

- The theme writes a page's title into a heading for printing as it stands, and the search
  page shows titles as markup: a title that names a dataset could bring markup of its own.
  Both get them escaped.
- "Edit" leads to the source of a page. Pages under ``book/results`` are generated and ignored
  by git, so the theme's own link to them would lead nowhere. The button is off until
  ``CITATION.cff`` names a repository (``lib.book.repository``).
- A folded part of the sidebar has a button that says what it unfolds.
- Files of a page's data are named by the page, those of its tables numbered.
- What a page shows of another one brings its links along. Those that name their page from the
  site's root (``data-page``) lead there from whichever page shows them.
- Pages with charts load the script that draws them, a megabyte; others don't.
"""

from __future__ import annotations

import html
import posixpath
import re
from typing import Any

from lib.book import sidebar

EXECUTED = re.compile(r"book/results/(?:[^?#]*/)?([^/?#]+\.ipynb)")
FROM_THE_ROOT = re.compile(r'<a href="[^"]*" data-page="([^"]*)"')
A_TABLE, A_FILE = '<p class="table-data">', 'class="data-link" download="'
A_CHART, DRAWS_IT = '<figure class="chart ', "vega.js"
FOLDED = re.compile(r">([^<]+)</a><details[^>]*><summary(?=>)")
AFTER_THE_THEME = 900
PLAIN = ("pagetitle", "root_title")  # text that the theme's templates don't escape


def source(url: str) -> str:
    """The address of the notebook that an executed page was made from; others unchanged."""
    return EXECUTED.sub(r"notebooks/\1", url)


def placed(body: str, page: str) -> str:
    """Markup whose links that name a page from the site's root lead there from this one."""
    here = posixpath.dirname(page) or "."

    def led(link: re.Match) -> str:
        return f'<a href="{posixpath.relpath(link[1], here)}" data-page="{link[1]}"'

    return FROM_THE_ROOT.sub(led, body)


def told_apart(body: str, page: str) -> str:
    """Markup whose links to data name files by the page, and tables by their number."""
    parts = body.split(A_TABLE)
    rows = (part.replace('"table.', f'"table-{k}.') for k, part in enumerate(parts))
    place = page.removeprefix("book/").removeprefix("results/").replace("/", "-")
    return A_TABLE.join(rows).replace(A_FILE, f"{A_FILE}{place}-")


def named(navigation: str) -> str:
    """A sidebar whose buttons have the names of the pages that they unfold the others of."""

    def name(part: re.Match) -> str:
        return f'{part[0]} aria-label="{html.escape(html.unescape(part[1]))}: its pages"'

    return FOLDED.sub(name, navigation)


def _mend_page(app: Any, pagename: str, templatename: str, context: dict, doctree: Any) -> None:
    for name in PLAIN:
        if name in context:
            context[name] = html.escape(context[name])
    if "body" in context:
        if A_CHART in context["body"]:
            app.builder.add_js_file(DRAWS_IT)
        context["body"] = told_apart(placed(context["body"], pagename), pagename)
    for button in context.get("header_buttons", ()):
        for link in (button, *button.get("buttons", ())):
            if link.get("label") == "source-edit-button":
                link["url"] = source(link["url"])


def _mend_search(app: Any) -> list:
    """Escape titles of sections in the search index, as those of pages are."""
    titles = app.builder.indexer._all_titles
    for page, found in titles.items():
        titles[page] = [(html.escape(title, quote=False), anchor) for title, anchor in found]
    return []


def setup(app: Any) -> dict[str, Any]:
    """Mend pages when they are written, and the index when all were read."""
    app.connect("html-page-context", _mend_page, priority=AFTER_THE_THEME)
    app.connect("html-collect-pages", _mend_search)
    app.connect("builder-inited", lambda app: sidebar.start(app, named))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
