"""The gate's coefficients, its worth, and what debiasing does, on worlds that are known."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from lib.analyses.gating import stats, words
from lib.analyses.gating.stats import (
    BEST,
    GATE,
    NO_GATE,
    NOTHING_REMOVED,
    RAW,
    RAW_UNIFORM,
    RULES,
    UNIFORM,
)
from lib.analyses.gating.worlds import LAMBDAS, debiased_world, gating_world, transform
from lib.models.gating import Gate, gated
from lib.planted.worlds import make_run


@pytest.fixture(scope="module")
def world():
    return gating_world()


@pytest.fixture(scope="module")
def table(world):
    return stats.rules(world)


def overall(table, rule):
    return table[(table["subset"] == "all") & (table["rule"] == rule)].iloc[0]


def test_the_score_is_rewards_times_coefficients(world):
    row = stats.identity(world).iloc[0]
    assert row["holds"]
    assert row["largest"] < 1e-5
    broken = world.copy(deep=True)
    broken["final"].values[7] += 0.01
    row = stats.identity(broken).iloc[0]
    assert not row["holds"]
    assert row["largest"] == pytest.approx(0.01, rel=1e-2)


def test_the_identity_of_debiased_rewards_is_checked_as_well():
    # r' = r M summed with g is the same number as r with g Mᵀ: by hand for one response.
    r, g = np.asarray([1.0, 2.0, 3.0]), np.asarray([0.5, 0.3, 0.2])
    assert (g * (r @ transform())).sum() == pytest.approx((r * (g @ transform().T)).sum())
    # r' = (1 − 1.5, 2 − .75, 0), so .5·(−.5) + .3·1.25
    assert (g * (r @ transform())).sum() == pytest.approx(0.125)


def test_the_removed_head_and_its_multiples_follow_from_the_coefficients(world):
    known = stats.recover(world)
    assert known.removed == 2
    assert known.lambdas == pytest.approx(LAMBDAS, abs=1e-4)
    assert known.matrix() == pytest.approx(transform(), abs=1e-4)


def test_a_real_gates_matrix_is_recovered():
    generator = np.random.default_rng(0)
    layers = [
        (generator.standard_normal((8, 5)), generator.standard_normal(8)),
        (generator.standard_normal((3, 8)), generator.standard_normal(3)),
    ]
    score = generator.standard_normal((400, 3))
    prompts = np.repeat(generator.standard_normal((200, 5)), 2, axis=0)
    read = gated(score, Gate(layers, 1.5, 1.0), transform(), prompts)
    run = make_run(score, final=read.final)
    run = run.assign(gate=(("item", "head"), read.gate[::2].astype(np.float32)))
    assert stats.recover(run).lambdas == pytest.approx(LAMBDAS, abs=1e-3)
    assert stats.identity(run).iloc[0]["holds"]


def test_a_gate_that_never_varies_does_not_tell_lambda(world):
    still = world.copy(deep=True)
    still["gate"].values[:] = still["gate"].values[0]
    known = stats.recover(still)
    assert known.removed == 2
    assert known.matrix() is None
    assert "varies too little" in known.note
    assert "varies too little" in stats.debiasing(still)["note"].iloc[0]
    rows = stats.rules(still)
    lacks = rows["rule"] == UNIFORM
    assert rows.loc[lacks, "note"].str.contains("varies too little").all()
    assert rows.loc[lacks, ["win_rate", "gain", "p", "mde"]].isna().all(axis=None)
    assert np.isfinite(rows.loc[~lacks, "win_rate"]).all(), "the removed head is known all the same"


def test_a_gate_that_knows_the_prompt_beats_every_fixed_rule(table):
    gate = overall(table, GATE)
    for rule in RULES[2:]:
        row = overall(table, rule)
        assert row["gain"] == pytest.approx(gate["win_rate"] - row["win_rate"])
        assert row["gain_low"] > 0
        assert row["p_adjusted"] < 0.001


def test_on_one_kind_of_prompt_its_mean_is_as_good(table):
    for subset in ("one", "two"):
        row = table[(table["subset"] == subset) & (table["rule"] == "gate's mean")].iloc[0]
        assert row["gain_low"] < 0 < row["gain_high"]
        assert row["p_adjusted"] > 0.05


def test_the_best_head_is_named_and_right_for_its_kind(table):
    for subset, head in (("one", "first"), ("two", "second")):
        row = table[(table["subset"] == subset) & (table["rule"] == "best single head")].iloc[0]
        assert row["chosen"] == head


def test_rules_are_chosen_off_the_prompts_they_are_judged_on():
    # Heads are coins: the best of 60 in hindsight wins far more than half of 60 prompts.
    generator = np.random.default_rng(1)
    score = generator.standard_normal((120, 60))
    run = make_run(score, final=score[:, 0])
    run = run.assign(gate=(("item", "head"), np.full((60, 60), 1 / 60, np.float32)))
    hindsight = (score[0::2] > score[1::2]).mean(axis=0).max()
    row = overall(stats.rules(run), "best single head")
    assert hindsight > 0.63
    assert row["low"] < 0.5 < row["high"]


def test_the_family_is_every_distinct_gain(world, table):
    assert table["p"].notna().sum() == 18
    smallest = table["p"].min()
    assert table["p_adjusted"].min() == pytest.approx(18 * smallest)
    only = np.full(world.sizes["comparison"], "only")
    single = world.assign(subset=("comparison", only))
    repeated = stats.rules(single)
    of_all = repeated[repeated["subset"] == "all"]
    assert of_all["p_adjusted"].min() == pytest.approx(6 * of_all["p"].min())
    of_only = repeated[repeated["subset"] == "only"]
    assert of_only["p_adjusted"].tolist()[1:] == pytest.approx(of_all["p_adjusted"].tolist()[1:])


def test_coefficients_by_hand():
    gate = np.asarray([[0.5, -0.2], [0.7, -0.4], [0.9, -0.6]], np.float32)
    score = np.zeros((6, 2), np.float32)
    run = make_run(score, prompt=[0, 0, 1], final=np.zeros(6))
    run = run.assign(gate=(("item", "head"), gate))
    rows = stats.coefficients(run).query("subset == 'all'").set_index("head")
    # the two items of prompt 0 count once, by the first of them
    assert rows["prompts"].tolist() == [2, 2]
    assert rows.loc["head_0", "mean"] == pytest.approx(0.7)
    assert rows.loc["head_1", "mean"] == pytest.approx(-0.4)
    assert rows.loc["head_1", "positive"] == 0


def test_entropy_by_hand():
    # Two prompts that give all to one head each: no entropy in a prompt, log 2 between them.
    gate = np.asarray([[1, 0], [0, 1]], np.float32)
    run = make_run(np.zeros((4, 2)), final=np.zeros(4)).assign(gate=(("item", "head"), gate))
    row = stats.entropy(run).iloc[0]
    assert row["entropy"] == pytest.approx(0)
    assert row["effective"] == pytest.approx(1)
    assert row["between"] == pytest.approx(np.log(2))
    even = run.assign(gate=(("item", "head"), np.full((2, 2), 0.5, np.float32)))
    row = stats.entropy(even).iloc[0]
    assert (row["share"], row["effective"]) == pytest.approx((1, 2))
    assert row["between"] == pytest.approx(0, abs=1e-7)


def test_debiasing_takes_verbosity_out(world):
    rows = stats.debiasing(world).set_index("head")
    assert rows.loc["first", "lambda"] == pytest.approx(0.5, abs=1e-4)
    assert rows.loc["first", "before"] > 0.35
    assert abs(rows.loc["first", "after"]) < 0.06
    assert rows.loc["first", "length_before"] > 0.35
    assert abs(rows.loc["first", "length_after"]) < 0.06
    assert rows.loc["verbosity", "before"] == pytest.approx(1)
    assert np.isnan(rows.loc["verbosity", "after"]), "its debiased score is nothing"


# ---- Debiasing, where it decides ----


def debiased_by_hand():
    """Four pairs of heads a and v, gate (1, −½): a = r·(1, 0), the score is a − v/2.

    The gaps are a: + + + −, v: 4 4 −1 −4, so a − v/2 is −1, −1, 1.5, 1.
    """
    gap = np.asarray([[1, 4], [1, 4], [1, -1], [-1, -4]], float)
    gate = np.asarray([1, 2, 1, 3])[:, None] * np.asarray([1, -0.5])
    score = np.stack([gap, np.zeros_like(gap)], axis=1).reshape(-1, 2)
    final = (score * np.repeat(gate, 2, axis=0)).sum(axis=1)
    run = make_run(score, heads=("a", "v"), final=final)
    return run.assign(gate=(("item", "head"), gate.astype(np.float32)))


def test_the_gate_stands_beside_itself_without_debiasing_by_hand():
    rows = stats.rules(debiased_by_hand(), folds=2)
    gate, raw, uniform = (overall(rows, rule) for rule in (GATE, RAW, UNIFORM))
    assert (gate["win_rate"], raw["win_rate"], raw["gain"]) == (0.5, 0.75, -0.25)
    # one head is weighed, so equal weights are a − v/2 through M and a without it
    assert uniform["win_rate"] == 0.5
    assert overall(rows, RAW_UNIFORM)["win_rate"] == 0.75
    assert uniform["raw_gain"] == 0.25, "the undebiased gate, less the rule"
    others = rows[~rows["rule"].isin([GATE, RAW])]
    assert others["raw_gain"].tolist() == pytest.approx((0.75 - others["win_rate"]).tolist())


def test_a_loss_that_debiasing_makes_is_told_as_its_own():
    rows = stats.rules(debiased_world(noise=3, seed=1))
    lost = overall(rows, RAW)
    assert lost["p_adjusted"] < 0.001 and lost["gain"] < 0
    assert overall(rows, BEST)["chosen"] == "head", "the head alone is the undebiased gate"
    assert overall(rows, BEST)["raw_gain"] == 0
    (text,) = words.debiased(rows)
    assert f"costs it {-lost['gain']:.3f} [{-lost['gain_high']:.3f}" in text
    assert "+0.000 [+0.000, +0.000] on best single head (head)" in text and "(not tested)" in text
    assert text in words.answer(rows)
    assert words.debiased(stats.rules(gating_world(200))) == []


def test_the_gate_is_worth_it_where_it_beats_fixed_rules_and_length(world, table):
    beside = stats.with_length(world, table)
    assert words.answer(beside).startswith("The gate is worth it: ")
    assert "on length" in words.answer(beside) and "on length" not in words.answer(table)
    level = beside.copy()
    level.loc[level["rule"] == "longer response", "gain_low"] = -0.01
    assert words.answer(level).startswith(
        "The gate is not shown to be worth it: no gain is shown on the longer response alone ("
    )
    unsure, lost = table.copy(), table.copy()
    ridge = (table["subset"] == "all") & (table["rule"] == "ridge")
    unsure.loc[ridge, "p_adjusted"] = 0.2
    assert "not shown to be worth it: no gain is shown on ridge (" in words.verdict(unsure)
    lost.loc[ridge, "gain"] *= -1
    assert words.verdict(lost).startswith("not worth it as it stands: it ranks fewer than ridge (")


def test_rules_at_chance_that_the_gate_gains_on_are_said_to_be_so(table):
    text = "none of which is shown above one half"
    assert text not in words.verdict(table.assign(low=0.51))
    assert text in words.verdict(table.assign(low=0.5))


def test_debiasing_costs_what_the_noise_that_it_puts_in_does():
    for noise in (1.0, 2.0):
        rows = stats.rules(debiased_world(4000, seed=2, noise=noise))
        for rule, own in ((GATE, noise), (RAW, 1.0)):
            cosine = 0.8 / np.sqrt(0.64 + 0.36 * own**2)
            expected = 1 - np.arccos(cosine) / np.pi  # sd .007
            assert overall(rows, rule)["win_rate"] == pytest.approx(expected, abs=0.025)


def test_what_differs_before_correction_alone_is_not_called_alike():
    table = stats.rules(gating_world(200))
    row = (table["subset"] == "all") & (table["rule"] == "ridge")
    table.loc[row, ["gain", "gain_low", "gain_high", "p_adjusted"]] = [0.05, 0.005, 0.095, 0.2]
    text = words.answer(table)
    assert "After Holm over 18 it " in text
    assert "before correction, and not after, from ridge (+0.050 [+0.005, +0.095], " in text
    assert "not told from ridge" not in text and "adjusted p = 0.2)" in text


def test_no_gain_that_cannot_occur_is_said_to_be_detectable():
    few = stats.rules(gating_world(6, seed=3), folds=2)
    half = few["gain_high"] - few["gain"]
    assert (half > 1).sum() > 5, "three prompts a part: normal theory would find 1.4 and more"
    assert few.loc[half > 1, "mde"].isna().all()
    assert few["mde"].max() == pytest.approx(0.808, abs=1e-3)
    assert few["mde"].notna().sum() > 1
    told = [words.answer(few, subset) for subset in few["subset"].unique()]
    assert any(text.endswith("where none that can occur would have been found.") for text in told)
    assert any(text.endswith("could show none that can occur).") for text in told)


# Bad input.


def everything(run):
    functions = (stats.identity, stats.coefficients, stats.entropy, stats.rules)
    return [function(run) for function in (*functions, stats.debiasing)]


def test_without_a_gate_every_table_says_so():
    for run in (make_run(np.zeros((20, 2))), make_run(np.zeros((20, 1)), final=np.zeros(20))):
        for table in everything(run):
            assert len(table)
            assert set(table["note"]) == {NO_GATE}


def test_one_gated_head_runs_through():
    score = np.random.default_rng(0).standard_normal((40, 1))
    score[0::2] += 1.5
    run = make_run(score, final=2 * score[:, 0])
    run = run.assign(gate=(("item", "head"), np.full((20, 1), 2, np.float32)))
    table = stats.rules(run)
    assert table["win_rate"].nunique() == 1, "every rule is that head"
    assert (table["gain"].dropna() == 0).all()
    assert stats.entropy(run).iloc[0]["entropy"] == pytest.approx(0)
    assert stats.debiasing(run)["note"].iloc[0] == NOTHING_REMOVED
    for rule in (RAW, UNIFORM):
        assert overall(table, rule)["note"] == NOTHING_REMOVED, "then it is no rule of its own"


def test_fewer_prompts_than_folds_say_so(world):
    few = gating_world(pairs=4)
    assert set(stats.rules(few)["note"]) == {
        "5 folds need as many prompts; there are 4",
        "5 folds need as many prompts; there are 2",
    }


def test_numbers_that_are_not_say_so(world):
    bad = world.copy(deep=True)
    bad["score"].values[0, 0] = np.nan
    assert stats.identity(bad).iloc[0]["note"] == "scores that are not numbers"
    assert overall(stats.rules(bad), GATE)["note"] == "scores that are not numbers"
    assert set(stats.debiasing(bad)["note"]) == {"scores that are not numbers"}
    bad = world.copy(deep=True)
    bad["gate"].values[0] = np.nan
    assert stats.identity(bad).iloc[0]["note"] == "scores that are not numbers"
    notes = stats.coefficients(bad).query("subset == 'all'")["note"]
    assert set(notes) == {"coefficients that are not numbers"}
    assert stats.entropy(bad).iloc[0]["note"] == "coefficients that are not numbers"


@pytest.mark.parametrize(
    ("name", "value", "note"),
    [
        ("final", np.nan, "scores that are not numbers"),
        ("final", np.inf, "scores that are not numbers"),
        ("final", -np.inf, "scores that are not numbers"),
        ("gate", np.nan, "coefficients that are not numbers"),
    ],
)
def test_a_gate_without_numbers_is_not_ranked_where_it_lacks_them(world, name, value, note):
    bad = world.copy(deep=True)
    bad[name].values[0] = value
    rows = stats.rules(bad)
    mine = bad["subset"].values[0]
    lost = rows["subset"].isin(["all", mine])
    assert set(rows.loc[lost, "note"]) == {note}
    assert rows.loc[lost, ["win_rate", "low", "high", "gain", "p", "mde"]].isna().all(axis=None)
    left = rows[~lost]
    assert set(left["note"]) == {""} and left["win_rate"].notna().all()
    uniform = left[left["rule"] == UNIFORM].iloc[0]
    before = stats.rules(world).set_index(["subset", "rule"])
    assert uniform["win_rate"] == before.loc[(uniform["subset"], UNIFORM), "win_rate"]
    assert note in words.answer(rows) and "nan" not in words.answer(rows)


def test_uniform_leaves_out_what_the_gate_never_weighs_though_a_coefficient_is_no_number():
    gaps = np.tile([[1.0, -1.0]], (20, 1))  # the second head, weighed as much, would make ties
    score = np.stack([gaps, np.zeros_like(gaps)], axis=1).reshape(-1, 2)
    run = make_run(score, final=score[:, 0], subset=["a"] * 10 + ["b"] * 10)
    gate = np.tile(np.float32([1, 0]), (20, 1))
    gate[0] = np.nan
    rows = stats.rules(run.assign(gate=(("item", "head"), gate))).set_index(["subset", "rule"])
    assert rows.loc[("b", RAW_UNIFORM), "win_rate"] == 1
    assert rows.loc[("a", RAW_UNIFORM), "note"] == "coefficients that are not numbers"


def test_coefficients_of_no_debiasing_kind_are_not_taken_for_one(world):
    odd = world.copy(deep=True)
    odd["gate"].values[:, 0] *= np.where(np.arange(len(odd["gate"])) % 2, 1, -1)
    known = stats.recover(odd)
    assert known.matrix() is None
    assert "not those of one removed head" in known.note


# ---- Length ----


def test_the_longer_response_stands_beside_the_rules_by_hand():
    final = np.array([1.0, 0, 1, 0, 0, 1, 1, 0])  # + + − +
    tokens = [9, 1, 1, 9, 5, 5, 1, 9]  # + − = −
    run = make_run(np.column_stack([final, final]), final=final, tokens=tokens)
    run = run.assign(gate=(("item", "head"), np.ones((4, 2), np.float32)))
    row = overall(stats.with_length(run, stats.rules(run, folds=2)), "longer response")
    assert row[["n", "win_rate"]].tolist() == [4, 1.5 / 4]
    assert row["gain"] == pytest.approx(3 / 4 - 1.5 / 4)
    assert row["gain_low"] < row["gain"] < row["gain_high"]


def test_the_longer_response_is_outside_the_family(world, table):
    both = stats.with_length(world, table)
    length = both[both["rule"] == "longer response"]
    assert length["subset"].tolist() == ["all", "one", "two"]
    assert length[["p", "p_adjusted", "mde"]].isna().all(axis=None)
    others = both[both["rule"] != "longer response"].reset_index(drop=True)
    pd.testing.assert_frame_equal(others, table)
    assert both["subset"].tolist() == sorted(both["subset"]), "the rows of a subset are together"


def test_without_a_gate_the_longer_response_has_no_gain():
    run = make_run(np.zeros((20, 2)), tokens=[9, 1] * 10)
    row = overall(stats.with_length(run, stats.rules(run)), "longer response")
    assert row["win_rate"] == 1 and np.isnan(row["gain"]) and row["note"] == ""
