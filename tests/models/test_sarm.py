"""SARM's layout: what a tiny checkpoint gives is what NumPy gives from its states."""

import json

import numpy as np
import pytest
import tiny
import torch
from safetensors.torch import load_file, save_file

from lib.check import check
from lib.data.items import Builder
from lib.errors import ModelError
from lib.extraction import extract
from lib.extraction.forward import forward
from lib.mechanisms.tracing import trace
from lib.models import load_model
from lib.models.cut import cut
from lib.models.sae import SAE, Reward, normalise
from lib.models.sarm import save_sarm
from lib.models.weights import head_weights, sparse_weights

LATENTS, K = 96, 5


def reward(topk: bool, features: int = tiny.D) -> Reward:
    rng = np.random.default_rng(3)
    parts = [
        rng.normal(0, 1, shape).astype(np.float32)
        for shape in ((LATENTS, features), (features, LATENTS), features, LATENTS, LATENTS)
    ]
    return Reward(SAE(*parts[:4], k=K), parts[4], topk)


def write(folder, topk: bool = True, kind: str = "llama", **changes):
    """A checkpoint of layer 2 of 4, and the whole backbone that it was cut from."""
    whole = tiny.backbone(kind, num_hidden_layers=4, **changes)
    part = cut(tiny.backbone(kind, num_hidden_layers=4, **changes), 2)
    save_sarm(folder, backbone=part, tokenizer=tiny.tokenizer(), reward=reward(topk))
    return whole


def by_hand(whole, ids: np.ndarray, topk: bool) -> float:
    """The reward of one text, from the second layer's states, in float64."""
    with torch.no_grad():
        states = whole(torch.from_numpy(ids)[None], output_hidden_states=True).hidden_states[2]
    h = states[0, -1].double().numpy()
    d = len(h)
    mean = sum(h) / d
    std = (sum((h - mean) ** 2) / (d - 1)) ** 0.5
    x = (h - mean) / (std + 1e-6)
    made = reward(topk)
    sae = made.sae
    pre = [
        sum(sae.encoder[i].astype(float) * (x - sae.pre_bias)) + float(sae.latent_bias[i])
        for i in range(LATENTS)
    ]
    kept = sorted(range(LATENTS), key=lambda i: -pre[i])[:K] if topk else range(LATENTS)
    return sum(float(made.weight[i]) * pre[i] for i in kept)


