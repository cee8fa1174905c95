"""What made a page: a record beside it, ``NOTEBOOK.provenance.json``, that builds and the
status page read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lib import documents
from lib.atomic import replacing
from lib.errors import PageError

SAVED = re.compile(r"""\bpage\.save\([^\n]*?,\s*"([\w-]+)"\s*\)""")
SUFFIX = ".provenance.json"
RECORD = {"model": str, "data": list[dict[str, str]], "rows": dict[str, str], "tables": list[str]}
RECORD |= {"runs": list[dict[str, Any]]}
# Attributes of a run that tell what made it.
SOURCE = ("dataset", "items", "fingerprint", "extraction", "versions", "dropped", "missing")


def write(
    page: str,
    rows: Mapping[str, str],
    folder: str | Path,
    runs: Iterable[Mapping[str, Any]],
    tables: Iterable[str] = (),
) -> None:
    """Keep what a page shows of its making, by rename, in the folder of its tables.

    Rows map a label to a text. Runs are attributes of those that it read: ``model``,
    ``dataset`` and ``items``, a fingerprint, and what else of ``SOURCE`` there is. Tables are the
    names of those that it wrote.
    """
    runs = list(runs)
    named = [{name: run[name] for name in SOURCE if name in run} for run in runs]
    kept = {
        "page": page,
        "model": runs[0]["model"] if runs else "",
        "data": [{"dataset": run["dataset"], "fingerprint": run["items"]} for run in runs],
        "runs": named,
        "rows": {label: str(text) for label, text in rows.items()},
        "tables": list(dict.fromkeys(tables)),
    }
    target = Path(folder) / f"{page}{SUFFIX}"
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as partial:
        partial.write_text(json.dumps(kept, ensure_ascii=False, indent=1), encoding="utf-8")


def read(page: str | Path) -> dict[str, Any]:
    """The record of an executed page; a ``PageError`` where it is damaged or there is none."""
    remedy = "Make that page again."
    return documents.read_json(
        of(page), what="a record", fields=RECORD, error=PageError, remedy=remedy
    )


def of(page: str | Path) -> Path:
    """Where the record of an executed page lies."""
    return Path(page).with_name(Path(page).stem + SUFFIX)


def tables(page: str | Path) -> list[Path]:
    """Places of the tables that an executed page wrote beside it.

    As its record names them; where that is missing or from before records did, as its cells do.
    """
    page = Path(page)
    try:
        names = read(page)["tables"]
    except (PageError, KeyError):
        names = _saved(page)
    good = (name for name in names if name and Path(name).name == name and name.isprintable())
    return [page.with_name(f"{name}.parquet") for name in good]


def _saved(page: Path) -> list[str]:
    try:
        cells = json.loads(page.read_text(encoding="utf-8"))["cells"]
        source = "\n".join("".join(cell["source"]) for cell in cells)
    except (OSError, KeyError, ValueError, TypeError, RecursionError):
        return []
    return list(dict.fromkeys(SAVED.findall(source)))
