"""Names of heads: right ones are left alone, exchanged ones found, and nothing else accused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats

from lib.data.concepts import QUALITIES, of_head
from lib.errors import DataError
from lib.extraction.run import comparisons
from lib.planted.labels import NAMES, label_wins, label_world
from lib.planted.worlds import make_run
from lib.stats import labels


def world(rates: dict[str, dict[str, tuple[int, int]]], claims: dict[str, str] | None = None):
    """A run from ``{head: {criterion: (wins, losses)}}``, wins first; one prompt a pair."""
    heads = list(rates)
    names = list(next(iter(rates.values())))
    columns = [
        np.concatenate([np.repeat([1.0, -1.0], rates[head][name]) for name in names])
        for head in heads
    ]
    gaps = np.column_stack(columns)
    words = [name for name in names for _ in range(sum(rates[heads[0]][name]))]
    return run_of(gaps, heads=heads, criterion=words, concepts=list((claims or {}).values()))


def run_of(gaps, *, criterion, concepts=None, **given):
    gaps = np.asarray(gaps, float)
    score = np.zeros((2 * len(gaps), gaps.shape[1]))
    score[::2] = gaps
    given = {"name": "stimuli/planted", "subset": list(criterion)} | given
    return make_run(score, criterion=list(criterion), concepts=concepts or None, **given)


def within_binomial(found: int, worlds: int, most: float) -> bool:
    """METHODS §13: fails only when the 99% interval lies wholly above what is allowed."""
    return scipy_stats.binomtest(int(found), worlds).proportion_ci(0.99).low <= most


SWAPPED = {
    "safety": {"safety": (50, 50), "verbosity": (80, 20)},
    "verbosity": {"safety": (80, 20), "verbosity": (50, 50)},
}


# ---- The matrix ----


def test_the_matrix_holds_win_rates_by_head_and_criterion():
    run = world(
        {
            "safety": {"safety": (9, 1), "verbosity": (4, 6)},
            "verbosity": {"safety": (5, 5), "verbosity": (8, 2)},
        }
    )
    table = labels.label_matrix(run).set_index(["head", "criterion"])
    assert table["win_rate"].unstack().to_numpy().tolist() == [[0.9, 0.4], [0.5, 0.8]]
    # Row means .65 and .65, column means .7 and .6, overall .65.
    assert table["centred"].unstack().to_numpy() == pytest.approx(
        np.array([[0.2, -0.2], [-0.2, 0.2]])
    )
    assert table["n"].tolist() == [10] * 4
    assert table["claimed"].unstack().to_numpy().tolist() == [[True, False], [False, True]]
    assert (table["low"] < table["win_rate"]).all() and (table["high"] > table["win_rate"]).all()


def test_double_centred_rows_and_columns_sum_to_nothing():
    centred = labels.double_centred(np.random.default_rng(0).random((3, 5, 4)))
    assert centred.sum(axis=-1) == pytest.approx(np.zeros((3, 5)))
    assert centred.sum(axis=-2) == pytest.approx(np.zeros((3, 4)))


def test_a_head_without_numbers_has_none_and_spoils_no_other():
    gaps = np.random.default_rng(0).standard_normal((40, 3))
    gaps[3, 2] = np.nan
    words = ["safety"] * 20 + ["verbosity"] * 20
    heads = ["safety", "verbosity", "honesty"]
    table = labels.label_matrix(run_of(gaps, criterion=words, heads=heads)).set_index("head")
    assert table.loc["honesty", ["win_rate", "low", "high", "centred"]].isna().all(axis=None)
    assert set(table.loc["honesty", "note"]) == {labels.NOT_NUMBERS}
    alone = labels.label_matrix(run_of(gaps[:, :2], criterion=words, heads=heads[:2]))
    kept = table.loc[heads[:2]].reset_index()[list(alone.columns)]
    order = ["head", "criterion"]
    pd.testing.assert_frame_equal(
        kept.sort_values(order, ignore_index=True), alone.sort_values(order, ignore_index=True)
    )


def test_a_model_that_declares_concepts_is_taken_at_its_word():
    heads, words = ["safety", "refusal"], ["safety"] * 4
    run = run_of(np.ones((4, 2)), criterion=words, heads=heads, concepts=["safety", ""])
    assert labels.claims(run).tolist() == ["safety", ""]
    run = run_of(np.ones((4, 2)), criterion=words, heads=heads)
    assert labels.claims(run).tolist() == ["safety", "refusal"]


def test_criteria_of_a_set_become_concepts_and_unknown_ones_keep_their_word():
    run = run_of(np.ones((3, 1)), criterion=["harmless"] * 3, name="hh-rlhf/harmless-base")
    assert set(labels.label_matrix(run)["criterion"]) == {"safety"}
    run = run_of(np.ones((2, 1)), criterion=["wit", "wit"], name="file:mine.jsonl")
    assert set(labels.label_matrix(run)["criterion"]) == {"wit"}
    run = run_of(np.ones((2, 1)), criterion=["wit", "wit"], name="elsewhere")
    assert set(labels.label_matrix(run)["criterion"]) == {"wit"}


# ---- Covariances ----


def test_with_one_comparison_a_prompt_the_variance_is_that_of_a_proportion():
    won = np.repeat([[1.0, 0], [1, 1], [0, 1], [0, 0]], [7, 5, 3, 5], axis=0)
    found = labels.moments(won, np.zeros(20, int), np.arange(20))
    assert found.rate[:, 0].tolist() == [0.6, 0.4]
    expected = np.cov(won.T) / 20
    assert found.covariance[0, :, 0, :] == pytest.approx(expected)
    assert expected[0, 0] == pytest.approx(0.6 * 0.4 / 19)


def test_comparisons_of_a_prompt_count_together_within_and_across_criteria():
    generator = np.random.default_rng(1)
    won = generator.integers(0, 2, (24, 2)).astype(float)
    prompt, criterion = np.repeat(np.arange(6), 4), np.tile([0, 0, 1, 1], 6)
    found = labels.moments(won, criterion, prompt)
    # Equal sizes: the rate is the mean of prompts' own rates.
    own = won.reshape(6, 2, 2, 2).mean(axis=2)  # prompt, criterion, head
    assert found.covariance.reshape(4, 4) == pytest.approx(np.cov(own.reshape(6, 4).T) / 6)


def test_draws_are_worlds_of_their_own():
    won, criterion = label_wins(np.random.default_rng(0), 3, pairs=20)
    prompt = np.arange(80)
    together = labels.moments(won, criterion, prompt)
    for k in range(3):
        alone = labels.moments(won[k], criterion, prompt)
        assert together.rate[k] == pytest.approx(alone.rate)
        assert together.covariance[k] == pytest.approx(alone.covariance)


# ---- Assignment and its p ----


def test_exchanged_names_are_given_back():
    check = labels.label_check(world(SWAPPED))
    heads = check.heads.set_index("head")
    assert heads["assigned"].to_dict() == {"safety": "verbosity", "verbosity": "safety"}
    assert (check.tested, check.right) == (2, 0)
    assert heads["best"].to_dict() == {"safety": "verbosity", "verbosity": "safety"}
    assert heads["beaten_by"].tolist() == [1, 1]
    assert heads["label"].tolist() == ["wrong", "wrong"]


def test_heads_with_one_claim_are_one_class():
    # Both safety heads win more on safety than the verbosity head: either may have either name.
    run = world(
        {
            "a-safety": {"safety": (70, 30), "verbosity": (60, 40)},
            "b-safety": {"safety": (90, 10), "verbosity": (50, 50)},
            "verbosity": {"safety": (50, 50), "verbosity": (60, 40)},
        }
    )
    check = labels.label_check(run)
    assert check.right == check.tested == 3
    assert len(check.pairs) == 2, "the two safety heads can't be exchanged"
    # Names dealt: 3 distinct ways; only the given one reaches its sum.
    assert check.p == pytest.approx(1 / 3)
    assert check.smallest_p == pytest.approx(1 / 3)
    assert check.heads["beaten_by"].tolist() == [0, 0, 0]


def test_p_of_right_names_is_the_smallest_there_is():
    check = labels.label_check(label_world("correct", pairs=200))
    assert check.p == check.smallest_p == pytest.approx(1 / 24)
    assert check.right == 4


def test_random_orders_stand_in_for_all_where_there_are_many():
    run = label_world("correct", concepts=9, pairs=100)
    check = labels.label_check(run, draws=2000)
    assert check.p == check.smallest_p == pytest.approx(1 / 2001)


def test_the_order_p_counts_ties_and_the_given_order():
    # No difference at all: every order does as well.
    orders = labels.name_orders(3, 0)
    assert len(orders) == 5
    assert labels.names_p(np.full((3, 3), 0.5), np.arange(3), orders) == 1


# ---- Accusations ----


def test_delta_of_a_swap_by_hand():
    check = labels.label_check(world(SWAPPED))
    (pair,) = check.pairs.itertuples()
    assert pair.delta == pytest.approx(0.8 + 0.8 - 0.5 - 0.5)
    # On each criterion 50 wins of both, 30 of the other head alone: mean .3 and variance
    # .3·.7/99, with a quarter of a prompt that is half +1 and half −1.
    each = 0.3 * 0.7 / 99 + 0.25 * (1 + 0.3**2) / 100**2
    assert pair.se == pytest.approx(np.sqrt(2 * each))
    assert pair.p == pytest.approx(scipy_stats.t.sf(0.6 / pair.se, 198))
    assert pair.low == pytest.approx(0.6 - scipy_stats.t.isf(0.025, 198) * pair.se)
    assert pair.wrong and pair.p_adjusted == 2 * pair.p, "one pair, and one of two forms"


def test_the_centred_form_by_hand():
    check = labels.label_check(world(SWAPPED), form="centred")
    # Less the mean of the two heads (.65 on both): .15 − (−.15).
    assert check.pairs["delta"].tolist() == pytest.approx([0.3, 0.3])
    assert check.pairs["wrong"].all()


def test_the_centred_form_finds_a_head_that_copies_another():
    # "honesty" is a second safety head: no exchange of names helps, another criterion does.
    run = world(
        {
            "safety": {"safety": (160, 40), "honesty": (100, 100), "verbosity": (100, 100)},
            "honesty": {"safety": (160, 40), "honesty": (100, 100), "verbosity": (100, 100)},
            "verbosity": {"safety": (100, 100), "honesty": (100, 100), "verbosity": (160, 40)},
        }
    )
    assert not labels.label_check(run).pairs["wrong"].any()
    found = labels.label_check(run, form="centred").pairs
    assert found.loc[found["wrong"], ["head", "other_claims"]].to_numpy().tolist() == [
        ["honesty", "safety"]
    ]


def test_bounds_lie_above_zero_exactly_where_a_name_is_called_wrong():
    seen = set()
    for kind in ("correct", "swap", "derangement"):
        for seed in range(4):
            pairs = labels.label_check(label_world(kind, concepts=5, seed=seed)).pairs
            assert ((pairs["low"] > 0) == pairs["wrong"]).all()
            seen |= set(pairs["wrong"])
    assert seen == {True, False}


def test_a_criterion_with_one_prompt_accuses_nobody():
    few = {"safety": {"safety": (0, 1), "verbosity": (1, 0)}}
    few["verbosity"] = {"safety": (1, 0), "verbosity": (0, 1)}
    check = labels.label_check(world(few))
    assert check.note and check.pairs.empty
    assert check.heads["note"].tolist() == [
        "one prompt with criterion safety",
        "one prompt with criterion verbosity",
    ]


def test_a_handful_of_unanimous_prompts_has_a_standard_error():
    won, criterion = label_wins(np.random.default_rng(3), 2000, kind="nothing", concepts=2, pairs=5)
    found = labels.moments(won, criterion, np.arange(10))
    delta, se, df = labels.swap_contrasts(found, np.arange(2), *labels.swap_family(np.arange(2)))
    assert (np.diagonal(found.covariance.reshape(2000, 4, 4), 0, 1, 2) == 0).any()
    assert (se > 0.05).all()
    assert within_binomial((labels.one_sided(delta, se, df) < 0.05).sum(), 2000, 0.06)


def test_repeated_comparisons_of_a_prompt_prove_no_more():
    gaps = np.where(np.random.default_rng(3).random((30, 2)) < 0.6, 1.0, -1.0)
    words = ["safety"] * 15 + ["verbosity"] * 15
    given = {"heads": ["safety", "verbosity"]}
    once = labels.label_check(run_of(gaps, criterion=words, **given)).pairs
    many = labels.label_check(
        run_of(
            np.repeat(gaps, 5, axis=0),
            criterion=np.repeat(words, 5).tolist(),
            prompt=np.repeat(np.arange(30), 5),
            **given,
        )
    ).pairs
    assert many["se"].tolist() == pytest.approx(once["se"].tolist())


# ---- Targets of METHODS §3 ----


def judged(kind, draws, **options):
    """Any accusation, and p, of many planted worlds at once."""
    generator = np.random.default_rng(11)
    won, criterion = label_wins(generator, draws, kind=kind, **options)
    found = labels.moments(won, criterion, np.arange(len(criterion)))
    own = np.arange(won.shape[-1])
    first, second = labels.swap_family(own)
    p = labels.one_sided(*labels.swap_contrasts(found, own, first, second))
    adjusted = labels.accused(p)
    return adjusted, labels.names_p(found.rate, own, labels.name_orders(len(own), 2000))


@pytest.mark.parametrize("kind", ["correct", "nothing"])
@pytest.mark.parametrize(("pairs", "shared"), [(100, 0.0), (20, 0.5)])
def test_right_or_empty_names_are_seldom_called_wrong(kind, pairs, shared):
    adjusted, _ = judged(kind, 600, pairs=pairs, shared=shared)
    false = (adjusted < 0.05).any(axis=1).sum()
    assert within_binomial(false, 600, 0.06)
    assert kind == "correct" or false > 0  # the empty world does put the level to the test


def test_the_centred_form_too_seldom_accuses_heads_that_follow_nothing():
    won, criterion = label_wins(np.random.default_rng(5), 600, kind="nothing", pairs=60)
    found = labels.moments(won, criterion, np.arange(len(criterion)))
    own = np.arange(4)
    family = labels.centred_family(own, 4)
    p = labels.one_sided(*labels.centred_contrasts(found, own, *family))
    false = (labels.accused(p) < 0.05).any(axis=1).sum()
    assert within_binomial(false, 600, 0.06) and false > 0


def test_both_forms_together_accuse_falsely_no_more_often_than_the_level_says():
    won, criterion = label_wins(np.random.default_rng(6), 4000, kind="nothing", pairs=100)
    found = labels.moments(won, criterion, np.arange(len(criterion)))
    own = np.arange(4)
    swaps = labels.swap_contrasts(found, own, *labels.swap_family(own))
    centred = labels.centred_contrasts(found, own, *labels.centred_family(own, 4))
    p = [labels.one_sided(*contrasts) for contrasts in (swaps, centred)]
    either = np.any([(labels.accused(some) < 0.05).any(axis=1) for some in p], axis=0)
    alone = np.any([(labels.permutation.holm(some) < 0.05).any(axis=1) for some in p], axis=0)
    assert either.mean() <= 0.05 < alone.mean()


def test_names_that_are_all_wrong_seldom_seem_better_than_random():
    _, p = judged("derangement", 400, concepts=5)
    assert within_binomial((p < 0.05).sum(), 400, 0.06)


def test_names_dealt_at_random_reach_any_level_no_more_often_than_it_says():
    _, p = judged("random", 600, concepts=5)
    assert within_binomial((p <= 0.05).sum(), 600, 0.05)
    assert (p <= 0.05).any()


@pytest.mark.parametrize("concepts", [4, 9])
def test_one_swap_is_found_with_a_hundred_pairs_a_criterion(concepts):
    draws = 300
    adjusted, _ = judged("swap", draws, concepts=concepts, pairs=100)
    found = (adjusted[:, 0] < 0.05).sum()  # the first pair is the one that was exchanged
    assert scipy_stats.binomtest(int(found), draws).proportion_ci(0.99).high >= 0.8
    assert found / draws > 0.75


def test_power_is_told_as_it_is():
    told = labels.label_check(label_world("correct", pairs=40, seed=1)).pairs["power"].mean()
    adjusted, _ = judged("swap", 600, pairs=40)
    assert told == pytest.approx((adjusted[:, 0] < 0.05).mean(), abs=0.08)


# ---- Bad input ----


def test_one_head_one_criterion_and_no_claim_each_say_so():
    one = labels.label_check(world({"safety": {"safety": (5, 5), "verbosity": (5, 5)}}))
    assert "all heads that could be tested claim safety" in one.note
    assert np.isnan(one.p) and one.tested == 1 and one.left_out == 10
    assert one.heads["own"].tolist() == [0.5]
    single = labels.label_check(
        world({"safety": {"safety": (5, 5)}, "verbosity": {"safety": (5, 5)}})
    )
    assert single.heads["note"].tolist()[1] == "no comparison with criterion verbosity"
    none = labels.label_check(world({"head_0": {"safety": (5, 5), "verbosity": (5, 5)}}))
    assert none.note == "no head claims a criterion of these comparisons"
    assert none.heads["label"].tolist() == ["not tested"]


def test_no_comparisons_give_tables_that_keep_their_columns():
    run = run_of(np.zeros((0, 2)), criterion=[], heads=["safety", "verbosity"])
    matrix = labels.label_matrix(run)
    assert matrix.columns.tolist() == list(labels.MATRIX)
    assert matrix["note"].tolist() == ["no comparisons"] * 2
    assert labels.label_check(run).heads["note"].tolist() == [
        "no comparison with criterion safety",
        "no comparison with criterion verbosity",
    ]
    assert labels.label_check(run).pairs.columns.tolist() == list(labels.PAIRS)
    assert labels.label_check(run).note
    assert labels.mtmm(run).columns.tolist() == list(labels.MTMM)


def test_tied_and_broken_heads_are_named_and_accuse_nobody():
    gaps = np.ones((60, 4))
    gaps[:, 1], gaps[4, 2] = 0, np.nan
    words = ["safety", "verbosity", "honesty"] * 20
    heads = ["safety", "verbosity", "honesty", "other-honesty"]
    check = labels.label_check(run_of(gaps, criterion=words, heads=heads))
    found = check.heads.set_index("head")["note"].to_dict()
    assert found["verbosity"] == "all comparisons tie"
    assert found["honesty"] == labels.NOT_NUMBERS
    assert set(check.pairs["head"]) | set(check.pairs["other"]) == {"safety", "other-honesty"}


def test_an_unknown_form_is_refused():
    with pytest.raises(DataError, match="swap, centred"):
        labels.label_check(label_world(), form="guess")


def test_given_comparisons_replace_the_runs_own():
    run = label_world("correct", pairs=50)
    table = comparisons(run)
    assert set(labels.label_matrix(run, table[table["criterion"] == "safety"])["criterion"]) == {
        "safety"
    }


# ---- What would have been found ----


def test_an_exchange_of_the_size_told_is_found_at_that_rate():
    check = labels.label_check(label_world("correct", pairs=100))
    pair = check.pairs.iloc[0]
    m = len(check.pairs)
    expected = (scipy_stats.norm.isf(0.025 / m) + scipy_stats.norm.ppf(0.8)) * pair["se"]
    assert pair["mde"] == pytest.approx(expected, rel=0.02)
    power = [
        labels.label_check(
            label_world("swap", pairs=100, gap=pair["mde"] / 2, seed=seed)
        ).pairs.iloc[0]["wrong"]
        for seed in range(40)
    ]
    assert scipy_stats.binomtest(sum(power), 40, 0.8).pvalue > 0.001


def test_names_as_a_whole_tell_what_they_would_have_shown():
    named = labels.label_check(label_world("correct", concepts=5, pairs=100, gap=0.05))
    assert 0 < named.mde < 0.1
    fits = [
        labels.label_check(
            label_world("correct", concepts=5, pairs=100, gap=named.mde / 0.8, seed=s)
        ).p
        for s in range(30)
    ]
    assert np.mean(np.asarray(fits) < 0.05) > 0.6
    few = labels.label_check(label_world("correct", concepts=2, pairs=100))
    assert few.smallest_p == 0.5 and np.isnan(few.mde)


def test_planted_names_are_concepts():
    assert set(NAMES) < set(QUALITIES)
    assert all(of_head(f"planted-{name}") == name for name in NAMES)
