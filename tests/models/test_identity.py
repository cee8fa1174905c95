"""A state's name changes whenever what makes it does: weights, configuration, tokens, date."""

from __future__ import annotations

import copy
import functools
import hashlib
import json
import warnings
from datetime import datetime

import numpy as np
import pytest
import tiny
import torch

from lib.data.items import Builder
from lib.errors import ModelError
from lib.extraction import extract
from lib.extraction.forward import forward
from lib.models import backbone as backbones
from lib.models import files, load_model
from lib.models.prompt import PromptFormat

DATED = (
    "{% if strftime_now is defined %}{{ 'Today: ' + strftime_now('%d %b %Y') + '\n' }}{% endif %}"
    + tiny.OPENS_WHEN_ASKED
)


# Weights.


def sampled_before(n: int) -> int:
    """The step at which a digest of a thousand words of n would look."""
    return max(1, n // 1000)


def test_reversing_all_weights_but_a_thousand_of_a_layer_is_another_identity(tiny_llama):
    module = tiny_llama(vocab_size=8000)  # 256,000 words in the embedding
    before = backbones.fingerprint(module)["backbone"]
    flat = module.embed_tokens.weight.detach().view(-1)
    others = torch.arange(len(flat)) % sampled_before(len(flat)) != 0
    with torch.no_grad():
        flat[others] = flat[others].flip(0)  # the sum of all stays, too
    assert backbones.fingerprint(module)["backbone"] != before


def test_the_digest_of_weights_is_that_of_their_names_shapes_types_and_bytes(monkeypatch):
    monkeypatch.setattr(backbones, "BLOCK", 16)
    tensors = {
        "b": torch.arange(6, dtype=torch.float32).reshape(2, 3),
        "a": torch.tensor([1.5, -2], dtype=torch.bfloat16),
        "c": torch.tensor(7),
    }
    raw = np.arange(6, dtype="<f4").tobytes()
    blocks = {
        "a": [b"\xc0\x3f\x00\xc0"],  # 1.5 is 0x3fc0 in bfloat16, -2 is 0xc000
        "b": [raw[:16], raw[16:]],
        "c": [(7).to_bytes(8, "little")],
    }
    heads = {
        "a": b"a (2,) torch.bfloat16\0",
        "b": b"b (2, 3) torch.float32\0",
        "c": b"c () torch.int64\0",
    }
    wanted = hashlib.sha256()
    for name in "abc":
        wanted.update(heads[name] + b"".join(hashlib.sha256(x).digest() for x in blocks[name]))
    assert backbones.weights_digest(tensors) == wanted.hexdigest()[:16]
    strided = {**tensors, "b": tensors["b"].t().contiguous().t()}
    assert backbones.weights_digest(strided) == wanted.hexdigest()[:16]


# Configuration.

OTHERS = {  # for keys whose kind doesn't say what else they could be
    "hidden_act": ["gelu", "relu"],
    "hidden_activation": ["gelu", "relu"],
    "sliding_window": [4],
    "rope_parameters": [
        {"rope_type": "default", "rope_theta": 50.0},
        {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0},
        {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0},
        {
            "rope_type": "llama3",
            "rope_theta": 10000.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
        {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0},
    ],
    "layer_types": [["full_attention", "full_attention"], ["sliding_attention"] * 2],
    "dtype": ["bfloat16"],
}
MOVES = {  # keys that must be seen to move a score, or the test shows nothing
    "llama": {"rms_norm_eps", "hidden_act", "rope_parameters"},
    "mistral": {"rms_norm_eps", "hidden_act", "rope_parameters", "sliding_window"},
    "gemma2": {"rms_norm_eps", "hidden_activation", "rope_parameters", "query_pre_attn_scalar"},
}


def others(key: str, value) -> list:
    """Values that an entry of a configuration could have instead."""
    if key in OTHERS:
        return OTHERS[key]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, (int, float)):
        return [value * 2, value + 1, value / 2, 0.3] if value else [1, 0.3]
    return [True, 1, 0.3, "other"] if value is None else []


def scores(model) -> np.ndarray:
    encoded = [model.format.encode(prompt, responses) for prompt, responses in tiny.CASES]
    return model.read(forward(model.backbone, encoded, packing="padded").hidden).score


def name(model) -> dict[str, str]:
    """All of a model's identity that names its states."""
    return {part: digest for part, digest in model.fingerprint.items() if part != "heads"}


@pytest.mark.parametrize("kind", MOVES)
def test_each_key_of_a_configuration_that_moves_a_score_names_another_state(tmp_path, kind):
    """Also a key that the file doesn't hold: all that the loaded configuration has are tried."""
    changes = {"sliding_window": 64} if kind == "mistral" else {}
    tiny.write_classifier(tmp_path, kind=kind, **changes)
    file = tmp_path / "config.json"
    written = json.loads(file.read_text())
    before = load_model(str(tmp_path), device="cpu")
    kept, module, named = scores(before), backbones.fingerprint(before.backbone), name(before)
    moved = set()
    for key, value in before.backbone.config.to_dict().items():
        for other in others(key, value):
            file.write_text(json.dumps({**written, key: other}))
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    after = load_model(str(tmp_path), device="cpu")
                    found = scores(after)
            except Exception:  # no such model: nothing is named
                continue
            if not np.array_equal(found, kept):
                moved.add(key)
                told = backbones.fingerprint(after.backbone) != module  # a part, and the quick one
                assert told or name(after) != named, f"{key}: {other}"
    assert moved >= MOVES[kind]


def test_a_mended_configuration_gives_the_scores_of_an_empty_cache(tmp_path, monkeypatch):
    folder, file = tmp_path / "model", tmp_path / "model" / "config.json"
    tiny.write_classifier(folder)
    builder = Builder("made up")
    for number, (prompt, responses) in enumerate(tiny.CASES[:2]):
        builder.add(str(number), prompt, responses[:2], [(0, 1, "c", "s")])
    items = builder.build()

    def extracted(cache: str) -> np.ndarray:
        monkeypatch.setenv("REWARD_AUDIT_CACHE", str(tmp_path / cache))
        return extract(load_model(str(folder), device="cpu"), items)["score"].values

    before = extracted("used")
    tiny.edit(file, rope_parameters=OTHERS["rope_parameters"][3])
    after = extracted("used")
    np.testing.assert_array_equal(after, extracted("empty"))
    assert np.abs(after - before).min() > 1e-3


def test_keys_that_move_nothing_keep_the_name(tmp_path):
    tiny.write_classifier(tmp_path)
    before = name(load_model(str(tmp_path), device="cpu"))
    tiny.edit(
        tmp_path / "config.json",
        attention_dropout=0.5,
        initializer_range=0.5,
        use_cache=False,
        id2label={"0": "other"},
        transformers_version="4.0.0",
    )
    assert name(load_model(str(tmp_path), device="cpu")) == before


def test_a_key_that_nobody_knows_counts(tiny_llama):
    config = tiny_llama().config
    before = backbones.configuration_digest(config)
    other = copy.deepcopy(config)
    other.made_up = {"nested": 1}
    assert backbones.configuration_digest(other) != before


# Tokens.


@functools.cache
def named(template: str, date: str | None = None) -> dict[str, str]:
    return PromptFormat(tiny.tokenizer(template), "m", date=date).fingerprint


@pytest.mark.parametrize(
    "change",
    [
        {"bos_token": "<s>"},
        {"chat_template": DATED},
        {"chat_template": "{{ 'You are kind.\n' }}" + tiny.OPENS_WHEN_ASKED},
        {"eos_token": "</s>"},
    ],
    ids=["bos", "template", "default system prompt", "eos"],
)
def test_what_changes_the_tokens_changes_the_name(change):
    tokenizer, before = tiny.tokenizer(), named(tiny.OPENS_WHEN_ASKED)
    for key, value in change.items():
        setattr(tokenizer, key, value)
    assert PromptFormat(tokenizer, "m").fingerprint != before


def test_a_merge_that_a_tokenizer_lacks_is_seen_in_what_it_makes():
    """The vocabulary is the same; only what comes out is another."""
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    made = tiny.tokenizer()
    document = json.loads(made.backend_tokenizer.to_str())
    document["model"]["merges"] = document["model"]["merges"][:-5]
    other = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(document)),
        bos_token=made.bos_token,
        eos_token=made.eos_token,
        pad_token=made.pad_token,
    )
    other.chat_template = made.chat_template
    a, b = named(tiny.OPENS_WHEN_ASKED), PromptFormat(other, "m").fingerprint
    assert {part for part in a if a[part] != b[part]} <= {"tokens", "tokenizer"}


