"""Kept calibration: the same rows, never stale ones."""

from __future__ import annotations

import json

import numpy as np
import pytest

from lib import calibration, paths
from lib.calibration import kept
from lib.planted.checks import check

CALLS = []


class Made:
    """Stands for a module of checks."""

    __name__ = "lib.analyses.geometry.calibration"

    @staticmethod
    def checks(draws: int, seed: int) -> list[dict]:
        CALLS.append((draws, seed))
        happened = np.random.default_rng(seed).random(draws) < 0.04
        return [check("a claim", "a world", "false-positive rate", happened, at_most=0.06)]


@pytest.fixture(autouse=True)
def small(monkeypatch, tmp_path):
    CALLS.clear()
    monkeypatch.setattr(calibration, "_calibrated", lambda: [("one", Made)])
    monkeypatch.setattr(paths, "CALIBRATION", tmp_path / "committed")
    monkeypatch.setenv("REWARD_AUDIT_CACHE", str(tmp_path / "cache"))


def test_what_is_kept_is_what_was_computed_and_is_computed_once():
    first, again = calibration.calibrate(500, 1), calibration.calibrate(500, 1)
    assert CALLS == [(500, 1)]
    assert first.equals(again)
    assert first["rate"].iloc[0] == np.mean(np.random.default_rng(1).random(500) < 0.04)


@pytest.mark.parametrize("change", ["draws", "seed", "code", "versions"])
def test_another_option_code_or_version_computes_again(change, monkeypatch):
    calibration.calibrate(500, 1)
    if change == "code":
        monkeypatch.setattr(kept, "code_digest", lambda module: "another")
    if change == "versions":
        monkeypatch.setattr(kept.importlib.metadata, "version", lambda name: "0.0")
    calibration.calibrate(400 if change == "draws" else 500, 2 if change == "seed" else 1)
    assert len(CALLS) == 2


def test_a_committed_document_is_used_and_left_alone_by_a_stale_build(tmp_path):
    assert calibration.keep(paths.CALIBRATION, 500, 1) == ["one"]
    assert calibration.keep(paths.CALIBRATION, 500, 1) == []
    before = (paths.CALIBRATION / "one.json").read_bytes()
    calibration.calibrate(500, 1)
    calibration.calibrate(500, 2)
    assert CALLS == [(500, 1), (500, 2)]
    assert (paths.CALIBRATION / "one.json").read_bytes() == before
    assert calibration.keep(paths.CALIBRATION, 500, 1, fresh=True) == ["one"]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"rows": 3}', '{"code": {}}'])
def test_a_damaged_document_is_computed_again(text):
    paths.CALIBRATION.mkdir()
    (paths.CALIBRATION / "one.json").write_text(text)
    assert len(calibration.calibrate(50, 1)) == 1 and CALLS


def test_the_page_can_say_when_and_by_what():
    row = calibration.made(500, 1).iloc[0]
    document = json.loads((paths.cache() / "calibration" / "one-500-1.json").read_text())
    assert row["made"] == document["made"] and row["code"] == document["code"]
    assert f"numpy {np.__version__}" in row["versions"]


def test_the_digest_follows_code_and_not_its_words(tmp_path, monkeypatch):
    folder = tmp_path / "lib"
    folder.mkdir()
    (folder / "used.py").write_text('"""Words."""\n\nX = 1\n')
    (folder / "other.py").write_text("X = 1\n")
    (folder / "top.py").write_text("from lib.used import X\n\n\ndef f():\n    return X\n")
    monkeypatch.setattr(paths, "ROOT", tmp_path)

    def digest() -> str:
        kept.code_digest.cache_clear()
        return kept.code_digest("lib.top")

    first = digest()
    (folder / "used.py").write_text('"""Other words."""\n\n# why\nX = 1\n')
    (folder / "other.py").write_text("X = 2\n")
    assert digest() == first
    (folder / "used.py").write_text("X = 2\n")
    assert digest() != first
    kept.code_digest.cache_clear()


def test_every_analysis_depends_on_its_statistics():
    names = ("lib.analyses.geometry.calibration", "lib.analyses.labels.calibration")
    assert len({kept.code_digest(name) for name in names}) == 2
