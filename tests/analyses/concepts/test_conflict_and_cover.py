"""Doses, conflicts, coverage and divergence, on data whose answers are known."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats as reference
from sklearn.covariance import LedoitWolf

from lib.analyses.concepts import calibration, charts, coverage, dose, stats, words
from lib.analyses.concepts.conflict import label
from lib.analyses.concepts.divergence import threshold
from lib.analyses.concepts.worlds import concept_world
from lib.charts.rows import toned
from lib.planted.worlds import make_run

GAIN = np.linspace(0.5, 2.0, 48)


def normed(states: np.ndarray) -> np.ndarray:
    return states / np.sqrt((states**2).mean(axis=-1, keepdims=True))


@pytest.fixture(scope="module")
def world():
    """The paid world behind an RMSNorm with a gain."""
    made = concept_world("paid", seed=3)
    run = made.run.copy()
    run["hidden"].values[:] = normed(run["hidden"].values) * GAIN
    run["score"].values[:] = run["hidden"].values @ made.weight.T
    return run, made.weight


def test_a_dose_goes_through_the_norm(world):
    run, weight = world
    table = stats.dose(run, weight, GAIN, doses=(0.0, 1.0, 4.0))
    assert (table.loc[table["dose"] == 0, "change"] == 0).all()
    stream = run["hidden"].values.astype(float) / GAIN
    rows = np.flatnonzero(run["criterion"].values == "concept_0")
    high, low = stream[2 * rows], stream[2 * rows + 1]
    total, size = np.zeros((24, 8)), np.zeros(24)
    for fit, tried in dose.halves(24, dose.SPLITS, 0):
        moved = normed(low[tried] + 4 * (high - low)[fit].mean(axis=0)) - normed(low[tried])
        total[tried] += (moved * GAIN) @ weight.T
        size[tried] += 1
    expected = (total / size[:, None]).mean(axis=0) / run["score"].values.std(axis=0)
    own = table[(table["concept"] == "concept_0") & (table["dose"] == 4)]
    assert own["change"].to_numpy() == pytest.approx(expected, abs=1e-4)


def test_the_slope_is_that_of_a_small_dose(world):
    run, weight = world
    step = 1e-4
    small = stats.dose(run, weight, GAIN, doses=(0.0, step))
    small = small.loc[small["dose"] == step, "change"].to_numpy() / step
    found = stats.slopes(run, weight, GAIN)
    assert found["slope"].to_numpy() == pytest.approx(small, abs=2e-3)
    first = found.iloc[0]
    assert first["slope"] > 0 and first["monotone"] > 0.9


def test_a_norm_that_is_another_or_not_at_hand_gives_no_dose(world):
    run, weight = world
    for given, note in ((2 * GAIN, dose.NOT_RMS), (None, dose.NO_WEIGHTS)):
        table = stats.slopes(run, weight, given)
        assert table["note"].tolist() == [note] and stats.dose(run, weight, given).empty
    assert stats.slopes(run, None, GAIN)["note"].tolist() == [dose.NO_WEIGHTS]
    assert "nothing to draw" in charts.dose(stats.dose(run, weight, None)).alternative


def test_opposed_directions_are_in_conflict_and_orthogonal_ones_are_not():
    opposed = stats.conflict(concept_world("opposed", strength=2.5).run)
    first = opposed.iloc[0]
    assert (first["verdict"], first["label"]) == ("in conflict", "in conflict")
    assert first["high"] < 0 and first["cosine"] <= first["published"] < 0
    assert (opposed["verdict"].iloc[1:15] == "not shown").all()
    orthogonal = stats.conflict(concept_world("orthogonal", strength=2.5).run)
    assert (orthogonal["verdict"] == "not shown").all()


def test_whitening_is_by_the_covariance_of_the_other_criteria():
    run = concept_world("orthogonal", concepts=3, features=10).run
    table = stats.conflict(run)
    hidden, names = run["hidden"].values.astype(float), run["criterion"].values
    a, b, c = ((hidden[::2] - hidden[1::2])[names == f"concept_{k}"] for k in range(3))
    inverse = np.linalg.inv(LedoitWolf(assume_centered=True).fit(c - c.mean(0)).covariance_)
    x, y = a.mean(0), b.mean(0)
    expected = x @ inverse @ y / np.sqrt((x @ inverse @ x) * (y @ inverse @ y))
    found = table[(table["form"] == "whitened") & (table["other"] == "concept_1")].iloc[0]
    assert found["published"] == pytest.approx(expected)
    two = stats.conflict(concept_world("opposed", concepts=2, features=10).run)
    assert two["note"].iloc[1] == "no third criterion to take the covariance of"
    assert (two["verdict"] == "undefined").all()
    assert stats.conflict(concept_world("paid", concepts=1).run).empty


@pytest.mark.parametrize(
    ("cosine", "word"),
    [
        (0.6, "aligned"),
        (0.3, "aligned"),
        (0.19, "orthogonal"),
        (-0.19, "orthogonal"),
        (-0.25, "in conflict"),
        (-0.4, "in conflict"),
        (np.nan, ""),
    ],
)
def test_cosines_are_called_as_the_published_code_calls_them(cosine, word):
    assert label(cosine) == word


def test_the_published_index_is_what_its_formula_gives():
    # Two concepts of eight pairs; stretched to 0 … 1 the margins are 0, … and 1, ½, ….
    gaps = np.asarray([0.0] * 8 + [1.0, 0.5] + [0.0] * 6)
    score = np.zeros((32, 1))
    score[::2, 0] = gaps
    hidden = np.random.default_rng(0).standard_normal((32, 3))
    names = ["a"] * 8 + ["b"] * 8
    run = make_run(score, criterion=names, subset=names, hidden=hidden)
    table = coverage.coverage(run, stats.alignment(run, np.eye(3)[:1]))
    assert table["covered"].tolist() == [0.0, 1.0] and table["disparity"].tolist() == [1.0, 0.0]
    assert table["mean_covered"].tolist() == [0.0, 1.5 / 8]
    assert table["exposure"].iloc[1] == 0
    mean = (hidden[16::2] - hidden[17::2]).mean(axis=0)
    cosine = abs(mean[0]) / np.linalg.norm(mean)
    assert table["exposure_mean"].iloc[1] == pytest.approx(cosine * (1 - 1.5 / 8))


def test_with_all_pairs_the_index_is_small_and_with_two_it_is_luck():
    world = concept_world("random")
    table = coverage.coverage(world.run, stats.alignment(world.run, world.weight))
    assert table["disparity"].max() < 0.01
    assert table["few_high"].max() > coverage.HIGH


def test_a_distance_of_two_is_rare_in_one_dimension_only():
    table = stats.tail((1, 5, 20))
    assert table["flagged"].round(4).tolist() == [0.0455, 0.5494, 1.0]
    assert table["flagged"].iloc[2] > 0.9999
    assert table["needed"].iloc[0] == pytest.approx(reference.norm.ppf(0.975))
    assert reference.chi2.cdf(table["needed"] ** 2, [1, 5, 20]) == pytest.approx([0.95] * 3)


def test_the_calibrated_threshold_is_the_held_out_quantile():
    assert threshold(np.arange(1.0, 20.0)) == 19.0, "the 19th of 19"
    assert threshold(np.arange(1.0, 100.0)) == 95.0, "the 95th of 99"
    assert threshold(np.arange(1.0, 19.0)) == np.inf


def test_ordinary_states_are_flagged_as_published_and_not_when_calibrated():
    run = concept_world("random", features=60).run
    table = stats.calibrated(run).set_index("rule")
    assert table.loc["published", "flagged"] == 1.0
    assert table.loc["published threshold", "flagged"] > 0.95
    assert table.loc["calibrated", "low"] < 0.05 and table.loc["calibrated", "flagged"] < 0.15
    few = stats.calibrated(concept_world("random", prompts=8, concepts=1).run)
    assert "30 are needed" in few["note"].iloc[0]


def test_sentences_and_charts_survive_what_has_no_number():
    run = make_run(np.zeros((40, 2)), criterion=["a"] * 20)
    found, aligned = stats.found(run), stats.alignment(run, np.ones((2, 1)))
    conflict, slopes = stats.conflict(run), stats.slopes(run, np.ones((2, 1)), np.ones(1))
    told = words.takeaways(found, aligned, conflict, slopes)
    assert "No concept could be tried: the states do not differ" in told[0]
    assert "no family to correct" in words.family(found, aligned, conflict)[0]
    assert "No index" in words.covered(coverage.coverage(run, aligned))[0]
    assert "No threshold" in words.flagged(stats.tail(), stats.calibrated(run))[1]
    for chart in (charts.found(found), charts.alignment(aligned)):
        assert "the states do not differ" in chart.alternative
    assert "nothing to draw" in charts.depth(stats.by_layer(run)).alternative


def test_names_at_the_ends_of_lines_stand_apart():
    found = charts._apart(np.asarray([2.0, 0.0, 2.0]), 0.5)
    assert np.diff(np.sort(found)) == pytest.approx([1.75, 0.5])
    assert found[1] == 0.0 and found[[0, 2]].mean() == 2.0


def test_charts_name_every_concept_and_colour_what_is_claimed():
    world = concept_world("opposed", strength=2.5)
    hidden = world.run["hidden"].values
    layers = np.stack([hidden, hidden], axis=1)
    run = world.run.assign(layer_hidden=(("response", "layer", "feature"), layers))
    depth = charts.depth(stats.by_layer(run))
    conflict = charts.conflict(stats.conflict(run))
    assert all(f"concept_{k}" in depth.alternative for k in range(6))
    assert "concept_0 – concept_1" in conflict.alternative
    tones = pd.Series(toned(stats.conflict(run)["verdict"], charts.TONES))
    assert tones.value_counts().to_dict() == {"baseline": 28, "worse": 2}


def test_its_checks_say_what_they_should_on_few_worlds():
    rows = pd.DataFrame(calibration.checks(3, 0))
    ours = rows[rows["form"] == "corrected"]
    assert not (ours["verdict"] == "fails").any()
    assert (rows["form"] == "as published").sum() == 5
    assert not rows.duplicated(["claim", "world", "measure", "form"]).any()
