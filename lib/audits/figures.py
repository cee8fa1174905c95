"""A chart as a drawing within a page: no script, and colours that follow the reader's.

A chart is drawn as the light and as the dark site has it. The two differ in colours alone,
so each colour that differs becomes a property that the page's style sets for either.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable

from lib import downloads
from lib.charts.render import Chart, plain
from lib.markup import HELD, escape

WIDE, NARROW = 720, 350  # px
LARGEST = 400_000  # characters of a drawing
HIGHEST = 3000  # px, of one that is drawn: about a hundred heads
SVG = "{http://www.w3.org/2000/svg}"
DRAWN = {"svg", "g", "path", "rect", "line", "circle", "text", "tspan", "title", "defs"}
DRAWN |= {"clipPath", "linearGradient", "stop"}
DROPPED = ("role", "href", "font-family", "version", "pointer-events")
SENTENCES = re.compile(r"(?<=[.?!]) +")
LIVE = re.compile(r"\b(pointer|[Pp]oint at|menu)\b")
_WITHIN = re.compile(r"url\(#([\w-]+)\)")


class Inks:
    """Colours of one page: each pair of a light and a dark one has a property of its own."""

    def __init__(self):
        self._known: dict[tuple[str, str], str] = {}

    def ink(self, light: str, dark: str) -> str:
        """What an attribute says that has one colour in the light and another in the dark."""
        if light == dark:
            return light
        name = self._known.setdefault((light, dark), f"--ink-{len(self._known)}")
        return f"var({name})"

    def style(self) -> str:
        """Rules that set the properties: light ones, and dark ones for screens that ask."""
        light = ";".join(f"{name}:{pair[0]}" for pair, name in self._known.items())
        dark = ";".join(f"{name}:{pair[1]}" for pair, name in self._known.items())
        on_screen = "@media screen and (prefers-color-scheme:dark)"
        return f":root{{{light}}}\n{on_screen}{{:root{{{dark}}}}}"


def figure(chart: Chart, inks: Inks, number: int) -> str:
    """A chart with its caption and its data, for wide and for narrow screens.

    In place of a drawing that is too large stands what it would show, in words.
    """
    shown = escape(plain(chart.alternative, longest=4000))
    drawings = {}
    if chart.height <= HIGHEST:
        drawings = {
            kind: drawing(chart, inks, width, f"f{number}{kind[0]}")
            for kind, width in (("wide", WIDE), ("narrow", NARROW))
        }
    if not drawings or max(map(len, drawings.values())) > LARGEST:
        body = f'<p class="chart-alternative">{shown}</p>'
    else:
        body = "".join(
            f'<div class="chart-view {kind}" data-state="drawn" role="img" aria-label="{shown}">'
            f"{markup}</div>"
            for kind, markup in drawings.items()
        )
    data = downloads.links(chart.data, chart.name, longest=HELD)
    data = f' <span class="chart-data">Data: {data}</span>' if data else ""
    caption = escape(plain(_still(chart.caption), longest=2000))
    return (
        f'<figure class="chart">{body}<figcaption><span class="chart-caption">{caption}</span>'
        f"{data}</figcaption></figure>"
    )


def _still(caption: str) -> str:
    """A caption without what it says of menus and pointers, which a drawing doesn't answer."""
    return " ".join(told for told in SENTENCES.split(caption) if not LIVE.search(told))


def drawing(chart: Chart, inks: Inks, width: int, prefix: str) -> str:
    """A chart as SVG, of elements that only draw; its ids begin with ``prefix``."""
    light, dark = map(ET.fromstring, chart.svg_of_both(width))
    for one, other in zip(light.iter(), dark.iter(), strict=True):
        one.tag = one.tag.removeprefix(SVG)
        for name in list(one.attrib):
            if name.startswith(("aria-", "on", "{")) or name in DROPPED:
                del one.attrib[name]
                continue
            value = inks.ink(one.attrib[name], other.attrib.get(name, one.attrib[name]))
            value = prefix + value if name == "id" else value
            one.attrib[name] = _WITHIN.sub(rf"url(#{prefix}\1)", value)
    _keep(light, DRAWN)
    light.set("aria-hidden", "true")
    return ET.tostring(light, encoding="unicode")


def _keep(element: ET.Element, names: Iterable[str]) -> None:
    """Take away what is of another name, with all that it holds."""
    for child in list(element):
        if child.tag in names:
            _keep(child, names)
        else:
            element.remove(child)
