"""The whole book, built from this checkout and opened in a browser without network."""

import re
from html import unescape

import nbformat
import pytest
from outside import leading_nowhere

from lib import paths
from lib.book import plan

pytestmark = pytest.mark.slow

BOX = r'<aside class="takeaways.*?</aside>|<div class="takeaways admonition".*?</ul>'


def test_every_page_of_the_plan_is_in_the_site_with_outputs(site):
    pages = plan.read().pages
    assert pages
    for page in pages:
        assert (site / page.output).with_suffix(".html").is_file()
        executed = nbformat.read(paths.ROOT / page.output, as_version=4)
        code = [cell for cell in executed.cells if cell.cell_type == "code"]
        assert all(cell.execution_count for cell in code if cell.source.strip())
        assert any(cell.outputs for cell in code)


def test_every_page_of_the_site_is_in_its_table_of_contents(site):
    navigation = (site / "book" / "index.html").read_text()
    found = list((site / "book" / "results").rglob("*.html"))
    assert len(found) >= len(plan.read().pages)
    for html in found:
        assert html.relative_to(site / "book").as_posix() in navigation


def test_links_lead_somewhere_before_any_script_runs(site):
    assert leading_nowhere(site) == []


def test_a_page_is_named_by_its_model_and_data(site):
    for page in plan.read().pages:
        text = (site / page.output).with_suffix(".html").read_text()
        assert page.about in unescape(re.search("<title>([^<]*)", text)[1])


def test_pages_of_a_model_are_folded_in_the_sidebar_until_one_is_read(site):
    text = (site / "book" / "index.html").read_text()
    navigation = re.search(r'<nav class="bd-links.*?</nav>', text, re.DOTALL)[0]
    assert "<details" in navigation and "<details open" not in navigation
    open_links = re.sub(r"<details.*</details>", "", navigation, flags=re.DOTALL).count("<a ")
    assert open_links < 30


def test_no_glued_value_was_lost(site):
    index = (site / "book" / "index.html").read_text()
    assert "glue" not in re.sub(r'class="[^"]*"', "", index)


def test_no_page_shows_more_than_five_takeaways_open(site):
    boxes = {html: re.findall(BOX, html.read_text(), re.S) for html in site.rglob("*.html")}
    assert sum(map(bool, boxes.values())) > len(plan.read().pages) / 2
    for html, found in boxes.items():
        assert sum(box.partition("<details")[0].count("<li>") for box in found) <= 5, html


def test_pages_weigh_little_and_load_nothing_from_elsewhere(site):
    found = list(site.rglob("*.html"))
    assert len(found) > len(plan.read().pages)
    for html in found:
        text = html.read_text()
        assert len(text) < 600_000, html
        loads = re.findall(r'<(?:script|img|iframe)[^>]*\bsrc="(https?:[^"]+)"', text)
        loads += re.findall(
            r'<link[^>]*rel="(?:stylesheet|preload)"[^>]*href="(https?:[^"]+)"', text
        )
        assert not loads, (html, loads)


def test_building_again_runs_no_page(site, built):
    before = {
        page.output: (paths.ROOT / page.output).stat().st_mtime_ns for page in plan.read().pages
    }
    assert built().returncode == 0
    after = {name: (paths.ROOT / name).stat().st_mtime_ns for name in before}
    assert after == before
