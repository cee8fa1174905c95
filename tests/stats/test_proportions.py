"""Clustered win rates: the score interval where rows are independent, coverage where not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from statsmodels.regression.linear_model import OLS
from statsmodels.stats.proportion import proportion_confint

from lib.planted.worlds import wins
from lib.stats.proportions import bootstrap, by_cluster, clustered, wilson

WORLDS = 2000


def test_by_cluster_sums_rows_and_counts_them():
    values = np.asarray([[1.0, 0.5], [0.0, 0.5], [1.0, 1.0]])
    totals, sizes = by_cluster(values, np.asarray([1, 0, 1]))
    assert totals.tolist() == [[0.0, 0.5], [2.0, 1.5]]
    assert sizes.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(("won", "n"), [(13, 30), (30, 60), (399, 400), (2, 12), (700, 1051)])
@pytest.mark.parametrize("level", [0.95, 0.99])
def test_with_one_row_a_prompt_it_is_wilsons_at_n_minus_one(won, n, level):
    totals = np.repeat([1.0, 0.0], [won, n - won])
    found = wilson(totals, np.ones(n), level)
    # statsmodels takes a normal quantile: give it the alpha at which that is the t quantile.
    t = stats.t.ppf((1 + level) / 2, n - 1)
    rate = won / n
    low, high = proportion_confint(
        rate * (n - 1), n - 1, alpha=2 * stats.norm.sf(t), method="wilson"
    )
    assert found.estimate == pytest.approx(rate)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-12)


def test_with_many_rows_it_meets_the_usual_wilson_interval():
    totals = np.repeat([1.0, 0.0], [6200, 3800])
    found = wilson(totals, np.ones(10_000))
    low, high = proportion_confint(6200, 10_000, method="wilson")
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-5)


def test_rows_that_agree_within_a_prompt_count_as_one():
    # 40 prompts of 6 rows, each won or lost as a whole: no more is known than from 40 rows.
    whole = np.repeat([6.0, 0.0], [26, 14])
    clustered = wilson(whole, np.full(40, 6.0))
    single = wilson(whole / 6, np.ones(40))
    assert clustered.low == pytest.approx(single.low)
    assert clustered.high == pytest.approx(single.high)
    rows = wilson(np.repeat([1.0, 0.0], [156, 84]), np.ones(240))
    assert clustered.high - clustered.low > 2 * (rows.high - rows.low)


def test_the_standard_error_is_the_cluster_robust_one():
    # t = 2, 1, 3 of 3: p = 2/3, squares 0, 1, 1; two eighths of a cluster of size 3, one won
    # and one lost, add ⅛·9·(p² + q²) at its own p = (6 + .375)/(9 + .75).
    p = 6.375 / 9.75
    squares = sum((t - 3 * p) ** 2 for t in (2, 1, 3)) + 9 / 8 * (p**2 + (1 - p) ** 2)
    variance = 3.25 / 2.25 * squares / 9.75**2
    found = wilson(np.asarray([2.0, 1.0, 3.0]), np.full(3, 3.0))
    assert found.se == pytest.approx(np.sqrt(variance))


@pytest.mark.parametrize(
    ("totals", "sizes", "effective"),
    [
        ((3, 2.5, 0, 1, 2), (3, 3, 1, 2, 2), None),
        ((4, 4, 4, 4), (4, 4, 4, 4), 3),  # all won: G − 1
        ((4, 0, 4, 4, 0), (4, 4, 4, 4, 4), 4),  # all unanimous
        ((1, 1, 1, 1), (2, 2, 2, 2), 8),  # more alike than chance: no more than n
        ((0, 0), (1, 100), 1),  # one prompt is nearly all: no less than 1
    ],
)
def test_the_interval_is_the_formula_on_the_methods_page(totals, sizes, effective):
    n, clusters = sum(sizes), len(sizes)
    mean = n / clusters
    whole = n + mean / 4
    p = (sum(totals) + mean / 8) / whole
    squares = sum((t - size * p) ** 2 for t, size in zip(totals, sizes, strict=True))
    squares += mean**2 / 8 * (p**2 + (1 - p) ** 2)
    variance = (clusters + 1 / 4) / (clusters + 1 / 4 - 1) * squares / whole**2
    found_effective = min(max(p * (1 - p) / variance - 1 / 4, 1), n)
    if effective is not None:
        assert found_effective == pytest.approx(effective)
    t, rate = stats.t.ppf(0.975, clusters - 1), sum(totals) / n
    low, high = proportion_confint(
        rate * found_effective, found_effective, alpha=2 * stats.norm.sf(t), method="wilson"
    )
    found = wilson(np.asarray(totals, float), np.asarray(sizes, float))
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-12)
    assert found.se == pytest.approx(np.sqrt(variance))


def test_columns_are_computed_apart():
    generator = np.random.default_rng(0)
    totals = generator.integers(0, 7, (30, 3)).astype(float)
    together = wilson(totals, np.full(30, 6.0))
    for k in range(3):
        alone = wilson(totals[:, k], np.full(30, 6.0))
        assert (together.low[k], together.high[k]) == pytest.approx((alone.low, alone.high))


def test_the_interval_mirrors_when_wins_and_losses_trade_places():
    totals = np.asarray([0.0, 1.0, 2.5, 3.0, 1.5, 0.0])
    there, back = wilson(totals, np.full(6, 3.0)), wilson(3 - totals, np.full(6, 3.0))
    assert (back.low, back.high) == pytest.approx((1 - there.high, 1 - there.low))


def test_a_tie_is_half_a_win():
    ties = wilson(np.full(20, 0.5), np.ones(20))
    assert ties.estimate == 0.5
    assert ties.low == pytest.approx(1 - ties.high)
    assert 0 < ties.low < 0.5


@pytest.mark.parametrize("clusters", [2, 5, 50])
@pytest.mark.parametrize("size", [1.0, 6.0])
def test_all_wins_leave_room_below_and_none_above(clusters, size):
    found = wilson(np.full(clusters, size), np.full(clusters, size))
    assert found.estimate == 1
    assert found.high == pytest.approx(1, abs=1e-12)
    assert 0 < found.low < 1
    # No surer than prompts that were each asked once would make us.
    one_each = wilson(np.ones(clusters), np.ones(clusters))
    assert found.low >= one_each.low - 1e-12


def test_a_single_prompt_tells_nothing():
    found = wilson(np.asarray([5.0]), np.asarray([6.0]))
    assert (found.estimate, found.low, found.high) == (5 / 6, 0, 1)
    assert np.isinf(found.se)


def test_the_planted_outcomes_have_the_rate_and_correlation_they_state():
    drawn = wins(np.random.default_rng(0), (200_000,), 6, 0.3, icc=0.5)
    # Beta(.3, .7): mean .3 and intra-class correlation 1/(.3 + .7 + 1) = .5.
    expected = stats.betabinom.pmf(np.arange(7), 6, 0.3, 0.7)
    assert np.bincount(drawn, minlength=7) / len(drawn) == pytest.approx(expected, abs=0.005)
    independent = wins(np.random.default_rng(0), (200_000,), 6, 0.3)
    expected = stats.binom.pmf(np.arange(7), 6, 0.3)
    assert np.bincount(independent) / len(drawn) == pytest.approx(expected, abs=0.005)


def coverage(prompts: int, per_prompt: int, rate: float, icc: float, seed: int = 0):
    """The 99% interval of the share of planted worlds whose interval holds the truth."""
    generator = np.random.default_rng(seed)
    totals = wins(generator, (prompts, WORLDS), per_prompt, rate, icc)
    found = wilson(totals, np.full(prompts, per_prompt))
    held = int(((found.low <= rate) & (rate <= found.high)).sum())
    return stats.binomtest(held, WORLDS).proportion_ci(0.99)


@pytest.mark.parametrize("prompts", [30, 50, 200])
@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.65, 0.9])
@pytest.mark.parametrize(("per_prompt", "icc"), [(6, 0.1), (6, 0.25), (6, 0.5), (4, 0.5)])
def test_coverage_is_nominal_for_thirty_prompts_that_share_something(
    prompts, rate, per_prompt, icc
):
    found = coverage(prompts, per_prompt, rate, icc)
    assert found.high >= 0.93
    assert found.low <= 0.97


# Independent rows lie on a coarse lattice (30 rows at a rate of .1 win 0, 1, 2, … times), so
# no interval covers all rates alike: here it errs to the safe side, by a point at most.
@pytest.mark.parametrize("prompts", [30, 50, 200])
@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.65, 0.9])
@pytest.mark.parametrize("per_prompt", [1, 6])
def test_coverage_is_nominal_for_independent_rows_within_a_point(prompts, rate, per_prompt):
    found = coverage(prompts, per_prompt, rate, icc=0)
    assert found.high >= 0.93
    assert found.low <= 0.98


@pytest.mark.parametrize("prompts", [5, 10, 20, 50])
@pytest.mark.parametrize("rate", [0.02, 0.05, 0.5, 0.98])
@pytest.mark.parametrize(("per_prompt", "icc"), [(1, 0), (6, 0), (6, 0.5)])
def test_coverage_never_falls_short_elsewhere(prompts, rate, per_prompt, icc):
    assert coverage(prompts, per_prompt, rate, icc).high >= 0.93


def test_rows_taken_as_independent_would_cover_far_too_little():
    # The plain interval that this one replaces: about .70 with 6 rows a prompt, ICC .5.
    totals = wins(np.random.default_rng(0), (50, WORLDS), 6, 0.5, 0.5).sum(axis=0)
    low, high = proportion_confint(totals, 300, method="wilson")
    assert 0.6 < ((low <= 0.5) & (high >= 0.5)).mean() < 0.8


def test_prompts_of_unequal_size_with_ties_are_covered():
    generator = np.random.default_rng(3)
    sizes = generator.integers(1, 7, 60)
    rate = generator.beta(1.2, 0.8, (60, WORLDS))  # mean .6, ICC 1/3
    won, tied = (generator.binomial(sizes[:, None], share * rate) for share in (0.8, 0.2))
    truth = 0.8 * 0.6 + 0.2 * 0.6 / 2
    found = wilson(np.minimum(won + tied / 2, sizes[:, None]), sizes)
    held = int(((found.low <= truth) & (truth <= found.high)).sum())
    assert stats.binomtest(held, WORLDS).proportion_ci(0.99).high >= 0.93


def test_the_bootstrap_resamples_prompts():
    # Prompts won or lost as a whole: the win rate of a resample is binomial over prompts.
    totals = np.repeat([[6.0], [0.0]], [30, 20], axis=0)
    low, high = bootstrap(totals, np.full(50, 6.0), draws=20_000)
    expected = stats.binom.ppf([0.025, 0.975], 50, 0.6) / 50
    assert [low[0], high[0]] == pytest.approx(expected, abs=0.021)


def test_the_bootstrap_is_seeded():
    totals = np.arange(20.0).reshape(20, 1) % 7
    draws = [bootstrap(totals, np.full(20, 6.0), 200, seed) for seed in (0, 0, 1)]
    assert draws[0] == draws[1] != draws[2]


def test_clustered_mean_agrees_with_statsmodels():
    generator = np.random.default_rng(6)
    cluster = np.repeat(np.arange(40), 3)
    values = generator.standard_normal(120) + np.repeat(generator.standard_normal(40), 3)
    found = clustered(values, cluster)
    model = OLS(values, np.ones(120)).fit(
        cov_type="cluster", cov_kwds={"groups": cluster, "use_correction": False}
    )
    assert found.estimate == pytest.approx(model.params[0])
    assert found.se == pytest.approx(model.bse[0] * np.sqrt(40 / 39))
    assert clustered(np.zeros(6), np.arange(6)).p == 1.0
    assert np.isnan(clustered(np.ones(4), np.zeros(4, int)).p), "one prompt tells nothing"
