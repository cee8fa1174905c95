"""ArmoRM's recipe end to end, on planted ratings and a tiny backbone."""

import json

import numpy as np
import pytest

from lib import load_model
from lib.errors import DataError
from lib.training import armorm

SMALL = {"hidden": (8,), "temperature": 1.0, "steps": 60, "batch": 64, "rate": 1e-2}


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Rated pairs in which the longer, more cheerful response is preferred."""
    path = tmp_path_factory.mktemp("rated") / "pairs.jsonl"
    generator = np.random.default_rng(0)
    with open(path, "w") as stream:
        for number in range(120):
            n = generator.integers(2, 9, 2)
            texts = ["yes " * n[0] + "!", "no " * n[1]]
            ratings = [{"cheer": 1, "length": float(n[0])}, {"cheer": 0, "length": float(n[1])}]
            if number % 3 == 0:
                del ratings[1]["length"]
            row = {"prompt": f"q{number}", "chosen": texts[0], "rejected": texts[1]}
            stream.write(json.dumps(row | {"ratings": ratings}) + "\n")
    return f"file:{path}"


@pytest.fixture
def trained(tiny_model, pairs):
    return armorm.train(tiny_model, {pairs: None}, {pairs: None}, remove="length", **SMALL)


def test_each_attribute_is_fitted_on_its_own_rows(trained):
    assert trained.names == ["cheer", "length"]
    rows = {head["name"]: head["rows"] for head in trained.card["heads"]}
    assert rows["length"] < rows["cheer"]


def test_the_removed_attribute_leaves_the_score(trained):
    assert trained.transform[1, 1] == 0
    assert trained.transform[0, 0] == 1 and trained.transform[0, 1] == 0


def test_no_prompt_is_on_two_sides(trained):
    sides = trained.card["split"]
    assert len(set().union(*sides.values())) == sum(map(len, sides.values())) == 120


def test_what_is_saved_loads_and_scores_alike(trained, tiny_model, tmp_path):
    folder = armorm.save(trained, tiny_model, tmp_path / "armorm")
    loaded = load_model(str(folder), device="cpu")
    assert [head.name for head in loaded.heads] == trained.names
    assert loaded.trained_on == {
        h for side in ("train", "choose") for h in trained.card["split"][side]
    }
    states = np.random.default_rng(0).standard_normal((3, trained.weight.shape[1]))
    assert np.allclose(loaded.read(states, states).score, states @ trained.weight.T, atol=1e-4)
    assert json.loads((folder / armorm.TRAINING).read_text())["held_out"]["pairs"] > 0


def test_an_attribute_nobody_rates_is_named(tiny_model, pairs):
    with pytest.raises(DataError, match="cheer, length"):
        armorm.train(tiny_model, {pairs: None}, {pairs: None}, remove="verbosity")


@pytest.mark.parametrize("cheer", [lambda number: 1, lambda number: number])
def test_an_attribute_with_too_few_ratings_is_named(tiny_model, pairs, tmp_path, cheer):
    """All alike, or of one prompt alone."""
    path = tmp_path / "few.jsonl"
    with open(path, "w") as stream:
        for number in range(40):
            row = {"prompt": f"q{number}", "chosen": "yes!", "rejected": "no"}
            alike = cheer(0) == cheer(1)
            given = [{"cheer": cheer(side)} if alike or not number else {} for side in (0, 1)]
            each = [{"length": side + number} | given[side] for side in (0, 1)]
            stream.write(json.dumps(row | {"ratings": each}) + "\n")
    with pytest.raises(DataError, match="two ratings or more of cheer"):
        armorm.train(tiny_model, {f"file:{path}": None}, {pairs: None})


def test_a_dataset_without_ratings_is_named(tiny_model, tmp_path):
    path = tmp_path / "bare.jsonl"
    path.write_text('{"prompt": "q", "chosen": "a", "rejected": "b"}\n')
    with pytest.raises(DataError, match="ratings"):
        armorm.train(tiny_model, {f"file:{path}": None}, {f"file:{path}": None})
