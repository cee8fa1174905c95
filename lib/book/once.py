"""A Sphinx extension: what many pages have in common is found once, and comes out as before.

- A word has one stem, however many pages have it.
- Pages of one notebook have the same cells, which are highlighted once.
- A page's title is shown on the pages before, after and below it, too.
- The plugin that writes citations is looked up once among all installed packages.
- Trees of pages live until the site is written: looking for garbage among them finds none.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import cache
from typing import Any

from docutils import nodes
from pybtex import plugin
from sphinx.search.en import SearchEnglish

CITATIONS = ("pybtex.backends", "plaintext")
LATER = (100_000, 20, 100)  # objects and rounds after which garbage is looked for


class English(SearchEnglish):
    """Sphinx's search in English, each word of which is stemmed once."""

    def init(self, options: dict[str, str]) -> None:
        """Start with no word."""
        super().init(options)
        self.stem = cache(super().stem)


def once(highlight: Callable[..., str]) -> Callable[..., str]:
    """Sphinx's highlighting of a block, done once for each; a warning names the first place."""
    made: dict[str, str] = {}

    def highlighted(source, lang, opts=None, force=False, location=None, **given) -> str:
        known = repr((source, lang, opts, force, sorted(given.items())))
        if known not in made:
            made[known] = highlight(source, lang, opts, force, location, **given)
        return made[known]

    return highlighted


def title_once(render: Callable[[Any], dict[str, str]]) -> Callable[[Any], dict[str, str]]:
    """Sphinx's rendering of a part of a page, done once for each title that is text alone."""
    made: dict[int, tuple[nodes.title, dict[str, str]]] = {}  # holds titles: their number stays

    def rendered(node: Any) -> dict[str, str]:
        if not isinstance(node, nodes.title) or not all(isinstance(n, nodes.Text) for n in node):
            return render(node)
        if id(node) not in made:
            made[id(node)] = node, dict(render(node))  # Sphinx gives the same dictionary each time
        return made[id(node)][1]

    return rendered


def _start(app: Any) -> None:
    bridge = getattr(app.builder, "highlighter", None)
    if bridge is not None:
        bridge.highlight_block = once(bridge.highlight_block)
    if hasattr(app.builder, "render_partial"):
        app.builder.render_partial = title_once(app.builder.render_partial)


def setup(app: Any) -> dict[str, Any]:
    """Begin with the builder."""
    plugin.register_plugin(*CITATIONS, plugin.find_plugin(*CITATIONS), force=True)
    app.add_search_language(English)
    app.connect("builder-inited", _start)
    gc.freeze()
    gc.set_threshold(*LATER)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
