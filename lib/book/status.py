"""Every executed page of the book and what made it, gathered from the records beside them.

Columns of the table that ``read`` returns, one row a page:

``page``
    Where it lies under the folder of results, without suffix.
``model``, ``data``
    Name of the model, and each dataset with the fingerprint of its content.
``seconds``
    Run time of the page, not counting what was extracted before; NaN when it isn't recorded.
``seed``, ``commit``, ``machine``, ``versions``, ``command``
    As the page shows them.
``recorded``
    Is there a record? Without one nothing but ``page`` is known.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd

from lib import records, words
from lib.book.plan import LAST
from lib.errors import PageError

COLUMNS = {"Seed": "seed", "Commit": "commit", "Machine": "machine", "Made by": "command"}
VERSIONS = ("Extracted with", "Page made with")
UNKNOWN = dict.fromkeys(("model", "data", *COLUMNS.values(), "versions"), "")
MOST = 5  # pages without a record that are named


def read(results: str | Path) -> pd.DataFrame:
    """Every executed page under the folder, sorted by its place, with what made it.

    Raises
    ------
    PageError
        When the folder holds no page, or a record isn't one.
    """
    results = Path(results)
    found = (path.relative_to(results) for path in sorted(results.rglob("*.ipynb")))
    rows = [
        _row(results, page)
        for page in found
        if page.stem != LAST and not any(part.startswith(".") for part in page.parts)
    ]
    if not rows:
        raise PageError(f"an executed page under {results}", "none", "Run make book.")
    return pd.DataFrame(rows)


def _row(results: Path, page: Path) -> dict[str, Any]:
    path = records.of(results / page)
    row = {"page": page.with_suffix("").as_posix(), "recorded": path.is_file()}
    if not row["recorded"]:
        return {**row, **UNKNOWN, "seconds": float("nan")}
    kept = records.read(results / page)
    try:
        shown, model = kept["rows"], kept["model"]
        data = "; ".join(f"{one['dataset']} ({one['fingerprint']})" for one in kept["data"])
    except KeyError as error:
        raise PageError(f"a record at {path}", f"no {error}", "Make that page again.") from None
    row |= {"model": model, "data": data}
    row |= {column: shown.get(label, "") for label, column in COLUMNS.items()}
    row["versions"] = "; ".join(shown[label] for label in VERSIONS if label in shown)
    time = re.fullmatch(r"(\d+(?:\.\d+)?) s", shown.get("Run time", ""))
    return {**row, "seconds": float(time[1]) if time else float("nan")}


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
    timed = known.dropna(subset=["seconds"])
    models = known.loc[known["model"] != "", "model"].nunique()
    about = f", about {words.count(models, 'model')}" if models else ""
    sentences = [f"{words.count(len(table), 'page')} {_were(len(table))} executed{about}."]
    every, those = "All", "They"
    if len(known) < len(table):
        every, those = "All with a record", "Those with a record"
        missing = table.loc[~table["recorded"], "page"].tolist()
        names = words.listed(missing, MOST)
        sentences.append(f"{len(missing)} left no record of how: {names}.")
    if len(timed):
        slowest = timed.loc[timed["seconds"].idxmax()]
        they = f"Those that record their time, {len(timed)} in all,"
        sentences.append(
            f"{'Together they' if len(timed) == len(table) else they} ran for "
            f"{timed['seconds'].sum():.0f} s; the longest was {slowest['page']} with "
            f"{slowest['seconds']:.0f} s."
        )
    commits = known["commit"].unique()
    if len(commits) == 1:
        sentences.append(f"{every} were made by commit {commits[0]}.")
    elif len(commits) > 1:
        made = f"{len(commits)} commits: {', '.join(commits)}"
        sentences.append(f"{those} were made by {made}.")
    changed = known["commit"].str.endswith("-dirty").sum()
    if changed:
        sentences.append(f"{changed} {_were(changed)} made with changes that were not committed.")
    return sentences


def _were(number: int) -> str:
    return "was" if number == 1 else "were"
