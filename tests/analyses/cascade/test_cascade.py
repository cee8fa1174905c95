"""Cascade: failures that share a factor go together, and two scenarios can't tell."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats as scipy_stats

from lib.analyses.cascade import stats
from lib.analyses.cascade.worlds import DIMENSIONS, factor_world
from lib.planted.worlds import from_gaps, make_run


def crossed(margin: np.ndarray, **given):
    """A run of one head with these margins, shape (scenarios, dimensions)."""
    scenarios, many = margin.shape
    subset = np.tile(DIMENSIONS[:many], scenarios).tolist()
    prompt = np.repeat(np.arange(scenarios), many)
    return from_gaps(margin.reshape(-1, 1), prompt=prompt, subset=subset, **given)


def test_margins_are_put_by_scenario_and_dimension_in_the_runs_order():
    margin = np.arange(10.0).reshape(5, 2)
    run = crossed(margin)
    found = stats.matched(run)
    assert found.dimensions == ["a", "b"] and found.rules == ["head_0"]
    assert found.margin[..., 0].tolist() == margin.tolist()
    # a scenario without one of the dimensions is left out, and several comparisons are averaged
    some = run.isel(comparison=np.arange(9))
    assert stats.matched(some).margin[..., 0].tolist() == margin[:4].tolist()
    twice = from_gaps(
        np.arange(12.0)[:, None],
        prompt=np.repeat(np.arange(4), 3),
        subset=["a", "a", "b"] * 4,
    )
    assert stats.matched(twice).margin[0, :, 0].tolist() == [0.5, 2.0]


def test_correlations_are_spearmans_and_their_mean():
    run = factor_world(0.3, heads=1, seed=3)
    found = stats.correlations(run, draws=999)
    margin = stats.matched(run).margin[..., 0]
    expected = scipy_stats.spearmanr(margin).statistic[np.triu_indices(6, 1)]
    assert found.pairs["r"].to_numpy() == pytest.approx(expected, abs=1e-12)
    assert found.together["r"].item() == pytest.approx(expected.mean(), abs=1e-12)
    one = found.pairs.iloc[0]
    p = scipy_stats.permutation_test(
        (margin[:, 0],),
        lambda x: scipy_stats.spearmanr(x, margin[:, 1]).statistic,
        permutation_type="pairings",
        n_resamples=999,
        rng=0,
    ).pvalue
    assert one["p"] == pytest.approx(p, abs=0.06)
    half = scipy_stats.norm.ppf(0.975) * np.sqrt((1 + one["r"] ** 2 / 2) / 13)
    assert np.arctanh([one["low"], one["high"]]) == pytest.approx(
        np.arctanh(one["r"]) + np.asarray([-half, half])
    )


def test_failures_with_a_common_cause_go_together_and_independent_ones_do_not():
    together = stats.correlations(factor_world(0.9, seed=1), draws=1999)
    assert set(together.together["verdict"]) == {"together"}
    assert (together.pairs["verdict"] == "together").mean() > 0.5
    apart = stats.correlations(factor_world(0, seed=1), draws=1999)
    assert set(apart.together["verdict"]) | set(apart.pairs["verdict"]) == {"not shown"}
    assert (apart.together["mde"] < apart.pairs["mde"].min()).all()


def test_a_dimension_that_runs_against_the_others_is_opposed():
    base = np.arange(12.0)
    found = stats.correlations(crossed(np.column_stack([base, -base])), draws=1999)
    assert found.pairs["r"].item() == -1 and found.pairs["verdict"].item() == "opposed"
    assert found.pairs[["low", "high"]].isna().all(axis=None)


@pytest.mark.parametrize("seed", range(4))
def test_two_scenarios_always_correlate_perfectly_and_the_published_risk_is_high(seed):
    run = factor_world(0, seed=seed)
    published = stats.correlations(run, draws=9).pairs["published"].abs()
    assert published.to_numpy() == pytest.approx(1)
    two, whole = (rows for _, rows in stats.as_published(run).groupby("scenarios"))
    assert two["r"].to_numpy() == pytest.approx(1) and (two["over"] == 1).all()
    assert (two["risk"] >= 0.6 - 1e-12).all()
    assert (whole["r"] < 0.5).all()


def test_the_published_risk_is_its_formula():
    # δ of a: .3 and of b: −.1, so their mean failure is .15; the two correlate by −1
    margin = np.asarray([[-0.2, 0.2], [-0.4, 0.3], [-0.3, -0.1], [-0.3, 0.0]])
    found = stats.as_published(crossed(margin)).set_index("scenarios")
    assert found.loc[2, "risk"] == pytest.approx(0.4 * 0.75 + 0.3 + 0.3)
    r = abs(np.corrcoef(margin.T)[0, 1])
    assert found.loc[4, "r"] == pytest.approx(r)
    assert found.loc[4, "risk"] == pytest.approx(0.4 * 0.75 + 0.3 * r + 0.3 * (r > 0.5))


def test_preferences_are_shares_with_exact_tests_corrected_over_the_table():
    margin = np.tile([1.0, -1.0, 1.0], (16, 1))
    margin[::2, 2] = -1
    table = stats.dimensions(crossed(margin)).set_index("dimension")
    assert table["win_rate"].tolist() == [1, 0, 0.5]
    assert table["p"].tolist() == pytest.approx([2**-15, 2**-15, 1])
    assert table["p_adjusted"].tolist() == pytest.approx([3 * 2**-15, 3 * 2**-15, 1])
    assert table["verdict"].tolist() == [stats.ALIGNED, stats.MISALIGNED, stats.NOT_SHOWN]
    assert table["margin"].tolist() == [1, -1, 0]


def test_the_one_score_is_a_rule_beside_the_heads():
    run = factor_world(0.5, heads=2)
    run = run.assign(final=("response", run["score"].values.mean(axis=1)))
    assert stats.correlations(run, draws=99).together["head"].tolist()[-1] == "final score"
    assert stats.dimensions(run)["head"].tolist()[-6:] == ["final score"] * 6


def test_what_cannot_be_correlated_has_no_number_and_a_note():
    lone = stats.correlations(make_run(np.zeros((20, 2)), subset=["a", "b"] * 5), draws=9)
    assert lone.together["note"].tolist() == [stats.UNMATCHED] * 2
    assert lone.together["verdict"].tolist() == ["undefined"] * 2
    assert lone.pairs["r"].isna().all()
    margin = np.random.default_rng(0).standard_normal((8, 3))
    margin[:, 1] = 2.0
    constant = stats.correlations(crossed(margin), draws=99)
    assert constant.together["dimensions"].item() == 2
    assert "b: the same for all" in constant.together["note"].item()
    assert constant.pairs["r"].notna().tolist() == [False, True, False]
    margin[0, 0] = np.nan
    broken = stats.correlations(crossed(margin), draws=99)
    assert broken.together["r"].isna().all() and "not numbers" in broken.together["note"].item()
    assert stats.dimensions(crossed(margin))["note"].tolist()[0] == stats.NO_NUMBERS
    single = stats.correlations(make_run(np.zeros((20, 1))), draws=9)
    assert single.pairs.empty and single.together["note"].item() == stats.UNMATCHED
