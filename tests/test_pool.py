"""Runs of several datasets as one: nothing lost, nothing mixed up, no two models in it."""

from __future__ import annotations

import numpy as np
import pytest

from lib.analyses.gating.worlds import gating_world
from lib.analyses.protocols.worlds import protocol_world
from lib.errors import DataError
from lib.extraction import align, comparisons, load_run, pool, save_run
from lib.planted.worlds import make_run

SCORES = np.arange(12.0).reshape(6, 2)


def first(**given):
    run = make_run(SCORES, name="hh-rlhf/one", hidden=SCORES, **given)
    return run.assign_coords(response=run["response"] * 10).assign(
        better=run["better"] * 10, worse=run["worse"] * 10
    )


def second(**given):
    return make_run(SCORES[:4] + 100, name="hh-rlhf/two", hidden=SCORES[:4], **given)


def test_every_comparison_keeps_its_scores_and_its_item():
    pooled = pool([first(), second()])
    assert pooled.sizes["item"] == 5 and pooled.sizes["comparison"] == 5
    assert pooled["response"].values.tolist() == [0, 10, 20, 30, 40, 50, 51, 52, 53, 54]
    aligned = align(pooled)
    assert pooled["score"].values[aligned.better, 0].tolist() == [0, 4, 8, 100, 104]
    assert pooled["score"].values[aligned.worse, 1].tolist() == [3, 7, 11, 103, 107]
    assert comparisons(pooled)["item"].tolist() == [
        *("hh-rlhf/one: 0", "hh-rlhf/one: 1", "hh-rlhf/one: 2"),
        *("hh-rlhf/two: 0", "hh-rlhf/two: 1"),
    ]


def test_each_part_is_a_subset_of_its_own():
    pooled = pool([first(), second(subset=["easy", "hard"])])
    assert pooled["subset"].values.tolist() == [
        *["hh-rlhf/one"] * 3,
        *("hh-rlhf/two/easy", "hh-rlhf/two/hard"),
    ]


def test_a_prompt_of_two_datasets_is_one_prompt():
    pooled = pool([first(prompt=[0, 1, 2]), second(prompt=[2, 9])])
    assert align(pooled).prompt.tolist() == [0, 1, 2, 2, 3]


def test_attributes_tell_of_all_parts():
    one, two = first(), second()
    one.attrs |= {"dropped": {"empty": 2}, "items": "aa", "missing": ["x"]}
    two.attrs |= {"dropped": {"empty": 1, "long": 4}, "items": "bb"}
    two.attrs["extraction"] = two.attrs["extraction"] | {"device": "cuda"}
    attrs = pool([one, two]).attrs
    assert attrs["dataset"] == "hh-rlhf/one + hh-rlhf/two"
    assert attrs["items"] == "aa+bb"
    assert attrs["dropped"] == {"empty": 3, "long": 4}
    assert attrs["missing"] == ["hh-rlhf/one: x"]
    assert attrs["extraction"] == {"dtype": "float32", "packing": "none", "device": "cpu; cuda"}


def test_datasets_of_two_families_are_not_named_for_one():
    other = second()
    other.attrs["dataset"] = "llmbar"
    assert pool([first(), other]).attrs["dataset"] == "pooled: hh-rlhf/one + llmbar"


def test_a_gate_goes_along_and_what_one_run_lacks_is_left_out():
    one, two = gating_world(pairs=6), gating_world(pairs=4, seed=1)
    two.attrs["dataset"] = "planted/other"
    pooled = pool([one, two])
    assert pooled["gate"].values == pytest.approx(np.vstack([one["gate"], two["gate"]]))
    assert pooled["final"].values == pytest.approx(np.concatenate([one["final"], two["final"]]))
    assert "gate" not in pool([one, two.drop_vars("gate")])


def test_a_pooled_run_is_a_run_on_disk_too(tmp_path):
    pooled = pool([first(), second()])
    assert load_run(save_run(pooled, tmp_path / "run")).identical(pooled)


def test_the_runs_given_are_untouched_and_a_single_one_is_itself():
    one, two = first(), second()
    before = one.copy(deep=True), two.copy(deep=True)
    pool([one, two])
    assert one.identical(before[0]) and two.identical(before[1])
    assert pool([one]) is one


def test_what_cannot_be_pooled_is_refused():
    other = second()
    other.attrs["model"] = "another"
    with pytest.raises(DataError, match="runs of one model.*another in the run of hh-rlhf/two"):
        pool([first(), other])
    changed = second()
    changed.attrs["fingerprint"] = {"heads": "ff"}
    with pytest.raises(DataError, match="fingerprint"):
        pool([first(), changed])
    with pytest.raises(DataError, match="same heads.*hh-rlhf/two"):
        pool([first(), second(heads=["a", "b"])])
    with pytest.raises(DataError, match="hh-rlhf/one twice"):
        pool([first(), first()])
    with pytest.raises(DataError, match="at least one run"):
        pool([])


def test_pooled_protocols_answer_like_their_parts():
    runs = protocol_world("main", heads=2, protocols=2, prompts=30)
    pooled = align(pool(runs))
    assert len(pooled) == sum(len(align(run)) for run in runs)
    assert len(np.unique(pooled.prompt)) == 60
