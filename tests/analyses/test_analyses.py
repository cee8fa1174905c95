"""Charts of separability, gating and the model draw every row, and survive what has no number."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET

import numpy as np
import pandas as pd
import pytest

from lib.analyses.gating import charts, stats
from lib.analyses.gating.worlds import gating_world
from lib.analyses.model import charts as model_charts
from lib.analyses.model import stats as weights
from lib.analyses.separability import charts as separability_charts
from lib.analyses.separability import stats as separability
from lib.analyses.separability import words as separability_words
from lib.analyses.separability.worlds import separability_world
from lib.charts.intervals import intervals
from lib.errors import DataError
from lib.planted.worlds import make_run

HOSTILE = ["</script><script>window.hacked=1</script>", "it's \\ 'quoted'", "\u202eleft\x1b[31m"]


def words(chart, **options) -> list[str]:
    svg = ET.fromstring(chart.svg(**options))
    return ["".join(text.itertext()) for text in svg.iter("{http://www.w3.org/2000/svg}text")]


def drawn(chart, starts: str) -> pd.DataFrame:
    (text,) = [t for t in chart.spec["datasets"].values() if str(t).startswith(starts)]
    return pd.read_csv(io.StringIO(text), keep_default_na=False, na_values=[""])


@pytest.fixture(scope="module")
def losses():
    return separability.readout(separability_world("not read out", pairs=300), repeats=1)


def test_a_readout_loss_stands_with_its_number_and_interval(losses):
    chart = separability_charts.readout(losses)
    row = losses.iloc[0]
    assert "helpfulness → claims" in words(chart)
    assert f"{row['loss']:.3f}" in words(chart)
    assert f"{row['loss']:.3f} [{row['low']:.3f}, {row['high']:.3f}]" in chart.alternative
    assert drawn(chart, "row,group")["tone"].tolist() == ["worse"]


def test_a_loss_that_is_shown_though_not_measurable_is_drawn_as_a_lower_bound(losses):
    bound = losses.assign(verdict="not measurable", probe_p=0.01, p_adjusted=0.01)
    chart = separability_charts.readout(separability_words.told(bound))
    assert "helpfulness → claims, at least" in words(chart)
    assert drawn(chart, "row,group")["tone"].tolist() == ["worse"]
    chart = separability_charts.readout(separability_words.told(bound.assign(probe_p=0.2)))
    assert "helpfulness → claims" in words(chart)
    assert drawn(chart, "row,group")["tone"].tolist() == ["baseline"]


def test_length_alone_has_no_interval_in_a_figure_of_probes():
    run = separability_world("not read out", pairs=60, features=10)
    table = separability.probes(run, flips=4, repeats=1)
    chart = separability_charts.probes(table)
    assert re.search(rf"length alone {table['length'].iloc[0]:.3f}[.;]", chart.alternative)
    assert words(chart)


def test_a_concept_without_a_number_is_drawn_with_its_reason():
    run = make_run(np.zeros((6, 1)), criterion=["taste"] * 3)
    for chart in (
        separability_charts.probes(separability.probes(run)),
        separability_charts.readout(separability.readout(run)),
    ):
        assert "the states do not differ between responses" in words(chart)
        assert "taste: the states do not differ between responses" in chart.alternative
    published = separability.separability_as_published(run)
    chart = separability_charts.published(published, separability.ceiling(run))
    assert "No probe could be fitted: the states do not vary." in chart.alternative
    assert words(chart)


def test_published_probes_are_drawn_against_what_predicts_them():
    run = separability_world("absent", pairs=200, features=30)
    probe, share = separability.separability_as_published(run), separability.ceiling(run)
    chart = separability_charts.published(probe, share)
    points = drawn(chart, "head,components")
    assert len(points) == len(probe)
    assert points["accuracy"].tolist() == pytest.approx(probe["accuracy"].tolist(), abs=1e-5)
    off = (probe["accuracy"] - share["predicted"]).abs().max()
    told = float(re.search(r"([\d.]+) at most", chart.alternative).group(1))
    assert told == pytest.approx(off, abs=6e-4)


def test_coefficients_and_rules_have_a_menu_of_subsets():
    run = gating_world(pairs=100)
    coefficients = charts.coefficients(stats.coefficients(run))
    rules = charts.rules(stats.rules(run))
    for chart in (coefficients, rules):
        (menu,) = [p for p in chart.spec["params"] if p["name"] == "group"]
        assert menu["bind"]["labels"] == ["all", "one", "two"]
    assert drawn(coefficients, "row,group")["tone"].tolist() == ["better", "better", "worse"] * 3
    assert set(stats.RULES) <= set(words(rules))


def test_a_model_without_a_gate_is_drawn_as_such():
    run = make_run(np.zeros((20, 2)))
    for chart in (
        charts.coefficients(stats.coefficients(run)),
        charts.rules(stats.rules(run)),
    ):
        assert stats.NO_GATE in words(chart)
        assert stats.NO_GATE in chart.alternative


def test_cosines_name_their_heads_and_the_largest_pairs():
    matrix = np.asarray([[1.0, 0.0], [0.6, 0.8], [0.0, 0.0]])
    chart = model_charts.cosines(weights.cosines(matrix, ["one", "two", "none"]))
    found = words(chart)
    assert found.count("one") == found.count("two") == found.count("none") == 2
    assert "one and two 0.60" in chart.alternative
    assert "none and" not in chart.alternative
    alone = model_charts.cosines(weights.cosines(matrix[:1], ["one"]))
    assert "no pair to compare" in alone.alternative
    assert words(alone, width=360, dark=True)


def test_hostile_names_stay_text():
    table = weights.cosines(np.eye(3), HOSTILE)
    chart = model_charts.cosines(table)
    assert "</script><script>" not in chart.html().replace("</figure><script>", "")
    assert HOSTILE[1] in words(chart), "quotes and backslashes don't leave their text"
    assert "[U+202E]left␛[31m" in words(chart)


def test_card_scores_are_drawn_or_missed_in_words():
    entry = {"value": 0.7, "low": 0.6, "high": 0.8, "rows": 5}
    card = {"heads": [{"name": "kind", "score": "accuracy", "held_out": entry}]}
    chart = model_charts.scores(weights.scores(card))
    assert {"kind (accuracy)", "0.700"} <= set(words(chart))
    assert weights.NO_CARD in words(model_charts.scores(weights.scores({})))


def test_the_axis_holds_everything_and_the_reference():
    rows = pd.DataFrame(
        {
            "name": ["a", "b"],
            "group": "all",
            "value": [2.0, np.nan],
            "low": [-1.0, np.nan],
            "high": [3.0, np.inf],
            "note": ["", "nothing"],
        }
    )
    options = {"title": "x", "reference": 0.0, "data": rows, "name": "x", "caption": ""}
    chart = intervals(rows, what="Things", **options)
    rule = chart.spec["layer"][0]["encoding"]["x"]
    assert rule["scale"]["domain"] == [-1, 3]
    assert chart.alternative == "Things on all: a 2.000 [-1.000, 3.000]; b: nothing."


@pytest.mark.parametrize(
    "draw",
    [
        separability_charts.probes,
        separability_charts.readout,
        charts.coefficients,
        charts.rules,
        model_charts.cosines,
        model_charts.scores,
    ],
)
def test_a_table_of_something_else_is_an_error(draw):
    with pytest.raises(DataError, match="column"):
        draw(pd.DataFrame({"other": [1]}))


def test_cosines_that_are_not_square_are_an_error():
    table = weights.cosines(np.eye(2), ["a", "b"]).iloc[:3]
    with pytest.raises(DataError, match="heads × heads"):
        model_charts.cosines(table)


def test_the_longer_response_is_a_grey_rule_beside_the_gate():
    run = gating_world(pairs=60)
    table = stats.with_length(run, stats.rules(run))
    found = drawn(charts.rules(table), "row,group")
    assert found[found["name"] == "longer response"]["tone"].tolist() == ["baseline"] * 3
