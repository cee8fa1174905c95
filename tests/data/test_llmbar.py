"""LLMBar: sizes of the authors' files, labels, missing subsets."""

from __future__ import annotations

import json

import pytest

from lib.data import llmbar, load_items
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


def test_absent_subsets_are_listed_and_an_error_when_named(tmp_path):
    source = write(tmp_path, [ROW], "Manual")
    items = load_items("llmbar", source=source)
    assert items.missing == ("Natural", "Neighbor", "GPTInst", "GPTOut")
    with pytest.raises(DataError, match="GPTInst"):
        load_items("llmbar/GPTInst", source=source)


def test_a_folder_without_any_subset_is_an_error(tmp_path):
    with pytest.raises(DataError, match="Natural"):
        load_items("llmbar", source=tmp_path)
    with pytest.raises(DataError, match="no folder"):
        load_items("llmbar", source=tmp_path / "absent")


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


def test_a_missing_column_is_an_error(tmp_path):
    with pytest.raises(DataError, match="row 0 without output_2, label"):
        load_items("llmbar", source=write(tmp_path, [{"input": "Made up", "output_1": "a"}]))


def test_there_is_one_split(tmp_path):
    with pytest.raises(DataError, match="Known: test"):
        load_items("llmbar", split="train", source=write(tmp_path, [ROW]))


def test_without_a_source_the_pinned_file_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("REWARD_AUDIT_CACHE", str(tmp_path))
    kept = tmp_path / "github" / llmbar.REPOSITORY / llmbar.REVISION
    write(kept / "Dataset" / "LLMBar" / "Adversarial" / "GPTInst", [ROW], "dataset")
    items = load_items("llmbar/GPTInst")
    assert list(items.comparisons["subset"]) == ["GPTInst"]
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(DataError, match=r"Natural/dataset\.json .*'source'"):
        load_items("llmbar/Natural")
