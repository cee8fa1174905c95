"""Concepts as rows of intervals, and what becomes of them along the depth and along doses."""

from __future__ import annotations

import altair as alt
import numpy as np
import pandas as pd

from lib.charts import theme
from lib.charts.intervals import intervals
from lib.charts.render import Chart, frame, inline, layer, menu, nothing, plain, require, tips
from lib.charts.rows import toned

TONES = {"found": "better", "for": "better", "together": "better"}
TONES |= {"against": "worse", "in conflict": "worse"}
SHOWN = 3  # heads drawn of a concept's doses
INKS, DASHES = ("better", "worse", "text"), ([1, 0], [6, 3], [2, 2])
HEIGHT, APART = 220, 0.08  # px of a figure of lines; between names at its end, of its height


def found(table: pd.DataFrame) -> Chart:
    """Held-out accuracy of each concept's direction; ``table`` is ``stats.found``'s."""
    if table.empty:
        return nothing("No pair of a concept: nothing to draw.", table, "concepts-found")
    columns = ("concept", "accuracy", "low", "high", "without_length", "verdict", "note")
    require(table, columns, "concepts")
    rows = table.rename(columns={"concept": "name", "accuracy": "value"})
    rows = rows.assign(
        group="all", beside=table["without_length"], tone=toned(table["verdict"], TONES)
    )
    return intervals(
        rows,
        title="held-out pairs ranked rightly",
        reference=0.5,
        domain=(0.3, 1.0),
        data=table,
        name="concepts-found",
        what="Directions of concepts",
        beside="with length taken out",
        caption="Share of pairs that the mean difference of other pairs' states ranks rightly; "
        "tick: with length taken out. Grey: not shown, or only as length.",
    )


def alignment(table: pd.DataFrame) -> Chart:
    """What each head pays for each concept; ``table`` is ``stats.alignment``'s."""
    if table.empty:
        return nothing("No pair of a concept: nothing to draw.", table, "concepts-paid")
    columns = ("concept", "head", "gap", "gap_low", "gap_high", "gap_without_length", "verdict")
    require(table, columns, "heads and concepts")
    rows = pd.DataFrame(
        {
            "name": table["head"],
            "group": table["concept"],
            "value": table["gap"],
            "low": table["gap_low"],
            "high": table["gap_high"],
            "beside": table["gap_without_length"],
            "note": table["note"],
            "tone": toned(table["verdict"], TONES),
        }
    )
    return intervals(
        rows,
        title="gap between the pair, sd of the head",
        reference=0.0,
        data=table,
        name="concepts-paid",
        what="Gaps of the heads",
        beside="with length taken out",
        menu_name="Concept",
        caption="Mean gap between the response with more of the concept and the one with less; "
        "tick: with length taken out. Grey: not shown, or only as length.",
    )


def conflict(table: pd.DataFrame) -> Chart:
    """Cosines of two concepts' directions; ``table`` is ``stats.conflict``'s."""
    if table.empty:
        return nothing("Fewer than two directions to compare.", table, "concepts-conflict")
    require(table, ("one", "other", "form", "cosine", "low", "high", "verdict"), "conflicts")
    rows = pd.DataFrame(
        {
            "name": [f"{row.one} – {row.other}" for row in table.itertuples()],
            "group": table["form"],
            "value": table["cosine"],
            "low": table["low"],
            "high": table["high"],
            "beside": table["published"].where(table["cosine"].notna()),
            "note": table["note"].where(table["note"] != "", "can't be told from no direction"),
            "tone": toned(table["verdict"], TONES),
        }
    )
    return intervals(
        rows,
        title="cosine of the two directions",
        reference=0.0,
        domain=(-1.0, 1.0),
        data=table,
        name="concepts-conflict",
        what="Cosines of two concepts' directions",
        beside="as published",
        menu_name="Form",
        caption="Cosine of mean differences, free of the bias of finite samples; tick: as "
        "published. Coloured where raw and whitened agree and both are significant.",
    )


