"""A file is replaced whole, or stays as it was."""

from __future__ import annotations

import pytest

from lib.atomic import replacing


def test_the_target_changes_when_all_is_written(tmp_path):
    target = tmp_path / "a.json"
    target.write_text("old")
    with replacing(target) as partial:
        partial.write_text("new")
        assert target.read_text() == "old" and partial.parent == tmp_path
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


def test_an_error_leaves_the_target_and_nothing_else(tmp_path):
    target = tmp_path / "a.json"
    target.write_text("old")
    with pytest.raises(KeyError), replacing(target) as partial:
        partial.write_text("half")
        raise KeyError
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_nothing_written_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "a.json"):
        pass


def test_files_that_differ_in_their_suffix_alone_are_written_at_once(tmp_path):
    with replacing(tmp_path / "a.json") as one, replacing(tmp_path / "a.csv") as other:
        one.write_text("json")
        other.write_text("csv")
    assert (tmp_path / "a.json").read_text() == "json"
    assert (tmp_path / "a.csv").read_text() == "csv"
