"""What a check found, as rows; their verdicts; and ``check.json``."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lib import documents, paths
from lib.atomic import replacing
from lib.errors import AuditError, StoreError

if TYPE_CHECKING:  # every step of a build reads this module, and few of them a table
    import pandas as pd

HEAD, READING, TEMPLATE, INVARIANCE = "Head", "Reading", "Template", "Invariance"
LENGTH, SCALE, REFERENCE, OVERLAP = "Length", "Scale", "Reference", "Overlap"
LINES = (HEAD, READING, TEMPLATE, INVARIANCE, LENGTH, SCALE, REFERENCE, OVERLAP)
RIGHT, WRONG, UNTOLD = "right", "wrong", "can't be told"
BLOCKED, NOT_ASKED, NOTE = "blocked", "not asked", "note"
VERDICTS = (WRONG, UNTOLD, BLOCKED, RIGHT, NOTE, NOT_ASKED)  # the first of them is a line's
EXIT = {RIGHT: 0, WRONG: 1, UNTOLD: 3}
COULD_NOT_RUN = 4
FORMAT = 1
SCHEMA = Path(__file__).with_name("check.schema.json")
COLUMNS = ["line", "what", "verdict", "found", "expected", "do"]
FIELDS = {
    "format": int,
    "model": str,
    "dataset": str,
    "items": int,
    "quick": bool,
    "verdict": str,
    "fingerprint": dict[str, str],
    "versions": dict[str, str],
    "example": str,
    "rows": list[dict[str, str]],
    "tables": dict[str, list[dict[str, Any]]],
}


@dataclass(frozen=True)
class Row:
    """One thing that was looked at; ``do`` is empty where nothing is to be done."""

    line: str
    what: str
    found: str
    expected: str
    verdict: str
    do: str = ""


def wrong(line: str, what: str, error: AuditError) -> Row:
    """A row that says what an error says."""
    return Row(line, what, error.found, error.needed, WRONG, error.remedy)


def untold(line: str, what: str, error: AuditError) -> Row:
    """A row of what couldn't be found out, for the reason that an error gives."""
    return Row(line, what, error.found, error.needed, UNTOLD, error.remedy)


def blocked(lines: Iterable[str], by: str) -> list[Row]:
    """Rows of lines that nothing can be said of while another is wrong."""
    return [Row(line, "all", f"{by} is wrong", "", BLOCKED, f"Mend {by} first.") for line in lines]


def worst(rows: Iterable[Row]) -> str:
    """The verdict of several rows of one line."""
    return min((row.verdict for row in rows), key=VERDICTS.index, default=NOT_ASKED)


@dataclass(frozen=True)
class Checked:
    """A check of one model.

    Attributes
    ----------
    model, dataset, items
        As given, and how many items were scored.
    quick
        Was it the short form?
    fingerprint
        Of the model's parts; empty where it didn't load.
    example
        One conversation as the model's template renders it.
    rows
        In the order of ``LINES``.
    tables
        Numbers behind rows, as records: ``shifts`` (way, largest, spread, sides, comparisons),
        ``windows`` (window, cut, identical), ``scale`` (score, mean, sd, between), ``costs``
        (template, n, rate, low, high, difference, difference_low, difference_high),
        ``differences`` (item, slot, ours, theirs, sd). No text of any dataset.
    """

    model: str
    dataset: str
    items: int
    quick: bool
    fingerprint: Mapping[str, str]
    versions: Mapping[str, str]
    example: str
    rows: Sequence[Row]
    tables: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)

    @property
    def lines(self) -> dict[str, str]:
        """Verdict by line."""
        return {line: worst(row for row in self.rows if row.line == line) for line in LINES}

    @property
    def verdict(self) -> str:
        """Of the whole: ``wrong`` before ``can't be told`` before ``right``."""
        found = set(self.lines.values())
        return WRONG if WRONG in found else UNTOLD if found & {UNTOLD, BLOCKED} else RIGHT

    @property
    def unsound(self) -> list[str]:
        """Those of *Head* and *Reading* that are wrong: then no score means anything."""
        return [line for line in (HEAD, READING) if self.lines[line] == WRONG]

    def frame(self, name: str = "") -> pd.DataFrame:
        """The rows as a table, or one of ``tables``."""
        import pandas as pd

        if not name:
            return pd.DataFrame([asdict(row) for row in self.rows])[COLUMNS]
        return pd.DataFrame(self.tables.get(name, []))

    def document(self) -> dict[str, Any]:
        """What ``check.json`` holds."""
        return {"format": FORMAT, **asdict(self), "verdict": self.verdict, "lines": self.lines}

    def save(self, path: str | Path) -> None:
        """Write ``check.json``, by rename; what isn't a number is written as null."""
        with replacing(path) as partial:
            text = json.dumps(finite(self.document()), ensure_ascii=False, indent=1)
            partial.write_text(text + "\n", encoding="utf-8")


def load(path: str | Path) -> Checked:
    """Read what ``save`` wrote.

    Raises
    ------
    StoreError
        For a file that isn't one.
    """
    remedy = "Check the model again: python -m lib check MODEL --json FILE"
    document = documents.read_json(
        Path(path), what="a check", error=StoreError, fields=FIELDS, remedy=remedy
    )
    try:
        if document["format"] != FORMAT:
            raise ValueError(f"format {document['format']}")
        rows = [Row(**row) for row in document["rows"]]
        if not {row.line for row in rows} <= set(LINES):
            raise ValueError("a line of another name")
        kept = ("model", "dataset", "items", "quick", "fingerprint", "versions", "example")
        return Checked(
            **{name: document[name] for name in kept}, rows=rows, tables=document["tables"]
        )
    except (KeyError, TypeError, ValueError) as no:
        raise StoreError(f"a check at {path}", f"{type(no).__name__}: {no}", remedy) from None


def committed(model: str) -> Path:
    """Where the check of a model of the book is committed."""
    return paths.BOOK / "checks" / f"{paths.slug(model)}.json"


def unsound(model: str) -> list[str]:
    """Lines of *Head* and *Reading* that a check found wrong: a committed one, or a page's.

    None where neither is there, or where what a page left can't be read.

    Raises
    ------
    StoreError
        For a committed check that is there and is none: no page may take it for a good one.
    """
    kept = committed(model)
    if os.path.lexists(kept):  # false also for a name that no file can have
        return load(kept).unsound
    page = paths.RESULTS / paths.slug(model) / "check.parquet"
    if not page.is_file():
        return []
    import pandas as pd

    try:
        rows = pd.read_parquet(page, columns=["line", "verdict"])
    except (OSError, ValueError, KeyError):
        return []
    wrong = rows.loc[rows["verdict"] == WRONG, "line"]
    return [line for line in (HEAD, READING) if line in set(wrong)]


def warning(model: str, lines: Sequence[str]) -> str:
    """What every page of a model says whose *Head* or *Reading* is wrong."""
    return (
        f"{model} failed the check of {' and '.join(lines)}: its scores are not those of the model "
        "that it names, and no verdict on them holds."
    )


def finite(value):
    """The value with null for each number that isn't one, as JSON has it."""
    if isinstance(value, Mapping):
        return {key: finite(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
