"""Separability finds what was planted, finds nothing where nothing is, and says when it can't."""

from __future__ import annotations

import numpy as np
import pytest

from lib.analyses.separability import stats, words
from lib.analyses.separability.stats import VERDICTS, ceiling, learning_curve, probes, readout
from lib.analyses.separability.worlds import CONCEPT, separability_world
from lib.errors import ParameterError
from lib.planted.worlds import make_run
from lib.stats import probing


@pytest.fixture(scope="module")
def worlds():
    kinds = ("not read out", "absent", "head equals concept")
    return {kind: separability_world(kind, seed=1) for kind in kinds}


# The concept.


def test_a_concept_that_is_there_and_not_read_out_is_found_and_its_loss_placed(worlds):
    row = readout(worlds["not read out"]).iloc[0]
    assert (row["concept"], row["head"], row["verdict"]) == (CONCEPT, "claims", "not read out")
    assert row["low"] > 0.25
    assert row["loss"] == pytest.approx(row["to_scores"] + row["to_head"])
    assert row["loss"] == pytest.approx(row["probe"] - row["claimed"])
    assert row["to_scores"] > 0.2, "no head holds the concept, so the loss is before the scores"


def test_a_head_that_is_the_concept_loses_nothing(worlds):
    row = readout(worlds["head equals concept"]).iloc[0]
    assert row["verdict"] == "read out"
    assert row["low"] <= 0 <= row["high"]
    assert row["mde"] < 0.03, "it could have seen a small loss"


def test_a_concept_that_is_absent_is_not_found(worlds):
    assert probes(worlds["absent"]).iloc[0]["p_adjusted"] > 0.05
    assert readout(worlds["absent"]).iloc[0]["verdict"] == "not found"


def test_controls_stand_at_one_half_where_the_concept_is_found(worlds):
    row = probes(worlds["not read out"]).iloc[0]
    assert row["accuracy"] > 0.75
    assert row["p_adjusted"] < 1e-6
    assert row["flipped_low"] < 0.5 < row["flipped_high"]
    assert row["flipped"] == pytest.approx(0.5, abs=0.02)
    assert row["typed"] == pytest.approx(0.5, abs=0.03)
    assert row["length"] == pytest.approx(0.5, abs=0.05)


def test_null_worlds_are_found_no_more_often_than_the_level_says():
    # 400 label vectors that know nothing, each judged among 20 others of them. A binomial
    # test would call 4 to 7% of them found above one half.
    generator = np.random.default_rng(0)
    difference = generator.standard_normal((300, 40))
    labels = np.where(generator.random((300, 400)) < 0.5, -1.0, 1.0)
    prepared = probing.prepare(difference, np.arange(300))
    rate = probing.right(probing.cross_margins(prepared, labels)[0], labels).mean(axis=0)
    p = [probing.beyond(rate[i], np.roll(rate, -i)[1:21]) for i in range(400)]
    # 99.9% binomial bound of 400 draws at .05
    assert (np.asarray(p) < 0.05).mean() < 0.084
    assert rate.std() > 1.05 * 0.5 / np.sqrt(300), "which is why no binomial is used"


def test_the_interval_of_a_probe_holds_the_accuracy_that_was_planted():
    # P(prefer by u) averages E σ(2.5|z|) over a standard normal z.
    z = np.abs(np.random.default_rng(0).standard_normal(2_000_000))
    true = (1 / (1 + np.exp(-2.5 * z))).mean()
    row = probes(separability_world("not read out", pairs=3000, seed=3), flips=0).iloc[0]
    assert row["low"] < true < row["high"]
    assert np.isnan(row["flipped"])


