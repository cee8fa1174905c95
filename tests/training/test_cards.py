"""Scores on cards have intervals, and no toy replaces a committed model."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from lib import paths
from lib.errors import DataError, ParameterError
from lib.models.frozen import CARD, WEIGHTS
from lib.training import bradley_terry, cards

HASHES = [f"{n:016x}" for n in range(3)]


@pytest.fixture
def world():
    """Pairs in which the first feature decides, nine times in ten."""
    generator = np.random.default_rng(0)
    difference = generator.standard_normal((500, 4))
    agrees = generator.random(500) < 0.9
    difference[:, 0] = np.abs(difference[:, 0]) * np.where(agrees, 1, -1)
    side = np.repeat(["train", "choose", "held_out"], [300, 100, 100])
    return difference, side, np.arange(500)


def test_a_head_is_fitted_on_training_pairs_and_scored_on_the_others(world):
    difference, side, group = world
    weight, found = cards.fit_preference(difference, side, group)
    assert (weight == bradley_terry.fit(difference[:300], found["penalty"])).all()
    assert found["rows"] == 300
    assert found["cross_validated"]["rows"] == 400 and found["held_out"]["rows"] == 100
    assert found["held_out"]["value"] == np.mean(difference[400:] @ weight > 0)
    assert found["held_out"]["low"] > 0.7


def test_held_out_pairs_move_neither_weights_nor_penalty(world):
    difference, side, group = world
    weight, found = cards.fit_preference(difference, side, group)
    difference[side == "held_out"] *= -1
    other, turned = cards.fit_preference(difference, side, group)
    assert (weight == other).all() and found["penalty"] == turned["penalty"]
    assert turned["held_out"]["value"] == pytest.approx(1 - found["held_out"]["value"])


@pytest.mark.parametrize("side", ["train", "choose", "held_out"])
def test_a_side_without_pairs_is_an_error(world, side):
    difference, sides, group = world
    keep = sides != side
    with pytest.raises(DataError, match=f"0 {side}"):
        cards.fit_preference(difference[keep], sides[keep], group[keep])


def test_fewer_openings_than_folds_are_an_error(world):
    difference, side, group = world
    with pytest.raises(DataError, match="4 openings"):
        cards.fit_preference(difference, side, np.arange(500) % 4)


def test_standard_heads_have_mean_0_and_deviation_1_and_the_same_ranking():
    generator = np.random.default_rng(0)
    hidden, weight = generator.standard_normal((50, 3)) * 7 + 2, generator.standard_normal((2, 3))
    scaled, bias = cards.standardise(weight, np.asarray([4.0, -1.0]), hidden)
    scores = hidden @ scaled.T + bias
    assert scores.mean(axis=0) == pytest.approx([0, 0], abs=1e-12)
    assert scores.std(axis=0) == pytest.approx([1, 1])
    assert (np.argsort(scores, axis=0) == np.argsort(hidden @ weight.T, axis=0)).all()


def test_pairs_of_one_opening_count_as_one_in_the_interval():
    correct = np.tile([1.0, 0, 1, 1], 25)
    alone = cards.accuracy(correct, np.arange(100))
    together = cards.accuracy(np.repeat(correct, 4), np.repeat(np.arange(100), 4))
    assert alone["value"] == together["value"] == 0.75
    assert together["rows"] == 400
    assert together["low"] == pytest.approx(alone["low"], abs=1e-4)
    assert together["high"] == pytest.approx(alone["high"], abs=1e-4)


def test_one_opening_has_no_interval():
    with pytest.raises(DataError, match="two openings"):
        cards.accuracy(np.ones(3), np.zeros(3, int))


def test_a_limited_model_never_replaces_the_packages_own(tmp_path):
    assert cards.folder("smol-mixed", None, 0) == paths.embedded("smol-mixed")
    assert cards.folder("smol-mixed", tmp_path, 5) == tmp_path
    with pytest.raises(ParameterError, match="limit=5"):
        cards.folder("smol-mixed", None, 5)
    assert cards.command("smol-mixed", 0).endswith("train smol-mixed --source FOLDER")
    assert "--limit 5" in cards.command("smol-mixed", 5)


def test_the_two_files_are_written_whole_and_hashes_are_wrapped(tmp_path):
    folder = tmp_path / "new" / "model"
    card = {"name": "é", "split": {"train": HASHES}}
    cards.write(folder, {"weight": np.ones((1, 2), np.float32)}, card)
    assert {path.name for path in folder.iterdir()} == {CARD, WEIGHTS}
    text = (folder / CARD).read_text(encoding="utf-8")
    assert json.loads(text) == card and f'"{HASHES[0]}", "{HASHES[1]}"' in text
    assert load_file(folder / WEIGHTS)["weight"].tolist() == [[1, 1]]
    assert all(path.stat().st_mode & 0o777 == 0o644 for path in folder.iterdir())
