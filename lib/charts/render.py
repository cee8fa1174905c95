"""From an Altair chart to a figure on a page: alternative text, data, and a guarded spec.

``Chart`` is what every chart function returns. On the site the figure is drawn by
``book/_static/charts.js`` with scripts that the site carries itself; elsewhere (JupyterLab,
GitHub) the alternative text stands in its place. Names come from models and datasets, so
nothing of them reaches a page unescaped.
"""

from __future__ import annotations

import csv
import hashlib
import html
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import altair as alt
import pandas as pd
import vl_convert
from altair.utils import schemapi

from lib import downloads
from lib.charts import schema, theme
from lib.downloads import SPACES
from lib.errors import DataError
from lib.visible import visible

LONGEST = 120
A_PAGE, ROWS = 40, 60  # rows of a page of a chart that has more than so many
DRAWN = 4000  # records that a chart holds
TOLD = 3900  # characters of an alternative text
# A colour that follows the mode, and what stands for it in one drawing of both; what else in a
# spec may follow the mode, blends colours, or could be taken for such a pair.
INK = re.compile(r"dark \? '(#\w{6})' : '(#\w{6})'")
BOTH = re.compile(r"both:(#\w{6}):(#\w{6})")
OTHERWISE = re.compile(r'\bdark\b|"interpolate": "rgb"|(?<!\{"expr": "\')both:')

# Vega-Lite's schema judges a chart as a whole when it is rendered, and not each part before.
schemapi.disable_debug_mode()

_rendered: Counter[str] = Counter()


class Chart:
    """A chart with what a reader needs beside it.

    Parameters
    ----------
    chart
        As ``frame`` returns it. Its ``usermeta={"narrow": {…}}`` holds top-level properties
        for narrow containers.
    alternative
        What the chart shows, in sentences, for those who don't see it.
    data
        The table that was drawn, offered as CSV and Parquet.
    name
        Of the file that is downloaded, without suffix.
    caption
        Shown below; plain text.
    height
        About how high it will be, in px: kept free until it is drawn.
    """

    def __init__(
        self,
        chart: alt.TopLevelMixin,
        *,
        alternative: str,
        data: pd.DataFrame,
        name: str,
        caption: str = "",
        height: int = 200,
    ):
        self.alternative, self.data, self.name = sentences(alternative), data, name
        self.caption, self.height = caption, height
        self.spec: dict[str, Any] = chart.to_dict(validate=False)
        for given_by_the_site in ("config", "$schema"):
            self.spec.pop(given_by_the_site, None)
        if not schema.fits(chart, self.spec):
            chart.to_dict()  # raises an error that says what doesn't fit

    def __repr__(self) -> str:
        return self.alternative

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict[str, str]:
        return {"text/html": self.html(), "text/plain": self.alternative}

    def html(self) -> str:
        """The figure, with an id that no earlier figure of this process has."""
        spec = script_json(self.spec)
        digest = hashlib.sha256(spec.encode()).hexdigest()[:10]
        _rendered[digest] += 1
        repeat = f"-{_rendered[digest]}" if _rendered[digest] > 1 else ""
        identifier = f"chart-{digest}{repeat}"
        alternative = html.escape(plain(self.alternative, longest=4000))
        caption = html.escape(plain(self.caption, longest=2000))
        data = downloads.links(self.data, self.name)
        return (
            '<figure class="chart mathjax_ignore tex2jax_ignore">'
            f'<div class="chart-view" id="{identifier}" style="--height:{self.height}px">'
            f'<p class="chart-alternative">{alternative}</p></div>'
            f'<figcaption><span class="chart-caption">{caption}</span> '
            f'<span class="chart-data">Data: {data}</span>'
            "</figcaption></figure>"
            "<script>(window.rewardCharts=window.rewardCharts||[])"
            f'.push(["{identifier}",{spec}]);</script>'
        )

    def svg(self, width: int = 720, dark: bool = False) -> str:
        """The chart as a still picture, drawn without a browser."""
        return _svg(self.spec, width, dark, _still_config(dark))

    def svg_of_both(self, width: int = 720) -> tuple[str, str]:
        """``svg`` of the light and of the dark mode: one drawing, where they differ in plain
        colours alone.
        """
        marked = _marked(self.spec)
        text = json.dumps(marked | {"params": [p for p in marked["params"] if p["name"] != "dark"]})
        if OTHERWISE.search(text):
            return self.svg(width), self.svg(width, dark=True)
        drawn = _svg(marked, width, False, _paired(_still_config(False), _still_config(True)))
        return BOTH.sub(r"\1", drawn), BOTH.sub(r"\2", drawn)


