"""Validity: the table by hand, the verdicts in order, and few false ones on planted worlds."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats
from statsmodels.stats.multitest import multipletests

from lib.analyses.data.stats import length_summary
from lib.errors import DataError
from lib.planted.worlds import from_gaps, make_run, validity_world
from lib.run import comparisons
from lib.stats import baselines, distinct, validity, validity_as_published
from lib.stats.winrates import first_component, tied, verdicts

FOUND = ("strong", "tracks", "inverted")


def run_of(gaps, **options):
    """A run in which each better response scores its gap and each worse one 0."""
    gaps = np.asarray(gaps, float)
    gaps = gaps[:, None] if gaps.ndim == 1 else gaps
    return from_gaps(gaps, **options)


def row(table: pd.DataFrame, head="head_0", subset="all") -> pd.Series:
    found = table[(table["head"] == head) & (table["subset"] == subset)]
    assert len(found) == 1
    return found.iloc[0]


HAND = {
    # Prompts 0, 0, 1, 2; subsets x, x, y, y.
    "gaps": [[1, 1], [2, 3], [-1, 2], [0, 4]],
    "prompt": [0, 0, 1, 2],
    "subset": ["x", "x", "y", "y"],
    "heads": ["mixed", "wins"],
}


@pytest.fixture(scope="module")
def hand_worked() -> pd.DataFrame:
    return validity(run_of(**HAND))


def test_one_row_a_head_and_subset_with_all_first(hand_worked):
    assert hand_worked[["subset", "head"]].values.tolist() == [
        ["all", "mixed"],
        ["all", "wins"],
        ["x", "mixed"],
        ["x", "wins"],
        ["y", "mixed"],
        ["y", "wins"],
    ]


def test_counts_rates_and_effect_by_hand(hand_worked):
    mixed = row(hand_worked, "mixed")
    assert mixed[["n", "prompts", "wins", "ties", "losses"]].tolist() == [4, 3, 2, 1, 1]
    assert mixed["win_rate"] == (2 + 0.5) / 4
    # Gaps 1, 2, −1, 0: mean .5, sum of squares about it 5, so sd √(5/3).
    assert mixed["d_z"] == pytest.approx(0.5 / np.sqrt(5 / 3))
    only = row(hand_worked, "mixed", "y")
    assert only[["n", "prompts", "wins", "ties", "losses"]].tolist() == [2, 2, 0, 1, 1]
    assert only["win_rate"] == 0.25


def test_p_by_hand(hand_worked):
    # Net wins by prompt: mixed 2, −1, 0 (every ±2 ±1 is as far as 1); wins 2, 1, 1 (all signs
    # alike in 2 of 8 patterns); within y wins has 1, 1 (2 of 4).
    assert row(hand_worked, "mixed")["p"] == 1
    assert row(hand_worked, "wins")["p"] == pytest.approx(2 / 8)
    assert row(hand_worked, "wins", "y")["p"] == pytest.approx(2 / 4)


def test_a_subset_of_one_prompt_has_no_interval_to_speak_of(hand_worked):
    only = row(hand_worked, "wins", "x")
    assert (only["prompts"], only["low"], only["high"], only["p"]) == (1, 0, 1, 1)
    assert np.isnan(only["mde"])
    assert only["verdict"] == "inconclusive"


def test_the_columns_are_the_documented_ones(hand_worked):
    documented = (
        "head subset n prompts wins ties losses win_rate low high boot_low boot_high "
        "d_z p p_adjusted verdict mde note agreement advantage p_length length "
        "relation claimed opposed"
    )
    assert hand_worked.columns.tolist() == documented.split()


def test_the_family_is_every_head_and_subset():
    generator = np.random.default_rng(0)
    gaps = generator.normal([0.1, 0.15, 0.2], size=(300, 3))
    table = validity(run_of(gaps, subset=["x"] * 100 + ["y"] * 200), draws=10)
    assert len(table) == 9
    expected = multipletests(table["p"], method="holm")[1]
    assert table["p_adjusted"].to_numpy() == pytest.approx(expected)


def test_rows_of_an_only_subset_repeat_all_and_count_once():
    gaps = np.random.default_rng(0).normal([0.1, 0.15, 0.2], size=(200, 3))
    table = validity(run_of(gaps, subset=["only"] * 200), draws=10)
    whole, only = table[table["subset"] == "all"], table[table["subset"] == "only"]
    columns = [name for name in table.columns if name != "subset"]
    pd.testing.assert_frame_equal(
        whole[columns].reset_index(drop=True), only[columns].reset_index(drop=True)
    )
    expected = multipletests(whole["p"], method="holm")[1]
    assert whole["p_adjusted"].to_numpy() == pytest.approx(expected)


def test_one_named_subset_beside_unnamed_rows_is_its_own_question():
    # Rows without a subset are filed under "all"; the named rows alone lose what all win.
    gaps = np.concatenate([np.full(200, 1.0), np.full(20, -1.0)])
    table = validity(run_of(gaps, subset=["all"] * 200 + ["odd"] * 20), draws=10)
    odd = row(table, subset="odd")
    assert odd["n"] == 20
    assert odd["p_adjusted"] == pytest.approx(2 * 0.5**20 * 1)  # the larger of two: factor 1
    assert odd["verdict"] == "inverted"
    assert row(table)["n"] == 220
    assert row(table)["verdict"] == "strong"


def judge(p_adjusted, win_rate, low, high, p=0.01, mde=0.05):
    columns = {"p": p, "p_adjusted": p_adjusted, "win_rate": win_rate, "low": low, "high": high}
    return verdicts(pd.DataFrame([columns | {"mde": mde}]))[0]


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ((0.01, 0.75, 0.65, 0.85), "strong"),
        ((0.01, 0.75, 0.6499, 0.85), "tracks"),
        ((0.01, 0.52, 0.51, 0.53), "tracks"),  # inside the chance band, but found
        ((0.01, 0.48, 0.47, 0.49), "inverted"),
        ((0.05, 0.75, 0.66, 0.85), "inconclusive"),  # not below alpha
        ((0.90, 0.50, 0.45, 0.55), "chance"),
        ((0.90, 0.50, 0.449, 0.55), "inconclusive"),
        ((0.90, 0.50, 0.45, 0.551), "inconclusive"),
        ((0.90, 0.70, 0.40, 0.90), "inconclusive"),
    ],
)
def test_verdicts_in_their_order(values, verdict):
    assert judge(*values) == verdict


@pytest.mark.parametrize("mde", [0.0501, np.nan])
def test_a_short_interval_is_no_chance_where_its_test_could_not_tell(mde):
    assert judge(0.90, 0.50, 0.47, 0.53, mde=mde) == "inconclusive"


def test_without_a_p_every_verdict_is_undefined():
    assert judge(np.nan, 0.5, 0.49, 0.51, p=np.nan) == "undefined"


def test_undefined_heads_are_named_and_spoil_no_other():
    gaps = np.random.default_rng(0).standard_normal((100, 4)) + 0.5
    gaps[:, 1] = 0
    gaps[7, 2] = np.nan
    gaps[9, 3] = np.inf
    table = validity(run_of(gaps, heads=["good", "constant", "nan", "infinite"]), draws=10)
    assert table["verdict"].tolist()[1:] == ["undefined"] * 3
    assert row(table, "constant")["note"] == "all comparisons tie"
    assert row(table, "nan")["note"] == row(table, "infinite")["note"]
    assert row(table, "nan")["note"] == "scores that are not numbers"
    assert table.loc[1:, ["p", "p_adjusted"]].isna().all(axis=None)
    rates = ["wins", "win_rate", "low", "high", "boot_low", "boot_high", "d_z", "mde"]
    assert table.loc[2:, rates].isna().all(axis=None)
    alone = row(validity(run_of(gaps[:, 0], heads=["good"]), draws=10), "good")
    assert row(table, "good")["p_adjusted"] == alone["p"] == alone["p_adjusted"]
    assert alone["note"] == ""


def test_all_ties_win_half_and_have_no_p():
    tied = row(validity(run_of(np.zeros(50)), draws=10))
    assert tied[["wins", "ties", "losses", "win_rate"]].tolist() == [0, 50, 0, 0.5]
    assert np.isnan(tied["p"]) and np.isnan(tied["d_z"])
    assert tied["verdict"] == "undefined"


def test_a_nan_outside_the_comparisons_is_no_matter():
    run = run_of(np.full((40, 1), 1.0))
    run["score"][0, 0] = np.nan
    table = comparisons(run).iloc[1:]
    assert row(validity(run, table, draws=10))["wins"] == 39
    assert row(validity(run, draws=10))["verdict"] == "undefined"


def test_a_nan_in_one_subset_leaves_the_others():
    gaps = np.full((60, 1), 1.0)
    gaps[0] = np.nan
    table = validity(run_of(gaps, subset=["x"] * 30 + ["y"] * 30), draws=10)
    assert table["verdict"].tolist() == ["undefined", "undefined", "strong"]


def test_no_comparisons_give_rows_that_say_so():
    table = validity(run_of(np.zeros((0, 2))))
    assert table["n"].tolist() == [0, 0]
    assert table["note"].tolist() == ["no comparisons"] * 2
    assert table["verdict"].tolist() == ["undefined"] * 2


def test_turning_the_comparisons_around_turns_the_verdict():
    run = validity_world()
    forth = validity(run, draws=10).set_index("head")
    table = comparisons(run).rename(columns={"better": "worse", "worse": "better"})
    back = validity(run, table, draws=10).set_index("head")
    assert back["win_rate"].to_numpy() == pytest.approx(1 - forth["win_rate"].to_numpy())
    assert back["p"].to_numpy() == pytest.approx(forth["p"].to_numpy(), nan_ok=True)
    assert forth.loc["inverted", "verdict"] == back.loc["follows", "verdict"] == "inverted"


def test_comparisons_of_other_items_are_refused():
    run = run_of(np.ones(5))
    other = comparisons(run).assign(item="elsewhere")
    with pytest.raises(DataError, match="5 of other items"):
        validity(run, other)


def test_chance_takes_many_prompts():
    verdict = {
        n: row(validity(run_of(np.resize([1.0, -1.0], n)), draws=10))["verdict"]
        for n in (300, 1052)
    }
    assert verdict == {300: "inconclusive", 1052: "chance"}


def test_rows_of_a_prompt_are_not_counted_as_independent():
    # 40 of 60 prompts won as a whole, six rows each: p is that of 40 of 60, not 240 of 360.
    gaps = np.repeat(np.repeat([1.0, -1.0], [40, 20]), 6)
    found = row(validity(run_of(gaps, prompt=np.repeat(np.arange(60), 6)), draws=10))
    assert found["p"] == pytest.approx(scipy_stats.binomtest(40, 60).pvalue)
    assert found["prompts"] == 60


def test_the_smallest_effect_is_the_exact_tests():
    """12 prompts in a family of 40: all 12 must be won (2/4096 < .05/40), and q¹² = .8."""
    gaps = np.ones((12, 40))
    gaps[0] = -1  # 11 of 12
    found = validity(run_of(gaps), draws=10)["mde"].to_numpy()
    assert found == pytest.approx(np.full(40, 0.8 ** (1 / 12) - 0.5), abs=1e-6)


def test_few_prompts_have_no_smallest_effect():
    """5 of 5: p can't be below 2/32, so nothing would be found."""
    found = row(validity(run_of(np.ones(5)), draws=10))
    assert (found["p"], found["verdict"]) == (1 / 16, "inconclusive")
    assert np.isnan(found["mde"])


