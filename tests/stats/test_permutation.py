"""The sign-flip test is exact, and Holm keeps the family's level."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from lib.planted import wins
from lib.stats.permutation import holm, sign_flip, sign_flips


def enumerated(net) -> float:
    """The definition: the share of all sign patterns whose sum is at least as far from 0."""
    sums = [
        abs(sum(s * d for s, d in zip(signs, net, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(net))
    ]
    return sum(s >= abs(sum(net)) for s in sums) / len(sums)


@given(st.lists(st.integers(-6, 6), min_size=1, max_size=10))
@settings(deadline=None, max_examples=60)
def test_it_equals_the_enumeration_of_all_signs(net):
    assert sign_flip(np.asarray(net)[:, None])[0] == pytest.approx(enumerated(net), abs=1e-12)


def test_a_case_worked_by_hand():
    # ±3 ±1: sums 4, 2, −2, −4. Observed 4: 2 of 4 patterns. Observed 2: all four.
    assert sign_flip(np.asarray([[3, 3], [1, -1]])).tolist() == [0.5, 1.0]


@pytest.mark.parametrize(("won", "n"), [(7, 10), (5, 10), (300, 500), (0, 40), (1200, 2303)])
def test_with_one_comparison_a_prompt_it_is_the_sign_test(won, n):
    net = np.repeat([1, -1], [won, n - won])[:, None]
    expected = stats.binomtest(won, n).pvalue
    assert sign_flip(net)[0] == pytest.approx(expected, rel=1e-9)


def test_ties_add_nothing():
    net = np.repeat([1, -1, 0], [9, 2, 30])[:, None]
    assert sign_flip(net)[0] == pytest.approx(stats.binomtest(9, 11).pvalue)


@pytest.mark.parametrize(("prompts", "most"), [(1, 3), (7, 4), (60, 6), (400, 1)])
def test_many_columns_at_once_get_the_p_that_each_gets_alone(prompts, most):
    net = np.random.default_rng(2).integers(-most, most + 1, (prompts, 4, 30))
    found = sign_flips(net)
    assert found.shape == (4, 30)
    expected = sign_flip(net.reshape(prompts, -1))
    assert found.ravel() == pytest.approx(expected, abs=1e-12)


def test_steps_of_two_and_columns_of_zeros_are_tested_at_once_too():
    net = 2 * np.asarray([[3, 0, 3], [1, 0, -1]])
    assert sign_flips(net) == pytest.approx([0.5, 1.0, 1.0])
    assert sign_flips(np.zeros((5, 2, 3))).tolist() == [[1.0] * 3] * 2


def test_zeros_alone_give_one():
    assert sign_flip(np.zeros((5, 2))).tolist() == [1.0, 1.0]


def test_direction_and_order_don_t_matter():
    net = np.random.default_rng(0).integers(-3, 4, (40, 1))
    assert sign_flip(net) == sign_flip(-net) == sign_flip(net[::-1])


def test_columns_are_tested_apart():
    net = np.random.default_rng(1).integers(-3, 4, (25, 4))
    alone = [sign_flip(net[:, [k]])[0] for k in range(4)]
    assert sign_flip(net).tolist() == alone


def test_a_tiny_p_is_not_rounded_to_zero():
    assert sign_flip(np.ones((60, 1)))[0] == pytest.approx(2.0**-59, rel=1e-6)


@pytest.mark.parametrize("p", [[0.01, 0.04, 0.03, 0.005], [0.5], [0.2, 0.2, 1, 0, 0.04]])
def test_holm_agrees_with_statsmodels(p):
    expected = multipletests(p, method="holm")[1]
    assert holm(np.asarray(p)) == pytest.approx(expected, abs=1e-12)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
@settings(deadline=None, max_examples=40)
def test_holm_is_the_closure_of_bonferroni(p):
    # A hypothesis falls when every intersection that holds it does, each by Bonferroni.
    everyone = range(len(p))
    families = [s for k in everyone for s in itertools.combinations(everyone, k + 1)]
    expected = [
        min(1, max(len(s) * min(p[j] for j in s) for s in families if i in s)) for i in everyone
    ]
    assert holm(np.asarray(p)) == pytest.approx(expected, abs=1e-12)


def test_holm_by_hand():
    # Sorted .01·3 = .03, .02·2 = .04, .04·1 = .04: non-decreasing; 1 is the ceiling.
    assert holm(np.asarray([0.04, 0.01, 0.02])) == pytest.approx([0.04, 0.03, 0.04])
    assert holm(np.asarray([0.6, 0.7])).tolist() == [1.0, 1.0]


def test_what_has_no_p_is_not_part_of_the_family():
    found = holm(np.asarray([np.nan, 0.01, np.nan, 0.03]))
    assert np.isnan(found[[0, 2]]).all()
    assert found[[1, 3]] == pytest.approx([0.02, 0.03])
    assert np.isnan(holm(np.full(3, np.nan))).all()


def test_holm_works_along_the_last_axis():
    p = np.random.default_rng(0).random((5, 4)) ** 3
    assert holm(p) == pytest.approx(np.stack([holm(row) for row in p]))


def test_a_family_of_clustered_heads_keeps_its_level():
    # 4,000 worlds of four heads that know nothing, 6 comparisons a prompt, ICC .5.
    won = wins(np.random.default_rng(0), (40, 16_000), 6, 0.5, 0.5)
    p = sign_flip(2 * won - 6).reshape(4000, 4)
    false = int((holm(p) < 0.05).any(axis=1).sum())
    assert stats.binomtest(false, 4000).proportion_ci(0.99).low <= 0.05
    assert false > 4000 * 0.02  # and it isn't idle
