"""What made each page of the book: records beside the pages, read again by the status page.

``record`` is called by every page that tells its provenance and writes
``NOTEBOOK.provenance.json`` beside its tables; ``read`` gathers them, one row for each
executed page. Columns of that table:

``page``
    Where it lies under the folder of results, without suffix.
``model``, ``data``
    Name of the model, and each dataset with the fingerprint of its content.
``seconds``
    Run time of the page, not counting what was extracted before; missing when not told.
``seed``, ``commit``, ``machine``, ``versions``, ``command``
    As the page tells them.
``recorded``
    Is there a record? Without one nothing but ``page`` is known.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd

from lib import documents, words
from lib.atomic import replacing
from lib.errors import PageError

SAVED = re.compile(r"""\bpage\.save\([^\n]*?,\s*"([\w-]+)"\s*\)""")
SUFFIX = ".provenance.json"
OWN = "status"  # the page that shows the others
COLUMNS = {"Seed": "seed", "Commit": "commit", "Machine": "machine", "Made by": "command"}
RECORD = {"model": str, "data": list[dict[str, str]], "rows": dict[str, str], "tables": list[str]}
MOST = 5  # pages without a record that are named
VERSIONS = ("Extracted with", "Page made with")


def record(
    page: str,
    rows: Mapping[str, str],
    folder: str | Path,
    runs: Iterable[Mapping[str, Any]],
    tables: Iterable[str] = (),
) -> Path:
    """Keep what a page tells of its making, by rename.

    Parameters
    ----------
    page
        The notebook's name.
    rows
        What the page shows: label → text.
    folder
        Where its tables go.
    runs
        Attributes of the Runs it read: ``model``, ``dataset`` and ``items``, a fingerprint.
    tables
        Names of those that the page wrote into the folder.
    """
    runs = list(runs)
    kept = {
        "page": page,
        "model": runs[0]["model"] if runs else "",
        "data": [{"dataset": run["dataset"], "fingerprint": run["items"]} for run in runs],
        "rows": {label: str(text) for label, text in rows.items()},
        "tables": list(dict.fromkeys(tables)),
    }
    target = Path(folder) / f"{page}{SUFFIX}"
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as partial:
        partial.write_text(json.dumps(kept, ensure_ascii=False, indent=1), encoding="utf-8")
    return target


def read(results: str | Path) -> pd.DataFrame:
    """Every executed page under the folder, sorted by its place, with what made it.

    Raises
    ------
    PageError
        When the folder holds no page, or a record isn't one.
    """
    results = Path(results)
    found = (path.relative_to(results) for path in sorted(results.rglob("*.ipynb")))
    pages = [
        path.with_suffix("")
        for path in found
        if path.stem != OWN and not any(part.startswith(".") for part in path.parts)
    ]
    if not pages:
        raise PageError(f"an executed page under {results}", "none", "Run make book.")
    return pd.DataFrame([_row(results, page) for page in pages])


def tables(page: str | Path) -> list[str]:
    """Names of the tables that an executed page wrote beside it.

    As its record tells; where that is missing or from before records did, as its cells do.
    """
    try:
        names = _kept(Path(page).with_name(Path(page).stem + SUFFIX))["tables"]
    except (PageError, KeyError):
        return _saved(Path(page))
    return [name for name in names if name and Path(name).name == name and name.isprintable()]


def _kept(path: Path) -> dict[str, Any]:
    told = {"error": PageError, "remedy": "Make that page again."}
    return documents.read_json(path, what="a record", fields=RECORD, **told)


def _saved(page: Path) -> list[str]:
    try:
        cells = json.loads(page.read_text(encoding="utf-8"))["cells"]
        source = "\n".join("".join(cell["source"]) for cell in cells)
    except (OSError, KeyError, ValueError, TypeError, RecursionError):
        return []
    return list(dict.fromkeys(SAVED.findall(source)))


def addresses(table: pd.DataFrame, results: str | Path, here: str | Path = "") -> list[str]:
    """Of each page in the site, seen from the folder ``here``; empty: from ``results``."""
    start = os.path.relpath(results, here or results)
    return [quote(os.path.normpath(f"{start}/{page}.html")) for page in table["page"]]


def shared(table: pd.DataFrame) -> pd.DataFrame:
    """Machine and versions, each set of them once: ``machine, versions, commit, pages``."""
    known = table[table["recorded"]]
    by = ["machine", "versions", "commit"]
    return known.groupby(by, sort=False).size().rename("pages").reset_index()


def takeaways(table: pd.DataFrame) -> list[str]:
    """How many pages, how long, and whether one commit made them all."""
    known = table[table["recorded"]]
    models = known.loc[known["model"] != "", "model"].nunique()
    about = f", about {words.count(models, 'model')}" if models else ""
    told = [f"{words.count(len(table), 'page')} {_were(len(table))} executed{about}."]
    if len(known) < len(table):
        missing = table.loc[~table["recorded"], "page"].tolist()
        told.append(f"{len(missing)} left no record of how: {words.listed(missing, MOST)}.")
    if known["seconds"].notna().any():
        slowest = known.loc[known["seconds"].idxmax()]
        timed = int(known["seconds"].notna().sum())
        they = (
            "Together they"
            if timed == len(table)
            else f"Those that tell their time, {timed} in all,"
        )
        told.append(
            f"{they} ran for {known['seconds'].sum():.0f} s; the longest was "
            f"{slowest['page']} with {slowest['seconds']:.0f} s."
        )
    commits = known["commit"].unique()
    every, they = ("All", "They")
    if len(known) < len(table):
        every, they = ("All with a record", "Those with a record")
    if len(commits) == 1:
        told.append(f"{every} were made by commit {commits[0]}.")
    elif len(commits) > 1:
        told.append(f"{they} were made by {len(commits)} commits: {', '.join(commits)}.")
    changed = known["commit"].str.endswith("-dirty").sum()
    if changed:
        told.append(f"{changed} {_were(changed)} made with changes that were not committed.")
    return told


def _were(number: int) -> str:
    return "was" if number == 1 else "were"


def _row(results: Path, page: Path) -> dict[str, Any]:
    path = results / page.with_name(page.name + SUFFIX)
    row = {"page": page.as_posix(), "recorded": path.is_file()}
    if not row["recorded"]:
        return (
            row
            | dict.fromkeys(("model", "data", *COLUMNS.values(), "versions"), "")
            | {"seconds": float("nan")}
        )
    kept = _kept(path)
    try:
        rows = kept["rows"]
        data = "; ".join(f"{one['dataset']} ({one['fingerprint']})" for one in kept["data"])
        row |= {"model": kept["model"], "data": data}
    except KeyError as error:
        raise PageError(f"a record at {path}", f"no {error}", "Make that page again.") from None
    row |= {column: rows.get(label, "") for label, column in COLUMNS.items()}
    row["versions"] = "; ".join(rows[label] for label in VERSIONS if label in rows)
    row["seconds"] = _seconds(rows.get("Run time", ""))
    return row


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?) s", text)
    return float(found[1]) if found else float("nan")
