"""Probes are ordinary logistic regressions, and nothing of a held-out prompt reaches them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats as scipy_stats
from sklearn.linear_model import LogisticRegression

from lib.stats import probing


def orthogonal(generator, rows, columns):
    q = np.linalg.qr(generator.standard_normal((rows, columns)))[0]
    return q * np.sqrt(rows) * (1 + np.arange(columns))


@pytest.mark.parametrize("c", [1e-3, 0.1, 1.0])
def test_many_fits_at_once_are_scikit_learns(c):
    generator = np.random.default_rng(0)
    z = orthogonal(generator, 300, 5)
    labels = np.where(generator.random((300, 3)) < 0.5, -1.0, 1.0)
    labels[:, 0] = np.where(z[:, 0] + z[:, 1] + generator.standard_normal(300) > 0, 1.0, -1.0)
    found = probing.fit(z, labels, np.full(3, c))
    for column in range(3):
        model = LogisticRegression(C=c, fit_intercept=False, tol=1e-10, max_iter=5000)
        expected = model.fit(z, labels[:, column]).coef_[0]
        scale = np.sqrt((z**2).mean(axis=0))
        assert found[:, column] * scale == pytest.approx(expected * scale, abs=2e-3)


def test_folds_keep_prompts_together_outside_and_inside():
    generator = np.random.default_rng(1)
    group = np.repeat(np.arange(30), 4)
    folds = probing.prepare(generator.standard_normal((120, 6)), group)
    tested = np.concatenate([fold.outer.test_rows for fold in folds])
    assert sorted(tested) == list(range(120))
    for fold in folds:
        assert not set(group[fold.outer.fit_rows]) & set(group[fold.outer.test_rows])
        assert len(fold.inner) == probing.INNER
        for inner in fold.inner:
            assert not set(group[inner.fit_rows]) & set(group[inner.test_rows])
            used = np.concatenate([inner.fit_rows, inner.test_rows])
            assert sorted(used) == sorted(fold.outer.fit_rows)


def test_noise_on_duplicated_pairs_stays_at_one_half():
    # Splits that ignored the prompt would find .6 and more here.
    generator = np.random.default_rng(2)
    difference = np.repeat(generator.standard_normal((150, 60)), 4, axis=0)
    group = np.repeat(np.arange(150), 4)
    labels = np.repeat(np.where(generator.random((150, 30)) < 0.5, -1.0, 1.0), 4, axis=0)
    margins, _ = probing.cross_margins(probing.prepare(difference, group), labels)
    assert probing.right(margins, labels).mean() == pytest.approx(0.5, abs=0.025)


def test_held_out_rows_do_not_move_the_projection():
    generator = np.random.default_rng(3)
    difference = generator.standard_normal((40, 5))
    length = generator.standard_normal(40)
    fit_rows, test_rows = np.arange(30), np.arange(30, 40)
    before = probing.split(difference, length, fit_rows, test_rows, 5)
    difference[30:] *= 1000
    after = probing.split(difference, length, fit_rows, test_rows, 5)
    assert np.array_equal(before.z_fit, after.z_fit)


def test_columns_are_orthogonal_whether_wide_or_tall():
    generator = np.random.default_rng(4)
    for rows, features in ((40, 10), (12, 30)):
        x = generator.standard_normal((rows + 5, features))
        z = probing.split(x, None, np.arange(rows), np.arange(rows, rows + 5), 200).z_fit
        gram = z.T @ z
        assert z.shape[1] == min(rows, features)
        assert gram - np.diag(np.diag(gram)) == pytest.approx(np.zeros(gram.shape), abs=1e-8)


def test_what_length_explains_is_taken_out():
    length = np.asarray([1.0, -2.0, 3.0, 1.0])
    values = np.column_stack([2 * length, np.asarray([1.0, 1.0, 0.0, 1.0])])
    # slope through the origin: 30/15 = 2, and (1 − 2 + 0 + 1)/15 = 0
    assert probing.slopes(values, length) == pytest.approx([2.0, 0.0])
    assert probing.slopes(values, np.zeros(4)) == pytest.approx([0.0, 0.0])


def test_a_feature_that_never_differs_says_nothing():
    difference = np.zeros((20, 3))
    difference[:, 0] = np.where(np.arange(20) % 2, 1.0, 2.0)
    margins, _ = probing.cross_margins(probing.prepare(difference, np.arange(20)), np.ones((20, 1)))
    assert (margins > 0).all()
    nothing = probing.prepare(np.zeros((20, 3)), np.arange(20))
    assert (probing.cross_margins(nothing, np.ones((20, 1)))[0] == 0).all()


def test_what_would_be_found_is_found_at_that_rate():
    """Accuracies drawn around ½ + mde beat 20 flipped ones at level .05 in about .8 of draws."""
    generator = np.random.default_rng(0)
    flipped = generator.normal(0.5, 0.03, (4000, 20))
    mde = probing.detectable(np.asarray(0.03 * np.sqrt(1 + 1 / 20)), 20, 0.05, 0.8)
    found = generator.normal(0.5 + mde, 0.03, 4000)
    p = [probing.beyond(one, many) for one, many in zip(found, flipped, strict=True)]
    assert np.mean(np.asarray(p) < 0.05) == pytest.approx(0.8, abs=0.03)
    assert np.isnan(probing.detectable(np.ones(2), 1, 0.05, 0.8)).all(), "no control, no test"


def test_an_accuracy_among_its_controls_is_a_t_test():
    # mean .5, sd .1, three draws: t = .3/(.1·√(4/3)) on 2 df
    expected = scipy_stats.t.sf(0.3 / (0.1 * np.sqrt(4 / 3)), 2)
    assert probing.beyond(0.8, np.asarray([0.4, 0.5, 0.6])) == pytest.approx(expected)
    assert np.isnan(probing.beyond(0.8, np.asarray([0.5]))), "no control, no test"
