"""Every chart stands in one frame, whatever it draws."""

from __future__ import annotations

import html
import re

import altair as alt
import numpy as np
import pandas as pd
import pytest
from altair.utils.schemapi import SchemaValidationError

from lib import charts, stats
from lib.analyses.data import charts as data_charts
from lib.analyses.disentanglement import charts as matrices
from lib.analyses.disentanglement import stats as correlations
from lib.analyses.disentanglement import worlds as blocks
from lib.analyses.geometry import charts as geometry_charts
from lib.analyses.geometry import stats as geometry
from lib.analyses.geometry import worlds as heads
from lib.analyses.model import charts as model_charts
from lib.calibration.charts import calibration
from lib.charts import theme
from lib.charts.intervals import intervals
from lib.charts.render import Chart, frame, inline, spanned, tips, written
from lib.charts.rows import turn, won
from lib.planted.checks import check
from lib.planted.worlds import validity_world


def _forest():
    run = validity_world()
    return charts.validity(stats.validity(run), stats.baselines(run))


def _intervals():
    rows = pd.DataFrame({"name": ["a"], "group": "all", "value": 0.5, "low": 0.4, "high": 0.6})
    given = {"title": "t", "reference": 0.5, "name": "n", "caption": "c", "what": "w"}
    return intervals(rows.assign(note=""), data=rows, **given)


def _lengths():
    sides = {"side": ["better", "worse"], "low": 1.0, "high": 4.0, "share": 1.0}
    return data_charts.lengths(pd.DataFrame(sides))


def _dropped():
    return data_charts.dropped(pd.DataFrame({"step": ["read"], "reason": "", "items": [7]}))


def _matrix():
    run = blocks.blocks_world(pairs=50, blocks=2)
    return matrices.heatmap(
        correlations.disentanglement(run, draws=20), correlations.clusters(run, draws=10)
    )


def _scree():
    return matrices.scree(correlations.factors(blocks.blocks_world(pairs=50, blocks=2), draws=20))


def _gauges():
    world = heads.heads_world(pairs=50)
    return geometry_charts.gauges(geometry.gauges(world.run, world.weight, world.gain))


def _spectrum():
    world = heads.heads_world(pairs=50)
    return geometry_charts.spectrum(geometry.spectrum(world.run, world.weight, world.gain))


def _cosines():
    pairs = [("a", "a", 1.0), ("a", "b", 0.5), ("b", "a", 0.5), ("b", "b", 1.0)]
    return model_charts.cosines(pd.DataFrame(pairs, columns=["head", "other", "cosine"]))


def _calibration():
    row = check("seen", "w", "power", np.arange(200) < 190, at_least=0.8)
    return calibration(pd.DataFrame([{"analysis": "one"} | row]))


MADE = [_forest, _intervals, _lengths, _dropped, _matrix, _scree, _gauges, _spectrum, _cosines]
MADE += [_calibration]


def unnumbered(*drawings):
    """Without the numbers that ids have of all drawings of a process."""
    return [re.sub(r"\b(gradient_|clip)\d+", r"\1", drawing) for drawing in drawings]


@pytest.mark.parametrize("make", MADE, ids=lambda make: make.__name__[1:])
def test_a_chart_follows_the_page_and_says_what_it_shows(make):
    chart = make()
    assert chart.spec["width"] == "container"
    assert chart.spec["autosize"] == {"type": "fit-x", "contains": "padding"}
    assert [p["name"] for p in chart.spec["params"]][:2] == ["dark", "narrow"]
    assert chart.alternative.strip().endswith(".") and chart.caption and chart.name
    assert len(chart.data)
    drawings = chart.svg_of_both(720)
    for drawing in (*drawings, *chart.svg_of_both(390)):
        assert "NaN" not in drawing and "undefined" not in drawing.replace(">undefined<", "")
    assert unnumbered(*drawings) == unnumbered(chart.svg(720), chart.svg(720, dark=True))


@pytest.mark.parametrize(
    "name", ["both:#0a3a82:#b5d9ff", "'both:#0a3a82:#b5d9ff'\"}", "dark ? '#0a3a82' : '#b5d9ff'"]
)
def test_names_that_look_like_colours_of_both_modes_are_drawn_as_they_are(name):
    drawing = alt.Chart(inline(pd.DataFrame({"row": [0], "name": [name]})))
    drawing = drawing.mark_text(fill=theme.ink("text")).encode(y="row:O", text="name:N")
    chart = Chart(frame(drawing, height=40), alternative="", data=pd.DataFrame(), name="n")
    assert chart.svg_of_both() == (chart.svg(), chart.svg(dark=True))
    assert name in html.unescape(chart.svg_of_both()[0])


def test_a_frame_has_another_height_on_a_phone_only_where_one_is_given():
    def spec(**heights):
        drawing = alt.Chart(inline(pd.DataFrame({"row": [0]}))).mark_point()
        return frame(drawing, **heights).to_dict()

    assert "usermeta" not in spec(height=20)
    assert spec(height=20, narrow=30)["usermeta"] == {"narrow": {"height": 30}}


def test_expressions_give_a_dash_for_no_number():
    table = pd.DataFrame(
        {"row": [0, 1], "rate": [0.5, None], "low": [0.4, None], "high": [0.6, None]}
    )
    drawing = (
        alt.Chart(inline(table))
        .transform_calculate(words=written("rate", ".2f", before="±"), ends=spanned(".1f"))
        .transform_calculate(both="datum.words + ' in ' + datum.ends")
        .mark_text()
        .encode(y="row:O", text="both:N")
    )
    figure = charts.Chart(frame(drawing, height=40), alternative="", data=table, name="n").svg()
    assert ">±0.50 in 0.4 to 0.6<" in figure and ">– in –<" in figure


def test_a_tip_is_a_name_a_title_or_a_formatted_number():
    shown = [tip.to_dict() for tip in tips({"name": "", "n:Q": "pairs", "r": ("value", ".2f")})]
    assert shown == [
        {"field": "name", "type": "nominal"},
        {"field": "n", "title": "pairs", "type": "quantitative"},
        {"field": "r", "title": "value", "format": ".2f", "type": "quantitative"},
    ]


@pytest.mark.parametrize(("count", "last"), [(60, None), (61, [0, 1]), (81, [0, 1, 2])])
def test_more_rows_than_fit_are_turned(count, last):
    rows, menus, test = turn(pd.DataFrame({"row": range(count)}), count, "Rows")
    if last is None:
        assert (len(menus), test) == (0, "true") and rows["row"].max() == count - 1
    else:
        assert sorted(rows["page"].unique()) == last and rows["row"].max() == 39


@pytest.mark.parametrize("wrong", [{"shape": 7}, {"fontSize": "large"}, {"invalid": "guess"}])
def test_what_the_schema_does_not_know_is_refused_when_the_chart_is_rendered(wrong):
    mark = alt.Chart(pd.DataFrame({"x": [1]})).mark_text(**wrong).encode(x="x:Q")
    drawing = frame(alt.layer(mark), height=20)
    given = {"alternative": "a", "data": pd.DataFrame(), "name": "n"}
    with pytest.raises(SchemaValidationError):
        Chart(drawing, **given)


@pytest.mark.parametrize(
    ("shares", "ends"), [([0.2, 0.8], (0.2, 0.8)), ([0.5, np.nan], (0.2, 0.8)), ([0.81], (0, 1))]
)
def test_axes_of_shares_won_have_one_of_two_ends(shares, ends):
    assert won(pd.Series([0.4]), pd.Series(shares)) == ends
