"""What lies in a checkpoint's folder is read as transformers reads it, or refused by its name."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time

import numpy as np
import pytest
import tiny
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSequenceClassification

from lib.data.items import Builder
from lib.errors import ModelError
from lib.extraction import extract
from lib.extraction.forward import forward
from lib.models import files, load_model
from lib.models.checkpoint import open_checkpoint

INDEX = "model.safetensors.index.json"
DEEP = "[" * 100_000 + "]" * 100_000


def load(folder):
    return load_model(str(folder), device="cpu")


def save(tensors, path):
    save_file(tensors, path, metadata={"format": "pt"})


def scores(folder):
    model = load(folder)
    items = [model.format.encode(*case) for case in tiny.CASES]
    return model.read(forward(model.backbone, items, "padded", budget=1).hidden).score


def of_transformers(folder):
    """The same by transformers' own class."""
    model = load(folder)
    theirs = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    items = [model.format.encode(*case) for case in tiny.CASES]
    with torch.no_grad():
        return np.concatenate(
            [theirs(torch.from_numpy(ids)[None]).logits for i in items for ids in i.sequences]
        )


def change(folder, file, **fields):
    path = folder / file
    document = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(document | fields))


# ---- Which file holds a tensor ----


@pytest.fixture
def two_sets(tmp_path):
    """A single file and shards of other weights, with their index."""
    tiny.write_classifier(tmp_path, labels=3)
    tensors = load_file(tmp_path / "model.safetensors")
    older = {key: value * 1.5 for key, value in tensors.items()}
    save(older, tmp_path / "model-00001-of-00001.safetensors")
    index = {"metadata": {}, "weight_map": dict.fromkeys(older, "model-00001-of-00001.safetensors")}
    (tmp_path / INDEX).write_text(json.dumps(index))
    return tmp_path


def test_a_single_file_wins_over_an_index_for_every_tensor_and_that_is_said(two_sets):
    np.testing.assert_allclose(scores(two_sets), of_transformers(two_sets), atol=1e-5)
    assert f"The folder has {INDEX} too, which is not read" in load(two_sets).card["note"]


def test_the_file_that_the_configuration_names_wins_over_both(two_sets):
    single = scores(two_sets)
    change(two_sets, "config.json", transformers_weights=INDEX)
    np.testing.assert_allclose(scores(two_sets), of_transformers(two_sets), atol=1e-5)
    assert np.abs(scores(two_sets) - single).max() > 0.1


@pytest.mark.parametrize(
    "named", ["../{}", "{folder}/{}", "./{}", "sub/{}", "..\\{}", "..", "w" * 300 + "{}"]
)
@pytest.mark.parametrize("file", ["model.safetensors", INDEX])
def test_weights_that_the_configuration_names_lie_in_its_own_folder(tmp_path, named, file):
    """Sound weights, and an index of them, lie in the folder above and in one below."""
    tiny.write_classifier(tmp_path)
    inner = tmp_path / "model"
    weights = dict.fromkeys(load_file(tmp_path / "model.safetensors"), "model.safetensors")
    (tmp_path / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weights}))
    shutil.copytree(tmp_path, tmp_path / "copy")
    shutil.move(tmp_path / "copy", inner / "sub")
    for sound in (inner / "sub").iterdir():
        shutil.copy(sound, inner)
    change(inner, "config.json", transformers_weights=file)
    load(inner)
    change(inner, "config.json", transformers_weights=named.format(file, folder=tmp_path))
    with pytest.raises(ModelError, match="weights of") as caught:
        load(inner)
    assert "config.json" in str(caught.value) or named == ".."


