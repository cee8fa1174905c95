"""Correlations of heads as a matrix, and their eigenvalues against those of unrelated heads."""

from __future__ import annotations

import math

import altair as alt
import numpy as np
import pandas as pd

from lib.analyses.disentanglement.stats import CLUSTER_COLUMNS, FACTOR_COLUMNS, KINDS, PAIR_COLUMNS
from lib.charts import theme
from lib.charts.kinds import KIND_NAMES, kinds_menu
from lib.charts.render import (
    Chart,
    frame,
    inline,
    layer,
    nothing,
    plain,
    require,
    spanned,
    tips,
    written,
)

STEP, NARROW_STEP = 26, 20  # px of a row of the matrix
SHOWN = 12  # pairs in the alternative text


def heatmap(pairs: pd.DataFrame, clusters: pd.DataFrame) -> Chart:
    """Correlations of every two heads; a menu chooses pooled, between or within items.

    Heads stand in the order of the pooled tree in all three, so that a change of kind shows
    which cells moved. A cell without a number is left empty and marked with a dash.

    ``pairs`` and ``clusters`` are what the functions of those names in ``stats`` return.
    """
    name = "disentanglement"
    if pairs.empty:
        return nothing("One head: there is nothing to correlate it with.", pairs, name)
    require(pairs, PAIR_COLUMNS, "correlations")
    require(clusters, CLUSTER_COLUMNS, "clusters")
    first = clusters[clusters["kind"] == KINDS[0]]
    place = dict(zip(first["head"], first["position"], strict=True))
    heads = sorted(place, key=place.get)
    cells = pairs.assign(
        kind=pairs["kind"].map(KINDS.index),
        x=pairs["head"].map(place),
        y=pairs["other"].map(place),
    )
    columns = ["kind", "x", "y", "r", "low", "high", "r_length"]
    cells = cells[columns].astype({"x": int, "y": int}).round(4)
    cells = pd.concat([cells, cells.rename(columns={"x": "y", "y": "x"})[columns]])
    titles = pd.DataFrame({"y": range(len(heads)), "name": [plain(head) for head in heads]})
    titles["title"] = [f"{k + 1} {name}" for k, name in enumerate(titles["name"])]
    chart = frame(
        layer(*_cells(cells, titles)),
        kinds_menu(KINDS),
        height=STEP * len(heads),
        narrow=NARROW_STEP * len(heads),
    )
    return Chart(
        chart,
        alternative=_matrix_in_words(pairs, heads),
        data=pairs,
        name=name,
        caption="Correlation of two heads' scores, by level; columns are numbered as rows. Teal: "
        "they rise together; purple: one rises as the other falls; a dash: no number.",
        height=STEP * len(heads) + 60,
    )


def _cells(cells: pd.DataFrame, titles: pd.DataFrame) -> list[alt.Chart]:
    order = titles["y"].tolist()
    longest = titles["title"].map(len).max()
    gutter = int(min(240, max(60, 6.8 * longest + 12)))
    narrow = min(118, gutter)
    x = alt.X(
        "x:O",
        scale=alt.Scale(
            type="band",
            domain=order,
            range=[theme.either(narrow, gutter), alt.ExprRef("width")],
            paddingInner=0.06,
        ),
        axis=alt.Axis(
            orient="top",
            labelExpr="datum.value + 1",
            ticks=False,
            title=None,
            labelAngle=0,
            labelOverlap=True,
        ),
    )
    y = alt.Y("y:O", axis=None, scale=alt.Scale(type="band", domain=order, paddingInner=0.06))
    colour = theme.association()
    chosen = alt.Chart(inline(cells)).transform_filter("datum.kind === kind")
    named = alt.LookupData(data=inline(titles[["y", "name"]]), key="y", fields=["name"])
    for place, name in (("y", "one"), ("x", "two")):
        chosen = chosen.transform_lookup(lookup=place, from_=named, as_=[name])
    chosen = chosen.transform_calculate(
        short="isValid(datum.r) ? replace(replace(format(datum.r, '.1f'), '-', '−'), '0.', '.')"
        " : '–'",
        value="isValid(datum.r) ? format(datum.r, '.2f') : 'no number'",
        interval=spanned(".2f"),
        given=written("r_length", ".2f"),
    )
    crowded = len(order) > 22
    return [
        alt.Chart(inline(titles))
        .mark_text(
            align="left",
            baseline="middle",
            fontSize=theme.SMALL,
            limit=theme.either(narrow - 6, gutter - 8),
        )
        .encode(x=alt.XValue(0), y=y, text=alt.Text("title:N")),
        chosen.mark_rect()
        .encode(
            x=x,
            y=y,
            fill=alt.Fill("r:Q", scale=colour, legend=None),
            tooltip=tips(
                {
                    "one": "head",
                    "two": "other",
                    "value": "r",
                    "interval": "95% interval",
                    "given": "given length",
                }
            ),
        )
        .properties(name="cells"),
        chosen.mark_text(
            baseline="middle",
            fontSize=theme.SMALL - 1,
            tooltip=None,
        )
        .encode(
            x=x,
            y=y,
            text=alt.Text("short:N"),
            opacity=alt.condition(
                "isValid(datum.r)",
                alt.value(theme.either(0, 0 if crowded else 1)),
                alt.value(1),
            ),
            fill=alt.condition(
                "isValid(datum.r)",
                alt.value(theme.on_association("datum.r")),
                alt.value(theme.ink("text")),
            ),
        )
        .properties(name="numbers"),  # the site draws no halo around these
    ]


