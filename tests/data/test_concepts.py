"""One vocabulary for criteria, rating columns and head names."""

from __future__ import annotations

import pandas as pd
import pytest

from lib.data import (
    SETS,
    beavertails,
    concepts,
    helpsteer2,
    load_items,
    reward_bench,
    reward_bench_2,
    rm_bench,
    stimuli,
    ultrafeedback,
)
from lib.errors import DataError

ARMORM = {
    "helpsteer-helpfulness": "helpfulness",
    "helpsteer-correctness": "correctness",
    "helpsteer-coherence": "coherence",
    "helpsteer-complexity": "complexity",
    "helpsteer-verbosity": "verbosity",
    "ultrafeedback-overall_score": "overall",
    "ultrafeedback-instruction_following": "instruction-following",
    "ultrafeedback-truthfulness": "correctness",
    "ultrafeedback-honesty": "honesty",
    "ultrafeedback-helpfulness": "helpfulness",
    "beavertails-is_safe": "safety",
    "prometheus-score": "overall",
    "argilla-overall_quality": "overall",
    "argilla-judge_lm": "overall",
    "code-complexity": "",
    "code-style": "",
    "code-explanation": "",
    "code-instruction-following": "instruction-following",
    "code-readability": "readability",
}


@pytest.mark.parametrize("name", ["hh-rlhf", "llmbar", "reward-bench-2", "rm-bench", "xstest"])
def test_every_criterion_of_the_real_files_has_a_concept(shared_data, name):
    items = load_items(name, source=shared_data / name)
    found = items.comparisons[["criterion", "subset"]].drop_duplicates()
    assert len(found)
    for criterion, subset in found.itertuples(index=False):
        assert concepts.of_comparison(name, criterion, subset) in concepts.CONCEPTS


def test_every_set_has_a_row():
    assert set(SETS) | {"file"} == {row[0] for row in concepts.CRITERIA}


@pytest.mark.parametrize("part", stimuli.PARTS)
def test_every_stimulus_has_its_own_concept(part):
    found = load_items(f"stimuli/{part}").comparisons["criterion"].unique()
    assert len(found)
    for criterion in found:
        concept = concepts.of_comparison(f"stimuli/{part}", criterion, criterion)
        assert concept == {"holistic": "overall", "aligned": ""}.get(criterion, criterion)


def test_every_rating_column_has_a_concept():
    columns = {
        "helpsteer2": helpsteer2.ATTRIBUTES,
        "ultrafeedback": ultrafeedback.RATINGS,
        "beavertails": ("is_safe",),
        "xstest": ("refusal",),
    }
    for name, names in columns.items():
        for column in names:
            assert concepts.of_comparison(name, column) in concepts.CONCEPTS
    with pytest.raises(DataError):
        concepts.of_comparison("ultrafeedback", ultrafeedback.COUNT)
    with pytest.raises(DataError):
        concepts.of_comparison("beavertails", beavertails.COUNT)


def test_every_comparison_helpsteer2_can_make_has_a_concept():
    ratings = [[2] * 5, *([2] * k + [4] + [2] * (4 - k) for k in range(5))]
    frame = pd.DataFrame(ratings, columns=list(helpsteer2.ATTRIBUTES)).assign(item="0")
    made = pd.concat([helpsteer2.type_a(frame), helpsteer2.type_b(frame)])
    assert set(made["criterion"]) == {"total", *helpsteer2.ATTRIBUTES}
    for criterion, subset in made[["criterion", "subset"]].itertuples(index=False):
        concept = concepts.of_comparison("helpsteer2", criterion, subset)
        assert concept == ("overall" if criterion == "total" else criterion)


@pytest.mark.parametrize(
    ("dataset", "criterion", "subset", "concept"),
    [
        ("hh-rlhf", "harmless", "harmless-base", "safety"),
        ("hh-rlhf/helpful-base", "helpful", "helpful-base", "helpfulness"),
        ("hh-rlhf", "helpful", "helpful-rejection-sampled", "helpfulness"),
        ("helpsteer2/type-b", "verbosity", "type-b/verbosity", "verbosity"),
        ("llmbar/Neighbor", "instruction-following", "Neighbor", "instruction-following"),
        ("xstest", "appropriateness", "should-refuse", "safety"),
        ("xstest", "appropriateness", "should-respond", "helpfulness"),
        ("ultrafeedback/flan", "truthfulness", "all", "correctness"),
        ("reward-bench", "chat-hard", "llmbar-adver-GPTInst", "instruction-following"),
        ("reward-bench", "safety", "xstest-should-respond", "helpfulness"),
        ("reward-bench-2", "precise-if", "Precise IF", "instruction-following"),
        ("rm-bench", "safety", "safety-response", "helpfulness"),
        ("file:/some/where.jsonl", "preference", "all", "overall"),
        ("file:/some/where.jsonl", "Honesty", "mine", "honesty"),
        ("file:/some/where.jsonl", "taste", "all", ""),
    ],
)
def test_criteria_map_to_the_concept_a_reader_would_expect(dataset, criterion, subset, concept):
    assert concepts.of_comparison(dataset, criterion, subset) == concept


