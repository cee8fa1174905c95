"""What a package's front lists of its modules is there, and every module is listed."""

from __future__ import annotations

import importlib
import pkgutil
import re

import pytest

import lib
from lib import paths

FRONTS = sorted(
    path.parent for path in (paths.ROOT / "lib").rglob("__init__.py") if path.parent.name != "lib"
)
LINE = re.compile(r"``(\w+)``\s{2,}(.*)")


def _listed(front: str) -> dict[str, str]:
    """What a front says of each module: a line, and lines below it that stand further in."""
    found, name = {}, ""
    for line in front.splitlines():
        first = LINE.fullmatch(line)
        if first:
            name = first[1]
            found[name] = first[2]
        elif name and line.startswith(" " * 8):
            found[name] += " " + line.strip()
        else:
            name = ""
    return found


@pytest.mark.parametrize("folder", FRONTS, ids=lambda path: path.relative_to(paths.ROOT).as_posix())
def test_what_a_front_lists_is_there(folder):
    package = importlib.import_module(".".join(folder.relative_to(paths.ROOT).parts))
    modules = {each.name for each in pkgutil.iter_modules(package.__path__)}
    listed = _listed(package.__doc__ or "")
    assert [name for name in listed if name not in modules and not hasattr(package, name)] == []
    for name in sorted(modules & set(listed)):
        module = importlib.import_module(f"{package.__name__}.{name}")
        called = set(re.findall(r"``(\w+)``", listed[name])) - modules
        assert [each for each in sorted(called) if not hasattr(module, each)] == [], name
    named = {*listed, *re.findall(r"``(\w+)``", " ".join(listed.values()))}
    if modules & set(listed):
        assert modules - named == set()


def test_what_the_package_lists_can_be_had_of_it():
    listed = set(_listed(lib.__doc__))
    assert listed <= {each.name for each in pkgutil.iter_modules(lib.__path__)}
    assert listed == set(lib._MODULES) <= set(dir(lib))
    assert lib.__getattr__("audits").__name__ == "lib.audits"
