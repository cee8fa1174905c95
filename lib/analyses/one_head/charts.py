"""One head in pictures: what makes its margins, how that is spread over prompts.

``sources``     the largest components, all others, and what patches say of each
``steadiness``  the same components, a tick for each prompt
``attention``   the largest attention heads
"""

from __future__ import annotations

import altair as alt
import numpy as np
import pandas as pd

from lib.analyses.one_head.stats import CANCELLED, CONFIRMED, OPPOSES, OTHERS
from lib.charts import theme
from lib.charts.intervals import intervals
from lib.charts.render import Chart, frame, inline, layer, nothing, plain, require, tips, written
from lib.charts.rows import (
    END,
    LEFT,
    LINE,
    NARROW_STEP,
    ROW,
    STEP,
    band,
    between,
    gutter,
    hairlines,
    limit,
    write,
)

COLUMNS = ("component", "makes", "low", "high", "side")
TOLD = (CONFIRMED, OPPOSES, CANCELLED)
RIGHT = 64
NO_MARGIN = "no margin to share out"
NO_ATTENTION = (
    "These effects don't tell attention heads apart: compute them with --attention-heads."
)


def sources(table: pd.DataFrame, head: str) -> Chart:
    """Share of the margins that each of the largest components makes.

    ``table`` is as ``stats.largest`` returns it.
    """
    require(table, (*COLUMNS, "patches", "verdict"), "sources")
    verdict = table["verdict"]
    rows = _rows(table, head) | {
        "name": table["component"] + (" · " + verdict).where(verdict.isin(TOLD), ""),
        "beside": table["patches"].astype(float),
        "tone": np.where(table["component"] == OTHERS, "baseline", "better"),
    }
    return intervals(
        pd.DataFrame(rows),
        title="share of the margins",
        reference=0.0,
        data=table,
        name="sources",
        what="Where the margins come from",
        beside="by patches",
        caption="Share of the head's margins that each component makes, whichever response they "
        "favour, with its 95% interval; with all others they sum to 1. Grey tick: the share that "
        "is lost when the component's output is exchanged for that in the other response, the "
        "mean of noising and denoising. A word beside a name is the verdict of patches on the "
        "mean margin, after Holm.",
    )


def attention(table: pd.DataFrame, head: str) -> Chart:
    """Share of the margins that each of the largest attention heads makes.

    ``table`` is as ``stats.attention`` returns it.
    """
    if table.empty:
        return nothing(NO_ATTENTION, table, "attention-heads")
    require(table, COLUMNS, "attention heads")
    return intervals(
        pd.DataFrame(_rows(table, head) | {"name": table["component"]}),
        title="share of the margins",
        reference=0.0,
        data=table,
        name="attention-heads",
        what="Attention heads that make the margins",
        caption="Share of the head's margins that each attention head makes by what it writes "
        "at the last token, with its 95% interval; layers and attention heads count from 1.",
    )


def _rows(table: pd.DataFrame, head: str) -> dict:
    return {
        "group": head,
        "value": table["makes"].astype(float),
        "low": table["low"].astype(float),
        "high": table["high"].astype(float),
        "note": np.where(table["makes"].isna(), NO_MARGIN, ""),
    }


def steadiness(each: pd.DataFrame, table: pd.DataFrame, head: str) -> Chart:
    """What each of the largest components adds in every single prompt.

    ``each`` is as ``stats.prompts`` returns it, ``table`` as ``stats.largest``.
    """
    require(each, ("component", "prompt", "part"), "prompts")
    require(table, COLUMNS, "largest components")
    if each["part"].isna().all():
        return nothing("No response scores higher than another: nothing to draw.", each, "prompts")
    names = list(dict.fromkeys(each["component"]))
    order = list(range(len(names)))
    side = table.set_index("component")["side"]
    drawn = pd.DataFrame({"row": each["component"].map(names.index), "part": each["part"].round(4)})
    middle = each.groupby("component", sort=False)["part"].median()
    rows = pd.DataFrame(
        {
            "row": order,
            "name": [plain(name) for name in names],
            "middle": middle.reindex(names).round(4).to_numpy(),
            "side": side.reindex(names).astype(float).round(4).to_numpy(),
        }
    )
    ends = [float(min(0.0, drawn["part"].min())), float(max(0.0, drawn["part"].max()))]
    scale = alt.Scale(
        domain=ends, range=between(gutter(rows["name"]), RIGHT), zero=False, nice=True
    )
    x = alt.X(
        "part:Q",
        axis=alt.Axis(
            title="part towards the response preferred, in the mean size of margins",
            grid=False,
            tickCount=5,
            labelFlush=False,
        ),
        scale=scale,
    )
    base = alt.Chart(inline(rows)).transform_calculate(percent=written("side", ".0%"))
    layers = [
        alt.Chart(alt.InlineData(values=[{}]))
        .mark_rule(stroke=theme.ink("muted"))
        .encode(x=alt.XDatum(0, type="quantitative", scale=scale)),
        hairlines(base, band(order)),
        alt.Chart(inline(drawn))
        .mark_tick(thickness=1.5, height=12, yOffset=LINE, opacity=0.45, color=theme.ink("better"))
        .encode(x=x, y=ROW),
        base.mark_point(
            shape="diamond",
            size=80,
            strokeWidth=2,
            yOffset=LINE,
            stroke=theme.ink("text"),
            fill=theme.ink("background"),
            opacity=1,
        )
        .encode(
            x=alt.X("middle:Q", scale=scale),
            y=ROW,
            tooltip=tips(
                {
                    "name": "",
                    "middle": ("median prompt", "+.3f"),
                    "side": ("on the margin's side", ".0%"),
                }
            ),
        )
        .properties(name="medians"),
        write(base, "name", LEFT, fontWeight=600, limit=limit(gutter(rows["name"]), RIGHT)),
        write(base, "percent", END, fontWeight=600),
    ]
    told = "; ".join(
        f"{row.name} on the margin's side in {row.side:.0%}, median {row.middle:+.2f}"
        for row in rows.itertuples()
    )
    return Chart(
        frame(layer(*layers), height=STEP * len(order), narrow=NARROW_STEP * len(order)),
        alternative=f"What each component adds in every prompt, of {plain(head)}: {told}.",
        data=each,
        name="steadiness",
        caption="A tick for each prompt: what the component adds towards the response that the "
        "head prefers there, in the mean size of the head's margins. Right of the line it is on "
        "the margin's side, as often as the number at the right says; the diamond is the median "
        "prompt.",
        height=STEP * len(order) + 60,
    )