# The date.


def clock(day: str):
    """A ``datetime`` whose now is that day."""

    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return cls.fromisoformat(day)

    return Clock


def seen_on(day: str, monkeypatch, **options) -> tuple[list[int], dict[str, str]]:
    from transformers.utils import chat_template_utils

    monkeypatch.setattr(chat_template_utils, "datetime", clock(day))
    form = PromptFormat(tiny.tokenizer(DATED), "m", **options)
    plain = form.encode(*tiny.CASES[1]).sequences[0].tolist()
    # A turn with more than text goes through apply_chat_template.
    more = [{"role": "user", "content": "Hi", "name": "x"}]
    return plain + form.encode(more, ["Hello."]).sequences[0].tolist(), form.fingerprint


def test_two_days_give_the_same_tokens_and_the_same_name(monkeypatch):
    first = seen_on("2026-01-31", monkeypatch)
    assert seen_on("2026-02-01", monkeypatch) == first
    assert "Today: 26 Jul 2024" in PromptFormat(tiny.tokenizer(DATED), "m").example


def test_another_date_gives_another_name_where_the_template_writes_it():
    assert named(DATED, "2024-07-26") == named(DATED)
    assert named(DATED, "2025-01-01") != named(DATED)
    assert named(tiny.OPENS_WHEN_ASKED, "2025-01-01") == named(tiny.OPENS_WHEN_ASKED)
    assert PromptFormat(tiny.tokenizer(), "m", date="2025-01-01").date == ""
    form = PromptFormat(tiny.tokenizer(DATED), "m", date="2025-01-01")
    assert form.date == "2025-01-01" and "Today: 01 Jan 2025" in form.example


