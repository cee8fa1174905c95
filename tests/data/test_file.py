"""``file:PATH``: the user's own pairs, and an error that names the row for every fault."""

from __future__ import annotations

import json
import math

import pandas as pd
import pytest

from lib.data import load_items
from lib.data.describe import describe
from lib.errors import DataError

PAIR = {"prompt": "q", "chosen": "a", "rejected": "b"}
TURNS = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Hello"},
    {"role": "user", "content": "Bye"},
]


@pytest.fixture
def load(tmp_path):
    """Writes rows as JSON Lines and loads them."""

    def write_and_load(*rows, **options):
        path = tmp_path / "pairs.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return load_items(f"file:{path}", **options)

    return write_and_load


def test_a_pair_is_an_item_named_by_its_row_number(load):
    items = load(PAIR, PAIR | {"chosen": "c"})
    assert items.prompts["item"].tolist() == ["0", "1"]
    assert items.responses["text"].tolist() == ["a", "b", "c", "b"]
    assert items.comparisons[["better", "worse"]].values.tolist() == [[0, 1], [2, 3]]
    assert set(items.comparisons["subset"]) == {"all"}
    assert set(items.comparisons["criterion"]) == {"preference"}


def test_subset_and_criterion_are_kept(load):
    items = load(PAIR | {"subset": "chat", "criterion": "style"})
    assert items.comparisons.loc[0, ["subset", "criterion"]].tolist() == ["chat", "style"]


@pytest.mark.parametrize("nothing", [None, math.nan, ""])
def test_an_empty_subset_or_criterion_is_the_default(load, nothing):
    items = load(PAIR | {"subset": nothing, "criterion": nothing})
    assert items.comparisons.loc[0, ["subset", "criterion"]].tolist() == ["all", "preference"]


@pytest.mark.parametrize("given", [{}, {"subset": None}, {"subset": ""}])
@pytest.mark.parametrize("first", [True, False])
def test_a_row_without_a_subset_is_unlabelled_where_another_row_has_one(load, given, first):
    rows = [PAIR | given, PAIR | {"subset": "hard"}]
    found = load(*rows[:: 1 if first else -1]).comparisons["subset"].tolist()
    assert found == ["unlabelled", "hard"][:: 1 if first else -1]


def test_a_subset_of_zero_is_a_name(load):
    assert load(PAIR | {"subset": 0}).comparisons["subset"].tolist() == ["0"]


def test_turns_stay_turns(load):
    assert load(PAIR | {"prompt": TURNS}).prompts["prompt"][0] == TURNS


def test_each_chosen_beats_each_rejected(load):
    items = load(PAIR | {"chosen": ["a", "b"], "rejected": ["c", "d", "e"]})
    assert len(items) == 1
    assert items.responses["text"].tolist() == ["a", "b", "c", "d", "e"]
    pairs = items.comparisons[["better", "worse"]].values.tolist()
    assert pairs == [[0, 2], [0, 3], [0, 4], [1, 2], [1, 3], [1, 4]]


def test_a_text_given_twice_on_a_side_counts_once_with_its_first_ratings(load):
    ratings = [{"x": number} for number in range(6)]
    row = {"chosen": ["a", "a", "b"], "rejected": ["c", "d", "c"], "ratings": ratings}
    items = load(PAIR | row)
    assert items.responses["text"].tolist() == ["a", "b", "c", "d"]
    assert items.responses["x"].tolist() == [0, 2, 3, 4]
    pairs = items.comparisons[["better", "worse"]].values.tolist()
    assert pairs == [[0, 2], [0, 3], [1, 2], [1, 3]]


def test_identical_responses_are_dropped_and_counted(load):
    items = load(PAIR, PAIR | {"rejected": "a"})
    assert items.prompts["item"].tolist() == ["0"]
    assert items.dropped == {"identical responses": 1}


def test_ratings_go_to_their_responses(load):
    rated = PAIR | {"ratings": [{"helpful": 4, "safe": None}, {"helpful": 1.5}]}
    responses = load(rated).responses
    assert responses["helpful"].tolist() == [4.0, 1.5]
    assert "safe" not in responses or responses["safe"].isna().all()


