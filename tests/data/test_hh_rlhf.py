"""hh-rlhf: split only at real turns, keep what is comparable, count the rest by reason."""

from __future__ import annotations

import gzip
import itertools
import json

import pytest

from lib.data import load_items
from lib.data.hh_rlhf import PARTS, parse_dialogue, parse_pair
from lib.data.sources import read_rows


def talk(*turns: str) -> str:
    """A dialogue whose turns alternate, the human's first."""
    names = ("Human", "Assistant")
    return "".join(f"\n\n{names[i % 2]}: {turn}" for i, turn in enumerate(turns))


def write(folder, part, pairs, split="test"):
    (folder / part).mkdir(parents=True, exist_ok=True)
    with gzip.open(folder / part / f"{split}.jsonl.gz", "wt") as stream:
        for chosen, rejected in pairs:
            stream.write(json.dumps({"chosen": chosen, "rejected": rejected}) + "\n")


def test_turns_open_at_a_blank_line_and_a_speaker():
    assert parse_dialogue("\n\nHuman: Hi \n\nAssistant: Hello\n\nHuman: Bye") == [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "Bye"},
    ]


def test_a_speaker_named_inside_a_turn_opens_none():
    turns = parse_dialogue("\n\nHuman: Write a play.\nHuman: To be\n\nAssistant: Ok. Assistant: no")
    assert [turn["role"] for turn in turns] == ["user", "assistant"]
    assert turns[0]["content"] == "Write a play.\nHuman: To be"
    assert turns[1]["content"] == "Ok. Assistant: no"


def test_consecutive_turns_of_one_role_stay_apart():
    turns = parse_dialogue("\n\nHuman: a\n\nHuman: b\n\nAssistant: c")
    assert [turn["content"] for turn in turns] == ["a", "b", "c"]
    assert [turn["role"] for turn in turns] == ["user", "user", "assistant"]


def test_a_pair_splits_into_prompt_and_two_responses():
    pair = parse_pair(talk("q", "a", "r", "good"), talk("q", "a", "r", "bad"))
    prompt, chosen, rejected = pair
    assert [turn["content"] for turn in prompt] == ["q", "a", "r"]
    assert (chosen, rejected) == ("good", "bad")


@pytest.mark.parametrize(
    ("chosen", "rejected", "reason"),
    [
        (talk("q", ""), talk("q", "a"), "empty chosen response"),
        (talk("q", "a"), talk("q", "  "), "empty rejected response"),
        (talk("q", "a"), talk("Q", "b"), "prompts differ"),
        (talk("q", "a", "r", "b"), talk("q", "a"), "prompts differ"),
        (talk("q", "a"), talk("q", "a "), "identical responses"),
        (talk("q", "a", "r"), talk("q", "a", "r"), "last turn not the assistant's"),
        ("\n\nAssistant: a", "\n\nAssistant: b", "no prompt"),
        ("Hello" + talk("q", "a"), talk("q", "b"), "text before the first turn"),
        ("", talk("q", "b"), "no turns"),
    ],
)
def test_a_pair_that_compares_nothing_gets_a_reason(chosen, rejected, reason):
    assert parse_pair(chosen, rejected) == reason


def test_each_drop_is_counted_and_the_rest_keep_their_row_numbers(tmp_path):
    pairs = [
        (talk("q", ""), talk("q", "a")),
        (talk("q", "a"), talk("q", "b")),
        (talk("q", ""), talk("q", "a")),
        (talk("q", "a"), talk("p", "b")),
        (talk("r", "a"), talk("r", "b")),
    ]
    write(tmp_path, "helpful-base", pairs)
    items = load_items("hh-rlhf/helpful-base", source=tmp_path)
    assert items.prompts["item"].tolist() == ["helpful-base/1", "helpful-base/4"]
    assert items.dropped == {"empty chosen response": 2, "prompts differ": 1}
    assert items.responses["text"].tolist() == ["a", "b", "a", "b"]
    assert items.comparisons["better"].tolist() == [0, 2]
    assert items.comparisons["worse"].tolist() == [1, 3]
    assert set(items.comparisons["criterion"]) == {"helpful"}
    assert set(items.comparisons["subset"]) == {"helpful-base"}


def test_the_whole_set_samples_across_parts_and_the_head_does_not(tmp_path):
    for part in PARTS:
        write(
            tmp_path,
            part,
            [(talk(f"{part} {i}", "a"), talk(f"{part} {i}", "b")) for i in range(9)],
        )
    sample = load_items("hh-rlhf", source=tmp_path, limit=12)
    assert set(sample.comparisons["subset"]) == set(PARTS)
    head = load_items("hh-rlhf", source=tmp_path, limit=9, order="head")
    assert set(head.comparisons["subset"]) == {"harmless-base"}


# On the published files; row numbers and counts were established beforehand.


def rows_by_reason(path) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for number, row in enumerate(read_rows(path)):
        parsed = parse_pair(row["chosen"], row["rejected"])
        if isinstance(parsed, str):
            found.setdefault(parsed, []).append(number)
    return found


def test_harmless_base_loses_nine_rows_each_for_its_reason(shared_data):
    found = rows_by_reason(shared_data / "hh-rlhf" / "harmless-base" / "test.jsonl.gz")
    assert found == {
        "empty chosen response": [86, 516, 925, 1103],
        "prompts differ": [1254, 1688, 1950, 1952, 2036],
    }


def test_helpful_base_loses_thirteen_rows_each_for_its_reason(shared_data):
    found = rows_by_reason(shared_data / "hh-rlhf" / "helpful-base" / "test.jsonl.gz")
    assert found.pop("empty rejected response") == [120, 739, 1213, 2062]
    assert {reason: len(rows) for reason, rows in found.items()} == {"prompts differ": 9}


@pytest.mark.parametrize(("part", "kept"), [("harmless-base", 2303), ("helpful-base", 2339)])
def test_the_published_parts_keep_this_many_pairs(shared_data, part, kept):
    items = load_items(f"hh-rlhf/{part}", source=shared_data / "hh-rlhf")
    assert len(items) == len(items.comparisons) == kept
    assert len(items.responses) == 2 * kept
    assert items.responses["text"].str.strip().str.len().min() > 0


def test_oddities_of_harmless_base_are_left_as_they_are(shared_data):
    repeated = {"chosen": 0, "rejected": 0}
    literal = {"chosen": 0, "rejected": 0}
    for row in read_rows(shared_data / "hh-rlhf" / "harmless-base" / "test.jsonl.gz"):
        for side in repeated:
            turns = parse_dialogue(row[side])
            roles = [turn["role"] for turn in turns]
            repeated[side] += any(a == b for a, b in itertools.pairwise(roles))
            literal[side] += any(
                name in turn["content"] for turn in turns for name in ("Human:", "Assistant:")
            )
    assert repeated == {"chosen": 8, "rejected": 5}
    assert literal == {"chosen": 40, "rejected": 33}


def test_the_default_sample_of_both_parts_mixes_them_and_the_head_is_harmless(shared_data):
    source = shared_data / "hh-rlhf"
    sample = load_items("hh-rlhf", source=source, limit=800)
    share = (sample.comparisons["subset"] == "harmless-base").mean()
    assert len(sample) == 800
    assert 0.44 < share < 0.56  # 2,303 of 4,642 are harmless, ± 3 standard deviations
    head = load_items("hh-rlhf", source=source, limit=800, order="head")
    assert set(head.comparisons["subset"]) == {"harmless-base"}
    assert sample.missing == ("helpful-online", "helpful-rejection-sampled")
