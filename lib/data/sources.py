"""Where rows come from: a folder in the published layout, or the hub at a pinned revision."""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
import zlib
from collections.abc import Iterator
from pathlib import Path

from lib.errors import DataError

READABLE = (".jsonl", ".jsonl.gz", ".jsonl.xz", ".json", ".json.gz", ".csv", ".csv.gz", ".parquet")


def find(source: str | Path, *stems: str) -> Path | None:
    """The first file ``source/stem + suffix`` that exists, over stems and known suffixes."""
    for stem in stems:
        for suffix in READABLE:
            path = Path(source) / f"{stem}{suffix}"
            if path.is_file():
                return path
    return None


def require(source: str | Path, *stems: str) -> Path:
    """Like ``find``, but a missing file or folder is an error that names it."""
    folder = Path(source)
    if not folder.is_dir():
        raise DataError(
            "a source folder in the dataset's published layout",
            f"no folder at {folder}",
            "Check the path given as 'source', or leave it out to load from the hub.",
        )
    path = find(folder, *stems)
    if path is None:
        here = sorted(entry.name for entry in folder.iterdir())[:12]
        raise DataError(
            f"the file {folder / stems[0]} (.jsonl, .json, .csv or .parquet, may be gzipped)",
            f"{', '.join(here) or 'an empty folder'}",
            "Check the path given as 'source', or leave it out to load from the hub.",
        )
    return path


def read_rows(path: str | Path) -> Iterator[dict]:
    """Rows of a JSON Lines, JSON array, CSV or Parquet file, one at a time.

    JSON Lines, CSV and Parquet are streamed; a JSON array is read whole.

    Raises
    ------
    DataError
        For a missing file, an unknown suffix, malformed JSON (with its line), a row that
        is not an object, or bytes that are not UTF-8.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"a file at {path}", "none", "Check the path.")
    if not path.name.endswith(READABLE):
        raise DataError(
            f"a file that ends in {', '.join(READABLE)}", path.name, "Convert or rename it."
        )
    if path.suffix == ".parquet":
        import pyarrow.parquet

        try:
            table = pyarrow.parquet.ParquetFile(path)
            for batch in table.iter_batches(batch_size=1024):
                yield from batch.to_pylist()
        except (OSError, pyarrow.ArrowException) as error:
            raise DataError(
                f"a Parquet file at {path}", f"{error}", "Write the file again."
            ) from None
        return
    opener = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
    stem = path.name.removesuffix(".gz").removesuffix(".xz")
    try:
        with opener(path, "rt", encoding="utf-8-sig", newline="") as stream:
            if stem.endswith(".csv"):
                csv.field_size_limit(1 << 30)
                yield from csv.DictReader(stream)
            elif stem.endswith(".jsonl"):
                yield from _json_lines(stream, path)
            else:
                yield from _json_array(stream.read(), path)
    except UnicodeDecodeError as error:
        raise DataError(f"UTF-8 text in {path}", f"{error}", "Convert the file.") from None
    except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise DataError(
            f"a whole compressed file at {path}", f"{error}", "Download the file again."
        ) from None


def _json_lines(stream: io.TextIOBase, path: Path) -> Iterator[dict]:
    for number, line in enumerate(stream, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(
                f"one JSON object on each line of {path}",
                f"line {number}: {error.msg} at column {error.colno}",
                "Mend or remove that line.",
            ) from None
        if not isinstance(row, dict):
            raise DataError(
                f"one JSON object on each line of {path}",
                f"line {number}: a {type(row).__name__}",
                "Mend or remove that line.",
            )
        yield row


def _json_array(text: str, path: Path) -> list[dict]:
    try:
        rows = json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(
            f"a JSON array of objects in {path}",
            f"line {error.lineno}: {error.msg} at column {error.colno}",
            "Mend the file.",
        ) from None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise DataError(f"a JSON array of objects in {path}", type(rows).__name__, "Mend the file.")
    return rows


def from_hub(repository: str, *, revision: str, split: str, **options) -> Iterator[dict]:
    """Rows of a split on the hub at a pinned revision, from the local cache where it has it.

    Raises
    ------
    DataError
        When it can't be reached or lacks the split, naming what was asked for.
    """
    import datasets

    asked = ", ".join([f"split {split!r}", *(f"{k} {v!r}" for k, v in options.items())])
    try:
        yield from datasets.load_dataset(repository, split=split, revision=revision, **options)
    except Exception as error:  # the hub's client raises many kinds for the one thing
        reason = str(error).strip().splitlines()
        raise DataError(
            f"{repository} ({asked}, revision {revision[:8]}) from the hub",
            reason[0][:200] if reason else type(error).__name__,
            "Give the folder that holds its files as 'source', or check the network.",
        ) from None
