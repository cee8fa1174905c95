"""Margins and choices by depth: a line with the norm, a line as published, a menu of heads."""

from __future__ import annotations

import math

import altair as alt
import pandas as pd

from lib.analyses.lens.stats import ALIKE
from lib.charts import theme
from lib.charts.render import Chart, frame, inline, layer, menu, nothing, plain, require, tips

COLUMNS = ("head", "depth", "share", "low", "high", "share_raw", "raw_low", "raw_high")
COLUMNS += ("agree", "agree_low", "agree_high", "agree_raw", "rho", "opposed", "note")
NORMED, RAW = "with the norm", "as published"
FORMS = (NORMED, RAW)
INKS = ("better", "worse")
HEIGHT = 260


def margins(table: pd.DataFrame) -> Chart:
    """Share of the final margin at each depth, with its interval.

    ``table`` is as ``stats.curves`` returns it.
    """
    columns = {NORMED: ("share", "low", "high"), RAW: ("share_raw", "raw_low", "raw_high")}
    return _lines(
        table,
        columns,
        marks={0.5: "half", 1.0: "all"},
        title="share of the final margin",
        name="lens-margins",
        what="Share of the final margin by depth",
        caption="Share of the final margin that the lens reads after each layer, with its interval "
        "over prompts. As published the final norm is skipped, and the share is of that lens' "
        "own last margin, which isn't the reward's.",
    )


def agreement(table: pd.DataFrame) -> Chart:
    """Share of comparisons in which the lens picks the response that the reward picks.

    ``table`` is as ``stats.curves`` returns it.
    """
    nothing_beside = ("agree_raw", None, None)
    return _lines(
        table,
        {NORMED: ("agree", "agree_low", "agree_high"), RAW: nothing_beside},
        marks={0.5: "chance", ALIKE: "settled"},
        title="share of comparisons picked alike",
        name="lens-agreement",
        what="Share of comparisons in which the lens picks the response that the reward picks",
        caption="Share of comparisons in which the lens at a depth scores that response higher "
        "which the reward scores higher, ties counted half; the band is the interval. As "
        "published the last point isn't the reward.",
    )


def _lines(table, columns, *, marks, title, name, what, caption) -> Chart:
    require(table, COLUMNS, what)
    known = table[table[columns[NORMED][0]].notna()]
    if known.empty:
        return nothing("No head's responses score differently: nothing to draw.", table, name)
    heads = list(dict.fromkeys(known["head"]))
    parts = []
    for form, (value, low, high) in columns.items():
        part = {"head": known["head"].map(heads.index), "depth": known["depth"], "form": form}
        part["value"] = known[value]
        part |= {"low": known[low] if low else math.nan, "high": known[high] if high else math.nan}
        parts.append(pd.DataFrame(part))
    drawn = pd.concat(parts, ignore_index=True).round(4)
    return Chart(
        frame(
            layer(*_layers(drawn, marks, title)),
            menu("head", "Head", [plain(head) for head in heads]),
            height=HEIGHT,
        ),
        alternative=_in_words(known, columns, heads[0], len(heads), what),
        data=table,
        name=name,
        caption=caption,
        height=HEIGHT + 90,
    )


def _layers(drawn: pd.DataFrame, marks: dict[float, str], title: str) -> list[alt.Chart]:
    x = alt.X(
        "depth:Q",
        axis=alt.Axis(title="layers read", format="d", grid=False, tickMinStep=1, labelFlush=False),
        scale=alt.Scale(domain=[0, int(drawn["depth"].max())], nice=False, padding=8),
    )
    y = alt.Y(
        "value:Q",
        scale=alt.Scale(zero=False, nice=True),  # of the head that is chosen
        axis=alt.Axis(title=title, format=".1f", tickCount=6, grid=False),
    )
    scales = {
        "colour": alt.Scale(domain=list(FORMS), range=[theme.ink(role) for role in INKS]),
        "dash": alt.Scale(domain=list(FORMS), range=[[1, 0], [6, 3]]),
        "shape": alt.Scale(domain=list(FORMS), range=["circle", "square"]),
    }
    legend = alt.Legend(title=None, orient="bottom", direction="horizontal", symbolSize=120)
    base = alt.Chart(inline(drawn)).transform_filter("datum.head === head")
    alone = alt.Chart(alt.InlineData(values=[{}]))
    lines = [
        alone.mark_rule(stroke=theme.ink("rule"), strokeDash=[3, 3]).encode(
            y=alt.YDatum(at, type="quantitative")
        )
        for at in marks
    ]
    names = [
        alone.mark_text(
            align="left",
            baseline="bottom",
            fontSize=theme.SMALL,
            fill=theme.ink("muted"),
            text=text,
        ).encode(y=alt.YDatum(at, type="quantitative"), x=alt.XValue(2))
        for at, text in marks.items()
    ]
    stroke = alt.Stroke("form:N", scale=scales["colour"], legend=legend)
    return [
        *(
            base.transform_filter(f"datum.form === '{form}' && isValid(datum.low)")
            .mark_area(opacity=0.18, fill=theme.ink(role))
            .encode(x=x, y=alt.Y("low:Q"), y2=alt.Y2("high:Q"))
            for form, role in zip(FORMS, INKS, strict=True)
        ),
        *lines,
        base.mark_line(strokeWidth=2).encode(
            x=x,
            y=y,
            stroke=stroke,
            strokeDash=alt.StrokeDash("form:N", scale=scales["dash"], legend=legend),
        ),
        base.mark_point(size=34, strokeWidth=2, opacity=1, fill=theme.ink("background"))
        .encode(
            x=x,
            y=y,
            stroke=stroke,
            shape=alt.Shape("form:N", scale=scales["shape"], legend=legend),
            tooltip=tips(
                {
                    "form": "",
                    "depth:Q": "layers read",
                    "value": (title, ".3f"),
                    "low": ("from", ".3f"),
                    "high": ("to", ".3f"),
                }
            ),
        )
        .properties(name="points"),
        *names,
    ]


def _in_words(table: pd.DataFrame, columns, head: str, count: int, what: str) -> str:
    own = table[table["head"] == head]
    places = sorted({0, len(own) // 4, len(own) // 2, 3 * len(own) // 4, len(own) - 1})
    sentences = [
        f"{form}: " + ", ".join(_at(own.iloc[place], *names) for place in places)
        for form, names in columns.items()
    ]
    others = f" A menu chooses among {count} heads." if count > 1 else ""
    return f"{what}, for {plain(head)}; {'; '.join(sentences)}.{others}"


def _at(row: pd.Series, value: str, low: str | None, high: str | None) -> str:
    known = low is not None and math.isfinite(row[low])
    interval = f" [{row[low]:z.2f}, {row[high]:z.2f}]" if known else ""
    return f"{row[value]:z.2f}{interval} after layer {int(row['depth'])}"
