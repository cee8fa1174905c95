"""Two responses lie on a line whatever they are; nothing is made of that, or of none at all."""

import numpy as np
import pytest

from lib import stats
from lib.analyses.data import charts as data_charts
from lib.analyses.data import stats as data_tables
from lib.analyses.data import words
from lib.analyses.disentanglement import stats as tables
from lib.analyses.disentanglement import words as separate_says
from lib.analyses.gating import stats as gating
from lib.analyses.gating import words as gating_says
from lib.analyses.labels import stats as labels
from lib.analyses.separability import stats as separability
from lib.analyses.validity import words as validity_says
from lib.planted.worlds import make_run

PAIR = [[3.0, 1.0], [1.0, 2.0]]


def nothing():
    return make_run([[1.0, 2.0], [2.0, 1.0], [0.0, 5.0], [1.0, 1.0]]).isel(comparison=slice(0, 0))


def test_two_responses_give_no_correlation():
    run = make_run(PAIR)
    assert tables.disentanglement(run, draws=10)["r"].isna().all()
    assert tables.disentanglement_as_published(run)["rho"].isna().all()
    clusters = tables.clusters(run, draws=10)
    told = separate_says.unusable(clusters)
    assert told == ["head_0, head_1 can't be compared with any head: fewer than three responses."]


def test_four_responses_do():
    run = make_run([[3.0, 1.0], [1.0, 2.0], [2.0, 0.0], [0.0, 4.0]])
    assert tables.disentanglement_as_published(run)["rho"].tolist() == pytest.approx([-0.8])


def test_agreement_needs_a_second_prompt():
    heads = ["a-helpfulness", "b-helpfulness", "a-safety", "b-safety"]
    concepts = ["helpfulness", "helpfulness", "safety", "safety"]
    score = np.asarray([[1.0, 2.0, 3.0, 5.0], [0.0, 0.0, 0.0, 0.0]])
    source = np.asarray(["a", "b", "a", "b"])
    one = labels.mtmm(make_run(score, heads=heads, concepts=concepts), source=source, draws=10)
    assert one["verdict"].tolist() == ["undefined"] and one["note"].tolist() == ["a single prompt"]
    more = np.tile(score, (4, 1)) * np.repeat([1, 2, 3, 4], 2)[:, None]
    many = labels.mtmm(make_run(more, heads=heads, concepts=concepts), source=source, draws=10)
    assert many["verdict"].tolist() == ["convergent"]


def test_lengths_without_comparisons_are_counted_as_none():
    run = nothing()
    lengths = data_tables.lengths(run)
    assert not lengths["share"].any()
    assert "No comparison is there" in data_charts.lengths(lengths).alternative
    summary = data_tables.length_summary(run)
    assert summary["n"].tolist() == [0] and summary["better_tokens"].isna().all()
    assert words.glued(data_tables.counts(run), summary)["longer"] == "–"


def test_no_comparison_is_a_note_and_no_row_is_missing():
    (question,) = separability.questions(nothing())
    assert (question.concept, question.note) == ("every criterion", "no comparisons")
    assert separability.probes(nothing())["note"].tolist() == ["no comparisons"]


def test_a_page_without_comparisons_names_no_best_head():
    run = make_run(np.ones((4, 8)))
    told = validity_says.takeaways(stats.validity(run), stats.baselines(run), run)
    assert told[1:3] == [
        "Of 8 heads: 8 undefined.",
        "No head gives a verdict: all comparisons tie.",
    ]
    told = validity_says.takeaways(stats.validity(nothing()), stats.baselines(nothing()), nothing())
    assert not any("nan" in sentence or "longer" in sentence for sentence in told)


def test_one_prompt_is_said_to_show_nothing_and_no_number_stands_for_it():
    run = make_run(PAIR)
    told = validity_says.takeaways(stats.validity(run), stats.baselines(run), run)
    assert "no win rate would be told from one half" in told[1]
    assert not any("nan" in sentence for sentence in told)


def test_a_rule_without_a_number_is_kept_as_a_dash():
    kept = gating_says.glued(gating.rules(make_run(PAIR)))
    assert kept["rule-gate"] == "–" and "nan" not in " ".join(kept.values())
