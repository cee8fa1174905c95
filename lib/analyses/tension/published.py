"""The published figures of this backbone, and those of an earlier run here."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import yaml

from lib.documents import OnceEach

FILE = Path(__file__).with_name("published.yaml")


@cache
def figures() -> dict:
    """What ``published.yaml`` holds."""
    return yaml.load(FILE.read_text(encoding="utf-8"), OnceEach)
