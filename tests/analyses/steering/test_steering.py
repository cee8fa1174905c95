"""Steering: exact changes, a latent that misleads is found, chance corrects nothing for long."""

from __future__ import annotations

import numpy as np
import pytest

from lib.analyses.steering import charts, stats, words
from lib.models.sae import SAE, Reward
from lib.planted.latents import latent_world
from lib.planted.worlds import make_run
from lib.stats.latents import NO_SPARSE, sparse


def misled(seed: int = 1, **given):
    return latent_world(-2.0, pairs=240, latents=60, k=6, weight=6.0, seed=seed, **given)


def test_changing_a_latent_is_exact_and_nothing_at_one_and_at_zero():
    found = misled()
    reward = found.reward
    assert not stats.change(found, 0, times=1.0).any()
    assert not stats.change(found, 0, plus=0.0).any()
    z = found.z.copy()
    z[:, 0] = 2.5 * z[:, 0] + 0.3
    expected = z @ reward.weight - found.z @ reward.weight
    assert stats.change(found, 0, times=2.5, plus=0.3) == pytest.approx(expected, abs=1e-3)
    suppressed = found.score + stats.change(found, 0, times=0.0)
    margin = suppressed[found.better] - suppressed[found.worse]
    at = list(found.used).index(0)
    assert margin == pytest.approx(found.margin - found.gaps[:, at], abs=1e-3)


def test_a_latent_that_misleads_one_criterion_is_found_and_judged_on_other_prompts():
    found = misled()
    table = stats.targets(found).set_index("criterion")
    row = table.loc["criterion 0"]
    assert row["latent"] == 0 and row["verdict"] == stats.CORRECTS and row["low"] > 0
    assert row["n"] == row["prompts"] == 30
    assert row["change"] > row["random_high"]
    own = (found.criterion == "criterion 0") & (found.prompt % 2 == 1)
    before = found.margin[own] > 0
    after = (found.margin - found.gaps[:, list(found.used).index(0)])[own] > 0
    assert row["before"] == pytest.approx(before.mean())
    assert row["after"] == pytest.approx(after.mean())
    assert set(table["verdict"].drop("criterion 0")) <= {stats.NOT_SHOWN, stats.UNDEFINED}


def test_a_dense_direction_moves_the_reward_by_as_much_where_it_was_chosen():
    found = misled(seed=2)
    own = np.flatnonzero((found.criterion == "criterion 0") & (found.prompt % 2 == 0))
    best = list(found.used).index(0)
    moved, note = stats._dense(found, own, best)
    assert note == ""
    rows = np.unique([found.better[own], found.worse[own]])
    size = np.abs(moved - found.score)[rows].mean()
    assert size == pytest.approx(np.abs(found.parts[rows, best]).mean(), rel=0.02)


def test_the_published_form_corrects_preferences_by_chance():
    found = latent_world(0.0, pairs=120, seed=3)
    table = stats.corrections(found).set_index("criterion")
    whole = table.loc["all"]
    wrong = int((found.margin < 0).sum())
    assert whole["wrong"] == wrong and whole["correctable"] > 0.3
    able = ((found.margin[:, None] - found.gaps)[found.margin < 0] > 0).any(axis=1)
    assert whole["correctable"] == pytest.approx(able.mean())
    assert table.drop(index="all")["wrong"].sum() == wrong
    assert whole["random"] < whole["correctable"]


def test_where_nothing_is_wrong_nothing_is_corrected():
    one = np.eye(4, dtype=np.float32)
    none = np.zeros(4, np.float32)
    reward = Reward(SAE(one, one, none, none, 2), np.ones(4, np.float32), True)
    x = np.abs(np.random.default_rng(0).standard_normal((16, 4))).astype(np.float32)
    x[::2] += 5
    found = sparse(make_run(reward.read(x)[:, None], hidden=x), reward)
    table = stats.corrections(found)
    assert (table["wrong"] == 0).all() and table["note"].iloc[0]
    targets = stats.targets(found)
    assert targets["note"].iloc[0] == "no latent's suppression mends more than it breaks"
    assert words.answer(targets).startswith("No criterion could be steered")
    assert "Nothing to draw" in charts.targets(targets).alternative


def test_other_models_get_a_reason():
    found = sparse(make_run(np.zeros((4, 1))), None)
    targets, corrections = stats.targets(found), stats.corrections(found)
    assert words.takeaways(targets, corrections) == [f"Nothing can be steered here: {NO_SPARSE}."]
    assert NO_SPARSE in charts.targets(targets).alternative


def test_rendering(assert_rendered, request):
    parts = []
    for found in (misled(), latent_world(0.0, pairs=60, seed=3)):
        targets = stats.targets(found)
        parts.append(words.takeaways(targets, stats.corrections(found)))
        parts.append({"targets": charts.targets(targets).alternative})
    assert_rendered(request.path.with_name("sentences.txt"), *parts)
