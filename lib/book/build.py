"""Build everything that is stale: the graph of ``Snakefile`` under a lock."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from lib import paths, records
from lib.book import forks, pages, plan, site, steps, toc
from lib.errors import PageError, ParameterError, StoreError
from lib.refused import remedy
from lib.visible import visible

GRACE = 5.0  # seconds a stopped build has for each milder signal
LINES = 200  # of what Snakemake logs that are kept
SHOWN = 15  # of those, when no step has a reason
LONGEST = 500  # characters of a reason that are repeated at the end


def build(cores: int = 2) -> Path:
    """Extract, execute and render what changed; returns the site's index.

    A build that was killed is picked up where it stopped. One that is told to end (Ctrl-C,
    SIGTERM, SIGHUP) ends its steps first. What is done is looked at afterwards: the index
    is returned when every step has its receipt and every page is in the site.

    Raises
    ------
    ParameterError
        When ``cores`` isn't a whole number from 1.
    StoreError
        While another build of this checkout runs, or when files can't be read or written.
    PageError
        When a page or the site failed, with the reason of each.
    """
    if not isinstance(cores, int) or isinstance(cores, bool) or cores < 1:
        raise ParameterError("a whole number of cores from 1", repr(cores), "Give one.")
    with alone() as held:
        planned = plan.read()
        prune({paths.ROOT / page.output for page in planned.pages})
        toc.write()
        status, log = 0, ""
        if todo := steps.prepare():
            if _locked():
                _snakemake("--unlock", "--cores", "1", held=held)
            options = ("--rerun-incomplete", "--keep-going", "--rerun-triggers", "mtime")
            names = {step.name for step in todo if step.kind == "page"}
            shown = [page for page in planned.pages if steps.page_name(page.output) in names]
            modules = pages.imported({page.notebook for page in shown})
            if any("device" in page.declared for page in shown):  # one that loads its model
                modules += forks.LOADING
                if any(_embedded(page.model) for page in shown):
                    modules.append(forks.WEIGHTS)
            loading = sum(step.kind in steps.LOADING for step in todo)
            with _stoppable(), forks.kept(len(shown), modules, loading) as forked:
                words = ("--cores", str(cores), *options)
                status, log = _snakemake(*words, held=held, environment=forked)
        left = steps.stale()
        if status or left:
            found = _reasons(left) or log or _changed(left)
            raise PageError("every step of the build", found, site.kept() or "There is no site.")
        site.check(paths.SITE, planned)
    return paths.SITE / "index.html"


def render() -> Path:
    """Render the site from the pages that there are, under the lock of the build."""
    with alone():
        if {step.name for step in steps.prepare()} - {steps.SITE}:
            site.render()  # of pages that are out of date: no receipt tells of it
        else:
            steps.run(steps.SITE)
    return paths.SITE / "index.html"


@contextmanager
def alone() -> Iterator[int]:
    """Hold the lock of this checkout's builds, with what killed ones left swept away.

    The descriptor that it gives keeps the lock held in a process that inherits it.
    """
    try:
        with open(paths.lock("build"), "a") as file:
            _lock(file.fileno())
            site.sweep()
            pages.sweep(paths.RESULTS)
            yield file.fileno()
    except OSError as error:
        needed = f"to read and write the files of {paths.ROOT}"
        raise StoreError(needed, f"{error}", f"{remedy(error)} Then build again.") from None


def _lock(descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        needed = "one build of this checkout at a time"
        raise StoreError(needed, "another one running", "Wait for it.") from None


def _embedded(model: str) -> bool:
    return bool(model) and "/" not in model and paths.embedded(model).is_dir()


def _locked() -> bool:
    """May a build that was killed have left locks of Snakemake's own? A profile moves them."""
    left = (paths.ROOT / ".snakemake" / "locks").glob("*")
    return "SNAKEMAKE_PROFILE" in os.environ or any(left)


def _reasons(left: Collection[steps.Step]) -> str:
    """Why steps failed, each in a line; those that only wait for them have no reason."""
    lines = []
    for step in left:
        with suppress(OSError):
            lines.append(f"{step.name}: {step.reason.read_text(encoding='utf-8')[:LONGEST]}")
    waiting = len(left) - len(lines)
    if lines and waiting:
        lines.append(f"steps that wait for those: {waiting}")
    return "\n".join(lines)


def _changed(left: Collection[steps.Step]) -> str:
    names = ", ".join(step.name for step in left)
    return f"what they read changed meanwhile, or what they made, at {names}; build again"


def prune(kept: Collection[Path]) -> None:
    """Remove executed pages that the plan no longer has, with the tables that they wrote.

    Summary pages read whatever tables there are, so what was left behind would be counted.
    """
    folders = {page.parent for page in kept}
    needed = {table for page in kept for table in records.tables(page)}
    for page in set(paths.RESULTS.rglob("*.ipynb")) - set(kept):
        left = set(records.tables(page))
        if page.parent not in folders:  # whatever wrote them
            left |= set(page.parent.glob("*.parquet"))
        for path in (*(left - needed), records.of(page), page):
            path.unlink(missing_ok=True)


def _snakemake(
    *options: str, held: int | None = None, environment: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Run Snakemake to its end, or end it with all its steps when this process shall end.

    Gives its exit status and the end of its log. The console shows what steps print instead.
    """
    had = "snakemake.cli" in sys.modules  # by a process that is a fork itself
    command = [
        *(forks.command("snakemake") if had else forks.command("snakemake", {})),
        *("--snakefile", str(paths.ROOT / "Snakefile")),
        *("--directory", str(paths.ROOT), "--quiet", "progress", "rules", "host"),
        *("--nocolor", "--scheduler", "greedy", *options),  # no equations to solve at each step
    ]
    kept: deque[str] = deque(maxlen=LINES)
    with _stoppable():
        process = subprocess.Popen(
            command,
            stdout=2,  # what steps print is no result of this command
            stderr=subprocess.PIPE,
            start_new_session=True,  # a group to end as a whole
            env=os.environ | dict(environment or {}),
            pass_fds=() if held is None else (held,),
        )
        reader = threading.Thread(target=_keep, args=(process.stderr, kept), daemon=True)
        reader.start()
        try:
            status = process.wait()
        except BaseException:
            _end(process)
            raise
    reader.join(GRACE)
    lines = [line for line in kept if line.strip()]
    if any(line.startswith('  File "') for line in lines):  # the error without its frames
        lines = [line for line in lines if not line[0].isspace()]
    return status, visible("\n".join(lines[-SHOWN:]))


def _keep(log, kept: deque[str]) -> None:
    for line in log:
        kept.append(line.decode("utf-8", errors="replace").rstrip())


@contextmanager
def _stoppable() -> Iterator[None]:
    """Let signals that would end this process at once raise, so that it can tidy up."""
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:  # nohup's stay ignored
                before[number] = signal.signal(number, _leave)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave(number: int, frame) -> None:
    raise SystemExit(128 + number)


def _end(process: subprocess.Popen) -> None:
    """End a process and its group: asked twice, then by force, or at once when asked again."""
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            limit = time.monotonic() + GRACE
            while time.monotonic() < limit:
                if process.poll() is not None and not _alive(process.pid):
                    return
                time.sleep(0.05)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
