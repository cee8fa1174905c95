"""When all tests are run, the longest begin first and those with a browser end."""

from pathlib import Path
from types import SimpleNamespace

import pytest

TESTS = Path(__file__).parent


@pytest.fixture
def own(request):
    """The module of this folder's ``conftest.py``."""
    return request.config.pluginmanager.get_plugin(str(TESTS / "conftest.py"))


def item(file, *fixtures):
    return SimpleNamespace(path=TESTS / file, fixturenames=fixtures)


def test_files_that_have_a_place_are_there(own):
    assert [name for name in own.FIRST + own.SINGLY if not (TESTS / name).is_file()] == []


def test_the_longest_come_first_and_files_with_a_browser_last(own):
    given = [
        item("charts/test_charts.py"),
        item("charts/test_charts.py", "open_page", "chromium"),
        item("book/test_browser.py", "chromium"),
        item("notebooks/test_odd_models.py"),
        item("test_run.py"),
        item("book/test_steady.py"),
        item("book/test_site.py"),
    ]
    own.pytest_collection_modifyitems(items := list(given))
    assert [given.index(each) for each in items] == [6, 5, 4, 3, 0, 1, 2]


def test_workers_take_files_but_for_those_that_are_taken_one_by_one(own):
    units = object.__new__(own._Units)
    assert units._split_scope("tests/test_run.py::test_a[x::y]") == "tests/test_run.py"
    (page,) = (name for name in own.SINGLY if "browser" in name)
    one = f"tests/{page}::test_a[b/c.html]"
    assert units._split_scope(one) == one
