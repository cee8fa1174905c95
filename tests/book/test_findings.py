"""The front page and the findings: an answer first, every number glued, every target there."""

from __future__ import annotations

import os
import re
from pathlib import Path

import nbformat
import pytest

from lib import paths
from lib.book import plan, toc

INDEX = paths.BOOK / "index.md"
CHAPTERS = sorted((paths.BOOK / "findings").glob("*.md"))
PAGES = [INDEX, *CHAPTERS]
NAMES = {page: page.relative_to(paths.BOOK).as_posix() for page in PAGES}

ROLE = re.compile(r"\{glue:text\}`([^`:]+)::([^`]+):`")
DIRECTIVE = re.compile(r"^`{3,}\{glue\} (\S+)\n:doc: (\S+)$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#]+)[^)]*\)|^:link: (\S+)$", re.MULTILINE)
FIELD = re.compile(r"^:+(\{.*|\w+:.*)?$", re.MULTILINE)  # of directives: fences and options


def each(pages):
    return pytest.mark.parametrize("page", pages, ids=[NAMES[page] for page in pages])


def glued(page: Path) -> list[tuple[str, str]]:
    """Executed notebook, relative to the checkout, and name of every glued value."""
    text = page.read_text(encoding="utf-8")
    found = ROLE.findall(text) + [(doc, name) for name, doc in DIRECTIVE.findall(text)]
    return [(_from_root(page, doc), name) for doc, name in found]


def typed(page: Path) -> str:
    """What a reader sees that was typed: no glue, code, addresses or options."""
    text = ROLE.sub("", page.read_text(encoding="utf-8"))
    text = re.sub(r"^(`{3,}).*?^\1$", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"`[^`]*`", "", text)
    return FIELD.sub("", re.sub(r"\]\([^)]*\)", "]", text))


def _from_root(page: Path, address: str) -> str:
    return os.path.relpath(page.parent / address, paths.ROOT)


@each(PAGES)
def test_no_number_is_typed(page):
    assert re.findall(r".*\d.*", typed(page)) == []


@each(PAGES)
def test_every_glued_value_is_of_a_page_in_the_plan(page):
    pages = {planned.output for planned in plan.read(local=False).pages}
    text = page.read_text(encoding="utf-8")
    assert len(glued(page)) == text.count("{glue")  # none is written in a way not seen here
    assert {doc for doc, _ in glued(page)} - pages == set()


@each(PAGES)
def test_every_link_leads_to_a_page_or_a_chapter(page):
    pages = {planned.output for planned in plan.read(local=False).pages}
    for pair in LINK.findall(page.read_text(encoding="utf-8")):
        address = _from_root(page, "".join(pair))
        places = {address, f"{address}.ipynb"} & pages
        assert places or any((paths.ROOT / f"{address}{end}").is_file() for end in ("", ".md"))


@each(CHAPTERS)
def test_a_chapter_answers_before_it_explains(page):
    text = page.read_text(encoding="utf-8")
    title, answer, figure = (
        re.search(pattern, text, re.MULTILINE)
        for pattern in (r"^# .+$", r"^:class: takeaways\n\n(?:.*\n)*?:::$", r"^```\{glue\}")
    )
    assert title.start() == 0 and len(title.group()) <= 40
    assert title.end() < answer.start() < answer.end() < figure.start()
    assert ROLE.search(answer.group())
    assert "\n## What it rests on\n" in text and "\n## What it can't say\n" in text


@each(CHAPTERS)
def test_a_chapter_is_short_and_names_the_page_it_rests_on(page):
    text = page.read_text(encoding="utf-8")
    assert len(typed(page).split()) < 350
    assert ".ipynb)" in text.partition("## What it rests on")[2]


def test_the_front_page_holds_the_matrix_its_table_and_the_legend():
    assert {"matrix", "listing", "legend"} <= {name for _, name in glued(INDEX)}
    assert len(typed(INDEX).split()) < 450


def test_findings_come_first_in_the_table_of_contents():
    text = toc.render()
    places = [text.index(f"book/findings/{page.stem}\n") for page in CHAPTERS]
    assert places == sorted(places) and max(places) < text.index("book/results/")


@pytest.mark.slow
@each(PAGES)
def test_every_glued_value_was_kept_by_its_page(site, page):
    for doc, name in glued(page):
        assert name in kept(paths.ROOT / doc), (doc, name)


def kept(executed: Path) -> set[str]:
    """Names of the values that an executed page kept for others."""
    cells = nbformat.read(executed, as_version=4).cells
    told = [output.get("metadata", {}) for cell in cells for output in cell.get("outputs", [])]
    return {metadata["scrapbook"]["name"] for metadata in told if "scrapbook" in metadata}
