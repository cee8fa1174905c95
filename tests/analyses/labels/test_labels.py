"""Names of heads: right ones are left alone, exchanged ones found, and nothing else accused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats

from lib import paths
from lib.analyses.labels import stats, words
from lib.analyses.labels.worlds import NAMES, agreement_gaps, label_wins, label_world
from lib.data.concepts import QUALITIES, of_head
from lib.extraction import load_run
from lib.planted.worlds import from_gaps
from lib.run import comparisons
from lib.stats.permutation import holm


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
    given = {"name": "stimuli/planted", "subset": list(criterion)} | given
    return from_gaps(gaps, criterion=list(criterion), concepts=concepts or None, **given)


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
    table = stats.label_matrix(run).set_index(["head", "criterion"])
    assert table["win_rate"].unstack().to_numpy().tolist() == [[0.9, 0.4], [0.5, 0.8]]
    # Row means .65 and .65, column means .7 and .6, overall .65.
    assert table["centred"].unstack().to_numpy() == pytest.approx(
        np.array([[0.2, -0.2], [-0.2, 0.2]])
    )
    assert table["n"].tolist() == [10] * 4
    assert table["claimed"].unstack().to_numpy().tolist() == [[True, False], [False, True]]
    assert (table["low"] < table["win_rate"]).all() and (table["high"] > table["win_rate"]).all()


def test_double_centred_rows_and_columns_sum_to_nothing():
    centred = stats.double_centred(np.random.default_rng(0).random((3, 5, 4)))
    assert centred.sum(axis=-1) == pytest.approx(np.zeros((3, 5)))
    assert centred.sum(axis=-2) == pytest.approx(np.zeros((3, 4)))


def test_a_head_without_numbers_has_none_and_spoils_no_other():
    gaps = np.random.default_rng(0).standard_normal((40, 3))
    gaps[:, 2] = np.nan
    words = ["safety"] * 20 + ["verbosity"] * 20
    heads = ["safety", "verbosity", "honesty"]
    table = stats.label_matrix(run_of(gaps, criterion=words, heads=heads)).set_index("head")
    assert table.loc["honesty", ["win_rate", "low", "high", "centred"]].isna().all(axis=None)
    assert set(table.loc["honesty", "note"]) == {stats.NOT_NUMBERS}
    alone = stats.label_matrix(run_of(gaps[:, :2], criterion=words, heads=heads[:2]))
    kept = table.loc[heads[:2]].reset_index()[list(alone.columns)]
    order = ["head", "criterion"]
    pd.testing.assert_frame_equal(
        kept.sort_values(order, ignore_index=True), alone.sort_values(order, ignore_index=True)
    )


def test_a_model_that_declares_concepts_is_taken_at_its_word():
    heads, words = ["safety", "refusal"], ["safety"] * 4
    run = run_of(np.ones((4, 2)), criterion=words, heads=heads, concepts=["safety", ""])
    assert stats.claims(run).tolist() == ["safety", ""]
    run = run_of(np.ones((4, 2)), criterion=words, heads=heads)
    assert stats.claims(run).tolist() == ["safety", "refusal"]


def test_criteria_of_a_set_become_concepts_and_unknown_ones_keep_their_word():
    run = run_of(np.ones((3, 1)), criterion=["harmless"] * 3, name="hh-rlhf/harmless-base")
    assert set(stats.label_matrix(run)["criterion"]) == {"safety"}
    run = run_of(np.ones((2, 1)), criterion=["wit", "wit"], name="file:mine.jsonl")
    assert set(stats.label_matrix(run)["criterion"]) == {"wit"}
    run = run_of(np.ones((2, 1)), criterion=["wit", "wit"], name="elsewhere")
    assert set(stats.label_matrix(run)["criterion"]) == {"wit"}


# ---- Covariances ----


def test_with_one_comparison_a_prompt_the_variance_is_that_of_a_proportion():
    won = np.repeat([[1.0, 0], [1, 1], [0, 1], [0, 0]], [7, 5, 3, 5], axis=0)
    found = stats.moments(won, np.zeros(20, int), np.arange(20))
    assert found.rate[:, 0].tolist() == [0.6, 0.4]
    expected = np.cov(won.T) / 20
    assert found.covariance[0, :, 0, :] == pytest.approx(expected)
    assert expected[0, 0] == pytest.approx(0.6 * 0.4 / 19)


def test_comparisons_of_a_prompt_count_together_within_and_across_criteria():
    generator = np.random.default_rng(1)
    won = generator.integers(0, 2, (24, 2)).astype(float)
    prompt, criterion = np.repeat(np.arange(6), 4), np.tile([0, 0, 1, 1], 6)
    found = stats.moments(won, criterion, prompt)
    # Equal sizes: the rate is the mean of prompts' own rates.
    own = won.reshape(6, 2, 2, 2).mean(axis=2)  # prompt, criterion, head
    assert found.covariance.reshape(4, 4) == pytest.approx(np.cov(own.reshape(6, 4).T) / 6)


def test_draws_are_worlds_of_their_own():
    won, criterion = label_wins(np.random.default_rng(0), 3, pairs=20)
    prompt = np.arange(80)
    together = stats.moments(won, criterion, prompt)
    for k in range(3):
        alone = stats.moments(won[k], criterion, prompt)
        assert together.rate[k] == pytest.approx(alone.rate)
        assert together.covariance[k] == pytest.approx(alone.covariance)


# ---- Assignment and its p ----


def test_exchanged_names_are_given_back():
    check = stats.label_check(world(SWAPPED))
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
    check = stats.label_check(run)
    assert check.right == check.tested == 3
    assert len(check.pairs) == 2, "the two safety heads can't be exchanged"
    # Names dealt: 3 distinct ways; only the given one reaches its sum.
    (family,) = check.families.itertuples()
    assert (family.p, family.smallest_p) == pytest.approx((1 / 3, 1 / 3))
    assert check.heads["beaten_by"].tolist() == [0, 0, 0]


def test_p_of_right_names_is_the_smallest_there_is():
    check = stats.label_check(label_world("correct", pairs=200))
    (family,) = check.families.itertuples()
    assert family.p == family.smallest_p == pytest.approx(1 / 24)
    assert check.right == 4


def test_random_orders_stand_in_for_all_where_there_are_many():
    run = label_world("correct", concepts=9, pairs=100)
    check = stats.label_check(run, draws=2000)
    (family,) = check.families.itertuples()
    assert family.p == family.smallest_p == pytest.approx(1 / 2001)


def test_the_order_p_counts_ties_and_the_given_order():
    # No difference at all: every order does as well.
    orders = stats.name_orders(3, 0)
    assert len(orders) == 5
    assert stats.names_p(np.full((3, 3), 0.5), np.arange(3), orders) == 1


# ---- Names shown to fit ----

SOURCES = ["choices of one set", "choices of another", "ours: length", "ours: reading ease"]


def two_kinds(**wins):
    """Two preference heads and two proxies on 100 pairs of four criteria: wins of each."""
    words = ["safety", "helpfulness", "verbosity", "readability"]
    elsewhere = dict.fromkeys(words, 50)
    rates = {
        head: {word: (won, 100 - won) for word, won in (elsewhere | wins.get(head, {})).items()}
        for head in words
    }
    run = world(rates)
    run["head_source"] = ("head", np.asarray(SOURCES))
    return run


def test_a_name_fits_by_the_larger_p_of_one_half_and_of_its_family_by_hand():
    run = two_kinds(
        safety={"safety": 80},
        helpfulness={"safety": 60, "helpfulness": 60},
        verbosity={"verbosity": 100, "safety": 95},
    )
    check = stats.label_check(run)
    heads = check.heads.set_index("head")
    kinds = ["preference heads", "rating and proxy heads"]
    assert heads["family"].tolist() == np.repeat(kinds, 2).tolist()
    assert heads["fits"].tolist() == ["shown", "borderline", "shown", "not shown"]
    # That verbosity wins more on safety than the safety head does is no matter of its family.
    assert heads.loc["safety", ["nearest", "nearest_own"]].tolist() == ["helpfulness", 0.6]
    # Wins come first, so 20 pairs are won by safety alone and none by helpfulness alone.
    se = np.sqrt(0.2 * 0.8 / 99 + 0.25 * (1 + 0.2**2) / 100**2)
    beside = scipy_stats.t.sf(0.2 / se, 99)
    half = [scipy_stats.binomtest(won, 100, alternative="greater").pvalue for won in (80, 60)]
    assert beside > half[0]
    # Two names in each of two families: Holm's factor of the first is 2, and twice for two families.
    assert heads.loc["safety", "fits_p"] == pytest.approx(4 * beside)
    se = np.sqrt(0.1 * 0.9 / 99 + 0.25 * (1 + 0.1**2) / 100**2)
    last = max(half[1], scipy_stats.t.sf(0.1 / se, 99))
    assert heads.loc["helpfulness", "fits_p"] == pytest.approx(max(2 * last, 4 * beside))


def test_names_are_dealt_within_their_family_alone():
    run = two_kinds(verbosity={"verbosity": 100}, readability={"readability": 100})
    families = stats.label_check(run).families.set_index("family")
    assert families["heads"].tolist() == families["tested"].tolist() == [2, 2]
    # Two names can be dealt in two ways; the preference heads do alike in both.
    assert families["p"].tolist() == [1.0, 0.5]
    assert families["smallest_p"].tolist() == [0.5, 0.5]
    assert families["shown"].tolist() == [0, 2]
    run["head_source"] = ("head", np.asarray(["planted"] * 4))
    (one,) = stats.label_check(run).families.itertuples()
    assert (one.family, one.heads, one.smallest_p) == (stats.EVERY, 4, pytest.approx(1 / 24))


def test_heads_of_the_audited_model_shuffled_within_families_fit_no_name():
    run = load_run(paths.RUNS / "smol-armo/stimuli/controlled")
    family, claimed = stats.families(run), stats.claims(run)
    generator, scores = np.random.default_rng(0), run["score"].values.copy()
    for _ in range(40):
        back = np.arange(len(family))
        for name in np.unique(family):
            members = np.flatnonzero(family == name)
            back[members] = generator.permutation(members)
        run["score"].values[:] = scores[:, back]
        found = stats.label_check(run, draws=20).heads
        assert not ((found["fits"] == stats.FITS) & (claimed[back] != claimed)).any()


@pytest.mark.parametrize("general", [0.0, 0.2])
def test_names_dealt_within_families_are_seldom_shown_to_fit(general):
    won, criterion = label_wins(
        np.random.default_rng(0), 300, concepts=6, pairs=60, general=general
    )
    order = np.asarray([1, 2, 0, 4, 5, 3])  # no head has a name of its own in its family
    won, family, prompt = won[..., order], np.repeat([0, 1], 3), np.arange(len(criterion))
    half = stats.beyond_half(won, criterion, prompt, np.arange(6))
    found = stats.fits_p(stats.moments(won, criterion, prompt), np.arange(6), family, half)
    false = (stats.fits_adjusted(found, np.arange(6), family) < 0.05).any(axis=1)
    assert within_binomial(false.sum(), 300, 0.05)
    alone = (stats.fits_adjusted(half, np.arange(6), family) < 0.05).any(axis=1)
    assert general == 0 or alone.mean() > 0.5, "winning by itself shows nothing of a name"


# ---- Accusations ----


def test_delta_of_a_swap_by_hand():
    check = stats.label_check(world(SWAPPED))
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
    check = stats.label_check(world(SWAPPED))
    # Less the mean of the two heads (.65 on both): .15 − (−.15).
    assert check.centred["delta"].tolist() == pytest.approx([0.3, 0.3])
    assert check.centred["wrong"].all()


def test_the_centred_form_finds_a_head_that_copies_another():
    # "honesty" is a second safety head: no exchange of names helps, another criterion does.
    run = world(
        {
            "safety": {"safety": (160, 40), "honesty": (100, 100), "verbosity": (100, 100)},
            "honesty": {"safety": (160, 40), "honesty": (100, 100), "verbosity": (100, 100)},
            "verbosity": {"safety": (100, 100), "honesty": (100, 100), "verbosity": (160, 40)},
        }
    )
    check = stats.label_check(run)
    assert not check.pairs["wrong"].any()
    heads = check.heads.set_index("head")
    assert heads["label"].tolist() == ["not contradicted", "wrong", "not contradicted"]
    assert heads.loc["honesty", "why"] == "follows safety better"
    found = check.centred
    assert found.loc[found["wrong"], ["head", "other_claims"]].to_numpy().tolist() == [
        ["honesty", "safety"]
    ]


def test_bounds_lie_above_zero_exactly_where_a_name_is_called_wrong():
    seen = set()
    for kind in ("correct", "swap", "derangement"):
        for seed in range(4):
            pairs = stats.label_check(label_world(kind, concepts=5, seed=seed)).pairs
            assert ((pairs["low"] > 0) == pairs["wrong"]).all()
            seen |= set(pairs["wrong"])
    assert seen == {True, False}


def test_a_criterion_with_one_prompt_accuses_nobody():
    few = {"safety": {"safety": (0, 1), "verbosity": (1, 0)}}
    few["verbosity"] = {"safety": (1, 0), "verbosity": (0, 1)}
    check = stats.label_check(world(few))
    assert check.note and check.pairs.empty
    assert check.heads["note"].tolist() == [
        "one prompt with criterion safety",
        "one prompt with criterion verbosity",
    ]


def test_a_handful_of_unanimous_prompts_has_a_standard_error():
    won, criterion = label_wins(np.random.default_rng(3), 2000, kind="nothing", concepts=2, pairs=5)
    found = stats.moments(won, criterion, np.arange(10))
    family = stats.swap_family(np.arange(2), found.known)
    delta, se, df = stats.swap_contrasts(found, np.arange(2), *family)
    assert (np.diagonal(found.covariance.reshape(2000, 4, 4), 0, 1, 2) == 0).any()
    assert (se > 0.05).all()
    assert within_binomial((stats.one_sided(delta, se, df) < 0.05).sum(), 2000, 0.06)


def test_repeated_comparisons_of_a_prompt_prove_no_more():
    gaps = np.where(np.random.default_rng(3).random((30, 2)) < 0.6, 1.0, -1.0)
    words = ["safety"] * 15 + ["verbosity"] * 15
    given = {"heads": ["safety", "verbosity"]}
    once = stats.label_check(run_of(gaps, criterion=words, **given)).pairs
    many = stats.label_check(
        run_of(
            np.repeat(gaps, 5, axis=0),
            criterion=np.repeat(words, 5).tolist(),
            prompt=np.repeat(np.arange(30), 5),
            **given,
        )
    ).pairs
    assert many["se"].tolist() == pytest.approx(once["se"].tolist())


# ---- Targets of METHODS §3 ----


def judged(kind, draws, seed=11, **options):
    """The verdicts on many planted worlds at once."""
    won, criterion = label_wins(np.random.default_rng(seed), draws, kind=kind, **options)
    found = stats.moments(won, criterion, np.arange(len(criterion)))
    rivals = options.get("rivals", 0)
    own = np.asarray([*range(won.shape[-1] - rivals), *[stats.RIVAL] * rivals])
    return stats.verdicts(found, own)


def order(kind, draws, **options):
    """p of the names as a whole, of many planted worlds at once."""
    won, criterion = label_wins(np.random.default_rng(11), draws, kind=kind, **options)
    found = stats.moments(won, criterion, np.arange(len(criterion)))
    own = np.arange(won.shape[-1])
    return stats.names_p(*stats.named(found.rate, own), stats.name_orders(len(own), 2000))


@pytest.mark.parametrize("kind", ["correct", "nothing"])
@pytest.mark.parametrize(("pairs", "shared"), [(100, 0.0), (20, 0.5)])
def test_right_or_empty_names_are_seldom_called_wrong(kind, pairs, shared):
    false = (judged(kind, 600, pairs=pairs, shared=shared).swap.adjusted < 0.05).any(axis=1).sum()
    assert within_binomial(false, 600, 0.06)
    assert kind == "correct" or false > 0  # the empty world does put the level to the test


def test_the_centred_form_too_seldom_accuses_heads_that_follow_nothing():
    false = judged("nothing", 600, seed=5, pairs=60).wrong.any(axis=1).sum()
    assert within_binomial(false, 600, 0.06) and false > 0


def test_both_forms_together_accuse_falsely_no_more_often_than_the_level_says():
    said = judged("nothing", 4000, seed=6, pairs=100)
    forms = [said.swap, said.centred]
    either = np.any([(form.adjusted < 0.05).any(axis=1) for form in forms], axis=0)
    alone = np.any([(holm(form.p) < 0.05).any(axis=1) for form in forms], axis=0)
    assert either.mean() <= 0.05 < alone.mean()


def test_names_that_are_all_wrong_seldom_seem_better_than_random():
    p = order("derangement", 400, concepts=5)
    assert within_binomial((p < 0.05).sum(), 400, 0.06)


def test_names_dealt_at_random_reach_any_level_no_more_often_than_it_says():
    p = order("random", 600, concepts=5)
    assert within_binomial((p <= 0.05).sum(), 600, 0.05)
    assert (p <= 0.05).any()


@pytest.mark.parametrize("concepts", [4, 9])
def test_one_swap_is_found_with_a_hundred_pairs_a_criterion(concepts):
    draws = 300
    adjusted = judged("swap", draws, concepts=concepts, pairs=100).swap.adjusted
    found = (adjusted[:, 0] < 0.05).sum()  # the first pair is the one that was exchanged
    assert scipy_stats.binomtest(int(found), draws).proportion_ci(0.99).high >= 0.8
    assert found / draws > 0.75


def test_power_is_told_as_it_is():
    told = stats.label_check(label_world("correct", pairs=40, seed=1)).pairs["power"].mean()
    adjusted = judged("swap", 600, pairs=40).swap.adjusted
    assert told == pytest.approx((adjusted[:, 0] < 0.05).mean(), abs=0.08)


# ---- One verdict a head ----


def shared_run(names, scores, **given):
    """A run of 100 pairs a criterion with the same heads' gaps under other names."""
    words = np.repeat(["safety", "verbosity", "readability"], 100).tolist()
    return run_of(scores, heads=names, criterion=words, **given)