def test_ties_are_no_evidence_of_chance():
    gaps = np.zeros(2000)
    gaps[:3] = 1, -1, 1
    found = row(validity(run_of(gaps), draws=10))
    assert found["low"] > 0.45 and found["high"] < 0.55
    assert found["verdict"] == "inconclusive" and np.isnan(found["mde"])


def test_ties_and_prompts_that_level_dilute_the_smallest_effect():
    """20 prompts of two rows, 10 of them 1:1 and 10 won by two: q of 10, times 20 of 40 rows."""
    gaps = np.r_[np.resize([1.0, -1.0], 20), np.ones(20)]
    found = row(validity(run_of(gaps, prompt=np.repeat(np.arange(20), 2)), draws=10))
    # 10 prompts: 9 must go one way (22/1024 < .05)
    assert found["mde"] == pytest.approx((scipy_stats.beta.ppf(0.8, 9, 2) - 0.5) / 2, abs=1e-6)


# Beside length.


def with_tokens(gaps, longer, **given):
    """Pairs whose better response is longer (1), shorter (−1) or as long (0)."""
    run = run_of(gaps, **given)
    tokens = np.full(run.sizes["response"], 10)
    tokens[::2] += np.asarray(longer)
    return run.assign(n_response_tokens=("response", tokens))