@pytest.mark.parametrize("date", ["26 Jul 2024", "2024-02-30", "today", 20240726])
def test_a_date_that_is_none_is_an_error(date):
    with pytest.raises(ModelError, match="a date such as 2024-07-26"):
        PromptFormat(tiny.tokenizer(), "m", date=date)


def test_a_template_that_draws_at_random_is_refused():
    drawn = "{{ ['a', 'b'] | random }}" + tiny.OPENS_WHEN_ASKED
    with pytest.raises(ModelError, match="draws at random"):
        PromptFormat(tiny.tokenizer(drawn), "m")


# The backbone that is kept in the cache.


@pytest.fixture
def kept(tmp_path, monkeypatch, tiny_llama):
    """The embedded backbone's cache, of a tiny model that is made at once."""
    source = tmp_path / files.GGUF
    source.write_bytes(b"quantised")
    made = []

    def dequantise(path, folder):
        made.append(path)
        tiny_llama().save_pretrained(folder)
        tiny.tokenizer().save_pretrained(folder)

    monkeypatch.setenv("REWARD_AUDIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(files, "gguf", lambda: source)
    monkeypatch.setattr(backbones, "_dequantise", dequantise)
    return source, made


def flipped(path):
    """Flip the sign of two weights, the sum of their bytes' bits kept."""
    content = bytearray(path.read_bytes())
    content[-1] ^= 0x80
    content[-5] ^= 0x80
    path.write_bytes(content)


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: flipped(folder / "model.safetensors"),
        lambda folder: (folder / "model.safetensors").write_bytes(b"short"),
        lambda folder: (folder / "model.safetensors").unlink(),
        lambda folder: (folder / "tokenizer.json").write_text("{}"),
        lambda folder: (folder / "config.json").write_text("{}"),
        lambda folder: (folder / backbones.CHECKSUMS).unlink(),
        lambda folder: (folder / backbones.CHECKSUMS).write_text("[]"),
    ],
    ids=["signs", "truncated", "missing", "tokenizer", "configuration", "unknown", "no object"],
)
def test_a_kept_backbone_that_changed_is_made_again_and_that_is_said(kept, damage):
    source, made = kept
    first = backbones.fingerprint(backbones.load_embedded()[0])
    backbones.load_embedded()
    assert len(made) == 1
    damage(backbones.dequantised())
    with pytest.warns(UserWarning, match="aren't as they were written.*made again from"):
        again, _ = backbones.load_embedded()
    assert len(made) == 2
    assert backbones.fingerprint(again) == first


