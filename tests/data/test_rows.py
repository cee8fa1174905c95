"""A row of a published set that holds another type than its set's is an error that names it."""

import json

import pytest

from lib.data import load_items
from lib.errors import DataError

PAIR = {"input": "Say yes.", "output_1": "No.", "output_2": "Yes.", "label": 2}
JUDGED = {"prompt": "q", "response": "r", "is_safe": True}
RATED = dict.fromkeys(("helpfulness", "correctness", "coherence", "complexity", "verbosity"), 2) | {
    "prompt": "q",
    "response": "r",
}
RESPONSE = {"response": "r", "overall_score": 5, "annotations": {}}
COMPLETED = {"instruction": "q", "completions": [RESPONSE]}


@pytest.mark.parametrize("value", [3, ["a list"], {"a": "dict"}, True])
@pytest.mark.parametrize(
    ("name", "file", "row", "column"),
    [
        ("llmbar/Natural", "Natural.jsonl", PAIR, "input"),
        ("llmbar/Natural", "Natural.jsonl", PAIR, "output_2"),
        ("beavertails/30k", "30k/train.jsonl", JUDGED, "prompt"),
        ("beavertails/30k", "30k/train.jsonl", JUDGED, "response"),
        ("helpsteer2", "train.jsonl", RATED, "response"),
        ("ultrafeedback/flan", "flan.jsonl", COMPLETED, "instruction"),
        ("ultrafeedback/flan", "flan.jsonl", COMPLETED, "completions"),
    ],
)
def test_a_value_that_is_no_text_is_named_with_its_row(tmp_path, name, file, row, column, value):
    (tmp_path / file).parent.mkdir(exist_ok=True)
    rows = [row, row, row | {column: value}, row]
    (tmp_path / file).write_text("".join(json.dumps(each) + "\n" for each in rows))
    split = "test" if name.startswith("llmbar") else "train"
    with pytest.raises(DataError, match="row 2"):
        load_items(name, split=split, source=tmp_path)


@pytest.mark.parametrize("change", [{"response": 7}, {"annotations": ["4"]}])
def test_a_completion_of_another_form_is_named_with_its_row(tmp_path, change):
    row = COMPLETED | {"completions": [RESPONSE | change]}
    (tmp_path / "flan.jsonl").write_text(json.dumps(row))
    with pytest.raises(DataError, match="row 0"):
        load_items("ultrafeedback/flan", split="train", source=tmp_path)
