"""The calibration page tells what fails first, with its numbers, and hides nothing."""

from __future__ import annotations

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


def test_failures_are_counted_and_told_with_side_and_numbers(table):
    told = words.takeaways(table)
    assert told[0] == (
        "Of 3 checks of 1 analyses, none are shown to meet their target, 1 is undecided with so "
        "many worlds, 2 fail."
    )
    low, high = table.loc[1, ["low99", "high99"]]
    assert told[1] == (
        "Fails, above its target of at most 6%: validity, “wrong” is said where it is false in "
        f"30.0% [{low:.1%}, {high:.1%}] of worlds (world of wrong)."
    )
    assert told[2].startswith("Fails, below its target of at least 80%: validity, “weak” is said")


def test_published_forms_are_told_and_count_as_no_failure_of_ours(table):
    told = words.takeaways(table)
    assert any("As published: “naive”" in line and "no correction" in line for line in told)
    assert words.glued(table)["failing"] == "2"


def test_the_highest_false_rate_and_the_fewest_worlds_are_told(table):
    told = " ".join(words.takeaways(table))
    assert "highest false-positive rate of any claim is 30.0%" in told
    assert "Checks rest on 100 to 400 planted worlds" in told


def test_when_nothing_fails_it_says_none():
    told = words.takeaways(rows(row("right", 4, 10_000)))[0]
    assert told.endswith(
        "1 is shown to meet its target, none are undecided with so many worlds, none fail."
    )


def test_glued_values_are_of_our_forms(table):
    assert words.glued(table) == {
        "checks": "3",
        "shown": "0",
        "undecided": "1",
        "failing": "2",
        "validity-false": "30.0%",
        "draws": "400",
    }


def test_when_and_by_what_worlds_were_drawn_is_said():
    origin = pd.DataFrame(
        {"made": ["2026-01-02", "2026-01-05"], "seconds": [10.0, 2.5], "versions": ["a 1", "a 1"]}
    )
    said = words.made(origin)
    assert "from 2026-01-02 to 2026-01-05, in 12 s, with a 1." in said
    assert "on 2026-01-02," in words.made(origin.iloc[:1])
