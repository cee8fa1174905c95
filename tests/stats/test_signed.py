"""Means of signed values: the exact test against enumeration, intervals against scipy."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats

from lib.stats import permutation
from lib.stats.signed import STEPS, flipped, per_prompt, signed


def enumerated(column: np.ndarray) -> float:
    whole = np.rint(column / np.abs(column).max() * STEPS)
    sums = [abs((np.asarray(signs) * whole).sum()) for signs in product([-1, 1], repeat=len(whole))]
    return float(np.mean(np.asarray(sums) >= abs(whole.sum())))


def test_p_is_the_share_of_all_patterns_of_signs():
    values = np.random.default_rng(0).standard_normal((9, 6)) + np.linspace(0, 1.5, 6)
    assert flipped(values) == pytest.approx([enumerated(column) for column in values.T])


def test_by_hand():
    # 3, 2, 1: of eight patterns only + + + and − − − reach 6.
    assert flipped(np.asarray([[3.0], [2.0], [1.0]])) == pytest.approx([2 / 8])
    # 3, 2, −1: |S| ≥ 4 for six of eight: ±6 (2), ±4 (2), and not ±2, 0, 0.
    assert flipped(np.asarray([[3.0], [2.0], [-1.0]])) == pytest.approx([4 / 8])


def test_whole_numbers_give_what_the_test_of_wins_gives():
    net = np.random.default_rng(1).integers(-4, 6, (40, 5))
    net[0] = 4  # a largest that divides the steps, so that nothing is rounded
    net[1] = -4
    net = np.clip(net, -4, 4)
    assert flipped(net) == pytest.approx(permutation.sign_flip(net), abs=1e-12)


def test_a_sum_of_zero_and_a_column_of_zeros_are_no_evidence():
    assert flipped(np.asarray([[1.0, 0.0], [-1.0, 0.0]])).tolist() == [1.0, 1.0]
    assert np.isnan(flipped(np.asarray([[1.0], [np.nan]]))).all()


def test_the_trailing_shape_is_kept():
    values = np.random.default_rng(2).standard_normal((12, 2, 3))
    assert flipped(values).shape == (2, 3)
    assert flipped(values)[1, 2] == pytest.approx(flipped(values[:, 1, 2:])[0])


def test_means_and_intervals_are_those_of_a_t_test():
    values = np.random.default_rng(3).standard_normal((15, 4)) + 0.3
    found = signed(values)
    right = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert found.low == pytest.approx(right.low) and found.high == pytest.approx(right.high)


def test_the_share_of_prompts_with_the_means_sign_counts_zeros_half():
    assert signed(np.asarray([[3.0], [1.0], [0.0], [-1.0]])).same == pytest.approx([2.5 / 4])
    assert signed(np.asarray([[-3.0], [1.0]])).same == pytest.approx([0.5])


def test_each_prompt_counts_once():
    values = np.asarray([[1.0], [3.0], [10.0]])
    assert per_prompt(values, np.asarray([7, 7, 2])).ravel().tolist() == [10.0, 2.0]


def test_one_prompt_has_no_interval():
    found = signed(np.asarray([[2.0]]))
    assert found.low == -np.inf and found.high == np.inf and found.p == 1.0
