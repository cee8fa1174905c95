"""HelpSteer2 on made-up rows of its published schema: the real files could not be had."""

from __future__ import annotations

import gzip
import json

import pandas as pd
import pytest

from lib.data import helpsteer2, load_items
from lib.errors import DataError

MADE_UP = "Made up for the tests"


def row(prompt: str, response: str, ratings: tuple[int, ...]) -> dict:
    return {
        "prompt": f"{MADE_UP}: {prompt}",
        "response": response,
        **dict(zip(helpsteer2.ATTRIBUTES, ratings, strict=True)),
    }


# Ratings: helpfulness, correctness, coherence, complexity, verbosity. The comments say what
# follows from them by hand.
ROWS = [
    row("one", "first", (4, 4, 4, 2, 2)),  # total 16 against 12: A; gap 2 helpfulness, but
    row("one", "second", (2, 2, 4, 2, 2)),  # 2 on correctness as well: no B
    row("two", "short", (3, 3, 3, 2, 0)),  # total 11 against 14: A; verbosity alone, gap 3
    row("two", "long", (3, 3, 4, 1, 3)),
    row("three", "even", (3, 3, 3, 1, 1)),  # 11 against 11: no A, no B
    row("three", "also even", (2, 3, 3, 1, 2)),
    row("two", "again", (0, 1, 4, 1, 1)),  # the same prompt text: an item of its own;
    row("two", "and again", (2, 2, 4, 1, 0)),  # 7 against 9: A; helpfulness alone, gap 2
]


def write(folder, rows, split="validation"):
    with gzip.open(folder / f"{split}.jsonl.gz", "wt", encoding="utf-8") as stream:
        stream.writelines(json.dumps(each) + "\n" for each in rows)
    return str(folder)


@pytest.fixture
def source(tmp_path):
    return write(tmp_path, ROWS)


def pairs(items):
    text = items.responses["text"]
    return [
        (text[better], text[worse], criterion, subset)
        for _, better, worse, criterion, subset in items.comparisons.itertuples(index=False)
    ]


TYPE_A = [
    ("first", "second", "total", "type-a"),
    ("long", "short", "total", "type-a"),
    ("and again", "again", "total", "type-a"),
]
TYPE_B = [
    ("long", "short", "verbosity", "type-b/verbosity"),
    ("and again", "again", "helpfulness", "type-b/helpfulness"),
]


def test_whole_set_keeps_every_prompt_and_both_types(source):
    items = load_items("helpsteer2", source=source)
    assert len(items) == 4
    assert pairs(items) == TYPE_A + TYPE_B
    assert items.dropped == {}


def test_a_part_keeps_only_the_items_it_compares_and_counts_the_rest(source):
    a = load_items("helpsteer2/type-a", source=source)
    b = load_items("helpsteer2/type-b", source=source)
    assert (pairs(a), pairs(b)) == (TYPE_A, TYPE_B)
    assert a.dropped == {"no type-a comparison": 1}
    assert b.dropped == {"no type-b comparison": 2}
    assert list(b.responses["text"]) == ["short", "long", "again", "and again"]


def test_ratings_are_columns_of_the_responses(source):
    items = load_items("helpsteer2", source=source)
    assert list(items.responses.columns[3:]) == list(helpsteer2.ATTRIBUTES)
    assert items.responses.loc[3, list(helpsteer2.ATTRIBUTES)].tolist() == [3, 3, 4, 1, 3]


def test_a_prompt_text_that_occurs_twice_is_two_items_with_one_hash(source):
    prompts = load_items("helpsteer2", source=source).prompts
    assert list(prompts["item"]) == [f"validation/{n}" for n in range(4)]
    assert prompts["prompt_hash"][1] == prompts["prompt_hash"][3]
    assert prompts["prompt_hash"].nunique() == 3


def test_test_split_means_validation_and_others_are_unknown(source, tmp_path):
    assert len(load_items("helpsteer2", split="test", source=source)) == 4
    with pytest.raises(DataError, match=r"train\.jsonl|train "):
        load_items("helpsteer2", split="train", source=source)
    with pytest.raises(DataError, match="Known: train, validation"):
        load_items("helpsteer2", split="dev", source=source)


def test_markers_become_turns():
    prompt = "c#\n<extra_id_1>Assistant\nA language.\n\nBy Microsoft.\n<extra_id_1>User\n why?\n"
    assert helpsteer2.parse_prompt(prompt) == [
        {"role": "user", "content": "c#"},
        {"role": "assistant", "content": "A language.\n\nBy Microsoft."},
        {"role": "user", "content": " why?\n"},
    ]


def test_a_prompt_without_markers_is_one_turn_unchanged():
    text = "  def f():\n\n    Assistant: not a marker"
    assert helpsteer2.parse_prompt(text) == [{"role": "user", "content": text}]


@pytest.mark.parametrize(
    ("prompt", "reason"),
    [
        ("a\n<extra_id_1>Assistant\nb", "last turn not the user's"),
        ("a\n<extra_id_1>Tool\nb", "turn marker without a role"),
        ("a\n<extra_id_1>Assistant\n\n<extra_id_1>User\nb", "empty turn in the prompt"),
        ("   ", "empty turn in the prompt"),
    ],
)
def test_prompts_that_do_not_parse_are_dropped_by_reason(tmp_path, prompt, reason):
    assert helpsteer2.parse_prompt(prompt) == reason
    bad = [{**each, "prompt": prompt} for each in ROWS[:2]]
    items = load_items("helpsteer2", source=write(tmp_path, bad + ROWS[2:4]))
    assert (len(items), items.dropped) == (1, {reason: 1})


