"""The book's own ``audit.json``: of every model with executed pages, beside the committed one.

``book/audit.json`` is committed: what the book found then. The page *changes* writes that of this
build among the executed pages, and tells what differs.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from lib import paths
from lib.audits import command, document, measure, words
from lib.audits.changes import MOVED, VERDICTS, Changes, changes
from lib.errors import AuditError
from lib.markup import Html, escape

FILE = "audit.json"
NOT_KEPT = "No audit is committed yet, so there is nothing to compare this build with."
NO_PAGES = "No validity page was executed, so there is nothing to audit."
NOTHING = (
    "Nothing changed since the audit that is committed: the same verdicts, by the same outcomes."
)


def now(results: str | Path) -> dict[str, Any] | None:
    """``audit.json`` of the executed pages under a folder; nothing where there are none."""
    found = [command.of(each) for each in measure.all_executed(results)]
    return document.document(found) if found else None


def keep(content: Mapping[str, Any] | None, tables: str) -> None:
    """Write it where a page keeps its tables; nothing where it keeps none."""
    if content is None or not tables:
        return
    target = paths.tables(tables) / FILE
    target.parent.mkdir(parents=True, exist_ok=True)
    document.save(target, content)


def commit(results: str | Path, folder: str | Path) -> Path | None:
    """Put a build's where it is committed; nothing where the build left none."""
    made = Path(results) / FILE
    if not made.is_file():
        return None
    target = Path(folder) / FILE
    document.save(target, document.load(made))
    return target


def since(kept: str | Path, content: Mapping[str, Any] | None) -> Changes | str:
    """What changed since the committed audit; or why that can't be told."""
    path = paths.found(kept)
    if content is None:
        return NO_PAGES
    if not path.is_file():
        return NOT_KEPT
    try:
        return changes(document.load(path), content)
    except AuditError as nothing:
        return f"The committed audit can't be compared with this build: {nothing}"


def told(found: Changes | str) -> list[str]:
    """Its sentences; the first says since when."""
    if isinstance(found, str):
        return [found]
    if found.empty:
        return [NOTHING]
    first, *rest = words.takeaways(found)
    return [f"Since the audit that is committed, {first[0].lower()}{first[1:]}", *rest]


def tables(found: Changes | str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Changed verdicts, and what moved beyond noise."""
    if isinstance(found, str):
        return pd.DataFrame(columns=list(VERDICTS)), pd.DataFrame(columns=list(MOVED))
    return found.verdicts, found.found


def link(content: Mapping[str, Any] | None) -> Html:
    """A link that holds ``audit.json``, to be saved from the page."""
    if content is None:
        return Html(f"<p>{escape(NO_PAGES)}</p>")
    packed = base64.b64encode(gzip.compress(document.text(content).encode(), mtime=0)).decode()
    return Html(
        '<p>This build as <a class="data-link" download="audit.json.gz" '
        f'href="data:application/gzip;base64,{packed}">audit.json</a>, compressed.</p>'
    )
