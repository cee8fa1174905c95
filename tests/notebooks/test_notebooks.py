"""Notebooks hold prose and calls: one tagged cell of typed literals, no outputs, no logic."""

import ast
import importlib.util
import re

import nbformat
import pytest

from lib import declared as analyses
from lib import paths
from lib.book import pages, plan

NAMES = plan.notebooks()


@pytest.mark.parametrize("name", NAMES)
def test_it_declares_its_parameters_with_meanings(name):
    declared = pages.declared(name)
    assert "tables" in declared
    # A page reads a run, runs, the tables of other pages or measurements; calibration makes its
    # own worlds.
    reads = [{"model", "dataset", "run"}, {"model", "runs"}, {"results"}, {"measurements"}]
    reads += [{"draws"}, {"model", "check"}, {"model", "dataset", "effects"}, {"study"}]
    assert any(names <= set(declared) for names in reads)
    assert all(parameter.meaning for parameter in declared.values())


@pytest.mark.parametrize("name", NAMES)
def test_it_is_committed_without_outputs_and_is_short(name):
    book = nbformat.read(paths.NOTEBOOKS / f"{name}.ipynb", as_version=4)
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    sections = sum(each.calibrated for each in analyses.every().values())
    assert len(code) <= (5 + sections if name == "calibration" else 13)
    assert all(not cell.outputs and cell.execution_count is None for cell in code)


@pytest.mark.parametrize("name", NAMES)
def test_it_holds_no_logic(name):
    book = nbformat.read(paths.NOTEBOOKS / f"{name}.ipynb", as_version=4)
    source = "\n".join(cell.source for cell in book.cells if cell.cell_type == "code")
    forbidden = (
        ast.For,
        ast.While,
        ast.FunctionDef,
        ast.ClassDef,
        ast.Lambda,
        ast.If,
        ast.comprehension,
    )
    found = [node for node in ast.walk(ast.parse(source)) if isinstance(node, forbidden)]
    assert not found


@pytest.mark.parametrize("name", NAMES)
def test_what_it_calls_is_there(name):
    book = nbformat.read(paths.NOTEBOOKS / f"{name}.ipynb", as_version=4)
    tree = ast.parse("\n".join(cell.source for cell in book.cells if cell.cell_type == "code"))
    modules = {}
    for node in (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)):
        for alias in node.names:
            whole = f"{node.module}.{alias.name}"
            is_module = importlib.util.find_spec(node.module).submodule_search_locations
            if is_module and importlib.util.find_spec(whole):
                modules[alias.asname or alias.name] = importlib.import_module(whole)
            else:
                assert hasattr(importlib.import_module(node.module), alias.name), whole
    called = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") in modules
    ]
    assert called
    for node in called:
        assert hasattr(modules[node.value.id], node.attr), f"{node.value.id}.{node.attr}"


@pytest.mark.parametrize("name", NAMES)
def test_it_has_one_box_of_takeaways_at_most(name):
    book = nbformat.read(paths.NOTEBOOKS / f"{name}.ipynb", as_version=4)
    source = "\n".join(cell.source for cell in book.cells if cell.cell_type == "code")
    assert source.count("report.takeaways(") <= 1


def test_the_calibration_page_shows_every_analysis_that_declares_itself_calibrated():
    text = (paths.NOTEBOOKS / "calibration.ipynb").read_text(encoding="utf-8")
    shown = re.findall(r'of\(table, \\"(\w+)\\"\)', text)
    assert sorted(shown) == sorted(
        name for name, each in analyses.every().items() if each.calibrated
    )


@pytest.mark.parametrize("name", NAMES)
def test_its_prose_says_what_it_cannot_say(name):
    book = nbformat.read(paths.NOTEBOOKS / f"{name}.ipynb", as_version=4)
    assert any("can't say" in cell.source for cell in book.cells if cell.cell_type == "markdown")
