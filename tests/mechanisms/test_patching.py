"""A patched run is what the whole model gives with that one output replaced by a hook."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from made_up import TEXTS

from lib.data.items import Builder
from lib.errors import DataError, ModelError
from lib.mechanisms import patching
from lib.mechanisms.patching import ATTENTION, BOTH_ENDS, EMBEDDING, LEFT, MLP, STREAM, aligned
from lib.mechanisms.tracing import FINAL
from lib.models import anatomy as anatomies

KINDS = ("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "gpt2")
PREFIX = np.array([1, 5, 9, 200, 31, 7, 7, 90])
LONG, SHORT = np.array([3, 14, 15, 92, 65, 35, 89, 79]), np.array([27, 18, 28, 18, 28])


@pytest.fixture(scope="module")
def backbones(write_tiny):
    return {kind: write_tiny.backbone(kind).requires_grad_(False) for kind in KINDS}


def whole(backbone, ids, hooks=()):
    """States of a text in the model's own attention, with hooks in place: (tokens, features)."""
    handles = [register() for register in hooks]
    try:
        with torch.inference_mode():
            return backbone(input_ids=torch.as_tensor(ids)[None]).last_hidden_state[0]
    finally:
        for handle in handles:
            handle.remove()


def module_of(described, layer, part):
    found = described.layers[layer]
    return {ATTENTION: found.attention, MLP: found.mlp, STREAM: found.module}[part]


def replacing(module, at, values):
    def after(module, args, output):
        made = (output[0] if isinstance(output, tuple) else output).clone()
        made[0, at] = values
        return (made, *output[1:]) if isinstance(output, tuple) else made

    return lambda: module.register_forward_hook(after)


def heard(backbone, described, ids, layer, part):
    kept = []

    def after(module, args, output):
        kept.append((output[0] if isinstance(output, tuple) else output)[0])

    whole(backbone, ids, [lambda: module_of(described, layer, part).register_forward_hook(after)])
    return kept[0]


def patched(backbone, receiver, source, some, alignment=BOTH_ENDS):
    described = anatomies.describe(backbone)
    at, there = aligned(len(receiver), len(source), alignment)
    with patching.running(backbone, described) as runner:
        prefix = runner.prefix(PREFIX)
        recorded = runner.record(source, prefix, mixed=True)

        def values(layer, part, head):
            if head < 0:
                return recorded.outputs[layer, part][there]
            given = recorded.outputs[layer, patching.MIXED][there]
            width = given.shape[-1] // described.n_heads
            return given[:, head * width : (head + 1) * width]

        return runner.patched(receiver, prefix, some, at, values)[:, 0]


@pytest.mark.parametrize("kind", KINDS)
def test_each_node_is_what_a_hook_on_the_whole_run_gives(kind, backbones):
    backbone = backbones[kind]
    described = anatomies.describe(backbone)
    some = patching.nodes(described, (MLP, STREAM, ATTENTION))
    found = patched(backbone, LONG, SHORT, some)
    at, there = aligned(len(LONG), len(SHORT), BOTH_ENDS)
    for row, node in zip(found, some, strict=True):
        ((layer, part, _),) = node.places
        source = heard(backbone, described, np.append(PREFIX, SHORT), layer, part)
        hook = replacing(
            module_of(described, layer, part), at + len(PREFIX), source[there + len(PREFIX)]
        )
        right = whole(backbone, np.append(PREFIX, LONG), [hook])[-1]
        assert torch.allclose(row, right, atol=2e-4), node.name


@pytest.mark.parametrize("kind", KINDS)
def test_an_attention_head_is_its_slice_of_what_is_projected(kind, backbones):
    backbone = backbones[kind]
    described = anatomies.describe(backbone)
    some = patching.nodes(described, ("heads",))
    assert len(some) == 2 * described.n_heads
    found = patched(backbone, LONG, SHORT, some)
    at, there = aligned(len(LONG), len(SHORT), BOTH_ENDS)
    for row, node in zip(found, some, strict=True):
        ((layer, _, head),) = node.places
        kept = []
        out = described.layers[layer].out
        listen = lambda out=out, kept=kept: out.register_forward_pre_hook(  # noqa: E731
            lambda m, args: kept.append(args[0][0])
        )
        whole(backbone, np.append(PREFIX, SHORT), [listen])
        width = kept[0].shape[-1] // described.n_heads
        own = slice(head * width, (head + 1) * width)

        def before(module, args, own=own, kept=kept):
            given = args[0].clone()
            given[0, at + len(PREFIX), own] = kept[0][there + len(PREFIX), own]
            return (given, *args[1:])

        right = whole(
            backbone,
            np.append(PREFIX, LONG),
            [lambda out=out, before=before: out.register_forward_pre_hook(before)],
        )[-1]
        assert torch.allclose(row, right, atol=2e-4), node.name


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("receiver", "source"), [(LONG, SHORT), (SHORT, LONG), (LONG, LONG[::-1].copy())]
)
def test_everything_gives_the_sources_state_whatever_the_lengths(kind, receiver, source, backbones):
    backbone = backbones[kind]
    every = patching.everything(anatomies.describe(backbone))
    found = patched(backbone, receiver, source, [every])[0]
    right = whole(backbone, np.append(PREFIX, source))[-1]
    assert torch.allclose(found, right, atol=2e-4)


