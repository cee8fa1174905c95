"""Importing is light and touches no network."""

from __future__ import annotations

import ast
import graphlib
import os
import re
import subprocess
import sys

import pytest
import yaml

from lib import declared, paths
from lib.calibration import kept


def run(code: str, **environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=os.environ | environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_importing_the_arithmetic_loads_no_torch():
    modules = [
        "lib",
        "lib.data",
        "lib.stats",
        "lib.extraction",
        "lib.planted",
        "lib.parameters",
        "lib.report",
        "lib.models.identity",
    ]
    code = """
import sys
for module in MODULES:
    __import__(module)
    print(module, *[m for m in ("torch", "transformers", "datasets") if m in sys.modules])
"""
    assert run(code.replace("MODULES", repr(modules))) == modules


def test_a_step_of_a_build_loads_no_tables():
    code = "import sys, lib.book.steps; print(*{'numpy', 'pandas', 'scipy'} & set(sys.modules))"
    assert run(code) == [""]


def test_a_build_that_is_done_loads_no_tables():
    code = """
import sys, lib.book.build
from lib.book import applies, plan, steps, toc
steps.stale()
toc.render()
print(applies.missing("gating", applies.Shape(1, 1, False)))
print(*{"numpy", "pandas", "scipy"} & set(sys.modules))
"""
    assert run(code) == ["a gate", ""]


def test_what_renders_a_site_brings_no_statistics():
    """Sphinx imports the extensions of ``_config.yml`` anew in each build."""
    config = yaml.safe_load((paths.ROOT / "_config.yml").read_text(encoding="utf-8"))
    own = [name for name in config["sphinx"]["extra_extensions"] if name.startswith("lib.")]
    assert own
    code = (
        f"import sys, {', '.join(own)}; print(*{{'numpy', 'pandas', 'scipy'}} & set(sys.modules))"
    )
    assert run(code) == [""]


def test_a_run_is_compared_with_the_model_at_hand_without_torch_once_that_is_known(tmp_path):
    code = """
import sys
from lib.models import identity
from pathlib import Path
note = identity.place("smol-armo")
known = dict.fromkeys(identity.PARTS, "x")
identity.remember(note, known)
print(identity.at_hand("smol-armo") == known, "torch" in sys.modules)
"""
    assert run(code, REWARD_AUDIT_CACHE=str(tmp_path)) == ["True False"]


def test_every_module_imports_without_a_connection():
    # Attempts are kept and not only refused: a library may swallow the refusal.
    code = """
import importlib, pkgutil, socket
attempts = []

def refuse(*args, **kwargs):
    attempts.append(args)
    raise OSError("no network")

socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
import lib
names = [m.name for m in pkgutil.walk_packages(lib.__path__, "lib.")]
for name in names:
    importlib.import_module(name)
print(attempts)
print(all(name in names for name in ("lib.models.backbone", "lib.extraction.forward")))
print(callable(lib.load_items), callable(lib.load_model), callable(lib.extract))
"""
    assert run(code) == ["[]", "True", "True True True"]


def test_three_functions_are_at_the_front():
    import lib

    assert lib.__all__ == ["extract", "load_items", "load_model"]
    assert set(lib.__all__) <= set(dir(lib))


def test_a_name_that_the_package_lacks_is_an_attribute_error():
    import lib

    with pytest.raises(AttributeError, match="no attribute 'loaditems'"):
        lib.loaditems  # noqa: B018


@pytest.mark.slow
def test_the_first_example_runs_as_it_stands(tmp_path, monkeypatch):
    import doctest

    import lib
    from lib.models import backbone

    (tmp_path / "backbones").symlink_to(backbone.dequantised().parent)
    monkeypatch.setenv("REWARD_AUDIT_CACHE", str(tmp_path))  # nothing extracted is at hand
    assert doctest.testmod(lib, raise_on_error=True).attempted == 5


# Lowest first; a module imports from its own layer and from those before it.
LAYERS = [
    "visible",
    "errors",
    "refused",
    "terminal",
    "manipulated",
    "paths",
    "atomic",
    "tables",
    "documents",
    "hub",
    "parameters",
    "records",
    "downloads",
    "markup",
    "declared",
    "data",
    "run",
    "effects",
    "models",
    "extraction",
    "mechanisms",
    "stats",
    "training",
    "check",
    "charts",
    "words",
    "planted",
    "analyses",
    "summary",
    "calibration",
    "audits",
    "callback",
    "report",
    "book",
    "__main__",
]
FRONT = "lib"  # imports nothing when it is imported
WORLDS = ("planted", "worlds", "calibration", "evidence")  # what may import planted worlds


def modules() -> dict[str, set[str]]:
    """Every module of the package, with the modules of it that it imports, lazily or not."""
    names = {}
    for path in (paths.ROOT / "lib").rglob("*.py"):
        parts = path.relative_to(paths.ROOT).with_suffix("").parts
        names[".".join(parts).removesuffix(".__init__")] = path
    found = {}
    for name, path in names.items():
        imported = kept.imported(ast.parse(path.read_text(encoding="utf-8")))
        found[name] = names.keys() & set(imported) - {name, FRONT}
    return found


@pytest.fixture(scope="module")
def graph():
    return modules()


def test_every_module_has_a_layer(graph):
    assert {name.split(".")[1] for name in graph if name != FRONT} == set(LAYERS)


def test_no_module_imports_from_a_layer_above_its_own(graph):
    layer = {name: LAYERS.index(name.split(".")[1]) for name in graph if name != FRONT}
    assert [
        (name, other) for name in layer for other in graph[name] if layer[other] > layer[name]
    ] == []


def test_no_module_imports_itself_by_way_of_others(graph):
    sorter = graphlib.TopologicalSorter(graph)
    sorter.prepare()  # raises CycleError with the circle


def test_analyses_do_not_import_one_another(graph):
    rooms = {name: name.split(".")[2] for name in graph if name.startswith("lib.analyses.")}
    assert len(set(rooms.values())) >= 10
    assert [
        (name, other)
        for name in rooms
        for other in graph[name]
        if rooms.get(other, rooms[name]) != rooms[name]
    ] == []


def test_only_calibration_imports_planted_worlds(graph):
    worlds = [name for name in graph if name.endswith(".worlds")]
    assert len(worlds) >= 5
    users = [name for name in graph if graph[name] & set(worlds)]
    assert [name for name in users if not set(name.split(".")) & set(WORLDS)] == []


def test_what_judges_planted_worlds_reads_no_words(graph):
    """Else what was calibrated would be drawn anew for a sentence that changed."""
    judges = [name for name in graph if name.endswith(".calibration")]
    assert len(judges) >= 15
    for name in judges:
        seen, waiting = set(), [name]
        while waiting:
            new = graph[waiting.pop()] - seen
            seen |= new
            waiting += new
        told = {"words", "charts", "markup", "report"}
        assert [other for other in seen if told & set(other.split("."))] == [], name


def test_every_analysis_declares_itself_as_it_is():
    known = declared.every()
    places = [each.place for each in known.values()]
    assert places == sorted(set(places))
    headings = re.findall(r"^## (.+)$", (paths.BOOK / "methods.md").read_text(), re.MULTILINE)
    for name, each in known.items():
        folder = paths.ROOT / each.package.replace(".", "/")
        assert (paths.NOTEBOOKS / f"{name}.ipynb").is_file()
        assert (folder / "calibration.py").is_file() == each.calibrated
        assert not each.method or each.method in headings
