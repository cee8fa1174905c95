"""The sidebar is rendered once: pages' differ in where links lead from and what is unfolded.

The theme renders all of it for each page and twice, which grows with the square of the pages.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from sphinx.util.osutil import relative_uri

THEMES = ("pydata_sphinx_theme.toctree", "add_toctree_functions")
OUTSIDE = "search"  # at the site's root, and not in the sidebar
TAG = re.compile(r"<(/?)(ul|li|details|a)\b[^>]*>")
LINK = re.compile(r'(?<=<a class="reference internal" href=")[^"]+(?=">)')
LEVEL = re.compile(r"toctree-l\d+")


class Sidebar:
    """A sidebar as it is for a page that isn't in it, at the site's root."""

    def __init__(self, markup: str):
        self.markup = markup
        self.targets = LINK.findall(markup)
        self._led = lru_cache(maxsize=None)(self._leading)

    def of(self, page: str) -> str | None:
        """As it is for a page, by its address; ``None`` where that can't be told."""
        folder = page.rpartition("/")[0]
        markup = self._led(folder)
        if page not in self.targets:
            return markup
        if self.targets.count(page) > 1:
            return None
        own = f'<a class="reference internal" href="{page.rpartition("/")[2]}">'
        begins = markup.index(own)
        parts, written = [], 0
        for tag in _around(markup, begins):
            parts += [markup[written : tag.start()], _current(tag)]
            written = tag.end()
        return "".join([*parts, markup[written:]])

    def _leading(self, folder: str) -> str:
        """With links that lead from the pages of a folder."""
        base = f"{folder}/" if folder else ""
        return LINK.sub(lambda link: relative_uri(base, link[0]), self.markup)


def _around(markup: str, link: int) -> list[re.Match]:
    """The tags that are another where the page of a link is the current one, in order."""
    opened: list[re.Match] = []
    found = None
    for tag in TAG.finditer(markup):
        if found is not None and tag[0] != "</a>":
            return [*found, tag] if tag[0].startswith("<details") else found
        if tag.start() == link:
            found = [*opened, tag]
        elif tag[1]:
            opened.pop()
        else:
            opened.append(tag)
    return found or []


def _current(tag: re.Match) -> str:
    if tag[2] == "ul":
        classes = re.search(r'class="([^"]*)"', tag[0])
        return f'<ul class="current {classes[1]}">' if classes else '<ul class="current">'
    if tag[2] == "li":
        return LEVEL.sub(lambda level: f"{level[0]} current active", tag[0])
    if tag[2] == "details":
        return '<details open="open">'
    return '<a class="current reference internal" href="#">'


def start(app: Any, mended: Callable[[str], str] = str) -> None:
    """Let what the theme gives to each page's templates, which it tries at once, render it so."""
    listeners = app.events.listeners["html-page-context"]
    for place, listener in enumerate(listeners):
        if (listener.handler.__module__, listener.handler.__name__) == THEMES:
            listeners[place] = listener._replace(handler=_given(listener.handler, mended))


def _given(theirs: Callable[..., None], mended: Callable[[str], str]) -> Callable[..., None]:
    def give(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
        theirs(app, page, template, context, doctree)
        context["generate_toctree_html"] = once(app, page, context, mended)

    return give


def once(
    app: Any, page: str, context: dict[str, Any], mended: Callable[[str], str] = str
) -> Callable[..., str]:
    """What renders a page's sidebar in place of the theme's function, which does it for the first.

    ``mended`` is done to what that gives.
    """
    made = context["generate_toctree_html"]
    anew = getattr(made, "__wrapped__", made)  # the theme keeps what it made for the page
    known: dict[str, Sidebar] = vars(app).setdefault("sidebars", {})

    def rendered(*given: Any, **options: Any) -> str:
        if options.get("startdepth") != 0 or options.get("collapse"):
            return mended(f"{made(*given, **options)}")
        asked = repr((given, sorted(options.items())))
        if asked not in known:
            own = context["toctree"]
            context["toctree"] = partial(app.builder._get_local_toctree, OUTSIDE)
            known[asked] = Sidebar(mended(f"{anew(*given, **options)}"))
            context["toctree"] = own
        found = known[asked].of(app.builder.get_target_uri(page))
        return mended(f"{made(*given, **options)}") if found is None else found

    return rendered
