"""Verdicts and rates of published claims are drawn at both widths, named, and refused if odd."""

import xml.etree.ElementTree as ET

import pandas as pd
import pytest

from lib.errors import DataError
from lib.summary.published import charts, stats, words


def texts(chart, width: int = 720) -> list[str]:
    root = ET.fromstring(chart.svg(width))
    return [e.text for e in root.iter() if e.tag.endswith("text") and e.text]


@pytest.fixture
def counts():
    rows = [
        ("one", "", [1, 2, 3, 4]),
        ("two", "names", [0, 11, 0, 5]),
        ("<b>", "", [7, 0, 0, 0]),
    ]
    return pd.DataFrame(
        [
            {"system": system, "part": part, "verdict": verdict, "claims": n}
            for system, part, many in rows
            for verdict, n in zip(words.VERDICTS.values(), many, strict=True)
        ]
    )


@pytest.mark.parametrize("width", [340, 720])
def test_every_system_and_count_is_written(counts, width):
    chart = charts.verdicts(counts)
    shown = texts(chart, width)
    assert {"one", "two: names", "<b>", "11", "7", *words.VERDICTS.values()} <= set(shown)
    assert "0" not in shown
    assert "two: names: 11 fails, 5 can't be told" in chart.alternative


def test_names_stand_on_rows_of_their_own(counts):
    root = ET.fromstring(charts.verdicts(counts).svg())
    places = {
        e.text: e.get("transform")
        for e in root.iter()
        if e.tag.endswith("text") and e.text in ("one", "two: names", "<b>")
    }
    assert len(set(places.values())) == 3


def test_an_unknown_verdict_is_refused(counts):
    with pytest.raises(DataError, match="'strong'"):
        charts.verdicts(counts.assign(verdict="strong"))
    with pytest.raises(DataError, match="'claims'"):
        charts.verdicts(counts.drop(columns="claims"))


def test_rates_carry_both_names_where_they_differ(figures):
    rates = stats.rates(figures)
    chart = charts.accuracy(rates[rates["subset"] == "hh-rlhf"])
    shown = texts(chart)
    assert {"readability → is_safe", "depth → prometheus-score", "helpsteer-coherence"} <= set(
        shown
    )
    assert "hh-rlhf" in chart.caption and "against these labels" in shown


def test_shares_are_drawn_with_their_heads(figures):
    chart = charts.shares(stats.probe_shares(figures), figures["audit"]["pca"]["variance"])
    assert {"code-explanation", "0.943", "prometheus-score", "0.462"} <= set(texts(chart))


def test_heads_that_cross_are_drawn_on_both_parts_and_their_absence_is_said(part):
    runs = [part(stats.PARTS[0], 1.0, 0.0), part(stats.PARTS[1], -1.0, 0.0)]
    shown = texts(charts.crossover(stats.crossover(runs)))
    assert {"harm on harmless-base", "harm on helpful-base"} <= set(shown)
    assert "help on harmless-base" not in shown
    assert charts.ABSENT in charts.crossover(stats.crossover([])).alternative
