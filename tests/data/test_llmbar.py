"""LLMBar: sizes of the authors' files, labels, missing subsets."""

from __future__ import annotations

import json

import pytest

from lib.data import load_items
from lib.errors import DataError

# Made up for the tests, in the published schema.
ROW = {"input": "Made up: say yes.", "output_1": "No.", "output_2": "Yes.", "label": 2}


def write(folder, rows, stem="Natural"):
    path = folder / f"{stem}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows), encoding="utf-8")
    return str(folder)


def test_the_authors_files_have_their_published_sizes(shared_data):
    items = load_items("llmbar", source=shared_data / "llmbar")
    assert items.comparisons["subset"].value_counts().to_dict() == {
        "Natural": 100,
        "Neighbor": 134,
        "GPTOut": 47,
        "Manual": 46,
    }
    assert items.missing == ("GPTInst",)
    assert items.dropped == {}


def test_the_longer_output_is_rarely_the_better_one_in_neighbor(shared_data):
    items = load_items("llmbar/Neighbor", source=shared_data / "llmbar")
    size = items.responses["text"].str.len().to_numpy()
    longer = size[items.comparisons["better"]] > size[items.comparisons["worse"]]
    assert longer.sum() == 16  # of 134, counted on the raw file
    assert items.missing == ()


def test_label_says_which_output_is_better(tmp_path):
    rows = [ROW, {**ROW, "label": 1}]
    items = load_items("llmbar", source=write(tmp_path, rows))
    text = items.responses["text"]
    assert [text[row] for row in items.comparisons["better"]] == ["Yes.", "No."]
    assert [text[row] for row in items.comparisons["worse"]] == ["No.", "Yes."]
    assert list(items.prompts["item"]) == ["Natural/0", "Natural/1"]
    assert set(items.comparisons["criterion"]) == {"instruction-following"}


@pytest.mark.parametrize("label", [0, 3, None, "b", 1.5])
def test_another_label_is_an_error_that_names_the_row(tmp_path, label):
    source = write(tmp_path, [ROW, {**ROW, "label": label}])
    with pytest.raises(DataError, match=r"label of 1 or 2 .* in row 1"):
        load_items("llmbar", source=source)


@pytest.mark.parametrize("root", ["Dataset/LLMBar/", ""])
def test_a_checkout_of_the_authors_repository_is_a_source(tmp_path, root):
    write(tmp_path, [ROW], f"{root}Natural/dataset")
    source = write(tmp_path, [ROW, ROW], f"{root}Adversarial/GPTInst/dataset")
    items = load_items("llmbar", source=source)
    assert items.comparisons["subset"].value_counts().to_dict() == {"GPTInst": 2, "Natural": 1}


def test_unusable_rows_are_counted_by_reason(tmp_path):
    rows = [
        ROW,
        {**ROW, "input": " "},
        {**ROW, "output_1": ""},
        {**ROW, "output_1": "Yes."},
    ]
    items = load_items("llmbar", source=write(tmp_path, rows))
    assert items.dropped == {
        "empty prompt": 1,
        "empty response": 1,
        "identical responses": 1,
    }