def test_empty_and_identical_responses_are_dropped_by_reason(tmp_path):
    same = [row("same", "text", (4, 4, 4, 4, 4)), row("same", "text", (0, 0, 0, 0, 0))]
    empty = [row("empty", " ", (4, 4, 4, 4, 4)), row("empty", "text", (0, 0, 0, 0, 0))]
    source = write(tmp_path, [*same, *empty, *ROWS[:2]])
    items = load_items("helpsteer2", source=source)
    assert items.dropped == {"identical responses": 1, "empty response": 1}


@pytest.mark.parametrize("order", [[0, 2, 1, 3], [0, 1, 2]])
def test_rows_of_a_prompt_must_be_neighbours(tmp_path, order):
    source = write(tmp_path, [ROWS[index] for index in order])
    with pytest.raises(DataError, match="side by side"):
        load_items("helpsteer2", source=source)


@pytest.mark.parametrize("rating", [5, -1, 2.5, None, "good"])
def test_a_rating_off_the_scale_is_an_error_that_names_the_row(tmp_path, rating):
    rows = [*ROWS[:3], {**ROWS[3], "coherence": rating}]
    with pytest.raises(DataError, match=r"coherence rating .* in row 3"):
        load_items("helpsteer2", source=write(tmp_path, rows))


def responses(*ratings: tuple[int, ...], per_item: int = 2) -> pd.DataFrame:
    frame = pd.DataFrame(ratings, columns=list(helpsteer2.ATTRIBUTES), dtype=float)
    frame.insert(0, "item", [str(n // per_item) for n in range(len(frame))])
    return frame


def test_type_b_takes_a_target_gap_of_exactly_two_and_other_gaps_of_exactly_one():
    edge = responses((2, 1, 1, 1, 1), (0, 0, 2, 0, 2))
    assert list(helpsteer2.type_b(edge)["criterion"]) == ["helpfulness"]
    assert helpsteer2.type_b(responses((1, 1, 1, 1, 1), (0, 0, 2, 0, 2))).empty
    assert helpsteer2.type_b(responses((4, 1, 1, 1, 1), (0, 1, 3, 1, 1))).empty


def test_more_than_two_responses_give_the_extremes_and_all_targeted_pairs():
    three = responses((4, 2, 2, 2, 2), (2, 2, 2, 2, 2), (0, 2, 2, 2, 2), per_item=3)
    a, b = helpsteer2.type_a(three), helpsteer2.type_b(three)
    assert a[["better", "worse"]].to_numpy().tolist() == [[0, 2]]
    assert b[["better", "worse"]].to_numpy().tolist() == [[0, 1], [0, 2], [1, 2]]


@pytest.fixture
def many():
    """Twelve helpfulness pairs, of which items 10 and 11 have gaps of 3 and 4."""
    low = [(0, 1, 1, 1, 1)] * 12
    high = [(2, 1, 1, 1, 1)] * 10 + [(3, 1, 1, 1, 1), (4, 1, 1, 1, 1)]
    return responses(*(each for pair in zip(low, high, strict=True) for each in pair))


def test_cap_by_gap_keeps_the_largest_gaps_and_the_earlier_of_equals(many):
    kept = helpsteer2.type_b(many, cap=4, by="gap")
    assert list(kept["item"]) == ["0", "1", "10", "11"]
    assert kept[["better", "worse"]].to_numpy().tolist()[0] == [1, 0]


def test_cap_by_seed_does_not_favour_large_gaps(many):
    kept = [helpsteer2.type_b(many, cap=3, seed=seed) for seed in range(200)]
    assert all(len(frame) == 3 for frame in kept)
    share = sum("11" in set(frame["item"]) for frame in kept) / len(kept)
    assert share == pytest.approx(3 / 12, abs=0.12)  # four standard errors
    pd.testing.assert_frame_equal(kept[7], helpsteer2.type_b(many, cap=3, seed=7))


def test_one_attributes_sample_does_not_depend_on_the_others(many):
    extra = responses((1, 1, 1, 1, 4), (1, 1, 1, 1, 0)).assign(item="verbose")
    both = helpsteer2.type_b(pd.concat([many, extra], ignore_index=True), cap=3, seed=5)
    alone = helpsteer2.type_b(many, cap=3, seed=5)
    assert list(both["item"][both["criterion"] == "helpfulness"]) == list(alone["item"])
    assert list(both["item"][both["criterion"] == "verbosity"]) == ["verbose"]


def test_a_cap_that_is_negative_or_of_unknown_kind_is_an_error(many):
    with pytest.raises(DataError, match="a cap of 0"):
        helpsteer2.type_b(many, cap=-1)
    with pytest.raises(DataError, match="Known: gap, seed"):
        helpsteer2.type_b(many, cap=1, by="size")


def test_nothing_to_compare_is_an_empty_table_that_can_be_sampled(tmp_path):
    items = load_items("helpsteer2", source=write(tmp_path, ROWS[4:6] * 2))
    assert items.comparisons.empty
    assert items.comparisons["better"].dtype == int
    assert len(items.take(1)) == 1
