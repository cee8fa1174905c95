"""The site that the slow tests look at, built once from this checkout."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lib import paths


@pytest.fixture(scope="session")
def site() -> Path:
    done = subprocess.run(
        [sys.executable, "-m", "lib", "build"], cwd=paths.ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (paths.SITE / "index.html").as_uri() in done.stdout
    return paths.SITE
