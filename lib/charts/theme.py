"""The book's visual language: colours, verdict marks, type, and the script that draws.

Colours come in pairs, for the light and the dark site. A chart names a role (``ink``) and
the site says which of the pair applies: each spec carries two parameters, ``dark`` and
``narrow``, that ``book/_static/charts.js`` sets when it draws.

Blue means that a head goes with the labels, vermilion that it goes against them, grey that
nothing was found; shape and the verdict's name say the same without colour. Teal means that two
heads go together, or that a number is above what it is compared with, purple the opposite.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import altair as alt
import vl_convert


@dataclass(frozen=True)
class Mark:
    """How a verdict is drawn.

    Attributes
    ----------
    light, dark
        Its colour on the light and on the dark site; contrast at least 4.5 on both, so
        that words may wear it.
    shape
        A Vega symbol.
    glyph
        The same shape as a character.
    hollow
        Drawn as an outline.
    """

    light: str
    dark: str
    shape: str
    glyph: str
    hollow: bool = False


VERDICTS: dict[str, Mark] = {
    "strong": Mark("#0a3a82", "#b5d9ff", "triangle-up", "▲"),
    "tracks": Mark("#1769aa", "#5aa7ee", "circle", "●"),
    "inverted": Mark("#b3370b", "#ff8d5e", "triangle-down", "▼"),
    "chance": Mark("#3d3d3d", "#dcdcdc", "square", "■"),
    "inconclusive": Mark("#616870", "#9aa2ac", "circle", "◯", hollow=True),
    "undefined": Mark("#616870", "#9aa2ac", "cross", "✕"),
}

# Role → (light, dark). Backgrounds are the site's own.
INKS: dict[str, tuple[str, str]] = {
    "background": ("#ffffff", "#121212"),
    "text": ("#222832", "#ced6dd"),
    "muted": ("#56606d", "#a3abb5"),
    "rule": ("#c9ced4", "#454c55"),
    "hairline": ("#e8eaed", "#282c31"),
    "band": ("#eef0f3", "#22262b"),
    "baseline": ("#616870", "#9aa2ac"),
    "bar": ("#8a97a6", "#6d7b8a"),
    "better": ("#0b6b63", "#56c2b6"),
    "worse": ("#8c4a86", "#d79ad0"),
}

ASSOCIATION = ("worse", "band", "better")  # colours of opposed, unrelated, going together
FONT = '-apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, "Liberation Sans", sans-serif'
SIZE = 13  # px, of names and numbers
SMALL = 12  # px, of axes and notes
NARROW = 560  # px; containers below this are narrow
VEGA_LITE = alt.SCHEMA_VERSION.removeprefix("v").rpartition(".")[0]


def ink(role: str) -> alt.ExprRef:
    """The colour of a role or a verdict, as an expression that follows the site's mode."""
    mark = VERDICTS.get(role)
    pair = (mark.light, mark.dark) if mark else INKS[role]
    return alt.ExprRef(f"dark ? '{pair[1]}' : '{pair[0]}'")


def association() -> alt.Scale:
    """Cosine or correlation of two heads, from -1 to 1 → its colour."""
    inks = [ink(role) for role in ASSOCIATION]
    return alt.Scale(domain=[-1, 0, 1], interpolate="rgb", range=inks)


def on_association(value: str) -> alt.ExprRef:
    """Black or white, whichever stands out more on the colour of an association.

    Parameters
    ----------
    value
        An expression for a number between -1 and 1.

    Notes
    -----
    The better of the two has a contrast of at least 4.58 (the square root of 21) on any
    colour, which no other two inks promise. The scale must blend its colours in sRGB
    (``interpolate="rgb"``).
    """
    low, middle, high = ASSOCIATION
    tests = []
    for dark in (False, True):
        down, up = (_crossing(middle, role, dark) for role in (low, high))
        tests.append(f"({value} > {up:.3f} || {value} < -{down:.3f})")
    light, dark = tests
    return alt.ExprRef(f"(dark ? !{dark} : {light}) ? '#ffffff' : '#000000'")