@pytest.mark.parametrize(("side", "name"), [(1, "longer response"), (-1, "shorter response")])
def test_a_head_that_is_length_says_so(side, name):
    longer = side * np.repeat([1, -1], [65, 15])
    found = row(validity(with_tokens(side * longer.astype(float), longer), draws=10))
    assert (found["verdict"], found["length"]) == ("strong", f"as the {name}")
    assert (found["agreement"], found["advantage"]) == (1, 0)


@pytest.mark.parametrize(("apart", "said"), [(4, "as the longer response"), (5, "")])
def test_a_reading_is_lengths_from_95_in_a_hundred_on(apart, said):
    longer = np.repeat([1, -1], 50)
    gaps = longer.astype(float)
    gaps[: apart + 1] *= -1
    assert row(validity(with_tokens(gaps, longer), draws=10))["length"] == said


def test_an_advantage_over_length_is_tested_prompt_by_prompt():
    """Length wins 60 of 100. One head wins 30 more; one wins 61, another 40 that length lost.

    30 prompts against none: p = 2/2³⁰. 31 against 30: p = 1. In a family of two.
    """
    longer = np.repeat([1, -1], [60, 40])
    more, other = np.ones(100), np.ones(100)
    more[90:] = -1
    other[:30], other[91:] = -1, -1
    table = validity(with_tokens(np.column_stack([more, other]), longer, heads=["m", "o"]), draws=9)
    first, second = row(table, "m"), row(table, "o")
    assert (first["verdict"], first["length"]) == ("strong", "")
    assert first["advantage"] == pytest.approx(0.3)
    assert first["p_length"] == pytest.approx(2 * 2 / 2**30)
    assert (second["verdict"], second["length"]) == ("tracks", "no more than the longer response")
    assert second["advantage"] == pytest.approx(0.01) and second["p_length"] == 1


