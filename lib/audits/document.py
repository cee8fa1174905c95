"""``audit.json``: every verdict on a model with its numbers, what made them, and who won each
comparison; ``audit.schema.json`` says what each field means.

Nothing of it is text of a dataset, nor says when or where it was made: the same tables give the
same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pandas as pd

from lib import documents
from lib.atomic import replacing
from lib.audits import outcomes
from lib.check.lines import Checked, finite
from lib.errors import StoreError
from lib.models.identity import versions
from lib.stats.winrates import ALL
from lib.summary import matrix
from lib.summary.tables import NOT_RUN, OUTCOMES, Tables

FORMAT = 1
SCHEMA = Path(__file__).with_name("audit.schema.json")
LARGEST = 64 << 20  # bytes: of a hundred datasets and three hundred heads
REMEDY = "Make it again with this version: python -m lib report MODEL --out report.html"
VALIDITY, CHECK, COMPARE = "validity", "check", "compare"
# Table → the columns that name what is judged, what of it, and the verdict. Numbers go along.
JUDGED = {
    "exploits": ("head", "axis", "verdict"),
    "exploits_dose": ("head", "axis", "verdict"),
    "labels": ("head", "", "label"),
    "readout": ("head", "concept", "verdict"),
    "selection_picks": ("rule", "subset", "verdict"),
    "cascade_dimensions": ("head", "dimension", "verdict"),
    "cascade_together": ("head", "", "verdict"),
    "concepts_found": ("concept", "", "verdict"),
}
MATRIX = ("n", "prompts", "win_rate", "low", "high", "p", "p_adjusted", "mde")
DIGITS = 6  # significant


def document(models: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What ``audit.json`` holds, of what ``of_model`` gives."""
    return {"format": FORMAT, "made_with": made_with(), "models": list(models)}


def made_with() -> dict[str, str]:
    """Versions of this package and of what computes scores."""
    try:
        own = version("reward-audit")
    except PackageNotFoundError:  # a checkout that isn't installed
        own = "unknown"
    return {"reward-audit": own} | versions()


def of_model(
    left: Tables,
    checked: Checked | None,
    sources: Sequence[Mapping[str, Any]],
    differences: pd.DataFrame | None = None,
) -> dict[str, Any]:
    """A model's part of ``audit.json``.

    Parameters
    ----------
    left
        Its tables.
    checked
        Its check; ``None`` where there is none.
    sources
        Of each dataset ``dataset``, ``items``, ``fingerprint`` and what else of ``SOURCE`` is
        known, as attributes of its run.
    differences
        As ``lib.summary.compare`` gives them, of this model and others.
    """
    known = {source["dataset"]: source for source in sources}
    verdicts = [*_checked(checked), *_verdicts(left)]
    if differences is not None and len(differences):
        verdicts += _compared(left.model, differences)
    fingerprints = [dict(source.get("fingerprint", {})) for source in sources]
    if checked is not None:
        fingerprints.append(dict(checked.fingerprint))
    return {
        "name": left.model,
        "fingerprint": next(filter(None, fingerprints), {}),
        "check": "" if checked is None else checked.verdict,
        "datasets": [
            _dataset(name, table, known.get(name, {})) for name, table in left.each(OUTCOMES)
        ],
        "verdicts": verdicts,
    }


def _dataset(name: str, table: pd.DataFrame, source: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "items": str(source.get("items", "")),
        "how": str(source.get("how", "")),
        "fingerprint": dict(source.get("fingerprint", {})),
        "options": {key: str(value) for key, value in source.get("extraction", {}).items()},
        "versions": dict(source.get("versions", {})),
        "dropped": {key: int(n) for key, n in source.get("dropped", {}).items()},
        "missing": [str(part) for part in source.get("missing", [])],
        "outcomes": outcomes.pack(outcomes.of_table(table)),
    }


def _checked(checked: Checked | None) -> list[dict]:
    if checked is None:
        return []
    rows = checked.rows
    return [_row(CHECK, "", row.line, row.what, row.verdict, {}, row.found) for row in rows]


def _verdicts(left: Tables) -> list[dict]:
    cells = matrix(left)
    rows = [
        _row(
            VALIDITY,
            row["dataset"],
            row["head"],
            row["subset"],
            row["verdict"],
            {name: row[name] for name in MATRIX},
            row["note"],
        )
        for row in cells[cells["verdict"] != NOT_RUN].to_dict("records")
    ]
    for name, columns in JUDGED.items():
        for dataset, table in left.each(name):
            rows += _judged(name, dataset, table, *columns)
    return _each_once(rows)