def gaps_of(generator, *rates):
    """Gaps of a head that wins these shares of 100 pairs of each criterion, exactly."""
    won = [generator.permutation(np.arange(100) < round(100 * rate)) for rate in rates]
    return np.where(np.concatenate(won), 1.0, -1.0)


def test_a_head_replaced_by_length_is_wrong_and_its_pair_in_no_doubt():
    generator = np.random.default_rng(0)
    scores = np.column_stack(
        [
            gaps_of(generator, 0.6, 0.1, 0.3),  # safety, a little
            gaps_of(generator, 0.45, 1.0, 0.4),  # length, named safety too
            gaps_of(generator, 0.6, 1.0, 0.5),
            gaps_of(generator, 0.2, 0.3, 1.0),
        ]
    )
    names = ["a-safety", "b-safety", "verbosity", "readability"]
    check = stats.label_check(shared_run(names, scores))
    assert check.heads["label"].tolist() == [
        *("not contradicted", "wrong", "not contradicted", "not contradicted")
    ]
    assert check.heads["why"].tolist() == ["", "follows verbosity better", "", ""]


def test_an_exchange_accuses_those_exchanged_and_no_head_beside_them():
    # The second head's scores win on safety, too, more than the weak safety head does.
    said = judged("spill", 300, concepts=5)
    beside = list(zip(said.swap.head, said.swap.other, strict=True)).index((0, 2))
    assert (said.swap.adjusted[:, beside] < 0.05).mean() > 0.2, "the pair is accused"
    assert within_binomial(said.wrong[:, 2:].any(axis=1).sum(), 300, 0.06)
    assert within_binomial(said.doubted[:, 2:].any(axis=1).sum(), 300, 0.06)
    assert (said.wrong | said.doubted)[:, :2].any(axis=1).mean() > 0.9