def test_an_inverted_head_is_set_against_what_loses_as_much():
    """The longer response wins 80 of 100; the head wins 20, but not those of the shorter."""
    longer = np.repeat([1, -1], [80, 20])
    gaps = -np.ones(100)
    gaps[:20] = 1
    found = row(validity(with_tokens(gaps, longer), draws=10))
    assert (found["verdict"], found["length"]) == ("inverted", "no more than the shorter response")


# As published.


def test_the_published_rule_by_hand():
    # Gaps 1, 2, 3, all above 0: one-sided exact Wilcoxon p is 1/2³; mean 2, sd √(2/3).
    found = row(validity_as_published(run_of([1.0, 2.0, 3.0])))
    assert found["accuracy"] == 1
    assert found["p"] == pytest.approx(1 / 8)
    assert found["cohens_d"] == pytest.approx(2 / np.sqrt(2 / 3))
    assert not found["valid"]


@pytest.mark.parametrize(("won", "valid"), [(13, True), (12, False)])
def test_a_tie_counts_as_a_loss_and_the_threshold_is_met_from_above(won, valid):
    found = row(validity_as_published(run_of(np.repeat([1.0, 0.0], [won, 20 - won]))))
    assert found["accuracy"] == won / 20
    assert found["valid"] == valid


def test_skewed_gaps_fool_wilcoxon_but_not_the_exact_test():
    # 50 gaps of 3 and 50 of −1: wins as often as it loses.
    run = run_of(np.repeat([3.0, -1.0], 50))
    published, ours = row(validity_as_published(run)), row(validity(run, draws=10))
    assert published["accuracy"] == ours["win_rate"] == 0.5
    assert published["cohens_d"] == pytest.approx(0.5)
    assert published["p"] < 1e-4
    assert ours["p"] == 1
    assert ours["verdict"] == "inconclusive"


