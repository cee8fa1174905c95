"""Sequence classifiers: the scores are those of transformers' own classes."""

import sys

import numpy as np
import pytest
import tiny
import torch
from safetensors.torch import load_file, save_file

from lib.errors import ModelError
from lib.extraction.forward import forward
from lib.models import load_model
from lib.models.backbone import tree_limit
from lib.models.base import RewardModel

ARCHITECTURES = list(tiny.KINDS)


def load(folder, **options):
    return load_model(str(folder), device="cpu", **options)


def encoded(model, cases=tiny.CASES):
    return [model.format.encode(prompt, responses) for prompt, responses in cases]


def one_at_a_time(model, items):
    """Scores of each response in a batch of its own."""
    return model.read(forward(model.backbone, items, "padded", budget=1).hidden).score


@pytest.fixture(scope="module", params=ARCHITECTURES)
def pair(request, tmp_path_factory):
    """Transformers' own model of an architecture, and ours from the folder it wrote."""
    folder = tmp_path_factory.mktemp(request.param)
    theirs = tiny.write_classifier(folder, kind=request.param, labels=3)
    return theirs, load(folder)


def test_alone_the_scores_are_transformers_own(pair):
    theirs, model = pair
    for item in encoded(model):
        states = forward(model.backbone, [item], packing="padded")
        for ids, score in zip(item.sequences, model.read(states.hidden).score, strict=True):
            with torch.no_grad():
                logits = theirs(torch.from_numpy(ids)[None]).logits[0].numpy()
            np.testing.assert_allclose(score, logits, atol=1e-5)


def test_batched_they_are_those_of_one_at_a_time(pair):
    """Padded on either side, with an id that is also the end of turn, or in a prompt."""
    _, model = pair
    items = encoded(model)
    alone = one_at_a_time(model, items)
    sd = alone.std(axis=0)
    assert sd.min() > 0.1
    for pad in (model.format.tokenizer.eos_token_id, int(items[0].sequences[0][5]), 0):
        for side in ("left", "right"):
            together = forward(
                model.backbone, items, "padded", 10**6, padding_side=side, pad_id=pad
            )
            gap = np.abs(model.read(together.hidden).score - alone) / sd
            assert gap.max() < 1e-4, (pad, side)


def test_packed_as_trees_too_up_to_the_limit(pair):
    _, model = pair
    items = encoded(model)
    alone = forward(model.backbone, items, "padded", budget=1)
    packed = forward(model.backbone, items, "trees", budget=10**6)
    sd = model.read(alone.hidden).score.std(axis=0)
    gap = np.abs((model.read(packed.hidden).score - model.read(alone.hidden).score) / sd).max()
    if model.tree_limit:
        windows = {"gemma3_text": 4096}  # the others look back all the way
        assert model.tree_limit == windows.get(model.backbone.config.model_type, sys.maxsize)
        assert gap < 1e-4
        assert np.abs(packed.gate_hidden - alone.gate_hidden).max() < 1e-4
    else:
        assert gap > 1e-2  # soft-capped logits, which that attention doesn't know


@pytest.mark.parametrize(
    ("kind", "window"),
    [
        ("mistral", {}),
        ("qwen2", {"use_sliding_window": True, "max_window_layers": 0}),
        ("qwen3", {"use_sliding_window": True, "max_window_layers": 1}),
        ("gemma2", {"attn_logit_softcapping": None}),
    ],
)
def test_a_sliding_window_is_the_longest_tree(kind, window):
    """At its length both packings agree; a few tokens further they don't."""
    from lib.models.prompt import EncodedItem

    backbone = tiny.backbone(kind, sliding_window=24, **window)
    assert tree_limit(backbone) == 24
    gaps = []
    for length in (24, 30):
        ids = np.random.default_rng(0).integers(9, 300, (2, length))
        ids[:, :12] = ids[0, :12]
        item = EncodedItem(list(ids), 12, 12, 11)
        trees, padded = (forward(backbone, [item], way).hidden for way in ("trees", "padded"))
        gaps.append(np.abs(trees - padded).max() / padded.std())
    assert gaps[0] < 1e-4 < 1e-2 < gaps[1]


def test_without_a_window_there_is_no_limit():
    assert tree_limit(tiny.backbone("qwen2", sliding_window=24)) == sys.maxsize
    assert tree_limit(tiny.backbone("mistral", sliding_window=None)) == sys.maxsize


def test_one_label_is_the_final_score(tmp_path):
    tiny.write_classifier(tmp_path, labels=1)
    model = load(tmp_path)
    assert isinstance(model, RewardModel)
    readout = model.read(np.random.default_rng(0).normal(size=(5, tiny.D)))
    assert readout.score.shape == (5, 1)
    np.testing.assert_array_equal(readout.final, readout.score[:, 0])
    assert readout.gate is None
    assert [(head.name, head.source) for head in model.heads] == [("head_0", "unnamed")]


def test_several_labels_have_no_final_score_and_names_that_mean_something(tmp_path):
    tiny.write_classifier(tmp_path, names=["wit", "tact", "depth"])
    model = load(tmp_path)
    assert model.read(np.zeros((2, tiny.D))).final is None
    assert [head.name for head in model.heads] == ["wit", "tact", "depth"]
    assert model.heads[0].source == "id2label of its config.json"


def test_dpas_ten_heads_are_named_from_its_card(tmp_path):
    folder = tmp_path / "RewardModel-Mistral-7B-for-DPA-v1"
    tiny.write_classifier(folder, kind="mistral", labels=10, template=tiny.MISTRAL)
    model = load(folder)
    assert model.heads[4].name == "helpsteer-verbosity"
    assert model.card["note"]


