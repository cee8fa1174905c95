"""Labels of a data set need not be people's, so no sentence about any of them says so."""

from __future__ import annotations

import ast
import json
import re

import pytest

from lib import paths

PEOPLE = re.compile(r"\b(people|persons?|humans?|annotators?)\b", re.IGNORECASE)
BY_PEOPLE = {
    "lib/summary/published/words.py": "hh-rlhf",  # its own choices, and planted worlds
    "lib/summary/published/charts.py": "hh-rlhf",
}
MODULES = sorted(
    path
    for package in ("analyses", "words", "charts", "stats", "summary")
    for path in (paths.ROOT / "lib" / package).rglob("*.py")
    if path.name != "calibration.py"  # of planted worlds
)


def sentences(source: str) -> list[str]:
    """Every text of a module but its docstrings."""
    tree = ast.parse(source)
    own = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in own
    ]


def test_sentences_are_found_and_docstrings_are_not():
    source = '"""people"""\ndef f(x):\n    """people"""\n    return f"as {x} people " "did"\n'
    assert [text for text in sentences(source) if PEOPLE.search(text)] == [" people did"]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_sentence_says_that_labels_are_peoples(path):
    said = [text for text in sentences(path.read_text(encoding="utf-8")) if PEOPLE.search(text)]
    allowed = BY_PEOPLE.get(path.relative_to(paths.ROOT).as_posix())
    assert bool(said) == bool(allowed), said  # an entry that isn't needed goes


@pytest.mark.parametrize("name", ["validity", "compare"])
def test_no_page_for_any_data_set_says_so_either(name):
    notebook = json.loads((paths.ROOT / f"notebooks/{name}.ipynb").read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        assert not PEOPLE.search(text.replace("whether people chose it", "")), text
