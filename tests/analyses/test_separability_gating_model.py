"""Sentences carry the table's own numbers, and say why where there are none."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from lib.analyses.gating import stats, words
from lib.analyses.gating.worlds import gating_world
from lib.analyses.model import stats as weights
from lib.analyses.model import words as model_says
from lib.analyses.separability import stats as separability
from lib.analyses.separability import words as separability_says
from lib.analyses.separability.worlds import separability_world
from lib.planted.worlds import make_run


def told_of(run) -> list[str]:
    return separability_says.takeaways(
        separability.separability_as_published(run),
        separability.ceiling(run),
        separability.probes(run, repeats=1, flips=5),
        separability.readout(run, repeats=1, flips=5),
    )


@pytest.mark.parametrize(
    ("verdict", "numbers"),
    [
        ("not read out", ["0.300 before the scores, 0.100 after"]),
        ("read out", ["a loss of 0.050 would"]),
        ("not found", ["a probe right for 0.570 would"]),
        ("not measurable", ["150 comparisons", "finds 0.560", "give 0.600"]),
        ("undefined", ["why"]),
    ],
)
def test_a_readout_has_the_numbers_of_its_verdict(verdict, numbers):
    row = {"concept": "tone", "verdict": verdict, "note": "why", "n": 150, "loss": 0.2, "low": 0.1}
    row |= {"high": 0.3, "p_adjusted": 0.01, "to_scores": 0.3, "to_head": 0.1, "mde": 0.05}
    row |= {"probe_mde": 0.07, "recovered": 0.56, "planted": 0.6, "probe": 0.5, "probe_p": 0.4}
    losses = pd.DataFrame([row | {"head": "one"}, row | {"head": "two"}])
    together = verdict == "not measurable"
    sentences = separability_says.readout(losses)
    assert len(sentences) == 2 - together and ("→ one, two:" in sentences[0]) == together
    assert all(number in sentences[0] for number in numbers)
    assert bool(separability_says.measurable(losses)) == together


@pytest.mark.parametrize(
    ("p", "accuracy", "found"), [(0.01, 0.6, True), (0.01, 0.4, False), (0.1, 0.6, False)]
)
def test_a_probe_that_finds_nothing_says_what_it_would_have_found(p, accuracy, found):
    row = {"concept": "tone", "accuracy": accuracy, "low": 0.3, "high": 0.7, "n": 90, "mde": 0.1}
    row |= {"p_adjusted": p, "length": 0.5, "flipped": np.nan, "note": ""}
    without = pd.DataFrame([{"concept": "tone", "probe": accuracy, "probe_p": p}])
    (text,) = separability_says.probes(pd.DataFrame([row]), without)
    (length,) = separability_says.probes(pd.DataFrame([row]), without.assign(probe_p=0.3))
    assert ("is in the state only as length" in length) == found
    assert ("can be read" in text) == found and ("0.600 would have been found" in text) != found


def test_what_no_probe_can_reach_is_not_said_to_be_detectable():
    row = {"concept": "tone", "accuracy": 0.6, "low": 0.3, "high": 0.8, "n": 9, "mde": np.nan}
    row |= {"p_adjusted": 0.2, "length": 0.5, "flipped": 0.5, "note": ""}
    without = pd.DataFrame([{"concept": "tone", "probe": 0.6, "probe_p": 0.2}])
    (text,) = separability_says.probes(pd.DataFrame([row]), without)
    assert text.endswith("; not even one always right would have been found.")
    row |= {"verdict": "not found", "head": "h", "loss": 0.1, "probe_mde": np.nan}
    row |= {"probe": 0.6, "probe_p": 0.2, "to_scores": 0.1, "to_head": 0.0}
    (text,) = separability_says.readout(pd.DataFrame([row]))
    assert "not even one always right would have been found" in text and "nan" not in text
    (text,) = separability_says.readout(pd.DataFrame([row | {"verdict": "read out"}]))
    assert "no loss that can occur would have been found" in text and "nan" not in text


def fitted(*accuracy: float) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A published probe of heads a, b, … on 50 components, where .800 was predicted for each."""
    both = {"head": list("abc")[: len(accuracy)], "components": 50, "n": 40, "note": ""}
    probe = pd.DataFrame(both | {"accuracy": accuracy})
    return probe, pd.DataFrame(both | {"share": 0.5, "predicted": 0.8, "ceiling": 0.99})


def test_what_the_published_probe_measures_is_concluded_only_where_no_head_is_off():
    (_, close) = separability_says.published(*fitted(0.79, 0.80, 0.76))
    assert "within 0.010 in the median and 0.040 at most: the probe measures" in close
    (_, far) = separability_says.published(*fitted(0.79, 0.80, 0.66))
    assert "the probe measures" not in far
    assert "within 0.010 in the median and 0.140 at most" in far
    assert "1 of 3 heads misses it by more than 0.05, the most c: 0.660 where 0.800" in far
    assert "few states (40 here) or skewed scores" in far
    assert far.endswith(
        "each head is such a probe itself, w·h, and is right for 0.990 of responses or more."
    )


def test_without_states_there_is_a_reason_in_every_sentence():
    run = separability_world("absent", pairs=20)
    run["hidden"].values[:] = np.nan
    told = told_of(run)
    assert len(told) == 5
    assert all("no states were kept" in sentence for sentence in told)


def gated(run) -> list[str]:
    functions = (stats.identity, stats.coefficients, stats.entropy)
    tables = [function(run) for function in functions]
    return words.takeaways(*tables, stats.rules(run), stats.debiasing(run))


def test_a_part_of_the_rows_counts_in_the_family_of_gains():
    run = gating_world(pairs=40)
    half = run.assign(subset=("comparison", np.resize(["all", "hard"], 40)))
    for given, count in ((half, 18), (run.assign(subset=("comparison", ["hard"] * 40)), 6)):
        assert words.family(stats.rules(given)) == [
            f"Gains are corrected by Holm over {count} comparisons of the gate with a rule."
        ]


def test_heads_that_go_against_the_removed_one_count_as_much():
    table = pd.DataFrame(
        [
            ("length", np.nan, np.nan, 1.0),
            ("kind", -0.9, -0.2, -0.5),
            ("calm", 0.1, 0.1, 0.0),
        ],
        columns=["head", "before", "after", "lambda"],
    ).assign(removed="length", note="")
    (told,) = words.verbosity(table)
    assert told == (
        "length is taken out of 1 of 2 other heads. kind, the most correlated with it, goes from "
        "-0.90 to -0.20; the mean size goes from 0.50 to 0.15."
    )


def test_no_gate_is_one_sentence():
    (sentence,) = gated(make_run(np.zeros((20, 2))))
    assert sentence.startswith("This model has no gate")


def test_bad_numbers_in_a_gated_run_are_said_and_not_counted():
    run = gating_world(pairs=40)
    run["score"].values[0, 0] = np.nan
    run["gate"].values[0] = np.nan
    text = " ".join(gated(run))
    assert "scores that are not numbers" in text
    assert "nan" not in text


def test_one_head_has_no_cosine_to_tell():
    names = ["only"]
    heads = weights.norms(np.ones((1, 3)), names).assign(source="unnamed", concept="")
    told = model_says.takeaways(
        heads, weights.cosines(np.ones((1, 3)), names), weights.scores({}), weights.combined({})
    )
    assert told[:2] == ["The model has 1 head.", "Where the name comes from is not told for only."]
    assert not any("two heads" in sentence for sentence in told)
