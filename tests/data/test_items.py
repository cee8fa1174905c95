"""Items: responses and comparisons stay together, whatever is taken from them."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.data import NAMES, load_items, prompt_hash
from lib.data.items import Builder, Items
from lib.errors import DataError


def three_items() -> Items:
    """Items a, b, c with 2, 3 and 2 responses; b has two comparisons."""
    builder = Builder("made-up", {"licence": "MIT"})
    builder.add("a", "one?", ["a0", "a1"], [(0, 1, "helpful", "easy")])
    builder.add(
        "b", "two?", ["b0", "b1", "b2"], [(2, 0, "helpful", "hard"), (1, 0, "safe", "hard")]
    )
    builder.add("c", "three?", ["c0", "c1"], [(1, 0, "helpful", "easy")])
    builder.drop("empty", 4)
    return builder.build()


def texts(items: Items) -> list[tuple[str, str]]:
    """The better and the worse text of each comparison."""
    text = items.responses["text"].to_numpy()
    pairs = zip(items.comparisons["better"], items.comparisons["worse"], strict=True)
    return [(text[better], text[worse]) for better, worse in pairs]


def test_slots_of_each_item_become_rows_of_the_whole():
    items = three_items()
    assert list(items.responses.columns[:3]) == ["item", "slot", "text"]
    assert items.responses["slot"].tolist() == [0, 1, 0, 1, 2, 0, 1]
    assert items.comparisons.columns.tolist() == [
        "item",
        "better",
        "worse",
        "criterion",
        "subset",
    ]
    assert items.comparisons["better"].tolist() == [0, 4, 3, 6]
    assert items.comparisons["worse"].tolist() == [1, 2, 2, 5]
    assert items.item_of_response.tolist() == [0, 0, 1, 1, 1, 2, 2]
    assert items.answers == [["a0", "a1"], ["b0", "b1", "b2"], ["c0", "c1"]]
    assert items.select([1]).answers == [["b0", "b1", "b2"]]
    assert items.dropped == {"empty": 4}
    assert len(items) == 3


def test_a_prompt_given_as_text_is_one_user_turn():
    items = three_items()
    assert items.prompts["prompt"][0] == [{"role": "user", "content": "one?"}]


def test_selecting_renews_row_numbers():
    taken = three_items().select(np.asarray([False, True, True]))
    assert taken.prompts["item"].tolist() == ["b", "c"]
    assert taken.comparisons["better"].tolist() == [2, 1, 4]
    assert texts(taken) == [("b2", "b0"), ("b1", "b0"), ("c1", "c0")]


def test_positions_and_masks_select_alike():
    items = three_items()
    by_mask = items.select(np.asarray([True, False, True]))
    assert items.select(np.asarray([2, 0])).fingerprint == by_mask.fingerprint


def test_a_reason_counts_what_was_left_out_and_no_reason_counts_nothing():
    items = three_items()
    assert items.select(np.asarray([0])).dropped == {"empty": 4}
    assert items.select(np.asarray([0]), "too long").dropped == {"empty": 4, "too long": 2}
    assert items.select(np.asarray([0, 1, 2]), "too long").dropped == {"empty": 4}


@given(mask=st.lists(st.booleans(), min_size=3, max_size=3).filter(any))
@settings(deadline=None, max_examples=8)
def test_no_selection_changes_who_won(mask):
    items = three_items()
    owner = dict(zip(texts(items), items.comparisons["item"], strict=True))
    taken = items.select(np.asarray(mask))
    kept = set(taken.prompts["item"])
    assert texts(taken) == [pair for pair in texts(items) if owner[pair] in kept]
    assert set(taken.responses["item"]) == kept


def many(n: int = 40) -> Items:
    builder = Builder("many")
    for i in range(n):
        builder.add(str(i), f"q{i}", ["yes", "no"], [(0, 1, "c", "s")])
    return builder.build()


def test_a_sample_is_seeded_spread_and_in_the_original_order():
    taken = [[int(i) for i in many().take(10, seed=seed).prompts["item"]] for seed in (0, 0, 1)]
    assert taken[0] == taken[1] != taken[2]
    assert len(set(taken[0])) == 10
    assert taken[0] == sorted(taken[0])
    assert max(taken[0]) >= 20  # not the head


def test_the_head_is_the_first_items():
    assert many().take(3, "head").prompts["item"].tolist() == ["0", "1", "2"]


@pytest.mark.parametrize("limit", [0, 40, 41])
def test_a_limit_of_zero_or_beyond_the_end_takes_all(limit):
    assert many().take(limit).fingerprint == many().fingerprint


@pytest.mark.parametrize("limit", [-1, "seven", 2.5])
def test_a_limit_that_is_no_count_is_an_error(limit):
    with pytest.raises(DataError, match=r"a limit of 0 .all. or more"):
        many().take(limit)


@pytest.mark.parametrize("seed", [-1, "seven", 2.5, None])
def test_a_seed_that_is_no_whole_number_from_zero_is_an_error(seed):
    with pytest.raises(DataError, match="a seed of 0 or more"):
        many().take(3, seed=seed)


def test_an_unknown_order_is_an_error():
    with pytest.raises(DataError, match=r"'sample' or 'head'.*found 'tail'"):
        many().take(3, "tail")


def test_the_fingerprint_tells_content_apart_and_order():
    prints = set()
    for text, better, subset, item in [
        ("a1", 0, "s", "x"),
        ("a2", 0, "s", "x"),
        ("a1", 1, "s", "x"),
        ("a1", 0, "t", "x"),
        ("a1", 0, "s", "y"),
    ]:
        builder = Builder("made-up")
        builder.add(item, "q", ["a0", text], [(better, 1 - better, "c", subset)])
        prints.add(builder.build().fingerprint)
    assert len(prints) == 5
    assert three_items().fingerprint == three_items().fingerprint


def test_the_prompt_hash_is_sha256_of_roles_and_contents():
    turns = [{"role": "user", "content": "é"}]
    digest = hashlib.sha256(b'[["user", "\\u00e9"]]').hexdigest()
    assert prompt_hash(turns) == digest[:16]
    assert prompt_hash([{"role": "system", "content": "é"}]) != digest[:16]


def test_ratings_become_columns_with_gaps_where_none_was_given():
    builder = Builder("rated")
    builder.add("a", "q", ["x", "y"], [], [{"helpful": 4.0}, {"helpful": 1.0, "safe": 0.0}])
    items = builder.build()
    assert items.responses["helpful"].tolist() == [4.0, 1.0]
    assert np.isnan(items.responses["safe"][0]) and items.responses["safe"][1] == 0.0


@pytest.mark.parametrize("name", ["item", "slot", "text", "row"])
def test_a_rating_may_not_overwrite_a_column(name):
    builder = Builder("rated")
    with pytest.raises(DataError, match=f"in item a of rated; found {name}"):
        builder.add("a", "q", ["x", "y"], [], [{"helpful": 4.0}, {name: 1.0}])
    assert len(builder) == 0


def test_items_without_comparisons_can_be_selected():
    builder = Builder("unjudged")
    builder.add("a", "q", ["x", "y"], [])
    builder.add("b", "r", ["x", "y"], [])
    taken = builder.build().select(np.asarray([1]))
    assert len(taken) == 1 and len(taken.comparisons) == 0


def test_no_usable_row_is_an_error_that_says_why():
    builder = Builder("bad")
    builder.drop("empty chosen response", 2)
    with pytest.raises(DataError, match=r"usable row in bad; found none \(2 empty chosen response"):
        builder.build()


def test_an_id_that_occurs_twice_is_an_error():
    builder = Builder("twice")
    for _ in range(2):
        builder.add("7", "q", ["x", "y"], [(0, 1, "c", "s")])
    with pytest.raises(DataError, match="distinct item ids in twice; found '7' more than once"):
        builder.build()


def test_an_unknown_dataset_lists_the_known_ones():
    with pytest.raises(DataError, match="Did you mean 'hh-rlhf/harmless-base'") as caught:
        load_items("hh-rlhf/harmles-base")
    assert all(name in str(caught.value) for name in NAMES)


def test_a_fingerprint_is_that_of_json_arrays_row_by_row():
    builder = Builder("x")
    for item in range(3):
        turns = [{"role": "user", "content": 'é "q"\n\u2028'}]
        builder.add(str(item), turns, ["a", "\\b"], [(0, 1, "c", "s")])
    items = builder.build()
    digest = hashlib.sha256()
    for table, columns in (
        ("prompts", ["item", "prompt_hash"]),
        ("responses", ["item", "slot", "text"]),
        ("comparisons", ["better", "worse", "criterion", "subset"]),
    ):
        for row in getattr(items, table)[columns].values.tolist():
            digest.update(json.dumps([str(cell) for cell in row]).encode())
        digest.update(b"\0")
    assert items.fingerprint == digest.hexdigest()[:16]


def test_ratings_of_some_items_leave_the_others_without():
    builder = Builder("x")
    builder.add("0", "q", ["a", "b"], [])
    builder.add("1", "q", ["a", "b"], [], [{"wit": 1.0}, {"tact": 2.0}])
    builder.add("2", "q", ["a"], [])
    found = builder.build().responses
    assert [*found] == ["item", "slot", "text", "wit", "tact"]
    assert found["wit"].fillna(0).tolist() == [0, 0, 1, 0, 0]
    assert found["tact"].fillna(0).tolist() == [0, 0, 0, 2, 0]
