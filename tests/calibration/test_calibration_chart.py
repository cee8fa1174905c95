"""The calibration chart shows each claim's tightest world, with its target, on a phone too."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pandas as pd
import pytest

from lib.calibration.charts import calibration
from lib.errors import DataError
from lib.planted.checks import check

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def table():
    def row(analysis, claim, hits, **options):
        happened = np.arange(200) < hits
        return {"analysis": analysis} | check(claim, "<b>w</b>", "power", happened, **options)

    return pd.DataFrame(
        [
            row("one", "seen", 190, at_least=0.8),
            row("one", "seen", 170, at_least=0.8),
            row("one", "missed", 20, at_least=0.8),
            row("one", "old", 0, at_least=0.8, form="as published"),
            row("two", "elsewhere", 200, at_least=0.8),
        ]
    )


def words(svg):
    return [text.text for text in ET.fromstring(svg).iter(f"{SVG}text")]


@pytest.mark.parametrize(("width", "dark"), [(720, False), (340, True)])
def test_rates_and_verdicts_are_written_beside_their_claims(table, width, dark):
    found = words(calibration(table).svg(width, dark))
    for word in ("seen", "85.0%", "power, worst of 2 worlds", "10.0%", "fails: power"):
        assert word in found
    assert "as published: power" in found and "0.0%" in found
    assert "95.0%" not in found and "elsewhere" not in found
    assert {"1%", "50%", "99%"} <= set(found)


def test_the_words_tell_all_analyses_with_targets(table):
    chart = calibration(table)
    assert "seen: power, worst of 2 worlds 85.0% [" in chart.alternative
    assert "elsewhere: power 100.0% [97.4%, 100.0%], target at least 80%" in chart.alternative
    assert "A menu chooses among 2 analyses" in chart.alternative


def test_hostile_words_stay_words(table):
    shown = calibration(table.assign(claim="<img src=x>")).html()
    assert "&lt;img src=x&gt;" in shown and "<img" not in shown


def test_an_empty_table_or_one_without_a_column_is_an_error(table):
    with pytest.raises(DataError, match="none"):
        calibration(table.iloc[:0])
    with pytest.raises(DataError, match="'rate'"):
        calibration(table.drop(columns="rate"))
