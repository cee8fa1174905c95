"""The calibration page tells what fails first, with its numbers, and hides nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lib.calibration import words
from lib.planted.checks import check


def rows(*given):
    return pd.DataFrame([{"analysis": "validity"} | row for row in given])


def row(claim, hits, draws, measure="false-positive rate", **options):
    options = options or {"at_most": 0.06}
    return check(claim, f"world of {claim}", measure, np.arange(draws) < hits, **options)


@pytest.fixture
def table():
    return rows(
        row("right", 4, 100),
        row("wrong", 30, 100),
        row("weak", 20, 400, "power", at_least=0.8),
        row("naive", 90, 100, at_most=0.06, form="as published", note="no correction"),
    )


def test_when_nothing_fails_it_says_none():
    told = words.takeaways(rows(row("right", 4, 10_000)))[0]
    assert told == "Of 1 check of 1 analysis, 1 is shown to meet its target and none to miss it."
    assert words.failures(rows(row("right", 4, 10_000))).startswith("No check")


def test_rendering_of_the_page(table, assert_rendered):
    """One check is undecided, one fails above and one below its target, one is as published."""
    origin = {"made": ["2026-01-02", "2026-01-05"], "seconds": [10.0, 2.5], "versions": "a 1"}
    origin = pd.DataFrame(origin)
    assert_rendered(
        Path(__file__).with_name("sentences.txt"),
        words.takeaways(table),
        [words.made(origin), words.made(origin.head(1))],
        [words.answer(table), words.failures(table), words.false_rate(table)],
        words.glued(table),
    )
