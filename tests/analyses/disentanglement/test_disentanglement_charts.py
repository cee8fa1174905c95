"""The matrix and the scree draw the tables they are given, whatever the names hold."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest

from lib.analyses.disentanglement import charts, stats, worlds
from lib.errors import DataError
from lib.planted.worlds import make_run

HOSTILE = ["<script>window.hacked=1</script>", "datum['x'].constructor", "a\nb\x1b[31m", "x" * 999]


def heatmap_of(run):
    return charts.heatmap(stats.disentanglement(run, draws=20), stats.clusters(run, draws=10))


def drawn(chart, mark: str, width: int = 720) -> list[ET.Element]:
    root = ET.fromstring(chart.svg(width))
    groups = [e for e in root.iter() if e.get("class", "").startswith(f"mark-{mark} ")]
    return [e for group in groups for e in group if e.tag.rpartition("}")[2] in ("path", "text")]


def test_every_two_heads_have_two_cells_and_a_constant_one_has_dashes():
    chart = heatmap_of(worlds.copies_world())
    assert len(drawn(chart, "rect")) == 5 * 4  # none for the constant one
    texts = [e.text for e in drawn(chart, "text")]
    assert texts.count("–") == 2 * 5
    assert texts.count("1.0") == 2 and texts.count("−1.0") == 4


def test_heads_of_a_cluster_stand_side_by_side():
    chart = heatmap_of(worlds.blocks_world(pairs=200, blocks=3, heads=2))
    names = [e.text for e in drawn(chart, "text") if "block" in (e.text or "")]
    blocks = [name.split(" head")[0].split("block")[1] for name in names]
    assert len(names) == 6
    assert blocks[0] == blocks[1] and blocks[2] == blocks[3] and blocks[4] == blocks[5]


def test_a_menu_chooses_the_level():
    (menu,) = [p for p in heatmap_of(worlds.levels_world(pairs=50)).spec["params"] if "bind" in p]
    assert menu["bind"]["labels"] == ["pooled", "between items", "within items"]


def test_the_words_say_what_the_picture_shows():
    words = heatmap_of(worlds.copies_world()).alternative
    assert "original and copy 1.00" in words and "original and opposite -1.00" in words


@pytest.mark.parametrize("width", [340, 720])
def test_hostile_names_stay_text_at_every_width(width):
    score = np.random.default_rng(0).standard_normal((60, len(HOSTILE)))
    chart = heatmap_of(make_run(score, heads=HOSTILE))
    assert {e.tag.rpartition("}")[2] for e in ET.fromstring(chart.svg(width)).iter()} <= {
        "svg", "g", "path", "text", "rect", "defs", "clipPath",
    }  # fmt: skip
    assert "<script>window.hacked" not in chart.html()
    assert "\x1b" not in chart.html() and len(chart.html()) < 60_000


def test_names_fit_a_phone():
    names = [f"a rather long name of a head, number {k}" for k in range(19)]
    score = np.random.default_rng(1).standard_normal((80, 19))
    chart = heatmap_of(make_run(score, heads=names))
    root = ET.fromstring(chart.svg(340))
    assert float(root.get("width")) <= 345
    assert len(chart.html()) < 160_000


def test_the_scree_fills_what_is_a_factor():
    table = stats.factors(worlds.blocks_world(pairs=200, blocks=2), draws=50)
    chart = charts.scree(table)
    assert len(drawn(chart, "symbol")) >= 6
    assert "factors found 2" in chart.alternative


def test_one_head_is_told_in_words():
    run = make_run(np.random.default_rng(2).standard_normal((20, 1)))
    assert "nothing to correlate" in heatmap_of(run).alternative
    assert "no factors" in charts.scree(stats.factors(run)).alternative


def test_a_table_of_something_else_is_refused():
    run = worlds.levels_world(pairs=20)
    with pytest.raises(DataError, match="'kind'"):
        charts.heatmap(stats.disentanglement_as_published(run), stats.clusters(run, draws=5))
