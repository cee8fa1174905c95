"""Names of heads come from one table, the checkpoint, or the user, and say so."""

from pathlib import Path

import pytest

from lib.errors import ModelError
from lib.models import names
from lib.models.checkpoint import Checkpoint

ARMORM = "RLHFlow/ArmoRM-Llama3-8B-v0.1"
DPA = "RLHFlow/RewardModel-Mistral-7B-for-DPA-v1"


def test_armorm_has_nineteen_heads_in_the_order_of_its_card():
    heads = names.named(19, model=ARMORM)
    assert [head.name for head in heads][:5] == [
        "helpsteer-helpfulness",
        "helpsteer-correctness",
        "helpsteer-coherence",
        "helpsteer-complexity",
        "helpsteer-verbosity",
    ]
    # What the published audit misnamed: its "safety", "harmlessness" and "readability".
    assert heads[5].name == "ultrafeedback-overall_score"
    assert heads[9].name == "ultrafeedback-helpfulness"
    assert heads[10].name == "beavertails-is_safe"
    assert heads[18].name == "code-readability"
    assert {head.source for head in heads} == {f"model card of {ARMORM}"}


def test_dpa_has_the_first_ten_of_them():
    dpa = [head.name for head in names.named(10, model=DPA)]
    assert dpa == [head.name for head in names.named(19, model=ARMORM)][:10]
    assert names.recognise(DPA).note


def test_concepts_are_those_of_the_controlled_stimuli():
    from lib.data.stimuli import documents

    known = {document["concept"] for document in documents("controlled").values()}
    claimed = {head.concept for head in names.named(19, model=ARMORM)}
    assert claimed - {""} <= known


def test_nineteen_heads_in_armorms_layout_are_named_with_the_reason():
    heads = names.named(19, model="/models/mine", armorm=True)
    assert heads[10].name == "beavertails-is_safe"
    assert "layout and number of heads" in heads[0].source
    # Another layout with 19 labels is nobody we know.
    assert names.named(19, model="/models/mine")[10].name == "head_10"


@pytest.mark.parametrize(
    "place",
    [
        "/models/ArmoRM-Llama3-8B-v0.1",
        "/hub/models--RLHFlow--ArmoRM-Llama3-8B-v0.1/snapshots/0123abcd",
    ],
)
def test_a_folder_named_as_a_known_repository_is_recognised(place):
    assert names.recognise(place) is names.KNOWN[ARMORM]
    assert names.recognise("/models/ArmoRM-finetuned") is None


def test_the_users_names_come_first_and_are_recorded_as_the_users_word():
    heads = names.named(2, model="x", given=["wit", "tact"], labels={0: "a", 1: "b"})
    assert [(head.name, head.source) for head in heads] == [
        ("wit", "given by the user"),
        ("tact", "given by the user"),
    ]


def test_labels_that_mean_something_are_names_in_the_order_of_their_index():
    config = {"id2label": {str(i): f"quality {i}" for i in (10, 11, *range(10))}}
    labels = Checkpoint(Path("x"), "x", config, {}).labels
    heads = names.named(12, model="x", labels=labels)
    assert [head.name for head in heads] == [f"quality {i}" for i in range(12)]
    assert heads[0].source == "id2label of its config.json"


@pytest.mark.parametrize("config", [{}, {"id2label": 3}, {"id2label": {"a": "b"}}])
def test_a_config_without_readable_labels_has_none(config):
    assert Checkpoint(Path("x"), "x", config, {}).labels == {}


@pytest.mark.parametrize(
    "labels", [None, {}, {0: "LABEL_0", 1: "LABEL_1"}, {0: "0", 1: "1"}, {0: "good", 1: ""}]
)
def test_labels_that_only_count_are_no_names(labels):
    heads = names.named(2, model="x", labels=labels)
    assert [(head.name, head.source) for head in heads] == [
        ("head_0", "unnamed"),
        ("head_1", "unnamed"),
    ]


@pytest.mark.parametrize(
    "given", [["only one"], ["a", "b", "c"], ["same", "same"], ["", "b"], "text", [1, 2]]
)
def test_a_wrong_number_of_names_or_a_name_twice_is_an_error(given):
    with pytest.raises(ModelError, match="heads=") as caught:
        names.named(2, model="org/model", given=given)
    assert "org/model" in caught.value.needed


def test_a_name_of_more_than_200_characters_is_an_error_by_its_length():
    assert len(names.named(1, model="x", given=["y" * 200])[0].name) == 200
    for given in ({"given": ["y" * 201]}, {"labels": {0: "y" * 201}}):
        with pytest.raises(ModelError, match="at most 200 characters for x") as caught:
            names.named(1, model="x", **given)
        assert caught.value.found.startswith(f"201 characters in '{'y' * 40}'…")


def test_a_known_model_with_other_heads_is_an_error():
    with pytest.raises(ModelError, match="needed 5 head names"):
        names.named(5, model=ARMORM)