def _matrix_in_words(pairs: pd.DataFrame, heads: list[str]) -> str:
    sentences = []
    for kind in KINDS:
        table = pairs[(pairs["kind"] == kind) & pairs["r"].notna()]
        strongest = table.loc[table["r"].abs().sort_values(ascending=False, kind="stable").index]
        strong = [
            f"{plain(row.head)} and {plain(row.other)} {row.r:z.2f}"
            for row in strongest.head(SHOWN // len(KINDS)).itertuples()
        ]
        average = f"mean size {table['r'].abs().mean():.2f}, " if len(table) else ""
        sentences.append(f"{KIND_NAMES[kind]}: {average}{'; '.join(strong) or 'no number'}")
    return f"Correlations of {len(heads)} heads, the largest of each kind. {'. '.join(sentences)}."


def scree(table: pd.DataFrame) -> Chart:
    """Eigenvalues with the threshold of unrelated heads; a menu chooses the kind.

    ``table`` is as ``stats.factors`` returns it.
    """
    if table.empty:
        return nothing("Fewer than two heads vary: there are no factors.", table, "factors")
    require(table, FACTOR_COLUMNS, "factors")
    kinds = list(dict.fromkeys(table["kind"]))
    drawn = table.assign(
        kind=table["kind"].map(kinds.index),
        found=np.where(table["kept"], "a factor", "not told from chance"),
    )
    drawn = drawn[["kind", "component", "eigenvalue", "threshold", "found"]].round(4)
    largest = int(drawn["component"].max())
    base = alt.Chart(inline(drawn)).transform_filter("datum.kind === kind")
    top = math.ceil(float(drawn[["eigenvalue", "threshold"]].max().max()))
    x = alt.X(
        "component:Q",
        scale=alt.Scale(domain=[0.5, largest + 0.5], nice=False, zero=False),
        axis=alt.Axis(
            values=list(range(1, largest + 1)),
            format="d",
            grid=False,
            labelOverlap=True,
            title="component",
        ),
    )
    y_axis = alt.Axis(title="eigenvalue (1: what one unrelated head has)", tickCount=5)
    y = alt.Y("eigenvalue:Q", scale=alt.Scale(domain=[0, top]), axis=y_axis)
    names = ["a factor", "not told from chance"]
    fill = alt.Scale(domain=names, range=[theme.ink("better"), theme.ink("background")])
    stroke = alt.Scale(domain=names, range=[theme.ink("better"), theme.ink("baseline")])
    legend = alt.Legend(title=None, orient="top", direction="horizontal")
    layers = [
        base.mark_line(strokeDash=[4, 3], stroke=theme.ink("muted"), strokeWidth=1.5).encode(
            x=x, y=alt.Y("threshold:Q")
        ),
        base.mark_line(stroke=theme.ink("baseline"), strokeWidth=1).encode(x=x, y=y),
        base.mark_point(size=64, strokeWidth=2, opacity=1)
        .encode(
            x=x,
            y=y,
            fill=alt.Fill("found:N", scale=fill, legend=legend),
            stroke=alt.Stroke("found:N", scale=stroke, legend=legend),
            tooltip=tips(
                {
                    "component:Q": "",
                    "eigenvalue": ("", ".2f"),
                    "threshold": ("", ".2f"),
                    "found": "is",
                }
            ),
        )
        .properties(name="points"),
    ]
    chart = frame(layer(*layers), kinds_menu(kinds), height=240)
    sentences = []
    for kind in kinds:
        rows = table[table["kind"] == kind]
        values = ", ".join(
            f"{row.eigenvalue:z.2f} ({row.threshold:.2f})" for row in rows.head(6).itertuples()
        )
        sentences.append(f"{KIND_NAMES[kind]}: factors found {int(rows['kept'].sum())}; {values}")
    return Chart(
        chart,
        alternative="Eigenvalues of the heads' correlations, with the threshold that unrelated "
        f"heads reach in brackets. {'. '.join(sentences)}.",
        data=table,
        name="factors",
        caption="Eigenvalues of the heads' correlations. Dashed: the 95th percentile when whole "
        "items are permuted, head by head.",
        height=330,
    )
