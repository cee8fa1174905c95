"""A model that trees don't suit is padded instead, and the run says why."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from lib.data.items import Builder
from lib.errors import ModelError
from lib.extraction import attention, extract, parity
from lib.extraction import forward as forwards
from lib.models.prompt import EncodedItem


def made_up(n: int = 6):
    builder = Builder("made-up")
    for i in range(n):
        builder.add(f"item-{i}", f"question {i}?", ["yes", f"no {i}"], [(0, 1, "c", "s")])
    return builder.build()


def encoded(model, n: int = 4) -> list[EncodedItem]:
    return [
        model.format.encode([{"role": "user", "content": f"q{i}"}], ["a", f"b{i}", "cc"])
        for i in range(n)
    ]


@pytest.fixture
def leaking(monkeypatch):
    """Trees whose branches see the token before them, whosever it is."""
    causal_after = attention._causal_after

    def leaks(chain, query):
        mask = causal_after(chain, query).clone()
        mask[:, chain.n_context - 1] = -torch.inf
        return mask

    monkeypatch.setattr(attention, "_causal_after", leaks)


def test_trees_are_not_blamed_for_what_padding_does(tiny_model, tiny_llama, monkeypatch):
    backbone = tiny_llama()
    pass_on = backbone.forward

    def minding(*args, attention_mask=None, **more):
        found = pass_on(*args, attention_mask=attention_mask, **more)
        if attention_mask is not None and bool((attention_mask == 0).any()):
            found.last_hidden_state += 1
        return found

    monkeypatch.setattr(backbone, "forward", minding)
    model = replace(tiny_model, backbone=backbone)
    padded = forwards.forward(backbone, encoded(model), packing="padded").hidden
    alone = forwards.forward(backbone, encoded(model), packing="padded", budget=1).hidden
    assert not np.allclose(padded, alone, atol=0.1)
    assert parity.objection(model, encoded(model)) == ""


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_sound_model_gives_no_objection(tiny_model, tiny_llama, dtype):
    model = replace(tiny_model, backbone=tiny_llama().to(dtype))
    assert parity.objection(model, encoded(model)) == ""
    assert parity.objection(model, encoded(model, 1)) == ""


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attention_to_wrong_tokens_is_noticed(tiny_model, tiny_llama, leaking, dtype):
    model = replace(tiny_model, backbone=tiny_llama().to(dtype))
    assert "scores differ by more than" in parity.objection(model, encoded(model))


def test_one_item_of_one_response_is_judged_by_its_state(tiny_model):
    item = tiny_model.format.encode([{"role": "user", "content": "q"}], ["a"])
    constant = replace(tiny_model, weight=0 * tiny_model.weight, bias=0 * tiny_model.bias)
    assert parity.objection(constant, [item]) == ""


def test_a_fall_back_is_in_the_manifest_and_the_run_and_gives_the_right_scores(
    tiny_model, tmp_path, leaking
):
    found = extract(tiny_model, made_up(), store=tmp_path / "a")
    about = found.attrs["extraction"]
    assert about["packing"] == "padded"
    assert about["attention"] == tiny_model.backbone.config._attn_implementation
    assert "differ by more than 0.001 standard deviations" in about["fallback"]
    manifest = json.loads((tmp_path / "a" / "manifest.json").read_text())
    assert manifest["packing"] == "trees"
    assert manifest["decided"] == {key: about[key] for key in ("packing", "attention", "fallback")}
    padded = extract(tiny_model, made_up(), store=tmp_path / "b", packing="padded")
    assert (found["score"] == padded["score"]).all()
    assert "fallback" not in padded.attrs["extraction"]


@pytest.fixture
def on_one_gpu(monkeypatch):
    """As on a GPU, but that FlexAttention isn't compiled."""
    monkeypatch.setattr(attention, "on_one_gpu", lambda backbone: True)


WIDE = {"num_attention_heads": 2, "num_key_value_heads": 1}  # 16 a head


def test_wide_heads_on_one_gpu_run_with_the_block_mask(
    tiny_model, tiny_llama, tmp_path, on_one_gpu
):
    model = replace(tiny_model, backbone=tiny_llama(**WIDE))
    about = extract(model, made_up(), store=tmp_path).attrs["extraction"]
    assert (about["packing"], about["attention"]) == ("trees", "flex")
    assert "fallback" not in about


def test_heads_that_the_kernel_is_too_wide_for_take_a_call_a_chain(
    tiny_model, tmp_path, monkeypatch, on_one_gpu
):
    monkeypatch.setattr(attention, "flex_attention", lambda *a, **k: pytest.fail("tried"))
    found = extract(tiny_model, made_up(), store=tmp_path / "a")
    about = found.attrs["extraction"]
    assert (about["packing"], about["attention"]) == ("trees", "branching")
    assert about["fallback"] == "flex takes heads of 16 features or more, and these have 8"
    monkeypatch.undo()
    expected = extract(tiny_model, made_up(), store=tmp_path / "b")
    assert (found["score"] == expected["score"]).all()
    assert "fallback" not in expected.attrs["extraction"]


class LoweringError(Exception):
    """As compilers raise them: of no kind that has a name here."""


