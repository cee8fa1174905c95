"""Every page of the built site in headless Chromium, with the network cut off."""

import json
from pathlib import Path
from urllib.parse import quote

import pandas as pd
import pytest
import yaml
from outside import from_elsewhere

from lib import paths
from lib.book import plan

pytestmark = pytest.mark.slow

LEAST = 4.5  # WCAG 2, level AA, for text of any size
HEAVIEST = 600_000  # bytes of a page
PHONE = {"width": 390, "height": 844}
CONTRAST = (Path(__file__).parent / "contrast.js").read_text()
VISIT = (Path(__file__).parent / "visit.js").read_text()
READ = f"given => {{ const contrast = {CONTRAST} const visit = {VISIT} return visit(contrast, given) }}"
MARKS = "svg .mark-symbol path, svg .mark-rect path, svg .mark-line path, svg .mark-area path"
MARKS += ", svg .mark-text.role-mark text"  # of a figure that says why there is none
EXECUTED = [p.output.removesuffix(".ipynb") + ".html" for p in plan.read().pages]
SHOWN = [page for page in EXECUTED if page.removesuffix(".html") in paths.TOC.read_text()]
CHAPTERS = [
    f"{entry['file']}.html"
    for part in yaml.safe_load(paths.TOC.read_text())["parts"]
    for entry in part["chapters"]
    if "results/" not in entry["file"]
]
PAGES = ["book/index.html", *CHAPTERS, *SHOWN]


def test_the_site_loads_nothing_from_elsewhere(site):
    assert from_elsewhere(site) == []


def test_pages_are_light(site):
    # Scripts and styles are shared by all pages.
    sizes = {page: (site / page).stat().st_size for page in PAGES}
    assert max(sizes.values()) <= HEAVIEST, max(sizes, key=sizes.get)
    texts = {page: (site / page).read_text() for page in (*PAGES, "search.html")}
    drawing = {page for page, text in texts.items() if "_static/vega.js" in text}
    assert drawing == {page for page, text in texts.items() if '<figure class="chart ' in text}
    assert drawing < set(texts)
    assert [page for page, text in texts.items() if "searchindex.js" in text] == ["search.html"]
    icons = {page for page, text in texts.items() if "fontawesome" in text or "fa-solid" in text}
    assert not icons, "which are drawings in the page"


def figures(page: str) -> int:
    """How many charts the executed notebook behind a page shows; glued ones are for others."""
    executed = json.loads((paths.ROOT / page).with_suffix(".ipynb").read_text())
    return sum(
        "<figure class=" in "".join(output.get("data", {}).get("text/html", ""))
        for cell in executed["cells"]
        for output in cell.get("outputs", ())
        if "scrapbook" not in output.get("metadata", {})
    )


def read(tab, *themes: str) -> dict:
    """A page unfolded, its charts drawn, and its text read in each of the themes."""
    return tab.evaluate(READ, {"least": LEAST, "marks": MARKS, "themes": themes})


def poor(text: dict, charts: int) -> list[str]:
    """What is wrong with the text of a page: too few words seen, or too pale ones."""
    seen = text["seen"]
    problems = [] if seen["page"] > 20 else [f"only {seen['page']} texts seen"]
    if bool(seen["chart"]) != bool(charts):
        problems.append(f"{charts} charts with {seen['chart']} texts")
    return problems + text["poor"]


def width(tab) -> int:
    """Of a page, once its charts have followed the window."""
    wait = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
    return tab.evaluate(f"{wait}.then(() => document.documentElement.scrollWidth)")


@pytest.mark.parametrize("page", PAGES)
def test_a_page_in_light_in_dark_and_on_a_phone(site, visit, page):
    """One visit: marks, contrast in both themes, no sideways scroll, and nothing was said."""
    tab, said = visit(site / page)
    found = read(tab, "light", "dark")
    charts = found["charts"]
    expected = figures(page) if page in SHOWN else charts
    wrong = {
        "theme": [] if found["first"] == "light" else [found["first"]],
        "charts": [] if charts == expected else [charts, expected],
    }
    for theme, text in zip(("light", "dark"), found["read"], strict=True):
        wrong[f"text in {theme}"] = poor(text, charts)
    tab.set_viewport_size(PHONE)
    wide = width(tab)
    wrong["width on a phone"] = [] if wide <= PHONE["width"] else [wide]
    wrong["said"] = said
    assert not {what: found for what, found in wrong.items() if found}


CHARTED = next(page for page in SHOWN if page.endswith("validity.html"))


@pytest.mark.parametrize("page", ["book/index.html", CHARTED, "search.html"])
def test_a_page_opened_in_dark_can_be_read(site, visit, page):
    tab, said = visit(site / page, color_scheme="dark")
    found = read(tab, "dark")
    assert found["first"] == "dark"
    assert poor(found["read"][0], found["charts"]) == [] and not said


@pytest.mark.parametrize("page", ["book/index.html", CHARTED])
def test_a_page_opened_on_a_phone_needs_no_sideways_scroll(site, visit, page):
    tab, said = visit(site / page, viewport=PHONE)
    read(tab)
    assert width(tab) <= PHONE["width"] and not said


def test_poor_text_is_found(visit, tmp_path):
    (tmp_path / "poor.html").write_text(
        "<!doctype html><body style='background:#fff'><p style='color:#777'>grey</p>"
        "<p style='color:#767676'>darker</p><p style='color:#000;opacity:.4'>pale</p>"
        "<svg width='200' height='40'><rect width='200' height='40' fill='#1769aa'/>"
        "<text x='5' y='15' fill='#000'>black on blue</text>"
        "<text x='5' y='35' fill='#fff' stroke='#eee' style='paint-order:stroke'>halo</text></svg>"
    )
    tab, _ = visit(tmp_path / "poor.html")
    found = tab.evaluate(CONTRAST, LEAST)
    assert [line.split(" (")[0] for line in found["poor"]] == [
        *("grey", "pale", "black on blue", "halo")
    ]
    assert found["seen"] == {"page": 3, "chart": 2}


def test_the_search_finds_a_heads_name(site, visit):
    page = next(p for p in plan.read().pages if p.notebook == "validity" and p.runs[0].committed)
    table = pd.read_parquet(paths.ROOT / page.folder / "validity.parquet")
    head = table["head"].iloc[0]
    tab, said = visit(site / "search.html", f"?q={quote(head)}")
    # Results come one after another.
    link = tab.locator(f'#search-results a[href^="{page.output.replace(".ipynb", ".html")}"]').first
    link.wait_for(timeout=30_000)
    link.click()
    tab.wait_for_url(f"**/{page.output.replace('.ipynb', '.html')}*")
    assert head in tab.locator("article").inner_text()
    assert not said


def test_the_search_field_of_a_page_leads_there(site, visit):
    tab, said = visit(site / "book" / "index.html")
    tab.keyboard.press("Control+K")
    tab.keyboard.type("verdict")
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/search.html?q=verdict*")
    tab.locator("#search-results a").first.wait_for(timeout=30_000)
    assert not said


def test_the_root_leads_to_the_book(site, visit):
    tab, _ = visit(site / "index.html")
    tab.wait_for_url("**/book/index.html")
    assert "Do reward heads measure what they say?" in tab.content()
