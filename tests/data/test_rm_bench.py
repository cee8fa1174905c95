"""RM-Bench's loader, on the real chat and safety files and on made-up rows of the schema."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lib.data import github, load_items, rm_bench
from lib.errors import DataError


def row(identity: int = 1, **changes) -> dict:
    made_up = {
        "id": identity,
        "prompt": f"Made-up prompt {identity}",
        "chosen": ["c short", "c long", "c **long**"],
        "rejected": ["r short", "r long", "r **long**"],
    }
    return made_up | changes


@pytest.fixture
def folder(tmp_path):
    def write(**files: list[dict]) -> str:
        for stem, rows in files.items():
            name = stem if stem == "total_dataset" else f"{stem.replace('_', '-')}_filtered"
            (tmp_path / f"{name}.json").write_text(json.dumps(rows))
        return str(tmp_path)

    return write


def load(source: str, part: str | None = None, **options):
    return load_items(f"rm-bench/{part}" if part else "rm-bench", source=source, **options)


def test_the_published_counts_are_1327_items():
    assert sum(rm_bench.COUNTS.values()) == 1327


def test_the_real_files_have_129_284_and_157_items(shared_data):
    source = str(shared_data / "rm-bench")
    sizes = {part: len(load(source, part)) for part in ("chat", "safety-refuse", "safety-response")}
    assert sizes == {"chat": 129, "safety-refuse": 284, "safety-response": 157}
    items = load(source)
    assert len(items) == 570
    assert len(items.comparisons) == 9 * 570
    assert items.missing == ("code", "math")
    assert items.dropped == {}


def test_identical_styles_of_the_real_files_are_counted_and_kept(shared_data):
    source = str(shared_data / "rm-bench")
    counts = {
        part: load(source, part).about["identical styles"].split(" lists")[0]
        for part in ("chat", "safety-refuse", "safety-response")
    }
    assert counts == {
        "chat": "12 of 258",
        "safety-refuse": "11 of 568",
        "safety-response": "24 of 314",
    }
    assert load(source).about["identical styles"].startswith("47 of 1140")


def test_three_by_three_is_nine_comparisons_with_the_styles_in_the_slots(folder):
    items = load(folder(chat=[row()]))
    assert list(items.responses["slot"]) == [0, 1, 2, 3, 4, 5]
    slots = items.responses["slot"].to_numpy()
    table = items.comparisons
    styles = list(zip(slots[table["better"]], slots[table["worse"]] - 3, strict=True))
    assert styles == [(i, j) for i in range(3) for j in range(3)]
    assert items.responses["text"][table["worse"][2]] == "r **long**"


def test_ids_that_repeat_across_domains_are_different_items(folder):
    items = load(folder(chat=[row(1)], math=[row(1)], safety_refuse=[row(1)]))
    assert list(items.prompts["item"]) == ["chat/1", "math/1", "safety-refuse/1"]
    assert list(items.comparisons["criterion"].unique()) == ["chat", "math", "safety"]


def test_an_id_that_repeats_within_a_domain_is_an_error(folder):
    with pytest.raises(DataError, match="'chat/1' more than once"):
        load(folder(chat=[row(1), row(1)]))


def test_one_file_with_a_domain_column_is_read_too(folder):
    rows = [row(1, domain="code"), row(1, domain="chat"), row(2, domain="safety-response")]
    source = folder(total_dataset=rows)
    items = load(source)
    assert set(items.prompts["item"]) == {"chat/1", "code/1", "safety-response/2"}
    assert items.missing == ("math", "safety-refuse")
    assert list(load(source, "code").prompts["item"]) == ["code/1"]
    with pytest.raises(DataError, match="rows of domain 'math'"):
        load(source, "math")


def test_an_unknown_domain_is_an_error(folder):
    with pytest.raises(DataError, match="Known: chat, code, math"):
        load(folder(total_dataset=[row(1, domain="poetry")]))


def test_identical_styles_are_counted_by_list(folder):
    rows = [
        row(1, chosen=["a", "b", "b"]),
        row(2, rejected=["x", "x", "x"]),
        row(3),
    ]
    items = load(folder(chat=rows))
    assert items.about["identical styles"].startswith("2 of 6 lists")
    assert len(items.comparisons) == 27


def test_an_item_with_an_empty_response_is_dropped_whole(folder):
    items = load(folder(chat=[row(1), row(2, chosen=["a", " ", "c"]), row(3, prompt="")]))
    assert list(items.prompts["item"]) == ["chat/1"]
    assert items.dropped == {"an empty response": 1, "empty prompt": 1}


@pytest.mark.parametrize("side", ["chosen", "rejected"])
def test_two_or_four_styles_are_an_error(folder, side):
    with pytest.raises(DataError, match="3 chosen and 3 rejected responses in row 0"):
        load(folder(chat=[row(1, **{side: ["a", "b"]})]))


def test_without_a_source_each_domain_is_fetched_at_the_pinned_commit(monkeypatch, folder):
    asked = []

    def fetch(repository, revision, path):
        asked.append(path)
        assert repository == "THU-KEG/RM-Bench"
        assert revision == "73c52d7b27b361621361ec959ac6c0eb9bb7a689"
        return Path(folder(chat=[row()])) / "chat_filtered.json"

    monkeypatch.setattr(github, "fetch", fetch)
    items = load_items("rm-bench")
    assert asked == [f"data/{domain}_filtered.json" for domain in rm_bench.PARTS]
    assert list(items.prompts["item"]) == [f"{domain}/1" for domain in rm_bench.PARTS]
    assert items.missing == ()
    load_items("rm-bench/math")
    assert asked[-1:] == ["data/math_filtered.json"]
    assert len(asked) == 6