def test_length_alone_is_seen_and_taken_out_of_the_readout():
    generator = np.random.default_rng(5)
    tokens = generator.integers(20, 400, (800, 2))
    tokens = np.sort(tokens, axis=1)[:, ::-1]  # people prefer the longer
    hidden = generator.standard_normal((1600, 6))
    hidden[:, 0] = np.log(tokens.reshape(-1))
    run = make_run(
        hidden[:, :1],
        hidden=hidden,
        tokens=tokens.reshape(-1),
        criterion=[CONCEPT] * 800,
        concepts=[CONCEPT],
    )
    found = probes(run, flips=3).iloc[0]
    assert found["length"] > 0.95
    assert found["accuracy"] > 0.95
    left = readout(run)
    assert left["probe"].item() < 0.56, "what is left without length is noise"
    answer = words.answer(probes(run, flips=3), left)
    assert answer.startswith("Beyond length, a linear probe finds 0 of 1 concepts in the state. ")
    assert f"{CONCEPT} is found only as length:" in answer


def test_few_comparisons_of_many_features_are_not_measurable():
    world = separability_world("not read out", pairs=150, features=120, strength=1.0, seed=4)
    row = readout(world, repeats=1).iloc[0]
    assert row["planted"] - row["recovered"] > stats.RECOVERED
    assert row["verdict"] == "not measurable"


def test_a_loss_that_is_shown_though_not_measurable_is_at_least_what_was_found():
    world = separability_world("not read out", pairs=150, features=120, seed=4)
    table = readout(world, repeats=1)
    (row,) = table.itertuples()
    assert row.verdict == "not measurable" and row.p_adjusted < 0.05
    # People choose by u with σ(2.5 u·Δh), which u itself ranks better than any probe of it does.
    assert row.loss < row.planted - 0.5
    (text,) = words.readout(table)
    assert text.startswith(f"claims loses part of {CONCEPT} that the state holds, at least ")


def test_a_concept_that_people_choose_by_length_alone_is_not_found_beyond_length():
    run = separability_world("only length", pairs=300, seed=2)
    assert probes(run, flips=9).iloc[0]["p_adjusted"] < 0.05
    assert readout(run, repeats=1, plants=0).iloc[0]["verdict"] != "not read out"
    assert readout(run, repeats=1, plants=0).iloc[0]["probe_p"] > 0.05


def test_more_prompts_help_until_they_do_not():
    table = learning_curve(separability_world("not read out", pairs=600, features=40, seed=2))
    assert table["share"].tolist() == list(stats.SHARES)
    assert table["n"].tolist() == pytest.approx([120, 240, 360, 480], abs=2)
    assert table["accuracy"].iloc[-1] > table["accuracy"].iloc[0]


def test_the_same_seed_gives_the_same_table(worlds):
    run = worlds["not read out"]
    one, other = (readout(run, repeats=1, plants=1, seed=7) for _ in range(2))
    assert one.equals(other)


def test_kinds_of_prompt_get_balanced_signs():
    types = np.repeat([0, 1, 2, 5], [10, 7, 6, 9])
    signs = stats._by_type(types, 50, np.random.default_rng(0))
    assert set(np.unique(signs)) == {-1.0, 1.0}
    assert all(
        len(np.unique(signs[types == kind, draw])) == 1 for kind in (0, 5) for draw in (0, 9)
    )
    assert np.abs(signs.sum(axis=0)).max() <= 10, "never more than the largest kind apart"
    assert len(np.unique(signs, axis=1).T) > 2, "and they are drawn"


# As published.


def test_the_published_probe_measures_what_its_components_dropped():
    run = separability_world("absent", pairs=2000, features=30, seed=8)
    options = {"components": (5, 15, 30)}
    probe = stats.separability_as_published(run, **options)
    kept = ceiling(run, **options)
    both = probe.merge(kept, on=["head", "components"])
    assert len(both) == 6
    assert (both["accuracy"] - both["predicted"]).abs().max() < 0.02
    assert (both["ceiling"] == 1).all(), "w·h itself is always right"
    whole = both[both["components"] == 30]
    assert whole["share"].tolist() == pytest.approx([1, 1])
    assert (whole["accuracy"] > 0.98).all()