def _svg(spec: Mapping[str, Any], width: int, dark: bool, config: Mapping[str, Any]) -> str:
    narrow = width < theme.NARROW
    spec = dict(spec) | {"width": width}
    if narrow:
        spec |= spec.get("usermeta", {}).get("narrow", {})
    given = {"dark": dark, "narrow": narrow}
    spec["params"] = [
        p | {"value": given[p["name"]]} if p["name"] in given else p for p in spec["params"]
    ]
    return vl_convert.vegalite_to_svg(spec, vl_version=theme.VEGA_LITE, config=config)


def _still_config(dark: bool) -> dict[str, Any]:
    return theme.config(dark) | {"background": theme.INKS["background"][dark]}


def _marked(spec: Any) -> Any:
    """A spec with both colours in place of an expression of one of them, and of nothing else."""
    if isinstance(spec, list):
        return [_marked(each) for each in spec]
    if not isinstance(spec, dict):
        return spec
    if spec.keys() == {"expr"} and (found := INK.fullmatch(str(spec["expr"]))):
        return {"expr": f"'{_both(found[2], found[1])}'"}
    return {key: _marked(each) for key, each in spec.items()}


def _both(light: str, dark: str) -> str:
    return f"both:{light}:{dark}"


def _paired(light: Any, dark: Any) -> Any:
    """One configuration of two that differ in colours."""
    if isinstance(light, dict):
        return {key: _paired(each, dark[key]) for key, each in light.items()}
    return light if light == dark else _both(light, dark)


def plain(text: Any, longest: int = LONGEST) -> str:
    """Text of unknown origin as one line that can't disturb its neighbours.

    Control characters become their visible pictures (ESC is ␛), direction marks their
    names in brackets; the rest is cut after ``longest`` characters. Not HTML-escaped.
    """
    text = str(text)
    if len(text) > longest:
        text = text[: longest - 1] + "…"
    return visible(text.translate(SPACES))


def sentences(text: str) -> str:
    """A text that ends as a sentence does, at most ``TOLD`` characters of it."""
    text = text.strip()
    if len(text) > TOLD:
        cut = max(text.rfind(end, 0, TOLD) for end in ("; ", ". "))
        text = f"{text[: cut if cut > 0 else TOLD]}. The figure's data has the rest"
    return text if text.endswith((".", "?", "!")) else f"{text}."


