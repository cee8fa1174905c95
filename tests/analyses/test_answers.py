"""Answers for the front page and the findings turn with their tables, and carry their numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from lib.analyses.disentanglement import stats, worlds
from lib.analyses.disentanglement import words as disentanglement
from lib.analyses.gating import stats as gates
from lib.analyses.gating import words as gating
from lib.analyses.gating.worlds import gating_world
from lib.analyses.geometry import stats as places
from lib.analyses.geometry import words as geometry
from lib.analyses.geometry import worlds as located
from lib.analyses.labels import stats as names
from lib.analyses.labels import words as labels
from lib.analyses.labels.worlds import label_world
from lib.analyses.protocols import stats as evaluations
from lib.analyses.protocols import words as protocols
from lib.analyses.protocols.worlds import protocol_world
from lib.analyses.separability import words as separability
from lib.calibration import words
from lib.planted.checks import check
from lib.planted.worlds import make_run
from lib.stats.winrates import VERDICTS
from lib.summary.compare import words as compare
from lib.summary.published import words as published
from lib.summary.scorecard import words as summary

# ---- Validity ----


def card(*rows) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Scorecard and matrix of heads with a verdict on each of two protocols."""
    cells = [
        {"head": head, "dataset": dataset, "subset": "all", "verdict": verdict}
        for head, *verdicts in rows
        for dataset, verdict in zip(("xstest", "llmbar"), verdicts, strict=True)
    ]
    counts = [
        {"head": head, "protocols": 2} | {name: verdicts.count(name) for name in VERDICTS}
        for head, *verdicts in rows
    ]
    matrix = pd.DataFrame(cells).assign(win_rate=0.6, low=0.5, high=0.7)
    return pd.DataFrame(counts), matrix


