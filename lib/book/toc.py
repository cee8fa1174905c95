"""The table of contents, written from the plan and the notebooks' titles.

Chapters that are written by hand are listed in ``FRONT`` and ``METHODS``, those that a plan
may hold for the whole book in ``ACROSS``. Everything else is found in the plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from lib import paths
from lib.atomic import replacing
from lib.book import applies, pages
from lib.book.plan import CLOSING, PagePlan, Plan, read

# Chapters under book/, without suffix; a pattern stands for its files, 10 after 9.
FRONT = ("findings/*",)
METHODS = ("methods", "stimuli", "glossary", "reproduce", "how-to/*")
ACROSS = ("compare", "published", "tension", "calibration", "speed")  # their order; others follow
OVERVIEWS = ("model", "data")  # pages that stand for their model or dataset
HEADER = "# Written by `python -m lib toc` from audit.yml; don't edit.\n"


def render(plan: Plan | None = None) -> str:
    """The text of a table of contents; of ``audit.yml`` alone by default, as it is committed.

    It lists the index, the findings, the models, pages across models, the methods and the
    pages that close the book. A model's pages are below it, those about a dataset below that.
    Pages that say nothing about their model are left out.
    """
    plan = plan or read(local=False)
    shown = [page for page in plan.pages if applies.listed(page)]
    names = captions(plan.models)
    parts = [_part("Findings", _chapters(FRONT))]
    models = (_model(names[model], model, shown) for model in plan.models)
    parts.append(_part("Models", chain.from_iterable(models)))
    shared = [page for page in shown if page.shared and page.notebook not in CLOSING]
    parts.append(_part("Across models", map(_entry, sorted(shared, key=_place))))
    parts.append(_part("Methods", _chapters(METHODS)))
    parts.append(_part("This build", (_entry(page) for page in shown if page.notebook in CLOSING)))
    kept = [part for part in parts if part["chapters"]]
    document = {"format": "jb-book", "root": "book/index", "parts": kept}
    return HEADER + yaml.safe_dump(document, sort_keys=False, allow_unicode=True)


def captions(models: Iterable[str]) -> dict[str, str]:
    """Models by name → what a reader is shown: of a folder its last part, if no other has it."""
    models = list(models)
    short = {model: Path(model).name if Path(model).is_absolute() else model for model in models}
    count = Counter(short.values())
    return {
        model: name if count[name] == 1 else paths.public(model) for model, name in short.items()
    }


def heading(notebook: str) -> str:
    """The first heading of a notebook."""
    for cell in pages.cells(paths.NOTEBOOKS / f"{notebook}.ipynb"):
        if cell.kind == "markdown" and cell.source.startswith("# "):
            return cell.source.split("\n")[0].removeprefix("# ").strip()
    return notebook


def write() -> None:
    """Write ``_toc.yml``, by rename, when it changed."""
    text = render()
    if paths.TOC.exists() and paths.TOC.read_text(encoding="utf-8") == text:
        return
    with replacing(paths.TOC) as partial:
        partial.write_text(text, encoding="utf-8")


def _part(caption: str, chapters: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return {"caption": caption, "chapters": list(chapters)}


def _chapters(names: Iterable[str]) -> list[dict[str, str]]:
    """Entries for the chapters that are there."""
    found = [path for name in names for path in numbered(paths.BOOK.glob(f"{name}.md"))]
    return [{"file": f"book/{path.relative_to(paths.BOOK).with_suffix('')}"} for path in found]


def numbered(files: Iterable[Path]) -> list[Path]:
    """Files in order of name, the number that a name begins with read as a number."""

    def place(path: Path) -> tuple[int, str]:
        number = path.stem.partition("-")[0]
        return (int(number) if number.isdecimal() else 0), path.stem

    return sorted(files, key=place)


def _model(name: str, model: str, shown: list[PagePlan]) -> list[dict[str, Any]]:
    """A model with its pages below it; without a page about it, each of its datasets."""
    own = [page for page in shown if page.model == model and not page.shared]
    whole = [page for page in own if page.once]
    by_data: dict[str, list[PagePlan]] = {}
    for page in own:
        if not page.once:
            by_data.setdefault(paths.public(page.runs[0].dataset), []).append(page)
    if whole:
        return [_group(name, whole, [_group(*each) for each in by_data.items()])]
    return [_group(f"{name} on {data}", pages) for data, pages in by_data.items()]


def _group(
    name: str, pages: list[PagePlan], below: Iterable[dict[str, Any]] = ()
) -> dict[str, Any]:
    """The page that gives an overview, under a name, with the others and ``below`` folded in."""
    first, *others = sorted(pages, key=lambda page: page.notebook not in OVERVIEWS)
    entry = _entry(first)
    title = name if first.notebook in OVERVIEWS else f"{name}: {entry['title']}"
    sections = [*map(_entry, others), *below]
    return entry | {"title": title} | ({"sections": sections} if sections else {})


def _place(page: PagePlan) -> int:
    return ACROSS.index(page.notebook) if page.notebook in ACROSS else len(ACROSS)


def _entry(page: PagePlan) -> dict[str, str]:
    return {"file": page.output.removesuffix(".ipynb"), "title": heading(page.notebook)}