def test_an_exchange_of_others_leaves_a_heads_own_evidence_as_it_is():
    generator = np.random.default_rng(4)
    scores = np.column_stack([gaps_of(generator, *generator.random(3)) for _ in range(4)])
    names = ["safety", "verbosity", "readability", "mystery"]

    def evidence(order):
        check = stats.label_check(shared_run(names, scores[:, order]))
        return check.centred.set_index("head").loc["safety", ["delta", "se", "p"]].to_numpy()

    # The means over heads stay, whether the second is exchanged with the third or with a rival.
    assert evidence([0, 2, 1, 3]) == pytest.approx(evidence([0, 1, 2, 3]))
    assert evidence([0, 3, 2, 1]) == pytest.approx(evidence([0, 1, 2, 3]))


def test_one_of_two_names_is_in_doubt_where_neither_head_is_wrong_by_itself():
    won, draws = {}, 400
    said = judged("swap", draws, pairs=60)
    for k in range(draws):
        won.setdefault((said.swap.adjusted[k, 0] < 0.05, *said.wrong[k, :2]), []).append(k)
    for k in won[True, False, False]:
        assert said.doubted[k, :2].all()
    for k in [*won[True, True, False], *won[False, False, False]]:
        assert not said.doubted[k, :2].any() or (said.swap.adjusted[k, 1:] < 0.05).any()


