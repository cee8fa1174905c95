"""Where rows come from: a folder in the published layout, or the hub at a pinned revision."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import json
import lzma
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lib import hub
from lib.data.items import Builder
from lib.documents import ROWS, decode, first_repeated
from lib.errors import DataError, readable, unreadable

TABLES = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
READABLE = (".jsonl", ".jsonl.gz", ".jsonl.xz", ".json", ".json.gz", *TABLES, ".parquet")

MARKS = {",": "commas", ";": "semicolons", "\t": "tabs"}


def find(source: str | Path, *stems: str) -> Path | None:
    """The first file ``source/stem + suffix`` that exists, over stems and known suffixes."""
    for stem in stems:
        for suffix in READABLE:
            path = Path(source) / f"{stem}{suffix}"
            with readable("file", path):
                if path.is_file():
                    return path
    return None


def require(source: str | Path, *stems: str) -> Path:
    """Like ``find``, but a missing file or folder is an error that names it."""
    folder = Path(source)
    with readable("folder", folder):
        there = folder.is_dir()
    if not there:
        raise DataError(
            "a source folder in the dataset's published layout",
            f"no folder at {folder}",
            "Check the path given as 'source', or leave it out to load from the hub.",
        )
    path = find(folder, *stems)
    if path is None:
        with readable("folder", folder):
            here = sorted(entry.name for entry in folder.iterdir())[:12]
        raise DataError(
            f"the file {folder / stems[0]} (.jsonl, .json, .csv or .parquet, may be gzipped)",
            f"{', '.join(here) or 'an empty folder'}",
            "Check the path given as 'source', or leave it out to load from the hub.",
        )
    return path


def rows(
    source: str | None, *stems: str, required: bool = True, repository: str, **options: str
) -> Iterator[dict] | None:
    """Rows of a file under one of the stems of a source folder; without one, of the hub.

    ``options`` are those of ``from_hub``. A file that a folder lacks is a ``DataError`` where
    it is required.
    """
    if source is None:
        return from_hub(repository, **options)
    path = require(source, *stems) if required else find(source, *stems)
    return read_rows(path) if path else None


def parts(
    part: str | None, names: Sequence[str], find: Callable, builder: Builder
) -> Iterator[tuple[str, Any]]:
    """Each part and what ``find(part, required)`` has of it.

    One that is asked for by name is required; without a name, parts that there aren't are
    missing, and that all are is a ``DataError``.
    """
    for each in [part] if part else names:
        found = find(each, required=part is not None)
        if found is None:
            builder.missing.append(each)
        else:
            yield each, found
    if len(builder.missing) == len(names):
        find(names[0], required=True)


def read_rows(path: str | Path) -> Iterator[dict]:
    """Rows of a JSON Lines, JSON array, CSV or Parquet file, one at a time.

    JSON Lines, CSV and Parquet are streamed; a JSON array is read whole. A ``.json`` file
    whose first line is an object by itself, with more behind it, is JSON Lines. A table's
    cells are parted by commas, or by what alone parts its first line: semicolons or tabs.

    Raises
    ------
    DataError
        For a missing or unreadable file, an unknown suffix, malformed JSON or CSV (with its
        line), a row that is not an object, a column or key that occurs twice, or bytes that
        are not UTF-8.
    """
    path = Path(path)
    with readable("file", path):
        found = None if path.is_file() else "a folder" if path.is_dir() else "none"
    if found:
        raise DataError(f"a file at {path}", found, "Check the path.")
    if not path.name.endswith(READABLE):
        raise DataError(
            f"a file that ends in {', '.join(READABLE)}", path.name, "Convert or rename it."
        )
    if path.suffix == ".parquet":
        import pyarrow.parquet

        try:
            table = pyarrow.parquet.ParquetFile(path)
            _distinct(table.schema_arrow.names, path)
            for batch in table.iter_batches(batch_size=1024):
                yield from batch.to_pylist()
        except (OSError, UnicodeDecodeError, pyarrow.ArrowException) as error:
            if getattr(error, "errno", None):  # the system's word, not that of the format
                raise unreadable("file", path, error) from None
            raise DataError(
                f"a Parquet file at {path}", f"{error}", "Write the file again."
            ) from None
        return
    opener = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
    stem = path.name.removesuffix(".gz").removesuffix(".xz")
    try:
        with opener(path, "rt", encoding="utf-8-sig", newline="") as stream:
            if path.name.endswith(TABLES):
                yield from _csv_rows(stream, path)
            elif stem.endswith(".jsonl") or _is_lines(stream):
                yield from _json_lines(stream, path)
            else:
                yield from _json_array(stream.read(), path)
    except UnicodeDecodeError as error:
        raise DataError(f"UTF-8 text in {path}", f"{error}", "Convert the file.") from None
    except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise DataError(
            f"a whole compressed file at {path}", f"{error}", "Download the file again."
        ) from None
    except OSError as error:
        raise unreadable("file", path, error) from None


def _distinct(columns: list[str], path: Path) -> None:
    # Columns without a name, as spreadsheets leave behind, are nobody's.
    repeated = first_repeated(filter(None, columns))
    if repeated is not None:
        raise DataError(
            f"distinct columns in {path}",
            f"{repeated!r} more than once",
            "Rename or remove one of them.",
        )


def _is_lines(stream: io.TextIOBase) -> bool:
    """Is the first line an object by itself, with more behind it? The stream is rewound."""
    first = stream.readline()
    try:
        alone = first.startswith("{") and isinstance(decode(first), dict)
    except ValueError:
        alone = False
    more = alone and any(line.strip() for line in stream)
    stream.seek(0)
    return more


def lacks_key(path: str | Path, key: str) -> bool:
    """Is it certain, without parsing, that no row has this key?

    Known of plain JSON Lines, and of Parquet, whose schema says it.
    """
    if Path(path).suffix == ".parquet":
        import pyarrow.parquet

        return key not in pyarrow.parquet.read_schema(path).names
    if Path(path).suffix != ".jsonl":
        return False
    with open(path, "rb") as stream:
        # A key can be spelt with escapes, too.
        return not any(key.encode() in line or rb"\u00" in line for line in stream)


def _delimiter(header: str, path: Path) -> str:
    if path.name.endswith((".tsv", ".tsv.gz")):
        return "\t"
    others = [mark for mark in ";\t" if mark in header]
    return others[0] if len(others) == 1 and "," not in header else ","


def _csv_rows(stream: io.TextIOBase, path: Path) -> Iterator[dict]:
    csv.field_size_limit(1 << 30)
    header = next(stream, "")
    lines = itertools.chain([header], stream)
    delimiter = _delimiter(header, path)
    reader = csv.reader(lines, strict=True, delimiter=delimiter)
    columns, number = None, 0
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise DataError(
                f"well-formed CSV in {path}",
                f"{error}, in the row that begins on line {line}",
                "Close each quote, and double the quotes within a quoted text.",
            ) from None
        if cells is None:
            return
        if not cells:
            continue
        if columns is None:
            columns = cells
            _distinct(columns, path)
            continue
        if len(cells) > len(columns):
            raise DataError(
                f"{len(columns)} cells in row {number} (line {line}) of {path}",
                f"{len(cells)} cells",
                f"Quote the texts that contain {MARKS[delimiter]}.",
            )
        yield dict(zip(columns, cells + [None] * (len(columns) - len(cells)), strict=True))
        number += 1


def _reason(error: ValueError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at column {error.colno}"
    return str(error).partition(";")[0]  # what follows is advice to programmers


def _json_lines(stream: io.TextIOBase, path: Path) -> Iterator[dict]:
    for number, line in enumerate(stream, 1):
        if not line.strip():
            continue
        try:
            row = decode(line)
        except ValueError as error:
            raise DataError(
                f"one JSON object on each line of {path}",
                f"line {number}: {_reason(error)}",
                "Mend or remove that line.",
            ) from None
        if not isinstance(row, dict):
            array = number == 1 and isinstance(row, list)
            raise DataError(
                f"one JSON object on each line of {path}",
                f"line {number}: {_kind(row)}",
                "If the file is one JSON array, name it .json."
                if array
                else "Mend or remove that line.",
            )
        yield row


def _json_array(text: str, path: Path) -> list[dict]:
    try:
        rows = decode(text)
    except ValueError as error:
        line = error.lineno if isinstance(error, json.JSONDecodeError) else _unreadable(text)
        raise DataError(
            f"a JSON array of objects in {path}",
            f"line {line}: {_reason(error)}",
            "Mend the file.",
        ) from None
    if not isinstance(rows, list):
        raise DataError(f"a JSON array of objects in {path}", _kind(rows), "Mend the file.")
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise DataError(
                f"a JSON array of objects in {path}",
                f"entry {number} (counted from 0): {_kind(row)}",
                "Mend or remove that entry.",
            )
    return rows


def _kind(value) -> str:
    return "null" if value is None else f"a {type(value).__name__}"


def _unreadable(text: str) -> int:
    """Line on which the first element of an array begins that can't be read."""
    start = re.compile(r"[\s,]*")
    position = start.match(text).end()
    if text.startswith("[", position):
        position += 1
    while True:
        position = start.match(text, position).end()
        try:
            _, position = ROWS.raw_decode(text, position)
        except (ValueError, RecursionError):
            return text.count("\n", 0, position) + 1