def test_an_index_is_obeyed_tensor_by_tensor(tmp_path):
    """Each tensor lies in two shards; the index sends each to the first, which is right."""
    tiny.write_classifier(tmp_path, labels=3)
    right = scores(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").unlink()
    half = sorted(tensors)[::2]
    first = {key: tensors[key] if key in half else tensors[key] + 1 for key in tensors}
    second = {key: tensors[key] if key not in half else tensors[key] + 1 for key in tensors}
    save(first, tmp_path / "a.safetensors")
    save(second | {"left.over": torch.zeros(1)}, tmp_path / "b.safetensors")
    places = {key: "a.safetensors" if key in half else "b.safetensors" for key in tensors}
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": places}))
    np.testing.assert_allclose(scores(tmp_path), right, atol=1e-6)
    assert load(tmp_path).card["note"] == f"Only what {INDEX} lists of its shards is read."
    places["model.norm.weight"] = "a.safetensors"
    save({k: v for k, v in first.items() if "norm" not in k}, tmp_path / "a.safetensors")
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": places}))
    with pytest.raises(ModelError, match=f"norm.weight .* in a.safetensors, as {INDEX} says"):
        load(tmp_path)


# ---- JSON of a wrong shape ----


@pytest.mark.parametrize(
    ("file", "fields", "says"),
    [
        ("config.json", {"architectures": 7}, "a valid list as architectures in config.json"),
        ("config.json", {"architectures": [7]}, "a valid string as architectures.0"),
        ("config.json", {"id2label": ["a", "b"]}, "a valid dictionary as id2label"),
        ("config.json", {"max_position_embeddings": "512"}, 'as max_position_emb.* found "512"'),
        ("config.json", {"num_hidden_layers": "2"}, "as num_hidden_layers in config.json"),
        ("config.json", {"rms_norm_eps": "small"}, "config.json .*rms_norm_eps"),
        ("config.json", {"rope_parameters": [1]}, "as rope_parameters in config.json"),
        ("config.json", {"num_attention_heads": 3.5}, "config.json .*num_attention_heads"),
        ("config.json", {"pad_token_id": [1]}, "as pad_token_id in config.json"),
        ("config.json", {"model_type": None}, "a valid string as model_type in config.json"),
        ("config.json", {"num_hidden_layers": 10**8}, "num_hidden_layers in config.json .*tensors"),
        ("config.json", {"num_labels": 10**9}, "num_labels in config.json"),
        ("config.json", {"num_attention_heads": 10**7}, "num_attention_heads in config.json"),
        ("config.json", {"text_config": {"a": 1}}, "config.json .*to_dict"),
        ("config.json", {"transformers_weights": "w" * 10**5}, "weights of"),
        ("config.json", {"note": "\ud800"}, "half of a surrogate pair in 'note'"),
        ("tokenizer_config.json", {"chat_template": 7}, "chat_template in tokenizer_config.json"),
        ("tokenizer_config.json", {"eos_token": ["x"]}, "as eos_token in tokenizer_config.json"),
        ("tokenizer_config.json", {"model_max_length": "9"}, "model_max_length in tokenizer_con"),
        ("tokenizer_config.json", {"added_tokens_decoder": []}, "added_tokens_decoder in token"),
        ("special_tokens_map.json", {"pad_token": 3}, "as pad_token in special_tokens_map.json"),
        (INDEX, {"weight_map": None}, f"a valid dictionary as weight_map in {INDEX} .* null"),
        (INDEX, {"weight_map": {"a": 1}}, "a valid string as weight_map.a"),
        (INDEX, {"weight_map": []}, "weight_map"),
    ],
)
def test_a_field_of_another_type_is_named_with_its_file(tmp_path, file, fields, says):
    tiny.write_classifier(tmp_path)
    if file == INDEX:
        (tmp_path / "model.safetensors").unlink()
    change(tmp_path, file, **fields)
    began = time.monotonic()
    with pytest.raises(ModelError, match=says):
        load(tmp_path)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (f'{{"a": {DEEP}}}', "nested more than 64 deep"),
        (f'{{"a": {"9" * 5000}}}', "a whole number of 5,000 digits"),
        ("[]", "no object"),
        ("null", "no object"),
        ('{"a": ', "not JSON"),
    ],
)
@pytest.mark.parametrize(
    "file", ["config.json", "tokenizer_config.json", "generation_config.json", "added_tokens.json"]
)
def test_a_document_that_cannot_be_read_is_named(tmp_path, file, content, says):
    tiny.write_classifier(tmp_path)
    (tmp_path / file).write_text(content)
    with pytest.raises(ModelError, match=f"{file} of .*{says}"):
        load(tmp_path)


@pytest.mark.parametrize(
    "file", ["config.json", "tokenizer.json", "model.safetensors", "other.txt"]
)
def test_a_pipe_is_not_waited_for(tmp_path, file):
    tiny.write_classifier(tmp_path)
    (tmp_path / file).unlink(missing_ok=True)
    os.mkfifo(tmp_path / file)
    with pytest.raises(ModelError, match=f"'{file}', which is none"):
        load(tmp_path)


