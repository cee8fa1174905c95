"""What labels ask is declared once, and a label says which part of a dataset is there."""

from __future__ import annotations

import pytest

from lib.data import NAMES, asks, llmbar, rm_bench, xstest


@pytest.mark.parametrize("name", [name for name in NAMES if name != "file:PATH"])
def test_every_dataset_declares_its_kind_and_its_question(name):
    assert asks.kind(name) in asks.KINDS[:-1] and asks.of(name).question


def test_only_where_criteria_vary_things_of_their_own_there_is_no_question_as_a_whole():
    apart = {name for name in NAMES if not asks.whole(name)}
    assert {name.split("/")[0] for name in apart} == {"stimuli", "helpsteer2"}
    assert asks.whole("stimuli/holistic") and not asks.whole("stimuli/controlled")
    assert asks.whole("file:mine.jsonl"), "of a file of one's own nothing is declared"


def test_subsets_that_pages_name_are_declared():
    known = {"llmbar": llmbar.PARTS, "rm-bench": rm_bench.PARTS, "xstest": xstest.SUBSETS.values()}
    for dataset, subsets in known.items():
        assert set(asks.OF_SUBSETS[dataset]) == set(subsets)
    assert asks.of_subset("xstest", "should-refuse").endswith("the refusal is right")
    assert asks.of_subset("stimuli/controlled", "tone") == "which response has more of tone"
    assert asks.of_subset("file:x", "a") == asks.of_subset("xstest", "a") == ""


@pytest.mark.parametrize(
    ("sizes", "lacks", "part"),
    [
        ({"Safety": 288}, ["Factuality", "Math", "Focus"], "Safety only"),
        ({"chat": 60, "safety-refuse": 40}, ["code", "math"], "without code, math"),
        ({"a": 60, "b": 40}, ["c", "d", "e"], "without 3 parts"),
        ({"yes": 34, "no": 1}, [], "34 of 35 yes"),
        ({"yes": 89, "no": 11}, [], ""),
        ({"yes": 90, "no": 10, "none": 0}, ["x"], "without x; 90 of 100 yes"),
        ({"one": 5, "none": 0}, [], ""),
        ({}, [], ""),
    ],
)
def test_a_label_names_the_part(sizes, lacks, part):
    assert asks.parts(sizes, lacks) == part