# ---- Heads without a claim ----


def rivals_world(named: float, rival: float, rest: float = 0.5):
    """Verbosity wins ``named`` on its criterion, a head without a claim ``rival``."""
    generator = np.random.default_rng(2)
    scores = np.column_stack(
        [
            gaps_of(generator, 0.8, 0.5, 0.5),
            gaps_of(generator, 0.5, named, 0.5),
            gaps_of(generator, 0.5, 0.5, 0.9),
            gaps_of(generator, rest, rival, rest),
        ]
    )
    return shared_run(["safety", "verbosity", "readability", "mystery"], scores)


def test_a_name_that_a_head_without_a_claim_fits_better_is_in_doubt():
    check = stats.label_check(rivals_world(0.55, 1.0))
    heads = check.heads.set_index("head")
    assert heads.loc["verbosity", ["label", "why", "assigned"]].tolist() == [
        *("doubted", "fits better exchanged with mystery", "")
    ]
    assert heads.loc["mystery", ["label", "assigned"]].tolist() == ["not tested", "verbosity"]
    assert (check.tested, check.right) == (3, 2)
    pair = check.pairs.set_index(["head", "other"]).loc[("verbosity", "mystery")]
    # Its own place is the mean of the other criteria: (1 − .55) − (.5 − .5), and .45 on verbosity.
    assert pair["delta"] == pytest.approx(0.45) and pair["wrong"] and pair["other_claims"] == ""