def test_from_the_left_the_last_token_of_a_longer_receiver_is_never_patched(backbones):
    every = patching.everything(anatomies.describe(backbones["llama"]))
    found = patched(backbones["llama"], LONG, SHORT, [every], LEFT)[0]
    source = whole(backbones["llama"], np.append(PREFIX, SHORT))[-1]
    assert (found - source).abs().max() > 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_patched_with_itself_is_the_run(kind, backbones):
    described = anatomies.describe(backbones[kind])
    some = [*patching.nodes(described, (ATTENTION, MLP, STREAM, "heads"))]
    found = patched(backbones[kind], LONG, LONG, [*some, patching.everything(described)])
    # To the last bit: each row is computed as the first one is, which isn't patched.
    with patching.running(backbones[kind], described) as runner:
        prefix = runner.prefix(PREFIX)
        empty = patching.Node("nothing", frozenset({(0, "nowhere", -1)}))
        none = runner.patched(LONG, prefix, [empty] * len(found), np.array([0]), None)[:, 0]
    assert torch.allclose(found, none, atol=1e-6)


@pytest.mark.parametrize(
    ("receiver", "source", "alignment", "at", "there"),
    [
        (5, 3, BOTH_ENDS, [0, 1, 4], [0, 1, 2]),
        (3, 5, BOTH_ENDS, [0, 1, 2], [0, 1, 4]),
        (1, 4, BOTH_ENDS, [0], [3]),
        (4, 4, BOTH_ENDS, [0, 1, 2, 3], [0, 1, 2, 3]),
        (5, 3, LEFT, [0, 1, 2], [0, 1, 2]),
    ],
)
def test_alignment_by_hand(receiver, source, alignment, at, there):
    found = aligned(receiver, source, alignment)
    assert [list(x) for x in found] == [at, there]


def test_a_sliding_window_is_kept(write_tiny):
    # A window of four tokens, shorter than the text: hooks on the whole run, whose mask is
    # the model's own, give the same.
    backbone = write_tiny.backbone("mistral", sliding_window=4).requires_grad_(False)
    described = anatomies.describe(backbone)
    every = patching.everything(described)
    found = patched(backbone, LONG, SHORT, [every])[0]
    right = whole(backbone, np.append(PREFIX, SHORT))[-1]
    assert torch.allclose(found, right, atol=2e-4)


def test_an_embedding_alone_is_replaced(backbones):
    backbone = backbones["llama"]
    node = patching.Node("embedding", frozenset({(0, EMBEDDING, -1)}))
    found = patched(backbone, LONG, SHORT, [node])[0]
    at, there = aligned(len(LONG), len(SHORT), BOTH_ENDS)
    swapped = LONG.copy()
    swapped[at] = SHORT[there]  # a token's embedding is all that it brings
    right = whole(backbone, np.append(PREFIX, swapped))[-1]
    assert torch.allclose(found, right, atol=2e-4)


# Whole comparisons.


def ids_of(model, n, text):
    return model.format.encode([{"role": "user", "content": TEXTS[n][0]}], [text])


def read(model, n, text, hooks=()):
    """Rewards, gate as the hooks leave it: (heads,), final."""
    item = ids_of(model, n, text)
    states = whole(model.backbone, item.sequences[0], hooks).float().numpy()
    found = model.read(states[-1:], states[item.gate_at][None])
    return np.append(found.score[0], found.final[0]), found.gate[0]


def test_noising_and_denoising_change_the_margin_towards_the_other_response(gated, pairs):
    found = patching.patch(gated, pairs)
    margin = np.stack(
        [read(gated, n, b)[0] - read(gated, n, w)[0] for n, (_, b, w) in enumerate(TEXTS)]
    )
    assert found["margin"].values == pytest.approx(margin, abs=1e-3)
    for mode in ("noising", "denoising"):
        every = found["effect"].sel(mode=mode, node="everything").values
        assert every == pytest.approx(-margin, abs=1e-3)
    # One node, by hooks: the better text is run with the worse one's MLP outputs.
    described = anatomies.describe(gated.backbone)
    better, worse = (ids_of(gated, 0, text).sequences[0] for text in TEXTS[0][1:])
    shared = int(np.argmin(better[: len(worse)] == worse[: len(better)][: len(better)]))
    at, there = (x + shared for x in aligned(len(better) - shared, len(worse) - shared, BOTH_ENDS))
    module = described.layers[0].mlp
    source = heard(gated.backbone, described, worse, 0, MLP)[there]
    hooked = read(gated, 0, TEXTS[0][1], [replacing(module, at, source)])[0]
    effect = found["effect"].sel(mode="noising", node="mlp 1").values[0]
    assert effect == pytest.approx(hooked - read(gated, 0, TEXTS[0][1])[0], abs=1e-3)


