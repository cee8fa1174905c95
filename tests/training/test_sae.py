"""An autoencoder learns what states are made of, and goes on after a kill as if there were none."""

import re

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from scipy.stats import spearmanr

from lib.errors import ParameterError, StoreError
from lib.models.sae import SAE
from lib.training import bradley_terry, sae, sarm, token_states
from lib.training.token_states import InMemory, TokenStates

RECIPE = sae.Recipe(latents=24, k=3, seed=1, steps=30, batch=64, rate=5e-3, warm_up=5, silent=300)


def world(seed: int, features=32, many=48, k=3, states=20_000):
    """Directions (many, features), sparse amounts of them, and states with some noise."""
    rng = np.random.default_rng(seed)
    directions = rng.normal(size=(many, features))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    amounts = np.zeros((states, many))
    which = np.argsort(rng.random((states, many)), axis=1)[:, :k]
    np.put_along_axis(amounts, which, rng.uniform(0.5, 1.5, (states, k)), axis=1)
    x = amounts @ directions + 0.02 * rng.normal(size=(states, features))
    return directions, amounts, x.astype(np.float32)


@pytest.fixture
def shards(tmp_path):
    """Three shards of states in a folder."""
    x = world(0, features=8, many=12, states=500)[2].astype(np.float16)
    sizes = [200, 180, 120]
    for number, part in enumerate(np.split(x, np.cumsum(sizes)[:-1])):
        rows = np.arange(len(part))
        held = {"states": part, "item": rows, "last": rows}
        save_file(held, tmp_path / f"tokens-{number:05d}.safetensors")
    return TokenStates(tmp_path, sizes, 8)


@pytest.mark.parametrize("memory", [1, 5000, 1 << 30])
def test_a_killed_training_ends_with_the_same_numbers(shards, tmp_path, monkeypatch, memory):
    monkeypatch.setattr(sae, "MEMORY", memory)
    whole = sae.train(shards, RECIPE)
    keep = tmp_path / "kept"

    def kill(step, learner):
        if step == 17:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sae.train(shards, RECIPE, keep=keep, keep_every=10, on_step=kill)
    steps = []
    again = sae.train(shards, RECIPE, keep=keep, on_step=lambda step, _: steps.append(step))
    assert steps == list(range(11, 31))
    for name in ("encoder", "decoder", "pre_bias", "latent_bias"):
        np.testing.assert_array_equal(getattr(again, name), getattr(whole, name))
    assert np.linalg.norm(whole.decoder, axis=0) == pytest.approx(1, abs=1e-6)


def test_gradients_over_the_kept_latents_are_those_over_all(shards):
    x = next(sae.batches(shards, RECIPE, "cpu"))
    found = []
    for silent in (0, 1):
        learner = sae.Learner(shards, RECIPE, "cpu")
        learner._count = silent  # with silent ones all pre-activations have a gradient
        _, _, made = learner.forward(x)
        (made - x).square().sum().backward()
        found.append([made.detach(), *(w.grad for w in learner.weights.values())])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_an_epoch_draws_every_state_once(shards, monkeypatch):
    monkeypatch.setattr(sae, "MEMORY", 1)
    recipe = sae.Recipe(latents=4, k=1, seed=0, steps=25, batch=20)
    drawn = np.concatenate([x.numpy() for x in sae.batches(shards, recipe, "cpu")])
    whole = np.concatenate([shard["states"] for shard in shards.shards()]).astype(np.float32)
    assert len(drawn) == len(whole)
    np.testing.assert_array_equal(np.sort(drawn[:, 0]), np.sort(whole[:, 0]))


def test_another_training_is_not_gone_on_with(shards, tmp_path):
    sae.train(shards, RECIPE, keep=tmp_path / "kept")
    other = sae.Recipe(latents=24, k=2, seed=1, steps=30, batch=64)
    with pytest.raises(StoreError, match="training by this recipe"):
        sae.train(shards, other, keep=tmp_path / "kept")
    with pytest.raises(ParameterError, match="k from 1"):
        sae.train(shards, sae.Recipe(latents=2, k=3, seed=0))


def test_quality_is_that_of_numpy():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 6)).astype(np.float16)
    shapes = (9, 6), (6, 9), 6, 9
    made = SAE(*(rng.normal(size=s).astype(np.float32) for s in shapes), k=3)
    item = np.repeat(np.arange(20), 3)
    states = InMemory.of(x, item)
    states.held["last"] = np.where(np.arange(60) % 3 == 2, np.arange(60), -1)
    found = sae.quality(made, states, step=7)
    x = x.astype(float)
    pre = (x - made.pre_bias) @ made.encoder.T.astype(float) + made.latent_bias
    z = np.where(pre >= np.sort(pre, axis=1)[:, [-3]], pre, 0)
    error = ((x - z @ made.decoder.T - made.pre_bias) ** 2).sum(axis=1)
    spread = ((x - x.mean(axis=0)) ** 2).sum()
    last = x[2::3]
    told = found.summary()
    assert told["explained"]["value"] == pytest.approx(1 - error.sum() / spread, abs=1e-4)
    assert told["explained_last"]["value"] == pytest.approx(
        1 - error[2::3].sum() / ((last - last.mean(axis=0)) ** 2).sum(), abs=1e-4
    )
    assert found.negative == pytest.approx((z < 0).sum() / (z != 0).sum())
    assert list(found.fired) == list((z != 0).sum(axis=0))
    assert told["l0"] == 3 and told["explained"]["low"] < told["explained"]["value"]
    np.testing.assert_allclose(made.encode(x).dense(), z, atol=1e-5)
    np.testing.assert_allclose(made.reconstruct(x), z @ made.decoder.T + made.pre_bias, atol=1e-4)


