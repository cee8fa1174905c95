"""A concept is found, or only as length, or not at all; and a head pays for it or doesn't."""

from __future__ import annotations

import numpy as np
import pytest

from lib.analyses.concepts import stats
from lib.analyses.concepts.cosines import jackknife, left_out, squared_length
from lib.analyses.concepts.pairs import LEAST, halves, pairs, within
from lib.analyses.concepts.worlds import concept_world
from lib.planted.worlds import make_run
from lib.stats import signed

FLIPS = 199


@pytest.fixture(scope="module")
def paid():
    return concept_world("paid", seed=1)


def test_a_planted_concept_is_found_and_the_others_are_not(paid):
    table = stats.found(paid.run, flips=FLIPS)
    assert table["verdict"].tolist() == ["found"] + ["not shown"] * 5
    assert table["accuracy"][0] > 0.7 and table["halves"][0] > 0.3
    assert abs(table["length"] - 0.5).max() == 0, "all are of one length"


def test_a_concept_that_is_length_is_found_only_as_length():
    world = concept_world("length", seed=0)
    row = stats.found(world.run, flips=FLIPS).iloc[0]
    assert (row["verdict"], row["length"]) == ("only as length", 1.0)
    assert row["accuracy"] > 0.8 > row["without_length"]
    first = stats.alignment(world.run, world.weight).iloc[0]
    assert (first["verdict"], first["gap"] > 0) == ("only as length", True)
    assert first["p_without_adjusted"] > 0.05


def test_exchanged_pairs_are_no_concept():
    table = stats.found(concept_world("random", seed=2).run, flips=FLIPS)
    assert (table["verdict"] == "not shown").all()


def test_a_direction_that_is_turned_round_ranks_alike(paid):
    run = paid.run.copy()
    own = run["criterion"].values == "concept_0"
    better, worse = run["better"].values.copy(), run["worse"].values.copy()
    better[own], worse[own] = worse[own].copy(), better[own].copy()
    turned = run.assign(better=("comparison", better), worse=("comparison", worse))
    one, other = (stats.found(each, flips=FLIPS).iloc[0] for each in (run, turned))
    assert one["accuracy"] == other["accuracy"] and one["auroc"] == pytest.approx(other["auroc"])
    gaps = [stats.alignment(each, paid.weight) for each in (run, turned)]
    assert (gaps[0]["verdict"][0], gaps[1]["verdict"][0]) == ("for", "against")
    assert gaps[0]["published"][0] == pytest.approx(-gaps[1]["published"][0])


def test_length_is_taken_out_by_the_fitting_prompts_alone():
    generator = np.random.default_rng(0)
    difference, length = generator.standard_normal((9, 4)), generator.standard_normal(9)
    fit, tried = np.arange(5), np.arange(5, 9)
    slope = length[fit] @ difference[fit] / (length[fit] @ length[fit])
    left = difference - np.outer(length, slope)
    found = within(difference @ difference.T, length, fit, tried)
    assert found == pytest.approx(left[tried] @ left[fit].T)
    plain = within(difference @ difference.T, None, fit, tried)
    assert plain == pytest.approx(difference[tried] @ difference[fit].T)


def test_halves_are_of_different_prompts_and_each_serves_the_other():
    cut = halves(9, 3, seed=0)
    assert len(cut) == 6
    for fit, tried in cut:
        assert sorted([*fit, *tried]) == list(range(9))
    for (a, b), (c, d) in zip(cut[::2], cut[1::2], strict=True):
        assert a.tolist() == d.tolist() and b.tolist() == c.tolist()


def test_what_a_head_pays_is_its_weight_along_the_mean_difference(paid):
    table = stats.alignment(paid.run, paid.weight)
    hidden = paid.run["hidden"].values.astype(float)
    rows = paid.run["criterion"].values == "concept_3"
    difference = (hidden[::2] - hidden[1::2])[rows]
    mean, own = difference.mean(axis=0), table[table["concept"] == "concept_3"]
    sd = paid.run["score"].values.std(axis=0)
    assert own["gap"].to_numpy() * sd == pytest.approx(paid.weight @ mean, abs=1e-4)
    size = np.linalg.norm(paid.weight, axis=1) * np.linalg.norm(mean)
    assert own["published"].to_numpy() == pytest.approx(paid.weight @ mean / size, abs=1e-5)
    gaps = (paid.run["score"].values[::2] - paid.run["score"].values[1::2])[rows]
    assert own["p"].to_numpy() == pytest.approx(signed.flipped(gaps / sd), abs=1e-3)


def test_the_direction_s_length_is_that_of_different_prompts_alone():
    difference = np.random.default_rng(1).standard_normal((6, 3)) + 2
    products = difference @ difference.T
    every = [difference[i] @ difference[j] for i in range(6) for j in range(6) if i != j]
    assert squared_length(products) == pytest.approx(np.mean(every))
    for out, found in enumerate(left_out(products)):
        kept = np.delete(difference, out, axis=0)
        assert found == pytest.approx(squared_length(kept @ kept.T))
    assert np.isnan(squared_length(np.diag([1.0, 1.0])))


def test_the_jackknife_of_a_mean_is_its_standard_error():
    values = np.asarray([1.0, 4.0, 2.0, 7.0])
    without = (values.sum() - values) / 3
    assert jackknife(without) == pytest.approx(values.std(ddof=1) / 2)


def test_without_a_direction_there_is_no_cosine():
    world = concept_world("random", seed=0)
    table = stats.alignment(world.run, world.weight)
    assert table["published"].notna().all()
    assert (table["cosine"].isna() == table["low"].isna()).all() and table["cosine"].isna().any()


def test_without_weights_or_numbers_it_says_so(paid):
    table = stats.alignment(paid.run)
    assert table["cosine"].isna().all() and table["p"].notna().all()
    score = paid.run["score"].copy()
    score[:, 1] = np.nan
    lost = stats.alignment(paid.run.assign(score=score), paid.weight)
    own = lost[lost["head"] == "head_1"]
    assert (own["verdict"] == "undefined").all() and (own["note"] != "").all()


def test_few_prompts_and_equal_states_say_nothing():
    few = concept_world("paid", prompts=LEAST - 1)
    for table in (stats.found(few.run), stats.alignment(few.run, few.weight)):
        assert (table["verdict"] == "undefined").all()
        assert table["note"].str.contains(f"{LEAST} are needed").all()
    (same,) = pairs(make_run(np.zeros((40, 1))))
    assert same.note == "the states do not differ between responses"


def test_pairs_of_one_prompt_count_once(paid):
    run = paid.run.copy()
    hashes = run["prompt_hash"].values.copy()
    hashes[1] = hashes[0]
    first = pairs(run.assign(prompt_hash=("item", hashes)))[0]
    hidden = run["hidden"].values
    assert len(first) == 23
    assert first.high[0] == pytest.approx((hidden[0] + hidden[2]) / 2)


def test_depths_are_the_states_of_layers(paid):
    hidden = paid.run["hidden"].values
    layers = np.stack([np.zeros_like(hidden), hidden], axis=1)
    run = paid.run.assign(layer_hidden=(("response", "layer", "feature"), layers))
    table = stats.by_layer(run)
    assert set(table["depth"]) == {1}, "where states don't differ there is nothing to say"
    found = stats.found(paid.run, flips=1)
    assert table["accuracy"].to_numpy() == pytest.approx(found["accuracy"].to_numpy())
    assert stats.by_layer(paid.run).empty
