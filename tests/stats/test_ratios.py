"""A share of a mean: its interval is where the t test stands at its level."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from lib.stats.ratios import mean, share, slope


def test_at_the_ends_of_a_share_the_t_test_is_at_its_level():
    generator = np.random.default_rng(1)
    of = generator.normal(1, 1, 20)
    values = 0.4 * of + generator.normal(0, 0.5, 20)
    found = share(values, of)
    assert found.estimate == pytest.approx(values.mean() / of.mean())
    for end in (found.low, found.high):
        assert stats.ttest_1samp(values - end * of, 0).pvalue == pytest.approx(0.05)
    assert found.low < found.estimate < found.high


def test_a_share_of_what_may_be_nothing_has_no_number():
    of = np.asarray([-1.0, 1.0, 0.2])
    assert np.isnan(share(np.ones((3, 2)), of[:, None])).all()
    assert np.isnan(share(np.ones((1, 2)), np.ones((1, 1)))).all()


def test_a_share_that_never_varies_is_itself():
    of = np.asarray([1.0, 2.0, 1.5])[:, None]
    found = share(0.25 * of, of)
    assert [float(each[0]) for each in found] == pytest.approx([0.25] * 3)


def test_a_share_of_one_is_the_mean_with_the_interval_of_the_t_test():
    values = np.random.default_rng(0).exponential(size=(9, 2))
    found = mean(values, 0.9)
    for column in range(2):
        right = stats.ttest_1samp(values[:, column], 0).confidence_interval(0.9)
        assert (found.low[column], found.high[column]) == pytest.approx(right)
    one = mean(values[:1])
    assert one.estimate.tolist() == values[0].tolist() and np.isnan(one.low).all()


def test_a_slope_through_zero_is_that_of_least_squares():
    generator = np.random.default_rng(0)
    of, noise = generator.standard_normal((2, 50))
    values = np.column_stack([0.3 * of + noise, of, 0 * of])
    found = slope(values, of[:, None], np.arange(50))
    right = np.linalg.lstsq(of[:, None], values, rcond=None)[0][0]
    assert found.estimate == pytest.approx(right) and found.estimate[1] == pytest.approx(1)
    assert found.low[0] < right[0] < found.high[0]
    assert np.isnan(slope(values, np.zeros((50, 1)), np.arange(50)).estimate).all()