@pytest.mark.parametrize("text", ["[1, 2, 3]", '["a", "b"]', "[]", '{"name": "x"}', "[not json"])
def test_in_json_lines_a_text_that_looks_like_json_is_a_text(load, text):
    items = load({"prompt": text, "chosen": text, "rejected": "b"})
    assert items.prompts["prompt"][0] == [{"role": "user", "content": text}]
    assert items.responses["text"].tolist() == [text, "b"]


def test_csv_and_parquet_hold_the_same_items_as_json_lines(load, tmp_path):
    rows = [
        {"prompt": TURNS, "chosen": ["a", "b"], "rejected": ["c"], "subset": "x"},
        {"prompt": TURNS[1:2], "chosen": ["[1, 2]"], "rejected": ['d, "e"'], "subset": "y"},
    ]
    pd.DataFrame(rows).to_parquet(tmp_path / "pairs.parquet")
    cells = [{k: v if k == "subset" else json.dumps(v) for k, v in row.items()} for row in rows]
    pd.DataFrame(cells).to_csv(tmp_path / "pairs.csv", index=False)
    wanted = load(*rows).fingerprint
    assert load_items(f"file:{tmp_path / 'pairs.parquet'}").fingerprint == wanted
    assert load_items(f"file:{tmp_path / 'pairs.csv'}").fingerprint == wanted


def test_plain_texts_in_csv_stay_texts(tmp_path):
    path = tmp_path / "pairs.csv"
    rows = [{"prompt": '{"a": 1}', "chosen": "[1, 2, 3]", "rejected": "[draft"}]
    pd.DataFrame(rows).to_csv(path, index=False)
    items = load_items(f"file:{path}")
    assert items.prompts["prompt"][0][0]["content"] == '{"a": 1}'
    assert items.responses["text"].tolist() == ["[1, 2, 3]", "[draft"]


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "[" + "9" * 5000 + "]"], ids=["deep", "long number"]
)
def test_a_csv_cell_that_cannot_be_read_as_json_is_a_text(tmp_path, text):
    path = tmp_path / "pairs.csv"
    pd.DataFrame([{"prompt": text, "chosen": text, "rejected": "b"}]).to_csv(path, index=False)
    items = load_items(f"file:{path}")
    assert items.prompts["prompt"][0][0]["content"] == text
    assert items.responses["text"].tolist() == [text, "b"]


def test_ratings_in_a_csv_cell_that_cannot_be_read_name_their_row(tmp_path):
    path = tmp_path / "pairs.csv"
    for ratings in ('[{"x": 1, "x": 2}, {}]', '[{"x": ' + "9" * 5000 + "}, {}]", "[" * 100_000):
        pd.DataFrame([PAIR | {"ratings": ratings}]).to_csv(path, index=False)
        with pytest.raises(DataError, match="ratings in row 0"):
            load_items(f"file:{path}")


def test_a_limit_samples_the_file(load):
    rows = [PAIR | {"prompt": str(i)} for i in range(30)]
    assert len(load(*rows, limit=7)) == 7


