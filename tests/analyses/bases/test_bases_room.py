"""Latent bases: who the users are, which names are given and which aren't, what new users gain."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats

from lib import load_items
from lib.analyses.bases import charts, few, naming, people, stats, words
from lib.analyses.bases.worlds import CONCEPTS, planted_people
from lib.extraction import extract
from lib.planted.worlds import make_run
from lib.training import bases


def run_of(subset, *, name="planted", features=4, heads=2, seed=0, **given):
    """A run of pairs whose subsets are these, with random states and scores."""
    generator = np.random.default_rng(seed)
    n = 2 * len(subset)
    score, hidden = generator.standard_normal((n, heads)), generator.standard_normal((n, features))
    return make_run(score, subset=subset, hidden=hidden, name=name, **given)


@pytest.fixture(scope="module")
def near():
    """A study of users near one of three known rewards, and those rewards."""
    given, stimuli, rewards, variance = planted_people(users=40, pairs=100, alpha=0.2, seed=1)
    return stats.study(given, stimuli, most=4), rewards, variance


# ---- Whose choices ----


def test_a_subset_stands_for_a_user_and_one_pair_is_no_user():
    given = people.people([run_of(["a", "a", "b", "b", "b", "c"])])
    assert given.kind == people.STAND_INS
    assert given.users == ["planted/a", "planted/b"] and len(given) == 5
    assert given.left_out == {people.FEW: 1}


def test_a_run_without_subsets_is_one_user_and_several_runs_are_pooled():
    runs = [run_of(["a"] * 3, name="one"), run_of(["x", "y"] * 2, name="two")]
    assert people.people(runs).users == ["one", "two/x", "two/y"]


def test_of_rm_bench_a_domain_with_both_styles_stands_for_a_user():
    run = run_of(["chat"] * 4, name="rm-bench")
    run["slot"] = ("response", np.asarray([0, 3, 0, 4, 0, 3, 0, 4]))
    assert people.people([run]).users == [
        "rm-bench: concise over concise",
        "rm-bench: concise over detailed plain",
    ]


def test_users_of_the_data_count_where_they_are_known_and_nobody_is_left_out():
    run = run_of(["a"] * 6)
    judged = pd.DataFrame(
        {"better": run["better"], "worse": run["worse"], "criterion": "c", "subset": "a"}
    ).assign(user=["ann", "bob", "ann", None, "bob", "cy"])
    given = people.people([run], judged)
    assert given.kind == people.USERS and given.users == ["ann", "bob"]
    assert given.left_out == {people.NOBODY: 1, people.FEW: 1}
    expected = run["hidden"].values[0] - run["hidden"].values[1]
    assert np.allclose(given.difference[0], expected)


def test_controlled_stimuli_are_kept_for_names():
    run = run_of(["a"] * 4, name=people.NAMED_ON)
    assert people.people([run]).note == "no data but stimuli/controlled"
    assert stats.study(people.people([run])).note


def test_states_that_were_not_kept_are_counted():
    run = run_of(["a"] * 4)
    run["hidden"].values[:2] = np.nan
    assert people.people([run]).left_out == {people.NO_STATE: 1}
    run["hidden"].values[:] = np.nan
    assert people.people([run]).note == "no comparison whose states were kept"


def test_simulated_users_choose_by_the_heads_that_they_are_said_to_mix():
    given = people.people([run_of(["a", "b"] * 400, heads=4, features=6)])
    made = people.simulated(given, users=30, pairs=200, alpha=0.05)
    assert made.kind == people.SIMULATED and len(made.users) == 30 and len(made.truth) == 3
    # a user near one head chooses by its sign, but for chance
    share = [
        (made.gaps[made.user == user][:, list(made.truth)] > 0).mean(axis=0).max()
        for user in made.users
    ]
    assert np.mean(share) > 0.8
    assert people.simulated(people.people([run_of(["a"] * 4, heads=1)])).note


def test_a_file_with_a_column_of_users_is_of_those(tiny_model, tmp_path):
    rows = [
        {
            "prompt": f"q{k}",
            "chosen": f"yes {k}",
            "rejected": f"no {k + 1}",
            "user": f"rater {k % 3}",
        }
        for k in range(9)
    ]
    path = tmp_path / "raters.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    items = load_items(f"file:{path}")
    run = extract(tiny_model, items, store=tmp_path / "states")
    given = people.people([run], items.comparisons)
    assert given.kind == people.USERS and given.users == ["rater 0", "rater 1", "rater 2"]
    assert not stats.study(given).note


# ---- Names ----


def test_bases_of_users_near_known_rewards_are_named_as_these(near):
    study, rewards, variance = near
    assert study.count == 3 and study.claimed
    cosine = bases.cosines(study.found.vectors(study.pairs), rewards, variance)
    own = [CONCEPTS[k] for k in cosine.argmax(axis=1)]
    named = study.bases["name"] != stats.UNNAMED
    assert named.sum() >= 2
    assert (study.bases["name"][named] == pd.Series(own)[named]).all()


def test_what_no_stimulus_moves_has_no_name():
    given, stimuli, *_ = planted_people(users=40, pairs=100, alpha=0.2, foreign=True, seed=1)
    table = stats.study(given, stimuli, most=4).bases
    assert (table["name"] == stats.UNNAMED).all() and (table["why"] != "").all()


def test_few_pairs_name_nothing_and_say_why():
    given, stimuli, *_ = planted_people(users=5, pairs=20, features=576)
    study = stats.study(given, stimuli)
    assert not study.claimed and set(study.bases["why"]) == {stats.UNSTEADY}


def test_without_stimuli_nothing_is_named(near):
    table = stats.study(near[0].people, None, most=3, count=3).bases
    assert set(table["why"]) == {stats.NO_STIMULI}


def test_heads_are_no_evidence_for_users_who_were_made_from_them():
    given, stimuli, rewards, _ = planted_people(users=30, pairs=80, alpha=0.2, seed=3)
    heads = {"gaps": given.difference @ rewards, "heads": ("a", "b", "c"), "claims": CONCEPTS[:3]}
    for kind, seen in ((people.SIMULATED, False), (people.USERS, True)):
        table = stats.study(replace(given, kind=kind, **heads), stimuli, most=3).bases
        assert table["sources"].str.contains(naming.HEADS).any() == seen
        assert (table["cosine"] > 0.9).all() and set(table["head"]) <= {"a", "b", "c"}


def test_the_name_is_where_a_basis_stands_apart_in_either_direction():
    rate = np.asarray([[0.9, 0.5, 0.6], [0.9, 0.2, 0.6]])
    concept, sign, margin = naming.stimuli_say(rate)
    assert concept.tolist()[1] == 1 and sign.tolist()[1] == -1 and margin[1] == pytest.approx(0.3)
    assert margin[0] == pytest.approx(0)  # first on nothing that isn't half and half


def test_the_label_test_is_that_of_the_worst_of_its_parts():
    generator = np.random.default_rng(0)
    concept = np.repeat(["honesty", "safety"], 40)
    stimuli = naming.Concepts(np.zeros((80, 1)), concept, np.arange(80))
    wins = (generator.random((80, 2)) < 0.5).astype(float)
    wins[concept == "safety", 0] = 1
    own, other = naming.tested(stimuli, wins, [("safety", 1), ("", 1)])
    assert own["rate"] == 1 and own["p"] < 1e-4 and own["elsewhere"] == "honesty"
    assert other["n"] == 0 and np.isnan(other["p"])
    against = naming.tested(stimuli, 1 - wins, [("safety", -1), ("", 1)])[0]
    assert against["p"] == pytest.approx(own["p"], rel=1e-6) and against["rate"] == 1
    # a basis that follows everything is named for nothing
    everything = naming.tested(stimuli, np.ones((80, 1)), [("safety", 1)])[0]
    assert everything["p"] == 1


def test_means_are_compared_by_welchs_test():
    generator = np.random.default_rng(0)
    one, other = generator.normal(1, 1, 30), generator.normal(0, 2, 50)
    expected = scipy_stats.ttest_ind(one, other, equal_var=False, alternative="greater").pvalue
    assert naming._exceeds(one, other) == pytest.approx(expected)


# ---- New users ----


def test_bases_gain_for_new_users_who_differ_and_more_pairs_gain_more(near):
    study, *_ = near
    methods = (few.BASES, few.ONE, few.ALONE)
    table = few.few_shot(study.people, study.pairs, 3, shots=(1, 32), trials=2, methods=methods)
    found = table.set_index(["method", "pairs"])
    assert found.loc[(few.BASES, 32), "gain_low"] > 0
    assert found.loc[(few.BASES, 32), "accuracy"] > found.loc[(few.BASES, 1), "accuracy"]
    assert found.loc[(few.BASES, 32), "accuracy"] > found.loc[(few.ALONE, 32), "accuracy"]
    assert (found.xs(few.ONE)["gain"] == 0).all()


def test_every_method_is_judged_on_the_same_users(near):
    given = near[0].people
    given = replace(given, gaps=given.difference @ near[1], heads=tuple("abc"))
    table = few.few_shot(given, near[0].pairs, 3, shots=(4,), trials=1)
    assert table["method"].tolist() == list(few.METHODS)
    assert table["users"].nunique() == 1
    audited = table.set_index("method").loc[few.AUDITED, "accuracy"]
    assert audited > table.set_index("method").loc[few.ALONE, "accuracy"]


def test_methods_that_rank_more_than_bases_are_named_first(near):
    study = near[0]
    table = pd.DataFrame(
        [(few.BASES, 0.6), (few.ONE, 0.5), (few.ALONE, 0.7), (few.AUDITED, 0.8)],
        columns=["method", "accuracy"],
    ).assign(whose=people.SIMULATED, pairs=4, users=9, low=0.4, high=0.9, gain_low=0.1)
    text = words.takeaways([study], table)[-1]
    assert "fewer than audited heads (0.800), a head a user (0.700); more than one head" in text
    assert "is shown from 4 pairs on" in text
    assert "isn't shown" in words.takeaways([study], table.assign(gain_low=-0.1))[-1]
    assert "fewer than" not in words.takeaways([study], table[:2])[-1]


def test_users_all_alike_have_one_basis_and_that_is_said():
    given, stimuli, *_ = planted_people(users=20, pairs=40, rewards=1, features=8, seed=1)
    study = stats.study(given, stimuli, most=3)
    assert study.count == 1
    assert "support one basis" in words.answer(study)


def test_one_user_shares_nothing_and_that_is_said():
    given = people.people([run_of(["a"] * 8)])
    study = stats.study(given)
    assert study.count == 1 and "there is one" in words.answer(study)
    assert few.few_shot(given, study.pairs, 2).empty
    assert "nothing to draw" in charts.few_shot(stats.new_users([study])).alternative


def test_a_chart_draws_the_users_that_its_menu_begins_with(near):
    study = near[0]
    methods = (few.BASES, few.ONE)
    table = few.few_shot(study.people, study.pairs, 3, shots=(1, 2), trials=1, methods=methods)
    both = pd.concat([table.assign(whose=name) for name in ("first", "second")])
    chart = charts.few_shot(both[["whose", *few.COLUMNS]])
    assert "latent bases" in chart.alternative and "2 kinds of users" in chart.alternative
    assert chart.svg().count("line mark container") == len(methods)
