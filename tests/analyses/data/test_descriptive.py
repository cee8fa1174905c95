"""What a run holds: the steps add up and lengths are those of the comparisons."""

from __future__ import annotations

import numpy as np
import pytest

from lib.analyses.data.stats import counts, length_summary, lengths
from lib.analyses.protocols.stats import sources
from lib.planted.worlds import make_run
from lib.run import IDENTICAL, TRAINED
from lib.stats import baselines

# Better and worse of four pairs, in tokens: longer, tie, shorter, longer.
TOKENS = [30, 10, 20, 20, 10, 40, 50, 5]


def run_of_tokens(tokens=TOKENS, **options):
    return make_run(np.zeros((len(tokens), 1)), tokens=tokens, **options)


def test_counts_go_from_what_was_read_to_what_was_scored():
    run = run_of_tokens()
    run.attrs["dropped"] = {"prompts differ": 5, "empty chosen response": 2, TRAINED: 9}
    assert counts(run).values.tolist() == [
        ["read", "", 20],
        ["dropped", "empty chosen response", 2],
        ["dropped", "prompts differ", 5],
        ["usable", "", 13],
        ["held back", TRAINED, 9],
        ["scored", "", 4],
    ]
    assert TRAINED in run.attrs["dropped"]  # the run itself is untouched


def test_comparisons_of_identical_tokens_are_no_items_that_were_left_out():
    run = run_of_tokens()
    run.attrs["dropped"] = {"ties": 3, IDENTICAL: 2}
    assert counts(run).values.tolist() == [
        ["read", "", 7],
        ["dropped", "ties", 3],
        ["usable", "", 4],
        ["scored", "", 4],
        ["not compared", IDENTICAL, 2],
    ]
    assert sources([run])["left_out"].tolist() == [3]


def test_counts_of_a_run_that_lost_nothing():
    assert counts(run_of_tokens()).values.tolist() == [
        ["read", "", 4],
        ["usable", "", 4],
        ["scored", "", 4],
    ]


def test_shares_of_each_side_add_to_one_over_bins_that_hold_every_length():
    tokens = np.random.default_rng(0).geometric(0.01, 400)
    table = lengths(run_of_tokens(tokens))
    assert set(table["side"]) == {"better", "worse"}
    for side, rows in table.groupby("side"):
        assert rows["share"].sum() == pytest.approx(1), side
        assert rows["low"].min() == tokens.min()
        assert rows["high"].max() == tokens.max() + 1
        assert (rows["low"].to_numpy()[1:] == rows["high"].to_numpy()[:-1]).all()


def test_a_length_falls_into_its_half_open_bin():
    table = lengths(run_of_tokens(), bins=2)
    # 5 to 51 in two logarithmic steps: the middle edge is √(5·51) ≈ 16.
    better = table[table["side"] == "better"]
    assert better[["low", "high"]].values.tolist() == [[5, 16], [16, 51]]
    assert better["share"].tolist() == [1 / 4, 3 / 4]  # 10 | 20, 30, 50
    assert table[table["side"] == "worse"]["share"].tolist() == [2 / 4, 2 / 4]  # 5, 10 | 20, 40


def test_responses_of_one_length_fill_one_bin():
    table = lengths(run_of_tokens([10] * 8))
    assert table["share"].tolist() == [1, 1]
    assert table["low"].tolist() == [10, 10]


def test_what_length_alone_would_win_with_medians():
    run = run_of_tokens(subset=["x", "x", "y", "y"])
    run["n_prompt_tokens"] = ("item", [100, 200, 300, 400])
    table = length_summary(run).set_index("subset")
    assert table.index.tolist() == ["all", "x", "y"]
    assert table["n"].tolist() == [4, 2, 2]
    assert table["longer_wins"].tolist() == [2.5 / 4, 1.5 / 2, 1 / 2]
    assert table["better_tokens"].tolist() == [25, 25, 30]
    assert table["worse_tokens"].tolist() == [15, 15, 22.5]
    assert table["prompt_tokens"].tolist() == [250, 150, 350]
    whole = baselines(run)
    whole = whole[(whole["baseline"] == "longer response") & (whole["subset"] == "all")].iloc[0]
    assert table.loc["all", ["low", "high"]].tolist() == whole[["low", "high"]].tolist()