def test_a_claim_that_the_set_has_no_criterion_for_is_a_rivals_too():
    run = rivals_world(0.55, 1.0)
    concepts = ["safety", "verbosity", "readability", "refusal"]
    run["head_concept"] = ("head", np.asarray(concepts))
    check = stats.label_check(run)
    assert check.heads["label"].tolist()[1] == "doubted"
    pair = check.pairs.set_index(["head", "other"]).loc[("verbosity", "mystery")]
    assert pair["other_claims"] == "refusal"


@pytest.mark.parametrize(
    ("named", "rival", "rest", "right"),
    [
        (0.95, 0.95, 0.5, 3),  # as good, no better
        (0.7, 0.9, 0.9, 3),  # wins everywhere: stands out nowhere
        (0.8, 0.6, 0.1, 2),  # stands out more, but wins less
    ],
)
def test_an_innocent_rival_puts_no_name_in_doubt(named, rival, rest, right):
    check = stats.label_check(rivals_world(named, rival, rest))
    assert check.heads["label"].tolist() == [*["not contradicted"] * 3, "not tested"]
    assert check.right == right


def test_a_rival_that_takes_a_name_is_found_as_often_as_is_told():
    run = label_world("correct", pairs=250, rivals=1)
    told = stats.label_check(run).pairs["power"].iloc[6]
    adjusted = judged("taken", 400, pairs=250, rivals=1).swap.adjusted[:, 6]
    assert told == pytest.approx((adjusted < 0.05).mean(), abs=0.08) and told > 0.8


