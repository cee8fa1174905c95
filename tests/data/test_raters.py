"""Whose choice each was: a column of a file, and published layouts, on made-up rows."""

import json

import pytest

from lib.data import load_items, raters, stream_items
from lib.errors import DataError

# Made up for the tests, in the published schemas.
PRISM = [
    {
        "conversation_id": "c0",
        "user_id": "user7",
        "conversation_type": "unguided",
        "conversation_history": [
            {"turn": 0, "role": "user", "content": "Made up?", "if_chosen": None},
            {"turn": 0, "role": "model", "content": "no", "if_chosen": False},
            {"turn": 0, "role": "model", "content": "yes", "if_chosen": True},
            {"turn": 0, "role": "model", "content": "maybe", "if_chosen": False},
            {"turn": 1, "role": "user", "content": "Sure?", "if_chosen": None},
            {"turn": 1, "role": "model", "content": "quite", "if_chosen": True},
            {"turn": 1, "role": "model", "content": "hm", "if_chosen": False},
        ],
    },
    {
        "conversation_id": "c1",
        "user_id": "user8",
        "conversation_type": "values guided",
        "conversation_history": [
            {"turn": 0, "role": "user", "content": "One?", "if_chosen": None},
            {"turn": 0, "role": "model", "content": "only", "if_chosen": True},
        ],
    },
]
TLDR = [
    {
        "info": {"id": "t3", "post": "A made-up post.", "title": "T"},
        "summaries": [{"text": "first", "policy": "p"}, {"text": "second", "policy": "q"}],
        "choice": 1,
        "worker": "w1",
    },
    {
        "info": {"post": "Another."},
        "summaries": [{"text": "same"}, {"text": "same"}],
        "choice": 0,
        "worker": "w2",
    },
]
PERSONAL = [
    {
        "prompt": "Made up?",
        "response_1": "a",
        "response_2": "b",
        "response_3": "c",
        **{f"response_{k}_gemma_2b": score for k, score in ((1, 0.2), (2, -1.0), (3, 0.9))},
        **{f"response_{k}_beaver_7b": score for k, score in ((1, 5.0), (2, 2.0), (3, 3.0))},
        **{f"response_{k}_flat": 0.0 for k in (1, 2, 3)},
    }
]
PLAIN = [
    {"prompt": "p", "chosen": "good", "rejected": "bad", "user": "ann"},
    {"prompt": "q", "chosen": ["good", "fine"], "rejected": "bad", "user": 7},
    {"prompt": "r", "chosen": "good", "rejected": "bad"},
]


@pytest.fixture
def written(tmp_path):
    def write(rows, name="made.jsonl"):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        return f"file:{tmp_path / name}"

    return write


def told(items):
    text, rows = items.responses["text"], items.comparisons
    return [
        (row.item, text[row.better], text[row.worse], row.user, row.subset)
        for row in rows.itertuples()
    ]


def test_a_column_of_a_file_says_whose_choice_each_was(written):
    items = load_items(written(PLAIN))
    assert items.comparisons["user"].tolist() == ["ann", "7", "7", ""]
    assert "not read" not in items.about


def test_without_users_there_is_no_such_column_and_the_content_is_the_same(written):
    named = load_items(written(PLAIN))
    bare = load_items(written([{k: v for k, v in row.items() if k != "user"} for row in PLAIN]))
    assert "user" not in bare.comparisons
    assert bare.fingerprint == named.fingerprint


def test_users_stay_with_their_comparisons_in_a_sample_and_in_pieces(written):
    name = written(PLAIN)
    assert load_items(name, limit=2, order="head").comparisons["user"].tolist() == ["ann", "7", "7"]
    pieces = [piece.comparisons.get("user") for piece in stream_items(name, size=1)]
    assert [None if piece is None else piece.tolist() for piece in pieces] == [
        ["ann"],
        ["7", "7"],
        None,
    ]


def test_two_users_who_rate_one_prompt_are_two_items(written):
    rows = [
        {"prompt": "p", "completion": text, "score": score, "user": user}
        for user, scores in (("ann", (1, 2)), ("bob", (2, 1)))
        for text, score in zip("xy", scores, strict=True)
    ]
    items = load_items(written(rows))
    assert items.comparisons["user"].tolist() == ["ann", "bob"]
    text = items.responses["text"]
    assert text[items.comparisons["better"]].tolist() == ["y", "x"]


def test_in_prism_the_response_that_went_on_is_preferred_in_each_turn(written):
    items = load_items(written(PRISM, "conversations.jsonl"))
    assert told(items) == [
        ("c0/0", "yes", "no", "user7", "unguided"),
        ("c0/0", "yes", "maybe", "user7", "unguided"),
        ("c0/1", "quite", "hm", "user7", "unguided"),
    ]
    assert items.prompts["prompt"][1] == [
        {"role": "user", "content": "Made up?"},
        {"role": "assistant", "content": "yes"},
        {"role": "user", "content": "Sure?"},
    ]
    assert items.dropped == {"turn with one response": 1}
    assert items.about["layout"] == raters.PRISM


def test_in_tldr_the_worker_chose_one_of_two_summaries(written):
    items = load_items(written(TLDR, "batch3.json"))
    assert told(items) == [("0", "second", "first", "w1", "all")]
    assert items.prompts["prompt"][0] == [{"role": "user", "content": "A made-up post."}]
    assert items.dropped == {"identical responses": 1}


def test_in_personalllm_each_reward_model_stands_for_a_user(written):
    items = load_items(written(PERSONAL))
    assert told(items) == [("0", "c", "b", "gemma_2b", "all"), ("0", "a", "b", "beaver_7b", "all")]


def test_a_pair_without_a_worker_is_nobodys(written):
    assert "user" not in load_items(written([TLDR[0] | {"worker": None}])).comparisons


@pytest.mark.parametrize(
    "row",
    [
        PRISM[0] | {"conversation_history": "x"},
        TLDR[0] | {"choice": 2},
        TLDR[0] | {"summaries": [{"text": "one"}]},
        PERSONAL[0] | {"response_1": 3},
    ],
)
def test_a_row_in_another_layout_is_an_error_that_names_it(written, row):
    with pytest.raises(DataError, match="row 0 of made.jsonl in the layout of"):
        load_items(written([row]))


def test_a_user_that_is_no_name_is_an_error(written):
    with pytest.raises(DataError, match="user"):
        load_items(written([PLAIN[0] | {"user": ["ann"]}]))
