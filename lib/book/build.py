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
        with FileLock(paths.cache_folder() / "build.lock", timeout=0):
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
    """Remove executed pages that the plan no longer has, and the tables of folders without any.

    Summary pages read whatever tables there are, so what was left behind would be counted.
    """
    folders = {page.parent for page in kept}
    for page in list(paths.RESULTS.rglob("*.ipynb")):
        if page not in kept:
            page.unlink()
            page.with_name(page.stem + status.SUFFIX).unlink(missing_ok=True)
            if page.parent not in folders:
                for table in page.parent.glob("*.parquet"):
                    table.unlink()


def _snakemake(*options: str, quiet: bool = False) -> int:
    command = [
        *(sys.executable, "-m", "snakemake", "--snakefile", str(paths.ROOT / "Snakefile")),
        *("--directory", str(paths.ROOT), "--quiet", "all", *options),
    ]
    return subprocess.run(command, capture_output=quiet).returncode