def test_a_head_on_a_device_is_the_one_that_scikit_learn_finds():
    rng = np.random.default_rng(0)
    difference = rng.normal(size=(200, 5)) * [1, 2, 3, 4, 5] + 0.3
    for c in (1e-3, 1e-1):
        [found] = sarm.bradley_terry(difference, [c], "each")
        np.testing.assert_allclose(found, bradley_terry.fit(difference, c), rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize("shape", [(60, 200), (200, 30)])
def test_newtons_steps_end_where_those_of_l_bfgs_do(shape):
    rng = np.random.default_rng(1)
    d = torch.from_numpy(rng.normal(size=shape) + 0.2)
    for c in (1e-4, 1e-2, 1.0):
        start = torch.zeros(shape[1], dtype=torch.float64)
        found, expected = (how(d, start, c) for how in (sarm.newton, sarm.lbfgs))
        np.testing.assert_allclose(found, expected, atol=2e-5)
        slope = found / c - d.T @ torch.sigmoid(-(d @ found))
        assert slope.abs().max() < 1e-6
        # from elsewhere, where some margins are large and wrong
        far = torch.from_numpy(rng.normal(0, 3, shape[1]))
        np.testing.assert_allclose(sarm.newton(d, far, c), found, atol=2e-5)


def test_readings_are_those_of_the_autoencoder():
    rng = np.random.default_rng(0)
    shapes = (9, 6), (6, 9), 6, 9
    made = SAE(*(rng.normal(size=s).astype(np.float32) for s in shapes), k=3)
    x = rng.normal(size=(50, 6)).astype(np.float32)
    found = sarm.readings(made, x)
    z = made.encode(x)
    np.testing.assert_allclose(found["z"], z.dense(), atol=1e-5)
    np.testing.assert_allclose(found["pre"], made.pre(x), atol=1e-5)
    np.testing.assert_allclose(found["rebuilt"], made.decode(z), atol=1e-5)
    assert found["dense"] is x


def test_a_training_tells_how_it_goes(shards):
    lines = []
    watch = sae.watched(shards, shards, RECIPE, "cpu", lines.append, times=3)
    made = sae.train(shards, RECIPE, on_step=watch)
    assert [line.split(",")[0] for line in lines] == [
        f"seed 1: step {step} of 30" for step in (10, 20, 30)
    ]
    x = shards.shard(0)["states"].astype(np.float32)
    share = 1 - ((x - made.reconstruct(x)) ** 2).sum() / ((x - x.mean(axis=0)) ** 2).sum()
    told = re.findall(r"(?:learnt from|held out) ([\d.]+)", lines[-1])
    assert [float(each) for each in told] == pytest.approx([share] * 2, abs=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_a_planted_dictionary_is_found_again_with_its_weights(seed):
    directions, amounts, x = world(seed)
    recipe = sae.Recipe(96, 3, seed, steps=800, batch=256, rate=5e-3, warm_up=50, silent=5000)
    made = sae.train(InMemory.of(x), recipe)
    cosine = directions @ made.decoder
    assert (cosine.max(axis=1) >= 0.9).mean() >= 0.9
    # A reward of known weights is learnt from comparisons of states, drawn by its margins.
    rng = np.random.default_rng(seed)
    weight = rng.normal(0, 3, len(directions))
    reward = amounts @ weight
    one, other = rng.permutation(len(x))[:8000].reshape(2, -1)
    swap = rng.random(len(one)) > 1 / (1 + np.exp(reward[other] - reward[one]))
    better, worse = np.where(swap, other, one), np.where(swap, one, other)
    z = made.encode(x).dense()
    [found] = sarm.bradley_terry(z[better] - z[worse], [1e-1], "all")
    assert spearmanr(found[cosine.argmax(axis=1)], weight).statistic >= 0.9


def test_states_of_all_tokens_are_those_of_the_backbone(write_tiny, tmp_path):
    from lib.extraction.forward import forward
    from lib.models.cut import cut
    from lib.models.prompt import PromptFormat

    backbone = cut(write_tiny.backbone(num_hidden_layers=3), 2)
    format = PromptFormat(write_tiny.tokenizer(), "tiny")
    items = [format.encode(*case) for case in write_tiny.CASES]
    found = token_states.write(backbone, items, tmp_path / "states", "made")
    assert len(found) == sum(item.n_tokens for item in items)
    [shard] = found.shards()
    ends = shard["last"] >= 0
    assert list(shard["last"][ends]) == list(range(sum(len(i.sequences) for i in items)))
    hidden = forward(backbone, items, packing="padded").hidden
    np.testing.assert_allclose(shard["states"][ends], hidden, atol=4e-3)
    assert list(np.unique(shard["item"])) == list(range(len(items)))
    with pytest.raises(StoreError, match="others"):
        token_states.write(backbone, items, tmp_path / "states", "other")
