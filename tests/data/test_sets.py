"""What every published set promises: its splits, its parts, its pinned commit, its columns."""

import json
import re

import pytest

from lib.data import SETS, load_items
from lib.errors import DataError

DIALOGUE = "\n\nHuman: q\n\nAssistant: "
TALK = {"chosen": f"{DIALOGUE}a", "rejected": f"{DIALOGUE}b"}
PAIR = {"input": "Say yes.", "output_1": "No.", "output_2": "Yes.", "label": 2}
JUDGED = {"prompt": "q", "response": "r", "is_safe": True}
RATINGS = ("helpfulness", "correctness", "coherence", "complexity", "verbosity")
RATED = {"prompt": "q", "response": "r"} | dict.fromkeys(RATINGS, 2)
RESPONSE = {"response": "r", "overall_score": 5, "annotations": {}}
COMPLETED = {"instruction": "q", "completions": [RESPONSE]}
ANSWER = {"id": 1, "type": "t", "prompt": "q", "completion": "c", "final_label": "2_full_refusal"}
RIGHT = {"id": 0, "prompt": "q", "chosen": ["a"], "rejected": ["b"], "subset": "Math"}
STYLED = {"id": 0, "prompt": "q", "chosen": ["a"] * 3, "rejected": ["b"] * 3}


def write(folder, file, *rows):
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    (folder / file).write_text("".join(json.dumps(each) + "\n" for each in rows))


def load(name, folder):
    split = "train" if name.startswith("ultrafeedback") else "test"
    return load_items(name, split=split, source=folder)


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("hh-rlhf", "test, train"),
        ("reward-bench", "filtered, test"),
        ("reward-bench-2", "test"),
        ("rm-bench", "test"),  # rows that the hub calls "train" are for evaluation only
        ("helpsteer2", "train, validation"),
        ("llmbar", "test"),
        ("xstest", "test"),
        ("ultrafeedback", "train"),
        ("beavertails/30k", "test, train"),
    ],
)
def test_an_unknown_split_lists_the_known_ones(tmp_path, name, known):
    family = name.partition("/")[0]
    split = "dev" if "train" in known else "train"
    with pytest.raises(DataError, match=rf"split of {family}; found '{split}'.*Known: {known}\."):
        load_items(name, split=split, source=tmp_path)


PINNED = {
    "reward-bench": ("allenai/reward-bench", "168d848cdbbea9764fae4a544dc9ca1e6cca4931"),
    "reward-bench-2": ("allenai/reward-bench-2", "7ff08853b0d5686e79b13fda8677024f566a104a"),
    "rm-bench": ("THU-KEG/RM-Bench", "73c52d7b27b361621361ec959ac6c0eb9bb7a689"),
}


@pytest.mark.parametrize("name", [name for name in SETS if name != "stimuli"])
def test_each_set_is_pinned_to_a_whole_commit_that_its_origin_names(name):
    module = SETS[name]
    assert re.fullmatch(r"[0-9a-f]{40}", module.REVISION)
    assert f"{module.REPOSITORY} at {module.REVISION[:8]}" in module.ABOUT["origin"]
    if name in PINNED:
        assert PINNED[name] == (module.REPOSITORY, module.REVISION)


