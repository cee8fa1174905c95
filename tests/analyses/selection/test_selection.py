"""Best-of-n is what all subsets give; picks are judged against random ones and length."""

from __future__ import annotations

import itertools
import json
from math import comb

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats

from lib.analyses.selection import charts, stats, words
from lib.analyses.selection.worlds import candidate_world, candidates_run
from lib.data import load_items
from lib.errors import ParameterError
from lib.extraction import extract, extract_stream, load_run, save_run
from lib.planted.worlds import make_run
from lib.run import pool


def by_hand(score: np.ndarray, values: np.ndarray, most: int) -> np.ndarray:
    """Every subset of every item, ties shared out: (items, n, rules)."""
    items, k, rules = score.shape
    out = np.zeros((items, most, rules))
    for i, n, rule in itertools.product(range(items), range(1, most + 1), range(rules)):
        for subset in itertools.combinations(range(k), n):
            top = max(score[i, j, rule] for j in subset)
            tied = [values[i, j] for j in subset if score[i, j, rule] == top]
            out[i, n - 1, rule] += sum(tied) / len(tied) / comb(k, n)
    return out


@pytest.mark.parametrize("k", [3, 4, 6, 7])
@pytest.mark.parametrize("ties", [False, True])
def test_a_pick_is_the_mean_over_all_subsets(k, ties):
    generator = np.random.default_rng(k)
    score = generator.standard_normal((5, k, 3))
    if ties:
        score = generator.integers(0, 3, score.shape).astype(float)
        score[:, :, 2] = 1
    values = generator.integers(1, 6, (5, k)).astype(float)
    found = stats.picked(score, values, k)
    np.testing.assert_allclose(found, by_hand(score, values, k))
    np.testing.assert_allclose(found[:, 0], values.mean(axis=1)[:, None] * np.ones((1, 3)))


@pytest.mark.parametrize("k", [3, 8, 64])
def test_of_ranks_it_is_the_known_expected_maximum(k):
    ranks = np.random.default_rng(0).permutation(np.arange(1.0, k + 1))[None]
    n = np.arange(1, k + 1)
    np.testing.assert_allclose(
        stats.picked(ranks[:, :, None], ranks, k)[0, :, 0], n * (k + 1) / (n + 1)
    )
    np.testing.assert_allclose(
        stats.picked(-ranks[:, :, None], ranks, k)[0, :, 0], (k + 1) / (n + 1)
    )
    right = (ranks == k).astype(float)
    np.testing.assert_allclose(stats.picked(ranks[:, :, None], right, k)[0, :, 0], n / k)


def test_gold_itself_has_no_regret_and_a_rule_that_is_it_neither():
    gold = np.random.default_rng(1).integers(0, 5, (40, 5)).astype(float)
    run = candidates_run(np.stack([gold, -gold], axis=2), gold, rated=True)
    chosen = stats.selection(stats.candidates(run))
    for table in (chosen.curve, chosen.picks):
        own = table.set_index("rule")["regret"]
        assert (own[["gold itself", "head_0"]] == 0).all()
        assert (table["regret"] >= 0).all()
    picks = chosen.picks.set_index("rule")
    assert picks.loc["head_0", "share"] == pytest.approx(1)
    assert picks.loc["head_0", "verdict"] == stats.BETTER
    assert picks.loc["head_1", "verdict"] == stats.WORSE
    random = chosen.curve[chosen.curve["rule"] == "random"]
    np.testing.assert_allclose(random["gold"], gold.mean())


# ---- Gold ----


def test_marks_are_gold_and_an_item_that_contradicts_itself_is_left_out():
    run = candidate_world(6, strength=[0.0])
    found = stats.candidates(run)
    assert (found.name, found.most, found.left_out) == ("marked as better", 4, {})
    assert found.gold.reshape(6, 4).tolist() == [[1, 0, 0, 0]] * 6
    better, worse = run["better"].values.copy(), run["worse"].values.copy()
    better[1], worse[1] = 1, 2  # of the first item: its second response is worse, and better
    found = stats.candidates(run.assign(better=("comparison", better), worse=("comparison", worse)))
    assert found.left_out == {stats.MIXED: 1} and len(found.prompt) == 5


