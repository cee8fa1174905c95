"""Importing is light and touches no network."""

from __future__ import annotations

import subprocess
import sys

import pytest


def run(code: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_importing_the_arithmetic_loads_no_torch():
    code = """
import sys
for module in ("lib", "lib.data", "lib.stats", "lib.extraction", "lib.planted", "lib.parameters"):
    __import__(module)
    print(module, *[m for m in ("torch", "transformers", "datasets") if m in sys.modules])
"""
    modules = [
        "lib",
        "lib.data",
        "lib.stats",
        "lib.extraction",
        "lib.planted",
        "lib.parameters",
    ]
    assert run(code) == modules


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

    monkeypatch.setenv("REWARD_AUDIT_CACHE", str(tmp_path))  # nothing extracted is at hand
    assert doctest.testmod(lib, raise_on_error=True).attempted == 5