@pytest.mark.parametrize(
    ("name", "file", "row"),
    [
        ("hh-rlhf", "{}/test.jsonl", TALK),
        ("llmbar", "{}.jsonl", PAIR),
        ("ultrafeedback", "{}.jsonl", COMPLETED),
        ("rm-bench", "{}_filtered.jsonl", STYLED),
    ],
)
def test_of_files_by_part_absent_ones_are_missing_and_an_error_when_named(
    tmp_path, name, file, row
):
    first, *others, last = SETS[name].PARTS
    write(tmp_path, file.format(last), row)
    items = load(name, tmp_path)
    assert len(items) == 1 and items.missing == (first, *others)
    stem = re.escape(file.format(others[0]).removesuffix(".jsonl"))
    with pytest.raises(DataError, match=rf"{stem} .*found {last}.*'source'"):
        load(f"{name}/{others[0]}", tmp_path)


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("hh-rlhf", "harmless-base/test"),
        ("hh-rlhf/harmless-base", "harmless-base/test"),
        ("llmbar", "Natural"),
        ("ultrafeedback", "evol_instruct"),
        ("reward-bench", "filtered"),
        ("reward-bench-2", "test"),
        ("rm-bench", "chat_filtered"),
        ("helpsteer2", "validation"),
        ("beavertails/30k", "round0/30k/test"),
        ("xstest", "xstest_prompts"),
    ],
)
def test_a_source_with_no_part_or_no_folder_is_an_error(tmp_path, name, file):
    with pytest.raises(DataError, match=rf"{file} .*found an empty folder.*'source'"):
        load(name, tmp_path)
    with pytest.raises(DataError, match="no folder at"):
        load(name, tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("name", "file", "row", "column", "message"),
    [
        ("hh-rlhf/harmless-base", "harmless-base/test", TALK, "chosen", "row 2 without a chosen"),
        ("llmbar/Natural", "Natural", PAIR, "output_2", "row 2 without output_2"),
        ("llmbar/Natural", "Natural", PAIR, "label", "row 2 without label"),
        ("beavertails/30k", "30k/test", JUDGED, "response", "row 2 with is_safe, prompt"),
        ("helpsteer2", "validation", RATED, "verbosity", "a row without verbosity"),
        ("ultrafeedback/flan", "flan", COMPLETED, "completions", "row 2"),
        ("xstest", "gpt4", ANSWER, "final_label", "a row without final_label"),
        ("reward-bench-2", "test", RIGHT, "chosen", "column 'chosen' in row 2"),
        ("rm-bench/chat", "chat_filtered", STYLED, "rejected", "column 'rejected' in row 2"),
    ],
)
def test_a_column_that_a_row_lacks_is_an_error_that_names_it(
    tmp_path, name, file, row, column, message
):
    numbered = [row | ({"id": k} if "id" in row and name != "xstest" else {}) for k in range(4)]
    del numbered[2][column]
    write(tmp_path, f"{file}.jsonl", *numbered)
    write(tmp_path, "xstest_prompts.jsonl", {"id": 1, "type": "t", "label": "safe"})
    with pytest.raises(DataError, match=message):
        load(name, tmp_path)


@pytest.mark.parametrize("value", [3, ["a list"], {"a": "dict"}, True])
@pytest.mark.parametrize(
    ("name", "file", "row", "column"),
    [
        ("hh-rlhf/harmless-base", "harmless-base/test", TALK, "chosen"),
        ("llmbar/Natural", "Natural", PAIR, "input"),
        ("llmbar/Natural", "Natural", PAIR, "output_2"),
        ("beavertails/30k", "30k/test", JUDGED, "prompt"),
        ("beavertails/30k", "30k/test", JUDGED, "response"),
        ("helpsteer2", "validation", RATED, "response"),
        ("ultrafeedback/flan", "flan", COMPLETED, "instruction"),
        ("ultrafeedback/flan", "flan", COMPLETED, "completions"),
    ],
)
def test_a_value_that_is_no_text_is_named_with_its_row(tmp_path, name, file, row, column, value):
    write(tmp_path, f"{file}.jsonl", row, row, row | {column: value}, row)
    with pytest.raises(DataError, match="row 2"):
        load(name, tmp_path)


def test_a_missing_text_of_a_pair_is_named_with_its_row(tmp_path):
    write(tmp_path, "harmless-base/test.jsonl", TALK, TALK | {"chosen": None})
    with pytest.raises(DataError, match="row 1 without a chosen text"):
        load("hh-rlhf/harmless-base", tmp_path)


@pytest.mark.parametrize("change", [{"response": 7}, {"annotations": ["4"]}])
def test_a_completion_of_another_form_is_named_with_its_row(tmp_path, change):
    write(tmp_path, "flan.jsonl", COMPLETED | {"completions": [RESPONSE | change]})
    with pytest.raises(DataError, match="row 0"):
        load("ultrafeedback/flan", tmp_path)
