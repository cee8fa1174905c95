"""The benchmarks' own scores on a page: the right columns, what is missing, and nothing else."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from lib import paths
from lib.analyses.validity import official
from lib.analyses.validity import official_words as says
from lib.data import NAMES
from lib.data import reward_bench as rb
from lib.extraction import load_run
from lib.planted.worlds import make_run
from lib.run import align

RUNS = paths.ROOT / "book" / "runs"
LEVELS = official.DIFFICULTIES


@pytest.fixture(scope="module")
def committed():
    return load_run(RUNS / "smol-armo" / "rm-bench")


# ---- Which data sets ----


@pytest.mark.parametrize("dataset", ["llmbar", "hh-rlhf/harmless-base"])
def test_other_data_sets_have_no_such_section(dataset):
    run = load_run(RUNS / "smol-armo" / dataset)
    kept = []
    assert says.scores(run) is None
    assert says.section(run, lambda *given: kept.append(given)) is None
    assert kept == []


def test_every_benchmark_with_a_scorer_has_a_section():
    scorers = {official.reward_bench, official.reward_bench_2, official.rm_bench}
    assert {benchmark.score for benchmark in says.BENCHMARKS.values()} == scorers


@pytest.mark.parametrize(
    "name", [name for name in NAMES if name.partition("/")[0] in says.BENCHMARKS]
)
def test_every_part_of_a_benchmark_is_scored_as_it(name):
    assert says.benchmark(name) is says.BENCHMARKS[name.partition("/")[0]]


def test_a_named_part_has_the_scores_that_it_has_within_the_whole(committed):
    rows = committed["subset"].values == "chat"
    part = committed.isel(comparison=rows).assign_attrs(dataset="rm-bench/chat")
    frame, whole = (says.shown(run.attrs["dataset"], says.scores(run)) for run in (part, committed))
    assert frame.columns.tolist() == ["head", *(f"chat {level}" for level in LEVELS[:3])]
    pd.testing.assert_frame_equal(frame, whole[frame.columns])
    assert "chat hard" in says.section(part).markup
    pooled = part.assign_attrs(dataset="rm-bench/chat + rm-bench/code")
    assert says.section(pooled) is None


# ---- The committed runs ----


def test_a_part_of_rm_bench_shows_the_difficulties_of_the_domains_that_it_holds(committed):
    scored = says.scores(committed)
    frame = says.shown("rm-bench", scored)
    assert frame.columns.tolist() == [
        "head",
        *(f"{domain} {level}" for domain in ("chat", "safety") for level in LEVELS[:3]),
    ]
    for domain in ("chat", "safety"):
        own = scored[(scored["name"] == domain) & (scored["difficulty"] == "hard")]
        hard = own.set_index("head")["score"]
        found = frame.set_index("head")[f"{domain} hard"]
        pd.testing.assert_series_equal(found, hard, check_names=False)
    told = says.sentences("rm-bench", scored)
    assert told[-1].startswith(says.PART) and "missing: code, math" in told[-1]


def test_the_hard_accuracy_is_a_count_of_comparisons(committed):
    """Of chat, where the wrong response has the fancier style, counted without the scorer."""
    aligned, slot = align(committed), committed["slot"].values
    better, worse = aligned.better, aligned.worse
    mask = (aligned.subset == "chat") & (slot[better] < slot[worse] - 3)
    score = committed["score"].values.astype(float)
    won = (score[better[mask]] > score[worse[mask]]).mean(axis=0)
    frame = says.shown("rm-bench", says.scores(committed)).set_index("head")
    heads = committed["head"].values
    assert frame.loc[heads, "chat hard"].to_numpy() == pytest.approx(won)


def test_best_of_four_is_a_count_of_items():
    run = load_run(RUNS / "smol-armo" / "reward-bench-2")
    frame = says.shown("reward-bench-2", says.scores(run)).set_index("head")
    assert frame.columns.tolist() == ["Safety"], "what the run holds"
    score = run["score"].values.astype(float)
    aligned = align(run)
    ahead = score[aligned.better] > score[aligned.worse]
    won = pd.DataFrame(ahead).groupby(run["item_of_response"].values[aligned.better]).all().mean()
    assert frame.loc[run["head"].values, "Safety"].to_numpy() == pytest.approx(won.to_numpy())
    assert {"gated score", "longer response", "shorter response"} <= set(frame.index)


def test_a_model_of_one_head_has_its_section_and_its_scores_are_kept():
    run = load_run(RUNS / "smol-mixed" / "rm-bench").drop_vars("final", errors="ignore")
    kept = []
    markup = says.section(run, lambda table, name: kept.append((name, len(table)))).markup
    assert kept == [("official", len(says.scores(run)))]
    assert "<h2>As RM-Bench scores it</h2>" in markup
    assert re.findall(r"<td><bdi>([^<]*)", markup) == [
        *(*run["head"].values, "longer response", "shorter response")
    ]


# ---- Whole and broken ----


def whole(benchmark: str, *rows) -> pd.DataFrame:
    """Scores of one head and a baseline: level, name, difficulty, score."""
    table = pd.DataFrame(rows, columns=["level", "name", "difficulty", "score"])
    both = [
        table.assign(head=head, kind=kind, note="")
        for head, kind in (("a", "head"), ("longer response", "baseline"))
    ]
    table = pd.concat(both, ignore_index=True)
    return table if benchmark == "rm-bench" else table.drop(columns="difficulty")


def test_a_whole_rm_bench_shows_the_difficulties_over_all_and_the_average_of_each_domain():
    rows = [("overall", "overall", level, 0.1 + k / 10) for k, level in enumerate(LEVELS)]
    rows += [("domain", "chat", level, 0.5 + k / 10) for k, level in enumerate(LEVELS)]
    rows += [("half", "safety-refuse", level, 0.9) for level in LEVELS]
    scored = whole("rm-bench", *rows)
    frame = says.shown("rm-bench", scored)
    assert frame.columns.tolist() == ["head", *LEVELS, "chat"]
    assert frame.iloc[0].tolist() == ["a", pytest.approx(0.1), 0.2, pytest.approx(0.3), 0.4, 0.8]
    assert not any(says.PART in sentence for sentence in says.sentences("rm-bench", scored))


def test_parts_of_parts_are_left_to_the_table_that_is_kept():
    rows = [("overall", "overall", "", 0.7), ("section", "Chat", "", 0.8)]
    frame = says.shown("reward-bench", whole("reward-bench", *rows, ("subset", "x", "", 0.9)))
    assert frame.columns.tolist() == ["head", "overall", "Chat"]


def test_a_head_with_a_baselines_name_keeps_its_row():
    scored = whole("reward-bench", ("overall", "overall", "", 0.7))
    scored["head"] = "longer response"
    assert len(says.shown("reward-bench", scored)) == 2


def test_a_run_without_any_whole_item_says_so_without_a_table():
    rows = [("overall", "overall", level, np.nan) for level in LEVELS]
    scored = whole("rm-bench", *rows).assign(note="items without all nine comparisons: 3")
    assert says.shown("rm-bench", scored).columns.tolist() == ["head"]
    assert says.sentences("rm-bench", scored)[-1] == (
        "No official score can be given: items without all nine comparisons: 3."
    )


def test_a_run_without_comparisons_says_that_no_score_can_be_given():
    run = make_run(np.array([[1.0], [0.0]]), subset=["hep-go"], name="reward-bench")
    kept = []
    markup = says.section(run.isel(comparison=[]), lambda *given: kept.append(given)).markup
    assert markup == (
        "<h2>As RewardBench scores it</h2>"
        "<p>No official score can be given: the run has no comparisons.</p>"
    )
    assert kept == []


def test_where_no_section_is_whole_the_subsets_stand_alone():
    run = make_run(np.array([[1.0], [0.0]]), subset=["hep-go"], name="reward-bench")
    frame = says.shown("reward-bench", says.scores(run))
    assert frame.columns.tolist() == ["head", "hep-go"]
    assert frame.set_index("head")["hep-go"].to_dict() == {
        "head_0": 1.0,
        "longer response": 0.0,
        "shorter response": 0.0,
    }
    assert "<table" in says.section(run).markup


def test_where_no_domain_is_whole_the_halves_of_safety_stand_alone(committed):
    half = committed.isel(comparison=committed["subset"].values == "safety-refuse")
    scored = says.scores(half)
    frame = says.shown("rm-bench", scored)
    assert frame.columns.tolist() == [
        "head",
        *(f"safety-refuse {level}" for level in LEVELS[:3]),
    ]
    assert says.sentences("rm-bench", scored)[-1].startswith(says.PART)


def test_how_a_whole_benchmark_was_scored_does_not_make_it_a_part():
    scored = whole("reward-bench", ("overall", "overall", "", 0.7))
    told = says.sentences(
        "reward-bench", scored.assign(note="with Prior Sets at half weight; not counted: x")
    )
    assert told[-1] == "The overall score here: with Prior Sets at half weight; not counted: x."
    assert not any(says.PART in sentence for sentence in told)
    lacking = scored.assign(note="missing: x; with Prior Sets at half weight")
    assert f"{says.PART}: missing: x." in says.sentences("reward-bench", lacking)


def test_a_head_whose_scores_are_no_numbers_does_not_make_the_run_a_part():
    scored = whole("reward-bench", ("overall", "overall", "", 0.7))
    scored.loc[0, ["score", "note"]] = [np.nan, official.NOT_NUMBERS]
    assert len(says.sentences("reward-bench", scored)) == 2
    assert says.shown("reward-bench", scored)["overall"].isna().tolist() == [True, False]


def test_reward_bench_is_scored_by_section():
    subsets = list(rb.COUNTS)
    score = np.tile([[1.0], [0.0]], (len(subsets), 1))
    run = make_run(score, subset=subsets, name="reward-bench")
    frame = says.shown("reward-bench", says.scores(run)).set_index("head")
    assert frame.columns.tolist() == ["overall", *official.SECTIONS.values()]
    assert frame.loc["head_0"].tolist() == [1] * 5
    assert "not all items of" in says.section(run).markup


def test_hostile_names_stay_text():
    evil = "<img src=x onerror=alert(1)>"
    run = make_run(np.array([[1.0], [0.0]]), heads=[evil], subset=["hep-go"], name="reward-bench")
    assert "<img" not in says.section(run).markup