def test_a_kernel_that_fails_to_compile_gives_way_and_is_not_tried_again(
    tiny_model, tiny_llama, tmp_path, monkeypatch, on_one_gpu
):
    tried = []

    def fails(*_, **__):
        tried.append(1)
        raise LoweringError("no valid config for this shape\nmore")

    monkeypatch.setattr(attention, "flex_attention", fails)
    model = replace(tiny_model, backbone=tiny_llama(**WIDE))
    found = extract(model, made_up(), store=tmp_path / "a")
    about = found.attrs["extraction"]
    assert (about["packing"], about["attention"]) == ("trees", "branching")
    assert (
        about["fallback"] == "flex: packed as trees the model fails: no valid config for this shape"
    )
    assert tried == [1]
    manifest = json.loads((tmp_path / "a" / "manifest.json").read_text())
    assert manifest["decided"]["attention"] == "branching"
    (tmp_path / "a" / "00000.safetensors").unlink()
    assert extract(model, made_up(), store=tmp_path / "a").attrs == found.attrs
    assert tried == [1]


def test_where_no_kernel_suits_the_reasons_of_both_are_given(
    tiny_model, tiny_llama, tmp_path, monkeypatch, on_one_gpu
):
    def fails(*_, **__):
        raise NotImplementedError("no such attention")

    monkeypatch.setattr(attention, "states", fails)
    model = replace(tiny_model, backbone=tiny_llama(**WIDE))
    about = extract(model, made_up(), store=tmp_path).attrs["extraction"]
    assert about["packing"] == "padded"
    assert about["fallback"] == (
        "flex: packed as trees the model fails: no such attention; "
        "packed as trees the model fails: no such attention"
    )


def test_what_was_decided_is_not_tried_again(tiny_model, tmp_path, monkeypatch):
    calls = []
    objection = parity.objection
    monkeypatch.setattr(
        parity, "objection", lambda *a: calls.append(1) or objection(*a) or "because"
    )
    first = extract(tiny_model, made_up(), store=tmp_path)
    (tmp_path / "00000.safetensors").unlink()
    again = extract(tiny_model, made_up(), store=tmp_path)
    assert calls == [1]
    assert first.attrs == again.attrs
    assert again.attrs["extraction"]["fallback"] == "because"


def test_padded_on_request_is_not_tried_at_all(tiny_model, tmp_path, monkeypatch):
    monkeypatch.setattr(parity, "objection", lambda *a: pytest.fail("tried"))
    extract(tiny_model, made_up(), store=tmp_path, packing="padded")


@pytest.mark.parametrize(
    ("limit", "packing", "why"),
    [
        (10_000, "trees", None),
        # <|im_start|>user\nquestion 0?<|im_end|>\n<|im_start|>assistant\nno 0<|im_end|>
        (35, "trees", None),
        (34, "padded", "a sequence of 35 tokens; the model's attention suits trees up to 34"),
        (0, "padded", "the model's attention doesn't suit trees"),
    ],
)
def test_sequences_longer_than_trees_suit_are_padded(tiny_model, tmp_path, limit, packing, why):
    model = replace(tiny_model, tree_limit=limit)
    about = extract(model, made_up(), store=tmp_path).attrs["extraction"]
    assert about["packing"] == packing
    assert about.get("fallback") == why


def test_a_model_that_fails_as_trees_is_padded(tiny_model, tmp_path, monkeypatch):
    def fails(*_, **__):
        raise NotImplementedError("no such attention\nmore")

    monkeypatch.setattr(attention, "states", fails)
    about = extract(tiny_model, made_up(), store=tmp_path).attrs["extraction"]
    assert about["fallback"] == "packed as trees the model fails: no such attention"


@pytest.mark.parametrize("packing", ["trees", "padded"])
def test_a_model_that_computes_nothing_is_an_error_of_the_model(
    tiny_model, tiny_llama, tmp_path, monkeypatch, packing
):
    backbone = tiny_llama()

    def fails(*_, **__):
        raise OverflowError("int too big to convert\nmore")

    monkeypatch.setattr(backbone, "forward", fails)
    model = replace(tiny_model, backbone=backbone)
    with pytest.raises(ModelError, match="found OverflowError: int too big to convert. Check"):
        extract(model, made_up(), store=tmp_path, packing=packing)


def test_states_that_are_no_numbers_are_left_to_be_reported(tiny_model, tiny_llama):
    backbone = tiny_llama()
    backbone.norm.weight[:] = np.nan
    model = replace(tiny_model, backbone=backbone)
    assert parity.objection(model, encoded(model)) == ""


def test_short_items_with_several_responses_are_tried(tiny_model, monkeypatch):
    tried = []
    forward = forwards.forward
    monkeypatch.setattr(
        parity, "forward", lambda b, items, **o: tried.append(items) or forward(b, items, **o)
    )
    items = [
        tiny_model.format.encode([{"role": "user", "content": "q" * n}], ["a"] * k)
        for n, k in [(1, 1), (30, 2), (9, 2), (2, 1), (20, 3), (10, 2)]
    ]
    parity.objection(tiny_model, items)
    assert len(tried) == 2, "as trees and padded"
    for some in tried:
        assert [item.n_tokens for item in some] == [items[i].n_tokens for i in (2, 5, 4)]
        assert [len(item.sequences) for item in some] == [2, 2, 3]


def test_a_few_responses_of_an_item_of_many_are_tried(tiny_model, monkeypatch):
    tried = []
    forward = forwards.forward
    monkeypatch.setattr(
        parity, "forward", lambda b, items, **o: tried.append(items) or forward(b, items, **o)
    )
    many = tiny_model.format.encode(
        [{"role": "user", "content": "q"}], [f"answer {i}" for i in range(25)]
    )
    assert parity.objection(tiny_model, [many]) == ""
    assert {len(item.sequences) for some in tried for item in some} == {parity.BRANCHES}
