"""Sparse features: parts that sum, features that are told from chance, names that hold."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

from lib.analyses.sarm import calibration, charts, stats, words
from lib.analyses.sarm.worlds import dictionary_world
from lib.models.sae import SAE, Reward
from lib.planted.latents import latent_world
from lib.planted.worlds import make_run
from lib.stats import maxima
from lib.stats.latents import NO_SPARSE, NO_STATES, sparse

CARD = {
    "chosen": 1,
    "autoencoders": [
        {
            "seed": seed,
            "quality": {
                "explained": {"value": 0.92, "low": 0.91, "high": 0.93},
                "explained_last": {"value": 0.78, "low": 0.77, "high": 0.79},
                "l0": 64,
                "never_fired": 0.01,
                "negative": 0.0,
            },
            "dense_on_rebuilt": {
                "correlation": 0.95,
                "less_dense": {"value": -0.01, "low": -0.02, "high": 0.001},
            },
            "heads": {
                name: {
                    "held_out": {"value": 0.6, "low": 0.58, "high": 0.62, "rows": 900},
                    "loss_choose": 0.66,
                }
                for name in ("z", "pre", "dense", "rebuilt")
            },
            "less_dense": {"z": {"value": -0.03, "low": -0.05, "high": -0.01}},
        }
        for seed in (0, 1)
    ],
    "last": {
        "held_out": {"value": 0.65, "low": 0.6, "high": 0.7, "rows": 900},
        "less_dense": {"value": 0.03, "low": 0.01, "high": 0.05},
    },
}


def random_reward(topk: bool, features: int = 6, latents: int = 20, k: int = 4) -> Reward:
    rng = np.random.default_rng(2)
    shapes = (latents, features), (features, latents), features, latents, latents
    parts = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    return Reward(SAE(*parts[:4], k=k), parts[4], topk)


def read(topk: bool, pairs: int = 40):
    reward = random_reward(topk)
    x = np.random.default_rng(3).standard_normal((2 * pairs, 6)).astype(np.float32)
    return sparse(make_run(reward.read(x)[:, None], hidden=x), reward)


def test_the_largest_of_many_is_that_of_all_patterns_of_signs():
    values = np.random.default_rng(0).standard_normal((8, 5))
    values[:, 4] = 0
    found = maxima.flips(values, draws=40_000)
    scale = np.sqrt((values[:, :4] ** 2).sum(axis=0))
    patterns = np.asarray(list(itertools.product((1, -1), repeat=8)))
    largest = np.abs(patterns @ values[:, :4] / scale).max(axis=1)
    exact = [(largest >= s - 1e-9).mean() for s in found.statistic]
    assert found.p_adjusted == pytest.approx(exact, abs=0.01)
    assert found.statistic[4] == 0 and found.p_adjusted[4] == 1


def test_responses_without_states_are_left_out_and_prompts_counted_again():
    reward = random_reward(True)
    x = np.random.default_rng(0).standard_normal((12, 6)).astype(np.float32)
    score = reward.read(x)[:, None]
    x[[1, 4]] = np.nan
    found = sparse(make_run(score, hidden=x), reward)
    assert len(found.x) == 10 and len(found.better) == 4
    assert found.prompt.tolist() == [0, 1, 2, 3]
    kept = np.delete(np.arange(12), [1, 4])
    assert found.response.tolist() == kept.tolist()
    gaps = [score[b, 0] - score[b + 1, 0] for b in (2, 6, 8, 10)]
    assert found.margin == pytest.approx(gaps, abs=1e-4)


@pytest.mark.parametrize("topk", [True, False])
def test_parts_sum_to_the_reward(topk):
    found = read(topk)
    table = stats.attribution(found, np.ones(6, np.float32))
    own = table.iloc[0]
    assert own["gap"] < 1e-5 and own["changed"] == 0 and own["correlation"] == pytest.approx(1)
    # as published, by hand
    sae = found.reward.sae
    each = np.maximum(found.z, 0) @ (sae.decoder.T @ np.ones(6))
    right = found.x @ np.ones(6)
    off = each - right
    published = table.iloc[1]
    assert published["gap"] == pytest.approx(np.abs(off - off.mean()).max() / right.std(), rel=1e-4)
    sides = [np.sign(v[found.better] - v[found.worse]) for v in (each, right)]
    assert published["changed"] == pytest.approx((sides[0] != sides[1]).mean())


def test_with_its_flag_off_the_reward_is_a_linear_head_that_other_weights_make_as_well():
    own, turned = stats.collapse(read(False)).to_dict("records")
    assert own["flag"] == "off" and own["gap"] < 1e-4 and own["other_gap"] < 1e-4
    assert own["shared"] < 1 and own["l0"] == 20
    assert turned["flag"] == "on" and turned["gap"] > 0.01
    assert "not identified" in words.answer(stats.collapse(read(False)))
    assert "no linear head" in words.answer(stats.collapse(read(True)))


def test_a_feature_that_differs_is_shown_and_others_are_not():
    found = latent_world(0.9, every=True, seed=1)
    table = stats.features(found, flips=999, draws=200).set_index("latent")
    assert table.loc[0, "verdict"] == stats.BETTER and table.loc[0, "low"] > 0
    assert (table.drop(index=0)["verdict"] == stats.NOT_SHOWN).all()
    z = found.z[:, 0].astype(float)
    c, j = z[found.better].mean(), z[found.worse].mean()
    base = (found.z[found.better] + found.z[found.worse])[:, found.used].mean(axis=0).mean()
    assert table.loc[0, "selection"] == pytest.approx((c - j) / (c + j + base), rel=1e-5)
    assert table.loc[0, "contribution"] == pytest.approx(z.mean())
    none = stats.features(latent_world(0.0, every=True, seed=1), flips=999, draws=200)
    assert (none["verdict"] == stats.NOT_SHOWN).all()
    worse = stats.features(latent_world(-0.9, every=True, seed=1), flips=999, draws=10)
    assert worse.set_index("latent").loc[0, "verdict"] == stats.WORSE


@pytest.mark.parametrize(
    ("shift", "every", "verdict"),
    [(2.0, False, stats.OWN), (2.0, True, stats.SHARED), (0.0, True, stats.NOT_SHOWN)],
)
def test_a_name_holds_on_prompts_that_did_not_choose_it(shift, every, verdict):
    found = latent_world(shift, pairs=160, latents=20, k=12, every=every, seed=5)
    row = stats.names(found, [0]).iloc[0]
    assert row["verdict"] == verdict
    if verdict == stats.OWN:
        assert row["criterion"] == "criterion 0" and row["low"] > row["next_effect"]


def test_a_single_criterion_names_nothing():
    found = latent_world(1.0, criteria=1)
    table = stats.names(found, [0, 3])
    assert (table["verdict"] == stats.UNDEFINED).all() and table["effect"].isna().all()


def test_contexts_are_the_largest_and_what_is_zero_is_left_out():
    found = latent_world(0.0, pairs=5, latents=20, k=2, seed=0)
    table = stats.contexts(found, [0], "ids alone")
    value = np.abs(found.z[:, 0])
    assert table["activation"].tolist() == pytest.approx(np.sort(value)[::-1][:3].tolist())
    unused = int(np.flatnonzero((found.z == 0).all(axis=0))[0])
    assert stats.contexts(found, [unused], "ids alone").empty


def test_stability_counts_what_every_other_seed_has():
    found = latent_world(0.9, every=True, latents=4, k=4, pairs=30, seed=1)
    parts = stats.features(found, flips=99, draws=10)
    beside = pd.DataFrame(
        {
            "latent": range(4),
            "cosine_1": [0.95, 0.95, 0.2, 0.99],
            "mutual_1": [1, 1, 1, 0],
            "cosine_2": [0.95, 0.5, 0.95, 0.99],
            "mutual_2": [1, 1, 1, 1],
        }
    )
    table = stats.stability(beside, parts).set_index("of")
    assert table.loc["all latents", "again"] == pytest.approx(1 / 4)
    weight = parts.set_index("latent")["contribution"].abs()
    by_size = table.loc["the sizes of their mean parts", "again"]
    assert by_size == pytest.approx(weight[0] / weight.sum())


def test_a_card_tells_quality_and_accuracy_and_one_that_lies_tells_nothing():
    quality = stats.quality(CARD)
    assert quality["chosen"].tolist() == [False, True]
    assert quality["explained"].tolist() == [0.92, 0.92]
    accuracy = stats.accuracy(CARD).set_index("reading")
    assert accuracy.loc[stats.READINGS["z"], "less_high"] == -0.01
    assert accuracy.loc[stats.READINGS["last"], "accuracy"] == 0.65
    wrong = {"autoencoders": [{"quality": "good", "heads": [], "seed": float("nan")}, 3]}
    assert stats.quality(wrong)["explained"].isna().all()
    assert stats.accuracy(wrong)["note"].item()
    assert stats.quality({})["note"].item() and stats.accuracy({})["note"].item()


def test_other_models_and_runs_without_states_get_a_reason_and_no_number():
    run = make_run(np.zeros((4, 1)))
    blank = make_run(np.zeros((4, 1)), hidden=np.full((4, 6), np.nan))
    for found, note in (
        (sparse(run, None), NO_SPARSE),
        (sparse(run, None, "it isn't here"), "it isn't here"),
        (sparse(blank, random_reward(True)), NO_STATES),
    ):
        assert found.note == note
        collapse, features = stats.collapse(found), stats.features(found)
        names = stats.names(found, stats.notable(features))
        told = words.takeaways(
            collapse,
            stats.quality({}, note),
            stats.here(found),
            stats.accuracy({}, note),
            stats.attribution(found),
            features,
            names,
            stats.stability(None, features, note),
        )
        assert told == [f"Nothing can be said of features here: {note}."]
        assert note in charts.features(features, note).alternative
        assert note in charts.names(names, note).alternative


def test_a_dictionary_is_found_again_with_its_weights():
    cosine, found, weight = calibration.recovered(dictionary_world(1), 1)
    assert (cosine >= 0.9).mean() >= 0.9
    a, b = np.triu_indices(len(weight), 1)
    assert ((found[a] > found[b]) == (weight[a] > weight[b])).mean() >= 0.9


def test_rendering(assert_rendered, request):
    on = latent_world(0.9, pairs=120, latents=40, k=12, seed=3)
    features = stats.features(on, flips=499, draws=200)
    names = stats.names(on, stats.notable(features))
    beside = pd.DataFrame({"latent": range(40), "cosine_1": 0.95, "mutual_1": 1.0})
    dense = np.random.default_rng(0).standard_normal(40).astype(np.float32)
    tables = (
        stats.collapse(on),
        stats.quality(CARD),
        stats.here(on),
        stats.accuracy(CARD),
        stats.attribution(on, dense),
        features,
        names,
        stats.stability(beside, features),
    )
    told = words.takeaways(*tables)
    mixed = [text for text in words.takeaways(*tables, whole=False) if text not in told]
    off = read(False)
    other = stats.features(off, flips=499, draws=200)
    plain = words.takeaways(
        stats.collapse(off),
        stats.quality({}),
        stats.here(off),
        stats.accuracy({}),
        stats.attribution(off),
        other,
        stats.names(off, stats.notable(other)),
        stats.stability(None, other),
    )
    drawn = {
        "features": charts.features(features).alternative,
        "names": charts.names(names).alternative,
    }
    assert_rendered(request.path.with_name("sentences.txt"), told, mixed, plain, drawn)