@pytest.fixture(scope="module", params=[True, False], ids=["flag on", "flag off"])
def checkpoint(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sarm")
    whole = write(folder, request.param)
    model = load_model(str(folder), device="cpu")
    items = [model.format.encode(*case) for case in tiny.CASES]
    expected = [by_hand(whole, ids, request.param) for item in items for ids in item.sequences]
    return folder, model, items, np.asarray(expected), request.param


@pytest.mark.parametrize(
    "how",
    [
        {"packing": "trees"},
        {"packing": "trees", "budget": 60},
        {"packing": "padded", "budget": 1},
        {"packing": "padded", "padding_side": "left", "pad_id": 6},
        {"packing": "padded", "padding_side": "right", "pad_id": 6},
    ],
    ids=lambda how: "-".join(map(str, how.values())),
)
def test_rewards_are_those_of_numpy_in_any_batch(checkpoint, how):
    _, model, items, expected, _ = checkpoint
    # A pad id that stands inside the prompts: each turn ends with it.
    assert all(6 in item.sequences[0][: item.gate_at + 1] for item in items)
    found = model.read(forward(model.backbone, items, **how).hidden).score[:, 0]
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


def test_the_divisor_of_the_deviation_is_features_less_one(checkpoint):
    """The biased one moves a reward by more than the parity that is asked for."""
    _, model, items, expected, _ = checkpoint
    x = forward(model.backbone, items).hidden
    biased = x * np.sqrt(tiny.D / (tiny.D - 1))
    assert np.abs(model.read(biased).score[:, 0] - expected).max() > 1e-3
    np.testing.assert_allclose((x**2).sum(axis=1), tiny.D - 1, rtol=1e-5)


def test_the_card_says_which_reward_it_is(checkpoint, tmp_path):
    folder, model, _, _, topk = checkpoint
    assert [head.name for head in model.heads] == ["reward"]
    assert model.card["sarm"] == {
        "topk": topk,
        "flag": "sarm_use_topk",
        "layer": 2,
        "latents": LATENTS,
        "k": K,
    }
    assert (model.weight is None) == topk
    assert (head_weights(str(folder)).weight is None) == topk


def test_the_reward_is_read_without_its_backbone(checkpoint, tmp_path):
    folder, model, _, _, topk = checkpoint
    found = sparse_weights(str(folder))
    assert found.reward.topk == topk and found.note == "" and not found.card
    assert (found.reward.weight == model.reward.weight).all()
    assert (found.reward.sae.decoder == model.reward.sae.decoder).all()
    tiny.write_classifier(tmp_path)
    assert sparse_weights(str(tmp_path)).reward is None
    assert "not on this machine" in sparse_weights("somebody/not-here").note


def test_a_flag_that_is_not_there_is_off(checkpoint, tmp_path):
    write(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["sarm_param"]["sarm_use_topk"]
    tiny.edit(tmp_path / "config.json", sarm_param=config["sarm_param"])
    off = load_model(str(tmp_path), device="cpu")
    assert off.card["sarm"]["topk"] is False
    assert off.card["sarm"]["flag"] == "none; off is the class's default"
    tiny.edit(tmp_path / "config.json", sae4rm_use_topk=True)
    on = load_model(str(tmp_path), device="cpu")
    assert on.card["sarm"]["flag"] == "sae4rm_use_topk"
    assert on.fingerprint["heads"] != off.fingerprint["heads"]
    # What makes the states is the same: they can be read again with the flag on.
    assert {k: v for k, v in on.fingerprint.items() if k != "heads"} == {
        k: v for k, v in off.fingerprint.items() if k != "heads"
    }


def items_of(cases):
    builder = Builder("made-up")
    for number, (prompt, responses) in enumerate(cases):
        pairs = [(0, 1, "c", "s")] if len(responses) > 1 else []
        builder.add(str(number), prompt, responses, pairs)
    return builder.build()


def test_latents_of_a_run_add_up_to_its_scores(checkpoint, tmp_path):
    _, model, _, expected, topk = checkpoint
    run = extract(model, items_of(tiny.CASES), store=tmp_path, taps=("layers",))
    np.testing.assert_allclose(run["final"], expected, atol=1e-5 * np.abs(expected).max())
    # The state that is read is the last layer's stream, normalised.
    stream = run["layer_hidden"].values[:, -1]
    np.testing.assert_allclose(run["hidden"], normalise(stream), atol=1e-4)
    labelled = model.labelled(run)
    assert dict(labelled.sizes) == {"response": len(expected), "rank": K}
    assert list(labelled["response"].values) == list(run["response"].values)
    if topk:
        np.testing.assert_allclose(labelled["part"].sum("rank"), run["final"], rtol=1e-4, atol=1e-4)
    z = model.latents(run["hidden"].values)
    assert ((z.dense() != 0).sum(axis=1) == K).all()
    np.testing.assert_array_equal(z.of(int(z.index[0, 0])), z.dense()[:, z.index[0, 0]])


def test_with_the_flag_off_the_reward_is_a_linear_head_that_other_weights_give_too(checkpoint):
    _, model, items, expected, _ = checkpoint
    x = forward(model.backbone, items).hidden
    off = reward(topk=False)
    direction, constant = off.collapsed()
    assert np.abs(off.read(x) - (x @ direction + constant)).max() <= 1e-4 * expected.std()
    wanted = np.zeros(LATENTS)
    least = np.argsort(np.abs(off.weight))[:10]
    wanted[least] = 30.0
    other = Reward(off.sae, off.same_scores(wanted), False)
    assert np.abs(other.read(x) - off.read(x)).max() <= 1e-3 * expected.std()
    first = [set(np.argsort(-np.abs(w))[:10]) for w in (off.weight, other.weight)]
    assert not first[0] & first[1]
    assert first[1] == set(least)


def test_parts_of_the_backbone_are_told_where_the_reward_is_linear_in_the_state(
    checkpoint, tmp_path
):
    _, model, _, _, topk = checkpoint
    items = items_of(tiny.CASES[:1])
    if topk:
        with pytest.raises(ModelError, match="linear in its states"):
            trace(model, items, store=tmp_path)
    else:
        traced = trace(model, items, store=tmp_path)
        np.testing.assert_allclose(traced["part"].sum("component"), traced["score"], atol=1e-3)


@pytest.mark.parametrize("kind", ["gemma2", "qwen2"])
def test_other_backbones_are_read(tmp_path, kind):
    whole = write(tmp_path, kind=kind)
    model = load_model(str(tmp_path), device="cpu")
    item = model.format.encode(*tiny.CASES[0])
    found = model.read(forward(model.backbone, [item], packing="padded").hidden).score[:, 0]
    expected = [by_hand(whole, ids, True) for ids in item.sequences]
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


def test_the_check_of_the_score_says_where_the_released_class_reads_another_token(tmp_path):
    write(tmp_path)
    rows = {
        (row.line, row.what): row for row in check(str(tmp_path), quick=True, device="cpu").rows
    }
    assert rows["Reading", "scores"].verdict == "right"
    # A prompt's turn ends with this token too: the class reads what stands before the first.
    tiny.edit(tmp_path / "config.json", pad_token_id=6)
    found = check(str(tmp_path), quick=True, device="cpu").rows
    rows = {(row.line, row.what): row for row in found}
    assert rows["Reading", "scores"].verdict == "wrong"
    assert rows["Reading", "token"].verdict == "wrong"
    assert "before which the released class reads" in rows["Reading", "token"].found


def change(folder, edit):
    tensors = load_file(folder / "model.safetensors")
    edit(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize(
    "edit, told",
    [
        (lambda t: t.pop("sae.latent_bias"), "missing: sae.latent_bias"),
        (lambda t: t.pop("score.weight"), "missing: score.weight"),
        (lambda t: t.update({"sae.more": torch.zeros(1)}), "unexpected: sae.more"),
        (lambda t: t.update({"sae.latent_bias": torch.zeros(7)}), r"sae.latent_bias \(7,\)"),
        (lambda t: t.update({"score.weight": torch.zeros(2, LATENTS)}), r"score.weight \(2, 96\)"),
        (lambda t: [t.pop(k) for k in [*t] if ".layers.0." in k], "missing backbone weights"),
        (lambda t: [t.pop(k) for k in [*t] if ".layers.1." in k], "sae_source_layer 2"),
    ],
)
def test_tensors_that_do_not_fit_are_told(tmp_path, edit, told):
    write(tmp_path)
    change(tmp_path, edit)
    with pytest.raises(ModelError, match=told):
        load_model(str(tmp_path), device="cpu")


def test_an_encoder_of_another_width_is_told(tmp_path):
    part = cut(tiny.backbone(), 1)
    save_sarm(tmp_path, backbone=part, tokenizer=tiny.tokenizer(), reward=reward(True, features=16))
    with pytest.raises(ModelError, match="32 features .* 16"):
        load_model(str(tmp_path), device="cpu")


@pytest.mark.parametrize(
    "changes, told",
    [
        ({"sae_k": 0}, "sae_k from 1 to 96"),
        ({"sae_k": None}, "sae_k from 1 to 96"),
        ({"sarm_use_topk": "yes"}, "one flag, true or false"),
        ({"sarm_activation": False}, "one flag, true or false"),
        ({"sae_source_layer": 3}, "sae_source_layer 3"),
    ],
)
def test_a_configuration_that_contradicts_is_told(tmp_path, changes, told):
    write(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    tiny.edit(tmp_path / "config.json", sarm_param=config["sarm_param"] | changes)
    with pytest.raises(ModelError, match=told):
        load_model(str(tmp_path), device="cpu")


def test_a_final_norm_in_the_checkpoint_is_not_read(tmp_path):
    write(tmp_path)
    before = load_model(str(tmp_path), device="cpu").fingerprint
    change(tmp_path, lambda t: t.update({"model.norm.weight": torch.full((tiny.D,), 7.0)}))
    assert load_model(str(tmp_path), device="cpu").fingerprint == before
