"""States, sides and comparisons of a dataset stay aligned, whatever is left out."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from lib.data import load_items
from lib.errors import ModelError
from lib.extraction import extract
from lib.training import split
from lib.training.parts import Part, bare_backbone, load_part, sides

LONG = "x" * 600  # more bytes than the tiny model's context


@pytest.fixture
def items(tmp_path):
    """Four prompts, two of one opening; the second is too long to be scored."""
    first = {"role": "user", "content": "Hello "}
    turns = [first, {"role": "assistant", "content": "hi"}, {"role": "user", "content": "so?"}]
    rows = [
        {"prompt": "hello", "chosen": "yes", "rejected": "no"},
        {"prompt": LONG, "chosen": "a", "rejected": "bb"},
        {"prompt": turns, "chosen": ["one", "two"], "rejected": "three"},
        {"prompt": "why", "chosen": "because", "rejected": "dunno"},
    ]
    rows[0]["ratings"] = [{"wit": 1}, {"wit": 0}]
    rows[1]["ratings"] = [{"wit": 8}, {"wit": 9}]
    rows[2]["ratings"] = [{"wit": 2}, {}, {"wit": 3}]
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return load_items(f"file:{path}")


def test_rows_are_those_of_the_items_that_could_be_scored(tiny_model, items):
    part = load_part(tiny_model, items, {"letters": lambda text, tokens: len(text)})
    assert part.owner.tolist() == [0, 0, 1, 1, 1, 2, 2]
    assert part.rated["letters"].tolist() == [3, 2, 3, 3, 5, 7, 5]
    assert part.better.tolist() == [0, 2, 3, 5] and part.worse.tolist() == [1, 4, 4, 6]
    nan = np.nan
    assert part.matrix(["wit"])[:, 0] == pytest.approx([1, 0, 2, nan, 3, nan, nan], nan_ok=True)
    assert np.isnan(part.matrix(["wit", "absent"])[:, 1]).all()
    kept = items.prompts.drop(index=1)
    assert part.hashes.tolist() == kept["prompt_hash"].tolist()
    assert part.side.tolist() == split.side(kept["prompt"]).tolist()
    assert part.group[0] == part.group[1] != part.group[2]  # of one opening, case and space folded


def test_states_are_those_of_the_run(tiny_model, items):
    run, part = extract(tiny_model, items), load_part(tiny_model, items)
    assert (part.hidden == run["hidden"].values).all() and part.hidden.dtype == float
    assert (part.gate_hidden == run["gate_hidden"].values).all()
    assert (part.difference == part.hidden[part.better] - part.hidden[part.worse]).all()
    assert (part.both[:, 0] - part.both[:, 1] == part.difference).all()
    assert part.pairs(part.hashes).tolist() == part.hashes[[0, 1, 1, 2]].tolist()


def test_the_measure_of_a_text_gets_its_tokens(tiny_model, items):
    part = load_part(tiny_model, items, {"tokens": lambda text, tokens: tokens})
    run = extract(tiny_model, items)
    assert part.rated["tokens"].tolist() == run["n_response_tokens"].values.tolist()


def test_prompts_that_trained_the_models_own_heads_are_used_too(tiny_model, items):
    known = frozenset(items.prompts["prompt_hash"][:1])
    part = load_part(dataclasses.replace(tiny_model, trained_on=known), items)
    assert known < set(part.hashes)


def test_a_set_of_ratings_without_comparisons_has_none(tiny_model, items):
    part = load_part(tiny_model, dataclasses.replace(items, comparisons=items.comparisons.iloc[:0]))
    assert len(part.hidden) == 7
    assert part.difference.shape == (0, 32) and part.both.shape == (0, 2, 32)
    assert part.pairs(part.side).shape == (0,)


def made_up(hashes, side) -> Part:
    n, hashes = len(hashes), np.asarray(hashes)
    rows, none = np.zeros((n, 2)), np.zeros(0, int)
    return Part(rows, rows, np.arange(n), np.asarray(side), hashes, none, none, {}, hashes)


def test_prompts_of_several_parts_are_listed_once_by_side():
    one = made_up(["b", "a", "c"], ["train", "train", "held_out"])
    other = made_up(["a", "d"], ["train", "choose"])
    assert sides([one, other]) == {"train": ["a", "b"], "choose": ["d"], "held_out": ["c"]}


def test_a_prompt_on_two_sides_is_a_fault():
    with pytest.raises(AssertionError, match="two sides"):
        sides([made_up(["a"], ["train"]), made_up(["a"], ["held_out"])])


def test_the_bare_backbone_has_no_heads_and_is_where_it_was_asked_to_be(embedded):
    model = bare_backbone("cpu")
    assert model.heads == [] and model.weight.shape == (0, embedded[0].config.hidden_size)
    assert {p.device.type for p in model.backbone.parameters()} == {"cpu"}
    with pytest.raises(ModelError, match="a known device"):
        bare_backbone("abacus")