def from_hub(repository: str, *, revision: str, split: str, **options) -> Iterator[dict]:
    """Rows of a split on the hub at a commit, from the local cache where it has it.

    Its files are fetched first and ``datasets`` reads them from their folder: asked by
    name, it takes any revision that it has at hand where the hub can't be reached.
    ``options`` are ``data_dir`` or ``data_files``, as in ``datasets.load_dataset``: a part of
    the files. A ``DataError`` names what was asked for.
    """
    import datasets

    folder = hub.snapshot(
        repository,
        kind="dataset",
        revision=revision,
        first="README.md",
        choose=lambda sizes, fetch: [path for path in sizes if _is_part(path, **options)],
    )
    try:
        with _without_bars(datasets):
            rows = datasets.load_dataset(str(folder), split=split, **options)
    except Exception as error:  # it raises many kinds for the one thing
        asked = ", ".join([f"split {split!r}", *(f"{k} {v!r}" for k, v in options.items())])
        raise DataError(
            f"{repository} ({asked}, revision {revision[:8]}) from the hub",
            hub.said(error),
            f"Remove {folder} where it is damaged, to fetch it again; or give the folder that "
            "holds its files as 'source'.",
        ) from None
    yield from rows


def _is_part(path: str, data_dir: str = "", data_files: str = "") -> bool:
    if path in ("README.md", "dataset_infos.json"):  # they say which file is of which split
        return True
    within = path == data_files if data_files else path.startswith(f"{data_dir}/" * bool(data_dir))
    return within and path.endswith(READABLE)


@contextmanager
def _without_bars(datasets) -> Iterator[None]:
    """Where nobody watches a terminal, no progress bars."""
    shown = sys.stderr.isatty() or datasets.are_progress_bars_disabled()
    if not shown:
        datasets.disable_progress_bars()
    try:
        yield
    finally:
        if not shown:
            datasets.enable_progress_bars()
