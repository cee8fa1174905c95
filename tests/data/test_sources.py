"""Sources: every format reads alike, and what can't be read says what and where."""

from __future__ import annotations

import errno
import gzip
import json
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lib.data import sources
from lib.errors import DataError

ROWS = [
    {"prompt": "q", "chosen": "é\u2028a", "rejected": "b"},
    {"prompt": "r", "chosen": "c\nd"},
]


def json_lines(rows) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def test_json_lines_arrays_and_their_gzipped_forms_read_alike(tmp_path):
    written = {"a.jsonl": json_lines(ROWS), "a.json": json.dumps(ROWS)}
    for name, text in written.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        with gzip.open(tmp_path / f"{name}.gz", "wt", encoding="utf-8") as stream:
            stream.write(text)
    for name in ("a.jsonl", "a.jsonl.gz", "a.json", "a.json.gz"):
        assert list(sources.read_rows(tmp_path / name)) == ROWS


def test_parquet_and_csv_read_as_written(tmp_path):
    frame = pd.DataFrame({"prompt": ['q, with "quotes"', "r"], "chosen": ["a\nb", "c"]})
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_csv(tmp_path / "a.csv.gz", index=False)
    for name in ("a.parquet", "a.csv", "a.csv.gz"):
        assert list(sources.read_rows(tmp_path / name)) == frame.to_dict("records")


def test_a_byte_order_mark_and_blank_lines_are_no_rows(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + b'{"a": 1}\n\n  \n{"a": 2}\n')
    assert list(sources.read_rows(path)) == [{"a": 1}, {"a": 2}]