def test_zero_at_all_positions_moves_the_gate_too(gated, pairs):
    found = patching.patch(gated, pairs, modes=["zero"], positions="all")
    module = anatomies.describe(gated.backbone).layers[1].attention
    scores = []
    for text in TEXTS[0][1:]:
        hook = replacing(module, slice(None), 0.0)
        (clean, gate), (moved, again) = read(gated, 0, text), read(gated, 0, text, [hook])
        held = (moved[:-1] * gate).sum()
        assert np.abs(gate - again).max() > 1e-3
        scores.append(np.concatenate([moved[:-1], [held, moved[-1]]]) - np.append(clean, clean[-1]))
    effect = found["effect"].sel(mode="zero", node="attention 2").values[0]
    assert effect == pytest.approx(scores[0] - scores[1], abs=1e-3)
    assert list(found["head"].values[-2:]) == [FINAL, patching.GATE_AGAIN]


def test_a_mean_is_over_all_tokens_of_all_texts(gated, pairs):
    found = patching.patch(gated, pairs, modes=["mean"], positions="all")
    described = anatomies.describe(gated.backbone)
    every = [(n, text) for n, (_, better, worse) in enumerate(TEXTS) for text in (better, worse)]
    outputs = [
        heard(gated.backbone, described, ids_of(gated, n, text).sequences[0], 0, MLP)
        for n, text in every
    ]
    mean = torch.cat(outputs).mean(dim=0)
    hook = replacing(described.layers[0].mlp, slice(None), mean)
    moved = [read(gated, 1, text, [hook])[0] - read(gated, 1, text)[0] for text in TEXTS[1][1:]]
    effect = found["effect"].sel(mode="mean", node="mlp 1").values[1, :-2]
    assert effect == pytest.approx((moved[0] - moved[1])[:-1], abs=1e-3)


def test_a_resampled_output_is_another_items(gated, pairs):
    two = pairs.select(np.arange(len(pairs)) < 2)  # so that there is one other item
    found = patching.patch(gated, two, modes=["resample"], positions="all", alignment=LEFT)
    described = anatomies.describe(gated.backbone)
    moved = []
    for side in (1, 2):
        mine, theirs = (ids_of(gated, n, TEXTS[n][side]).sequences[0] for n in (0, 1))
        both = min(len(mine), len(theirs))
        source = heard(gated.backbone, described, theirs, 1, MLP)[:both]
        hook = replacing(described.layers[1].mlp, slice(0, both), source)
        moved.append(read(gated, 0, TEXTS[0][side], [hook])[0] - read(gated, 0, TEXTS[0][side])[0])
    effect = found["effect"].sel(mode="resample", node="mlp 2").values[0, :-2]
    assert effect == pytest.approx((moved[0] - moved[1])[:-1], abs=1e-3)


def test_little_memory_changes_nothing(gated, pairs, monkeypatch):
    right = patching.patch(gated, pairs, parts=("heads", "mlp"))
    patched = patching.Runner.patched

    def tight(self, ids, prefix, some, *rest):
        if len(some) > 3:
            raise torch.OutOfMemoryError("made up")
        return patched(self, ids, prefix, some, *rest)

    monkeypatch.setattr(patching.Runner, "patched", tight)
    found = patching.patch(gated, pairs, parts=("heads", "mlp"))
    assert found["effect"].values == pytest.approx(right["effect"].values, abs=1e-5)


def test_memory_for_not_one_row_is_an_error_that_says_so(gated, pairs, monkeypatch):
    def none(*arguments):
        raise torch.OutOfMemoryError("made up")

    monkeypatch.setattr(patching.Runner, "patched", none)
    with pytest.raises(ModelError, match="one patched row"):
        patching.patch(gated, pairs)


def test_what_cannot_be_patched_is_refused(gated, pairs):
    same = Builder("made-up")
    same.add("item", "question?", ["yes", "yes"], [(0, 1, "c", "s")])
    with pytest.raises(DataError, match="two texts"):
        patching.patch(gated, same.build())
    with pytest.raises(DataError, match="two items"):
        patching.patch(gated, pairs.select(np.array([True, False]), "x"), modes=["resample"])
    for options in (
        {"modes": ["noise"]},
        {"alignment": "right"},
        {"parts": ["mpl"]},
        {"positions": "none"},
    ):
        with pytest.raises(ModelError):
            patching.patch(gated, pairs, **options)