def _crossing(start: str, end: str, dark: bool) -> float:
    """How far from one role's colour to another's black and white stand out alike."""
    first, last = (_channels(role, dark) for role in (start, end))
    even = math.sqrt(1.05 * 0.05) - 0.05
    near, far = 0.0, 1.0
    outward = _luminance(last) > _luminance(first)
    for _ in range(30):
        middle = (near + far) / 2
        blend = [a + (b - a) * middle for a, b in zip(first, last, strict=True)]
        if (_luminance(blend) > even) == outward:
            far = middle
        else:
            near = middle
    return near


def _channels(role: str, dark: bool) -> list[float]:
    mark = VERDICTS.get(role)
    text = (mark.light, mark.dark)[dark] if mark else INKS[role][dark]
    return [int(text[i : i + 2], 16) / 255 for i in (1, 3, 5)]


def _luminance(channels: Sequence[float]) -> float:
    """Relative luminance of an sRGB colour, as WCAG 2 defines it."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def either(narrow: float, wide: float) -> alt.ExprRef:
    """One number in a narrow container (a phone), another in a wide one."""
    return alt.ExprRef(f"narrow ? {narrow} : {wide}")


def parameters() -> list[alt.Parameter]:
    """The two parameters that the site sets in every chart."""
    return [alt.param(name="dark", value=False), alt.param(name="narrow", value=False)]


def verdict_colour() -> alt.Scale:
    """Verdict → colour, of strokes and words."""
    return alt.Scale(domain=list(VERDICTS), range=[ink(name) for name in VERDICTS])


def verdict_fill() -> alt.Scale:
    """Verdict → colour of a mark's inside: the background's where the mark is hollow."""
    fills = ["background" if mark.hollow else name for name, mark in VERDICTS.items()]
    return alt.Scale(domain=list(VERDICTS), range=[ink(fill) for fill in fills])


def verdict_shape() -> alt.Scale:
    """Verdict → shape."""
    return alt.Scale(domain=list(VERDICTS), range=[m.shape for m in VERDICTS.values()])


def config(dark: bool = False) -> dict[str, Any]:
    """The Vega-Lite configuration of a mode."""
    colour = {role: pair[dark] for role, pair in INKS.items()}
    axis = {
        "labelColor": colour["muted"],
        "labelFontSize": SMALL,
        "titleColor": colour["muted"],
        "titleFontSize": SMALL,
        "titleFontWeight": "normal",
        "titlePadding": 8,
        "domain": False,
        "tickColor": colour["rule"],
        "gridColor": colour["hairline"],
        "labelPadding": 4,
    }
    return {
        "background": "transparent",
        "font": FONT,
        "aria": False,  # the figure is one image with one description
        "padding": {"left": 0, "right": 2, "top": 4, "bottom": 2},
        "view": {"stroke": None},
        "point": {"opacity": 1},
        "axis": axis,
        "text": {"color": colour["text"], "fontSize": SIZE},
        "legend": {
            "labelColor": colour["text"],
            "labelFontSize": SIZE,
            "titleColor": colour["muted"],
            "titleFontSize": SMALL,
            "titleFontWeight": "normal",
        },
        "header": {"labelColor": colour["text"], "titleColor": colour["muted"]},
        "title": {"color": colour["text"], "fontSize": SIZE + 1, "anchor": "start"},
    }


@cache
def vega_bundle() -> str:
    """One script for the site: Vega, Vega-Lite and Vega-Embed, and our two configurations.

    It defines ``window.vegaEmbed`` and ``window.rewardThemes`` and nothing else; wrapped in
    a function, since its short names would otherwise collide with Sphinx's scripts.
    """
    libraries = vl_convert.javascript_bundle("window.vegaEmbed=vegaEmbed;", vl_version=VEGA_LITE)
    themes = json.dumps({"light": config(), "dark": config(dark=True), "narrow": NARROW})
    return f"(function(){{{libraries}}})();\nwindow.rewardThemes={themes};\n"
