"""Render the book: into a temporary folder, checked, then swapped into place."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import subprocess
import tempfile
from importlib.metadata import version
from pathlib import Path

from lib import paths
from lib.atomic import exchange, replacing
from lib.book import applies, forks, toc
from lib.book import plan as plans
from lib.errors import PageError
from lib.refused import remedy
from lib.visible import visible

VEGA = paths.BOOK / "_static" / "vega.js"
REASON = re.compile(r"WARNING|ERROR|^\s*(?:[\w.]+\.)?\w*(?:Error|Exception|Exit)\b")
WORK = ".build-"
# A constant that points at a CDN stays in every page although launching is off.
THEBE = re.compile(r"<script>\s*const THEBE_JS_URL.*?</script>", re.DOTALL)
# The theme's script of icons, a megabyte and a half, and what it draws them in place of.
DRAWS_ICONS = re.compile(r'<script [^>]*\bsrc="[^"]*/fontawesome\.js[^"]*"></script>\s*')
ICONS = "_static/scripts/fontawesome.js"
DRAWN = re.compile(r'"?([\w-]+)"?:\[(\d+),(\d+),\[[^\]]*\],"\w+","([^"]+)"\]')
ICON = re.compile(
    r'<(i|span) class="(?=[^"]*\bfa(?:s|-solid) )([^"]*)"([^>]*?)(?: title="([^"]*)")?></\1>'
)
# The theme gives every page what finds words as one types, which is off.
SEARCHING = re.compile(
    r'<script src="[^"]*\b(?:_static/searchtools|_static/language_data|searchindex)\.js[^"]*">'
    r"</script>\s*"
)


def render() -> Path:
    """Build the site with warnings as errors and put it at ``book/_build/html``.

    Raises
    ------
    PageError
        When a page of the plan is missing, Sphinx warns, the disk is full, or no index or
        not every page comes out. The last good site stays.
    """
    plan = plans.read()
    missing = [page.output for page in plan.pages if not (paths.ROOT / page.output).is_file()]
    if missing:
        found = f"none at {', '.join(missing)}"
        raise PageError("every page of audit.yml executed", found, "Run make book.")
    work = None
    try:
        toc.write()
        _write_bundle()
        work = Path(tempfile.mkdtemp(prefix=WORK, dir=_own_cache()))
        _sphinx(work, plan)
        html = work / "_build" / "html"
        check(html, plan)
        _lightened(html)
        _swap(html)
    except OSError as error:
        told = f"{remedy(error)} {kept()}".strip()
        raise PageError("to write the site", f"{error}", told) from None
    finally:
        if work:
            shutil.rmtree(work, ignore_errors=True)
    return paths.SITE / "index.html"


def check(html: Path, plan: plans.Plan) -> None:
    """Raise a ``PageError`` unless a site has its index and every page that the plan shows."""
    if not (html / "index.html").is_file() or not (html / "book" / "index.html").is_file():
        remedy = f"Check that jupyter-book is version 1. {kept()}".strip()
        raise PageError("an index.html", "none", remedy)
    shown = [page.output.removesuffix(".ipynb") for page in plan.pages if applies.listed(page)]
    missing = [page for page in shown if not (html / f"{page}.html").is_file()]
    if missing:
        found = f"none for {', '.join(missing)}"
        raise PageError("every page of audit.yml in the site", found, kept() or "Build again.")


def kept() -> str:
    """What to say of the last site after a failure, if there is one."""
    return "The last site was kept." if (paths.SITE / "index.html").is_file() else ""


def sweep() -> None:
    """Remove what builds that were killed left; a site that was moved aside comes back.

    For who holds the lock of the build: what another one renders would be removed.
    """
    for left in _own_cache().glob(f"{WORK}*"):
        shutil.rmtree(left, ignore_errors=True)
    for left in paths.SITE.parent.glob("html.*-*"):
        if left.name.startswith("html.old") and not paths.SITE.exists():
            os.replace(left, paths.SITE)
        else:
            shutil.rmtree(left, ignore_errors=True)


def _own_cache() -> Path:
    """Of this checkout, on the disk of its site, and locked with it."""
    return paths.lock("build").parent


def _write_bundle() -> None:
    """Write the script of the charts, unless it is there as what makes it now made it."""
    try:
        mark, _, bundle = VEGA.read_text(encoding="utf-8").partition("\n")
        if mark == _mark(bundle):
            return
    except (FileNotFoundError, UnicodeDecodeError):
        pass
    from lib.charts import theme

    bundle = theme.vega_bundle()
    with replacing(VEGA) as partial:
        partial.write_text(f"{_mark(bundle)}\n{bundle}", encoding="utf-8")


def _mark(bundle: str) -> str:
    """A comment that names the content of a bundle and what it was made by."""
    sources = [path.read_bytes() for path in sorted((paths.LIB / "charts").glob("*.py"))]
    parts = [version("vl-convert-python").encode(), *sources, bundle.encode()]
    return f"// {hashlib.sha256(bytes(1).join(parts)).hexdigest()}"


def _sphinx(work: Path, plan: plans.Plan) -> None:
    contents = work / "toc.yml"  # of all that is planned here; the committed one has less
    contents.write_text(toc.render(plan), encoding="utf-8")
    command = [
        *forks.command("lib.book.rendering"),
        *("build", str(paths.ROOT), "--path-output", str(work), "--toc", str(contents)),
        *("-W", "-n", "--keep-going", "--all", "--quiet"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=paths.ROOT)
    if done.returncode:
        output = (done.stdout + done.stderr).strip().splitlines()
        shown = [line for line in output if REASON.search(line)] or output[-15:]
        found = visible("\n".join(shown[:20])) or f"exit status {done.returncode}, no word"
        raise PageError("a build without warnings", found, f"Mend that. {kept()}".strip())


def _lightened(html: Path) -> None:
    """Take out of pages what they load, or point at, and don't use; their icons are drawings."""
    # Solid ones are the last of those that share a name.
    icons = {name: drawn for name, *drawn in DRAWN.findall((html / ICONS).read_text("utf-8"))}
    for page in html.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        cleaned = DRAWS_ICONS.sub("", THEBE.sub("", text))
        cleaned = ICON.sub(lambda icon: _drawn(icon, icons), cleaned)
        if page.name != "search.html":
            cleaned = SEARCHING.sub("", cleaned)
        if cleaned != text:
            page.write_text(cleaned, encoding="utf-8")