# ---- Scores that are not numbers ----


def test_a_missing_score_is_left_out_for_its_head_and_counted():
    run = world(SWAPPED)
    whole = stats.label_check(run)
    run["score"].values[0, 0] = np.nan  # safety's first comparison on safety, which it wins
    matrix = stats.label_matrix(run).set_index(["head", "criterion"])
    assert matrix.loc[("safety", "safety"), ["n", "missing", "note"]].tolist() == [
        *(99, 1, "1 of 100 comparisons without numbers left out")
    ]
    assert matrix.loc[("safety", "safety"), "win_rate"] == pytest.approx(49 / 99)
    assert matrix["missing"].sum() == 1
    check = stats.label_check(run)
    heads = check.heads.set_index("head")
    assert heads.loc["safety", ["n", "prompts", "missing", "label"]].tolist() == [
        99,
        99,
        1,
        "wrong",
    ]
    assert heads["note"].tolist() == ["1 of 100 comparisons without numbers left out", ""]
    other = ["n", "prompts", "own", "low", "high", "label"]
    pd.testing.assert_series_equal(
        heads.loc["verbosity", other], whole.heads.set_index("head").loc["verbosity", other]
    )
    # Its Δ by hand: safety wins 49 of 99 on safety, all else as before.
    assert check.pairs["delta"].item() == pytest.approx(0.8 + 0.8 - 49 / 99 - 0.5)