def test_items_with_fewer_candidates_are_left_out_and_those_with_more_kept():
    run = candidate_world(6, strength=[0.0], rated=True)
    rating = run["rating"].values.copy()
    rating[0], rating[4:6] = np.nan, np.nan  # three of the first item's four, two of the second's
    run = run.assign(rating=(("response", "attribute"), rating))
    found = stats.candidates(run)
    assert found.most == 4 and found.left_out == {stats.TOO_FEW: 1, stats.FEWER: 1}
    few = stats.candidates(run, most=3)
    assert few.most == 3 and few.left_out == {stats.TOO_FEW: 1}
    np.testing.assert_allclose(
        stats.expected(few, few.gold)[1],
        by_hand(few.score[None, 3:7], few.gold[None, 3:7], 3)[0],
    )


def test_which_rating_is_gold():
    run = candidate_world(40, strength=[0.0], rated=True)
    assert stats.candidates(run).name == "score"
    both = np.repeat(run["rating"].values, 2, axis=1)
    two = run.drop_vars(["rating", "attribute_name"]).assign(
        rating=(("response", "attribute"), both),
        attribute_name=("attribute", np.asarray(["style", "overall_score"])),
    )
    assert stats.candidates(two).note.endswith("(marked as better)")
    assert stats.candidates(two, "style").name == "style"
    assert stats.candidates(two.assign_attrs(dataset="ultrafeedback/flan")).name == "overall_score"
    with pytest.raises(ParameterError, match="rating of"):
        stats.candidates(two, "tone")


def test_pairs_are_a_sentence():
    found = stats.candidates(make_run(np.zeros((20, 2))))
    chosen = stats.selection(found)
    assert found.note and chosen.picks.empty
    assert words.takeaways(chosen, found)[0].startswith("Nothing can be said")
    assert "nothing to pick" in charts.picks(chosen.picks).alternative
    assert "nothing to pick" in charts.curve(chosen.curve).alternative


def test_the_rule_that_is_judged_is_named_first_beside_length():
    found = stats.candidates(candidate_world(100, strength=[2.0, 2.0, 2.0]))
    chosen = stats.selection(found)
    picks = chosen.picks
    assert ", better than random and than the " in words.answer(chosen)
    told = words.takeaways(chosen, found)
    assert any(" is shown for final score, head_0, head_1, head_2." in text for text in told)
    picks.loc[picks["rule"] == "final score", "beside_p"] = 0.2
    assert ", better than random, though not shown to be better than the " in words.answer(chosen)
    picks.loc[picks["rule"] == "head_0", "beside_p"] = 0.2
    told = words.takeaways(chosen, found)
    assert any("aren't shown" in text and ": final score, head_0." in text for text in told)


# ---- Tests and intervals ----


def test_where_one_of_k_is_right_the_test_is_the_binomial_one():
    found = stats.candidates(candidate_world(50, strength=[0.0]))
    null = stats.lottery(found, np.ones(50, bool))
    for right in (3, 9, 12, 13, 20, 30):
        tails = scipy_stats.binom(50, 0.25)
        known = min(1, 2 * min(tails.sf(right - 1), tails.cdf(right)))
        assert null.p(right - 12.5) == pytest.approx(known)
    level = 0.01
    least = next(r for r in range(13, 51) if 2 * scipy_stats.binom(50, 0.25).sf(r - 1) < level)
    assert null.needed(level) == pytest.approx(least - 12.5)


def test_of_ratings_the_test_is_that_of_all_ways_to_pick():
    gold = np.asarray([[1, 2, 5], [3, 3, 4], [1, 1, 2], [2, 4, 5]], float)
    found = stats.candidates(candidates_run(np.zeros((4, 3, 1)), gold, rated=True))
    null = stats.lottery(found, np.ones(4, bool))
    sums = np.asarray([sum(pick) for pick in itertools.product(*gold)])
    mean = gold.mean(axis=1).sum()
    for total in np.unique(sums):
        tail = min((sums >= total - 1e-9).mean(), (sums <= total + 1e-9).mean())
        assert null.p(total - mean) == pytest.approx(min(1, 2 * tail))


