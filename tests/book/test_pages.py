"""A page is whole or the last good one stays, and a failure says where it is."""

import nbformat
import pytest

from lib import paths
from lib.book import pages
from lib.errors import PageError, ParameterError

PARAMETERS = "limit: int = 0  # at most this many"


@pytest.fixture
def notebook(tmp_path, monkeypatch):
    """Writes a notebook of the given code cells and returns where its page goes."""
    monkeypatch.setattr(paths, "NOTEBOOKS", tmp_path / "notebooks")
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    (tmp_path / "notebooks").mkdir()

    def write(*cells, tags=("parameters",)):
        book = nbformat.v4.new_notebook()
        book.metadata["kernelspec"] = {
            "name": "python3",
            "display_name": "Python 3",
            "language": "python",
        }
        book.cells.append(nbformat.v4.new_markdown_cell("# Title\n\nProse."))
        for index, source in enumerate(cells):
            cell = nbformat.v4.new_code_cell(source)
            cell.metadata["tags"] = list(tags) if index == 0 else []
            book.cells.append(cell)
        nbformat.write(book, tmp_path / "notebooks" / "page.ipynb")
        return tmp_path / "out" / "page.ipynb"

    return write


def test_a_page_runs_with_its_parameters_and_title(notebook):
    out = notebook(PARAMETERS, "print(limit * 2)")
    pages.run_page("page", out, {"limit": 21}, title="a_b [x]")
    page = nbformat.read(out, as_version=4)
    assert page.cells[-1].outputs[0]["text"] == "42\n"
    assert page.cells[0].source.splitlines()[0] == r"# Title: a\_b \[x\]"
    assert list(out.parent.iterdir()) == [out]


def test_a_failing_cell_names_notebook_cell_and_error_and_keeps_the_last_page(notebook):
    out = notebook(PARAMETERS, "print(1)")
    pages.run_page("page", out, {})
    good = out.read_bytes()
    notebook(PARAMETERS, "print(2)", "raise ValueError('why')")
    with pytest.raises(PageError) as error:
        pages.run_page("page", out, {})
    for part in ("cell 3", "page.ipynb", "ValueError: why"):
        assert part in str(error.value)
    assert out.read_bytes() == good
    assert list(out.parent.iterdir()) == [out]


def test_leaving_early_is_a_failure(notebook):
    out = notebook(PARAMETERS, "import sys; sys.exit(0)", "print('never')")
    with pytest.raises(PageError):
        pages.run_page("page", out, {})
    assert not out.exists()


@pytest.mark.parametrize("given", [{"limt": 3}, {"limit": "seven"}])
def test_parameters_are_checked_before_anything_runs(notebook, given):
    out = notebook(PARAMETERS, "open('ran', 'w')")
    with pytest.raises(ParameterError):
        pages.run_page("page", out, given)
    assert not out.parent.exists()


def test_cells_are_those_that_the_package_for_notebooks_reads(tmp_path):
    old = nbformat.v3.new_notebook(worksheets=[nbformat.v3.new_worksheet()])
    old.worksheets[0].cells.append(nbformat.v3.new_code_cell("x = 1"))
    (tmp_path / "old.ipynb").write_text(nbformat.writes(old, version=3))
    known = [*paths.NOTEBOOKS.glob("*.ipynb"), tmp_path / "old.ipynb"]
    assert len(known) > 10
    for path in known:
        told = [
            pages.Cell(cell.cell_type, cell.source, cell.metadata.get("tags", ()))
            for cell in nbformat.read(path, 4).cells
        ]
        assert pages.cells(path) == told
    assert told == [pages.Cell("code", "x = 1")]


def test_exactly_one_cell_is_tagged(notebook):
    notebook(PARAMETERS, tags=())
    with pytest.raises(PageError, match="one cell tagged 'parameters'.*found 0"):
        pages.declared("page")


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"nbformat": 4}', "[" * 100_000, "\udcff"])
def test_what_is_no_notebook_is_an_error_that_says_so(notebook, tmp_path, text):
    notebook(PARAMETERS)
    path = tmp_path / "notebooks" / "page.ipynb"
    path.write_text(text, errors="surrogateescape")
    with pytest.raises(PageError, match="needed .*page.ipynb"):
        pages.declared("page")


@pytest.mark.parametrize("cell", ["x: int = (", "x: int = " + "9" * 5000, "x: int = " + "(" * 5000])
def test_parameters_that_are_no_python_are_an_error(notebook, cell):
    notebook(cell)
    with pytest.raises((PageError, ParameterError)):
        pages.declared("page")


def test_an_unknown_notebook_lists_the_known_ones(notebook):
    notebook(PARAMETERS)
    with pytest.raises(ParameterError, match="Did you mean 'page'"):
        pages.declared("pge")


@pytest.mark.parametrize(
    "place",
    [
        *("notebooks/page.ipynb", "out.md", "folder.ipynb", "file/x.ipynb", "/dev/null/x.ipynb"),
        *(f"{'x' * 300}.ipynb", f"{'x' * 240}.ipynb", f"{'x' * 300}/x.ipynb", "a\0b.ipynb"),
    ],
    ids=lambda place: place[:20].replace("\0", " "),
)
def test_a_page_never_goes_where_something_else_is(notebook, tmp_path, place):
    notebook(PARAMETERS)
    (tmp_path / "folder.ipynb").mkdir()
    (tmp_path / "file").write_text("mine")
    before = sorted(path for path in tmp_path.rglob("*"))
    source = (tmp_path / "notebooks" / "page.ipynb").read_bytes()
    with pytest.raises(PageError, match="Choose another"):
        pages.run_page("page", tmp_path / place, {})
    assert sorted(path for path in tmp_path.rglob("*")) == before
    assert (tmp_path / "notebooks" / "page.ipynb").read_bytes() == source


def test_a_folder_that_cannot_be_made_is_an_error_that_says_so(notebook, monkeypatch):
    out = notebook(PARAMETERS)

    def refuse(self, *args, **options):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(pages.Path, "mkdir", refuse)
    with pytest.raises(PageError, match="Permission denied.*Choose another"):
        pages.run_page("page", out, {})
