"""A stream: pieces extracted one by one make the run that all of them make at once."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import xarray as xr

from lib.data import load_items, stream_items
from lib.errors import AuditError, DataError, StoreError
from lib.extraction import extract, extract_stream, lazy, load_run, save_run


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "pairs.jsonl"
    rows = [
        {"prompt": f"question {i}?", "chosen": "yes " * (i % 5 + 1), "rejected": f"no {i}"}
        for i in range(23)
    ]
    rows[4]["prompt"] = "too long " * 100
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f"file:{path}"


@pytest.fixture(scope="module")
def kept(tiny_model, file, tmp_path_factory):
    return extract_stream(
        tiny_model, stream_items(file, size=5), tmp_path_factory.mktemp("kept") / "stream"
    )


@pytest.fixture
def streamed(kept, tmp_path):
    """A finished stream, which a test may change."""
    return shutil.copytree(kept, tmp_path / "stream")


def test_a_stream_holds_what_one_extraction_holds(tiny_model, file, streamed, tmp_path):
    whole = extract(tiny_model, load_items(file), store=tmp_path / "s")
    found = load_run(streamed)
    assert set(found.variables) == set(whole.variables)
    for name in whole.variables:
        assert found[name].dims == whole[name].dims
        if whole[name].dtype.kind == "f":
            sd = whole[name].values.std()
            assert np.abs(found[name].values - whole[name].values).max() <= 1e-4 * sd
        else:
            assert (found[name].values == whole[name].values).all()
    assert found.attrs["dropped"] == whole.attrs["dropped"]


def test_scores_and_states_stay_on_disk_until_they_are_asked_for(streamed, monkeypatch):
    found = load_run(streamed)
    read = []
    original = lazy.Piece.read
    monkeypatch.setattr(
        lazy.Piece, "read", lambda self, a, b: read.append(b - a) or original(self, a, b)
    )
    some = found["hidden"].isel(response=slice(8, 13))
    assert read == []
    assert some.values.shape == (5, 32)
    assert sum(read) == 5


@pytest.mark.parametrize(
    "key",
    [
        (slice(3, 27, 4),),
        (slice(None, None, -1),),
        (7,),
        (-1, 2),
        (slice(5, 5),),
        (np.asarray([40, 2, 2, 17]),),
        (np.asarray([9, 1]), slice(1, 3)),
    ],
)
def test_any_part_of_a_lazy_array_is_that_part_of_the_whole(streamed, key):
    whole = load_run(streamed)["hidden"].values
    found = load_run(streamed)["hidden"][key].values
    assert np.array_equal(found, whole[key])


def test_states_of_a_sample_are_those_and_the_rest_is_missing(tiny_model, file, kept, tmp_path):
    every = load_run(kept)
    some = load_run(
        extract_stream(tiny_model, stream_items(file, size=5), tmp_path / "b", states=2)
    )
    kept = np.isfinite(some["hidden"].values).all(axis=1)
    assert kept.sum() == 5 * 2 * 2  # parts × items × responses
    assert np.array_equal(some["hidden"].values[kept], every["hidden"].values[kept])
    assert np.array_equal(some["score"].values, every["score"].values)


def test_a_killed_stream_goes_on_where_it_stopped(tiny_model, file, kept, tmp_path, monkeypatch):
    from lib.extraction import scoring

    whole = load_run(kept)
    calls, original = [], scoring.extract

    def counted(*args, **options):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return original(*args, **options)

    monkeypatch.setattr(scoring, "extract", counted)
    with pytest.raises(KeyboardInterrupt):
        extract_stream(tiny_model, stream_items(file, size=5), tmp_path / "s")
    with pytest.raises(StoreError):
        load_run(tmp_path / "s")  # not finished
    extract_stream(tiny_model, stream_items(file, size=5), tmp_path / "s")
    assert len(calls) == 3 + 3  # two were done, the third is made again, two are left
    xr.testing.assert_identical(load_run(tmp_path / "s"), whole)


def test_another_stream_is_refused(tiny_model, file, streamed, tmp_path):
    with pytest.raises(StoreError, match="another given"):
        extract_stream(tiny_model, stream_items(file, size=4), streamed)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(StoreError, match=r"letter\.txt"):
        extract_stream(tiny_model, stream_items(file, size=4), tmp_path / "mine")
    assert (tmp_path / "mine" / "letter.txt").read_text() == "dear"


def test_all_weights_are_read_once_for_all_parts(tiny_model, file, tmp_path, monkeypatch):
    asked, kind = [], type(tiny_model)
    told = kind.fingerprint.fget
    monkeypatch.setattr(
        kind, "fingerprint", property(lambda self: asked.append(1) or told(self) | {"heads": "x"})
    )
    found = load_run(extract_stream(tiny_model, stream_items(file, size=5), tmp_path / "s"))
    assert asked == [1]
    assert found.attrs["fingerprint"] == told(tiny_model) | {"heads": "x"}


def test_a_damaged_part_is_an_error(streamed):
    path = streamed / "part-00001" / "run.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(StoreError, match="checksum"):
        load_run(streamed)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"responses": 1}, "1 responses"),  # else rows of the next part would be counted from it
        ({"items": 4}, "4 items"),
        ({"dropped": {"empty": "3"}}, "as dropped.empty in a note of a part"),
        ({"items": None}, "as items in a note of a part"),
    ],
)
def test_a_note_that_is_not_of_its_part_is_an_error(streamed, change, says):
    path = streamed / "part-00001.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(StoreError, match=f"{says}.*Delete it"):
        load_run(streamed)


def test_a_piece_without_anything_to_score_is_counted(tiny_model, tmp_path):
    path = tmp_path / "pairs.jsonl"
    long = {"prompt": "long " * 200, "chosen": "a", "rejected": "b"}
    short = {"prompt": "short", "chosen": "a", "rejected": "b"}
    path.write_text("".join(json.dumps(row) + "\n" for row in [short, short, long, long, short]))
    found = load_run(
        extract_stream(tiny_model, stream_items(f"file:{path}", size=2), tmp_path / "s")
    )
    assert found["item"].values.tolist() == ["0", "1", "4"]
    assert found["response"].values.tolist() == [0, 1, 2, 3, 8, 9]
    assert sum(found.attrs["dropped"].values()) == 2
    assert list(found.attrs["unscored"].values()) == [["2", "3"]]


def test_nothing_to_score_at_all_is_an_error(tiny_model, tmp_path):
    path = tmp_path / "pairs.jsonl"
    path.write_text(json.dumps({"prompt": "long " * 200, "chosen": "a", "rejected": "b"}) + "\n")
    with pytest.raises(DataError, match="none in any piece"):
        extract_stream(tiny_model, stream_items(f"file:{path}", size=2), tmp_path / "s")


def test_a_stream_can_be_kept_as_one_run(streamed, tmp_path):
    found = load_run(streamed)
    again = load_run(save_run(found, tmp_path / "one"))
    assert np.array_equal(again["hidden"].values, found["hidden"].values)


@pytest.mark.parametrize("states", [0, 1, 2])
def test_single_rows_of_a_sample_are_those_of_the_whole(tiny_model, file, tmp_path, states):
    run = load_run(
        extract_stream(tiny_model, stream_items(file, size=5), tmp_path / "s", states=states)
    )
    whole = run["hidden"].values
    assert len(whole) == run.sizes["response"] > 0
    for row in range(len(whole)):
        np.testing.assert_array_equal(run["hidden"][row : row + 1].values, whole[row : row + 1])


def test_a_part_that_was_deleted_is_made_again(tiny_model, file, streamed):
    before = load_run(streamed)["score"].values
    shutil.rmtree(streamed / "part-00001")
    (streamed / "part-00001.partial-1").mkdir()
    extract_stream(tiny_model, stream_items(file, size=5), streamed)
    assert np.array_equal(load_run(streamed)["score"].values, before)
    assert not (streamed / "part-00001.partial-1").exists()
    assert not (streamed / "part-00001.states").exists()


def test_what_changes_nothing_doesnt_stop_a_stream(tiny_model, file, streamed):
    extract_stream(tiny_model, stream_items(file, size=5), streamed, budget=64, progress=False)


def test_a_stream_that_became_shorter_is_refused(tiny_model, file, streamed):
    pieces = list(stream_items(file, size=5))
    with pytest.raises(StoreError, match="more than its 2"):
        extract_stream(tiny_model, pieces[:2], streamed)


def test_a_run_says_all_the_ways_its_parts_were_computed(tiny_model, file, tmp_path, monkeypatch):
    from lib.extraction import parity

    answers = iter(["made up", *[""] * 9])
    monkeypatch.setattr(parity, "objection", lambda *_: next(answers))
    found = load_run(extract_stream(tiny_model, stream_items(file, size=5), tmp_path / "s"))
    assert found.attrs["extraction"]["packing"] == "padded; trees"


def test_a_stream_is_read_from_any_folder(streamed, monkeypatch, tmp_path):
    monkeypatch.chdir(streamed.parent)
    found = load_run(streamed.name)
    monkeypatch.chdir("/")
    assert found["hidden"].size and np.isfinite(found["hidden"].values).all()


@pytest.mark.parametrize(("place", "states"), [("file.txt/x", None), ("s", -1)])
def test_a_place_or_number_that_cant_be_is_an_error_at_once(
    tiny_model, file, tmp_path, place, states
):
    (tmp_path / "file.txt").write_text("mine")
    with pytest.raises(AuditError):
        extract_stream(tiny_model, stream_items(file, size=5), tmp_path / place, states=states)
    assert not (tmp_path / "s").exists()


def test_what_was_dropped_is_counted_once(tmp_path):
    path = tmp_path / "pairs.jsonl"
    good = [{"prompt": f"q {i}", "chosen": "a", "rejected": "b"} for i in range(4)]
    same = [{"prompt": "q", "chosen": "a", "rejected": "a"}] * 3
    path.write_text("".join(json.dumps(row) + "\n" for row in [*good, *same]))
    whole = load_items(f"file:{path}").dropped
    pieces = list(stream_items(f"file:{path}", size=2))
    assert sum(whole.values()) == 3
    assert sum(sum(piece.dropped.values()) for piece in pieces) == 3
    assert [len(piece) for piece in pieces] == [2, 2]
