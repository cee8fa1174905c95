"""``python -m lib check``: a table in the terminal, ``check.json``, and an exit code for CI."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from lib import hub
from lib.check.lines import COULD_NOT_RUN, EXIT, LINES, NOT_ASKED, NOTE, RIGHT, Checked
from lib.errors import AuditError, StoreError
from lib.refused import refused
from lib.terminal import fitting, wrapped

BELOW = " " * 10
MARKS = {"right": "ok", "wrong": "WRONG", "can't be told": "?", "blocked": "-", "not asked": "."}


def run(model: str, *, json: str = "", **options) -> int:
    """Check, print and write ``json``; 0 right, 1 a line is wrong, 3 one can't be told, 4 no check.

    ``options`` go to ``lib.check.check``.
    """
    from lib.check.measure import check

    try:
        if json:
            writable(Path(json))
        checked = check(model, watch=lambda line: hub.under_way(f"{line} of {model}"), **options)
    except AuditError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return COULD_NOT_RUN
    except OSError as error:
        return _refused(error)
    print(table(checked, shutil.get_terminal_size().columns))
    if json:
        try:
            checked.save(json)
        except OSError as error:
            return _refused(error)
    return EXIT[checked.verdict]


def _refused(error: OSError) -> int:
    print(f"StoreError: {refused(error)}", file=sys.stderr)
    return COULD_NOT_RUN


def writable(path: Path, option: str = "--json") -> None:
    """Is there a place for a file? Said before minutes are spent on what it is to hold."""
    remedy = f"Name a file in a folder that you may write to: {option} FILE"
    folder = path.absolute().parent
    if path.is_dir() or not folder.is_dir():
        raise StoreError(f"a file at {path}", "a folder" if path.is_dir() else "no folder", remedy)
    if not os.access(folder, os.W_OK):
        raise StoreError(f"a file at {path}", f"{folder} can't be written to", remedy)


def table(checked: Checked, width: int = 100) -> str:
    """The rows by line, each with its mark; of what isn't right also what to do."""
    width = fitting(width)
    lines = [f"{checked.model} on {checked.items} items of {checked.dataset}", ""]
    for line in LINES:
        verdict = checked.lines[line]
        lines.append(f"{line}: {verdict}")
        for row in (row for row in checked.rows if row.line == line):
            mark = "" if row.verdict == NOTE else MARKS[row.verdict]
            lines += wrapped(f"{row.what}: {row.found}", width, f"  {mark:<6}", BELOW)
            if row.verdict not in (RIGHT, NOTE, NOT_ASKED) and row.expected:
                lines += wrapped(f"expected {row.expected}", width, BELOW)
            if row.do and row.verdict not in (RIGHT, NOT_ASKED):
                lines += wrapped(f"→ {row.do}", width, BELOW)
    return "\n".join([*lines, "", f"{checked.model}: {checked.verdict}"])