def _drawn(icon: re.Match, icons: dict[str, list[str]]) -> str:
    """An icon as the theme's script would draw it; one that it doesn't know stays as it is."""
    _, classes, given, title = icon.groups()
    kept = [name for name in classes.split() if name not in ("fas", "fa-solid")]
    known = [icons[name[3:]] for name in kept if name[3:] in icons]
    if not known:
        return icon[0]
    width, height, path = known[0]
    told = f'role="img"{given}><title>{title}</title>' if title else f'aria-hidden="true"{given}>'
    return (
        f'<svg class="svg-inline--fa {" ".join(kept)}" viewBox="0 0 {width} {height}" {told}'
        f'<path fill="currentColor" d="{path}"></path></svg>'
    )


def _swap(html: Path) -> None:
    """Put a site in place of the last one; there is one at any moment.

    Where the system can't exchange two folders in one step it is away between two renames.
    """
    paths.SITE.parent.mkdir(parents=True, exist_ok=True)
    own = f"{os.getpid()}-{secrets.token_hex(4)}"
    fresh, retired = (paths.SITE.with_name(f"html.{kind}-{own}") for kind in ("new", "old"))
    try:
        shutil.move(html, fresh)
        if paths.SITE.exists() and not exchange(fresh, paths.SITE):
            os.replace(paths.SITE, retired)
        if not paths.SITE.exists():
            os.replace(fresh, paths.SITE)
    finally:
        if retired.exists() and not paths.SITE.exists():
            os.replace(retired, paths.SITE)
        for left in (fresh, retired):
            shutil.rmtree(left, ignore_errors=True)
