"""RewardBench's loader, on made-up rows of the published schema (columns as on the hub)."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from lib.data import load_items
from lib.data import reward_bench as rb
from lib.errors import DataError


def row(subset: str, number: int = 0, **changes) -> dict:
    made_up = {
        "prompt": f"Made-up question {number} of {subset}",
        "chosen": "A made-up answer that was preferred",
        "chosen_model": "made-up-a",
        "rejected": "Another made-up answer",
        "rejected_model": "made-up-b",
        "subset": subset,
        "id": number,
    }
    return made_up | changes


def whole() -> list[dict]:
    return [row(subset, number) for subset in rb.COUNTS for number in range(2)]


@pytest.fixture
def folder(tmp_path):
    def write(rows: list[dict], name: str = "filtered.jsonl") -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(each) + "\n" for each in rows))
        return str(tmp_path)

    return write


def load(source: str, part: str | None = None, **options):
    return load_items(f"reward-bench/{part}" if part else "reward-bench", source=source, **options)


def test_the_published_counts_are_2985_rows_in_23_subsets_and_four_sections():
    assert len(rb.COUNTS) == 23
    assert sum(rb.COUNTS.values()) == 2985
    assert [name for names in rb.SECTIONS.values() for name in names] == list(rb.COUNTS)
    totals = {s: sum(rb.COUNTS[n] for n in names) for s, names in rb.SECTIONS.items()}
    assert totals == {"chat": 358, "chat-hard": 456, "safety": 740, "reasoning": 1431}


def test_a_row_becomes_one_comparison_with_section_and_subset(folder):
    items = load(folder(whole()))
    assert len(items) == 46
    assert items.missing == ()
    first = items.comparisons.iloc[0]
    assert (first["criterion"], first["subset"]) == ("chat", "alpacaeval-easy")
    assert items.responses["text"][first["better"]] == "A made-up answer that was preferred"
    assert items.responses["text"][first["worse"]] == "Another made-up answer"
    assert items.prompts["prompt"][0] == [
        {"role": "user", "content": "Made-up question 0 of alpacaeval-easy"}
    ]


def test_ids_that_repeat_across_subsets_stay_apart(folder):
    items = load(folder([row("mt-bench-easy", 7), row("math-prm", 7)]))
    assert list(items.prompts["item"]) == ["mt-bench-easy/7", "math-prm/7"]


def test_a_part_is_a_section(folder):
    items = load(folder(whole()), "safety")
    assert set(items.comparisons["subset"]) == set(rb.SECTIONS["safety"])
    assert set(items.comparisons["criterion"]) == {"safety"}
    assert items.missing == ()


def test_subsets_without_rows_are_listed_as_missing(folder):
    rows = [each for each in whole() if each["subset"] not in ("math-prm", "hep-go")]
    assert load(folder(rows)).missing == ("math-prm", "hep-go")
    assert load(folder(rows, "filtered.jsonl"), "chat").missing == ()


def test_a_section_asked_for_by_name_that_has_no_rows_is_an_error(folder):
    with pytest.raises(DataError, match="rows of section 'reasoning'"):
        load(folder([row("donotanswer")]), "reasoning")


def test_empty_texts_are_dropped_and_counted_by_reason(folder):
    rows = [
        row("math-prm", 0),
        row("math-prm", 1, prompt=" "),
        row("math-prm", 2, chosen=""),
        row("math-prm", 3, rejected="\n"),
    ]
    items = load(folder(rows))
    assert len(items) == 1
    assert items.dropped == {
        "empty prompt": 1,
        "empty chosen response": 1,
        "empty rejected response": 1,
    }


def test_identical_responses_stay_because_the_official_score_counts_them(folder):
    items = load(folder([row("math-prm", chosen="same", rejected="same")]))
    assert len(items.comparisons) == 1
    assert items.dropped == {}


@pytest.mark.parametrize("split", ["test", "filtered"])
def test_test_and_filtered_name_the_same_rows(folder, split):
    assert len(load(folder(whole()), split=split)) == 46


def test_an_unknown_subset_is_an_error_that_lists_the_known(folder):
    with pytest.raises(DataError, match="Did you mean 'math-prm'"):
        load(folder([row("math-prn")]))


@pytest.mark.parametrize("column", ["prompt", "chosen", "rejected", "subset", "id"])
def test_a_row_without_a_column_is_named(folder, column):
    broken = row("math-prm", 1)
    del broken[column]
    with pytest.raises(DataError, match=rf"column '{column}' in row 1"):
        load(folder([row("math-prm"), broken]))


@pytest.mark.parametrize("value", [3, ["a list"], None])
def test_a_response_that_is_not_a_text_is_an_error(folder, value):
    with pytest.raises(DataError, match="'chosen'"):
        load(folder([row("math-prm", chosen=value)]))


def test_the_hubs_parquet_layout_is_read(tmp_path):
    (tmp_path / "data").mkdir()
    table = pd.DataFrame(whole())
    table.to_parquet(tmp_path / "data" / "filtered-00000-of-00001.parquet")
    assert len(load(str(tmp_path))) == 46


def test_prior_sets_are_loaded_only_where_the_source_has_them(folder):
    turns = [
        {"role": "user", "content": "First"},
        {"role": "assistant", "content": "Made-up reply"},
        {"role": "user", "content": "Second"},
    ]
    plain = load(folder(whole()))
    assert not set(plain.comparisons["subset"]) & set(rb.PRIOR)
    prior = {"prompt": turns, "chosen": "better", "rejected": "worse", "subset": "reddit"}
    source = folder([prior, prior], "anthropic_hhh.jsonl")
    items = load(source)
    extra = items.comparisons[items.comparisons["subset"] == "anthropic_hhh"]
    assert len(items) == 48
    assert list(extra["criterion"]) == ["prior-sets"] * 2
    assert items.prompts["prompt"].iloc[-1] == turns
    assert items.missing == ()
    assert len(load(source, "chat")) == 10
