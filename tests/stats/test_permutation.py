"""The sign-flip test is exact, and Holm keeps the family's level."""

from __future__ import annotations

import itertools
import re
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from lib import paths
from lib.planted.worlds import wins
from lib.stats.permutation import departures, flips, holm, sign_flip, sign_flips


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


# ---- What the test would find ----


def power_of(sizes, level, q) -> float:
    """Chance that the test finds the right side, by all sign patterns."""
    patterns = np.asarray(list(itertools.product((1, -1), repeat=len(sizes))))
    sums = patterns @ np.asarray(sizes)
    p = np.asarray([(np.abs(sums) >= abs(s)).mean() for s in sums])
    chance = q ** (patterns > 0).sum(axis=1) * (1 - q) ** (patterns < 0).sum(axis=1)
    return float(chance[(p < level) & (sums > 0)].sum())


@given(
    st.lists(st.integers(1, 5), min_size=4, max_size=10),
    st.sampled_from([0.05, 0.05 / 3]),
    st.integers(0, 20),
)
@settings(deadline=None, max_examples=60)
def test_what_would_be_found_has_power_in_all_patterns(sizes, level, ties):
    rows = sum(sizes) + ties
    (found,) = departures(flips(np.asarray([*sizes, 0])[:, None]), rows, level)
    q = 0.5 + found * rows / sum(sizes)
    if np.isnan(found):
        assert 2.0 ** (1 - len(sizes)) >= level
    else:
        assert power_of(sizes, level, q) == pytest.approx(0.8, abs=1e-5)


@pytest.mark.parametrize(
    ("n", "family"), [(6, 1), (12, 40), (35, 30), (100, 100), (1051, 1), (5000, 200_000)]
)
def test_what_would_be_found_of_single_rows_is_the_binomial_tests(n, family):
    level = 0.05 / family
    least = next(k for k in range(n // 2, n + 1) if 2 * stats.binom.sf(k - 1, n, 0.5) < level)
    (found,) = departures([((1, n),)], n, level)
    assert stats.binom.sf(least - 1, n, 0.5 + found) == pytest.approx(0.8, abs=1e-4)


def test_what_would_be_found_on_known_designs():
    """Refusal of 35 prompts in a family of 30, verbosity of 100 in one of 100."""
    assert departures([((1, 12),)], 12, 0.05 / 40)[0] == pytest.approx(
        0.8 ** (1 / 12) - 0.5, abs=1e-6
    )
    assert departures([((1, 35),)], 35, 0.05 / 30)[0] == pytest.approx(0.338, abs=0.001)
    assert departures([((1, 100),)], 100, 0.05 / 100)[0] == pytest.approx(0.213, abs=0.001)


def test_nothing_is_found_where_no_p_is_small_enough():
    tests = [((1, 5),), ((1, 3),), (), ((2, 1), (3, 1))]
    assert np.isnan(departures(tests, np.asarray([5, 2000, 10, 5]), 0.05)).all()
    assert np.isfinite(departures([((1, 6),)], 6, 0.05)).all()


def test_sizes_that_all_double_find_twice_as_much_of_the_same_rows():
    one, two = departures([((1, 30), (2, 9)), ((2, 30), (4, 9))], 100, 0.01)
    assert two == pytest.approx(2 * one)


def test_a_large_page_takes_seconds():
    """500 heads on 400 subsets, each with its own numbers of ties."""
    many = np.random.default_rng(0).integers(20, 101, (200_000, 1)).tolist()
    start = time.perf_counter()
    departures([((1, n),) for (n,) in many], 100, 0.05 / 200_000)
    assert time.perf_counter() - start < 30


def test_chance_needs_as_many_comparisons_as_methods_say():
    text = (paths.ROOT / "book" / "methods.md").read_text(encoding="utf-8")
    least = int(re.search(r"of fewer than ([\d,]+) independent", text)[1].replace(",", ""))
    found = departures([((1, n),) for n in range(1, least + 1)], np.arange(1, least + 1), 0.05)
    assert np.flatnonzero(found <= 0.05).tolist() == [least - 1]