def depth(table: pd.DataFrame) -> Chart:
    """Accuracy along the depth, one concept at a time; ``table`` is ``stats.by_layer``'s."""
    if table.empty:
        return nothing("No states of layers were kept: nothing to draw.", table, "concepts-depth")
    require(table, ("concept", "depth", "accuracy", "low", "high", "without_length"), "depths")
    concepts = list(dict.fromkeys(table["concept"]))
    drawn = table.assign(choice=table["concept"].map(concepts.index)).round(4)
    drawn = drawn[["choice", "depth", "accuracy", "low", "high", "without_length"]]
    x = alt.X(
        "depth:Q",
        scale=alt.Scale(nice=False, domain=[int(drawn["depth"].min()), int(drawn["depth"].max())]),
        axis=alt.Axis(title="layers below", format="d", grid=False, tickMinStep=1),
    )
    axis = alt.Axis(title="held-out pairs ranked rightly", format=".1f", tickCount=6)
    y = alt.Y("accuracy:Q", scale=alt.Scale(domain=[0, 1]), axis=axis)
    base = alt.Chart(inline(drawn)).transform_filter("datum.choice === choice").encode(x=x)
    half = alt.Chart(alt.InlineData(values=[{}]))
    told = {"depth:Q": "layers below", "accuracy": ("", ".3f"), "low": ("", ".3f")}
    told |= {"high": ("", ".3f"), "without_length": ("with length taken out", ".3f")}
    layers = [
        half.mark_rule(stroke=theme.ink("rule")).encode(y=alt.YDatum(0.5, type="quantitative")),
        base.mark_area(opacity=0.2, fill=theme.ink("better")).encode(
            y=alt.Y("low:Q", axis=axis), y2=alt.Y2("high:Q")
        ),
        base.mark_line(strokeWidth=2, strokeDash=[5, 4], stroke=theme.ink("muted")).encode(
            y=alt.Y("without_length:Q", axis=axis)
        ),
        base.mark_line(strokeWidth=2, stroke=theme.ink("better")).encode(y=y),
        base.mark_point(size=36, strokeWidth=2, stroke=theme.ink("better"), opacity=1)
        .encode(y=y, fill=alt.FillValue(theme.ink("background")), tooltip=tips(told))
        .properties(name="points"),
    ]
    chart = frame(layer(*layers), menu("choice", "Concept", concepts), height=HEIGHT)
    return Chart(
        chart,
        alternative=_depth_in_words(table),
        data=table,
        name="concepts-depth",
        caption="Line and band: accuracy with its interval, one depth at a time. Dashed: with "
        "length taken out.",
        height=HEIGHT + 70,
    )


def _depth_in_words(table: pd.DataFrame) -> str:
    told = []
    for concept, rows in table.groupby("concept", sort=False):
        best, last = rows.loc[rows["accuracy"].idxmax()], rows.iloc[-1]
        told.append(
            f"{plain(concept)}: {best['accuracy']:.3f} at most, first after {best['depth']} "
            f"layers; {last['accuracy']:.3f} after the last"
        )
    return f"Share of held-out pairs ranked rightly along the depth. {'; '.join(told)}."


