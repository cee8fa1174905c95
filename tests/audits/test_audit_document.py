"""``audit.json``: packed outcomes, hashed ids, a schema, and what isn't one."""

from __future__ import annotations

import base64
import json

import jsonschema
import numpy as np
import pandas as pd
import pytest

from lib.audits import document, outcomes
from lib.errors import StoreError
from lib.stats.margins import outcomes as won

SCHEMA = json.loads(document.SCHEMA.read_text())


PAIRS = 120


@pytest.fixture
def table(run_of):
    """The table that a validity page leaves of who won."""
    return lambda **given: won(run_of(**given))


def test_outcomes_come_back_as_they_were_packed(table):
    given = table(heads=3)
    given.loc[3, "outcome"], given.loc[7, "outcome"] = 0.5, np.nan
    found = outcomes.of_table(given)
    again = outcomes.unpack(json.loads(json.dumps(outcomes.pack(found))))
    assert list(again.rules) == ["head_0", "head_1", "head_2", "final score"]
    for rule, values in found.rules.items():
        own = given.loc[given["rule"] == rule, "outcome"]
        np.testing.assert_array_equal(values, own.to_numpy(float))
        np.testing.assert_array_equal(again.rules[rule], values)
    np.testing.assert_array_equal(again.ids, found.ids)
    assert again.subset.tolist() == found.subset.tolist()


def test_two_bits_are_laid_out_as_the_schema_says():
    """0, ½, 1 and no number, then 1: 0b11_10_01_00 and 0b10."""
    given = pd.DataFrame(
        {
            "kind": "head",
            "rule": "h",
            "item": list("abcde"),
            "prompt": list("ppqqq"),
            "better": 0,
            "worse": 1,
            "criterion": "c",
            "subset": "s",
            "outcome": [0, 0.5, 1, np.nan, 1],
        }
    )
    packed = outcomes.pack(outcomes.of_table(given))
    assert base64.b64decode(packed["rules"]["h"]) == bytes([0b11100100, 0b10])
    assert np.frombuffer(base64.b64decode(packed["prompts"]), "<u4").tolist() == [0, 0, 1, 1, 1]
    assert packed["n"] == 5 and packed["subsets"] == ["s"]


def test_an_id_is_of_the_comparison_and_not_of_its_place(table):
    given = table()
    one, other = outcomes.of_table(given), outcomes.of_table(given.iloc[::-1])
    assert set(one.ids) == set(other.ids) and len(set(one.ids)) == PAIRS
    moved = outcomes.of_table(given.assign(prompt="another"))
    assert not set(one.ids) & set(moved.ids)


@pytest.mark.parametrize(
    ("part", "value", "says"),
    [
        ("ids", "AAAA", "ids: 3 bytes"),
        ("ids", "no base64!", "no Base64"),
        ("n", 3, "bytes of 3 entries"),
        ("subsets", [], "no name"),
    ],
)
def test_outcomes_that_cannot_have_been_packed_are_refused(table, part, value, says):
    packed = outcomes.pack(outcomes.of_table(table())) | {part: value}
    with pytest.raises(ValueError, match=says):
        outcomes.unpack(packed)


def test_an_audit_follows_its_schema_and_is_the_same_bytes_again(content, run_of, tmp_path):
    made = content(run_of(), run_of("stimuli/exploits", subset=["length", "format"] * (PAIRS // 2)))
    document.save(tmp_path / "audit.json", made)
    found = document.load(tmp_path / "audit.json")
    jsonschema.validate(found, SCHEMA)
    assert document.text(found) == (tmp_path / "audit.json").read_text() == document.text(made)
    (model,) = found["models"]
    assert model["name"] == "m" and model["check"] == ""
    assert {row["of"] for row in model["verdicts"]} >= {"validity", "exploits"}
    assert [each["outcomes"]["n"] for each in model["datasets"]] == [PAIRS, PAIRS]
    assert all(each["items"] and each["how"] == "kept run" for each in model["datasets"])


def test_every_verdict_of_the_tables_is_there_with_its_numbers(audited, run_of):
    found = audited(run_of(heads=3))
    (dataset,) = found.left.datasets
    validity = found.left.read("validity", dataset)
    rows = document.of_model(found.left, None, found.sources)["verdicts"]
    told = {(row["judged"], row["part"]): row for row in rows if row["of"] == "validity"}
    for row in validity[validity["subset"] == "all"].itertuples():
        kept = told[row.head, "all"]
        assert kept["verdict"] == row.verdict
        assert kept["numbers"]["win_rate"] == pytest.approx(row.win_rate, rel=1e-5)
        assert kept["numbers"]["p_adjusted"] == pytest.approx(row.p_adjusted, rel=1e-5)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("no json", "not JSON"),
        ("[]", "no object"),
        ('{"format": 2, "models": []}', "needed format 1.*found 2"),
        ('{"models": []}', "needed format 1.*found none"),
        ('{"format": 1, "made_with": {"reward-audit": "0"}, "models": []}', "at models"),
        ('{"format": 1, "made_with": {}, "models": [{}]}', "as its schema has it"),
    ],
)
def test_what_is_no_audit_is_refused_in_words(tmp_path, text, says):
    path = tmp_path / "audit.json"
    path.write_text(text)
    with pytest.raises(StoreError, match=says) as refused:
        document.load(path)
    assert "python -m lib report" in refused.value.remedy


def test_a_damaged_outcome_is_refused_by_its_place(content, run_of, tmp_path):
    made = content(run_of())
    made["models"][0]["datasets"][0]["outcomes"]["ids"] = "AAAA"
    document.save(tmp_path / "audit.json", made)
    with pytest.raises(StoreError, match="outcomes of m on xstest"):
        document.load(tmp_path / "audit.json")
