"""A response's score doesn't depend on its neighbours, the batch, padding or packing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.errors import ModelError
from lib.extraction import attention
from lib.extraction.forward import forward, plan
from lib.models.prompt import EncodedItem, PromptFormat

TOLERANCE = 1e-4  # of a head's standard deviation over the responses


def item_of(prompt, branches, n_shared=None, gate_at=0) -> EncodedItem:
    """An item whose sequences are the prompt with each branch."""
    prompt = list(prompt)
    return EncodedItem(
        sequences=[np.asarray([*prompt, *branch], np.int64) for branch in branches],
        n_prompt=len(prompt),
        n_shared=len(prompt) if n_shared is None else n_shared,
        gate_at=gate_at,
    )


def alone(backbone, items) -> tuple[np.ndarray, np.ndarray]:
    """The definition: each sequence by itself, no mask, no padding, one forward each."""
    hidden, gates = [], []
    with torch.inference_mode():
        for item in items:
            for ids in item.sequences:
                states = backbone(input_ids=torch.from_numpy(ids)[None]).last_hidden_state[0]
                hidden.append(states[-1].numpy())
            gates.append(states[item.gate_at].numpy())
    return np.stack(hidden), np.stack(gates)


def scores(hidden: np.ndarray) -> np.ndarray:
    """Sixteen random linear heads."""
    return hidden @ np.random.default_rng(0).standard_normal((hidden.shape[1], 16))


def assert_same_scores(found: np.ndarray, expected: np.ndarray) -> None:
    sd = scores(expected).std(axis=0)
    assert (np.abs(scores(found) - scores(expected)) <= TOLERANCE * sd).all()


WAYS = {
    "trees": {"packing": "trees"},
    "trees, an item a row": {"packing": "trees", "budget": 1},
    "padded right": {"packing": "padded"},
    "padded left": {"packing": "padded", "padding_side": "left"},
    "padded, one at a time": {"packing": "padded", "budget": 1},
    "padded, other neighbours": {"packing": "padded", "budget": 130, "padding_side": "left"},
}


# The embedded backbone.


@pytest.fixture(scope="module")
def real_items(embedded) -> list[EncodedItem]:
    form = PromptFormat(embedded[1], "smol-armo", "<|im_end|>")
    talk = [("user", "Hi"), ("assistant", "Hello!"), ("user", "Name a colour.")]
    return [
        form.encode([{"role": r, "content": c} for r, c in prompt], responses)
        for prompt, responses in [
            ([("user", "2 + 2?")], ["4", "It is five, as everyone knows.", "\n\n4"]),
            (talk, ["Blue.", "Blue is a colour that I like, and so is red."]),
            ([("user", "Say <|im_end|> twice")], ["<|im_end|> <|im_end|>", "No."]),
            ([("user", "Same?")], ["Yes.", "Yes."]),
            ([("system", "Be brief."), ("user", "One answer.")], ["Fine."]),
        ]
    ]


@pytest.fixture(scope="module")
def real_alone(embedded, real_items):
    return alone(embedded[0], real_items)


# The tokenizer's pad id 2 is <|im_end|>, which every prompt holds; so is 198, a newline.
@pytest.mark.parametrize(
    ("way", "pad_id"), [("padded right", 2), ("padded left", 2), ("padded left", 198)]
)
def test_padding_moves_no_score_of_the_embedded_model(
    embedded, real_items, real_alone, way, pad_id
):
    assert all(2 in item.sequences[0] and 198 in item.sequences[0] for item in real_items)
    found = forward(embedded[0], real_items, pad_id=pad_id, **WAYS[way])
    assert_same_scores(found.hidden, real_alone[0])
    assert_same_scores(found.gate_hidden, real_alone[1])


@pytest.mark.parametrize("way", ["trees", "padded, other neighbours"])
def test_packing_moves_no_score_of_the_embedded_model(embedded, real_items, real_alone, way):
    found = forward(embedded[0], real_items, **WAYS[way])
    assert_same_scores(found.hidden, real_alone[0])
    assert_same_scores(found.gate_hidden, real_alone[1])


# Tiny random models, many shapes.


@pytest.fixture(scope="module")
def tiny(tiny_llama):
    return tiny_llama()


tokens = st.lists(st.integers(0, 5), min_size=1, max_size=9)


@st.composite
def some_items(draw) -> list[EncodedItem]:
    """One to four items over six tokens, so that prefixes repeat and pad ids abound."""
    items = []
    for _ in range(draw(st.integers(1, 4))):
        prompt = draw(tokens)
        branches = draw(st.lists(tokens, min_size=1, max_size=4))
        # What is shared may end before the prompt does, where tokens merge over the seam.
        n_shared = draw(st.integers(1, len(prompt)))
        items.append(item_of(prompt, branches, n_shared, draw(st.integers(0, n_shared - 1))))
    return items


@given(
    items=some_items(),
    way=st.sampled_from(sorted(WAYS)),
    budget=st.integers(1, 80),
    pad_id=st.integers(0, 6),
)
@settings(deadline=None, max_examples=50)
def test_any_shape_packed_any_way_gives_the_states_of_each_alone(
    tiny, items, way, budget, pad_id
):
    found = forward(tiny, items, pad_id=pad_id, **{"budget": budget, **WAYS[way]})
    hidden, gates = alone(tiny, items)
    # States after the final norm have a mean square of 1.
    assert np.abs(found.hidden - hidden).max() < 1e-4
    assert np.abs(found.gate_hidden - gates).max() < 1e-4
    assert found.hidden.dtype == found.gate_hidden.dtype == np.float32


def test_the_test_would_see_a_leak(tiny):
    # Were branches to see each other, the second would be a continuation of the first.
    item = item_of([3, 1, 4], [[1, 5], [2, 2]])
    chained = item_of([3, 1, 4, 1, 5], [[2, 2]])
    apart, leaking = alone(tiny, [item])[0][1], alone(tiny, [chained])[0][0]
    assert np.abs(apart - leaking).max() > 0.01


@pytest.mark.parametrize("way", ["trees", "padded right", "padded left"])
def test_learned_positions_count_from_the_start_of_each_sequence(way):
    # Rotary positions are relative, so only such a model can tell.
    from transformers import GPT2Config, GPT2Model

    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=12, n_embd=16, n_layer=2, n_head=2, n_positions=32, initializer_range=0.3
    )
    backbone = GPT2Model(config).eval().requires_grad_(False)
    items = [item_of([1, 2, 3], [[4], [5, 6, 7]]), item_of([8], [[9, 9, 9, 9, 9, 9], [1]])]
    found = forward(backbone, items, **WAYS[way])
    hidden, gates = alone(backbone, items)
    assert np.abs(found.hidden - hidden).max() < 1e-4
    assert np.abs(found.gate_hidden - gates).max() < 1e-4


def test_identical_responses_score_exactly_alike(tiny):
    found = forward(tiny, [item_of([1, 2, 3], [[4, 5], [4, 5], [4]], n_shared=2)])
    assert np.abs(found.hidden[0] - found.hidden[1]).max() < 1e-6
    assert np.abs(found.hidden[0] - found.hidden[2]).max() > 0.01


def test_states_come_back_in_the_order_of_the_items(tiny):
    # Longest first inside, in order outside.
    items = [item_of([n, 1], [[2] * n, [3] * (2 * n)]) for n in (1, 3, 5)]
    together = forward(tiny, items, budget=30)  # a row of items 2 and 1, then item 0
    for i, item in enumerate(items):
        single = forward(tiny, [item])
        assert together.hidden[2 * i : 2 * i + 2] == pytest.approx(single.hidden, abs=1e-4)
        assert together.gate_hidden[i] == pytest.approx(single.gate_hidden[0], abs=1e-4)


@pytest.mark.parametrize("way", ["trees", "padded left"])
def test_low_precision_states_are_given_as_float32_and_stay_close(tiny_llama, way):
    items = [item_of([1, 2, 3], [[4, 5], [6]]), item_of([7], [[8, 9, 10, 11]])]
    exact = forward(tiny_llama(), items, **WAYS[way])
    found = forward(tiny_llama().bfloat16(), items, **WAYS[way])
    assert found.hidden.dtype == np.float32
    # bfloat16 keeps 8 bits: about .4% a step, some steps deep.
    assert np.abs(found.hidden - exact.hidden).mean() < 0.1


def test_the_models_own_attention_is_put_back(tiny):
    before = tiny.config._attn_implementation
    forward(tiny, [item_of([1], [[2]])])
    assert tiny.config._attn_implementation == before
    with pytest.raises(IndexError):
        forward(tiny, [item_of([1], [[10_000]])])  # not in the vocabulary
    assert tiny.config._attn_implementation == before


def test_an_unknown_packing_is_an_error_and_not_the_other_one(tiny):
    with pytest.raises(ModelError, match=r"Did you mean 'trees'. Known: padded, trees"):
        forward(tiny, [item_of([1], [[2]])], packing="tree")


def test_progress_adds_up_to_the_items(tiny):
    steps = []
    items = [item_of([1, 2], [[n]]) for n in range(7)]
    forward(tiny, items, budget=6, on_step=steps.append)
    assert sum(steps) == 7
    assert max(steps) == 2  # three tokens each


# The plan of rows, and one row by hand.


@given(sizes=st.lists(st.integers(1, 50), max_size=30), budget=st.integers(1, 120))
@settings(deadline=None, max_examples=60)
def test_rows_hold_each_item_once_within_the_budget(sizes, budget):
    groups = list(plan(sizes, budget))
    assert sorted(i for group in groups for i in group) == list(range(len(sizes)))
    for group in groups:
        assert len(group) == 1 or sum(sizes[i] for i in group) <= budget


def test_a_row_by_hand():
    row = attention.lay_out([item_of([7, 8], [[1], [2, 3]], gate_at=1), item_of([9], [[4, 5]])])
    assert row.ids.tolist() == [7, 8, 1, 2, 3, 9, 4, 5]
    assert row.positions.tolist() == [0, 1, 2, 2, 3, 0, 1, 2]
    assert row.read_at.tolist() == [2, 4, 7]
    assert row.gate_at.tolist() == [1, 5]
    spans = [(s.start, s.stop, s.prompt_start, s.prompt_stop) for s in row.segments]
    assert spans == [(0, 2, 0, 0), (2, 3, 0, 2), (3, 5, 0, 2), (5, 6, 5, 5), (6, 8, 5, 6)]
    # The branch 2, 3 sees both tokens of its prompt and itself causally.
    assert row.segments[2].mask.int().tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]]


@given(items=some_items())
@settings(deadline=None, max_examples=30)
def test_a_row_computes_each_prompt_once(items):
    row = attention.lay_out(items)
    assert len(row.ids) == len(row.positions) == sum(item.n_tokens for item in items)
