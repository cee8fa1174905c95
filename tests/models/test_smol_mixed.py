"""The committed model of one head is what its card says, and holds out what smol-armo does."""

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

FOLDER = paths.embedded("smol-mixed")
SETS = ("hh-rlhf/helpful-base", "hh-rlhf/harmless-base")


@pytest.fixture(scope="module")
def card() -> dict:
    return json.loads((FOLDER / CARD).read_text())


@pytest.fixture(scope="module")
def armo() -> dict:
    return json.loads((paths.embedded("smol-armo") / CARD).read_text())


@pytest.fixture(scope="module")
def tensors() -> dict:
    return load_file(FOLDER / WEIGHTS)


def test_it_has_one_head_that_claims_no_concept_and_no_gate(card, tensors):
    (head,) = card["heads"]
    assert head["name"] == "preference" and head["concept"] == ""
    assert "helpful-base and harmless-base" in head["source"]
    assert head["trained_on"] == " and ".join(SETS)
    assert re.fullmatch(r"Not .+\.", head["is_not"])
    assert set(tensors) == {"weight", "bias"}
    assert tensors["weight"].shape == (1, 576) and tensors["bias"].shape == (1,)
    assert np.linalg.norm(tensors["weight"]) > 0
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) <= 500_000


def test_its_card_scores_it_pooled_and_on_each_set(card):
    (head,) = card["heads"]
    pooled, by_set = head["held_out"], head["held_out_by_set"]
    assert set(by_set) == set(head["rows_by_set"]) == set(SETS)
    assert sum(found["rows"] for found in by_set.values()) == pooled["rows"]
    assert sum(head["rows_by_set"].values()) == head["rows"]
    right = sum(found["value"] * found["rows"] for found in by_set.values())
    assert right / pooled["rows"] == pytest.approx(pooled["value"], abs=2e-4)
    for found in (pooled, head["cross_validated"], *by_set.values()):
        assert found["low"] < found["value"] < found["high"]


def test_its_one_head_is_better_than_chance_on_prompts_that_it_never_saw(card):
    (head,) = card["heads"]
    assert head["held_out"]["low"] > 0.5


def test_it_saw_as_many_pairs_as_both_hh_heads_of_smol_armo(card, armo):
    (head,) = card["heads"]
    known = {entry["trained_on"]: entry for entry in armo["heads"] if entry["name"][:3] == "hh-"}
    for name in SETS:
        assert head["rows_by_set"][name] == known[name]["rows"]
        assert head["held_out_by_set"][name]["rows"] == known[name]["held_out"]["rows"]
    assert head["held_out"]["rows"] == armo["gate"]["held_out"]["rows"]


def test_each_prompt_is_on_the_side_that_smol_armo_has_it_on(card, armo):
    assert card["split"]["rule"] == armo["split"]["rule"]
    for side in split.SIDES:
        assert len(card["split"][side]) > 100
        assert set(card["split"][side]) <= set(armo["split"][side])
    for one, other in itertools.combinations(split.SIDES, 2):
        assert not set(card["split"][one]) & set(card["split"][other])


@pytest.mark.parametrize("dataset", SETS)
def test_every_usable_prompt_of_hh_was_split(card, shared_data, dataset):
    from lib.data import load_items

    prompts = load_items(dataset, source=shared_data / "hh-rlhf").prompts
    side = split.side(prompts["prompt"])
    assert len(prompts) > 100
    for prompt, own in zip(prompts["prompt_hash"], side, strict=True):
        assert prompt in card["split"][own]


def test_it_loads_by_name_and_leaves_out_what_it_was_trained_on(card):
    from lib.models import load_model

    model = load_model("smol-mixed", device="cpu")
    assert [head.name for head in model.heads] == ["preference"] and not model.gated
    assert model.trained_on == set(card["split"]["train"]) | set(card["split"]["choose"])


def test_its_weights_alone_are_its_own(tensors):
    from lib.models.weights import head_weights

    assert (head_weights("smol-mixed").weight == tensors["weight"]).all()