def _judged(
    name: str, dataset: str, table: pd.DataFrame, judged: str, part: str, verdict: str
) -> list[dict]:
    """Verdicts of a table; none of one that lacks a column, as those of older pages may."""
    if not {judged, verdict, *([part] if part else [])} <= set(table):
        return []
    numeric = [
        column for column in table.select_dtypes("number") if column not in (judged, part, verdict)
    ]
    return [
        _row(
            name,
            dataset,
            row[judged],
            row[part] if part else ALL,
            row[verdict],
            {column: row[column] for column in numeric},
            row.get("why", row.get("note", "")),
        )
        for row in table.to_dict("records")
    ]


def _compared(model: str, differences: pd.DataFrame) -> list[dict]:
    """Of this model beside each other, on its side."""
    rows = []
    for row in differences.to_dict("records"):
        if model not in (row["model"], row["other"]):
            continue
        other, verdict, sign = row["other"], row["verdict"], 1
        if row["other"] == model:
            other, sign = row["model"], -1
            verdict = {"higher": "lower", "lower": "higher"}.get(verdict, verdict)
        numbers = {name: row[name] for name in ("n", "prompts", "p", "p_adjusted", "mde")}
        ends = [sign * row["low"], sign * row["high"]][::sign]
        numbers |= {"difference": sign * row["difference"], "low": ends[0], "high": ends[1]}
        numbers |= {"disagree": row["disagree"]}
        rows.append(_row(COMPARE, row["dataset"], other, ALL, verdict, numbers, row["note"]))
    return rows


def _row(
    of: str, dataset: str, judged: Any, part: Any, verdict: Any, numbers: Mapping, note: Any
) -> dict[str, Any]:
    return {
        "of": of,
        "dataset": dataset,
        "judged": str(judged),
        "part": str(part),
        "verdict": "" if pd.isna(verdict) else str(verdict),
        "numbers": {name: _number(value) for name, value in numbers.items()},
        "note": "" if not isinstance(note, str) else note,
    }


def _number(value: Any) -> float | int | None:
    if pd.isna(value):
        return None
    value = float(f"{float(value):.{DIGITS}g}")
    return int(value) if value.is_integer() and abs(value) < 1e15 else value


def _each_once(rows: list[dict]) -> list[dict]:
    """The first of what has one name."""
    found: dict[tuple, dict] = {}
    for row in rows:
        found.setdefault(name_of(row), row)
    return list(found.values())


def name_of(row: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """What tells a verdict from the others of its model."""
    return row["of"], row["dataset"], row["judged"], row["part"]


def text(content: Mapping[str, Any]) -> str:
    """As ``save`` writes it; what isn't a number is null."""
    return json.dumps(finite(content), ensure_ascii=False, indent=1) + "\n"


def save(path: str | Path, content: Mapping[str, Any]) -> None:
    """Write ``audit.json``, by rename."""
    write(path, text(content))


def write(path: str | Path, content: str) -> None:
    """Write a text, by rename."""
    with replacing(path) as partial:
        partial.write_text(content, encoding="utf-8")


def load(path: str | Path) -> dict[str, Any]:
    """Read an ``audit.json``.

    Raises
    ------
    StoreError
        For a file that isn't one: no JSON, of another format, or not as the schema has it.
    """
    path = Path(path)
    found = documents.read_json(
        path, what="an audit", error=StoreError, limit=LARGEST, remedy=REMEDY
    )
    if found.get("format") != FORMAT:
        given = documents.shown(found["format"]) if "format" in found else "none"
        raise StoreError(f"format {FORMAT} of the audit at {path}", given, REMEDY)
    wrong = next(_schema().iter_errors(found), None)
    if wrong is not None:
        place = "/".join(map(str, wrong.absolute_path)) or "its top"
        raise StoreError(
            f"an audit as its schema has it at {path}",
            f"at {place}: {wrong.message[:200]}",
            REMEDY,
        )
    for model in found["models"]:
        for dataset in model["datasets"]:
            try:
                outcomes.unpack(dataset["outcomes"])
            except ValueError as no:
                raise StoreError(
                    f"outcomes of {model['name']} on {dataset['name']} at {path}", str(no), REMEDY
                ) from None
    return found


@cache
def _schema():
    import jsonschema

    return jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))
