"""Build everything that is out of date: the graph of ``Snakefile`` under a lock."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

from filelock import FileLock, Timeout

from lib import paths
from lib.book import plan, status, toc
from lib.errors import PageError, StoreError


def build(cores: int = 2) -> Path:
    """Extract, execute and render what changed; returns the site's index.

    A build that was killed is picked up where it stopped.

    Raises
    ------
    StoreError
        While another build of this checkout runs.
    PageError
        When a page or the site failed; what was said is on the console.
    """
    toc.write()
    try:
        with FileLock(paths.lock("build"), timeout=0):
            prune({paths.ROOT / page.output for page in plan.read().pages})
            _snakemake("--unlock", "--cores", "1", quiet=True)
            if _snakemake("--cores", str(cores), "--rerun-incomplete", "--keep-going"):
                raise PageError(
                    "every step of the build", "a failed one (above)", "The last site was kept."
                )
    except Timeout:
        raise StoreError(
            "one build of this checkout at a time", "another one running", "Wait for it."
        ) from None
    return paths.SITE / "index.html"


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


def _snakemake(*options: str, quiet: bool = False) -> int:
    command = [
        *(sys.executable, "-m", "snakemake", "--snakefile", str(paths.ROOT / "Snakefile")),
        *("--directory", str(paths.ROOT), "--quiet", "all", *options),
    ]
    return subprocess.run(command, capture_output=quiet).returncode
