"""UltraFeedback on made-up rows of its published schema: the real files could not be had."""

from __future__ import annotations

import json
import math

import pytest

from lib.data import load_items, ultrafeedback


def completion(text: str, ratings: tuple, overall) -> dict:
    """Made up for the tests; ratings in the order of ``ASPECTS``."""
    given = dict(zip(ultrafeedback.ASPECTS, ratings, strict=True))
    return {
        "model": "made-up",
        "principle": "helpfulness",
        "custom_system_prompt": "Made up for the tests.",
        "response": text,
        "critique": "Made up.",
        "overall_score": overall,
        "fine-grained_score": 0.0,
        "annotations": {k: {"Rating": v, "Rationale": "Made up."} for k, v in given.items()},
    }


def row(*completions: dict, instruction="Made up: what is a heron?") -> dict:
    return {
        "source": "flan",
        "instruction": instruction,
        "models": ["made-up"] * len(completions),
        "completions": list(completions),
        "correct_answers": ["None"],
        "incorrect_answers": ["None"],
    }


GOOD = completion("A wading bird.", ("5", "4", "5", "4"), 8.5)


def write(folder, rows, part="flan"):
    text = "".join(json.dumps(each) + "\n" for each in rows)
    (folder / f"{part}.jsonl").write_text(text, encoding="utf-8")
    return str(folder)


@pytest.mark.parametrize(
    ("value", "highest", "expected"),
    [
        ("4", 5, 4.0),
        (" 3 ", 5, 3.0),
        (2, 5, 2.0),
        (7.5, 10, 7.5),
        ("10", 10, 10.0),
        ("N/A", 5, ultrafeedback.MISSING),
        ("", 5, ultrafeedback.MISSING),
        (None, 5, ultrafeedback.MISSING),
        (math.nan, 10, ultrafeedback.MISSING),
        ("6", 5, ultrafeedback.UNREADABLE),
        (0, 5, ultrafeedback.UNREADABLE),
        ("-1", 5, ultrafeedback.UNREADABLE),
        ("3 or 4", 5, ultrafeedback.UNREADABLE),
        ("inf", 5, ultrafeedback.UNREADABLE),
    ],
)
def test_ratings_are_parsed_or_said_to_be_missing_or_unreadable(value, highest, expected):
    assert ultrafeedback.parse_rating(value, highest) == expected


def test_ratings_are_columns_and_there_are_no_comparisons(tmp_path):
    other = completion("A kind of fish.", (1, 2.0, "N/A", "3 or 4"), "N/A")
    source = write(tmp_path, [row(GOOD, other)])
    items = load_items("ultrafeedback/flan", split="train", source=source)
    assert list(items.responses.columns) == [
        *("item", "slot", "text", "instruction_following", "truthfulness", "honesty"),
        *("helpfulness", "overall_score", "judgements"),
    ]
    first, second = items.responses.iloc[:, 3:].to_numpy().tolist()
    assert first == [5, 4, 5, 4, 8.5, 1]
    assert second[:2] == [1, 2]
    assert all(math.isnan(value) for value in second[2:5])
    assert items.dropped == {"rating missing": 2, "rating unreadable": 1}
    assert items.comparisons.empty


def test_one_text_of_several_models_is_one_response_with_mean_and_count(tmp_path):
    repeat = completion("A wading bird.", ("3", "N/A", "1", "4"), 6)
    other = completion("A bird.", ("4", "4", "4", "4"), 7)
    source = write(tmp_path, [row(GOOD, other, repeat)])
    items = load_items("ultrafeedback", split="train", source=source)
    assert list(items.responses["text"]) == ["A wading bird.", "A bird."]
    # (5 + 3)/2, 4 alone, (5 + 1)/2, (4 + 4)/2, (8.5 + 6)/2, two judgements
    assert items.responses.iloc[0, 3:].tolist() == [4, 4, 3, 4, 7.25, 2]
    assert items.responses.iloc[1, 3:].tolist() == [4, 4, 4, 4, 7, 1]


@pytest.mark.parametrize(
    ("ratings", "kept"),
    [(("1", "1", "1", "2"), False), (("2",) * 4, False), (("2", "2", "2", "3"), True)],
)
def test_an_overall_ten_beside_poor_ratings_is_left_out_and_counted(tmp_path, ratings, kept):
    source = write(tmp_path, [row(completion("Bird!", ratings, 10.0))])
    items = load_items("ultrafeedback", split="train", source=source)
    assert items.responses["overall_score"].dropna().tolist() == ([10] if kept else [])
    expected = {} if kept else {"overall score contradicts the ratings": 1}
    assert items.dropped == expected


def test_unusable_rows_are_counted_by_reason(tmp_path):
    rows = [
        row(GOOD, completion("", ("1",) * 4, 1)),
        row(GOOD, instruction=" "),
        row(completion("Unrated.", ("N/A",) * 4, None)),
        row(),
    ]
    items = load_items("ultrafeedback", split="train", source=write(tmp_path, rows))
    assert list(items.prompts["item"]) == ["flan/0"]
    assert items.dropped == {
        "empty response": 1,
        "empty prompt": 1,
        "rating missing": 5,
        "no rated response": 2,
    }


def test_items_without_comparisons_can_be_sampled(tmp_path):
    rows = [row(GOOD, instruction=f"Made up: {n}?") for n in range(9)]
    items = load_items("ultrafeedback", split="train", source=write(tmp_path, rows))
    sample = items.take(4, seed=1)
    assert (len(sample), len(sample.responses), len(sample.comparisons)) == (4, 4, 0)