@pytest.mark.parametrize("bias", [False, True])
def test_a_head_under_another_key_or_with_a_bias(tmp_path, bias):
    tiny.write_classifier(tmp_path, kind="gpt_neox", labels=3)
    tensors = load_file(tmp_path / "model.safetensors")
    tensors["classifier.weight"] = tensors.pop("score.weight")
    if bias:
        tensors["classifier.bias"] = torch.tensor([1.0, 2.0, 3.0])
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    scores = load(tmp_path).read(np.zeros((1, tiny.D))).score
    assert scores.tolist() == [[1, 2, 3] if bias else [0, 0, 0]]


@pytest.mark.parametrize(
    "given", [{"labels": 2}, {"names": ["NEGATIVE", "POSITIVE"]}], ids=["unnamed", "named"]
)
def test_a_two_label_classifier_is_no_reward_model(tmp_path, given):
    tiny.write_classifier(tmp_path, **given)
    with pytest.raises(ModelError, match="2 labels of a classifier"):
        load(tmp_path)
    # Two rewards, if the user says so.
    assert [h.name for h in load(tmp_path, heads=["good", "safe"]).heads] == ["good", "safe"]


def test_a_classifier_of_many_classes_is_none_either(tmp_path):
    tiny.write_classifier(tmp_path, names=["joy", "fear", "anger"])
    tiny.edit(tmp_path / "config.json", problem_type="single_label_classification")
    with pytest.raises(ModelError, match="3 labels of a classifier"):
        load(tmp_path)


def spoil(folder, change):
    path = folder / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda t: t.pop("score.weight"), "one reward head .* found none"),
        (
            lambda t: (t.pop("score.weight"), t.update({"lm_head.weight": torch.zeros(400, 32)})),
            "none, among lm_head, model",
        ),
        (
            lambda t: t.update({"classifier.weight": torch.zeros(3, 32)}),
            "score and classifier",
        ),
        (lambda t: t.pop("model.norm.weight"), "norm.weight"),
        (lambda t: t["score.weight"].fill_(torch.nan), "NaN or infinity in score.weight"),
        (lambda t: t["model.embed_tokens.weight"].__setitem__((7, 7), torch.inf), "embed_tokens"),
        (lambda t: t.update({"score.weight": torch.zeros(3, 31)}), "31"),
        (lambda t: t.update({"score.weight": torch.zeros(32)}), "linear reward head"),
        (lambda t: t.update({"score.weight": torch.tensor(1.0)}), "linear reward head"),
        (lambda t: t.update({"score.weight": torch.zeros(4, 32)}), "3 rows"),
    ],
)
def test_missing_unexpected_unfit_or_unfinite_weights_are_errors(tmp_path, change, says):
    tiny.write_classifier(tmp_path, labels=3)
    spoil(tmp_path, change)
    with pytest.raises(ModelError, match=says):
        load(tmp_path)


def test_damaged_absent_or_pickled_files_are_errors(tmp_path):
    tiny.write_classifier(tmp_path, labels=3)
    weights = tmp_path / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ModelError, match="Download the file again"):
        load(tmp_path)
    weights.unlink()
    with pytest.raises(ModelError, match="no such file"):
        load(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(ModelError, match="a pickle"):
        load(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text(
        '{"weight_map": {"score.weight": "../elsewhere.safetensors"}}'
    )
    (tmp_path.parent / "elsewhere.safetensors").write_bytes(whole)
    with pytest.raises(ModelError, match="elsewhere"):
        load(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ModelError, match="not JSON"):
        load(tmp_path)
    (tmp_path / "config.json").unlink()
    with pytest.raises(ModelError, match=r"config.json .* no such file"):
        load(tmp_path)


def test_a_folder_without_a_tokenizer_is_an_error(tmp_path):
    tiny.write_classifier(tmp_path)
    for path in tmp_path.glob("*token*"):
        path.unlink()
    with pytest.raises(ModelError, match="tokenizer"):
        load(tmp_path)


def test_two_bos_tokens_are_an_error(tmp_path):
    tiny.write_classifier(tmp_path, template="{{ bos_token }}" + tiny.OPENS_WHEN_ASKED)
    with pytest.raises(ModelError, match="one BOS"):
        load(tmp_path)


def test_a_hub_id_that_cannot_be_had_says_what_to_do(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError, match="hf download") as caught:
        load_model("no-such-org/no-such-model", revision="abc", device="cpu")
    assert "no-such-org/no-such-model at revision abc" in caught.value.needed


def test_a_hub_id_in_the_cache_loads_at_its_revision(tmp_path, monkeypatch):
    commit = "0123456789abcdef0123456789abcdef01234567"
    repository = tmp_path / "models--some-org--tiny-rm"
    tiny.write_classifier(repository / "snapshots" / commit, labels=3)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    model = load_model("some-org/tiny-rm", device="cpu")
    assert model.name == "some-org/tiny-rm"
    assert model.card["revision"] == commit
    assert model.fingerprint == load(repository / "snapshots" / commit).fingerprint


def test_options_that_do_not_apply_are_errors(tmp_path):
    tiny.write_classifier(tmp_path)
    with pytest.raises(ModelError, match="found revision"):
        load(tmp_path, revision="main")
    with pytest.raises(ModelError, match="found heads"):
        load_model("smol-armo", heads=["a"])
    with pytest.raises(ModelError, match="smol-armo"):
        load_model("smol-arm")
