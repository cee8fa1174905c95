"""The committed models are what their cards say: split, scores, limits, size.

``card``, ``heads`` and ``tensors`` are smol-armo's, ``mixed`` and ``mixed_tensors`` those of
smol-mixed, the one head that holds out what smol-armo does.
"""

from __future__ import annotations

import itertools
import json
import re

import numpy as np
import pytest
from safetensors.numpy import load_file

from lib import paths
from lib.data import load_items
from lib.models import EMBEDDED, load_model
from lib.models.frozen import CARD, WEIGHTS
from lib.models.gating import Gate
from lib.models.weights import head_weights
from lib.training import split

BOTH = ("hh-rlhf/helpful-base", "hh-rlhf/harmless-base")
SETS = (*BOTH, "xstest", "reward-bench-2", "llmbar")


def card_of(name: str) -> dict:
    return json.loads((paths.embedded(name) / CARD).read_text())


@pytest.fixture(scope="module")
def card() -> dict:
    return card_of("smol-armo")


@pytest.fixture(scope="module")
def mixed() -> dict:
    return card_of("smol-mixed")


@pytest.fixture(scope="module")
def heads(card) -> dict:
    return {entry["name"]: entry for entry in card["heads"]}


@pytest.fixture(scope="module")
def tensors() -> dict:
    return load_file(paths.embedded("smol-armo") / WEIGHTS)


@pytest.fixture(scope="module")
def mixed_tensors() -> dict:
    return load_file(paths.embedded("smol-mixed") / WEIGHTS)


# ---- Of both ----


MOST = {"smol-armo": 2_000_000, "smol-mixed": 500_000, "smol-sarm": 12_000_000}  # bytes
LEARNT = {"smol-armo": SETS, "smol-mixed": BOTH, "smol-sarm": BOTH}


@pytest.mark.parametrize("name", EMBEDDED)
def test_it_is_small(name):
    assert sum(path.stat().st_size for path in paths.embedded(name).iterdir()) <= MOST[name]


@pytest.mark.parametrize("name", EMBEDDED)
def test_no_prompt_is_on_two_sides(name):
    sides = {side: card_of(name)["split"][side] for side in split.SIDES}
    for side, hashes in sides.items():
        assert len(set(hashes)) == len(hashes) > 100, side
        assert all(re.fullmatch("[0-9a-f]{16}", prompt) for prompt in hashes)
    for one, other in itertools.combinations(sides.values(), 2):
        assert not set(one) & set(other)


@pytest.mark.parametrize("model", EMBEDDED)
def test_every_head_says_what_it_is_not_where_its_name_comes_from_and_how_it_scored(model):
    for entry in card_of(model)["heads"]:
        name = entry["name"]
        assert re.fullmatch(r"Not .+\.", entry["is_not"]), name
        assert entry["source"], name
        # A head on latents that the same prompts chose isn't cross-validated.
        chosen = ("held_out",) if model == "smol-sarm" else ("cross_validated", "held_out")
        for which in chosen:
            found = entry[which]
            assert found["low"] < found["value"] < found["high"], name
            assert found["rows"] > 0


@pytest.mark.parametrize(
    ("name", "dataset"),
    [(name, each) for name in EMBEDDED for each in LEARNT[name]],
)
def test_every_usable_prompt_is_on_the_side_that_the_card_says(name, shared_data, dataset):
    prompts = load_items(dataset, source=shared_data / dataset.split("/")[0]).prompts
    side = split.side(prompts["prompt"])
    assert set(side) == set(split.SIDES) and len(prompts) > 100
    known = {each: set(card_of(name)["split"][each]) for each in split.SIDES}
    for prompt, own in zip(prompts["prompt_hash"], side, strict=True):
        assert [each for each in split.SIDES if prompt in known[each]] == [own]


@pytest.mark.parametrize("name", EMBEDDED)
def test_an_audit_leaves_out_what_trained_and_keeps_what_was_held_out(name):
    model, card = load_model(name, device="cpu"), card_of(name)
    assert [head.name for head in model.heads] == [entry["name"] for entry in card["heads"]]
    assert model.gated == (name == "smol-armo")
    assert model.trained_on == set(card["split"]["train"]) | set(card["split"]["choose"])
    assert not model.trained_on & set(card["split"]["held_out"])


# ---- smol-armo ----


def test_it_has_ten_heads_and_a_row_of_weights_for_each(card, tensors):
    names = [entry["name"] for entry in card["heads"]]
    assert len(set(names)) == len(names) >= 10
    assert len(tensors["weight"]) == len(tensors["bias"]) == len(names)
    assert all(np.isfinite(array).all() for array in tensors.values())
    assert (np.linalg.norm(tensors["weight"], axis=1) > 0).all()


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
    depth = sum(name.endswith(".weight") for name in tensors)
    layers = [(tensors[f"gate.{i}.weight"], tensors[f"gate.{i}.bias"]) for i in range(depth)]
    network = Gate(layers, float(tensors["gate.logit_scale"][0]), 1.0)
    weight = network(np.zeros((1, tensors["weight"].shape[1])))[0]
    weighed = {entry["name"] for entry, g in zip(card["heads"], weight, strict=True) if g > 0}
    assert weighed == set(card["gate"]["gated"])


# ---- smol-mixed ----


def test_it_has_one_head_that_claims_no_concept_and_no_gate(mixed, mixed_tensors):
    (head,) = mixed["heads"]
    assert head["name"] == "preference" and head["concept"] == ""
    assert "helpful-base and harmless-base" in head["source"]
    assert head["trained_on"] == " and ".join(BOTH)
    assert set(mixed_tensors) == {"weight", "bias"}
    assert mixed_tensors["weight"].shape == (1, 576) and mixed_tensors["bias"].shape == (1,)
    assert np.linalg.norm(mixed_tensors["weight"]) > 0


def test_its_card_scores_it_pooled_and_on_each_set(mixed):
    (head,) = mixed["heads"]
    pooled, by_set = head["held_out"], head["held_out_by_set"]
    assert set(by_set) == set(head["rows_by_set"]) == set(BOTH)
    assert sum(found["rows"] for found in by_set.values()) == pooled["rows"]
    assert sum(head["rows_by_set"].values()) == head["rows"]
    right = sum(found["value"] * found["rows"] for found in by_set.values())
    assert right / pooled["rows"] == pytest.approx(pooled["value"], abs=2e-4)
    for found in (pooled, head["cross_validated"], *by_set.values()):
        assert found["low"] < found["value"] < found["high"]


def test_its_one_head_is_better_than_chance_on_prompts_that_it_never_saw(mixed):
    (head,) = mixed["heads"]
    assert head["held_out"]["low"] > 0.5


def test_it_saw_as_many_pairs_as_both_hh_heads_of_smol_armo(mixed, card):
    (head,) = mixed["heads"]
    known = {entry["trained_on"]: entry for entry in card["heads"] if entry["name"][:3] == "hh-"}
    for name in BOTH:
        assert head["rows_by_set"][name] == known[name]["rows"]
        assert head["held_out_by_set"][name]["rows"] == known[name]["held_out"]["rows"]
    assert head["held_out"]["rows"] == card["gate"]["held_out"]["rows"]


def test_each_prompt_is_on_the_side_that_smol_armo_has_it_on(mixed, card):
    assert mixed["split"]["rule"] == card["split"]["rule"]
    for side in split.SIDES:
        assert set(mixed["split"][side]) <= set(card["split"][side])


def test_its_weights_alone_are_its_own(mixed_tensors):
    assert (head_weights("smol-mixed").weight == mixed_tensors["weight"]).all()