def test_the_predicted_accuracy_is_sheppards():
    # A head that is one part inside the first component and three outside: R² = 1/4, and
    # 1 − arccos(1/2)/π = 1 − 1/3.
    generator = np.random.default_rng(9)
    basis = np.linalg.qr(generator.standard_normal((400, 3)))[0]
    basis -= basis.mean(axis=0)
    basis = np.linalg.qr(basis)[0]
    hidden = basis * [10.0, 2.0, 1.0]
    score = basis[:, 0] + np.sqrt(3) * basis[:, 1]
    row = ceiling(make_run(score[:, None], hidden=hidden), components=(1,)).iloc[0]
    assert row["share"] == pytest.approx(0.25, abs=1e-6)
    assert row["predicted"] == pytest.approx(2 / 3, abs=1e-6)


def test_fewer_responses_than_features_are_said_to_be_trivial():
    generator = np.random.default_rng(10)
    run = make_run(generator.standard_normal((20, 1)), hidden=generator.standard_normal((20, 50)))
    table = ceiling(run)
    assert table["ceiling"].tolist() == [1.0] * len(table)
    assert set(table["note"]) == {"fewer responses than features: any score is linear in them"}


# Bad input.


def everything(run):
    published = stats.separability_as_published(run)
    return published, ceiling(run), probes(run, flips=2), readout(run), learning_curve(run)


def test_without_states_every_table_says_so():
    run = separability_world("absent", pairs=30)
    run["hidden"].values[:] = np.nan
    run["gate_hidden"].values[:] = np.nan
    for table in everything(run):
        assert set(table["note"]) == {"no states were kept"}
    assert readout(run)["verdict"].tolist() == ["undefined"]


def test_a_sample_of_states_is_used_and_counted():
    run = separability_world("not read out", pairs=300)
    run["hidden"].values[:200] = np.nan
    assert probes(run, flips=2)["n"].tolist() == [200]
    assert readout(run)["n"].tolist() == [200]


def test_states_that_never_differ_say_so():
    run = make_run(np.random.default_rng(0).standard_normal((40, 2)), criterion=[CONCEPT] * 20)
    published, *_ = everything(run)
    assert set(published["note"]) == {"the states do not vary"}
    assert probes(run)["note"].tolist() == ["the states do not differ between responses"]


def test_fewer_prompts_than_folds_say_so():
    run = separability_world("absent", pairs=4)
    published, _, concepts, losses, curve = everything(run)
    for table in (concepts, losses, curve):
        assert table["note"].tolist() == ["5 folds need as many prompts; there are 4"]
    assert set(published["note"]) == {"8 responses are too few for 5 folds"}


def test_scores_that_are_not_numbers_say_so(worlds):
    run = worlds["not read out"].copy(deep=True)
    run["score"].values[3, 0] = np.nan
    published, share, _, losses, _ = everything(run)
    for table in (published, share):
        assert set(table[table["head"] == "claims"]["note"]) == {"scores that are not numbers"}
        assert set(table[table["head"] == "other"]["note"]) == {""}
    row = losses.iloc[0]
    assert (row["note"], row["verdict"]) == ("scores that are not numbers", "undefined")
    assert np.isfinite(row["scores"]), "the other head still has a probe"


def test_a_constant_head_and_one_head_alone_run_through():
    world = separability_world("head equals concept", pairs=300)
    one = world.isel(head=[0])
    row = readout(one).iloc[0]
    assert row["scores"] == pytest.approx(row["claimed"], abs=0.01)
    one["score"].values[:] = 1.0
    row = readout(one).iloc[0]
    assert (row["claimed"], row["scores"]) == (0.5, 0.5), "all ties"
    assert ceiling(one)["note"].iloc[0] == "the score does not vary"


def test_a_criterion_that_no_head_claims_says_so():
    run = separability_world("not read out", pairs=300)
    run["head_concept"].values[:] = ""
    row = readout(run).iloc[0]
    assert (row["note"], row["verdict"], row["head"]) == ("no head claims it", "undefined", "")
    assert row["probe"] > 0.7


def test_an_unknown_world_is_an_error():
    with pytest.raises(ParameterError, match="not read out"):
        separability_world("present")


def test_verdicts_are_those_documented(worlds):
    for world in worlds.values():
        assert set(readout(world, repeats=1, plants=2)["verdict"]) <= set(VERDICTS)
