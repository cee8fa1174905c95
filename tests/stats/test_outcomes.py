"""Outcomes: who won each comparison, kept so that models can be paired later."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pandas as pd
import pytest

from lib import stats
from lib.planted.worlds import make_run, validity_world
from lib.stats import margins
from lib.stats.winrates import outcomes


def by_hand():
    # Three pairs; the last two share a prompt. Rows 2i are the better responses.
    score = [[1, 0], [0, 1], [2, 2], [2, 3], [0, np.nan], [1, 0]]
    return make_run(
        np.array(score, float),
        heads=["a", "b"],
        prompt=[7, 8, 8],
        subset=["x", "y", "y"],
        final=[0.0, 1.0, 5.0, 4.0, 2.0, 2.0],
    )


def test_a_win_is_one_a_tie_a_half_and_no_number_none():
    table = outcomes(by_hand())
    wide = table.pivot(index="item", columns="rule", values="outcome")
    np.testing.assert_array_equal(wide["a"], [1, 0.5, 0])
    np.testing.assert_array_equal(wide["b"], [0, 0, np.nan])
    np.testing.assert_array_equal(wide["final score"], [0, 1, 0.5])
    assert table.groupby("rule", observed=True)["kind"].first().to_dict() == {
        "a": "head",
        "b": "head",
        "final score": "score",
    }


def test_each_row_names_its_comparison_whatever_the_model():
    table = outcomes(by_hand())
    first = table[table["rule"] == "a"]
    assert first["item"].tolist() == ["0", "1", "2"]
    assert first["prompt"].tolist() == [f"{p:016x}" for p in (7, 8, 8)]
    assert first["better"].tolist() == [0, 0, 0]
    assert first["worse"].tolist() == [1, 1, 1]
    assert first["subset"].tolist() == ["x", "y", "y"]
    assert set(table["model"]) == {"planted"} and set(table["dataset"]) == {"planted"}


def test_a_head_called_as_the_score_is_told_from_it_by_its_kind():
    run = make_run(np.array([[1.0], [0.0]]), heads=["final score"], final=[0.0, 1.0])
    table = outcomes(run)
    assert list(zip(table["kind"], table["outcome"], strict=True)) == [("head", 1), ("score", 0)]


def test_their_means_are_the_win_rates():
    run = validity_world()
    means = outcomes(run).groupby("rule", observed=True)["outcome"].mean()
    table = stats.validity(run)
    overall = table[(table["subset"] == "all") & table["win_rate"].notna()].set_index("head")
    assert len(overall) > 2
    for head, row in overall.iterrows():
        assert means[head] == pytest.approx(row["win_rate"])


def test_they_survive_a_file(tmp_path):
    table = outcomes(by_hand())
    table.to_parquet(tmp_path / "outcomes.parquet", index=False)
    pd.testing.assert_frame_equal(
        pd.read_parquet(tmp_path / "outcomes.parquet").astype(str), table.astype(str)
    )


def test_texts_are_never_written_out_for_every_rule():
    scores = np.random.default_rng(0).standard_normal((8000, 30))
    run = make_run(scores, prompt=np.arange(4000) // 2)
    outcomes(run)  # what is loaded at the first call doesn't count
    tracemalloc.start()
    table = outcomes(run)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(table) == 30 * 4000
    assert peak < 2.5 * table.memory_usage(deep=True).sum()


def test_a_margin_is_in_root_mean_squares_of_its_rule():
    table = margins.outcomes(by_hand())
    wide = table.pivot(index="item", columns="rule", values="margin")
    np.testing.assert_allclose(wide["a"], np.array([1, 0, -1]) / np.sqrt(2 / 3), rtol=1e-6)
    # by hand: gaps -1, -1 and none; -1, 1 and 0
    np.testing.assert_allclose(wide["b"], [-1, -1, np.nan])
    np.testing.assert_allclose(
        wide["final score"], np.array([-1, 1, 0]) / np.sqrt(2 / 3), rtol=1e-6
    )
    pd.testing.assert_frame_equal(table.drop(columns="margin"), outcomes(by_hand()))


def test_scores_that_are_all_alike_have_no_margin():
    assert margins.outcomes(make_run(np.ones((4, 1))))["margin"].isna().all()