def script_json(value: Any) -> str:
    """JSON that may stand inside a script element, whatever strings it holds."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def inline(frame: pd.DataFrame) -> alt.InlineData:
    """A table as a chart's own data: CSV with types, a third of the size of records.

    Missing values become null. Floats keep nine significant digits: round what needs fewer.
    """
    text = io.StringIO()
    frame.to_csv(
        text, index=False, float_format="%.9g", lineterminator="\n", quoting=csv.QUOTE_MINIMAL
    )
    numbers = {c for c in frame.columns if pd.api.types.is_numeric_dtype(frame[c])}
    parse = {c: "number" if c in numbers else "string" for c in frame.columns}
    return alt.InlineData(values=text.getvalue(), format={"type": "csv", "parse": parse})


class _Layers(alt.LayerChart):
    """Layers as they are given.

    Altair's own class copies each of them three times, and again whenever it is copied itself, to
    gather the layers' data, parameters and sizes.
    """

    def __init__(self, **given: Any):
        super(alt.LayerChart, self).__init__(**given)


def layer(*layers: alt.Chart, **given: Any) -> alt.LayerChart:
    """What ``altair.layer`` makes: layers in one panel, whose data are the whole's where all have
    the same.
    """
    own = ("params", "width", "height", "view")
    if any(each._get(name) is not alt.Undefined for each in layers for name in own):
        return alt.layer(*layers, **given)
    data = layers[0].data
    if "data" not in given and all(each.data is data for each in layers):
        given["data"] = data
    layers = [each.copy(deep=False) for each in layers]
    for each in layers:
        if each.data is given.get("data"):
            each.data = alt.Undefined
    return _Layers(layer=layers, **given)


def layered(
    layers: Sequence[alt.Chart], data: alt.InlineData, only: str = "", **texts: str
) -> alt.LayerChart:
    """Layers that share one table: of its records those that pass ``only``, with ``texts``, which
    are expressions, beside their fields.
    """
    kept = [alt.FilterTransform(only)] if only else []
    told = [alt.CalculateTransform(**{"as": name, "calculate": e}) for name, e in texts.items()]
    return layer(*layers, data=data, transform=[*kept, *told])


def frame(
    drawing: alt.TopLevelMixin,
    *menus: alt.Parameter,
    height: float | Mapping[str, float],
    narrow: float | Mapping[str, float] | None = None,
) -> alt.TopLevelMixin:
    """A drawing as wide as the page, ``height`` px high, with the site's parameters and menus.

    ``narrow`` is its height in narrow containers, where that differs.
    """
    differs = {} if narrow is None else {"usermeta": {"narrow": {"height": narrow}}}
    given = [*theme.parameters(), *menus]
    if isinstance(drawing, alt.LayerChart):  # which would copy its layers once more
        own = drawing.params if isinstance(drawing.params, list) else []
        differs["params"] = [*own, *(each.param for each in given)]
    else:
        drawing = drawing.add_params(*given)
    drawing = drawing.copy(deep=False)
    autosize = alt.AutoSizeParams(type="fit-x", contains="padding")
    differs |= {"width": "container", "height": height, "autosize": autosize}
    for name, value in differs.items():  # by ``properties`` each would be judged by itself
        setattr(drawing, name, value)
    return drawing


def written(field: str, form: str, before: str = "") -> str:
    """Expression of a number in a format, or a dash where there is none."""
    begin = f"'{before}' + " if before else ""
    return f"isValid(datum.{field}) ? {begin}format(datum.{field}, '{form}') : '–'"


def spanned(form: str) -> str:
    """Expression of ``0.600 to 0.700`` from ``low`` and ``high``, or a dash."""
    ends = f"format(datum.low, '{form}') + ' to ' + format(datum.high, '{form}')"
    return f"isValid(datum.low) ? {ends} : '–'"


def tips(fields: Mapping[str, str | tuple[str, str]]) -> list[alt.Tooltip]:
    """Lines under the pointer: field → title, or title and format of a number; "": its own."""
    lines = []
    for field, given in fields.items():
        title, form = (given, "") if isinstance(given, str) else given
        options = {"title": title, "format": form}
        kind = "" if ":" in field else ":Q" if form else ":N"
        lines.append(alt.Tooltip(f"{field}{kind}", **{k: v for k, v in options.items() if v}))
    return lines


def nothing(sentence: str, table: pd.DataFrame, name: str) -> Chart:
    """A figure that says why there is none."""
    text = (
        alt.Chart(alt.InlineData(values=[{}]))
        .mark_text(
            align="left",
            baseline="middle",
            fontStyle="italic",
            text=plain(sentence),
            fill=theme.ink("muted"),
            limit=alt.ExprRef("width"),
        )
        .encode(x=alt.XValue(0), y=alt.YValue(10))
        .add_params(*theme.parameters())
        .properties(width="container", height=20)
    )
    return Chart(text, alternative=sentence, data=table, name=name, height=40)


def menu(name: str, title: str, choices: Sequence[str], start: int = 0) -> alt.Parameter:
    """A parameter that holds the number of a choice, with a menu where there is one to make.

    Parameters
    ----------
    name
        Of the parameter.
    title
        Written before the menu.
    choices
        In order; from models and data, so they are shown as ``plain`` shows them.
    start
        The number that it opens on.
    """
    if len(choices) < 2:
        return alt.param(name=name, value=0)
    labels = [plain(choice) for choice in choices]
    bind = alt.binding_select(options=list(range(len(choices))), labels=labels, name=title)
    return alt.param(name=name, value=start, bind=bind)


def pages(rows: int) -> list[str]:
    """Choices of a menu that turns the pages of a chart of so many rows; of one page, none."""
    if rows <= ROWS:
        return []
    return [f"{k + 1} to {min(k + A_PAGE, rows)}" for k in range(0, rows, A_PAGE)]


def require(table: pd.DataFrame, columns: Iterable[str], what: str, *, empty: bool = False) -> None:
    """Check that a table can be drawn, or, where it may be ``empty``, that ``nothing`` can.

    Raises
    ------
    DataError
        When a column is missing, or there is no row and it may not be empty.
    """
    missing = [column for column in columns if column not in table]
    if missing:
        raise DataError(
            f"column {missing[0]!r} in the table of {what}",
            ", ".join(map(str, table.columns)) or "no columns",
            "Give the table as lib.stats returns it.",
        )
    if table.empty and not empty:
        raise DataError(f"a row in the table of {what}", "none", "Check what was selected.")
