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
SCREEN = {"width": 1280, "height": 900}
CONTRAST = (Path(__file__).parent / "contrast.js").read_text()
MARKS = "svg .mark-symbol path, svg .mark-rect path, svg .mark-line path, svg .mark-area path"
MARKS += ", svg .mark-text.role-mark text"  # of a figure that says why there is none
MARKED = f"[...document.querySelectorAll('figure.chart')].every(c => c.querySelector('{MARKS}'))"
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


def figures(page: str) -> int:
    """How many charts the executed notebook behind a page shows; glued ones are for others."""
    cells = nbformat.read((paths.ROOT / page).with_suffix(".ipynb"), as_version=4).cells
    return sum(
        "<figure class=" in output.get("data", {}).get("text/html", "")
        for cell in cells
        for output in cell.get("outputs", ())
        if "scrapbook" not in output.get("metadata", {})
    )


DRAWN = "[...document.querySelectorAll('figure.chart [data-state]')].every(c => c.dataset.state === 'drawn')"
# The look of each chart is that of the page, and no drawing is under way.
SETTLED = f"({DRAWN}) && !document.querySelector('.chart-stage')"


# A page's contents unfold, and mark where a reader is, as one scrolls.
OPEN = """
document.querySelectorAll("details").forEach(d => d.open = true);
document.querySelectorAll(".page-toc .nav").forEach(n => n.classList.add("pst-show_toc_level"));
document.querySelector(".page-toc .nav-link")?.classList.add("active");
"""


def unfolded(tab):
    """The page with all its parts open, its contents too, and all its charts drawn."""
    tab.evaluate(OPEN)
    tab.wait_for_function(MARKED)
    return tab


def poor(tab) -> list[str]:
    """What is wrong with the text of an unfolded page: too few words seen, or too pale ones."""
    tab.wait_for_function(SETTLED)
    found = tab.evaluate(CONTRAST, LEAST)
    charts = tab.locator("figure.chart").count()
    seen = found["seen"]
    problems = [] if seen["page"] > 20 else [f"only {seen['page']} texts seen"]
    if bool(seen["chart"]) != bool(charts):
        problems.append(f"{charts} charts with {seen['chart']} texts")
    return problems + found["poor"]


def switched(tab, theme: str) -> None:
    """Press the theme's own button until the page has that theme, then wait for its charts."""
    for _ in range(3):
        if tab.evaluate("document.documentElement.dataset.theme") == theme:
            break
        tab.evaluate("document.querySelector('.theme-switch-button').click()")
    tab.wait_for_function(f"document.documentElement.dataset.theme === '{theme}'")
    tab.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    tab.wait_for_function(SETTLED)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_in_light_in_dark_and_on_a_phone(site, turn_to, page):
    """One visit: marks, contrast in both themes, no sideways scroll, and nothing was said."""
    tab, said = turn_to(site / page)
    assert tab.evaluate("document.documentElement.dataset.theme") == "light"
    expected = figures(page) if page in SHOWN else tab.locator("figure.chart").count()
    wrong = {"charts": [] if tab.locator("figure.chart").count() == expected else [expected]}
    unfolded(tab)
    for theme in ("light", "dark"):
        switched(tab, theme)
        wrong[f"text in {theme}"] = poor(tab)
    tab.set_viewport_size(PHONE)
    tab.wait_for_function(SETTLED)
    width = tab.evaluate("document.documentElement.scrollWidth")
    wrong["width on a phone"] = [] if width <= PHONE["width"] else [width]
    wrong["said"] = said
    assert not {what: found for what, found in wrong.items() if found}


CHARTED = next(page for page in SHOWN if page.endswith("validity.html"))


@pytest.mark.parametrize("page", ["book/index.html", CHARTED, "search.html"])
def test_a_page_opened_in_dark_can_be_read(site, visit, page):
    tab, said = visit(site / page, color_scheme="dark", viewport=SCREEN)
    assert tab.evaluate("document.documentElement.dataset.theme") == "dark"
    assert poor(unfolded(tab)) == [] and not said


@pytest.mark.parametrize("page", ["book/index.html", CHARTED])
def test_a_page_opened_on_a_phone_needs_no_sideways_scroll(site, visit, page):
    tab, said = visit(site / page, viewport=PHONE)
    unfolded(tab)
    assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE["width"] and not said


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
