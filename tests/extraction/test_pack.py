"""Rows: every item once, within the budget, every token once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.extraction.pack import common, distinct, lay_out, length, plan, plan_batches, plan_trees
from lib.models.prompt import EncodedItem

tokens = st.lists(st.integers(0, 3), min_size=1, max_size=9)


def item_of(prompt, branches, n_shared=None, gate_at=0) -> EncodedItem:
    sequences = [np.asarray([*prompt, *branch], np.int64) for branch in branches]
    shared = len(prompt) if n_shared is None else n_shared
    return EncodedItem(sequences, len(prompt), shared, gate_at)


@st.composite
def some_items(draw) -> list[EncodedItem]:
    items = []
    for _ in range(draw(st.integers(1, 5))):
        prompt = draw(tokens)
        n_shared = draw(st.integers(1, len(prompt)))
        gate_at = draw(st.integers(0, n_shared - 1))
        items.append(
            item_of(prompt, draw(st.lists(tokens, min_size=1, max_size=4)), n_shared, gate_at)
        )
    return items


# Which items share a row.


@given(sizes=st.lists(st.integers(1, 50), max_size=30), budget=st.integers(1, 120))
@settings(deadline=None, max_examples=60)
def test_groups_hold_each_item_once_within_the_budget(sizes, budget):
    groups = plan(sizes, budget)
    assert sorted(i for group in groups for i in group) == list(range(len(sizes)))
    for group in groups:
        assert len(group) == 1 or sum(sizes[i] for i in group) <= budget


def test_first_fit_by_hand():
    # 7 | 6 3 | 5 4: the 3 goes back to the row of the 6, and the 2 to that of the 7.
    assert plan([3, 5, 7, 2, 6, 4], 9) == [[2, 3], [4, 0], [1, 5]]
    assert plan([20, 1], 9) == [[0], [1]]


@given(items=some_items(), budget=st.integers(1, 80))
@settings(deadline=None, max_examples=60)
def test_rows_as_laid_out_are_within_the_budget(items, budget):
    groups = plan_trees(items, budget)
    assert sorted(i for group in groups for i in group) == list(range(len(items)))
    for group in groups:
        assert len(group) == 1 or len(lay_out([items[i] for i in group])) <= budget


@given(items=some_items(), budget=st.integers(8, 80))
@settings(deadline=None, max_examples=60)
def test_rows_in_steps_are_as_few_and_no_longer_than_a_step_allows(items, budget):
    step, root = 4, common(items)
    plain, stepped = plan_trees(items, budget), plan_trees(items, budget, step)
    assert sorted(i for group in stepped for i in group) == list(range(len(items)))
    assert len(stepped) == len(plain)
    planned = max(root + sum(items[i].n_tokens - root for i in group) for group in plain)
    assert max(len(lay_out([items[i] for i in group])) for group in stepped) <= planned + step - 1


def test_rows_are_made_alike_by_hand():
    # Six of 10 in rows of at most 49: 4 and 2, or 3 and 3 in rows of 30.
    items = [item_of([i], [[1] * 9]) for i in range(6)]
    assert [len(group) for group in plan_trees(items, 49)] == [4, 2]
    assert [len(group) for group in plan_trees(items, 49, 5)] == [3, 3]


@given(items=some_items())
@settings(deadline=None, max_examples=60)
def test_the_length_of_a_row_is_known_before_it_is_laid_out(items):
    assert length(items) == len(lay_out(items))


@given(lengths=st.lists(st.integers(1, 50), max_size=30), budget=st.integers(1, 200))
@settings(deadline=None, max_examples=60)
def test_batches_hold_each_sequence_once_within_the_budget_padding_included(lengths, budget):
    batches = plan_batches(lengths, budget)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= budget


# How a row is laid out.


def test_a_row_by_hand():
    row = lay_out(
        [item_of([7, 7, 8], [[1], [2, 3]], gate_at=2), item_of([7, 9], [[4, 5], [6]], gate_at=0)]
    )
    # The root is the one token 7.
    ids, positions, until = row.tokens.tolist()
    item, branch = row.numbers.tolist()
    assert ids == [7, 7, 8, 1, 2, 3, 9, 4, 5, 6]
    assert positions == [0, 1, 2, 3, 3, 4, 1, 2, 3, 2]
    assert item == [0, 1, 1, 1, 1, 1, 2, 2, 2, 2]
    assert branch == [0, 0, 0, 1, 2, 2, 0, 1, 1, 2]
    assert until == [9, 5, 5, 3, 5, 5, 9, 8, 8, 9]
    assert row.read_at.tolist() == [3, 5, 8, 9]
    assert row.gate_at.tolist() == [2, 0]
    assert [(c.start, c.stop, c.context) for c in row.chains] == [
        (0, 4, ()),
        (4, 6, ((0, 3),)),
        (6, 9, ((0, 1),)),
        (9, 10, ((0, 1), (6, 7))),
    ]


def test_padding_is_one_more_item_at_the_end():
    row = lay_out([item_of([7], [[1], [2]]), item_of([8], [[3]])], multiple=4)
    assert row.tokens[0].tolist() == [7, 1, 2, 8, 3, 0, 0, 0]
    assert row.numbers[0].tolist() == [1, 1, 1, 2, 2, 3, 3, 3]
    assert row.tokens[2].tolist() == [2, 1, 2, 4, 4, 7, 7, 7]
    assert row.read_at.tolist() == [1, 2, 4]


def path(row, at: int) -> list[int]:
    """The ids that the token sees, itself included, in the order of their positions."""
    (ids, positions, until), (item, branch) = row.tokens, row.numbers
    k = np.arange(at + 1)
    mine = (item[k] == item[at]) & ((branch[k] == 0) | (branch[k] == branch[at]))
    seen = np.flatnonzero((item[k] == 0) | mine)
    assert positions[seen].tolist() == list(range(len(seen)))
    assert seen.tolist() == np.flatnonzero(until[k] >= at).tolist()
    return ids[seen].tolist()


@given(items=some_items(), multiple=st.sampled_from([1, 8]))
@settings(deadline=None, max_examples=100)
def test_each_read_token_sees_its_sequence_and_nothing_else(items, multiple):
    row = lay_out(items, multiple)
    sequences = [ids for item in items for ids in item.sequences]
    assert [path(row, at) for at in row.read_at] == [ids.tolist() for ids in sequences]
    for item, at in zip(items, row.gate_at, strict=True):
        assert path(row, at) == item.sequences[0][: item.gate_at + 1].tolist()


@given(items=some_items())
@settings(deadline=None, max_examples=60)
def test_chains_cover_the_row_and_say_the_same_as_the_numbers(items):
    row = lay_out(items)
    spans = [(chain.start, chain.stop) for chain in row.chains]
    assert [start for start, _ in spans] == [0, *(stop for _, stop in spans[:-1])]
    assert spans[-1][1] == len(row)
    for chain in row.chains:
        context = [i for start, stop in chain.context for i in range(start, stop)]
        assert chain.n_context == len(context)
        seen = [*context, *range(chain.start, chain.stop)]
        assert path(row, chain.stop - 1) == row.tokens[0][seen].tolist()


@given(items=some_items())
@settings(deadline=None, max_examples=60)
def test_prompts_and_the_root_are_there_once(items):
    root = common(items) if len(items) > 1 else 0
    tree = sum(item.n_tokens for item in items)
    assert len(lay_out(items)) == tree - root * (len(items) - 1)


def test_the_root_ends_where_the_prompts_differ_or_one_branches():
    a, b = item_of([1, 2, 3, 4], [[5]]), item_of([1, 2, 3, 9], [[5]])
    assert common([a, b]) == 3
    assert common([a, item_of([1, 2, 3, 4], [[5], [6]], n_shared=2)]) == 2
    assert common([a, item_of([7], [[5]])]) == 0
    assert common([a]) == 4


def test_equal_responses_are_computed_once():
    item, which = distinct(item_of([1], [[2, 3], [4], [2, 3], [2], [4]]))
    assert [ids.tolist() for ids in item.sequences] == [[1, 2, 3], [1, 4], [1, 2]]
    assert which == [0, 1, 0, 2, 1]


@pytest.mark.parametrize("multiple", [1, 128])
def test_many_items_are_laid_out_in_the_time_of_a_few_array_operations(multiple):
    # No loop over tokens: a million of them in a row of two hundred items.
    import time

    prompt = np.arange(2500) % 7
    items = [item_of(prompt, [prompt, prompt + n]) for n in range(1, 134)]
    start = time.perf_counter()
    row = lay_out(items, multiple)
    assert len(row) > 650_000
    assert time.perf_counter() - start < 0.5