@pytest.mark.parametrize(
    ("change", "needed", "found"),
    [
        ({"prompt": None}, "a prompt in row 1", "nothing"),
        ({"prompt": ""}, "a prompt in row 1", "nothing"),
        ({"prompt": "  "}, "a prompt in row 1", "'  '"),
        ({"prompt": 7}, "a prompt in row 1", "7"),
        ({"prompt": []}, "a prompt in row 1", "[]"),
        ({"prompt": [{"role": "human", "content": "x"}]}, "system, user, assistant", "human"),
        ({"prompt": [{"role": "user"}]}, "a prompt in row 1", "{'role': 'user'}"),
        ({"prompt": TURNS[:3]}, "ends with the user's turn in row 1", "of the assistant"),
        ({"chosen": None}, "a chosen text in row 1", "nothing"),
        ({"chosen": " "}, "a chosen text in row 1", "' '"),
        ({"chosen": []}, "a chosen text in row 1", "nothing"),
        ({"chosen": ["a", None]}, "a chosen text in row 1", "nothing"),
        ({"rejected": math.nan}, "a rejected text in row 1", "nothing"),
        ({"rejected": 3}, "a rejected text in row 1", "3"),
        ({"ratings": [{"x": 1}]}, "ratings in row 1", "[{'x': 1}]"),
        ({"ratings": [{"x": "high"}, {}]}, "ratings in row 1", "high"),
        ({"ratings": 4}, "ratings in row 1", "4"),
        ({"ratings": [{"x": 10**400}, {}]}, "ratings in row 1", "1000"),
        ({"ratings": [{"x": math.nan}, {}]}, "finite ratings in row 1", "x nan"),
        ({"ratings": [{}, {"x": -math.inf}]}, "finite ratings in row 1", "x -inf"),
        ({"ratings": [{"slot": 1}, {}]}, "in item 1 of file:", "slot"),
        ({"subset": ["a"]}, "a subset in row 1", "['a']"),
        ({"criterion": {"a": 1}}, "a criterion in row 1", "{'a': 1}"),
        ({"prompt": "a\ud800"}, "a prompt in row 1", "at character 1"),
        ({"prompt": [{"role": "user", "content": "\udc00"}]}, "a prompt in row 1", "surrogate"),
        ({"chosen": "\ud800"}, "a chosen in row 1", "surrogate"),
        ({"rejected": ["b", "\ud800"]}, "a rejected in row 1", "surrogate"),
        ({"subset": "\ud800"}, "a subset in row 1", "surrogate"),
        ({"criterion": "\ud800"}, "a criterion in row 1", "surrogate"),
    ],
)
def test_a_fault_names_its_row_and_what_was_found(load, change, needed, found):
    with pytest.raises(DataError) as caught:
        load(PAIR, PAIR | change)
    assert needed in caught.value.needed
    assert found in caught.value.found


@pytest.mark.parametrize("column", ["prompt", "chosen", "rejected"])
def test_a_column_that_is_missing_is_an_error(load, column):
    row = {name: value for name, value in PAIR.items() if name != column}
    others = ", ".join(map(repr, row))
    with pytest.raises(DataError, match=f"a {column} column in row 0 .*the columns {others}"):
        load(row)
    with pytest.raises(DataError, match=f"a {column}.* in row 1 .*found nothing"):
        load(PAIR, row)


def test_a_file_without_rows_or_without_a_choice_is_an_error(load):
    with pytest.raises(DataError, match="the source is empty"):
        load()
    with pytest.raises(DataError, match="1 identical responses"):
        load(PAIR | {"rejected": "a"})


def test_a_file_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(DataError, match=r"a file at .*none.jsonl"):
        load_items(f"file:{tmp_path / 'none.jsonl'}")


@pytest.mark.parametrize(
    ("row", "what"),
    [
        (lambda name: {"subset": name}, "a subset"),
        (lambda name: {"criterion": name}, "a criterion"),
        (lambda name: {"ratings": [{name: 1}, {}]}, "a rating's name"),
    ],
    ids=["subset", "criterion", "rating"],
)
def test_a_name_of_more_than_200_characters_is_an_error(load, row, what):
    assert len(load(PAIR | row("x" * 200))) == 1
    message = f"{what} in row 1 of .* at most 200 characters; found 201 characters"
    with pytest.raises(DataError, match=message):
        load(PAIR, PAIR | row("x" * 201))


@pytest.mark.parametrize("name", ["file:", "file: "])
def test_a_missing_path_is_called_one(name):
    with pytest.raises(DataError, match="a path after 'file:'; found none"):
        load_items(name)


def test_a_description_cuts_long_names(load):
    told = describe(load(PAIR | {"subset": "x" * 81, "criterion": "y" * 80}))
    assert f"  {'x' * 80}…, judged by {'y' * 80}: 1 comparison" in told.splitlines()
