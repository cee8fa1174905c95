"""What carries each head: its largest components, all layers by depth, and attribution's agreement.

``largest``      the ten largest components, their part and what patches say of each
``depth``        what each layer's attention and MLP carries, from the first to the last
``attribution``  agreement with patches for either alignment, with the norm and without
"""

from __future__ import annotations

import altair as alt
import numpy as np
import pandas as pd

from lib.analyses.patching.agreement import CORRECTED
from lib.analyses.patching.stats import CANCELLED, CONFIRMED, NOT_NUMBERS, OPPOSES
from lib.charts import theme
from lib.charts.intervals import intervals
from lib.charts.render import Chart, frame, inline, layer, menu, nothing, plain, require, tips

DEPTH_COLUMNS = (
    "head",
    "node",
    "carried",
    "low",
    "high",
    "share",
    "p_adjusted",
    "pulls",
    "verdict",
)
KINDS = {"attention": "better", "mlp": "worse"}
TOLD = (CONFIRMED, OPPOSES, CANCELLED)
HEIGHT = 240


def largest(table: pd.DataFrame) -> Chart:
    """The largest components of each head; a menu of heads.

    ``table`` is as ``stats.largest`` returns it.
    """
    columns = ("head", "component", "part", "low", "high", "size", "carried", "pulls", "verdict")
    require(table, columns, "largest")
    rank = table.groupby("head", sort=False).cumcount()
    verdict, pulls = table["verdict"], table["pulls"]
    said = verdict.where(verdict.isin(TOLD), ("pulls " + pulls).where(pulls != "", ""))
    rows = pd.DataFrame(
        {
            "name": table["component"] + (" · " + said).where(said != "", ""),
            "row": rank,
            "group": table["head"],
            "value": table["part"] / table["size"],
            "low": table["low"] / table["size"],
            "high": table["high"] / table["size"],
            "beside": table["carried"].astype(float) / table["size"],
            "note": np.where(table["part"].isna(), NOT_NUMBERS, ""),
            "tone": verdict.map({CONFIRMED: "better", OPPOSES: "worse"}).fillna("baseline"),
        }
    )
    return intervals(
        rows,
        title="part of the margin, in its mean size",
        reference=0.0,
        data=table,
        name="largest",
        what="Largest components",
        beside="by patches",
        menu_name="Head",
        caption="Mean part of the margin by attribution with its 95% interval over prompts, "
        "uncorrected, the largest of each head. Its unit is the mean size of the head's margins, "
        "so that heads can be compared. Grey tick: what the margin loses by patches, the mean of "
        "noising and denoising. A word beside a name is what patches say: it is confirmed to carry "
        "the margin, opposes it, is cancelled, or where there is no margin to carry pulls towards "
        "the better or worse response. Without a word they don't show it, or aren't made.",
    )


