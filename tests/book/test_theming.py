"""What the theme gets wrong is mended: edit links lead to sources, titles are text."""

from lib.book.theming import _mend_page, source


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