def test_the_published_rule_looks_one_way_only():
    run = run_of(np.full(50, -1.0))
    assert row(validity_as_published(run))["p"] == pytest.approx(1)
    assert row(validity(run, draws=10))["verdict"] == "inverted"


def test_the_published_table_makes_no_number_of_nan_or_of_ties():
    gaps = np.ones((30, 3))
    gaps[3, 0], gaps[:, 1] = np.nan, 0
    table = validity_as_published(run_of(gaps, heads=["nan", "tied", "good"])).set_index("head")
    assert table.loc["nan", ["accuracy", "cohens_d", "p"]].isna().all()
    assert table.loc["tied", "accuracy"] == 0
    assert table.loc["tied", ["cohens_d", "p"]].isna().all()
    assert table["valid"].tolist() == [False, False, True]


# Planted worlds.


def null_world(seed: int, prompts: int = 40, per_prompt: int = 4):
    """Four heads that win half of the time, with clusters, ties and very skewed gaps.

    A prompt's own rate is Beta(½, ½), so two rows of a prompt correlate .5. A win is worth
    ten times a loss, which moves every mean and every rank. Two heads share their prompts'
    rates, and half of the rows are in each of two subsets.
    """
    generator = np.random.default_rng(seed)
    rate = generator.beta(0.5, 0.5, (prompts, 4))
    rate[:, 1] = rate[:, 0]
    prompt = np.repeat(np.arange(prompts), per_prompt)
    won = generator.random((len(prompt), 4)) < rate[prompt]
    gaps = np.where(won, 10.0, -1.0) * generator.exponential(1, won.shape)
    gaps[:, 3] *= generator.random(len(prompt)) < 0.7
    subset = np.where(prompt % 2, "odd", "even").tolist()
    return run_of(gaps, prompt=prompt, subset=subset)


def test_false_verdicts_in_either_direction_stay_below_six_in_a_hundred():
    worlds = 250
    false = sum(
        validity(null_world(seed), draws=1)["verdict"].isin(FOUND).any() for seed in range(worlds)
    )
    assert scipy_stats.binomtest(int(false), worlds).proportion_ci(0.99).low <= 0.06
    assert false > 0  # the worlds do put the level to the test


def test_the_same_worlds_fool_the_published_test():
    fooled = [(validity_as_published(null_world(seed))["p"] < 0.05).any() for seed in range(30)]
    assert np.mean(fooled) > 0.9


def test_heads_of_known_validity_get_their_verdicts_and_the_ignorant_ones_none():
    worlds, false = 100, 0
    for seed in range(worlds):
        verdict = validity(validity_world(300, seed=seed), draws=1).set_index("head")["verdict"]
        assert verdict["follows"] in ("strong", "tracks")
        assert verdict["inverted"] == "inverted"
        assert verdict["constant"] == "undefined"
        false += verdict[["shuffled", "length"]].isin(FOUND).any()
    assert scipy_stats.binomtest(int(false), worlds).proportion_ci(0.99).low <= 0.06


