"""What a GPU computes is what a CPU does; skipped where there is no GPU."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from lib.data.items import Builder, Items
from lib.extraction import attention, extract, extract_part, shards, store
from lib.extraction.forward import forward, start
from lib.models.prompt import EncodedItem

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")

SHAPES = {
    "16 a head": {"num_attention_heads": 2, "num_key_value_heads": 1},
    "64 a head": {"hidden_size": 256, "num_attention_heads": 4, "num_key_value_heads": 2},
    "128 a head": {"hidden_size": 512, "num_attention_heads": 4, "num_key_value_heads": 1},
    "256 a head": {"hidden_size": 512, "num_attention_heads": 2, "num_key_value_heads": 1},
    "three heads": {"hidden_size": 96, "num_attention_heads": 3, "num_key_value_heads": 1},
}


def some(n: int = 60) -> list[EncodedItem]:
    """Items of 20 to 200 tokens, which begin alike."""
    generator = np.random.default_rng(0)

    def draw(low: int, high: int) -> np.ndarray:
        return generator.integers(0, 259, generator.integers(low, high))

    items = []
    for _ in range(n):
        prompt = np.concatenate([[1, 2, 3], draw(5, 80)])
        answers = [draw(1, 60) for _ in range(generator.integers(1, 4))]
        sequences = [np.concatenate([prompt, answer]) for answer in answers]
        items.append(EncodedItem(sequences, len(prompt), len(prompt), len(prompt) - 1))
    return items


def assert_alike(found: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
    heads = np.random.default_rng(0).standard_normal((expected.shape[1], 16))
    a, b = found @ heads, expected @ heads
    assert (np.abs(a - b) <= tolerance * b.std(axis=0)).all()


@pytest.mark.parametrize(
    ("shape", "compiled"), [*((shape, False) for shape in SHAPES), ("128 a head", True)]
)
def test_rows_of_the_block_mask_give_the_states_of_a_cpu(tiny_llama, shape, compiled):
    backbone, items = tiny_llama(**SHAPES[shape], initializer_range=0.1), some()
    expected = forward(backbone, items, packing="padded", budget=1)
    found = forward(backbone.cuda(), items, budget=2048, compiled=compiled)
    assert_alike(found.hidden, expected.hidden, 1e-4)
    assert_alike(found.gate_hidden, expected.gate_hidden, 1e-4)


@pytest.mark.parametrize("shape", SHAPES)
def test_in_bfloat16_they_round_no_more_than_padded_batches(tiny_llama, shape):
    backbone, items = tiny_llama(**SHAPES[shape], initializer_range=0.1), some()
    exact = forward(backbone, items, packing="padded", budget=1).hidden
    backbone = backbone.to("cuda", torch.bfloat16)
    found, padded = (
        np.linalg.norm(forward(backbone, items, packing=packing, budget=2048).hidden - exact)
        for packing in ("trees", "padded")
    )
    assert found <= 1.5 * padded


def test_what_is_under_way_comes_out_as_what_was_waited_for(tiny_llama):
    backbone, items = tiny_llama(**SHAPES["16 a head"]).cuda(), some()
    assert attention.kernel_for(backbone) == "flex"
    under_way = start(backbone, items, budget=1024)
    assert under_way.pending
    again = forward(backbone, items, budget=1024)
    assert np.array_equal(under_way.states().hidden, again.hidden)


def test_heads_that_the_kernel_is_too_wide_for_take_a_call_a_chain(tiny_llama):
    backbone, items = tiny_llama(initializer_range=0.1), some()
    expected = forward(backbone, items, packing="padded", budget=1)
    backbone = backbone.cuda()
    assert attention.kernel_for(backbone) == "branching"
    under_way = start(backbone, items, budget=1024)
    assert under_way.pending
    assert_alike(under_way.states().hidden, expected.hidden, 1e-4)


def test_a_run_of_such_heads_says_which_way_it_went(tiny_model, tiny_llama, items, tmp_path):
    found = extract(replace(tiny_model, backbone=tiny_llama().cuda()), items, store=tmp_path)
    about = found.attrs["extraction"]
    assert (about["packing"], about["attention"]) == ("trees", "branching")
    assert about["fallback"] == "flex takes heads of 16 features or more, and these have 8"


def test_a_kernel_that_fails_to_compile_gives_way(
    tiny_model, tiny_llama, items, tmp_path, monkeypatch
):
    monkeypatch.setattr(attention, "too_narrow", lambda backbone: "")
    model = replace(tiny_model, backbone=tiny_llama().cuda())
    assert attention.kernel_for(model.backbone) == "flex"
    found = extract(model, items, store=tmp_path / "gpu")
    about = found.attrs["extraction"]
    assert (about["packing"], about["attention"]) == ("trees", "branching")
    assert about["fallback"].startswith("flex: packed as trees the model fails: ")
    expected = extract(tiny_model, items, store=tmp_path / "cpu")
    assert_alike(found["hidden"].values, expected["hidden"].values, 1e-4)


@pytest.fixture
def on_cpu(tiny_model, tiny_llama):
    return replace(tiny_model, backbone=tiny_llama(**SHAPES["16 a head"]))


@pytest.fixture
def model(tiny_model, tiny_llama):
    return replace(tiny_model, backbone=tiny_llama(**SHAPES["16 a head"]).cuda())


@pytest.fixture
def items(monkeypatch) -> Items:
    monkeypatch.setattr(store, "shard_responses", lambda device: 16)
    builder = Builder("made-up")
    for i in range(40):
        words = ["yes " * (1 + i % 7), f"no {i}", "w" * 600 if i % 9 == 4 else "maybe"]
        builder.add(f"item-{i}", f"question {i}?", words, [(0, 1, "c", "s")])
    return builder.build()


@pytest.mark.parametrize("compiled", [False, True])
def test_a_run_of_many_shards_is_that_of_a_cpu_and_of_any_workers(
    model, on_cpu, items, tmp_path, monkeypatch, compiled
):
    monkeypatch.setattr(shards, "COMPILE_FROM", 0 if compiled else np.inf)
    rows = {"budget": 512}  # some of one length and some of another
    alone = extract(model, items, store=tmp_path / "alone", **rows)
    expected = extract(on_cpu, items, store=tmp_path / "cpu")
    assert alone.attrs["extraction"]["attention"] == "flex"
    assert alone["item"].values.tolist() == expected["item"].values.tolist()
    assert_alike(alone["hidden"].values, expected["hidden"].values, 1e-4)
    for part in (1, 0):
        extract_part(model, items, part, 2, store=tmp_path / "shared", **rows)
    assert extract(model, items, store=tmp_path / "shared", **rows).identical(alone)
    names = sorted(path.name for path in (tmp_path / "alone").glob("*.safetensors"))
    assert len(names) > 5
    for name in names:
        read = [(tmp_path / folder / name).read_bytes() for folder in ("alone", "shared")]
        assert read[0] == read[1]


def test_a_shard_that_was_lost_comes_back_to_the_byte(model, items, tmp_path):
    extract(model, items, store=tmp_path / "s")
    path = tmp_path / "s" / "00002.safetensors"
    before = path.read_bytes()
    path.unlink()
    extract(model, items, store=tmp_path / "s")
    assert path.read_bytes() == before
