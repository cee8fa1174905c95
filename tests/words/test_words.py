"""Counts agree with their nouns, and a list says how much of it was left out."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from lib import words


def test_a_noun_follows_its_number():
    assert [words.count(n, "head") for n in (0, 1, 2)] == ["0 heads", "1 head", "2 heads"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("", []),
        ("ab", ["a", "b"]),
        ("abc", ["a", "b", "c"]),  # one more is told, not counted
        ("abcd", ["a", "b", "2 further."]),
    ],
)
def test_sentences_left_out_are_counted(given, told):
    assert words.first(list(given), 2, "further.") == told


def test_names_left_out_are_counted():
    assert words.listed(["a"], 2) == "a"
    assert words.listed(["a", "b", "c"], 2) == "a, b, c"
    assert words.listed(["a", "b", "c", "d"], 2, "; ") == "a; b and 2 more"


def test_each_reason_is_told_once():
    assert words.reasons(pd.Series(["x", "", "y", "x", np.nan])) == "x; y"
    assert words.reasons(pd.Series(["", None])) == "no numbers"


def test_a_size_beyond_one_half_is_no_departure_that_can_be():
    told = words.departures(pd.Series([0.2, 0.31, 1.3, float("nan")]))
    assert told == (
        "a win rate 0.200 to 0.310 away from one half would be found with power .8, none by 2 of "
        "them"
    )
    none = "no win rate would be told from one half with power .8"
    assert words.departures(pd.Series([0.6, float("nan")])) == none


def test_what_would_have_been_found_or_that_nothing_would():
    assert words.found(0.1664) == "0.166 would have been found"
    assert words.found(np.nan) == "none that can occur would have been found"
    assert words.found(0.2, "a loss of {:.2f}") == "a loss of 0.20 would have been found"
    assert words.found(np.nan, "a loss of {:.2f}", "no loss") == "no loss would have been found"