def test_a_backbone_kept_of_another_file_of_the_same_size_is_made_again(kept):
    source, made = kept
    backbones.load_embedded()
    source.write_bytes(b"QUANTISED")
    with pytest.warns(UserWarning, match="made from another file"):
        backbones.load_embedded()
    assert len(made) == 2


def test_a_quantised_file_is_parsed_once_and_by_whom_it_was_before(monkeypatch):
    import gguf

    parsed = []
    monkeypatch.setattr(gguf, "GGUFReader", lambda path: parsed.append(path) or object())
    before = gguf.GGUFReader, gguf.get_tensor_name_map
    with pytest.raises(ZeroDivisionError), backbones._read_once():
        assert gguf.GGUFReader("a") is gguf.GGUFReader("a") is not gguf.GGUFReader("b")
        raise ZeroDivisionError
    assert parsed == ["a", "b"]
    assert (gguf.GGUFReader, gguf.get_tensor_name_map) == before


def permuted(weight: np.ndarray, heads: int) -> np.ndarray:
    """Rows of a query's or key's weights in the order that llama.cpp has them in."""
    rows, columns = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, -1)


def model_of(tokenizer) -> dict:
    return json.loads(tokenizer.backend_tokenizer.to_str())["model"]


@pytest.fixture
def quantised(tmp_path, monkeypatch):
    """A file as the embedded one, of two narrow layers; gives what each tensor dequantises to."""
    import gguf
    from gguf import GGMLQuantizationType as Kinds

    module = tiny.backbone(rms_norm_eps=1e-6)
    head = tiny.tokenizer()
    document = model_of(head)
    tokens = sorted(document["vocab"], key=document["vocab"].get)
    special = set(head.get_added_vocab())
    path = tmp_path / files.GGUF
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_block_count(2)
    writer.add_context_length(512)
    writer.add_embedding_length(tiny.D)
    writer.add_feed_forward_length(64)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(400)
    writer.add_rope_dimension_count(8)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in special else 1 for token in tokens])
    writer.add_token_merges([" ".join(pair) for pair in document["merges"]])
    for name in ("bos", "eos", "pad"):
        getattr(writer, f"add_{name}_token_id")(getattr(head, f"{name}_token_id"))
    writer.add_unk_token_id(0)
    writer.add_chat_template(tiny.CHATML)
    known = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 2)
    kept = {}
    for name, tensor in module.state_dict().items():
        values, other = tensor.numpy(), known.get_name(f"model.{name}", (".weight",))
        if "norm" in name:
            writer.add_tensor(other, values)
            kept[name] = values
            continue
        kind = Kinds.Q8_0 if "embed" in name else Kinds.Q4_1
        heads = {"q_proj": 4, "k_proj": 2}.get(name.split(".")[-2])
        written = permuted(values, heads) if heads else values
        writer.add_tensor(other, gguf.quantize(written, kind), raw_dtype=kind)
        kept[name] = gguf.dequantize(gguf.quantize(values, kind), kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    monkeypatch.setenv("REWARD_AUDIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(files, "gguf", lambda: path)
    return kept


def test_a_quantised_file_gives_its_weights_and_with_two_flipped_signs_gives_them_again(quantised):
    module, tokenizer = backbones.load_embedded()
    found = module.state_dict()
    assert set(found) == set(quantised)
    for name, values in quantised.items():
        np.testing.assert_array_equal(found[name].numpy(), values, err_msg=name)
    assert tokenizer.chat_template == tiny.CHATML
    for part in ("vocab", "merges"):
        assert model_of(tokenizer)[part] == model_of(tiny.tokenizer())[part]
    before = backbones.fingerprint(module)
    flipped(backbones.dequantised() / "model.safetensors")
    with pytest.warns(UserWarning, match="model.safetensors"):
        again, _ = backbones.load_embedded()
    assert backbones.fingerprint(again) == before
