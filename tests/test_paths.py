"""Names from data and models never become paths as they are."""

from pathlib import Path

import pytest

from lib import paths


def test_plain_names_stay_readable():
    assert paths.slug("hh-rlhf/harmless-base") == "hh-rlhf/harmless-base"


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "/abs", "a b", "file:x.jsonl", "..", "", "é/ß", "-x"]
)
def test_others_get_a_safe_and_distinct_folder(name):
    slug = paths.slug(name)
    assert slug != name
    assert not slug.startswith("/") and ".." not in slug.split("/")
    assert all(c.isascii() and (c.isalnum() or c in "._-/") for c in slug)


def test_two_names_never_share_a_folder():
    assert len({paths.slug(name) for name in ("a b", "a-b", "a  b", "a/b", "a//b")}) == 5


def test_the_cache_can_be_moved(monkeypatch, tmp_path):
    monkeypatch.setenv("REWARD_AUDIT_CACHE", str(tmp_path))
    assert paths.cache() == tmp_path


def test_locks_are_of_the_checkout_wherever_its_cache_is(monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "ROOT", tmp_path / "checkout")
    monkeypatch.setenv("REWARD_AUDIT_CACHE", str(tmp_path / "shared by two"))
    assert paths.lock("build") == tmp_path / "checkout" / ".cache" / "build.lock"
    assert paths.lock("build").parent.is_dir()


def test_a_path_is_taken_as_given_or_else_from_the_checkout(monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "ROOT", tmp_path / "checkout")
    monkeypatch.chdir(tmp_path)
    assert paths.found("here") == tmp_path / "checkout" / "here"
    (tmp_path / "here").mkdir()
    assert str(paths.found("here")) == "here"
    assert paths.found("/gone") == Path("/gone")
