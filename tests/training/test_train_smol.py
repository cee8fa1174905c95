"""The embedded models' trainings end to end, small: what they write is what they say."""

from __future__ import annotations

import dataclasses
import gzip
import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from lib import __main__ as main
from lib import extract, load_items, load_model, stats
from lib.errors import DataError, ModelError, ParameterError
from lib.models import backbone, frozen
from lib.models.weights import sparse_weights
from lib.training import smol_armo, smol_mixed, smol_sarm, split
from lib.training.parts import Part, load_part

HELPFUL, HARMLESS = smol_mixed.SETS
PAIRS = 60


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Made-up hh-rlhf: in both parts the reply that says yes is preferred to the one that says no."""
    folder = tmp_path_factory.mktemp("preferences")
    generator = np.random.default_rng(0)
    for name, topic in zip(smol_mixed.SETS, ("bread", "locks"), strict=True):
        path = folder / name / "test.jsonl.gz"
        path.parent.mkdir(parents=True)
        with gzip.open(path, "wt") as stream:
            for number in range(PAIRS):
                yes, no = generator.integers(1, 4, 2)
                opening = f"\n\nHuman: {topic} {number}?\n\nAssistant:"
                row = {
                    "chosen": f"{opening} {'yes ' * yes}!",
                    "rejected": f"{opening} {'no ' * no}",
                }
                stream.write(json.dumps(row) + "\n")
    return folder


def read(folder) -> tuple[dict, dict]:
    card = json.loads((folder / frozen.CARD).read_text(encoding="utf-8"))
    return card, load_file(folder / frozen.WEIGHTS)


def test_a_sparse_model_is_read_again_with_all_that_lies_beside_it(
    source, tiny_model, tiny_llama, tmp_path, monkeypatch
):
    monkeypatch.setenv("REWARD_AUDIT_CACHE", str(tmp_path / "cache"))
    model = dataclasses.replace(tiny_model, backbone=tiny_llama())
    out = tmp_path / "out"
    sizes = {"layer": 1, "latents": 48, "k": 4, "steps": 40, "seeds": (0, 1)}
    told = smol_sarm.train(source, out, model=model, **sizes)
    assert "explained" in told and told.splitlines()[-1].startswith("chosen: seed")
    card, tensors = read(out)
    found = sparse_weights(str(out))
    assert (found.reward.sae.latents, found.reward.sae.k, found.reward.topk) == (48, 4, True)
    assert found.note == "" and found.card == card
    assert (found.reward.weight == tensors["score.weight"][0]).all()
    assert found.of_all.shape == (48,) and found.of_state.shape == (32,)
    assert found.stability.filter(regex="cosine").shape == (48, 1)
    assert len(card["autoencoders"]) == 2
    # What the card says of the dense head is what the one beside the autoencoder does.
    data = [load_part(model, load_items(n, source=source / "hh-rlhf")) for n in smol_mixed.SETS]
    right = [p.difference[p.pairs(p.side) == "held_out"] @ found.of_state > 0 for p in data]
    dense = next(each for each in card["autoencoders"] if each["seed"] == card["chosen"])
    value = dense["heads"]["dense"]["held_out"]["value"]
    assert value == pytest.approx(np.concatenate(right).mean(), abs=1e-3)
    assert sorted(path.name for path in out.iterdir()) == [
        "card.json",
        "heads.safetensors",
        "stability.csv",
    ]
    (out / "stability.csv").write_text("latent,cosine_1\n0,high\n")
    with pytest.raises(ModelError, match="a row of numbers for each of 48 latents"):
        sparse_weights(str(out))


def test_the_mixed_card_is_what_its_weights_do(source, tiny_model, tmp_path):
    told = smol_mixed.train(source, tmp_path, model=tiny_model)
    card, tensors = read(tmp_path)
    (entry,) = card["heads"]
    assert told.startswith("preference: accuracy") and HELPFUL in told and HARMLESS in told
    right, rows, everything = 0, 0, []
    for name in smol_mixed.SETS:
        part = load_part(tiny_model, load_items(name, source=source / "hh-rlhf"))
        out = part.pairs(part.side) == "held_out"
        correct = (part.difference[out] @ tensors["weight"][0] > 0).astype(float)
        assert entry["held_out_by_set"][name]["value"] == pytest.approx(correct.mean(), abs=1e-4)
        assert entry["held_out_by_set"][name]["rows"] == len(correct)
        assert entry["rows_by_set"][name] == (part.pairs(part.side) == "train").sum()
        right, rows = right + correct.sum(), rows + len(correct)
        everything.append(part.hidden[part.side[part.owner] == "train"])
    assert entry["held_out"]["value"] == pytest.approx(right / rows, abs=1e-4)
    assert entry["held_out"]["value"] > 0.9  # nothing to disagree about
    scores = np.concatenate(everything) @ tensors["weight"][0] + tensors["bias"][0]
    assert [scores.mean(), scores.std()] == pytest.approx([0, 1], abs=1e-4)


def test_the_mixed_model_splits_prompts_as_smol_armo_does(source, tiny_model, tmp_path):
    smol_mixed.train(source, tmp_path, model=tiny_model)
    card = read(tmp_path)[0]
    for name in smol_mixed.SETS:
        prompts = load_items(name, source=source / "hh-rlhf").prompts
        for prompt, side in zip(prompts["prompt_hash"], split.side(prompts["prompt"]), strict=True):
            assert prompt in card["split"][side]
    assert sum(len(card["split"][side]) for side in split.SIDES) == 2 * PAIRS
    assert set(smol_armo.PREFERENCES.values()) == set(smol_mixed.SETS)


def test_training_again_gives_the_same_files(source, tiny_model, tmp_path):
    for name in ("one", "two"):
        smol_mixed.train(source, tmp_path / name, model=tiny_model, limit=50)
    for file in (frozen.CARD, frozen.WEIGHTS):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    card = read(tmp_path / "one")[0]
    assert "--limit 50" in card["command"]
    assert sum(len(card["split"][side]) for side in split.SIDES) == 100


def test_too_few_pairs_are_an_error_and_nothing_is_written(source, tiny_model, tmp_path):
    with pytest.raises(DataError, match="Give more items"):
        smol_mixed.train(source, tmp_path / "out", model=tiny_model, limit=2)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("script", [smol_armo, smol_mixed])
def test_a_limit_needs_a_folder_of_its_own(script, source, tiny_model):
    with pytest.raises(ParameterError, match="limit=5"):
        script.train(source, model=tiny_model, limit=5)


def test_from_the_shell_to_validity(source, embedded, monkeypatch, tmp_path, capsys):
    """The real backbone: train, load, extract, rank what was held out."""
    monkeypatch.setattr(backbone, "load_embedded", lambda *options: embedded)
    made = tmp_path / "mixed"
    arguments = ["train", "smol-mixed", "--source", str(source), "--out", str(made)]
    assert main.main([*arguments, "--limit", "24", "--device", "cpu"]) == 0
    assert capsys.readouterr().out.startswith("preference: accuracy cross-validated")
    model = load_model(str(made), device="cpu")
    assert [(head.name, head.concept) for head in model.heads] == [("preference", "")]
    items = load_items(HARMLESS, source=source / "hh-rlhf", limit=24)
    run = extract(model, items, store=tmp_path / "states")
    assert run["final"].values.tolist() == run["score"].values[:, 0].tolist()
    assert "gate" not in run
    held_out = set(model.card["split"]["held_out"])
    assert 0 < run.sizes["item"] < len(items) and set(run["prompt_hash"].values) <= held_out
    table = stats.validity(run)
    assert set(table["head"]) == {"preference"}
    whole = table[table["subset"] == "all"].iloc[0]
    assert whole["n"] == run.sizes["comparison"] and whole["win_rate"] > 0.9
    assert len(stats.baselines(run)) and len(stats.validity_as_published(run))


def test_smol_armo_end_to_end_on_a_tiny_backbone(
    shared_data, tiny_model, tiny_llama, tmp_path, monkeypatch
):
    monkeypatch.setattr(smol_armo, "COMPONENTS", (16, 32))  # it has 32 features
    monkeypatch.setattr(smol_armo, "SEEDS", 1)
    model = dataclasses.replace(tiny_model, backbone=tiny_llama(max_position_embeddings=2048))
    told = smol_armo.train(shared_data, tmp_path, model=model, limit=50)
    card, tensors = read(tmp_path)
    names = [recipe.name for recipe in smol_armo.RECIPES]
    assert [entry["name"] for entry in card["heads"]] == names
    assert [line.split(":")[0] for line in told.splitlines()] == [*names, "gated score"]
    parts = frozen.read(tmp_path)
    assert parts.weight.shape == (len(names), 32) and parts.gate is not None
    assert set(tensors) == set(
        frozen.tensors(parts.weight, parts.bias, parts.transform, parts.gate)
    )
    for entry in [*card["heads"], card["gate"]]:
        for which in ("cross_validated", "held_out"):
            assert entry[which]["low"] < entry[which]["value"] < entry[which]["high"]
    assert card["gate"]["gated"] == [name for name in names if name != "verbosity"]
    sides = [card["split"][side] for side in split.SIDES]
    assert len(set().union(*sides)) == sum(map(len, sides))


# The mixture itself, on made-up states.


def planted(direction, seed: int, prefix: str, n: int = 600) -> Part:
    """Pairs that are preferred along a direction; every prompt an opening of its own."""
    generator = np.random.default_rng(seed)
    hidden = generator.standard_normal((2 * n, 3))
    margin = (hidden[::2] - hidden[1::2]) @ direction
    first = np.arange(n) * 2
    better, worse = np.where(margin > 0, [first, first + 1], [first + 1, first])
    opening = np.asarray([f"{prefix}{number}" for number in range(n)])
    return Part(
        hidden=hidden,
        gate_hidden=np.zeros((n, 3)),
        owner=np.repeat(np.arange(n), 2),
        side=np.repeat(split.SIDES, [n // 2, n // 6, n // 3]),
        opening=opening,
        better=better,
        worse=worse,
        rated={},
        hashes=opening,
    )


def test_parts_that_agree_are_learned_together():
    up = np.asarray([1.0, 0, 0])
    weight, bias, found = smol_mixed.fit({"a": planted(up, 0, "a"), "b": planted(up, 1, "b")})
    assert weight.shape == (1, 3) and bias.shape == (1,)
    assert all(held["value"] > 0.95 for held in found["held_out_by_set"].values())


def test_parts_that_pull_apart_leave_one_head_with_what_they_share():
    a, b = np.asarray([1.0, 1, 0]), np.asarray([-1.0, 1, 0])
    weight, _, found = smol_mixed.fit({"a": planted(a, 0, "a"), "b": planted(b, 1, "b")})
    # Along (0, 1, 0) the head is 45° from either, so right for 1 − 45/180 of the pairs.
    assert weight[0] / np.linalg.norm(weight) == pytest.approx([0, 1, 0], abs=0.1)
    assert found["held_out"]["value"] == pytest.approx(0.75, abs=0.06)


def test_an_opening_in_both_parts_is_one_cluster():
    a, b = np.asarray([1.0, 1, 0]), np.asarray([-1.0, 1, 0])
    one = planted(a, 0, "a")
    apart = smol_mixed.fit({"a": one, "b": planted(b, 0, "b")})[2]["held_out"]
    shared = smol_mixed.fit({"a": one, "b": planted(b, 0, "a")})[2]["held_out"]
    assert apart["value"] == shared["value"] and apart["rows"] == shared["rows"]
    assert (apart["low"], apart["high"]) != (shared["low"], shared["high"])