def test_missing_scores_are_as_if_the_comparison_had_never_been():
    generator = np.random.default_rng(7)
    won = generator.integers(0, 2, (60, 3)).astype(float)
    criterion, prompt = np.repeat([0, 1, 2], 20), np.arange(60)
    gone = won.copy()
    gone[[4, 30]] = np.nan
    found = stats.moments(gone, criterion, prompt)
    kept = np.isfinite(gone[:, 0])
    expected = stats.moments(won[kept], criterion[kept], prompt[kept])
    for name in ("rate", "covariance", "prompts"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name))
    one = won.copy()
    one[4, 0] = np.nan
    found, whole = stats.moments(one, criterion, prompt), stats.moments(won, criterion, prompt)
    assert found.rate[1:] == pytest.approx(whole.rate[1:])
    assert found.rate[0, 1:] == pytest.approx(whole.rate[0, 1:])
    assert found.covariance[:, 1:, :, 1:] == pytest.approx(whole.covariance[:, 1:, :, 1:])
    assert found.prompts.tolist() == [[19, 20, 20], [20, 20, 20], [20, 20, 20]]


def test_a_criterion_without_numbers_is_in_no_test_of_its_head_and_in_those_of_others():
    run = label_world("correct", pairs=100)
    own = run["head"].values[1]
    rows = np.flatnonzero(comparisons(run)["criterion"].to_numpy() == NAMES[0])
    run["score"].values[2 * rows, 1] = np.nan
    check = stats.label_check(run)
    assert check.heads["label"].tolist() == ["not contradicted"] * 4
    assert own not in set(check.centred[check.centred["other_claims"] == NAMES[0]]["head"]), (
        "nothing to hold it against"
    )
    beside = check.pairs[check.pairs["head"] == run["head"].values[0]]["other"]
    assert own not in set(beside) and len(beside) == 2
    assert np.isfinite(check.pairs[["delta", "se", "p"]]).all(axis=None)
    run["score"].values[:, 1] = np.nan
    gone = stats.label_check(run).heads.set_index("head")
    assert gone.loc[own, ["label", "note"]].tolist() == [
        "not tested",
        "scores that are not numbers",
    ]


def test_a_rival_without_numbers_on_a_tested_criterion_takes_no_name():
    run = rivals_world(0.55, 1.0)
    rows = np.flatnonzero(comparisons(run)["criterion"].to_numpy() != "verbosity")
    run["score"].values[2 * rows, 3] = np.nan  # mystery keeps what it wins on verbosity
    check = stats.label_check(run)
    assert "mystery" not in set(check.pairs["other"])
    assert check.heads["label"].tolist() == [*["not contradicted"] * 3, "not tested"]
    assert check.right == 3


def test_agreement_leaves_out_what_has_no_numbers_where_it_is_needed():
    (gaps,) = agreement_gaps(np.random.default_rng(0), 1, ratio=0.5, pairs=200)
    gaps = np.column_stack([gaps, gaps[:, 2:] + 0.5])
    names = ["x-safety", "y-safety", "x-verbosity", "y-verbosity", "x-honesty", "y-honesty"]
    words = ["safety"] * 200
    whole = stats.mtmm(run_of(gaps, criterion=words, heads=names), draws=50)
    gaps[5, 5] = np.nan
    one = stats.mtmm(run_of(gaps, criterion=words, heads=names), draws=50)
    touched = (one["concept"] == "honesty") | (one["other"] == "honesty")
    assert one["n"].tolist() == np.where(touched, 199, 200).tolist()
    assert set(one.loc[touched, "note"]) == {"1 of 200 comparisons without numbers left out"}
    pd.testing.assert_frame_equal(one[~touched], whole[~touched])
    left = stats.mtmm(run_of(np.delete(gaps, 5, 0), criterion=words[1:], heads=names), draws=50)
    assert one["htmt"][touched].to_numpy() == pytest.approx(left["htmt"][touched].to_numpy())


# ---- Bad input ----


