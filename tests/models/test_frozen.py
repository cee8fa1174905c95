"""A folder of heads is read only when card and tensors are whole, and a device when it is here."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from lib import paths
from lib.errors import ModelError
from lib.models import EMBEDDED, frozen, load_model, resolve
from lib.models.checkpoint import open_checkpoint
from lib.models.weights import head_weights

HEADS = [{"name": "wit", "source": "us", "concept": "humour"}, {"name": "tact", "source": "us"}]
SPLIT = {"rule": "by hash", "train": ["a"], "choose": ["b"], "held_out": ["c"]}
SCORE = {"value": 0.7, "low": 0.6, "high": 0.8, "rows": 90}
PLAIN = {"weight": np.ones((2, 3)), "bias": np.zeros(2)}
GATED = PLAIN | {
    "transform": np.eye(2),
    "gate.0.weight": np.ones((4, 3)),
    "gate.0.bias": np.zeros(4),
    "gate.1.weight": np.ones((2, 4)),
    "gate.1.bias": np.zeros(2),
    "gate.logit_scale": np.ones(1),
    "gate.temperature": np.full(1, 10.0),
}


def write(folder, card=None, arrays=PLAIN):
    card = {"heads": HEADS, "split": SPLIT} if card is None else card
    (folder / frozen.CARD).write_text(json.dumps(card))
    arrays = {name: np.asarray(array) for name, array in arrays.items()}
    save_file(arrays, folder / frozen.WEIGHTS)
    return folder


def test_a_whole_folder_is_read_without_the_backbone(tmp_path):
    parts = frozen.read(write(tmp_path))
    assert [(head.name, head.source, head.concept) for head in parts.heads] == [
        ("wit", "us", "humour"),
        ("tact", "us", ""),
    ]
    assert parts.weight.dtype == np.float32 and parts.weight.shape == (2, 3)
    assert parts.gate is None and parts.card["split"] == SPLIT
    gated = frozen.read(write(tmp_path, arrays=GATED))
    assert gated.gate.temperature == 10 and len(gated.gate.layers) == 2


@pytest.mark.parametrize("name", EMBEDDED)
def test_the_committed_models_are_whole(name):
    parts = frozen.read(paths.embedded(name))
    assert parts.card["name"] == name
    if isinstance(parts, frozen.SparseParts):
        assert len(parts.heads) == 1
        assert len(parts.of_all) == parts.reward.sae.latents
        assert len(parts.of_state) == parts.reward.sae.features
    else:
        assert len(parts.heads) == len(parts.weight) > 0


def test_an_embedded_model_without_its_files_says_how_to_make_them(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "embedded", lambda name: tmp_path / name)
    with pytest.raises(ModelError, match="python -m lib train .*smol-mixed") as caught:
        load_model("smol-mixed")
    assert str(tmp_path / "smol-mixed") in caught.value.needed


@pytest.mark.parametrize("count", [1, 2])
def test_a_single_head_without_a_gate_is_the_final_score(tmp_path, count):
    arrays = {"weight": np.ones((count, 3)), "bias": np.full(count, 0.5)}
    found = frozen.read(write(tmp_path, {"heads": HEADS[:count], "split": SPLIT}, arrays))
    model = frozen.FrozenHeads(
        "made up", found.heads, None, None, found.weight, found.card, found.bias
    )
    readout = model.read(np.asarray([[1, 2, 3], [0, 0, 0]]))
    assert readout.score[:, 0].tolist() == [6.5, 0.5]
    assert readout.gate is None
    assert (None if readout.final is None else readout.final.tolist()) == (
        [6.5, 0.5] if count == 1 else None
    )


@pytest.mark.parametrize(
    ("heads", "found"),
    [
        ({"wit": "us"}, 'a valid list as heads in a card.*found {"wit": "us"}'),
        ([], "at least 1 item .* as heads in"),
        (None, "a valid list as heads in"),
        (["wit", "tact"], 'a valid dictionary as heads.0 in .*found "wit"'),
        ([HEADS[0], {"source": "us"}], "a value as heads.1.name in .*found none"),
        ([HEADS[0], {"name": "tact"}], "a value as heads.1.source in .*found none"),
        ([HEADS[0], {"name": 3, "source": "us"}], "a valid string as heads.1.name in .*found 3"),
        ([HEADS[0], {"name": " ", "source": "us"}], 'a printable text as heads.1.name .*found " "'),
        ([HEADS[0], {"name": "a\nb", "source": "us"}], "a printable text as heads.1.name"),
        ([HEADS[0], {"name": "tact", "source": ["us"]}], "a valid string as heads.1.source"),
        ([HEADS[0] | {"concept": None}], "as heads.0.concept in .*found null"),
        ([HEADS[0], HEADS[0]], "one head named 'wit' as heads in"),
        (
            [HEADS[0], {"name": "x" * 201, "source": "us"}],
            f'at most 200 characters as heads.1.name .*found "{"x" * 40}x*…',
        ),
        ([HEADS[0] | {"concept": "x" * 201}], "at most 200 characters as heads.0.concept"),
        ([HEADS[0] | {"concept": "wit\x1b[2J"}], r"a printable text as heads.0.concept .*\\u001b"),
        ([HEADS[0] | {"is_not": "x" * 2001}], "at most 2000 characters as heads.0.is_not"),
    ],
)
def test_malformed_heads_are_named(tmp_path, heads, found):
    with pytest.raises(ModelError, match=f"{found}.*python -m lib train") as caught:
        frozen.read(write(tmp_path, {"heads": heads, "split": SPLIT}))
    assert "a card with heads and split" in caught.value.needed


@pytest.mark.parametrize(
    "split", [None, [], "all", {"train": "abc"}, {"train": 3}, {"train": [1]}, {"train": {}}]
)
def test_a_malformed_split_is_an_error(tmp_path, split):
    with pytest.raises(
        ModelError, match="a valid (list|string|dictionary) as .* card with heads and split"
    ):
        frozen.read(write(tmp_path, {"heads": HEADS, "split": split}))


@pytest.mark.parametrize("card", [[], 7, "heads split", {}, {"heads": HEADS}, ["heads", "split"]])
def test_a_card_without_its_parts_is_an_error(tmp_path, card):
    with pytest.raises(ModelError, match="no heads or no split|JSON that is no object"):
        frozen.read(write(tmp_path, card))


@pytest.mark.parametrize(
    ("head", "gate", "says"),
    [
        ({"rows": "many"}, {}, 'a valid integer as heads.1.rows in a card .* found "many"'),
        ({"trained_on": ["a"]}, {}, "a valid string as heads.1.trained_on"),
        ({"is_not": 7}, {}, "heads.1.is_not in"),
        ({"held_out": 0.7}, {}, "a valid dictionary as heads.1.held_out"),
        ({"held_out": {**SCORE, "low": "0.5"}}, {}, "a valid number as heads.1.held_out.low"),
        ({"held_out": {"value": 0.7}}, {}, "a value as heads.1.held_out.low in"),
        ({"cross_validated": None}, {}, "heads.1.cross_validated in"),
        ({}, [], "a valid dictionary as gate in a card"),
        ({}, {"held_out": 1}, "a valid dictionary as gate.held_out in"),
        ({}, {"held_out_single_heads": []}, "as gate.held_out_single_heads in"),
        ({}, {"held_out_single_heads": {"a": 1}}, "as gate.held_out_single_heads.a in"),
    ],
)
def test_what_pages_show_of_a_card_is_of_its_type_when_the_model_loads(tmp_path, head, gate, says):
    heads = [HEADS[0], HEADS[1] | {"held_out": SCORE} | head]
    with pytest.raises(ModelError, match=says):
        frozen.read(write(tmp_path, {"heads": heads, "split": SPLIT, "gate": gate}))


def test_a_card_that_cannot_be_read_is_an_error(tmp_path, monkeypatch):
    write(tmp_path)

    def refuse(*args, **options):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("lib.documents.os.open", refuse)
    message = r"a readable file at .*card\.json; found Permission denied\. Check the path"
    with pytest.raises(ModelError, match=message):
        frozen.read(tmp_path)


@pytest.mark.parametrize("read", [load_model, head_weights])
def test_a_folder_that_cannot_be_looked_at_is_an_error(tmp_path, monkeypatch, read):
    folder = write(tmp_path)

    def refuse(*args, **options):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "stat", refuse)
    with pytest.raises(ModelError, match="a readable folder at .*Permission denied"):
        read(str(folder))


@pytest.mark.parametrize("read", [load_model, head_weights])
def test_a_name_too_long_for_the_system_is_an_error(read):
    with pytest.raises(ModelError, match="a readable folder at .*File name too long"):
        read("x" * 300)


def test_a_configuration_that_cannot_be_read_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text("{}")

    def refuse(*args, **options):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("lib.documents.os.open", refuse)
    with pytest.raises(ModelError, match=r"a readable file at .*config\.json; found Permission"):
        open_checkpoint(tmp_path, "org/model")


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b"[" * 100_000])
def test_a_card_that_is_no_json_is_an_error(tmp_path, text):
    (write(tmp_path) / frozen.CARD).write_bytes(text)
    with pytest.raises(ModelError, match="a card with heads and split"):
        frozen.read(tmp_path)


@pytest.mark.parametrize(
    ("change", "needed"),
    [
        ({"weight": np.full((2, 3), np.inf)}, "finite weights"),
        ({"bias": np.full(2, 1e300)}, "finite weights"),  # infinite in float32
        ({"weight": np.ones((3, 3))}, "2 rows of weights"),
        ({"weight": np.ones(2)}, "2 rows of weights"),
        ({"extra": np.ones(2)}, "tensors bias, gate"),
        ({"gate.logit_scale": np.ones(0)}, "logit_scale"),
        ({"gate.temperature": np.zeros(1)}, "temperature above 0"),
        ({"gate.0.bias": np.asarray(0.0)}, "a gate over 2 heads"),
        ({"gate.0.weight": np.ones((4, 2))}, "a gate over 2 heads"),
        ({"transform": np.eye(3)}, "a gate over 2 heads"),
    ],
)
def test_tensors_that_do_not_fit_are_an_error(tmp_path, change, needed):
    with pytest.raises(ModelError, match=needed):
        frozen.read(write(tmp_path, arrays=GATED | change))


# Devices.


@pytest.mark.parametrize("device", ["xpu", "meta", "cpu:0", "cuda:-1", "cuda:x", "gpu", "", "CPU"])
def test_other_devices_are_refused_by_name(device):
    with pytest.raises(ModelError, match="a known device") as caught:
        resolve(device, None)
    assert caught.value.found == repr(device)


def test_a_device_that_this_machine_lacks_is_an_error(monkeypatch):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for device in ("mps", "cuda", "cuda:1"):
        with pytest.raises(ModelError, match=f"for device '{device}'; found none"):
            resolve(device, None)
    assert resolve(None, None) == ("cpu", torch.float32)
    with pytest.raises(ModelError, match="a dtype that this CPU computes in; found float16"):
        resolve(None, "float16")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [resolve(d, "bfloat16")[0] for d in (None, "cuda:1")] == ["cuda", "cuda:1"]
    with pytest.raises(ModelError, match="for device 'cuda:2'; found 2"):
        resolve("cuda:2", None)
