"""What length alone wins is said with its table's numbers, and nothing where there is none."""

from __future__ import annotations

import numpy as np
import pandas as pd

from lib.analyses.gating import words as on_gating
from lib.analyses.protocols import words as on_protocols
from lib.summary.compare import words as on_compare
from lib.summary.compare.stats import SCORES
from lib.summary.scorecard import words as on_scorecard


def lengths(*rows) -> pd.DataFrame:
    """Dataset and what the longer response wins."""
    table = pd.DataFrame(rows, columns=["dataset", "win_rate"]).assign(subset="all")
    return table.assign(low=table["win_rate"] - 0.1, high=table["win_rate"] + 0.1)


BOTH = lengths(("xstest", 0.7), ("llmbar", 0.3), ("rm-bench", np.nan))


def test_the_least_and_the_most_are_told():
    told = on_scorecard.longer(pd.DataFrame({"head": ["a"], "from_length": [0.2]}), BOTH)
    assert told == [
        "The longer response alone wins 0.300 [0.200, 0.400] of llmbar and 0.700 [0.600, 0.800] of "
        "xstest, the least and the most: a head that reads nothing but length does so too."
    ]
    assert on_protocols.longer(BOTH.rename(columns={"dataset": "protocol"})) == told
    one = on_protocols.longer(BOTH.head(1).rename(columns={"dataset": "protocol"}))
    assert one == ["The longer response alone wins 0.700 [0.600, 0.800] of xstest."]


def test_one_rate_everywhere_names_no_data_set_twice():
    even = on_protocols.longer(
        lengths(("a", 1.0), ("b", 1.0)).rename(columns={"dataset": "protocol"})
    )
    assert even == ["The longer response alone wins 1.000 of each of 2 data sets."]


def test_a_gain_that_is_no_number_is_not_told():
    assert on_gating.longer(rules().assign(gain=np.nan)) == []


def test_a_model_beside_an_unknown_length_is_not_said_to_win_more():
    table = scores(("m", "a", 0.6, 0.5), ("n", "b", 0.4, np.nan))
    (told,) = on_compare.longer(table)
    assert told.endswith("where both are known; not so for 1 more.")


def test_the_head_nearest_to_length_is_named():
    card = pd.DataFrame({"head": ["a", "b", "c"], "from_length": [0.2, 0.05, np.nan]})
    assert on_scorecard.longer(card, BOTH)[1] == (
        "The head whose win rates stay nearest to its own is b: 0.050 away, the mean over protocols."
    )


def test_without_a_length_nothing_is_said():
    card = pd.DataFrame({"head": ["a", "b"], "from_length": [np.nan, np.nan]})
    assert on_scorecard.longer(card, BOTH.head(0)) == []
    assert on_scorecard.longer(card, BOTH.assign(subset="tone")) == []


def rules(note: str = "") -> pd.DataFrame:
    table = pd.DataFrame({"rule": ["gate", "longer response"], "win_rate": [0.6, 0.5]})
    table = table.assign(subset="all", low=table["win_rate"] - 0.1, high=table["win_rate"] + 0.1)
    return table.assign(gain=[np.nan, 0.1], gain_low=-0.05, gain_high=0.25, note=[note, ""])


def test_the_gate_stands_beside_length_without_a_test():
    assert on_gating.longer(rules()) == [
        "The longer response alone wins 0.500 [0.400, 0.600]; the gate gains +0.100 "
        "[-0.050, +0.250] on it, outside of the corrected family."
    ]
    assert on_gating.longer(rules("this model has no gate")) == []


def scores(*rows) -> pd.DataFrame:
    columns = ["model", "dataset", "win_rate", "longer"]
    return pd.DataFrame(rows, columns=columns).reindex(columns=list(SCORES))


def test_scores_that_win_no_more_than_length_are_named():
    table = scores(
        ("one", "xstest", 0.4, 0.7), ("two", "xstest", 0.7, 0.7), ("one", "llmbar", 0.6, 0.3)
    )
    assert on_compare.longer(table) == [
        "The longer response alone wins as much as the score of one on xstest (0.400, length "
        "0.700), two on xstest (0.700, length 0.700), or more."
    ]
    assert on_compare.longer(table.tail(1)) == [
        "Each model's score wins more than the longer response alone on each data set."
    ]
    assert (
        on_compare.longer(scores(("one", "xstest", np.nan, 0.7), ("two", "x", 0.5, np.nan))) == []
    )