def test_a_planted_strength_gives_its_win_rate():
    # A shift of .8 between two unit normals: Φ(.8/√2) = .7142.
    found = validity(validity_world(20_000), draws=1).set_index("head")
    assert found.loc["follows", "win_rate"] == pytest.approx(0.7142, abs=0.01)
    assert found.loc["inverted", "win_rate"] == pytest.approx(0.2858, abs=0.01)


# What is shown of a table by subset.


def sometimes_labelled():
    score = np.random.default_rng(0).standard_normal((240, 2))
    return make_run(score, heads=["a", "b"], subset=["all", "hard"] * 60)


def test_a_subset_of_some_rows_is_shown_though_it_is_the_only_other_one():
    run = sometimes_labelled()
    for table in (validity(run), validity_as_published(run), baselines(run), length_summary(run)):
        assert distinct(table)["subset"].tolist() == table["subset"].tolist()
        assert set(table["subset"]) == {"all", "all (subset)", "hard"}
    table = validity(run)
    # Two heads on all rows and on each half of them: the smallest p is multiplied by 6.
    assert table["p_adjusted"].min() == pytest.approx(min(1, 6 * table["p"].min()))
    assert len(distinct(table)) == 6


@pytest.mark.parametrize("taken", [[], ["all (subset)"]])
def test_a_part_called_all_keeps_its_row_and_says_that_it_is_a_part(taken):
    """8 of 10 rows are of "all" and won, the others lost: 8 of 8 there, 8 of 10 on the whole."""
    others = [*taken, "odd", "odd"][:2]
    run = run_of(np.repeat([1.0, -1.0], [8, 2]), subset=["all"] * 8 + others)
    name = "all (subset)" + " (subset)" * len(taken)
    tables = (validity(run), validity_as_published(run), baselines(run, directions=2))
    for table in (*tables, length_summary(run)):
        n = table.drop_duplicates("subset").set_index("subset")["n"]
        assert n["all"] == 10 and n[name] == 8 and set(n.index) == {"all", name, *others}
    assert row(tables[0], subset=name)["win_rate"] == 1
    assert row(tables[0])["win_rate"] == 0.8


def test_a_subset_of_all_rows_is_not_shown():
    run = run_of(np.ones((6, 2)), subset=["x"] * 6)
    run["hidden"][4:] = np.nan  # random directions stand on fewer comparisons
    for table in (validity(run), baselines(run), length_summary(run)):
        assert set(table["subset"]) == {"all", "x"}
        assert set(distinct(table)["subset"]) == {"all"}


def test_subsets_without_all_stay():
    table = validity(sometimes_labelled())
    hard = table[table["subset"] == "hard"]
    assert len(distinct(hard)) == 2


# Baselines.


def test_longer_and_shorter_mirror_each_other():
    tokens = [30, 10, 20, 20, 10, 40, 50, 5]  # longer wins, tie, loss, win
    table = baselines(run_of(np.ones(4), tokens=tokens)).set_index("baseline")
    assert table.loc["longer response", "win_rate"] == (2 + 0.5) / 4
    assert table.loc["shorter response", "win_rate"] == (1 + 0.5) / 4


def test_baselines_have_a_row_for_each_subset():
    table = baselines(run_of(np.ones(4), subset=["x", "x", "y", "y"]))
    assert table.columns.tolist() == [
        "baseline",
        "subset",
        "n",
        "win_rate",
        "low",
        "high",
        "note",
    ]
    for _, rows in table.groupby("baseline"):
        assert rows[["subset", "n"]].values.tolist() == [["all", 4], ["x", 2], ["y", 2]]
    assert "gated score" not in set(table["baseline"])


def gated(run):
    shape = (run.sizes["item"], run.sizes["head"])
    return run.assign(gate=(("item", "head"), np.ones(shape, np.float32)))


