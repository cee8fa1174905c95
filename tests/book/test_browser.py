"""Every page of the built site in headless Chromium, with the network cut off."""

from pathlib import Path
from urllib.parse import quote

import nbformat
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


def figures(page: str) -> int:
    """How many charts the executed notebook behind a page shows; glued ones are for others."""
    cells = nbformat.read((paths.ROOT / page).with_suffix(".ipynb"), as_version=4).cells
    return sum(
        "<figure class=" in output.get("data", {}).get("text/html", "")
        for cell in cells
        for output in cell.get("outputs", ())
        if "scrapbook" not in output.get("metadata", {})
    )


def unfolded(tab):
    """The page with all its parts open and all its charts drawn."""
    tab.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    for chart in tab.locator("figure.chart").all():
        chart.locator(MARKS).first.wait_for(state="attached", timeout=30_000)
    return tab


@pytest.mark.parametrize("page", PAGES)
def test_a_page_opens_without_errors_or_requests(site, visit, page):
    tab, said = visit(site / page)
    tab.wait_for_timeout(500)
    assert not said


@pytest.mark.parametrize("page", SHOWN)
def test_its_charts_have_marks(site, visit, page):
    tab, _ = visit(site / page)
    assert tab.locator("figure.chart").count() == figures(page)
    unfolded(tab)


@pytest.mark.parametrize("page", PAGES)
def test_a_phone_needs_no_sideways_scroll(site, visit, page):
    tab, _ = visit(site / page, viewport=PHONE)
    unfolded(tab)
    assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("page", [*PAGES, "search.html"])
def test_all_text_can_be_read(site, visit, page, scheme):
    width = 1280
    tab, _ = visit(site / page, color_scheme=scheme, viewport={"width": width, "height": 900})
    assert tab.evaluate("document.documentElement.dataset.theme") == scheme
    unfolded(tab)
    height = tab.evaluate("document.documentElement.scrollHeight")
    tab.set_viewport_size({"width": width, "height": height})
    tab.wait_for_timeout(300)
    found = tab.evaluate(CONTRAST, LEAST)
    assert found["seen"]["page"] > 20
    assert bool(found["seen"]["chart"]) == bool(tab.locator("figure.chart").count())
    assert found["poor"] == []


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
