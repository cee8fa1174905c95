"""Weights and cards as tables, by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from lib.analyses.model import stats, words
from lib.errors import ModelError
from lib.markup import table


def test_norms_and_cosines_by_hand():
    matrix = np.asarray([[3.0, 4.0], [4.0, 3.0], [-6.0, -8.0]])
    norms = stats.norms(matrix, ["a", "b", "c"])
    assert norms["norm"].tolist() == [5, 5, 10]
    assert norms["relative"].tolist() == pytest.approx([0.75, 0.75, 1.5])
    table = stats.cosines(matrix, ["a", "b", "c"]).set_index(["head", "other"])["cosine"]
    assert table["a", "b"] == pytest.approx(24 / 25)
    assert table["a", "c"] == -1
    assert table["b", "c"] == pytest.approx(-24 / 25)
    assert table["c", "b"] == table["b", "c"]
    assert table["b", "b"] == 1


def test_a_head_of_zeros_has_no_direction():
    table = stats.cosines(np.asarray([[0.0, 0.0], [1.0, 0.0]]), ["none", "one"])
    assert np.isnan(table["cosine"].tolist()[:3]).all()
    assert table["cosine"].tolist()[3] == 1
    norms = stats.norms(np.asarray([[0.0, 0.0], [1.0, 0.0]]), ["none", "one"])
    assert norms["note"].tolist() == ["all weights are zero", ""]


@pytest.mark.parametrize(
    ("matrix", "names"),
    [
        (np.ones((2, 3)), ["one"]),
        (np.ones(3), ["one"]),
        (np.ones((0, 3)), []),
        (np.asarray([[1.0, np.nan]]), ["one"]),
    ],
)
def test_a_matrix_that_cannot_be_read_is_an_error(matrix, names):
    with pytest.raises(ModelError):
        stats.norms(matrix, names)
    with pytest.raises(ModelError):
        stats.cosines(matrix, names)


def test_a_classifier_has_no_gate_and_no_matrix(tiny_model):
    heads = stats.heads(tiny_model)
    assert heads["head"].tolist() == ["first", "second"]
    assert heads["source"].tolist() == ["made up", "made up"]
    assert heads["concept"].tolist() == ["helpfulness", ""]
    expected = np.linalg.norm(tiny_model.weight, axis=1)
    assert heads["norm"].to_numpy() == pytest.approx(expected, rel=1e-6)
    assert stats.gate(tiny_model).to_numpy().tolist() == [["gate", "none"]]
    assert stats.transform(tiny_model)["note"].tolist() == ["this model has no debiasing matrix"]


def test_what_the_matrix_takes_from_what(tiny_model):
    from dataclasses import replace

    from lib.models.gating import Gate

    matrix = np.asarray([[1.0, 0.0], [-0.25, 0.0]], np.float32)
    network = Gate([(np.ones((4, 32)), np.ones(4)), (np.ones((2, 4)), np.ones(2))], 2.0, 10.0)
    model = replace(tiny_model, transform=matrix, gate=network)
    table = stats.transform(model)
    # (r M)_first = r_first − ¼ r_second, and (r M)_second = 0
    assert table.to_numpy()[:, :3].tolist() == [
        ["first", "second", -0.25],
        ["second", "second", 0.0],
    ]
    parts = dict(stats.gate(model).to_numpy().tolist())
    expected = {"layer 1": "32 → 4", "layer 2": "4 → 2", "temperature": "10", "sums to": "2"}
    assert parts == expected
    still = replace(model, transform=np.eye(2, dtype=np.float32))
    assert stats.transform(still)["note"].tolist() == ["the debiasing matrix is the identity"]


CARD = {
    "heads": [
        {
            "name": "kind",
            "kind": "preference",
            "trained_on": "set",
            "rows": 7,
            "score": "accuracy",
            "cross_validated": {"value": 0.6, "low": 0.5, "high": 0.7, "rows": 9},
            "held_out": {"value": 0.65, "low": 0.55, "high": 0.75, "rows": 5},
            "is_not": "Not wise.",
        }
    ],
    "gate": {
        "held_out": {"value": 0.7, "low": 0.6, "high": 0.8, "rows": 5},
        "held_out_single_heads": {"kind": {"value": 0.6, "low": 0.5, "high": 0.7, "rows": 5}},
    },
    "split": {"rule": "by chance", "train": ["a", "b"], "held_out": ["c"]},
}


def test_a_card_becomes_tables():
    row = stats.scores(CARD).iloc[0]
    assert (row["head"], row["held_out"], row["held_out_rows"]) == ("kind", 0.65, 5)
    assert (row["cross_validated_low"], row["is_not"]) == (0.5, "Not wise.")
    rules = stats.combined(CARD)
    assert rules["rule"].tolist() == ["gate", "kind alone"]
    assert rules["score"].tolist() == [0.7, 0.6]
    sides = stats.sides(CARD)
    assert dict(zip(sides["side"], sides["prompts"], strict=True)) == {"train": 2, "held_out": 1}


def test_a_model_without_a_card_says_so():
    for card in ({}, {"kind": "sequence classifier", "names": "unnamed"}):
        assert stats.scores(card)["note"].tolist() == [stats.NO_CARD]
        assert stats.combined(card)["note"].tolist() == [stats.NO_CARD]
        assert stats.sides(card)["note"].tolist() == ["this model's card names no split"]


def test_what_a_model_has_not_is_said_and_no_table_of_it_shown():
    ungated, plain = stats.gate(None), stats.transform(None)
    assert words.gateless(ungated, plain) == [
        "This model has no gate.",
        "This model has no debiasing matrix.",
    ]
    there = pd.DataFrame([("layer 1", "4 → 2")], columns=["part", "value"])
    one = pd.DataFrame([("a", "b", 0.5, "")], columns=["head", "other", "entry", "note"])
    assert words.gateless(there, one) == []
    assert table(ungated[ungated["part"] != "gate"], empty="").markup == ""
    assert "There are no rows." in table(ungated.head(0)).markup
