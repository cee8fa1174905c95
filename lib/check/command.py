"""``python -m lib check``: a table in the terminal, ``check.json``, and an exit code for CI."""

from __future__ import annotations

import shutil
import sys
import textwrap

from lib import hub
from lib.check.lines import COULD_NOT_RUN, EXIT, LINES, NOT_ASKED, NOTE, RIGHT, Checked
from lib.errors import AuditError

NARROWEST, WIDEST = 60, 120
MARKS = {"right": "ok", "wrong": "WRONG", "can't be told": "?", "blocked": "-", "not asked": "."}


def run(model: str, *, json: str = "", **options) -> int:
    """Check, print and write ``json``; 0 right, 1 a line is wrong, 3 one can't be told, 4 no check.

    ``options`` go to ``lib.check.check``.
    """
    from lib.check.measure import check

    try:
        checked = check(model, watch=lambda line: hub.under_way(f"{line} of {model}"), **options)
        if json:
            checked.save(json)
    except AuditError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return COULD_NOT_RUN
    except OSError as error:
        print(f"needed to read and write files; found {error}", file=sys.stderr)
        return COULD_NOT_RUN
    print(table(checked, shutil.get_terminal_size().columns))
    return EXIT[checked.verdict]


def table(checked: Checked, width: int = 100) -> str:
    """The rows by line, each with its mark; of what isn't right also what to do."""
    width = min(max(width, NARROWEST), WIDEST)
    lines = [f"{checked.model} on {checked.items} items of {checked.dataset}", ""]
    for line in LINES:
        verdict = checked.lines[line]
        lines.append(f"{line}: {verdict}")
        for row in (row for row in checked.rows if row.line == line):
            mark = "" if row.verdict == NOTE else MARKS[row.verdict]
            lines += _wrapped(f"{row.what}: {row.found}", f"  {mark:<6}", width)
            if row.verdict not in (RIGHT, NOTE, NOT_ASKED) and row.expected:
                lines += _wrapped(f"expected {row.expected}", " " * 10, width)
            if row.do and row.verdict not in (RIGHT, NOT_ASKED):
                lines += _wrapped(f"→ {row.do}", " " * 10, width)
    return "\n".join([*lines, "", f"{checked.model}: {checked.verdict}"])


def _wrapped(text: str, first: str, width: int) -> list[str]:
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=" " * 10, break_on_hyphens=False
    )
