"""Alignment tension: training, importance and silencing on a tiny backbone."""

from __future__ import annotations

import dataclasses
import gzip
import json
import math

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from lib.errors import DataError, ModelError, ParameterError, StoreError
from lib.training.tension import finetune, kept, neurons, study
from lib.training.tension.finetune import Recipe, Reward
from lib.training.tension.study import Settings
from lib.training.tension.texts import load

SMALL = Settings(
    Recipe(learning_rate=3e-3, head_rate=3e-3, batch=16, epochs=3),
    draws=3,
    part_draws=2,
    measured=8,
    few=4,
    each=2,
    helping=1,
)


def write(folder, name: str, rows: list[tuple[str, str, str]]) -> None:
    """hh-rlhf in its layout, of (prompt, chosen, rejected)."""
    path = folder / name / "test.jsonl.gz"
    path.parent.mkdir(parents=True)
    with gzip.open(path, "wt") as stream:
        for prompt, chosen, rejected in rows:
            opening = f"\n\nHuman: {prompt}\n\nAssistant:"
            row = {"chosen": f"{opening} {chosen}", "rejected": f"{opening} {rejected}"}
            stream.write(json.dumps(row) + "\n")


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Helpful replies say yes and harmless ones say no, of the same two replies."""
    folder = tmp_path_factory.mktemp("tension")
    generator = np.random.default_rng(0)
    for name, topic, sign in (("helpful-base", "bread", 1), ("harmless-base", "locks", -1)):
        rows = []
        for number in range(60):
            yes, no = generator.integers(1, 4, 2)
            replies = [f"{'yes ' * yes}!", f"{'no ' * no}!"][::sign]
            rows.append((f"{topic} {number}?", *replies))
        write(folder, f"hh-rlhf/{name}", rows)
    return folder


@pytest.fixture(scope="module")
def texts(source, tiny_model):
    return load(study.SOURCES[study.HELPFUL], tiny_model.format, str(source / "hh-rlhf"))


@pytest.fixture
def reward(tiny_llama) -> Reward:
    return finetune.fresh(tiny_llama(), seed=1)


def few(texts, n=6):
    return texts.where(np.arange(n))


def test_padding_reaches_no_score(reward, texts):
    sequences = few(texts).sequences
    together = finetune.scores(reward, sequences)
    alone = [finetune.scores(reward, [ids])[0] for ids in sequences]
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_a_model_learns_what_its_comparisons_say(tiny_llama, texts):
    base = tiny_llama()
    before = {name: value.clone() for name, value in base.state_dict().items()}
    model = finetune.train(base, texts, SMALL.recipe, seed=0)
    right = texts.margins(finetune.scores(model, texts.sequences)[:, 0]) > 0
    assert right.mean() > 0.9
    assert all(torch.equal(value, before[name]) for name, value in base.state_dict().items())
    again = finetune.train(base, texts, SMALL.recipe, seed=0)
    assert torch.equal(model.weight, again.weight)


def test_a_copy_in_half_precision_learns_as_the_model_itself_does(tiny_llama, texts):
    recipe = Recipe(learning_rate=1e-3, head_rate=1e-3, batch=16, epochs=3)
    exact, half = (finetune.train(tiny_llama(), texts, recipe, 0, half=half) for half in (0, 1))
    base = finetune.fresh(tiny_llama(), 0)
    assert {each.dtype for each in half.backbone.parameters()} == {torch.float32}
    scores = [finetune.scores(model, texts.sequences)[:, 0] for model in (exact, half, base)]
    learnt = np.abs(scores[0] - scores[2]).max()
    assert learnt > 0.1
    assert np.abs(scores[1] - scores[0]).max() < 0.2 * learnt
    assert np.corrcoef(scores[1], scores[0])[0, 1] > 0.99


def test_small_batches_give_the_gradients_of_large_ones(tiny_llama, texts):
    some = few(texts, 8)
    recipe = Recipe(learning_rate=1e-3, head_rate=1e-3, batch=8, epochs=1)
    one, other = (
        finetune.train(tiny_llama(), some, recipe, seed=0, tokens=tokens) for tokens in (10**6, 1)
    )
    np.testing.assert_allclose(one.weight, other.weight, atol=1e-6)


def test_each_head_learns_from_its_own(tiny_llama, texts):
    head = np.arange(len(texts)) % 2
    model = finetune.train(tiny_llama(), texts, SMALL.recipe, seed=0, head=head)
    margins = texts.margins(finetune.scores(model, texts.sequences).T)
    assert margins.shape == (2, len(texts)) and (margins > 0).mean() > 0.9


def test_one_kernel_norms_as_several_do(tiny_llama, texts):
    base = tiny_llama()
    for module in base.modules():
        if hasattr(module, "variance_epsilon"):
            torch.nn.init.normal_(module.weight, 1.0, 0.3)
    head = torch.nn.Parameter(torch.ones(1, base.config.hidden_size))
    sequences = few(texts).sequences
    before = finetune.scores(Reward(base, head), sequences)
    assert any(isinstance(m, finetune.Norm) for m in finetune.quicken(base).modules())
    np.testing.assert_allclose(before, finetune.scores(Reward(base, head), sequences), atol=1e-5)


def test_a_silenced_neuron_is_one_whose_activation_is_zero(reward, texts, monkeypatch):
    mask = np.zeros((2, 48), bool)
    mask[0, 3] = mask[1, [5, 40]] = True
    sequences = few(texts).sequences
    whole = finetune.scores(reward, sequences)
    with neurons.silenced(reward.backbone, mask):
        cut = finetune.scores(reward, sequences)
    np.testing.assert_array_equal(whole, finetune.scores(reward, sequences))
    monkeypatch.setattr(neurons, "_writers", lambda backbone, ports: [None] * len(ports))
    with neurons.silenced(reward.backbone, mask):
        multiplied = finetune.scores(reward, sequences)
    np.testing.assert_allclose(cut, multiplied, atol=1e-5)
    for layer, neuron in np.argwhere(mask):
        reward.backbone.layers[layer].mlp.down_proj.weight.data[:, neuron] = 0
    np.testing.assert_allclose(cut, finetune.scores(reward, sequences), atol=1e-5)
    assert not np.allclose(cut, whole, atol=1e-3)


def test_what_is_put_in_place_of_a_neuron_is_what_it_gives(reward, texts):
    mask, put = np.ones((2, 48), bool), np.zeros((2, 48))
    with neurons.silenced(reward.backbone, mask, put):
        zero = finetune.scores(reward, few(texts).sequences)
    with neurons.silenced(reward.backbone, mask):
        np.testing.assert_allclose(zero, finetune.scores(reward, few(texts).sequences), atol=1e-6)
    with neurons.silenced(reward.backbone, mask, put + 1):
        assert not np.allclose(zero, finetune.scores(reward, few(texts).sequences), atol=1e-3)


def test_activation_is_the_mean_over_tokens_then_over_texts(reward, texts, tiny_llama):
    some, base = few(texts), tiny_llama(seed=5)
    found = neurons.measure(reward, base, some, tokens=200)
    means, gaps, squares, n = [], [], 0.0, 0
    for better, worse in zip(some.better, some.worse, strict=True):
        pair = [acts(reward.backbone, some.sequences[place]) for place in (better, worse)]
        before = [acts(base, some.sequences[place]) for place in (better, worse)]
        means += [each.mean(1) for each in pair]
        gaps.append(means[-2] - means[-1])
        for own, old in zip(pair, before, strict=True):
            squares, n = squares + ((own - old) ** 2).sum(1), n + own.shape[1]
    np.testing.assert_allclose(found["activation"], np.mean(means, axis=0), atol=1e-5)
    np.testing.assert_allclose(found["gap"], np.mean(gaps, axis=0), atol=1e-5)
    np.testing.assert_allclose(found["change"], np.sqrt(squares / n), atol=1e-5)


def acts(backbone, ids) -> np.ndarray:
    """Activations of one text, (layers, tokens, neurons), by the gate's own weights."""
    kept = []
    hooks = [
        layer.mlp.gate_proj.register_forward_hook(lambda *given: kept.append(given[-1]))
        for layer in backbone.layers
    ]
    with torch.no_grad():
        backbone(torch.from_numpy(ids)[None])
    for hook in hooks:
        hook.remove()
    return np.stack([torch.nn.functional.silu(gate[0]).numpy() for gate in kept])


