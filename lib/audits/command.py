"""``python -m lib report`` and ``python -m lib diff``."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from lib.audits import document, measure, page, words
from lib.audits.changes import changes
from lib.check.command import writable
from lib.terminal import fitting, wrapped

UNCHANGED, CHANGED, MOVED = 0, 3, 4  # exit statuses of a diff


def report(
    model: str,
    datasets: Sequence[str],
    *,
    out: str,
    json: str = "",
    results: str = "",
    **options,
) -> tuple[Path, Path]:
    """Audit a model, or read its executed pages; write the page and ``audit.json``.

    Parameters
    ----------
    model, datasets, options
        As for ``lib.audits.measure.audit``.
    out, json
        Where the page and ``audit.json`` go; the latter beside the page by default.
    results
        Folder of executed pages to read in place of all that.

    Returns
    -------
    tuple of Path
        Of both files.
    """
    target = Path(out)
    beside = Path(json) if json else target.with_name("audit.json")
    writable(target, "--out")
    writable(beside, "--json" if json else "--out")
    with tempfile.TemporaryDirectory() as scratch:
        if results:
            found = measure.executed(results, model)
        else:
            found = measure.audit(model, datasets, Path(scratch) / "results", **options)
        content = document.document([of(found)])
        text = page.page(found, content)
    document.save(beside, content)
    document.write(target, text)
    return target, beside


def of(found: measure.Audited) -> dict:
    """A model's part of ``audit.json``."""
    return document.of_model(found.left, found.checked, found.sources, found.differences)


def diff(old: str, new: str) -> int:
    """Print what changed between two ``audit.json``; the exit status says whether anything did."""
    found = changes(document.load(old), document.load(new))
    width = fitting(shutil.get_terminal_size().columns)
    lines = []
    for sentence in words.takeaways(found):
        lines += wrapped(sentence, width, rest="  ")
    print("\n".join(lines))
    return MOVED if len(found.found) else UNCHANGED if found.verdicts.empty else CHANGED
