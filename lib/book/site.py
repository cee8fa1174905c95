"""Render the book: into a temporary folder, checked, then swapped into place."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from lib import paths
from lib.atomic import replacing
from lib.book import plan as plans
from lib.book import toc
from lib.charts import theme
from lib.errors import PageError

VEGA = paths.BOOK / "_static" / "vega.js"
# A constant that points at a CDN stays in every page although launching is off.
THEBE = re.compile(r"<script>\s*const THEBE_JS_URL.*?</script>", re.DOTALL)


def render() -> Path:
    """Build the site with warnings as errors and put it at ``book/_build/html``.

    Raises
    ------
    PageError
        When a page of the plan is missing, Sphinx warns, or no index comes out. The last
        good site stays.
    """
    plan = plans.read()
    missing = [page.output for page in plan.pages if not (paths.ROOT / page.output).is_file()]
    if missing:
        raise PageError(
            "every page of audit.yml executed",
            f"none at {', '.join(missing)}",
            "Run make book.",
        )
    toc.write()
    _write_bundle()
    target = paths.SITE.parent
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=".build-", dir=paths.cache_folder()))
    try:
        _sphinx(work, plan)
        html = work / "_build" / "html"
        if not (html / "index.html").is_file() or not (html / "book" / "index.html").is_file():
            raise PageError("an index.html", "none", "Check that jupyter-book is version 1.")
        _without_cdn(html)
        _swap(html)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return paths.SITE / "index.html"


def _write_bundle() -> None:
    bundle = theme.vega_bundle()
    if not VEGA.exists() or VEGA.read_text() != bundle:
        with replacing(VEGA) as partial:
            partial.write_text(bundle)


def _sphinx(work: Path, plan: plans.Plan) -> None:
    contents = work / "toc.yml"  # of all that is planned here; the committed one has less
    contents.write_text(toc.render(plan), encoding="utf-8")
    command = [
        str(Path(sys.executable).with_name("jupyter-book")),
        *("build", str(paths.ROOT), "--path-output", str(work), "--toc", str(contents)),
        *("-W", "-n", "--keep-going", "--all", "--quiet"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=paths.ROOT)
    if done.returncode:
        output = (done.stdout + done.stderr).strip().splitlines()
        shown = [line for line in output if "WARNING" in line or "ERROR" in line] or output[-15:]
        raise PageError("a build without warnings", "\n".join(shown[:20]), "Mend those pages.")


def _without_cdn(html: Path) -> None:
    for page in html.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        cleaned = THEBE.sub("", text)
        if cleaned != text:
            page.write_text(cleaned, encoding="utf-8")


def _swap(html: Path) -> None:
    paths.SITE.parent.mkdir(parents=True, exist_ok=True)
    retired = paths.SITE.with_name(f"html.old-{os.getpid()}")
    fresh = paths.SITE.with_name(f"html.new-{os.getpid()}")
    for left in paths.SITE.parent.glob("html.*-*"):  # of a killed swap
        if left.name.startswith("html.old") and not paths.SITE.exists():
            os.replace(left, paths.SITE)
        else:
            shutil.rmtree(left, ignore_errors=True)
    shutil.move(html, fresh)
    if paths.SITE.exists():
        os.replace(paths.SITE, retired)
    os.replace(fresh, paths.SITE)
    shutil.rmtree(retired, ignore_errors=True)
