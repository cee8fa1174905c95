"""A response's score doesn't depend on its neighbours, the batch, padding or packing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.errors import ModelError
from lib.extraction import attention, pack
from lib.extraction import forward as forwards
from lib.extraction.forward import forward
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
    "trees, block mask": {"packing": "trees", "kernel": "flex"},
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
@settings(deadline=None, max_examples=40)
def test_any_shape_packed_any_way_gives_the_states_of_each_alone(tiny, items, way, budget, pad_id):
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
    # To the last bit, so that they tie.
    item = item_of([1, 2, 3], [[4, 5], [4], [4, 5]], n_shared=2)
    for way in WAYS.values():
        found = forward(tiny, [item_of([9], [[9]]), item], **way).hidden[1:]
        assert (found[0] == found[2]).all()
        assert np.abs(found[0] - found[1]).max() > 0.01


def test_states_come_back_in_the_order_of_the_items(tiny):
    # Longest first inside, in order outside.
    items = [item_of([n, 1], [[2] * n, [3] * (2 * n)]) for n in (1, 3, 5)]
    together = forward(tiny, items, budget=20)  # rows of items 2, of 1 and 0
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
    with pytest.raises(IndexError):  # not in the vocabulary
        forward(tiny, [item_of([1], [[10_000]])])
    assert tiny.config._attn_implementation == before


def test_an_unknown_packing_is_an_error_and_not_the_other_one(tiny):
    with pytest.raises(ModelError, match=r"Did you mean 'trees'. Known: padded, trees"):
        forward(tiny, [item_of([1], [[2]])], packing="tree")


def test_progress_adds_up_to_the_items(tiny):
    steps = []
    items = [item_of([1, 2], [[n]]) for n in range(7)]
    forward(tiny, items, budget=4, on_step=steps.append)
    assert steps == [2, 2, 2, 1]  # they share 1, 2; then a token each
    steps.clear()
    forward(tiny, items, "padded", budget=6, on_step=steps.append)
    assert steps == [2, 2, 2, 1]  # three tokens each


# Memory.


@pytest.mark.parametrize("packing", ["trees", "padded"])
@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory."),
        RuntimeError("DefaultCPUAllocator: can't allocate memory"),
        MemoryError(),
    ],
)
def test_without_memory_for_a_row_the_budget_is_halved_and_nothing_lost(
    tiny, monkeypatch, packing, error
):
    items = [item_of([1, 2, n], [[3], [4, n]]) for n in range(9)]
    expected = forward(tiny, items, packing)
    sizes, calls = [], tiny.forward

    def small(*args, input_ids, **options):
        sizes.append(input_ids.numel())
        if input_ids.numel() > 20:
            raise error
        return calls(*args, input_ids=input_ids, **options)

    monkeypatch.setattr(tiny, "forward", small)
    steps = []
    found = forward(tiny, items, packing, budget=64, on_step=steps.append)
    assert (expected.budget, found.budget) == (forwards.CPU_BUDGET, 16)
    assert sum(steps) == 9
    assert max(sizes) > 20 >= sizes[-1]
    assert found.hidden == pytest.approx(expected.hidden, abs=1e-4)
    assert found.gate_hidden == pytest.approx(expected.gate_hidden, abs=1e-4)


def test_without_memory_for_one_item_the_error_says_how_long_it_is(tiny, monkeypatch):
    def none(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(tiny, "forward", none)
    with pytest.raises(ModelError, match=r"item of 5 tokens; found too little"):
        forward(tiny, [item_of([1], [[2]]), item_of([1], [[2, 3], [4, 5]])])
    assert tiny.config._attn_implementation != "branching"


def test_another_error_is_no_lack_of_memory(tiny, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("shape mismatch")

    monkeypatch.setattr(tiny, "forward", broken)
    with pytest.raises(RuntimeError, match="shape mismatch"):
        forward(tiny, [item_of([1], [[2]]), item_of([1], [[3]])])


# What the GPU does, as far as a CPU can tell.


def test_rows_of_the_block_mask_have_one_of_a_few_lengths(tiny, monkeypatch):
    lengths, lay_out = [], pack.lay_out

    def noted(*args):
        lengths.append(len(lay_out(*args)))
        return lay_out(*args)

    monkeypatch.setattr(pack, "lay_out", noted)
    items = [item_of([n], [[1] * n, [2] * n]) for n in range(1, 60)]
    forward(tiny, items, budget=1024, kernel="flex")
    assert lengths == [1024, 1024, 1024, 640]  # 59 + 2 · 1,770 = 3,599 tokens, in steps of 128


def test_rows_of_another_length_than_most_are_hardly_padded(tiny, monkeypatch):
    common, states = [], attention.states
    monkeypatch.setattr(
        attention,
        "states",
        lambda backbone, row, kernel, often: (
            common.append((len(row), often)) or states(backbone, row, kernel, often)
        ),
    )
    giant = item_of([1], [[1] * 300, [2] * 190])
    items = [giant, *(item_of([n % 9], [[1] * 100, [2] * 27]) for n in range(18))]
    monkeypatch.setattr(forwards, "row_step", lambda budget: 256)
    found = forward(tiny, items, budget=512, kernel="flex")
    # 128 tokens each: four a row, and two are left; the giant of 491 has a row of its own.
    assert sorted(common) == [(256, False), *[(512, True)] * 5]
    assert found.tokens == 5 * 512 + 256
    alone = forward(tiny, [giant], budget=512, kernel="flex")
    assert alone.tokens == 512


def test_compiled_layers_are_used_for_full_rows_alone_and_put_back(tiny, monkeypatch):
    used = []
    for layer in tiny.layers:
        monkeypatch.setattr(
            layer,
            "compile",
            lambda layer=layer, **_: setattr(
                layer,
                "_compiled_call_impl",
                lambda x, *a, **o: used.append(x.shape[1]) or layer._call_impl(x, *a, **o),
            ),
        )
    items = [item_of([n % 9], [[1] * 30, [2] * 30]) for n in range(20)]  # 61 tokens each
    plain = forward(tiny, items, budget=512, kernel="flex")
    assert used == []
    found = forward(tiny, items, budget=512, kernel="flex", compiled=True)
    assert used == [512, 512]  # eight items a row, all layers but the last; four are a shorter row
    assert all(layer._compiled_call_impl is None for layer in tiny.layers)
    assert (found.hidden == plain.hidden).all()
    for layer in tiny.layers[:-1]:
        del layer._compiled_for_rows