def test_the_models_one_score_is_a_baseline_named_by_whether_there_is_a_gate():
    final = np.asarray([1.0, 0.0] * 3 + [0.0, 1.0])
    run = run_of(np.ones((4, 2)), final=final)
    for given, name, other in (
        (run, "final score", "gated score"),
        (gated(run), "gated score", "final score"),
    ):
        table = baselines(given).set_index("baseline")
        assert table.loc[name, "win_rate"] == 0.75
        assert other not in table.index
    assert "first component of the heads" in table.index


def test_one_head_has_no_baseline_that_repeats_it():
    run = run_of(np.ones(4), final=np.asarray([1.0, 0.0] * 4))
    assert baselines(run)["baseline"].tolist() == [
        "longer response",
        "shorter response",
        "random direction",
    ]
    assert "gated score" in set(baselines(gated(run))["baseline"])


def test_random_directions_of_one_feature_win_all_or_nothing():
    hidden = np.tile([[1.0], [0.0]], (30, 1))
    table = baselines(run_of(np.ones(30), hidden=hidden)).set_index("baseline")
    found = table.loc["random direction"]
    assert (found["low"], found["high"], found["n"]) == (0, 1, 30)
    assert 0.35 < found["win_rate"] < 0.65  # the share of 200 that point up


def test_random_directions_in_random_states_win_about_half():
    hidden = np.random.default_rng(5).standard_normal((800, 64))
    table = baselines(run_of(np.ones(400), hidden=hidden)).set_index("baseline")
    found = table.loc["random direction"]
    assert found["win_rate"] == pytest.approx(0.5, abs=0.02)
    # One direction's win rate over 400 rows has sd .025: ± 1.96 of it.
    assert (found["low"], found["high"]) == pytest.approx((0.45, 0.55), abs=0.015)


def test_random_directions_use_the_states_that_were_kept():
    run = run_of(np.ones(30), hidden=np.tile([[1.0], [0.0]], (30, 1)))
    run["hidden"][20:] = np.nan
    assert baselines(run).set_index("baseline").loc["random direction", "n"] == 10
    run["hidden"][:] = np.nan
    none = baselines(run).set_index("baseline").loc["random direction"]
    assert (none["n"], none["note"]) == (0, "no states kept")
    assert np.isnan(none["win_rate"])


def test_the_first_component_is_that_of_the_standardised_heads():
    scores = np.random.default_rng(0).standard_normal((200, 3))
    scores[:, 1] = 50 * scores[:, 0] + scores[:, 1]
    z = (scores - scores.mean(0)) / scores.std(0)
    expected = z @ np.linalg.svd(z)[2][0]
    found = first_component(scores)
    assert abs(np.corrcoef(found, expected)[0, 1]) == pytest.approx(1)
    assert np.corrcoef(found, scores[:, 0])[0, 1] > 0.9  # the sign that most heads have


def test_the_first_component_leaves_out_heads_without_values():
    scores = np.random.default_rng(0).standard_normal((50, 3))
    scores[:, 1], scores[4, 2] = 7.0, np.nan
    assert np.corrcoef(first_component(scores), scores[:, 0])[0, 1] == pytest.approx(1)
    assert first_component(scores[:, 1:]) is None


# Ties.


def test_the_share_of_ties_by_hand():
    gaps = np.array([[1.0, 0, np.nan], [0, 0, 1], [-1, 0, 1], [0, 0, 1]])
    table = validity(run_of(gaps), draws=1)
    share = table[table["subset"] == "all"].assign(share=tied)["share"]
    assert share.tolist() == pytest.approx([2 / 4, 1, np.nan], nan_ok=True)


def test_a_subset_of_nothing_has_no_share_of_ties():
    table = pd.DataFrame({"ties": [np.nan, 0.0], "n": [0, 5]})
    assert tied(table).tolist() == pytest.approx([np.nan, 0], nan_ok=True)