def test_all_23_subsets_of_reward_bench_have_a_concept():
    assert len(reward_bench.COUNTS) == 23
    for subset in (*reward_bench.COUNTS, *reward_bench.PRIOR):
        assert concepts.of_comparison("reward-bench", "any", subset) in concepts.QUALITIES


def test_all_subsets_of_the_other_benchmarks_have_a_concept():
    for name, module in (("reward-bench-2", reward_bench_2), ("rm-bench", rm_bench)):
        for subset in module.COUNTS:
            assert concepts.of_comparison(name, "any", subset) in concepts.QUALITIES


def test_a_set_or_criterion_without_an_entry_is_an_error():
    with pytest.raises(DataError, match="hh-rlhf"):
        concepts.of_comparison("hh-rhlf", "harmless", "harmless-base")
    with pytest.raises(DataError, match="criterion 'honest'"):
        concepts.of_comparison("hh-rlhf", "honest", "all")
    with pytest.raises(DataError, match="subset 'arithmetic'"):
        concepts.of_comparison("rm-bench", "math", "arithmetic")


def test_every_row_of_the_table_names_a_concept_and_can_be_reached():
    for position, (name, criterion, subset, concept) in enumerate(concepts.CRITERIA):
        assert concept in concepts.CONCEPTS or (name in ("file", "stimuli") and concept == "")
        probe = (name, criterion.replace("*", "x"), subset.replace("*", "x"))
        dataset = "file:x" if name == "file" else name
        assert concepts.of_comparison(dataset, *probe[1:]) == concept, position


@pytest.mark.parametrize(("name", "concept"), ARMORM.items())
def test_armorm_heads(name, concept):
    assert concepts.of_head(name) == concept


@pytest.mark.parametrize(
    ("name", "concept"),
    [
        *((concept, concept) for concept in concepts.CONCEPTS),
        ("score", "overall"),
        ("LABEL_0", "overall"),
        ("Safety Score", "safety"),
        ("hh_harmless", "safety"),
        ("unsafe", ""),
        ("harmful", ""),
        ("not_safe", ""),
        ("is_not_safe", ""),
        ("incorrectness", ""),
        ("unhelpful", ""),
        ("incoherent", ""),
        ("LABEL_1", ""),
        ("head 7", ""),
        ("helpsteer", ""),
        ("code-style-score", ""),
        ("conciseness", ""),
    ],
)
def test_head_names_map_by_whole_words_at_their_end(name, concept):
    assert concepts.of_head(name) == concept


THIS, OPPOSITE, OTHER = concepts.RELATIONS


@pytest.mark.parametrize(
    ("claim", "dataset", "criterion", "subset", "relation"),
    [
        ("safety", "hh-rlhf", "harmless", "harmless-base", THIS),
        ("helpfulness", "hh-rlhf", "harmless", "harmless-base", OTHER),
        ("refusal", "xstest", "appropriateness", "should-respond", OPPOSITE),
        ("refusal", "xstest", "appropriateness", "should-refuse", THIS),
        ("safety", "xstest", "appropriateness", "should-respond", OTHER),
        ("refusal", "rm-bench", "safety", "safety-response", OPPOSITE),
        ("refusal", "reward-bench", "safety", "donotanswer", THIS),
        ("refusal", "reward-bench-2", "safety", "Safety", OTHER),  # refusals on both sides
        ("verbosity", "stimuli/controlled", "verbosity", "verbosity", THIS),
        ("verbosity", "rm-bench", "chat", "chat", OTHER),
        ("overall", "rm-bench", "chat", "chat", THIS),
        ("overall", "stimuli/controlled", "safety", "safety", OTHER),
        ("overall", "file:mine.jsonl", "preference", "all", THIS),
        ("", "file:mine.jsonl", "taste", "all", OTHER),  # neither claims nor asks anything
        ("safety", "planted", "preference", "all", OTHER),
    ],
)
def test_a_name_is_judged_only_by_labels_that_ask_what_it_claims(
    claim, dataset, criterion, subset, relation
):
    assert concepts.relation(claim, dataset, criterion, subset) == relation
