"""What the theme gets wrong is mended: edit links lead to sources, titles are text."""

import re

import pandas as pd

from lib import downloads, markup
from lib.book.theming import _mend_page, named, placed, source, told_apart


def test_an_executed_page_is_edited_in_its_notebook():
    executed = "https://example.org/o/r/edit/main/book/results/m/hh-rlhf/part/validity.ipynb"
    assert source(executed) == "https://example.org/o/r/edit/main/notebooks/validity.ipynb"


def test_a_page_of_the_model_as_a_whole_too():
    assert source("r/edit/main/book/results/model.ipynb") == "r/edit/main/notebooks/model.ipynb"


def test_a_written_page_is_edited_where_it_lies():
    assert source("r/edit/main/book/index.md") == "r/edit/main/book/index.md"


def test_titles_are_escaped_and_only_edit_buttons_change():
    edit = {"label": "source-edit-button", "url": "r/book/results/m/data.ipynb"}
    download = {"label": "download-source-button", "url": "_sources/book/results/m/data.ipynb"}
    context = {"pagetitle": "<b>", "header_buttons": [{"buttons": [edit]}, download]}
    _mend_page(None, "", "", context, None)
    assert context["pagetitle"] == "&lt;b&gt;"
    assert edit["url"] == "r/notebooks/data.ipynb"
    assert download["url"] == "_sources/book/results/m/data.ipynb"


def test_a_link_from_the_root_leads_there_from_any_page():
    made = '<a href="x.html" data-page="book/results/m/x.html">a</a><a href="x.html">b</a>'
    given = '<a href="{}" data-page="book/results/m/x.html">a</a><a href="x.html">b</a>'
    assert placed(made, "book/index") == given.format("results/m/x.html")
    assert placed(made, "book/results/n/o/p") == given.format("../../m/x.html")
    assert placed(made, "genindex") == given.format("book/results/m/x.html")


def test_files_of_data_are_named_by_page_and_number():
    frame = pd.DataFrame({"a": [1]})
    body = downloads.links(frame, "rates") + 2 * markup.table(frame).markup
    made = told_apart(body, "book/results/m/x/validity")
    assert re.findall(r'download="m-x-validity-([^"]*)"', made) == [
        *("rates.csv", "rates.parquet", "table-1.csv", "table-1.parquet"),
        *("table-2.csv", "table-2.parquet"),
    ]


def test_a_button_of_the_sidebar_says_what_it_unfolds():
    made = '<a href="x">a "b" &lt;c</a><details><summary><span></span></summary></details>'
    label = ' aria-label="a &quot;b&quot; &lt;c: its pages"'
    assert named(made) == made.replace("<summary>", f"<summary{label}>")
