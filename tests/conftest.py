"""Fixtures shared by the tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real preference files, where they lie beside the checkout or under PREFERENCE_DATA."""
    given = os.environ.get("PREFERENCE_DATA")
    folder = Path(given) if given else Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("no real preference files: set PREFERENCE_DATA to their folder")
    return folder
