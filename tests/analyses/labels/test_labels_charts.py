"""Heat maps of win rates show the tables' own numbers, in both modes and on a phone."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET

import numpy as np
import pandas as pd
import pytest

from lib.analyses.labels.charts import labels
from lib.analyses.labels.stats import label_matrix
from lib.analyses.labels.worlds import label_world
from lib.analyses.protocols.charts import protocols
from lib.analyses.protocols.stats import protocol_matrix
from lib.analyses.protocols.worlds import protocol_world
from lib.charts import theme
from lib.charts.heatmap import HEAT
from lib.errors import DataError

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def matrix():
    return label_matrix(label_world("swap", concepts=3, pairs=30))


@pytest.fixture(scope="module")
def cells():
    return protocol_matrix(protocol_world("interaction", heads=3, protocols=4, prompts=37))


def words(svg: str) -> list[str]:
    return [text.text for text in ET.fromstring(svg).iter(f"{SVG}text")]


def short(rate: float) -> str:
    return "1" if rate >= 0.995 else f"{rate:.2f}"[1:]


@pytest.mark.parametrize("width", [720, 340])
@pytest.mark.parametrize("dark", [False, True])
def test_every_cell_shows_its_number_in_every_place(matrix, cells, width, dark):
    for table, chart in ((matrix, labels(matrix)), (cells, protocols(cells))):
        found = words(chart.svg(width, dark))
        for rate in table["win_rate"]:
            assert short(rate) in found
        assert len([w for w in found if re.fullmatch(r"\.\d\d|1", w)]) == len(table)
        for head in table["head"].unique():
            assert found.count(head) == 1


def test_nothing_leaves_the_drawing_on_a_phone(matrix):
    svg = labels(matrix).svg(340)
    root = ET.fromstring(svg)
    assert float(root.get("width")) <= 342
    starts = [float(m) for m in re.findall(r"translate\((-?[\d.]+),", svg) if m]
    assert min(starts) >= -1 and max(starts) <= 341


def test_each_column_has_its_name_above_it(matrix):
    svg = labels(matrix).svg()
    at = {
        name: float(x)
        for x, name in re.findall(r"translate\(([\d.]+),[^>]*rotate[^>]*>([^<]+)<", svg)
    }
    assert list(dict(sorted(at.items(), key=lambda item: item[1]))) == [
        "safety",
        "helpfulness",
        "correctness",
    ]
    assert min(np.diff(sorted(at.values()))) > 100


def test_the_claimed_cells_are_outlined_and_no_others(matrix):
    svg = labels(matrix).svg()
    outlined = re.findall(rf'stroke="{theme.INKS["text"][0]}" stroke-width="2"', svg)
    assert len(outlined) == 3
    assert not re.search(r'stroke-width="2"', protocols(_protocol_cells()).svg())


def _protocol_cells():
    return protocol_matrix(protocol_world("zero", heads=2, protocols=2, prompts=20))


def luminance(colour: str) -> float:
    c = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
def test_numbers_can_be_read_on_every_colour(mode):
    text = luminance(theme.INKS["text"][mode])
    for pair in HEAT:
        dark, light = sorted((text, luminance(pair[mode])))
        assert (light + 0.05) / (dark + 0.05) >= 4.5


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
def test_above_and_below_one_half_differ_in_blue_which_red_green_blindness_keeps(mode):
    low, _, high = (pair[mode] for pair in HEAT)
    assert int(high[5:], 16) - int(low[5:], 16) > 60


def test_alternative_text_tells_claims_and_ranges(matrix, cells):
    text = labels(matrix).alternative
    row = matrix[(matrix["head"] == "planted-safety") & matrix["claimed"]].iloc[0]
    assert f"planted-safety: claims safety and wins {row['win_rate']:.2f} [" in text
    assert "highest on helpfulness" in text
    assert protocols(cells).alternative.startswith("Win rates by head and protocol, 3 by 4. ")


def test_a_head_without_numbers_gets_dashes_and_its_reason(matrix):
    table = matrix.copy()
    lost = table["head"] == "planted-safety"
    table.loc[lost, ["win_rate", "low", "high"]] = np.nan
    table.loc[lost, "note"] = "scores that are not numbers"
    chart = labels(table)
    assert words(chart.svg()).count("–") == 3
    assert "NaN" not in chart.svg()
    assert "planted-safety: scores that are not numbers" in chart.alternative


def test_hostile_names_stay_text_and_equal_beginnings_stay_apart(matrix):
    table = matrix.copy()
    evil = "</script><img src=x onerror=window.hacked=1>"
    table["head"] = table["head"].map(lambda name: evil + name)
    table["criterion"] = table["criterion"].map(lambda name: "x" * 200 + name)
    chart = labels(table)
    assert "<img" not in chart.html().replace("&lt;img", "")
    assert len(chart.spec["layer"]) > 3
    found = words(chart.svg())
    for rate in table["win_rate"]:
        assert short(rate) in found


def test_tables_that_can_not_be_drawn_are_refused(matrix, cells):
    with pytest.raises(DataError, match="claimed"):
        labels(matrix.drop(columns="claimed"))
    with pytest.raises(DataError, match="a row"):
        protocols(cells.iloc[:0])


# ---- The longer response, below the heads ----


@pytest.fixture(scope="module")
def length(cells):
    table = cells[cells["head"] == cells["head"].iloc[0]]
    rates = dict(zip(table["protocol"], [0.11, 0.22, 0.77, 0.88], strict=True))
    return table.assign(head="longer response", win_rate=table["protocol"].map(rates))


@pytest.mark.parametrize("width", [720, 340])
@pytest.mark.parametrize("dark", [False, True])
def test_length_has_numbers_below_the_heads_and_no_colour(cells, length, width, dark):
    svg, alone = protocols(cells, length).svg(width, dark), protocols(cells).svg(width, dark)
    assert {".11", ".22", ".77", ".88", "longer response"} <= set(words(svg))
    down = [float(y) for y in re.findall(r"translate\([\d.]+,([\d.]+)\)[^>]*>\.\d\d<", svg)]
    assert len(set(sorted(down)[-4:])) == 1 and sorted(down)[-5] < sorted(down)[-4]
    fills = [sorted(re.findall(r'fill="(#[0-9a-f]{6}|rgb[^"]*)"', each)) for each in (svg, alone)]
    assert set(fills[0]) - {theme.INKS["muted"][dark]} == set(fills[1]) - {
        theme.INKS["muted"][dark]
    }


def test_words_tell_length_after_the_heads(cells, length):
    chart = protocols(cells, length)
    assert chart.alternative.startswith("Win rates by head and protocol, 3 by 4. ")
    assert "; for comparison, the longer response wins 0.11 [" in chart.alternative
    assert chart.data["head"].tolist()[-4:] == ["longer response"] * 4
    assert "the longer response alone" in chart.caption
    assert "longer" not in protocols(cells).caption


def test_a_table_of_length_without_a_column_is_refused(cells, length):
    with pytest.raises(DataError, match="win_rate"):
        protocols(cells, length.drop(columns="win_rate"))


def test_protocols_stand_in_one_order_whatever_that_of_the_runs(cells):
    kinds = {"xstest": "structured", "hh-rlhf/b": "holistic", "llmbar": "structured"}
    own = cells[cells["protocol"] == cells["protocol"].iloc[0]]
    table = pd.concat([own.assign(protocol=name, kind=kind) for name, kind in kinds.items()])
    (text,) = protocols(table).spec["datasets"].values()
    drawn = pd.read_csv(io.StringIO(text))
    assert drawn.sort_values("column")["across"].unique().tolist() == [
        *("hh-rlhf/b", "llmbar", "xstest")
    ]
