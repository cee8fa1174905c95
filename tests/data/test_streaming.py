"""A set of any size is read in pieces: the same items, in bounded memory."""

import json
import tracemalloc
from itertools import chain

import pandas as pd
import pytest

from lib.data import load_items, stream_items
from lib.data.describe import describe
from lib.errors import DataError


def write(path, rows):
    with open(path, "w") as stream:
        for number in range(rows):
            row = {"prompt": f"q{number}", "chosen": "yes " * 20, "rejected": "no " * 20}
            stream.write(json.dumps(row) + "\n")
    return f"file:{path}"


def test_pieces_hold_the_items_of_the_whole(tmp_path):
    name = write(tmp_path / "pairs.jsonl", 25)
    pieces = list(stream_items(name, size=10))
    assert [len(piece) for piece in pieces] == [10, 10, 5]
    whole = load_items(name)
    joined = pd.concat([piece.prompts for piece in pieces], ignore_index=True)
    assert joined.equals(whole.prompts)
    assert all(piece.comparisons["worse"].max() == 2 * len(piece) - 1 for piece in pieces)


def test_pieces_before_the_first_subset_name_unlabelled_rows_as_the_whole_does(tmp_path):
    name = write(tmp_path / "pairs.jsonl", 5)
    with open(tmp_path / "pairs.jsonl", "a") as stream:
        row = {"prompt": "q5", "chosen": "yes", "rejected": "no", "subset": "hard"}
        stream.write(json.dumps(row) + "\n")
    pieces = [piece.comparisons["subset"].tolist() for piece in stream_items(name, size=2)]
    assert pieces == [["unlabelled"] * 2, ["unlabelled"] * 2, ["unlabelled", "hard"]]
    assert load_items(name).comparisons["subset"].tolist() == [*chain(*pieces)]


@pytest.mark.parametrize("size", [400, 10_000])
def test_real_pairs_and_what_was_dropped_add_up(shared_data, size):
    source = shared_data / "hh-rlhf"
    whole = load_items("hh-rlhf/harmless-base", source=source)
    pieces = list(stream_items("hh-rlhf/harmless-base", size=size, source=source))
    assert sum(map(len, pieces)) == len(whole)
    dropped = pd.DataFrame([piece.dropped for piece in pieces]).sum()
    assert dropped.to_dict() == whole.dropped


@pytest.mark.parametrize("size", [2, 3])  # with 3 pairs the last piece is full or not
def test_parts_that_come_after_the_last_pair_are_missing_from_a_piece_too(tmp_path, size):
    (tmp_path / "harmless-base").mkdir()
    with open(tmp_path / "harmless-base" / "test.jsonl", "w") as stream:
        for number in range(3):
            turns = f"\n\nHuman: q{number}\n\nAssistant: "
            row = {"chosen": turns + "yes", "rejected": turns + "no"}
            stream.write(json.dumps(row) + "\n")
    pieces = list(stream_items("hh-rlhf", size=size, source=tmp_path))
    found = [name for piece in pieces for name in piece.missing]
    assert found == [*load_items("hh-rlhf", source=tmp_path).missing] and len(found) == 3


def test_memory_does_not_grow_with_the_file(tmp_path):
    peaks = []
    for rows in (500, 5_000):
        name = write(tmp_path / f"{rows}.jsonl", rows)
        tracemalloc.start()
        read = sum(len(piece) for piece in stream_items(name, size=100))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert read == rows
    assert peaks[1] < 1.2 * peaks[0]


def test_small_sets_are_cut_too():
    assert [len(p) for p in stream_items("stimuli/probes", size=100)] == [100, 40]


def test_a_piece_holds_at_least_one_item():
    with pytest.raises(DataError, match="size"):
        next(stream_items("stimuli/probes", size=0))


def test_pieces_are_described_as_the_whole(tmp_path):
    name = write(tmp_path / "pairs.jsonl", 25)
    with open(tmp_path / "pairs.jsonl", "a") as stream:
        for extra in ({"tie": True}, {"subset": "hard", "ratings": [{"x": 1}, {"x": 2}]}):
            row = {"prompt": "q", "chosen": "yes", "rejected": "no"} | extra
            stream.write(json.dumps(row) + "\n")
    assert describe(stream_items(name, size=10)) == describe(load_items(name))
    assert load_items(name).fingerprint in describe(stream_items(name, size=4))