def test_nothing_changed_in_the_base_itself(tiny_llama, texts):
    base = tiny_llama()
    found = neurons.measure(finetune.fresh(base, 0), base, few(texts))
    assert np.abs(found["change"]).max() == 0
    np.testing.assert_array_equal(found["activation"], found["activation of base"])


def test_gradient_is_what_the_margin_loses_to_first_order(reward, texts):
    some = few(texts)
    found = neurons.measure(reward, reward.backbone, some)["gradient"]
    step = 1e-3
    for layer, neuron in ((0, 7), (0, 30), (1, 2), (1, 47)):
        column = reward.backbone.layers[layer].mlp.down_proj.weight.data[:, neuron]
        kept = column.clone()
        margins = []
        for scale in (1 + step, 1 - step):
            column.copy_(kept * scale)
            margins.append(some.margins(finetune.scores(reward, some.sequences)[:, 0]).mean())
        column.copy_(kept)
        slope = (margins[0] - margins[1]) / (2 * step)
        assert found[layer, neuron] == pytest.approx(slope, abs=2e-3, rel=0.02)


def test_the_top_share_is_exact_and_ties_go_to_the_first():
    importance = np.asarray([[3.0, 1.0, 2.0], [2.0, 0.0, -5.0]])
    np.testing.assert_array_equal(neurons.top(importance, 0.34), [[1, 0, 1], [1, 0, 0]])
    np.testing.assert_array_equal(neurons.top(importance, 0.33), [[1, 0, 1], [0, 0, 0]])
    many = np.random.default_rng(0).standard_normal((7, 13))
    assert neurons.top(many, 0.1).sum() == math.ceil(9.1)


