"""The site that the slow tests look at, small books of their own, and a browser without network."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from filelock import FileLock

from lib import paths
from lib.book import forks, pages
from lib.book import site as sites

# What a build runs, besides its pages, and what Sphinx imports for a book as this one.
COMMANDS = ("lib.book.build", "lib.book.rendering", "snakemake.cli", "jupyter_book.sphinx")
COMMANDS += ("sphinx.builders.epub3", "sphinx.builders.linkcheck", "sphinx.builders.texinfo")
COMMANDS += ("sphinx.builders.latex.transforms", "sphinx.domains.c", "sphinx.domains.cpp")
COMMANDS += ("sphinx.domains.python", "sphinx.domains.rst", "sphinx.ext.mathjax")
COMMANDS += ("myst_nb.sphinx_ext", "myst_nb.core.lexers", "latex2mathml.converter")
COMMANDS += ("sphinx_book_theme", "sphinx_design.extension", "sphinx_external_toc.events")
COMMANDS += ("sphinx_jupyterbook_latex.events", "sphinx_togglebutton")
COMMANDS += ("sphinxcontrib.bibtex.style.referencing.author_year",)
SCREEN = {"width": 1280, "height": 900}


@pytest.fixture(scope="session")
def built():
    """Builds this checkout's book; workers that run side by side take turns."""

    def build() -> subprocess.CompletedProcess:
        with FileLock(paths.lock("tests")):
            return subprocess.run(
                [sys.executable, "-m", "lib", "build"],
                cwd=paths.ROOT,
                capture_output=True,
                text=True,
            )

    return build


@pytest.fixture(scope="session")
def site(built) -> Path:
    done = built()
    assert done.returncode == 0, done.stdout + done.stderr
    assert (paths.SITE / "index.html").as_uri() in done.stdout
    return paths.SITE


@pytest.fixture(scope="session")
def visit(chromium):
    """Opens one file after another offline in the same tab, which has compiled what pages share.

    ``visit(path, query, color_scheme=…, viewport=…)`` gives the tab and what was said since it
    was opened: every console error, page error, dialog and failed request, which one that leaves
    the site is. What a page before it kept in the browser is forgotten.
    """
    context = chromium.new_context(offline=True)
    tab = context.new_page()
    said = heard(tab)

    def open_page(path: Path, query: str = "", color_scheme: str = "light", viewport=SCREEN):
        if tab.url.startswith("file:"):
            tab.evaluate("localStorage.clear(); sessionStorage.clear()")
        tab.goto("about:blank")
        tab.mouse.move(0, 0)
        tab.emulate_media(color_scheme=color_scheme)
        tab.set_viewport_size(viewport)
        said.clear()
        tab.goto(path.as_uri() + query)
        return tab, said

    yield open_page
    context.close()


def heard(tab) -> list[str]:
    """What a tab says from now on."""
    said: list[str] = []
    tab.on("console", lambda m: said.append(m.text) if m.type == "error" else None)
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.on("dialog", lambda d: (said.append(f"dialog {d.message}"), d.dismiss()))
    tab.on("requestfailed", lambda r: said.append(f"failed {r.url[:200]}"))
    return said


@pytest.fixture(scope="session")
def kills():
    """The module that kills small books' builds and compares sites but for times."""
    spec = importlib.util.spec_from_file_location("bench_kills", paths.ROOT / "bench" / "kills.py")
    module = sys.modules["bench_kills"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def forked():
    """Surroundings in which steps and kernels are forks of one process that has their packages.

    As of a build of many pages and models, for tests of what programs do and not of how they
    start: the packages are imported once for all of them.
    """
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever started the tests ignores
    with forks.kept(0, COMMANDS, forks.LEAST_LOADING) as environment:
        signal.signal(signal.SIGINT, before)
        yield environment


@pytest.fixture(scope="session")
def execute(forked):
    """``pages.run_page`` with a kernel that is a fork."""

    def run(*words, **options) -> Path:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in forked.items():
                patch.setenv(name, value)
            return pages.run_page(*words, **options)

    return run


@pytest.fixture(scope="session")
def small_book(tmp_path_factory, forked):
    """Makes a book with this checkout's settings: ``small_book(index, executed)`` is its site.

    ``index`` is the Markdown of the first page, ``executed`` maps a place under
    ``book/results`` to an executed notebook.
    """

    def make(index: str, executed: Mapping[str, Path]) -> Path:
        root = tmp_path_factory.mktemp("book")
        shutil.copy(paths.ROOT / "_config.yml", root)
        sites._write_bundle()  # made once for all
        shutil.copytree(paths.BOOK / "_static", root / "book" / "_static")
        shutil.copy(paths.BOOK / "references.bib", root / "book")
        (root / "book" / "index.md").write_text(index)
        for place, page in executed.items():
            target = root / "book" / "results" / f"{place}.ipynb"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(page, target)
        chapters = [{"file": f"book/results/{place}"} for place in executed]
        toc = {"format": "jb-book", "root": "book/index", "chapters": chapters}
        (root / "_toc.yml").write_text(yaml.safe_dump(toc))
        done = subprocess.run(
            [
                *forks.command("lib.book.rendering", forked),
                *("build", str(root), "--path-output", str(root)),
                *("-W", "-n", "--keep-going", "--all", "--quiet"),
            ],
            capture_output=True,
            text=True,
            cwd=root,
            env=os.environ | forked | {"PYTHONPATH": str(paths.ROOT)},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        html = root / "_build" / "html"
        sites._lightened(html)
        return html

    return make
