"""What length alone wins is said with its table's numbers, and nothing where there is none."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from lib.analyses.gating import words as on_gating
from lib.summary.compare import words as on_compare
from lib.summary.scorecard import words as on_scorecard
from lib.words import longer


def lengths(*rows) -> pd.DataFrame:
    """Dataset and what the longer response wins."""
    table = pd.DataFrame(rows, columns=["dataset", "win_rate"]).assign(subset="all")
    return table.assign(low=table["win_rate"] - 0.1, high=table["win_rate"] + 0.1)


BOTH = lengths(("xstest", 0.7), ("llmbar", 0.3), ("rm-bench", np.nan))


def test_one_data_set_or_one_rate_has_no_least_and_no_most():
    assert longer.extremes(BOTH.head(1)) == [
        "The longer response alone wins 0.700 [0.600, 0.800] of xstest."
    ]
    even = longer.extremes(lengths(("a", 1.0), ("b", 1.0)))
    assert even == ["The longer response alone wins 1.000 of each of 2 data sets."]


def test_a_rate_that_is_no_number_is_no_extreme():
    (text,) = longer.extremes(BOTH)
    assert text.index("llmbar") < text.index("xstest") and "rm-bench" not in text
    assert longer.extremes(BOTH.tail(1)) == []


def test_without_a_length_no_head_is_nearest_to_it():
    card = pd.DataFrame({"head": ["a", "b", "c"], "from_length": [0.2, 0.05, np.nan]})
    assert (
        "b has the win rates nearest to those of the longer response: 0.050 away"
        in on_scorecard.longer(card, BOTH)[1]
    )
    assert len(on_scorecard.longer(card.head(1), BOTH)) == 1
    assert on_scorecard.longer(card, BOTH.head(0)) == []
    assert on_scorecard.longer(card, BOTH.assign(subset="tone")) == []


@pytest.mark.parametrize(
    ("gain", "note", "sentences"),
    [(0.1, "", 1), (np.nan, "", 0), (0.1, "this model has no gate", 0)],
)
def test_the_gate_stands_beside_length_where_both_have_numbers(gain, note, sentences):
    table = pd.DataFrame({"rule": ["gate", "longer response"], "note": [note, ""]})
    table = table.assign(subset="all", win_rate=0.5, low=0.4, high=0.6, gain=gain)
    assert len(on_gating.longer(table.assign(gain_low=-0.05, gain_high=0.25))) == sentences


def test_scores_that_win_no_more_than_length_are_named():
    rows = [("one", "x", 0.4, 0.7), ("two", "x", 0.7, 0.7), ("one", "y", 0.6, 0.3)]
    rows.append(("two", "y", 0.4, np.nan))
    table = pd.DataFrame(rows, columns=["model", "dataset", "win_rate", "longer"])
    (text,) = on_compare.longer(table)
    assert "one on x (0.400, length 0.700), two on x (0.700, length 0.700), or more." in text
    assert on_compare.longer(table[2:3])[0].endswith("on each data set.")
    assert on_compare.longer(table[2:])[0].endswith("are known; not so for 1 more.")
    assert on_compare.longer(table[3:]) == []
