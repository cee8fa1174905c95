"""A run is verified by doing some of it again, and stamped without a number of it moving."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load_file

from lib.data.items import Builder
from lib.errors import StoreError
from lib.extraction import extract, load_run, save_run
from lib.extraction.verify import stamp, verify
from lib.models.prompt import PromptFormat


def made_up(text: str = "yes"):
    builder = Builder("made-up")
    for i in range(6):
        builder.add(f"item-{i}", f"question {i}?", [text * (i + 1), f"no {i}"], [(0, 1, "c", "s")])
    return builder.build()


@pytest.fixture
def run(tiny_model, tmp_path):
    return extract(tiny_model, made_up(), store=tmp_path / "states")


def test_a_run_of_the_model_and_items_at_hand_is_what_they_make(run, tiny_model):
    found = verify(run, tiny_model, made_up(), n=3)
    assert (found["items"], found["responses"]) == (6, 6)
    assert found["largest"] <= 1e-4


def test_other_texts_tokens_scores_and_heads_are_named(run, tiny_model):
    with pytest.raises(StoreError, match="the items at hand"):
        verify(run, tiny_model, made_up("maybe"))
    moved = run.copy(deep=True)
    moved["n_response_tokens"][3] += 1
    with pytest.raises(StoreError, match="n_response_tokens of tiny.*found 1 others"):
        verify(moved, tiny_model, made_up())
    moved = run.copy(deep=True)
    moved["score"] += 0.01 * run["score"].std("response")
    with pytest.raises(StoreError, match="a difference of 0.01"):
        verify(moved, tiny_model, made_up())
    with pytest.raises(StoreError, match="the heads of tiny"):
        verify(run.assign_coords(head=["first", "third"]), tiny_model, made_up())


def test_states_of_every_layer_are_compared_where_all_are_kept(tiny_model, tmp_path):
    run = extract(tiny_model, made_up(), taps=("layers",), store=tmp_path)
    assert verify(run, tiny_model, made_up(), n=3)["responses"] == 6
    moved = run["layer_hidden"].copy()
    moved[:, 1, 0] += 0.01
    with pytest.raises(StoreError, match="layer_hidden within 0.0001 sd of a layer"):
        verify(run.assign(layer_hidden=moved), tiny_model, made_up())


def test_a_head_that_does_not_vary_is_verified_and_a_refusing_template_named(
    run, tiny_model, byte_tokenizer
):
    constant = replace(tiny_model, weight=np.zeros_like(tiny_model.weight))
    same = run.assign(score=run["score"] * 0 + constant.bias)
    assert verify(same, constant, made_up(), n=3)["largest"] <= 1e-6
    with pytest.raises(StoreError, match="a difference of 1"):
        verify(run.assign(score=same["score"] + 1), constant, made_up())
    refuse = "{{ raise_exception('no') if 'question 3?' in messages[0]['content'] }}"
    refusing = byte_tokenizer(refuse + byte_tokenizer().chat_template)
    other = replace(tiny_model, format=PromptFormat(refusing, "tiny", "<|im_end|>"))
    with pytest.raises(StoreError, match="items that the template of tiny renders.*1: no"):
        verify(run, other, made_up())


def test_a_stamp_gives_the_identity_and_moves_no_number(run, tiny_model, tmp_path):
    older = {part: "0" for part in ("backbone", "tokenizer", "template", "heads")}
    folder = save_run(run.assign_attrs(fingerprint=older), tmp_path / "run", states=2)
    before, numbers = load_run(folder), load_file(folder / "run.safetensors")
    stamp(folder, before, tiny_model, verify(before, tiny_model, made_up(), n=2))
    after = load_run(folder)
    assert after.attrs["fingerprint"] == tiny_model.fingerprint
    assert after.attrs["versions"] == before.attrs["versions"]
    assert after.attrs["verified"]["items"] == 6 and after.attrs["verified"]["responses"] == 4
    for name, values in load_file(folder / "run.safetensors").items():
        assert values.tobytes() == numbers[name].tobytes() and values.dtype == numbers[name].dtype
    np.testing.assert_array_equal(after["hidden"], before["hidden"])
