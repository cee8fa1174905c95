"""What a run is made from holds all that extraction imports."""

import ast

import pytest

from lib import paths
from lib.book import steps


def imported(folder: str) -> set[str]:
    """Modules at the top of the library that a package imports, as file names."""
    found = set()
    for path in (paths.LIB / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "lib":
                found |= {f"{alias.name}.py" for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lib."):
                found.add(f"{node.module.split('.')[1]}.py")
    return {name for name in found if (paths.LIB / name).is_file()}


def test_extraction_is_stale_when_a_module_that_it_imports_changes():
    needed = set().union(*(imported(folder) for folder in steps.ROOMS))
    assert needed <= set(steps.MODULES)
    for step in steps.steps().values():
        if step.kind == "extract":
            assert {f"lib/{name}" for name in needed} <= set(step.given)


def test_another_version_of_a_package_makes_every_run_and_page_stale(monkeypatch):
    def said() -> dict:
        graph = steps.steps()
        return {name: step.words() for name, step in graph.items() if step.kind != "site"}

    before = said()
    monkeypatch.setattr(steps, "version", lambda name: "0.0.0")
    after = said()
    assert before and all(after[name] != words for name, words in before.items())


@pytest.mark.parametrize("changed", ["lib/charts/theme.py", "lib/data/items.py"])
def test_another_file_of_the_library_is_another_digest_of_all_that_read_it(monkeypatch, changed):
    graph, of = steps.steps(), steps.Digests.of
    done = {name: {} for name in graph}

    def digests() -> dict:
        files = steps.Digests()
        return {name: steps._digest(step, files, done) for name, step in graph.items()}

    before = digests()
    monkeypatch.setattr(
        steps.Digests, "of", lambda self, path: "x" if path == changed else of(self, path)
    )
    after = digests()
    readers = {name for name, step in graph.items() if changed in step.given}
    assert readers and readers == {name for name in graph if after[name] != before[name]}
