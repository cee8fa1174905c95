"""The table of contents, written from ``audit.yml`` and the notebooks' titles."""

from __future__ import annotations

import os

import nbformat
import yaml

from lib import paths
from lib.book.plan import Plan, read

METHODS = ("book/stimuli",)
HEADER = "# Written by `python -m lib toc` from audit.yml; don't edit.\n"


def render(plan: Plan | None = None) -> str:
    """The text of ``_toc.yml``: the index, a part for each model, then methods."""
    plan = plan or read()
    parts: dict[str, list] = {}
    # Pages about the model as a whole come before those about one dataset.
    for page in sorted(plan.pages, key=lambda page: not page.once):
        title = heading(page.notebook) if page.once else f"{heading(page.notebook)}: {page.about}"
        entry = {"file": page.output.removesuffix(".ipynb"), "title": title}
        parts.setdefault(page.model, []).append(entry)
    document = {
        "format": "jb-book",
        "root": "book/index",
        "parts": [
            *(
                {"caption": f"Model {model}", "chapters": chapters}
                for model, chapters in parts.items()
            ),
            {"caption": "Methods", "chapters": [{"file": page} for page in METHODS]},
        ],
    }
    return HEADER + yaml.safe_dump(document, sort_keys=False, allow_unicode=True)


def heading(notebook: str) -> str:
    """The first heading of a notebook."""
    cells = nbformat.read(paths.NOTEBOOKS / f"{notebook}.ipynb", as_version=4).cells
    for cell in cells:
        if cell.cell_type == "markdown" and cell.source.startswith("# "):
            return cell.source.split("\n")[0].removeprefix("# ").strip()
    return notebook


def write() -> None:
    """Write ``_toc.yml``, by rename, when it changed."""
    text = render()
    if paths.TOC.exists() and paths.TOC.read_text() == text:
        return
    partial = paths.TOC.with_suffix(f".partial-{os.getpid()}")
    partial.write_text(text)
    os.replace(partial, paths.TOC)
