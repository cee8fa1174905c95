"""Means over prompts: tests by flipping signs, what a prompt counts, and intervals of a mean and of a ratio."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from lib.stats import means


def test_each_prompt_counts_once_however_many_rows_it_has():
    values = np.asarray([[1.0, 2.0], [3.0, 2.0], [10.0, 0.0]])
    found = means.by_prompt(values, np.asarray([7, 7, 3]))
    assert found.tolist() == [[10, 0], [2, 2]]


def test_an_interval_of_a_mean_is_that_of_the_t_test():
    values = np.random.default_rng(0).exponential(size=(9, 2))
    found = means.interval(values, 0.9)
    for column in range(2):
        right = stats.ttest_1samp(values[:, column], 0).confidence_interval(0.9)
        assert (found.low[column], found.high[column]) == pytest.approx(right)
    one = means.interval(values[:1])
    assert one.estimate.tolist() == values[0].tolist() and np.isnan(one.low).all()
    assert np.isnan(means.interval(values[:0]).estimate).all()


def test_at_the_ends_of_a_share_the_t_test_is_at_its_level():
    generator = np.random.default_rng(1)
    of = generator.normal(1, 1, 20)
    values = 0.4 * of + generator.normal(0, 0.5, 20)
    found = means.share(values, of)
    assert found.estimate == pytest.approx(values.mean() / of.mean())
    for end in (found.low, found.high):
        assert stats.ttest_1samp(values - end * of, 0).pvalue == pytest.approx(0.05)
    assert found.low < found.estimate < found.high


def test_a_share_of_what_may_be_nothing_has_no_number():
    of = np.asarray([-1.0, 1.0, 0.2])
    assert np.isnan(means.share(np.ones((3, 2)), of[:, None])).all()
    assert np.isnan(means.share(np.ones((1, 2)), np.ones((1, 1)))).all()


def test_a_share_that_never_varies_is_itself():
    of = np.asarray([1.0, 2.0, 1.5])[:, None]
    found = means.share(0.25 * of, of)
    assert [float(each[0]) for each in found] == pytest.approx([0.25] * 3)


def enumerated(values) -> float:
    """The definition: the share of all sign patterns whose sum is at least as far from 0."""
    sums = [
        abs(sum(s * d for s, d in zip(signs, values, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(values))
    ]
    return sum(s >= abs(sum(values)) for s in sums) / len(sums)


@given(st.lists(st.integers(-6, 6), min_size=1, max_size=10))
@settings(deadline=None, max_examples=40)
def test_flips_are_exact_for_few_rows(net):
    assert means.flips(np.asarray(net)[:, None] / 3)[0] == pytest.approx(enumerated(net))


def test_flips_are_drawn_beyond_and_say_no_less_than_one_in_the_draws():
    generator = np.random.default_rng(0)
    values = generator.normal([0, 0.5, 9], size=(14, 3))
    right = [
        stats.permutation_test(
            (column,), np.mean, permutation_type="samples", n_resamples=np.inf
        ).pvalue
        for column in values.T
    ]
    assert means.flips(values, draws=2**13) == pytest.approx(right, abs=1e-12)
    drawn = means.flips(values, draws=5_000, seed=1)
    assert drawn == pytest.approx(right, abs=0.024)  # 3.4 standard errors at one half
    assert 1 / 5_001 <= drawn[2] <= 3 / 5_001
    assert (means.flips(values, draws=5_000, seed=1) == drawn).all()


def test_flips_of_nothing_and_of_what_is_no_number():
    values = np.asarray([[0.0, 1.0, np.nan], [0.0, -1.0, 1.0]])
    assert means.flips(values)[:2].tolist() == [1, 1] and np.isnan(means.flips(values)[2])
    assert np.isnan(means.flips(np.empty((0, 2)))).all()
    assert means.flips(np.ones((3, 2, 2))).tolist() == [[0.25] * 2] * 2
