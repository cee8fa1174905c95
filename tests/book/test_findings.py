"""The front page and the findings: an answer first, every number glued, every target there."""

from __future__ import annotations

import os
import re
from pathlib import Path

import nbformat
import pytest

from lib import paths
from lib.analyses.disentanglement import stats
from lib.book import plan, toc
from lib.planted import checks
from lib.stats import winrates

INDEX = paths.BOOK / "index.md"
CHAPTERS = toc.numbered((paths.BOOK / "findings").glob("*.md"))
PAGES = [INDEX, *CHAPTERS]
NAMES = {page: page.relative_to(paths.BOOK).as_posix() for page in PAGES}

ROLE = re.compile(r"\{glue:text\}`([^`:]+)::([^`]+):`")
DIRECTIVE = re.compile(r"^`{3,}\{glue\} (\S+)\n:doc: (\S+)$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#]+)[^)]*\)|^:link: (\S+)$", re.MULTILINE)
FIELD = re.compile(r"^:+(\{.*|[\w-]+:.*)?$", re.MULTILINE)  # of directives: fences and options


NUMBER = re.compile(r"(?<![\w.])\.?\d[\d.,]*%?")
# Conventions that a page may say in digits: limits of its code, and names and formulas.
LIMITS = (0.05, winrates.STRONG, *winrates.CHANCE, winrates.POWER, stats.THRESHOLD)
CONVENTIONS = {f"{limit:g}".lstrip("0") for limit in LIMITS} | {f"{checks.LEVEL:.0%}"}
PHRASES = ("Llama 3 8B", "Padded 32", "1 − |*r*|", "1 − arccos", "95th percentile", "reaches 1,")
PHRASES += ("45°", "these correlate .5")


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


@pytest.mark.parametrize("name", plan.notebooks())
def test_no_number_is_typed_into_a_notebook(name):
    found = [(line, numbers(line)) for line in prose(name).splitlines()]
    assert [line for line, typed_numbers in found if typed_numbers - CONVENTIONS] == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("12 heads of 3.5 win .611 and 97%", {"12", "3.5", ".611", "97%"}),
        ("`k = 3`, [a](b2), R² of Llama 3 8B and x1", set()),
        ("below .05, power .8.", {".05", ".8"}),
    ],
)
def test_typed_numbers_are_seen(line, expected):
    assert numbers(plain(line)) == expected


def prose(name: str) -> str:
    """What was typed into a notebook's prose: no code, no addresses."""
    cells = nbformat.read(paths.NOTEBOOKS / f"{name}.ipynb", as_version=4).cells
    return plain("\n".join(cell.source for cell in cells if cell.cell_type == "markdown"))


def plain(text: str) -> str:
    text = re.sub(r"^(`{3,}).*?^\1$", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "", text))


def numbers(line: str) -> set[str]:
    for phrase in PHRASES:
        line = line.replace(phrase, "")
    return {number.rstrip(".,") for number in NUMBER.findall(line)}


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("calibration", "the more pairs it takes"),
        ("calibration", "the loss comes out too low"),
        ("published", "lies below"),
        ("published", "well above"),
        ("speed", "one evening"),
    ],
)
def test_outcomes_are_left_to_the_tables(name, outcome):
    assert outcome not in prose(name)


@each([INDEX, paths.BOOK / "findings" / "7-published.md"])
def test_what_the_audit_found_valid_or_noise_is_said_of_hh_rlhf(page):
    """Elsewhere it found most heads valid, on pairs that aren't about harm."""
    said = [part for part in re.split(r"\n- |\n\n", page.read_text(encoding="utf-8"))]
    about = [part for part in said if re.search("about harm|::readability-is|::rates-given", part)]
    assert about and all("hh-rlhf" in part for part in about)


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


def test_the_front_page_holds_what_to_use_the_matrix_its_table_and_the_legend():
    assert {"uses", "matrix", "listing", "legend"} <= {name for _, name in glued(INDEX)}
    assert len(typed(INDEX).split()) < 450


@each(PAGES)
def test_a_page_opens_with_five_takeaways_at_most(page):
    boxes = re.findall(r"^:class: takeaways\n\n((?:.*\n)*?):::$", page.read_text(), re.MULTILINE)
    assert len(boxes) <= 1
    assert all(len(re.findall(r"^- ", box, re.MULTILINE)) <= 5 for box in boxes)


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
