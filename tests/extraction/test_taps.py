"""Taps hear, of whatever shares a row or batch, what each response alone would give."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoConfig, AutoModel

from lib.errors import ModelError
from lib.extraction import pack
from lib.extraction.forward import forward
from lib.extraction.taps import TAPS, Places, Port, Tap, last, listening, mean, resolve
from lib.models.prompt import EncodedItem

BOTH = ("layers", "neurons")
TOLERANCE = 1e-5  # of a variable's standard deviation over responses
KINDS = {
    "llama": {"num_key_value_heads": 2},
    "qwen2": {"num_key_value_heads": 2},
    "gpt_neox": {"rotary_pct": 0.5},
    "gpt2": {"n_inner": 48},
}
# The MLP's activation written out: of what enters the MLP, before anything is multiplied.
ACTIVATION = {
    "llama": lambda mlp, x: _silu(mlp.gate_proj(x)),
    "qwen2": lambda mlp, x: _silu(mlp.gate_proj(x)),
    "gpt_neox": lambda mlp, x: 0.5 * _h(mlp, x) * (1 + torch.erf(_h(mlp, x) / 2**0.5)),
    "gpt2": lambda mlp, x: _gelu_of_gpt2(mlp.c_fc(x)),
}
NORM = {"llama": "norm", "qwen2": "norm", "gpt_neox": "final_layer_norm", "gpt2": "ln_f"}
BLOCK_MASK = "trees, block mask"
WAYS = {
    "trees": {"packing": "trees"},
    BLOCK_MASK: {"packing": "trees", "kernel": "flex"},
    "padded right": {"packing": "padded"},
    "padded left": {"packing": "padded", "padding_side": "left"},
}


def _silu(x):
    return x / (1 + torch.exp(-x))


def _h(mlp, x):
    return mlp.dense_h_to_4h(x)


def _gelu_of_gpt2(x):
    return 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)))


def backbone_of(kind: str, **options) -> torch.nn.Module:
    """Two layers of random weights, wide enough for states to differ."""
    config = AutoConfig.for_model(
        kind,
        **{
            "vocab_size": 40,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "max_position_embeddings": 128,
            "initializer_range": 0.3,
            **KINDS[kind],
            **options,
        },
    )
    torch.manual_seed(0)
    return AutoModel.from_config(config).eval().requires_grad_(False)


@pytest.fixture(scope="module")
def backbones():
    return {kind: backbone_of(kind) for kind in KINDS}


def item_of(prompt, branches, n_shared=None) -> EncodedItem:
    """An item whose sequences are the prompt with each branch."""
    prompt = list(prompt)
    sequences = [np.asarray([*prompt, *branch], np.int64) for branch in branches]
    return EncodedItem(sequences, len(prompt), len(prompt) if n_shared is None else n_shared, 0)


def layers_of(backbone):
    return backbone.h if hasattr(backbone, "h") else backbone.layers


def alone(kind, backbone, items) -> tuple[np.ndarray, np.ndarray]:
    """The definition: each sequence by itself; a loop over its tokens for the means."""
    hidden, means = [], []
    with torch.inference_mode():
        for ids in (ids for item in items for ids in item.sequences):
            entering: list[torch.Tensor] = []

            def note(_, args, into=entering):
                into.append(args[0][0])

            hooks = [layer.mlp.register_forward_pre_hook(note) for layer in layers_of(backbone)]
            states = backbone(
                input_ids=torch.from_numpy(ids)[None], output_hidden_states=True
            ).hidden_states
            for hook in hooks:
                hook.remove()
            hidden.append(np.stack([layer[0, -1].numpy() for layer in states]))
            rows = []
            for layer, x in zip(layers_of(backbone), entering, strict=True):
                total = 0
                for token in x:
                    total = total + ACTIVATION[kind](layer.mlp, token).double()
                rows.append((total / len(ids)).numpy())
            means.append(np.stack(rows))
    return np.stack(hidden), np.stack(means)


def assert_heard(kind, backbone, found, items, tolerance=TOLERANCE) -> None:
    hidden, means = alone(kind, backbone, items)
    stream, neurons = found.taps["layer_hidden"], found.taps["neuron_mean"]
    assert stream.dtype == neurons.dtype == np.float32
    assert stream.shape == hidden.shape == (len(hidden), 3, 32)
    assert neurons.shape == means.shape == (len(hidden), 2, 48)
    for layer in range(2):
        close(stream[:, layer], hidden[:, layer], tolerance)
        close(neurons[:, layer], means[:, layer], tolerance)
    # transformers gives its last entry after the final norm.
    with torch.inference_mode():
        normed = getattr(backbone, NORM[kind])(torch.from_numpy(stream[:, 2])).numpy()
    close(normed, hidden[:, 2], tolerance)
    close(normed, found.hidden, tolerance)


def close(found, expected, tolerance) -> None:
    assert np.abs(found - expected).max() <= tolerance * expected.std()


# Two items under one root, one of them its own root's end; equal responses; a prompt whose
# last token belongs to the branches; a long one.
ITEMS = [
    item_of([1, 2, 3], [[4, 5], [6], [4, 5], [7, 8, 9, 10, 11]]),
    item_of([1, 2], [[12]]),
    item_of([1, 2, 13, 14], [[15, 16, 17], [18]], n_shared=3),
    item_of([1, 2, 3, 3], [[19] * 30, list(range(20, 39))]),
]


# GPT-2's own code takes no block mask.
@pytest.mark.parametrize(
    ("kind", "way"), [(k, w) for k in KINDS for w in WAYS if (k, w) != ("gpt2", BLOCK_MASK)]
)
def test_taps_hear_what_each_response_alone_gives(backbones, kind, way):
    found = forward(backbones[kind], ITEMS, taps=BOTH, **WAYS[way])
    assert_heard(kind, backbones[kind], found, ITEMS)


tokens = st.lists(st.integers(0, 5), min_size=1, max_size=9)


@st.composite
def some_items(draw) -> list[EncodedItem]:
    """One to four items over six tokens, so that prefixes repeat."""
    items = []
    for _ in range(draw(st.integers(1, 4))):
        prompt = draw(tokens)
        branches = draw(st.lists(tokens, min_size=1, max_size=4))
        items.append(item_of(prompt, branches, draw(st.integers(1, len(prompt)))))
    return items


@given(
    items=some_items(),
    way=st.sampled_from(sorted(WAYS)),
    budget=st.integers(1, 80),
    pad_id=st.integers(0, 6),
)
@settings(deadline=None, max_examples=30)
def test_any_shape_packed_any_way_is_heard_alike(backbones, items, way, budget, pad_id):
    found = forward(backbones["llama"], items, budget=budget, pad_id=pad_id, taps=BOTH, **WAYS[way])
    # Bounds are absolute: over a response or two a standard deviation can be next to nothing.
    hidden, means = alone("llama", backbones["llama"], items)
    assert np.abs(found.taps["layer_hidden"][:, :2] - hidden[:, :2]).max() < 1e-4
    assert np.abs(found.taps["neuron_mean"] - means).max() < 1e-4


def test_entry_0_is_the_embedding(backbones):
    backbone = backbones["llama"]
    found = forward(backbone, ITEMS, taps="layers").taps["layer_hidden"]
    read = [ids[-1] for item in ITEMS for ids in item.sequences]
    assert (found[:, 0] == backbone.embed_tokens.weight[read].numpy()).all()


def test_equal_responses_are_heard_alike_to_the_last_bit(backbones):
    for way in WAYS.values():
        found = forward(backbones["llama"], ITEMS, taps=BOTH, **way).taps
        assert set(found) == {"layer_hidden", "neuron_mean"}
        for values in found.values():
            assert (values[0] == values[2]).all()
            assert (values[0] != values[1]).any()


@pytest.mark.parametrize("way", WAYS)
def test_listening_changes_no_state_and_leaves_nothing_behind(backbones, way):
    backbone = backbones["llama"]
    before = hooks_on(backbone)  # transformers leaves its own for ``output_hidden_states``
    plain = forward(backbone, ITEMS, **WAYS[way])
    tapped = forward(backbone, ITEMS, taps=BOTH, **WAYS[way])
    assert (plain.hidden == tapped.hidden).all()
    assert (plain.gate_hidden == tapped.gate_hidden).all()
    assert plain.taps == {}
    assert list(tapped.taps) == ["layer_hidden", "neuron_mean"]
    assert hooks_on(backbone) == before


def hooks_on(backbone) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in backbone.modules())


def test_hooks_are_gone_after_an_error_too(backbones):
    before = hooks_on(backbones["llama"])
    with pytest.raises(IndexError):  # not in the vocabulary
        forward(backbones["llama"], [item_of([1], [[10_000]])], taps=BOTH)
    assert hooks_on(backbones["llama"]) == before


def test_low_precision_is_given_as_float32_and_summed_in_it():
    found = forward(backbone_of("llama").bfloat16(), ITEMS, taps=BOTH).taps
    assert {values.dtype for values in found.values()} == {np.dtype(np.float32)}
    ones = torch.ones(1000, 1, dtype=torch.bfloat16)
    places = Places(*map(torch.tensor, ([999], [1000], [[0]])))
    assert mean(ones, places) == 1  # 256 + 1 is 256 in bfloat16


@pytest.mark.parametrize("packing", ["trees", "padded"])
def test_a_row_that_memory_had_no_room_for_is_forgotten(backbones, monkeypatch, packing):
    backbone = backbones["llama"]
    expected = forward(backbone, ITEMS, packing, taps=BOTH)
    calls = backbone.norm.forward  # after everything has been heard

    def small(states):
        if states.shape[0] * states.shape[1] > 60:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return calls(states)

    monkeypatch.setattr(backbone.norm, "forward", small)
    found = forward(backbone, ITEMS, packing, taps=BOTH)
    assert found.budget < expected.budget
    for name, values in expected.taps.items():
        close(found.taps[name], values, TOLERANCE)


def test_layers_are_not_compiled_while_taps_listen(backbones, monkeypatch):
    used = []

    def noted(*_):
        used.append(True)
        raise AssertionError

    monkeypatch.setattr("lib.extraction.attention.compiled_layers", noted)
    items = [item_of([n], [[1] * 60, [2] * 60]) for n in range(10)]  # 605 tokens a row
    with pytest.raises(AssertionError):
        forward(backbones["llama"], items, budget=605, kernel="flex", compiled=True)
    used.clear()
    found = forward(backbones["llama"], items, budget=605, kernel="flex", compiled=True, taps=BOTH)
    assert used == []
    assert found.taps["neuron_mean"].shape == (20, 2, 48)


# Where tokens lie.


def test_a_responses_parts_are_its_root_prompt_and_branch():
    row = pack.lay_out([item_of([1, 2, 3], [[4, 5], [6]]), item_of([1, 2], [[7, 8, 9]])], 8)
    # 1 2 | 3 | 4 5 | 6 | (no prompt of its own) | 7 8 9 | padding to 16
    places = Places.of_row(row)
    assert places.pieces.tolist() == [2, 1, 2, 1, 0, 3, 7]
    assert places.parts.tolist() == [[0, 1, 2], [0, 1, 3], [0, 4, 5]]
    assert places.last.tolist() == [4, 5, 8]


def test_a_line_of_a_batch_is_padding_a_sequence_and_padding():
    places = Places.of_batch(np.array([0, 3]), np.array([5, 2]), 5)  # the second on the right
    assert places.pieces.tolist() == [0, 5, 0, 3, 2, 0]
    assert places.parts.tolist() == [[1], [4]]
    assert places.last.tolist() == [4, 9]


def test_means_and_last_states_by_hand():
    states = torch.tensor([[1.0], [2.0], [4.0], [8.0], [16.0], [torch.nan]])
    # Root 1; prompt 2; branches 4 and 8, 16; padding that isn't a number.
    places = Places(*map(torch.tensor, ([2, 4], [1, 1, 1, 2, 1], [[0, 1, 2], [0, 1, 3]])))
    assert mean(states, places)[:, 0].tolist() == pytest.approx([7 / 3, 27 / 4])
    assert last(states, places)[:, 0].tolist() == [4, 16]


# The interface.


def test_a_tap_of_ones_own_listens_wherever_it_names(backbones):
    attention = Tap("attention_mean", lambda b: [Port(layer.self_attn) for layer in b.layers], mean)
    given = Tap("mlp_input", lambda b: [Port(b.layers[1].mlp, given=True)], last)
    found = forward(backbones["llama"], ITEMS, taps=["layers", attention, given]).taps
    assert {name: values.shape for name, values in found.items()} == {
        "layer_hidden": (9, 3, 32),
        "attention_mean": (9, 2, 32),
        "mlp_input": (9, 1, 32),
    }
    # What an MLP and an attention write is what their layer adds to the stream.
    after = Tap("mlp_output", lambda b: [Port(layer.mlp) for layer in b.layers], last)
    written = Tap("attention", attention.ports, last)
    found = forward(backbones["llama"], ITEMS, taps=["layers", written, after]).taps
    close(
        found["layer_hidden"][:, :2] + found["attention"] + found["mlp_output"],
        found["layer_hidden"][:, 1:],
        TOLERANCE,
    )


def test_names_are_taken_once_and_unknown_ones_refused(backbones):
    assert resolve("layers") == resolve(["layers", TAPS["layers"]]) == [TAPS["layers"]]
    with pytest.raises(
        ModelError, match=r"Did you mean 'neurons'. Known: attended, layers, neurons, writes"
    ):
        forward(backbones["llama"], ITEMS, taps=["neuron"])
    with pytest.raises(ModelError, match="two for 'layer_hidden'"):
        resolve(["layers", replace(TAPS["layers"], reduce=mean)])


def test_a_backbone_without_what_a_tap_listens_to_is_an_error_that_says_so():
    backbone = backbone_of("llama")
    del backbone.layers[1].mlp.act_fn
    with pytest.raises(ModelError, match=r"act_fn.*found none in layer 2 of LlamaModel"):
        forward(backbone, ITEMS, taps="neurons")
    assert hooks_on(backbone) == 0
    with (
        pytest.raises(ModelError, match="layers or h; found none in Linear"),
        listening(torch.nn.Linear(2, 2), resolve("layers")),
    ):
        pass


def test_a_module_that_is_not_called_once_a_token_is_an_error_and_no_number():
    backbone = backbone_of("llama")
    backbone.layers[1].mlp.act_fn = backbone.layers[0].mlp.act_fn
    with pytest.raises(ModelError, match="or several calls"):
        forward(backbone, ITEMS, taps="neurons")
    silent = backbone_of("llama")
    silent.layers[0].mlp.forward = lambda x: x  # as a fused kernel would
    with pytest.raises(ModelError, match="found none at 1 of them"):
        forward(silent, ITEMS, taps="neurons")
    few = Tap("few", lambda b: [Port(b.norm)], mean)
    silent.norm.forward = lambda x: x[:, :2]
    with pytest.raises(ModelError, match=r"shape \(1, 2, 32\) for"):
        forward(silent, ITEMS, taps=few)