def depth(table: pd.DataFrame) -> Chart:
    """What each layer carries by patches, attention and MLP; a menu of heads.

    ``table`` is as ``stats.verdicts`` returns it.
    """
    require(table, DEPTH_COLUMNS, "verdicts")
    if table["carried"].isna().all():
        return nothing("No effect has a number: nothing to draw.", table, "depth")
    heads = list(dict.fromkeys(table["head"]))
    part = table["node"].str.rpartition(" ")
    drawn = pd.DataFrame(
        {
            "head": table["head"].map(heads.index),
            "node": table["node"].map(plain),
            "part": part[0],
            "layer": part[2].astype(int),
            "carried": table["carried"].round(5),
            "low": table["low"].round(5),
            "high": table["high"].round(5),
            "share": table["share"].round(4),
            "verdict": table["verdict"],
            "told": table["pulls"].ne("").astype(int),
        }
    )
    x = alt.X(
        "layer:Q",
        axis=alt.Axis(title="layer", format="d", grid=False, tickMinStep=1),
        scale=alt.Scale(domain=[1, int(drawn["layer"].max())], padding=8, nice=False),
    )
    y = alt.Y("carried:Q", axis=alt.Axis(title="margin lost by patches", tickCount=5))
    inks = alt.Scale(domain=list(KINDS), range=[theme.ink(role) for role in KINDS.values()])
    legend = alt.Legend(title=None, orient="top", symbolType="stroke", symbolSize=400)
    colour = alt.Stroke("part:N", scale=inks, legend=legend)
    dash = alt.StrokeDash(
        "part:N", scale=alt.Scale(domain=list(KINDS), range=[[1, 0], [5, 3]]), legend=legend
    )
    base = alt.Chart(inline(drawn)).transform_filter("datum.head === head")
    zero = alt.Chart(alt.InlineData(values=[{}]))
    layers = [
        zero.mark_rule(stroke=theme.ink("muted")).encode(y=alt.YDatum(0, type="quantitative")),
        base.mark_line(strokeWidth=1.5).encode(x=x, y=y, stroke=colour, strokeDash=dash),
        base.mark_rule(strokeWidth=2)
        .transform_filter("datum.told")
        .encode(
            x=x,
            y=alt.Y("low:Q"),
            y2=alt.Y2("high:Q"),
            stroke=alt.Stroke("part:N", scale=inks, legend=None),
        ),
        base.mark_point(size=46, strokeWidth=1.5, opacity=1)
        .encode(
            x=x,
            y=y,
            stroke=alt.Stroke("part:N", scale=inks, legend=None),
            fill=alt.condition(
                "datum.told",
                alt.Fill("part:N", scale=inks, legend=None),
                alt.value(theme.ink("background")),
            ),
            tooltip=tips(
                {
                    "node": "",
                    "carried": ("margin lost", "+.4f"),
                    "low": ("from", "+.4f"),
                    "high": ("to", "+.4f"),
                    "share": ("share of the margin", "+.1%"),
                    "verdict": "",
                }
            ),
        )
        .properties(name="points"),
    ]
    chart = frame(layer(*layers), menu("head", "Head", heads), height=HEIGHT)
    return Chart(
        chart,
        alternative=_depth_in_words(table, heads),
        data=table[list(DEPTH_COLUMNS)],
        name="depth",
        caption="What the margin loses, on average over prompts, when one layer's attention or "
        "MLP is taken from the other response, the mean of noising and denoising. Filled points, "
        "with their 95% interval, are told from 0 after Holm; hollow ones aren't.",
        height=HEIGHT + 90,
    )


def _depth_in_words(table: pd.DataFrame, heads: list[str]) -> str:
    rows = table[table["head"] == heads[0]]
    told = rows[rows["pulls"] != ""]
    named = [
        f"{row.node} {row.carried:+.3f} [{row.low:+.3f}, {row.high:+.3f}] {row.verdict}"
        for row in told.itertuples()
    ]
    most = rows.loc[rows["carried"].abs().idxmax()] if rows["carried"].notna().any() else None
    largest = "" if most is None else f" The largest is {most['node']}, {most['carried']:+.3f}."
    menu_of = f" A menu chooses among {len(heads)} heads." if len(heads) > 1 else ""
    return (
        f"Margin lost by patching each of {len(rows)} layers, {plain(heads[0])}: "
        f"{'; '.join(named) or 'none is told from 0'}.{largest}{menu_of}"
    )


def attribution(table: pd.DataFrame) -> Chart:
    """Agreement of attribution with patches, in four forms; a menu of heads.

    ``table`` is as ``agreement.attribution`` returns it.
    """
    require(table, ("head", "alignment", "parts", "rho", "low", "high"), "agreement")
    ways = list(zip(table["alignment"], table["parts"], strict=True))
    rows = pd.DataFrame(
        {
            "name": [f"{way}, {parts}" for way, parts in ways],
            "group": table["head"],
            "value": table["rho"],
            "low": table["low"],
            "high": table["high"],
            "note": ["" if pd.notna(rho) else "does not vary over layers" for rho in table["rho"]],
            "tone": ["text" if way == CORRECTED else "baseline" for way in ways],
        }
    )
    return intervals(
        rows,
        title="mean ρ over prompts",
        reference=0.0,
        domain=(-0.2, 0.6),
        data=table,
        name="attribution",
        what="Agreement of attribution with noising",
        menu_name="Head",
        caption="Spearman's ρ over layers between attribution and noising in each comparison: its "
        "mean over prompts with a 95% interval. The first row is the corrected form, the last "
        "the published one; the two between mend one fault each.",
    )
