"""Every page of the built site in headless Chromium, with the network cut off."""

import shutil

import pytest

from lib import paths
from lib.book import plan

pytestmark = pytest.mark.slow
FLAGS = ["--no-sandbox", "--disable-background-networking", "--disable-component-update"]


@pytest.fixture(scope="module")
def browser(site):
    from playwright.sync_api import sync_playwright

    found = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    if found is None:
        pytest.skip("no Chromium on this machine: make browser installs it on Debian")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=found, args=FLAGS)
        yield opened
        opened.close()


def visit(browser, page, **options):
    """The page opened offline, with what its console and network said."""
    context = browser.new_context(offline=True, **options)
    tab = context.new_page()
    said = []
    tab.on(
        "console", lambda message: said.append(message.text) if message.type == "error" else None
    )
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.on(
        "request",
        lambda r: said.append(r.url) if not r.url.startswith(("file:", "data:", "blob:")) else None,
    )
    tab.goto((paths.SITE / page).as_uri())
    tab.wait_for_load_state("load")
    return tab, said


PAGES = ["book/index.html", *(p.output.removesuffix(".ipynb") + ".html" for p in plan.read().pages)]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_opens_without_errors_or_requests(browser, page):
    tab, said = visit(browser, page)
    tab.wait_for_timeout(500)
    assert not said
    tab.context.close()


@pytest.mark.parametrize("page", [p for p in PAGES if p != "book/index.html"])
def test_its_charts_have_marks(browser, page):
    tab, _ = visit(browser, page)
    charts = tab.locator("figure.chart")
    assert charts.count() > 0
    for index in range(charts.count()):
        marks = charts.nth(index).locator(
            "svg .mark-symbol path, svg .mark-rect path, svg .mark-line path, svg .mark-area path"
        )
        marks.first.wait_for(state="attached", timeout=10_000)
    tab.context.close()


@pytest.mark.parametrize("page", PAGES)
def test_a_phone_needs_no_sideways_scroll(browser, page):
    tab, _ = visit(browser, page, viewport={"width": 390, "height": 844})
    tab.wait_for_timeout(500)
    width = tab.evaluate("document.documentElement.scrollWidth")
    assert width <= 390
    tab.context.close()


def test_the_root_leads_to_the_book(browser):
    tab, _ = visit(browser, "index.html")
    tab.wait_for_url("**/book/index.html")
    assert "Do reward heads measure what they say?" in tab.content()
    tab.context.close()
