"""Heads of one concept agree more than heads of others, or the page doesn't say that they do."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats

from lib.analyses.labels import multitrait
from lib.analyses.labels.worlds import agreement_gaps
from lib.planted.worlds import from_gaps


def run_of(gaps, *, criterion, concepts=None, **given):
    gaps = np.asarray(gaps, float)
    given = {"name": "stimuli/planted", "subset": list(criterion)} | given
    return from_gaps(gaps, criterion=list(criterion), concepts=concepts or None, **given)


def within_binomial(found: int, worlds: int, most: float) -> bool:
    """METHODS §13: fails only when the 99% interval lies wholly above what is allowed."""
    return scipy_stats.binomtest(int(found), worlds).proportion_ci(0.99).low <= most


# Correlations of the nine tests x1…x9 of HolzingerSwineford1939 (visual, textual, speed), to
# three places, as printed in textbooks that use the set.
HOLZINGER = [
    [0.297, 0.441, 0.373, 0.293, 0.357, 0.067, 0.224, 0.390],
    [0.340, 0.153, 0.139, 0.193, -0.076, 0.092, 0.206],
    [0.159, 0.077, 0.198, 0.072, 0.186, 0.329],
    [0.733, 0.704, 0.174, 0.107, 0.208],
    [0.720, 0.102, 0.139, 0.227],
    [0.121, 0.150, 0.214],
    [0.487, 0.341],
    [0.449],
]


@pytest.mark.parametrize(
    ("first", "second", "ratio", "ratio2"),
    [(0, 1, 0.424, 0.384), (0, 2, 0.467, 0.387), (1, 2, 0.290, 0.280)],
)
def test_ratios_of_holzinger_and_swineford(first, second, ratio, ratio2):
    r = np.eye(9)
    r[np.triu_indices(9, 1)] = [value for row in HOLZINGER for value in row]
    r = np.maximum(r, r.T) + np.minimum(r, r.T) - np.eye(9)
    blocks = np.arange(9).reshape(3, 3)
    found = multitrait.htmt(r, blocks[first], blocks[second])
    assert found["htmt"] == pytest.approx(ratio, abs=0.001)
    assert found["htmt2"] == pytest.approx(ratio2, abs=0.001)


def test_pairs_of_one_source_are_left_out():
    # Heads a0 a1 | b0 b1 with sources x y x y.
    r = np.array(
        [[1, 0.64, 0.9, 0.3], [0.64, 1, -0.5, 0.9], [0.9, -0.5, 1, 0.25], [0.3, 0.9, 0.25, 1]]
    )
    found = multitrait.htmt(r, [0, 1], [2, 3], ["x", "y", "x", "y"])
    assert found["hetero"] == pytest.approx((0.3 + 0.5) / 2)
    assert found["htmt"] == pytest.approx(0.4 / (0.8 * 0.5))
    assert found["htmt2"] == pytest.approx(np.sqrt(0.15) / (0.8 * 0.5))


def test_correlations_are_of_uncentred_gaps():
    # (1, 2) and (2, 1): Σ = 4, norms √5: .8, though their centred correlation is −1.
    gaps = np.array([[1.0, 2], [2, 1]])
    assert multitrait.correlations(gaps.T @ gaps)[0, 1] == pytest.approx(0.8)


def agreement_run(gaps, names=("x-safety", "y-safety", "x-verbosity", "y-verbosity")):
    return run_of(gaps, criterion=["safety"] * len(gaps), heads=list(names))


def verdicts(draws, **options):
    worlds = agreement_gaps(np.random.default_rng(4), draws, **options)
    return [multitrait.mtmm(agreement_run(gaps), draws=200)["verdict"][0] for gaps in worlds]


def test_concepts_as_close_as_the_threshold_seldom_pass():
    found = verdicts(150, ratio=0.85, pairs=150)
    assert within_binomial(found.count("convergent and discriminant"), 150, 0.06)


def test_concepts_that_differ_pass():
    assert verdicts(20, ratio=0.3).count("convergent and discriminant") >= 18


def test_a_planted_ratio_is_recovered():
    (gaps,) = agreement_gaps(np.random.default_rng(0), 1, pairs=20_000, ratio=0.5)
    (row,) = multitrait.mtmm(agreement_run(gaps), draws=100).itertuples()
    assert row.htmt == pytest.approx(0.5, abs=0.03)
    assert row.convergent == pytest.approx(0.64, abs=0.02)
    assert row.htmt < row.htmt_high < row.htmt + 0.05


def test_a_concept_with_one_source_is_undefined_and_says_why():
    (gaps,) = agreement_gaps(np.random.default_rng(0), 1)
    run = agreement_run(gaps, ("x-safety", "y-safety", "x-verbosity", "x-old-verbosity"))
    (row,) = multitrait.mtmm(run, draws=50).itertuples()
    assert (row.verdict, row.note) == ("undefined", "verbosity: heads of one source only")
    assert np.isnan(row.htmt) and row.convergent > 0.5
    assert multitrait.mtmm(agreement_run(gaps[:, :1], ("x-safety",))).empty


def test_heads_of_one_concept_that_disagree_make_no_ratio():
    (gaps,) = agreement_gaps(np.random.default_rng(0), 1)
    gaps[:, 1] *= -1
    (row,) = multitrait.mtmm(agreement_run(gaps), draws=50).itertuples()
    assert row.verdict == "undefined" and "correlate" in row.note
    assert np.isnan(row.htmt) and np.isnan(row.htmt2)


def test_broken_and_tied_heads_are_left_out_of_the_agreement():
    (gaps,) = agreement_gaps(np.random.default_rng(0), 1)
    gaps = np.column_stack([gaps, np.full(len(gaps), np.nan), np.zeros(len(gaps))])
    names = ("x-safety", "y-safety", "x-verbosity", "y-verbosity", "z-safety", "z-verbosity")
    with_them = multitrait.mtmm(agreement_run(gaps, names), draws=50)
    without = multitrait.mtmm(agreement_run(gaps[:, :4]), draws=50)
    pd.testing.assert_frame_equal(with_them, without)
