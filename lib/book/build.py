"""Build everything that is out of date: the graph of ``Snakefile`` under a lock."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lib import paths
from lib.book import plan, status, toc
from lib.errors import PageError, ParameterError, StoreError

GRACE = 5.0  # seconds a stopped build has for each milder signal


def build(cores: int = 2) -> Path:
    """Extract, execute and render what changed; returns the site's index.

    A build that was killed is picked up where it stopped. One that is told to end (Ctrl-C,
    SIGTERM, SIGHUP) ends its steps first.

    Raises
    ------
    ParameterError
        When ``cores`` isn't a whole number from 1.
    StoreError
        While another build of this checkout runs.
    PageError
        When a page or the site failed; what was said is on the console.
    """
    if not isinstance(cores, int) or isinstance(cores, bool) or cores < 1:
        raise ParameterError("a whole number of cores from 1", repr(cores), "Give one.")
    toc.write()
    with _locked(paths.lock("build")) as held:
        prune({paths.ROOT / page.output for page in plan.read().pages})
        _snakemake("--unlock", "--cores", "1", quiet=True, held=held)
        if _snakemake("--cores", str(cores), "--rerun-incomplete", "--keep-going", held=held):
            raise PageError(
                "every step of the build", "a failed one (above)", "The last site was kept."
            )
    return paths.SITE / "index.html"


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """Hold a lock; the descriptor keeps it held in a process that inherits it."""
    with open(path, "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreError(
                "one build of this checkout at a time", "another one running", "Wait for it."
            ) from None
        yield file.fileno()


def prune(kept: Collection[Path]) -> None:
    """Remove executed pages that the plan no longer has, with the tables that they wrote.

    Summary pages read whatever tables there are, so what was left behind would be counted.
    """
    folders = {page.parent for page in kept}
    needed = {page.with_name(f"{name}.parquet") for page in kept for name in status.tables(page)}
    for page in list(paths.RESULTS.rglob("*.ipynb")):
        if page in kept:
            continue
        left = [page.with_name(f"{name}.parquet") for name in status.tables(page)]
        if page.parent not in folders:  # whatever wrote them
            left += page.parent.glob("*.parquet")
        for table in set(left) - needed:
            table.unlink(missing_ok=True)
        page.with_name(page.stem + status.SUFFIX).unlink(missing_ok=True)
        page.unlink()


def _snakemake(*options: str, quiet: bool = False, held: int | None = None) -> int:
    """Run Snakemake to its end, or end it with all its steps when this process shall end."""
    command = [
        *(sys.executable, "-m", "snakemake", "--snakefile", str(paths.ROOT / "Snakefile")),
        *("--directory", str(paths.ROOT), "--quiet", "all", *options),
    ]
    said = subprocess.DEVNULL if quiet else None
    with _stoppable():
        process = subprocess.Popen(
            command,
            stdout=said,
            stderr=said,
            start_new_session=True,  # a group to end as a whole
            pass_fds=() if held is None else (held,),
        )
        try:
            return process.wait()
        except BaseException:
            _end(process)
            raise


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