@pytest.fixture(scope="module")
def sharded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sharded")
    tiny.write_classifier(folder)
    (folder / "model.safetensors").rename(folder / "a.safetensors")
    return folder, (folder / "config.json").read_text(), sorted(load_file(folder / "a.safetensors"))


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
FIELDS = sorted({*files.FIELDS["config.json"], "num_experts", "encoder_layers", "auto_map"})
SHARDS = st.sampled_from(["a.safetensors", "b.safetensors", "..", "", "/etc/passwd"]) | ODD


@settings(deadline=None)
@given(config=st.dictionaries(st.sampled_from(FIELDS), ODD), data=st.data())
def test_any_configuration_and_index_open_or_are_errors_of_the_model(sharded, config, data):
    folder, sound, keys = sharded
    listed = data.draw(ODD | st.dictionaries(st.sampled_from(keys), SHARDS, max_size=4))
    (folder / INDEX).write_text(json.dumps({"weight_map": listed}))
    (folder / "config.json").write_text(json.dumps(json.loads(sound) | config))
    with contextlib.suppress(ModelError):
        checkpoint = open_checkpoint(folder, "m")
        assert set(checkpoint.files) == set(listed)
        assert all(path == folder / "a.safetensors" for path in checkpoint.files.values())
        assert isinstance(checkpoint.card["architecture"], str)
        assert isinstance(checkpoint.labels, dict)


def test_what_released_models_write_passes(tmp_path):
    tiny.write_classifier(tmp_path, labels=1)
    before = scores(tmp_path)
    change(tmp_path, "config.json", architectures=None, id2label={"0": "LABEL_0"}, torch_dtype="x")
    change(tmp_path, "config.json", torch_dtype=None, time_step_limit=[0, float("inf")])
    change(tmp_path, "tokenizer_config.json", model_max_length=10**30, additional_special_tokens=[])
    assert (scores(tmp_path) == before).all()
    assert load(tmp_path).card["architecture"] == "unknown"


