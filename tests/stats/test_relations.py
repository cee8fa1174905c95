"""A head is judged by labels that ask what its name claims; a mean over criteria by none."""

from __future__ import annotations

import numpy as np
import pytest
from statsmodels.stats.multitest import multipletests

from lib.data.concepts import CLAIMED, OPPOSED, OTHER
from lib.planted.worlds import make_run
from lib.stats import baselines, distinct, validity
from lib.stats.relations import claims, sample
from lib.stats.winrates import MEAN, judged


def run_of(gaps: np.ndarray, name: str, heads: list[str], subset: list[str], **options):
    score = np.zeros((2 * len(gaps), len(heads)))
    score[::2] = gaps
    return make_run(score, name=name, heads=heads, subset=subset, **options)


def test_what_a_model_leaves_open_its_names_say():
    run = make_run(np.ones((2, 3)), heads=["refusal", "safety", "x1"], concepts=["", "honesty", ""])
    assert claims(run) == ["refusal", "honesty", ""]


@pytest.mark.parametrize(("opposed", "relation"), [(9, OPPOSED), (8, OTHER), (1, CLAIMED)])
def test_nine_tenths_of_the_comparisons_speak_for_a_dataset(opposed, relation):
    subset = ["should-respond"] * opposed + ["should-refuse"] * (10 - opposed)
    run = run_of(
        np.full((10, 1), -1.0), "xstest", ["refusal"], subset, criterion=["appropriateness"] * 10
    )
    table = validity(run).set_index("subset")
    assert table.loc["all", "relation"] == relation
    assert table.loc["all", ["claimed", "opposed"]].tolist() == pytest.approx(
        [(10 - opposed) / 10, opposed / 10]
    )
    assert table.loc["should-respond", "relation"] == OPPOSED
    assert table.loc["should-refuse", "relation"] == CLAIMED


def test_a_mean_over_criteria_is_not_tested_and_in_no_family():
    generator = np.random.default_rng(0)
    gaps = generator.choice([-1.0, 1.0], (80, 2), p=[0.3, 0.7])
    subset = ["safety"] * 40 + ["verbosity"] * 40
    heads = ["safety", "x1"]
    table = validity(run_of(gaps, "stimuli/controlled", heads, subset, criterion=subset))
    mean = table[table["subset"] == "all"]
    assert mean["p"].isna().all() and mean["p_adjusted"].isna().all()
    assert set(mean["verdict"]) == {"undefined"} and set(mean["note"]) == {MEAN}
    assert mean["win_rate"].tolist() == pytest.approx(((gaps > 0).mean(axis=0)).tolist())
    asked = table[table["subset"] != "all"]
    expected = multipletests(asked["p"], method="holm")[1]
    assert asked["p_adjusted"].tolist() == pytest.approx(expected.tolist())
    assert judged(table)["subset"].tolist() == asked["subset"].tolist()
    assert "all" not in set(distinct(table)["subset"])
    run = run_of(gaps * [1, np.nan], "stimuli/controlled", heads, subset)
    assert "all" not in set(distinct(validity(run))["subset"])
    assert "all" not in set(distinct(baselines(run))["subset"])
    whole = validity(run_of(gaps, "llmbar", heads, subset, criterion=subset))
    assert whole["p"].notna().all() and set(judged(whole)["subset"]) == {"all"}


def test_a_run_says_which_part_of_its_dataset_it_holds():
    subset = ["should-respond"] * 19 + ["should-refuse"]
    run = run_of(np.ones((20, 1)), "xstest", ["a"], subset)
    run = run.isel(comparison=slice(1, 20)).assign_attrs(missing=["gpt4", "llama2new"])
    (row,) = sample(run).to_dict("records")
    assert (row["items"], row["compared"], row["comparisons"], row["prompts"]) == (20, 19, 19, 19)
    assert row["part"] == "without gpt4, llama2new; 18 of 19 should-respond"
    assert row["lacks"] == "gpt4, llama2new"
