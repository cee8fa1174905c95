"""Scores of token ids by a checkpoint's own class: the protocol that every loader keeps."""

import numpy as np
import pytest
import test_every_classifier as every
import tiny
import torch
import transformers

from lib.errors import ModelError
from lib.extraction.forward import forward
from lib.models import load_model, own

# Decoders of many families: rotary, learned and relative positions, experts, soft caps, windows.
KINDS = """llama mistral qwen2 qwen3 gemma gemma2 gemma3_text phi phi3 mixtral gpt2 gpt_neox falcon
bloom opt stablelm starcoder2 glm"""


def ours(model):
    items = [model.format.encode(*case) for case in tiny.CASES]
    states = forward(model.backbone, items, "padded", budget=1)
    owner = np.repeat(np.arange(len(items)), [len(item.sequences) for item in items])
    gates = states.gate_hidden[owner] if model.gated else None
    sequences = [ids for item in items for ids in item.sequences]
    return model.read(states.hidden, gates).columns, sequences


@pytest.mark.parametrize("kind", KINDS.split())
def test_a_decoders_scores_are_those_of_its_own_class(kind, tmp_path):
    torch.manual_seed(0)
    theirs = getattr(transformers, every.CLASSES[kind])(every.small(kind)).eval()
    theirs.save_pretrained(tmp_path)
    tiny.tokenizer().save_pretrained(tmp_path)
    model = load_model(str(tmp_path), device="cpu")
    found, sequences = ours(model)
    expected = np.concatenate(
        [theirs(input_ids=torch.from_numpy(ids)[None]).logits.detach().numpy() for ids in sequences]
    )
    assert (np.abs(model.own_scores(sequences) - expected) <= 1e-6 * expected.std(axis=0)).all()
    assert (np.abs(found - expected) <= 1e-5 * expected.std(axis=0)).all()


def test_an_armorms_scores_are_those_of_its_backbone_and_its_gate_found_by_pattern(tmp_path):
    tiny.write_armorm(tmp_path)
    model = load_model(str(tmp_path), device="cpu")
    found, sequences = ours(model)
    own_scores = model.own_scores(sequences)
    assert own_scores.shape == (len(sequences), 20)  # 19 heads and the gated score
    assert (np.abs(found - own_scores) <= 1e-5 * own_scores.std(axis=0)).all()


def test_the_gates_token_is_the_one_that_closes_the_prompt(tmp_path):
    tiny.write_armorm(tmp_path)
    format = load_model(str(tmp_path), device="cpu").format
    for prompt, responses in tiny.CASES:
        item = format.encode(prompt, responses)
        assert {own.gate_at(format, ids) for ids in item.sequences} == {item.gate_at}


def test_a_class_that_would_draw_its_head_at_random_is_an_error(tmp_path):
    module = tiny.write_classifier(tmp_path)
    module.model.save_pretrained(tmp_path / "bare")
    tiny.edit(tmp_path / "bare" / "config.json", num_labels=1)
    with pytest.raises(own.DrawnError, match="score.weight, which it draws at random"):
        own.classifier(tmp_path / "bare", "bare", torch.device("cpu"), [np.arange(5)])


def test_a_model_without_a_folder_has_no_own_class(tiny_model):
    with pytest.raises(ModelError):
        super(type(tiny_model), tiny_model).own_scores([np.arange(5)])


@pytest.mark.parametrize("template", [tiny.OPENS_WHEN_ASKED, tiny.NEVER_OPENS, tiny.CHATML])
@pytest.mark.parametrize("kind", ["llama", "gpt_neox", "gemma2"])
def test_a_gate_is_read_where_the_prompts_last_turn_is_closed(kind, template, tmp_path):
    tiny.write_armorm(tmp_path, kind=kind, template=template, heads=3, names=["a", "b", "c"])
    model = load_model(str(tmp_path), device="cpu")
    found, sequences = ours(model)
    own_scores = model.own_scores(sequences)
    assert (np.abs(found - own_scores) <= 1e-5 * own_scores.std(axis=0)).all()