# ---- Heads that are none, or another's ----


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        (["v_head.summary.weight", "v_head.summary.bias"], "value head of trl.*score.weight"),
        (["value_head.weight"], "a value head .*rename it score.weight"),
        (["score.0.weight", "score.2.weight"], "several layers, whose activation no file tells"),
        (["classifier.dense.weight"], "several layers"),
        (["model.layers.0.self_attn.q_proj.lora_A.weight"], "an adapter .LoRA. .*merge_and_unload"),
    ],
)
@pytest.mark.parametrize("linear", [True, False], ids=["beside a linear head", "alone"])
def test_a_head_of_another_kind_is_named_with_what_to_do(tmp_path, keys, says, linear):
    tiny.write_classifier(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    if not linear:
        del tensors["score.weight"]
    tensors |= {key: torch.zeros(1, 32) for key in keys}
    save(tensors, tmp_path / "model.safetensors")
    with pytest.raises(ModelError, match=says) as caught:
        load(tmp_path)
    assert keys[0].removesuffix("weight") in caught.value.found


def test_an_adapter_without_its_base_is_to_be_merged(tmp_path):
    save(
        {"base_model.model.score.weight": torch.zeros(1, 32)},
        tmp_path / "adapter_model.safetensors",
    )
    change(tmp_path, "adapter_config.json", base_model_name_or_path="org/base", peft_type="LORA")
    with pytest.raises(ModelError, match="'org/base'. Merge it .*merge_and_unload"):
        load(tmp_path)


def test_a_language_models_output_layer_that_was_left_is_not_read_and_that_is_said(tmp_path):
    tiny.write_classifier(tmp_path, labels=3)
    before = scores(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    save(tensors | {"lm_head.weight": torch.ones(400, 32)}, tmp_path / "model.safetensors")
    assert (scores(tmp_path) == before).all()
    assert load(tmp_path).card["note"] == "lm_head.weight: left from a language model, not read."


def test_a_token_classifier_of_one_label_is_named(tmp_path):
    tiny.write_classifier(tmp_path)
    change(tmp_path, "config.json", architectures=["LlamaForTokenClassification"])
    with pytest.raises(ModelError, match=r"token classifier \(LlamaForTokenClassification\)"):
        load(tmp_path)


# ---- Which token is read ----


def test_where_the_pad_token_ends_the_text_it_is_read_and_the_card_says_so(tmp_path):
    """Transformers' own class then reads the rightmost other token: another score."""
    tokens = tiny.tokenizer()
    end = tokens.convert_tokens_to_ids(tiny.EOT)
    theirs = tiny.write_classifier(tmp_path, labels=3, pad_token_id=end)
    model = load(tmp_path)
    item = model.format.encode(*tiny.CASES[2])
    (ids,) = item.sequences
    assert ids[-1] == end
    assert ids[-2] != end
    (ours,) = model.read(forward(model.backbone, [item], "padded").hidden).score
    with torch.no_grad():
        earlier = theirs(torch.from_numpy(ids)[None]).logits[0].numpy()
        short = theirs(torch.from_numpy(ids[:-1])[None]).logits[0].numpy()
        theirs.config.pad_token_id = None  # then it takes the last by position, too
        by_position = theirs(torch.from_numpy(ids)[None]).logits[0].numpy()
    np.testing.assert_allclose(ours, by_position, atol=1e-5)
    np.testing.assert_allclose(earlier, short, atol=1e-5)
    assert np.abs(ours - earlier).max() > 0.1
    says = model.card["reads"]
    assert says.startswith(f"the last token, {tiny.EOT!r}; it is the pad token, which")
    found = extract(model, one_item(), store=tmp_path / "store")
    assert found.attrs["extraction"]["reads"] == says


def one_item():
    builder = Builder("made-up")
    builder.add("item", "Hi", ["Hello there, how can I help?", "No."], [(0, 1, "c", "s")])
    return builder.build()


def test_another_pad_token_moves_nothing_and_the_token_alone_is_named(tmp_path):
    tiny.write_classifier(tmp_path)
    assert load(tmp_path).card["reads"] == f"the last token, {tiny.EOT!r}"


def test_a_run_says_which_token_is_read(tiny_model, tmp_path):
    found = extract(tiny_model, one_item(), store=tmp_path)
    assert found.attrs["extraction"]["reads"] == "the last '<|im_end|>'"


# ---- Kernels ----


@pytest.mark.parametrize("key", ["_attn_implementation", "attn_implementation"])
@pytest.mark.parametrize("kernel", ["kernels-community/flash-attn", "flash_attention_2", "eager"])
def test_an_attention_kernel_that_the_configuration_names_is_not_followed(tmp_path, key, kernel):
    tiny.write_classifier(tmp_path, labels=3)
    expected = load(tmp_path)
    change(tmp_path, "config.json", **{key: kernel}, _experts_implementation="org/kernel")
    found = load(tmp_path)
    assert found.backbone.config._attn_implementation == "sdpa"
    assert (
        found.backbone.config._attn_implementation == expected.backbone.config._attn_implementation
    )


def test_a_kernel_named_in_a_part_of_the_configuration_is_not_followed_either(tmp_path):
    torch.manual_seed(0)
    import test_every_classifier as every

    theirs = transformers.Gemma3ForSequenceClassification(every.small("gemma3"))
    theirs.save_pretrained(tmp_path)
    tiny.tokenizer().save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    for part in ("text_config", "vision_config"):
        config[part]["_attn_implementation"] = "kernels-community/flash-attn"
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert load(tmp_path).backbone.config.get_text_config()._attn_implementation == "sdpa"


# ---- Sizes ----


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("llama", {"vocab_size": 10**12}),
        ("llama", {"hidden_size": 10**9, "num_attention_heads": 4}),
        ("llama", {"intermediate_size": 10**12}),
        ("gpt2", {"n_positions": 10**6}),
    ],
)
def test_sizes_that_the_weights_do_not_have_are_refused_at_once(tmp_path, kind, fields):
    tiny.write_classifier(tmp_path, kind=kind)
    change(tmp_path, "config.json", **fields)
    began = time.monotonic()
    with pytest.raises(ModelError):
        load(tmp_path)
    assert time.monotonic() - began < 5


def test_a_window_that_no_weight_has_costs_nothing(tmp_path):
    tiny.write_classifier(tmp_path, kind="gpt_neox")
    change(tmp_path, "config.json", max_position_embeddings=10**12)
    began = time.monotonic()
    assert len(load(tmp_path).heads) >= 1
    assert time.monotonic() - began < 5


def test_opened_twice_it_is_the_same(tmp_path):
    tiny.write_classifier(tmp_path)
    assert open_checkpoint(tmp_path, "m") == open_checkpoint(tmp_path, "m")