def test_one_head_one_criterion_and_no_claim_each_say_so():
    one = stats.label_check(world({"safety": {"safety": (5, 5), "verbosity": (5, 5)}}))
    assert "all heads that could be tested claim safety" in one.note
    assert one.families.empty and one.tested == 1 and one.left_out == 10
    assert one.heads["own"].tolist() == [0.5]
    single = stats.label_check(
        world({"safety": {"safety": (5, 5)}, "verbosity": {"safety": (5, 5)}})
    )
    assert single.heads["note"].tolist()[1] == "no comparison with criterion verbosity"
    none = stats.label_check(world({"head_0": {"safety": (5, 5), "verbosity": (5, 5)}}))
    assert none.note == "no head claims a criterion of these comparisons"
    assert none.heads["label"].tolist() == ["not tested"]


def test_no_comparisons_give_tables_that_keep_their_columns():
    run = run_of(np.zeros((0, 2)), criterion=[], heads=["safety", "verbosity"])
    matrix = stats.label_matrix(run)
    assert matrix.columns.tolist() == list(stats.MATRIX)
    assert matrix["note"].tolist() == ["no comparisons"] * 2
    assert stats.label_check(run).heads["note"].tolist() == [
        "no comparison with criterion safety",
        "no comparison with criterion verbosity",
    ]
    assert stats.label_check(run).pairs.columns.tolist() == list(stats.PAIRS)
    assert stats.label_check(run).note
    assert stats.mtmm(run).columns.tolist() == list(stats.MTMM)


def test_tied_and_broken_heads_are_named_and_accuse_nobody():
    gaps = np.ones((60, 4))
    gaps[:, 1], gaps[:, 2] = 0, np.nan
    words = ["safety", "verbosity", "honesty"] * 20
    heads = ["safety", "verbosity", "honesty", "other-honesty"]
    check = stats.label_check(run_of(gaps, criterion=words, heads=heads))
    found = check.heads.set_index("head")["note"].to_dict()
    assert found["verbosity"] == "all comparisons tie"
    assert found["honesty"] == stats.NOT_NUMBERS
    assert set(check.pairs["head"]) | set(check.pairs["other"]) == {"safety", "other-honesty"}


def test_given_comparisons_replace_the_runs_own():
    run = label_world("correct", pairs=50)
    table = comparisons(run)
    assert set(stats.label_matrix(run, table[table["criterion"] == "safety"])["criterion"]) == {
        "safety"
    }


# ---- What would have been found ----


def test_an_exchange_of_the_size_told_is_found_at_that_rate():
    check = stats.label_check(label_world("correct", pairs=100))
    pair = check.pairs.iloc[0]
    m = len(check.pairs)
    expected = (scipy_stats.norm.isf(0.025 / m) + scipy_stats.norm.ppf(0.8)) * pair["se"]
    assert pair["mde"] == pytest.approx(expected, rel=0.02)
    power = [
        stats.label_check(
            label_world("swap", pairs=100, gap=pair["mde"] / 2, seed=seed)
        ).pairs.iloc[0]["wrong"]
        for seed in range(40)
    ]
    assert scipy_stats.binomtest(sum(power), 40, 0.8).pvalue > 0.001


def test_no_difference_of_win_rates_that_cannot_occur_is_said_to_be_detectable():
    check = stats.label_check(label_world("correct", concepts=6, pairs=3, seed=1))
    for table in (check.pairs, check.centred):
        least = scipy_stats.norm.isf(0.025 / len(table)) + scipy_stats.norm.ppf(0.8)
        wide = least * table["se"] > 2  # so t's quantile gives more still
        assert wide.any() and table.loc[wide, "mde"].isna().all()
        assert not (table["mde"] > 2).any()
    text = " ".join(words.takeaways(check))
    assert "no difference that can occur would have been found" in text and "nan" not in text


def test_names_as_a_whole_tell_what_they_would_have_shown():
    def family(seed=0, **world):
        check = stats.label_check(label_world("correct", pairs=100, seed=seed, **world))
        return check.families.iloc[0]

    mde = family(concepts=5, gap=0.05)["mde"]
    assert 0 < mde < 0.1
    fits = [family(concepts=5, gap=mde / 0.8, seed=s)["p"] for s in range(30)]
    assert np.mean(np.asarray(fits) < 0.05) > 0.6
    few = family(concepts=2)
    assert few["smallest_p"] == 0.5 and np.isnan(few["mde"])


def test_planted_names_are_concepts():
    assert set(NAMES) < set(QUALITIES)
    assert all(of_head(f"planted-{name}") == name for name in NAMES)
