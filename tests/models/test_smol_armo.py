"""The committed model is what its card says: split, scores, limits, size."""

from __future__ import annotations

import itertools
import json
import re

import numpy as np
import pytest
from safetensors.numpy import load_file

from lib import paths
from lib.models.frozen import CARD, WEIGHTS
from lib.training import split

FOLDER = paths.embedded("smol-armo")
SETS = {
    "hh-rlhf/helpful-base": "hh-rlhf",
    "hh-rlhf/harmless-base": "hh-rlhf",
    "xstest": "xstest",
    "reward-bench-2": "reward-bench-2",
    "llmbar": "llmbar",
}


@pytest.fixture(scope="module")
def card() -> dict:
    return json.loads((FOLDER / CARD).read_text())


@pytest.fixture(scope="module")
def heads(card) -> dict:
    return {entry["name"]: entry for entry in card["heads"]}


@pytest.fixture(scope="module")
def tensors() -> dict:
    return load_file(FOLDER / WEIGHTS)


def test_it_has_ten_heads_and_a_row_of_weights_for_each(card, tensors):
    names = [entry["name"] for entry in card["heads"]]
    assert len(set(names)) == len(names) >= 10
    assert len(tensors["weight"]) == len(tensors["bias"]) == len(names)
    assert all(np.isfinite(array).all() for array in tensors.values())
    assert (np.linalg.norm(tensors["weight"], axis=1) > 0).all()


def test_it_is_small():
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) <= 2_000_000


def test_no_prompt_is_on_two_sides(card):
    sides = {side: card["split"][side] for side in split.SIDES}
    for side, hashes in sides.items():
        assert len(set(hashes)) == len(hashes) > 100, side
        assert all(re.fullmatch("[0-9a-f]{16}", prompt) for prompt in hashes)
    for one, other in itertools.combinations(sides.values(), 2):
        assert not set(one) & set(other)


def test_every_head_says_what_it_is_not_where_its_name_comes_from_and_how_it_scored(heads):
    for name, entry in heads.items():
        assert re.fullmatch(r"Not .+\.", entry["is_not"]), name
        assert entry["source"], name
        for which in ("cross_validated", "held_out"):
            found = entry[which]
            assert found["low"] < found["value"] < found["high"], name
            assert found["rows"] > 0


@pytest.mark.parametrize("name", ["hh-helpful", "hh-harmless"])
def test_the_hh_heads_reach_their_bars(heads, name):
    entry = heads[name]
    assert entry["cross_validated"]["value"] >= 0.62
    held_out = entry["held_out"]
    assert held_out["low"] > 0.5
    assert held_out["low"] <= entry["cross_validated"]["value"] <= held_out["high"]


def test_refusal_and_verbosity_reach_their_bars(heads):
    for which in ("cross_validated", "held_out"):
        assert heads["refusal"]["score"] == "accuracy"
        assert heads["refusal"][which]["value"] >= 0.85
        assert heads["verbosity"]["score"] == "spearman"
        assert heads["verbosity"][which]["value"] >= 0.9


def test_the_gated_score_beats_every_head_and_one_head_trained_on_the_mixture(card, heads):
    gate = card["gate"]
    gated = gate["held_out"]["value"]
    assert set(gate["held_out_single_heads"]) == set(heads)
    assert all(held["value"] < gated for held in gate["held_out_single_heads"].values())
    assert gate["held_out_mixed_one_head"]["value"] < gated
    assert gate["held_out"]["low"] > 0.5


def test_the_matrix_is_the_one_that_the_card_describes(card, tensors):
    names = [entry["name"] for entry in card["heads"]]
    removed = names.index(card["debiasing"]["removed"])
    expected = np.eye(len(names))
    expected[removed] -= [card["debiasing"]["lambda"][name] or 0 for name in names]
    assert tensors["transform"] == pytest.approx(expected, abs=1e-4)


def test_the_gate_weighs_the_heads_that_the_card_names(card, tensors):
    from lib.models.gating import Gate

    depth = sum(name.endswith(".weight") for name in tensors)
    layers = [(tensors[f"gate.{i}.weight"], tensors[f"gate.{i}.bias"]) for i in range(depth)]
    network = Gate(layers, float(tensors["gate.logit_scale"][0]), 1.0)
    weight = network(np.zeros((1, tensors["weight"].shape[1])))[0]
    weighed = {entry["name"] for entry, g in zip(card["heads"], weight, strict=True) if g > 0}
    assert weighed == set(card["gate"]["gated"])


@pytest.mark.parametrize("dataset", SETS)
def test_real_prompts_fall_on_the_side_that_the_card_says(card, shared_data, dataset):
    from lib.data import load_items

    prompts = load_items(dataset, source=shared_data / SETS[dataset]).prompts
    side = split.side(prompts["prompt"])
    hashes = prompts["prompt_hash"].to_numpy()
    assert set(side) == set(split.SIDES)
    known = {name: set(card["split"][name]) for name in split.SIDES}
    unknown = 0
    for prompt, own in zip(hashes, side, strict=True):
        others = set().union(*(known[name] for name in split.SIDES if name != own))
        assert prompt not in others
        unknown += prompt not in known[own]
    assert unknown == 0, "every usable prompt was split"


def test_an_audit_leaves_out_what_trained_and_keeps_what_was_held_out(card):
    from lib.models import load_model

    model = load_model("smol-armo")
    assert model.trained_on == set(card["split"]["train"]) | set(card["split"]["choose"])
    assert not model.trained_on & set(card["split"]["held_out"])