def test_random_neurons_are_as_many_over_all_or_in_each_layer():
    mask = neurons.top(np.random.default_rng(0).standard_normal((5, 40)), 0.1)
    free, bound = neurons.drawn(mask, 3), neurons.drawn(mask, 3, by_layer=True)
    assert free.sum() == bound.sum() == mask.sum()
    np.testing.assert_array_equal(bound.sum(1), mask.sum(1))
    assert (free != mask).any() and (bound != mask).any() and (free != neurons.drawn(mask, 4)).any()


@pytest.fixture(scope="module")
def made(source, tiny_llama, tiny_model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    start(source, tiny_llama, tiny_model, folder)
    return folder


def start(source, tiny_llama, tiny_model, folder, settings=SMALL, seeds=2, only=()):
    return study.run(
        dataclasses.replace(tiny_model, backbone=tiny_llama()),
        source,
        folder,
        seeds=seeds,
        only=only,
        settings=settings,
        tests=(),
        say=lambda text: None,
    )


def test_a_study_keeps_what_each_model_says(made):
    found = kept.load_study(made)
    assert list(found.sets) == list(kept.SOURCES.values())
    for name, expected in (("helpful", (1, 0)), ("harmless", (0, 1))):
        for entry, good in zip(found.sets.values(), expected, strict=True):
            scores = found.models[0, name][f"score {entry.name}"]
            right = scores[entry.better] > scores[entry.worse]
            assert abs(right.mean() - good) < 0.2
    assert [model for seed, model in found.models if seed == 0] == list(kept.MODELS)
    second = [model for seed, model in found.models if seed == 1]
    assert second == [*kept.OBJECTIVES, kept.AVERAGE]
    assert found.seeds == [0, 1]
    first = found.models[0, "mixed"]
    pairs = sum(len(rows) for _, rows in found.probe)
    assert first["margin"].shape == (len(kept.WAYS), pairs)
    assert first["random own"].shape == (SMALL.draws, len(found.few))
    assert first["random shared"].shape == (SMALL.part_draws, len(found.few))
    masks = np.unpackbits(first["mask"], axis=-1, count=96)
    assert (masks[:5].sum(-1) == math.ceil(0.1 * 96)).all()
    np.testing.assert_array_equal(
        masks[0].reshape(2, 48), neurons.top(first["activation"].astype(float), 0.1)
    )
    tops = [np.unpackbits(found.models[0, side]["mask"][0], count=96) for side in kept.SOURCES]
    np.testing.assert_array_equal(masks[5], tops[0] & tops[1])
    np.testing.assert_array_equal(masks[6], tops[0] & ~tops[1] & 1)
    own = [
        first[f"score {name}"][found.sets[name].better[rows]]
        - first[f"score {name}"][found.sets[name].worse[rows]]
        for name, rows in found.probe
    ]
    np.testing.assert_allclose(first["margin"][0], np.concatenate(own), atol=2e-2)
    assert found.metadata[0, "mixed"]["machine"]


def test_what_is_averaged_lies_between(made):
    models = kept.load_study(made).models
    helpful, harmless, average = (
        models[0, name]["score hh-rlhf/helpful-base"] for name in ("helpful", "harmless", "average")
    )
    assert np.corrcoef(helpful, average)[0, 1] > np.corrcoef(helpful, harmless)[0, 1]


def test_a_study_that_was_stopped_goes_on(made, source, tiny_llama, tiny_model):
    def arrays():
        return {path.name: load_file(path) for path in made.glob("*-*.safetensors")}

    before = arrays()
    times = {path.name: path.stat().st_mtime_ns for path in made.iterdir()}
    half = {k: v for k, v in before["1-harmless.safetensors"].items() if k != "random shared"}
    save_file(half, made / "1-harmless.safetensors")
    (made / "0-average.safetensors").unlink()
    (made / "0-two-heads.safetensors").unlink()
    start(source, tiny_llama, tiny_model, made, only=[1])
    assert not (made / "0-average.safetensors").exists()
    start(source, tiny_llama, tiny_model, made)
    after = arrays()
    assert sorted(before) == sorted(after)
    for name, of in before.items():
        assert sorted(of) == sorted(after[name])
        for key, value in of.items():
            np.testing.assert_array_equal(value, after[name][key])
    same = {path.name for path in made.iterdir() if path.stat().st_mtime_ns == times[path.name]}
    made_again = {"1-harmless.safetensors", "0-average.safetensors", "0-two-heads.safetensors"}
    assert set(times) - same == made_again


def test_another_study_is_never_mixed_in(made, source, tiny_llama, tiny_model):
    other = dataclasses.replace(SMALL, share=0.2)
    with pytest.raises(StoreError, match="settings"):
        start(source, tiny_llama, tiny_model, made, other)


def test_bad_input_is_refused(source, tiny_llama, tiny_model, tmp_path):
    with pytest.raises(ParameterError, match="share"):
        start(source, tiny_llama, tiny_model, tmp_path, Settings(share=0.0))
    with pytest.raises(ParameterError, match="seed"):
        start(source, tiny_llama, tiny_model, tmp_path, seeds=0)
    with pytest.raises(ParameterError, match="seeds from 0 to 1"):
        start(source, tiny_llama, tiny_model, tmp_path, only=[2])
    same = [("bread?", "yes", "yes")] * 4
    write(tmp_path, "hh-rlhf/helpful-base", same)
    with pytest.raises(DataError, match="4 identical responses"):
        start(tmp_path, tiny_llama, tiny_model, tmp_path / "out")
    write(tmp_path / "b", "hh-rlhf/helpful-base", [("bread?", "yes", "no")])
    write(tmp_path / "b", "hh-rlhf/harmless-base", [("locks?", "yes", "no")])
    with pytest.raises(DataError, match="side of the split"):
        start(tmp_path / "b", tiny_llama, tiny_model, tmp_path / "out")
    backbone = tiny_llama()
    del backbone.layers[1].mlp.act_fn
    with pytest.raises(ModelError, match="activation module"):
        start(source, lambda: backbone, tiny_model, tmp_path / "none")