def test_malformed_json_names_its_line(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n\n{"a": \n{"a": 3}\n')
    with pytest.raises(DataError, match=r"line 3: .* at column"):
        list(sources.read_rows(path))


def test_rows_before_a_malformed_line_are_read(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n{')
    rows = sources.read_rows(path)
    assert next(rows) == {"a": 1}
    with pytest.raises(DataError, match="line 2"):
        next(rows)


def test_a_malformed_array_names_its_line(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('[{"a": 1},\n {"a": }]')
    with pytest.raises(DataError, match=r"line 2: .* at column"):
        list(sources.read_rows(path))


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("a.jsonl", '{"a": 1}\n[1]\n', "line 2: a list"),
        ("a.jsonl", '{"a": 1}\nnull\n', "line 2: null"),
        ("a.json", '{"a": 1}', "found a dict"),
        ("a.json", "[1, 2]", r"found entry 0 \(counted from 0\): a int"),
        ("a.json", '[{"a": 1}, null]', r"found entry 1 \(counted from 0\): null"),
    ],
)
def test_rows_that_are_no_objects_are_an_error(tmp_path, name, text, found):
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=found):
        list(sources.read_rows(tmp_path / name))


def test_bytes_that_are_not_utf8_are_an_error(tmp_path):
    (tmp_path / "a.jsonl").write_bytes('{"a": "é"}\n'.encode("latin-1"))
    with pytest.raises(DataError, match="UTF-8 text in"):
        list(sources.read_rows(tmp_path / "a.jsonl"))


def test_a_cut_a_corrupt_and_a_false_gzip_file_are_errors(tmp_path):
    whole = gzip.compress(json_lines([{"a": str(i)} for i in range(2000)]).encode())
    corrupt = bytearray(whole)
    corrupt[len(whole) // 2 : len(whole) // 2 + 40] = b"\xff" * 40
    for number, data in enumerate([whole[:-200], bytes(corrupt), b"plain text"]):
        path = tmp_path / f"{number}.jsonl.gz"
        path.write_bytes(data)
        with pytest.raises(DataError):
            list(sources.read_rows(path))


def test_a_false_parquet_file_is_an_error(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"not parquet")
    with pytest.raises(DataError, match="a Parquet file at"):
        list(sources.read_rows(tmp_path / "a.parquet"))


def test_a_missing_file_and_an_unknown_suffix_are_errors(tmp_path):
    with pytest.raises(DataError, match=r"needed a file at .*a.jsonl; found none"):
        list(sources.read_rows(tmp_path / "a.jsonl"))
    (tmp_path / "a.xlsx").write_bytes(b"")
    with pytest.raises(DataError, match=r"ends in .jsonl.*found a.xlsx"):
        list(sources.read_rows(tmp_path / "a.xlsx"))


DEEP = '{"a":' * 100_000 + "1" + "}" * 100_000
LONG = '{"a": ' + "9" * 5000 + "}"
TWICE = '{"a": 1, "a": 2}'


@pytest.mark.parametrize(
    ("row", "found"),
    [(DEEP, "nested too deeply"), (LONG, "4300 digits"), (TWICE, "the key 'a' more than once")],
    ids=["deep", "long", "twice"],
)
def test_json_that_cannot_be_taken_as_written_names_its_line(tmp_path, row, found):
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n\n' + row + "\n")
    (tmp_path / "a.json").write_text('[{"a": 1},\n\n ' + row + ',\n{"a": 3}]')
    for name in ("a.jsonl", "a.json"):
        with pytest.raises(DataError, match=f"found line 3: .*{found}"):
            list(sources.read_rows(tmp_path / name))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n\nyes, no,3\n", r"2 cells in row 1 \(line 4\).*found 3 cells.*Quote"),
        ('a,b\n1,2\n"x\ny",3\n"p,q\n4,5\n6,7\n', "end of data, in the row that begins on line 5"),
        ('a,b\n"x"y,2\n', "in the row that begins on line 2"),
        ("a,b,a\n1,2,3\n", "distinct columns in .*found 'a' more than once"),
    ],
    ids=["comma", "unclosed", "stray", "columns"],
)
def test_csv_that_would_lose_a_cell_is_an_error(tmp_path, text, message):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        list(sources.read_rows(tmp_path / "a.csv"))


def test_a_csv_row_that_ends_early_lacks_its_last_cells(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1\n")
    assert list(sources.read_rows(tmp_path / "a.csv")) == [{"a": "1", "b": None}]


def test_parquet_with_a_column_twice_or_bytes_that_are_not_utf8_is_an_error(tmp_path):
    offsets = pa.py_buffer(b"\0\0\0\0\2\0\0\0")
    false = pa.StringArray.from_buffers(1, offsets, pa.py_buffer(b"\xff\xfe"))
    pq.write_table(pa.table({"a": false}), tmp_path / "bytes.parquet")
    with pytest.raises(DataError, match="a Parquet file at"):
        list(sources.read_rows(tmp_path / "bytes.parquet"))
    pq.write_table(pa.table([pa.array([1]), pa.array([2])], ["a", "a"]), tmp_path / "a.parquet")
    with pytest.raises(DataError, match="'a' more than once"):
        list(sources.read_rows(tmp_path / "a.parquet"))


def test_a_folder_in_place_of_a_file_is_called_one(tmp_path):
    (tmp_path / "a.jsonl").mkdir()
    with pytest.raises(DataError, match=r"needed a file at .*a.jsonl; found a folder"):
        list(sources.read_rows(tmp_path / "a.jsonl"))


@pytest.fixture
def refuse(monkeypatch):
    """Makes a function of a module or class raise what an unreadable path does."""

    def set_up(owner, name):
        def fail(*args, **options):
            raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr(owner, name, fail)

    return set_up


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.csv", "a.jsonl.gz", "a.jsonl.xz"])
def test_a_file_that_cannot_be_opened_is_an_error(tmp_path, monkeypatch, name):
    (tmp_path / name).write_bytes(b"{}")

    def fail(*args, **options):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("builtins.open", fail)
    with pytest.raises(DataError, match=f"readable file at .*{name}; found Permission denied. C"):
        list(sources.read_rows(tmp_path / name))


def test_a_parquet_file_that_cannot_be_opened_is_not_called_damaged(tmp_path, refuse):
    (tmp_path / "a.parquet").write_bytes(b"")
    refuse(pq, "ParquetFile")
    with pytest.raises(DataError, match=r"a readable file at .*Input/output error\. Check"):
        list(sources.read_rows(tmp_path / "a.parquet"))


def test_a_path_that_cannot_be_looked_at_is_an_error(tmp_path, refuse):
    refuse(Path, "stat")
    message = r"a readable {} at .*; found Input/output error\. Check the path"
    with pytest.raises(DataError, match=message.format("file")):
        list(sources.read_rows(tmp_path / "a.jsonl"))
    with pytest.raises(DataError, match=message.format("file")):
        sources.find(tmp_path, "test")
    with pytest.raises(DataError, match=message.format("folder")):
        sources.require(tmp_path, "test")


def test_a_folder_that_cannot_be_listed_is_an_error(tmp_path, refuse):
    refuse(Path, "iterdir")
    with pytest.raises(DataError, match=r"a readable folder at .*Input/output error"):
        sources.require(tmp_path, "test")


def test_a_name_too_long_for_the_system_is_an_error(tmp_path):
    long = "a" * 300
    with pytest.raises(DataError, match="a readable file at .*File name too long"):
        list(sources.read_rows(tmp_path / f"{long}.jsonl"))
    with pytest.raises(DataError, match="a readable folder at .*File name too long"):
        sources.require(tmp_path / long, "test")


def test_the_first_stem_that_exists_is_found(tmp_path):
    (tmp_path / "test.jsonl.gz").write_bytes(b"")
    (tmp_path / "test.json").write_bytes(b"")
    assert sources.find(tmp_path, "train", "test") == tmp_path / "test.jsonl.gz"
    assert sources.find(tmp_path, "train") is None


def test_a_required_file_that_is_missing_is_named_with_what_is_there(tmp_path):
    (tmp_path / "other.csv").write_bytes(b"")
    with pytest.raises(DataError, match=r"the file .*test .*found other\.csv.*'source'"):
        sources.require(tmp_path, "test")
    with pytest.raises(DataError, match=r"no folder at .*'source'"):
        sources.require(tmp_path / "nowhere", "test")