def changing(*rows: tuple) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Scorecard, matrix and sides: what the verdicts say holds over all protocols too."""
    heads, matrix = card(*rows)
    rate = matrix["verdict"].map({"strong": 0.8, "tracks": 0.6, "inverted": 0.4}).fillna(0.5)
    sides = matrix.rename(columns={"dataset": "protocol"}).assign(win_rate=rate)
    return heads, matrix, sides.assign(p_adjusted=1 - 0.99 * (rate != 0.5))


def test_heads_that_change_sides_are_counted():
    told = summary.answer(*changing(("a", "strong", "inverted"), ("b", "tracks", "chance")))
    assert told.startswith("2 heads on 2 protocols give 4 verdicts: 1 strong, 1 tracks")
    assert "1 of 2 heads goes with the labels of one protocol and against those of another" in told


def test_where_no_head_changes_sides_that_is_the_answer():
    told = summary.answer(*changing(("a", "strong", "tracks"), ("b", "inverted", "inverted")))
    assert "No head is shown to go with the labels of one protocol and against those" in told


def test_the_legend_explains_every_verdict():
    legend = summary.legend()
    assert set(legend["verdict"]) == set(VERDICTS)
    meaning = legend.set_index("verdict")["meaning"]
    assert "0.65" in meaning["strong"] and "0.45 to 0.55" in meaning["chance"]


@pytest.mark.parametrize(
    ("low", "high", "says"),
    [
        (0.30, 0.38, "on the other part it goes against them (0.340 [0.300, 0.380])"),
        (0.55, 0.70, "with them too"),
        (0.45, 0.55, "neither way for sure"),
    ],
)
def test_the_crossover_says_what_its_interval_allows(low, high, says):
    row = ("harmless", "hh-rlhf/harmless-base", 0.65, 0.34, low, high)
    crossed = pd.DataFrame([row], columns=["head", "part", "own", "other", "low", "high"])
    told = published.crossover(crossed)
    assert told.startswith("On harmless-base, harmless goes with people best (0.650);")
    assert says in told
    assert "No head" in published.crossover(crossed.head(0))


# ---- Protocols ----


def test_sides_are_counted_after_correction():
    rows = [("a", 0.65, 0.01), ("a", 0.35, 0.01), ("b", 0.65, 0.01), ("b", 0.35, 0.2)]
    matrix = pd.DataFrame(rows, columns=["head", "win_rate", "p_adjusted"])
    assert protocols.answer(matrix).startswith("1 of 2 heads goes with the labels of")
    assert protocols.answer(matrix[1:]).startswith("None of 2 heads go with the labels of")


def test_the_interaction_is_told_first():
    runs = protocol_world("interaction", sd=1.0, heads=3, protocols=3, prompts=200)
    components = evaluations.variance_components(runs, draws=200)
    row = components[components["component"] == "interaction"].iloc[0]
    told = protocols.shares(components)
    assert told.startswith(f"{row.share:.0%} [{row.share_low:.0%}, {row.share_high:.0%}]")
    assert "which head wins" in told and "hold under every protocol" in told


# ---- Names ----


@pytest.mark.parametrize(
    ("world", "right", "says"),
    [("correct", 4, "No name is called wrong"), ("swap", 2, "fit better exchanged")],
)
def test_names_are_counted_and_accused(world, right, says):
    told = labels.answer(names.label_check(label_world(world, pairs=200)))
    assert told.startswith(f"Of 4 names that could be tested, {right} fit best")
    assert says in told


def test_a_head_that_others_beat_is_named_though_its_name_fits():
    result = names.label_check(label_world("correct", pairs=200))
    result.heads["beaten_by"] = [2, 0, 0, 0]
    assert "is beaten by 2 other heads" in labels.beaten(result)
    result.heads["beaten_by"] = 0
    assert labels.beaten(result) == ("No head is beaten on its own criterion by another head.")
    result.heads["beaten_by"] = [np.nan, 0, np.nan, np.nan]
    assert labels.beaten(result).startswith("No head is beaten")
    result.heads["beaten_by"] = np.nan
    assert labels.beaten(result) == (
        "No head could be tested against another on its own criterion."
    )
    one = make_run(np.ones((18, 1)), heads=["safety"], criterion=["safety"] * 9)
    assert labels.beaten(names.label_check(one)).startswith("No head could be tested")
    assert "would be found with power" in labels.limits(result)


# ---- Separation ----


def test_heads_that_go_together_are_named():
    run = worlds.copies_world()
    tables = (
        stats.disentanglement_as_published(run),
        stats.disentanglement(run, draws=99),
        stats.clusters(run, draws=20),
        stats.factors(run, draws=99),
    )
    overview = stats.overview(*tables)
    within = overview.set_index("kind").loc["within", "mean_abs_r"]
    told = disentanglement.answer(overview, tables[2])
    assert f"correlate at {within:.2f}" in told
    assert "original, copy, opposite go together" in told


@pytest.mark.parametrize(("regauged", "says"), [(False, "the heads'"), (True, "no place")])
def test_a_place_is_told_only_where_one_is_claimed(regauged, says):
    world = located.heads_world(regauged=regauged)
    gauges = places.gauges(world.run, world.weight, world.gain)
    location = places.location(gauges, places.identity(world.run, world.weight))
    assert says in geometry.place(location, gauges)


def test_concepts_are_counted_by_what_the_probe_found():
    rows = [("safety", 0.9, 0.001, ""), ("honesty", 0.5, 0.4, ""), ("tone", np.nan, np.nan, "few")]
    concepts = pd.DataFrame(rows, columns=["concept", "accuracy", "p_adjusted", "note"])
    assert separability.answer(concepts) == (
        "A linear probe finds 1 of 2 concepts in the state: safety."
    )
    assert separability.answer(concepts[2:]) == "No concept could be probed: few."


def test_readouts_are_counted_by_verdict():
    verdicts = ["read out", "not measurable", "undefined", "read out"]
    losses = pd.DataFrame({"verdict": verdicts, "note": "no head claims it"})
    assert separability.lost(losses) == (
        "Of 3 readouts by a head that claims the concept: 2 read out, 1 not measurable."
    )
    assert separability.lost(losses[2:3]).endswith("no head claims it.")


# ---- The gate ----


def test_the_gate_gains_on_rules_that_it_beats():
    rules = gates.rules(gating_world(pairs=800))
    told = gating.answer(rules)
    gate = rules[(rules["rule"] == "gate") & (rules["subset"] == "all")].iloc[0]
    assert f"{gate['win_rate']:.3f} [{gate['low']:.3f}, {gate['high']:.3f}]" in told
    assert "It gains on gate's mean" in told


def test_without_a_gate_nothing_is_compared():
    told = gating.answer(gates.rules(make_run(np.zeros((20, 2)))))
    assert told.startswith("The gate can't be compared with fixed rules") and "nan" not in told


def test_models_are_compared_dataset_by_dataset():
    rows = [("xstest", 0.1, "higher"), ("llmbar", -0.2, "lower"), ("rm-bench", np.nan, "undefined")]
    pairs = pd.DataFrame(rows, columns=["dataset", "difference", "verdict"])
    pairs = pairs.assign(model="a", other="b", low=-0.3, high=0.3)
    assert compare.answer(pairs) == (
        "Beside b, a ranks more comparisons as the data set marks them on xstest "
        "(+0.100 [-0.300, +0.300]); "
        "ranks fewer on llmbar (-0.200 [-0.300, +0.300]); can't be compared on rm-bench."
    )
    assert compare.answer(pairs.head(0)).startswith("No two models")


# ---- Calibration ----


def test_failures_are_counted_and_told():
    made = [
        check(claim, "a world", "false-positive rate", np.arange(100) < hits, at_most=0.06)
        for claim, hits in (("right", 4), ("wrong", 30))
    ]
    table = pd.DataFrame(made).assign(analysis="validity")
    assert words.answer(table).endswith("1 fails.")
    assert "“wrong” is said where it is false in 30.0%" in words.failures(table)
    assert "is 30.0%" in words.false_rate(table)
    assert words.answer(table.head(1)).endswith("none fail.")
    assert words.failures(table.head(1)).startswith("No check")
