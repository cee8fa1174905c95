"""Tiny checkpoints with room for whole stimuli, and what a check of one finds."""

from __future__ import annotations

import json

import pytest

from lib.check import check
from lib.check.lines import BLOCKED, WRONG

ROOM = 4096  # tokens: a byte a token or so


@pytest.fixture
def tiny(write_tiny):
    return write_tiny


@pytest.fixture
def classifier(tiny, tmp_path):
    """Writes a tiny classifier; gives its folder."""

    def write(**changes):
        folder = tmp_path / "model"
        tiny.write_classifier(folder, **{"max_position_embeddings": ROOM, **changes})
        return folder

    return write


@pytest.fixture(scope="session")
def short(tmp_path_factory):
    """64 short pairs, as a dataset's name: a tiny tokenizer makes hundreds of tokens of a stimulus."""
    path = tmp_path_factory.mktemp("short") / "pairs.jsonl"
    rows = [
        {
            "prompt": f"What is {k} + {k}?",
            "chosen": f"It is {2 * k}. " * (k % 3 + 1),
            "rejected": f"No {k}!",
        }
        for k in range(64)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f"file:{path}"


@pytest.fixture(scope="session")
def checked(short):
    """A quick check of a folder on a few short pairs."""

    def run(folder, **options):
        given = {"data": short, "items": 12, "quick": True, **options}
        return check(str(folder), device="cpu", **given)

    return run


@pytest.fixture(scope="session")
def reds():
    """Lines that a check finds wrong, and those that they block."""

    def of(checked):
        lines = checked.lines
        return tuple(
            {line for line, found in lines.items() if found == which} for which in (WRONG, BLOCKED)
        )

    return of
