"""RewardBench 2's loader, on the real Safety file and on made-up rows of the schema."""

from __future__ import annotations

import json

import pytest

from lib.data import load_items
from lib.data import reward_bench_2 as rb2
from lib.errors import DataError


def row(subset: str, identity="0", chosen=("right",), rejected=("a", "b", "c"), **changes):
    made_up = {
        "id": identity,
        "prompt": f"Made-up prompt {identity} of {subset}",
        "chosen": list(chosen),
        "rejected": list(rejected),
        "num_correct": len(chosen),
        "num_incorrect": len(rejected),
        "total_completions": len(chosen) + len(rejected),
        "subset": subset,
    }
    return made_up | changes


TIES = [
    row("Ties", "ref:3"),
    row("Ties", "tied:3", chosen=("red", "blue"), rejected=("cat", "dog", "cow")),
]
WHOLE = [row(subset) for subset in rb2.COUNTS if subset != "Ties"] + TIES


@pytest.fixture
def folder(tmp_path):
    def write(rows: list[dict], name: str = "test.jsonl") -> str:
        (tmp_path / name).write_text("".join(json.dumps(each) + "\n" for each in rows))
        return str(tmp_path)

    return write


def load(source: str, part: str | None = None, **options):
    return load_items(
        f"reward-bench-2/{part}" if part else "reward-bench-2", source=source, **options
    )


def test_the_published_counts_are_1865_items_in_six_subsets():
    assert sum(rb2.COUNTS.values()) == 1865
    assert list(rb2.COUNTS) == list(rb2.SUBSETS.values())


def test_the_real_safety_file_is_450_items_of_one_in_four(shared_data):
    items = load_items("reward-bench-2/safety", source=shared_data / rb2.SET)
    assert len(items) == 450
    assert len(items.responses) == 1800
    assert len(items.comparisons) == 1350
    assert set(items.comparisons["subset"]) == {"Safety"}
    assert (items.comparisons["better"] % 4 == 0).all()
    assert items.dropped == {}
    assert items.missing == ()
    assert items.prompts["item"][0] == "safety/818"


def test_subsets_that_the_folder_lacks_are_listed(shared_data):
    items = load_items("reward-bench-2", source=shared_data / rb2.SET)
    assert len(items) == 450
    assert items.missing == ("Factuality", "Precise IF", "Math", "Focus", "Ties")


def test_the_chosen_response_is_compared_with_each_rejected_one(folder):
    items = load(folder(WHOLE), "math")
    assert list(items.responses["text"]) == ["right", "a", "b", "c"]
    assert items.comparisons[["better", "worse"]].values.tolist() == [[0, 1], [0, 2], [0, 3]]
    assert set(items.comparisons["criterion"]) == {"math"}


def test_a_tied_item_compares_every_right_with_every_wrong_response(folder):
    items = load(folder(WHOLE), "ties")
    assert list(items.prompts["item"]) == ["ties/ref:3", "ties/tied:3"]
    tied = items.comparisons[items.comparisons["item"] == "ties/tied:3"]
    slots = items.responses["slot"]
    pairs = {(slots[b], slots[w]) for b, w in zip(tied["better"], tied["worse"], strict=True)}
    assert pairs == {(0, 2), (0, 3), (0, 4), (1, 2), (1, 3), (1, 4)}


def test_the_whole_file_gives_all_six_subsets(folder):
    items = load(folder(WHOLE))
    assert len(items) == 7
    assert items.missing == ()
    assert list(dict.fromkeys(items.comparisons["subset"])) == list(rb2.COUNTS)


def test_one_id_in_two_subsets_is_two_items(folder):
    items = load(folder([row("Math", "5"), row("Focus", "5")]))
    assert list(items.prompts["item"]) == ["math/5", "focus/5"]


def test_an_item_with_an_empty_response_is_dropped_whole(folder):
    items = load(folder([row("Math", "0"), row("Math", "1", rejected=("a", "", "c"))]))
    assert len(items) == 1
    assert items.dropped == {"an empty response": 1}


def test_several_chosen_responses_outside_ties_are_an_error(folder):
    with pytest.raises(DataError, match=r"one chosen response in row 0.*found 2"):
        load(folder([row("Math", chosen=("x", "y"))]))


@pytest.mark.parametrize(
    ("identity", "chosen", "message"),
    [
        ("7", ("x",), "'ref:n' and 'tied:n'"),
        ("ref:a", ("x",), "'ref:n' and 'tied:n'"),
        ("ref:1", ("x", "y"), "2 for 'ref:1'"),
        ("tied:1", ("x",), "1 for 'tied:1'"),
    ],
)
def test_ties_ids_must_say_what_the_lists_say(folder, identity, chosen, message):
    with pytest.raises(DataError, match=message):
        load(folder([row("Ties", identity, chosen=chosen)]))


@pytest.mark.parametrize("value", ["one text", [], [1, 2, 3]])
def test_rejected_must_be_a_list_of_texts(folder, value):
    with pytest.raises(DataError, match="'rejected' of row 0"):
        load(folder([row("Math", rejected="x") | {"rejected": value}]))


def test_an_unknown_subset_is_an_error_that_lists_the_known(folder):
    with pytest.raises(DataError, match="Did you mean 'Safety'"):
        load(folder([row("Safty")]))


def test_a_part_that_the_source_lacks_is_an_error(folder, tmp_path):
    with pytest.raises(DataError, match="rows of subset 'Focus'"):
        load(folder([row("Math")]), "focus")
    bare = tmp_path / "bare"
    bare.mkdir()
    with pytest.raises(DataError, match=r"bare/ties .*'source'"):
        load(str(bare), "ties")
    with pytest.raises(DataError, match=r"bare/test .*'source'"):
        load(str(bare))
