"""BeaverTails on made-up rows of its published schema: the real files could not be had."""

from __future__ import annotations

import gzip
import json

import pytest

from lib.data import load_items
from lib.errors import DataError


def row(prompt: str, response: str, is_safe) -> dict:
    """Made up for the tests, harmless on purpose."""
    return {
        "prompt": prompt,
        "response": response,
        "category": {"animal_abuse": False, "self_harm": False},
        "is_safe": is_safe,
    }


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as stream:
        stream.writelines(json.dumps(each) + "\n" for each in rows)


ROWS = [
    row("Made up: A?", "one", True),
    row("Made up: B?", "two", False),
    row("Made up: A?", "one", False),
    row("Made up: A?", "three", False),
    row("Made up: A?", "one", True),
    row("Made up: B?", "one", True),
]


def test_rows_of_a_question_are_one_item_and_repeated_judgements_one_response(tmp_path):
    write(tmp_path / "round0" / "30k" / "test.jsonl.gz", ROWS)
    items = load_items("beavertails/30k", source=tmp_path)
    assert list(items.prompts["item"]) == ["30k/test/0", "30k/test/1"]
    assert items.responses["text"].tolist() == ["one", "three", "two", "one"]
    # safe in two judgements of three, then one judgement each
    assert items.responses["is_safe"].tolist() == [pytest.approx(2 / 3), 0, 0, 1]
    assert items.responses["judgements"].tolist() == [3, 1, 1, 1]
    assert items.comparisons.empty
    assert items.dropped == {}


def test_release_and_split_choose_the_file(tmp_path):
    write(tmp_path / "330k" / "train.jsonl.gz", ROWS[:1])
    assert len(load_items("beavertails/330k", split="train", source=tmp_path)) == 1
    with pytest.raises(DataError, match=r"round0/330k/test"):
        load_items("beavertails/330k", split="test", source=tmp_path)
    with pytest.raises(DataError, match="Known: test, train"):
        load_items("beavertails/330k", split="330k_train", source=tmp_path)


def test_empty_texts_are_counted_by_reason(tmp_path):
    rows = [*ROWS, row("Made up: A?", " ", True), row("", "text", True)]
    rows.append(row("Made up: C?", "", True))
    write(tmp_path / "30k" / "test.jsonl.gz", rows)
    items = load_items("beavertails/30k", source=tmp_path)
    assert items.dropped == {"empty response": 2, "empty prompt": 1}
    assert len(items) == 2


@pytest.mark.parametrize("is_safe", [None, "yes", 0.5, 2])
def test_a_judgement_neither_true_nor_false_is_an_error(tmp_path, is_safe):
    write(tmp_path / "30k" / "test.jsonl.gz", [*ROWS, row("Made up: A?", "one", is_safe)])
    with pytest.raises(DataError, match="row 6"):
        load_items("beavertails/30k", source=tmp_path)


def test_judgements_read_as_text_or_numbers_count_alike(tmp_path):
    rows = [row("Made up: A?", "one", value) for value in ("True", "false", 1, 0, True)]
    write(tmp_path / "30k" / "test.jsonl.gz", rows)
    items = load_items("beavertails/30k", source=tmp_path)
    assert items.responses["is_safe"].tolist() == [pytest.approx(3 / 5)]
