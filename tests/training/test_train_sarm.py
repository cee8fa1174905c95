"""SARM's recipe from files to a checkpoint that loads, by the command line."""

import json

import numpy as np
import pytest

from lib.__main__ import main
from lib.models import load_model


@pytest.fixture(scope="module")
def trained(tmp_path_factory, monkeypatch_module, write_tiny):
    folder = tmp_path_factory.mktemp("sarm")
    monkeypatch_module.setenv("REWARD_AUDIT_CACHE", str(folder / "cache"))
    write_tiny.write_classifier(folder / "model", kind="llama", num_hidden_layers=4)
    rng = np.random.default_rng(0)
    rows = []
    for number in range(80):
        good, bad = (" ".join(rng.choice(words, 5)) for words in (GOOD, BAD))
        rows.append({"prompt": f"Say {number}.", "chosen": good, "rejected": bad})
    data = folder / "pairs.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = folder / "made"
    status = main(
        f"train sarm {folder / 'model'} --data file:{data} --latents 64 --k 4 --steps 40 "
        f"--batch 128 --seed 3 --device cpu --out {out}".split()
    )
    assert status == 0
    return out


GOOD, BAD = ["fair", "lovely", "pretty", "Spain"], ["No", "terse", "won't", "1561"]


@pytest.fixture(scope="module")
def monkeypatch_module():
    with pytest.MonkeyPatch.context() as patch:
        yield patch


def test_the_checkpoint_loads_as_sarm(trained):
    model = load_model(str(trained), device="cpu")
    assert model.card["sarm"] == {
        "topk": True,
        "flag": "sarm_use_topk",
        "layer": 2,
        "latents": 64,
        "k": 4,
    }
    assert model.trained_on


def test_the_card_tells_quality_and_all_readings(trained):
    card = json.loads((trained / "training.json").read_text())
    assert set(card["heads"]) == {"z", "pre", "dense", "rebuilt"}
    assert card["quality"]["explained"]["value"] > 0.2
    assert card["heads"]["dense"]["held_out"]["value"] == 1  # words alone tell the better one
    assert card["seed"] == 3 and card["layer"] == 2
    assert not set(card["split"]["train"]) & set(card["split"]["held_out"])
    assert sorted(path.name for path in trained.glob("*.partial*")) == []
