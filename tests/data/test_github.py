"""Pinned files of GitHub are downloaded once, whole or not at all, and never while offline."""

from __future__ import annotations

import io

import pytest

from lib.data import github
from lib.errors import DataError

REVISION = "0" * 40


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """URLs that were asked for; each is answered with its own address."""
    urls = []

    def urlopen(url, timeout):
        urls.append(url)
        return io.BytesIO(url.encode())

    monkeypatch.setenv("REWARD_AUDIT_CACHE", str(tmp_path))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr(github.urllib.request, "urlopen", urlopen)
    return urls


def test_a_file_is_downloaded_at_the_commit_and_then_kept(asked, tmp_path):
    first = github.fetch("owner/name", REVISION, "folder/a file.csv")
    url = f"https://raw.githubusercontent.com/owner/name/{REVISION}/folder/a%20file.csv"
    assert first.read_text() == url
    assert github.fetch("owner/name", REVISION, "folder/a file.csv") == first
    assert asked == [url]
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [first]


def test_offline_only_the_cache_is_used(asked, monkeypatch):
    kept = github.fetch("owner/name", REVISION, "a.csv")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert github.fetch("owner/name", REVISION, "a.csv") == kept
    with pytest.raises(DataError, match=r"b\.csv .*HF_HUB_OFFLINE.*'source'"):
        github.fetch("owner/name", REVISION, "b.csv")
    assert len(asked) == 1


def test_a_failed_download_is_an_error_and_leaves_nothing(asked, tmp_path, monkeypatch):
    def refuse(url, timeout):
        raise github.urllib.error.URLError("no route")

    monkeypatch.setattr(github.urllib.request, "urlopen", refuse)
    with pytest.raises(DataError, match=r"a\.csv of github\.com/owner/name .*no route"):
        github.fetch("owner/name", REVISION, "a.csv")
    assert not list(tmp_path.rglob("a.csv"))
