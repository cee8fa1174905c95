"""The gauge comparison and the spectral form draw their tables, with or without weights."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from lib.analyses.geometry import charts, stats, worlds
from lib.errors import DataError


@pytest.fixture(scope="module")
def world():
    return worlds.heads_world(pairs=100, regauged=True)


def texts(chart, width: int = 720) -> list[str]:
    root = ET.fromstring(chart.svg(width))
    return [e.text for e in root.iter() if e.tag.endswith("text") and e.text]


@pytest.mark.parametrize("width", [340, 720])
def test_each_gauge_is_named_with_its_reading(world, width):
    chart = charts.gauges(stats.gauges(world.run, world.weight, world.gain))
    shown = texts(chart, width)
    assert {"post-norm", "gain folded", "whitened"} <= set(shown)
    assert {"backbone", "heads", "heads by construction"} <= set(shown)
    assert "post-norm: heads alone 0.00" in chart.alternative


def test_without_weights_the_whitened_gauge_is_drawn_and_the_rest_has_a_reason(world):
    chart = charts.gauges(stats.gauges(world.run, None))
    assert "no number" in chart.alternative and stats.NO_WEIGHTS in chart.alternative
    assert "whitened" in texts(chart)


def test_the_spectral_form_draws_the_strongest_pairs(world):
    table = stats.spectrum(world.run, world.weight, world.gain)
    chart = charts.spectrum(table)
    pooled = table[(table["kind"] == "pooled") & (table["gauge"] == "post-norm")]
    last = pooled.groupby(["head", "other"])["r"].last()
    head, other = last.abs().idxmax()
    assert f"1. {head} and {other}" in texts(chart)
    assert f"{last[head, other]:.2f} in all" in chart.alternative
    assert len(chart.data) == len(table) * 6 / 28  # 6 of the 28 pairs of 8 heads


def test_nothing_to_draw_is_told_in_words(world):
    assert "nothing to draw" in charts.spectrum(stats.spectrum(world.run, None)).alternative
    world.run["hidden"].values[2:] = float("nan")
    gauges = charts.gauges(stats.gauges(world.run, world.weight))
    assert stats.NO_STATES in gauges.alternative


def test_a_table_of_something_else_is_refused(world):
    with pytest.raises(DataError, match="'rms_heads'"):
        charts.gauges(stats.identity(world.run, world.weight).assign(gauge="", rms_r=0.0))