def dose(table: pd.DataFrame) -> Chart:
    """Rewards along doses of a concept; ``table`` is ``stats.dose``'s."""
    if table.empty:
        return nothing("No doses could be given: nothing to draw.", table, "concepts-dose")
    require(table, ("concept", "head", "dose", "change", "low", "high"), "doses")
    concepts = list(dict.fromkeys(table["concept"]))
    drawn = _largest(table).assign(choice=lambda rows: rows["concept"].map(concepts.index))
    drawn["line"] = drawn.groupby("choice")["head"].transform(lambda h: pd.factorize(h)[0])
    drawn = drawn.assign(head=drawn["head"].map(plain)).round(4)
    drawn = drawn[["choice", "line", "head", "dose", "change", "low", "high"]]
    ends = drawn[drawn["dose"] == drawn["dose"].max()].copy()
    room = drawn.groupby("choice")["change"].agg(lambda all_: all_.max() - all_.min()) * APART
    ends["at"] = np.concatenate(
        [_apart(own["change"].to_numpy(), room[choice]) for choice, own in ends.groupby("choice")]
    )
    x = alt.X(
        "dose:Q",
        axis=alt.Axis(title="dose, mean differences of the concept", format="~g", grid=False),
        scale=alt.Scale(nice=False, range=[0, alt.ExprRef("width - (narrow ? 110 : 150)")]),
    )
    axis = alt.Axis(title="change of the reward, sd of the head", format="~g", tickCount=6)
    y = alt.Y("change:Q", axis=axis, scale=alt.Scale(zero=True))
    places = list(range(SHOWN))
    ink = alt.Scale(domain=places, range=[theme.ink(role) for role in INKS])
    dash = alt.Scale(domain=places, range=list(DASHES))
    stroke = alt.Stroke("line:N", scale=ink, legend=None)
    base = alt.Chart(inline(drawn)).transform_filter("datum.choice === choice").encode(x=x, y=y)
    end = alt.Chart(inline(ends)).transform_filter("datum.choice === choice")
    zero = alt.Chart(alt.InlineData(values=[{}]))
    told = {"head": "", "dose:Q": "", "change": ("", "+.3f"), "low": ("", "+.3f")}
    told |= {"high": ("", "+.3f")}
    layers = [
        zero.mark_rule(stroke=theme.ink("rule")).encode(y=alt.YDatum(0, type="quantitative")),
        base.mark_line(strokeWidth=2).encode(
            stroke=stroke, strokeDash=alt.StrokeDash("line:N", scale=dash, legend=None)
        ),
        base.mark_point(size=36, strokeWidth=2, opacity=1, fill=theme.ink("background"))
        .encode(stroke=stroke, tooltip=tips(told))
        .properties(name="points"),
        end.mark_text(
            align="left",
            dx=8,
            fontSize=theme.SMALL,
            fill=theme.ink("text"),
            limit=alt.ExprRef("narrow ? 100 : 140"),
        ).encode(x=x, y=alt.Y("at:Q", axis=axis), text=alt.Text("head:N")),
    ]
    chart = frame(layer(*layers), menu("choice", "Concept", concepts), height=HEIGHT)
    return Chart(
        chart,
        alternative=_doses_in_words(drawn, concepts),
        data=table,
        name="concepts-dose",
        caption=f"Mean over prompts, of the {SHOWN} heads that move most; the others are in the "
        "data. A line that bends is the norm's doing.",
        height=HEIGHT + 70,
    )


def _apart(values: np.ndarray, least: float) -> np.ndarray:
    """Places near the values with at least so much between neighbours."""
    order = np.argsort(values)
    places = values[order].astype(float)
    for _ in range(len(places)):
        for low in range(len(places) - 1):
            short = least - (places[low + 1] - places[low])
            if short > 0:
                places[low] -= short / 2
                places[low + 1] += short / 2
    out = np.empty_like(places)
    out[order] = places
    return out


def _largest(table: pd.DataFrame) -> pd.DataFrame:
    """The heads of each concept that move most at its largest dose."""
    last = table[table["dose"] == table["dose"].max()].dropna(subset=["change"])
    order = last.assign(size=last["change"].abs()).sort_values("size", ascending=False)
    chosen = order.groupby("concept", sort=False).head(SHOWN)[["concept", "head"]]
    return table.merge(chosen.sort_index(), on=["concept", "head"])


def _doses_in_words(drawn: pd.DataFrame, concepts: list[str]) -> str:
    told = []
    for choice, rows in drawn.groupby("choice"):
        last = rows[rows["dose"] == rows["dose"].max()]
        each = ", ".join(f"{row.head} {row.change:+.2f}" for row in last.itertuples())
        told.append(f"{plain(concepts[int(choice)])}: {each}")
    largest = drawn["dose"].max()
    return f"Change of rewards at a dose of {largest:g} mean differences. {'; '.join(told)}."
