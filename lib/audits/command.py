"""``python -m lib report``: a page to send, with ``audit.json`` beside it."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from lib.audits import document, measure, page
from lib.check.command import writable


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
    for path in (target, beside):
        writable(path)
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