def test_items_of_a_prompt_are_drawn_together():
    gold = np.asarray([[0, 0, 1], [0, 0, 1], [0, 1, 1]], float)
    run = candidates_run(np.zeros((3, 3, 1)), gold, prompt=np.asarray([0, 0, 1]), rated=True)
    found = stats.candidates(run)
    null = stats.lottery(found, np.ones(3, bool))
    # by hand: the first two are both right with 1/3, the third with 2/3; the mean is 4/3
    assert null.p(3 - 4 / 3) == pytest.approx(2 * (1 / 3) * (2 / 3))
    assert null.p(0 - 4 / 3) == pytest.approx(2 * (2 / 3) * (1 / 3))


def test_a_long_sum_keeps_all_but_nothing_of_its_mass():
    found = stats.candidates(candidate_world(3_000, strength=[0.0], rated=True))
    null = stats.lottery(found, np.ones(3_000, bool))
    assert null.upper[0] == pytest.approx(1) and len(null.value) < 4 * 3_000
    spread = np.sqrt(found.gold.reshape(-1, 4).var(axis=1).sum())
    assert null.p(2 * spread) == pytest.approx(2 * scipy_stats.norm.sf(2), rel=0.05)


def test_the_family_is_heads_and_the_score_on_every_subset():
    run = candidate_world(80, strength=[1.5, 0.0])
    subset = np.repeat(["first", "all"], len(run["subset"]) // 2)
    picks = stats.selection(stats.candidates(run.assign(subset=("comparison", subset)))).picks
    assert picks["subset"].unique().tolist() == ["all", "first", "all (subset)"]
    tested = picks[picks["p"].notna()]
    assert len(tested) == 3 * picks["subset"].nunique()
    smallest = tested["p"].min()
    assert tested["p_adjusted"].min() == pytest.approx(min(1, len(tested) * smallest))
    assert picks.loc[picks["kind"] == stats.BASELINE, "verdict"].isna().all()


def test_a_model_that_picks_as_length_does_has_no_more_than_that():
    run = candidate_world(100, strength=[0.0])
    tokens = np.where(np.tile([1, 0, 0, 0], 100) == 1, 300, 100)
    score = tokens[:, None].astype(np.float32)
    run = run.assign(n_response_tokens=("response", tokens), score=(("response", "head"), score))
    row = stats.selection(stats.candidates(run)).picks.set_index("rule").loc["head_0"]
    assert row[["verdict", "rival"]].tolist() == [stats.BETTER, "longest"]
    assert (row["beside"], row["beside_p"]) == (0, 1)
    assert row["longer"] == pytest.approx(300 / 150 - 1)


def test_scores_that_are_no_numbers_are_named():
    run = candidate_world(40, strength=[0.0, 0.0])
    score = run["score"].values.copy()
    score[3, 0] = np.nan
    chosen = stats.selection(stats.candidates(run.assign(score=(("response", "head"), score))))
    row = chosen.picks.set_index("rule").loc["head_0"]
    assert row["verdict"] == stats.UNDEFINED and row["note"] == "scores that are not numbers"
    assert np.isnan(row["gold"])


@pytest.mark.parametrize("heads", [1, 19, 300])
def test_any_number_of_heads(heads):
    chosen = stats.selection(stats.candidates(candidate_world(60, strength=[0.0] * heads)))
    assert (chosen.picks["kind"] == "head").sum() == heads
    assert not chosen.picks["verdict"].isin([stats.BETTER, stats.WORSE]).any()
    assert charts.picks(chosen.picks).alternative and charts.curve(chosen.curve).alternative


def test_equal_gold_everywhere_is_not_tested():
    gold = np.full((40, 4), 3.0)
    run = candidates_run(np.random.default_rng(0).standard_normal((40, 4, 1)), gold, rated=True)
    row = stats.selection(stats.candidates(run)).picks.iloc[0]
    assert row[["verdict", "note"]].tolist() == [stats.UNDEFINED, stats.EQUAL]
    assert row["regret"] == 0


# ---- A run's ratings ----


@pytest.fixture
def rated(tmp_path):
    """A file of one rated response a row, four to a prompt."""
    rows = [
        {
            "prompt": f"Question {i}?",
            "completion": f"Answer {i} {'so ' * j}.",
            "rating": (i + j) % 4,
        }
        for i in range(9)
        for j in range(4)
    ]
    path = tmp_path / "rated.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return load_items(f"file:{path}")


def test_a_run_keeps_what_its_responses_are_rated(rated, tiny_model, tmp_path):
    run = extract(tiny_model, rated, store=tmp_path / "states")
    assert run["attribute_name"].values.tolist() == ["rating"]
    again = load_run(save_run(run, tmp_path / "run"))
    np.testing.assert_array_equal(again["rating"].values, rated.responses[["rating"]].to_numpy())
    found = stats.candidates(again)
    assert (found.name, found.most, len(found.prompt)) == ("rating", 4, 9)
    chosen = stats.selection(found)
    assert chosen.picks.set_index("rule").loc["gold itself", "gold"] == 3


def test_pooled_runs_and_streams_have_no_ratings(rated, tiny_model, tmp_path):
    run = extract(tiny_model, rated, store=tmp_path / "states")
    both = pool([run, run.assign_attrs(dataset="another")])
    assert "rating" not in both and both.sizes["response"] == 72
    folder = extract_stream(tiny_model, [rated], tmp_path / "stream")
    streamed = load_run(folder)
    assert "rating" not in streamed and "attribute_name" not in streamed
    assert isinstance(stats.selection(stats.candidates(streamed)).picks, pd.DataFrame)


# ---- From the shell ----

FLAN = [
    {
        "instruction": f"Name bird number {k}.",
        "completions": [
            {
                "response": f"Bird {k} {'sings ' * j}well.",
                "annotations": {},
                "overall_score": 1 + (k + j) % 4,
            }
            for j in range(4)
        ],
    }
    for k in range(8)
]
RATED = [
    {
        "prompt": f"Name tree number {k}.",
        "chosen": [f"Tree {k} is tall.", f"Tree {k} is an old oak."],
        "rejected": [f"Tree {k}?"],
        "ratings": [{"quality": 3}, {"quality": 2 + k % 3}, {"quality": 1}],
    }
    for k in range(8)
]


@pytest.fixture
def own(tmp_path):
    """Files of rated responses: what the shell is given for each, and the gold there."""
    (tmp_path / "flan").mkdir()
    for name, rows in (("flan/flan.jsonl", FLAN), ("rated.jsonl", RATED)):
        (tmp_path / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return {
        "ultrafeedback/flan": (["--source", str(tmp_path / "flan")], "overall_score", 4),
        f"file:{tmp_path / 'rated.jsonl'}": ([], "quality", 4),
    }


@pytest.mark.parametrize("number", [0, 1], ids=["ultrafeedback", "file"])
def test_rated_responses_are_picked_from_by_what_the_shell_kept(
    own, number, tiny_model, tmp_path, monkeypatch, capsys
):
    from lib.__main__ import main

    monkeypatch.setenv("REWARD_AUDIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("lib.models.load_model", lambda name, **given: tiny_model)
    dataset, (source, gold, most) = list(own.items())[number]
    out = str(tmp_path / "run")
    assert main(["extract", "--model", "tiny", "--dataset", dataset, *source, "--out", out]) == 0
    assert "8 items scored" in capsys.readouterr().out
    found = stats.candidates(load_run(out))
    assert (found.name, len(found.prompt)) == (gold, 8)
    picks = stats.selection(found).picks.set_index("rule")
    assert {"first", "second", "longest", "random", "gold itself"} <= set(picks.index)
    assert picks.loc["gold itself", "regret"] == 0
    assert picks["gold"].between(1, most).all()


@pytest.mark.slow
def test_the_page_of_picks_is_made_from_the_shell_in_one_command(
    own, write_tiny, tmp_path, monkeypatch, capsys
):
    from lib.__main__ import main

    monkeypatch.setenv("REWARD_AUDIT_CACHE", str(tmp_path / "cache"))
    write_tiny.write_classifier(tmp_path / "model", max_position_embeddings=4096)
    dataset, (source, gold, _) = next(iter(own.items()))
    given = {"model": tmp_path / "model", "dataset": dataset}
    given |= dict(zip(("source",), source[1:], strict=False))
    words = [word for name, value in given.items() for word in ("-p", f"{name}={value}")]
    page = tmp_path / "selection.ipynb"
    assert main(["page", "selection", "--out", str(page), *words]) == 0
    assert gold in page.read_text()
