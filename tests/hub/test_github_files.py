"""Pinned files of GitHub: downloaded once, whole or not at all, and compared ever after."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

import pytest

from lib import hub as client
from lib.data import github, llmbar, load_items
from lib.errors import DataError

REVISION = "0" * 40
PATH = f"/raw/owner/name/{REVISION}/folder/a file.csv"


def fetch(**options) -> Path:
    return github.fetch("owner/name", REVISION, "folder/a file.csv", **options)


def test_a_file_is_downloaded_at_the_commit_and_then_kept(hub):
    hub.raw[PATH] = b"a,b\n1,2\n"
    first = fetch()
    assert first.read_bytes() == b"a,b\n1,2\n"
    assert fetch() == first
    assert [path for _, path, _ in hub.asked] == [PATH]


def test_offline_only_the_cache_is_used(hub, offline):
    hub.raw[PATH] = b"a"
    kept = fetch()
    offline()
    assert fetch() == kept
    with pytest.raises(DataError, match=r"b\.csv .*HF_HUB_OFFLINE.*'source'"):
        github.fetch("owner/name", REVISION, "b.csv")
    assert len(hub.asked) == 1


def test_a_file_that_is_not_there_is_named_and_leaves_nothing(hub, tmp_path):
    with pytest.raises(DataError, match=r"a file\.csv of github\.com/owner/name .*404"):
        fetch()
    assert not list(tmp_path.rglob("a file.csv*"))


def test_no_route_to_the_server_is_said(hub, monkeypatch):
    monkeypatch.setattr(github, "HOST", "http://127.0.0.1:9")
    with pytest.raises(DataError, match=r"refused.*check the network"):
        fetch()


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_server_is_waited_for(hub, capfd, status):
    hub.raw[PATH] = b"a"
    hub.fail(PATH, status, times=2)
    assert fetch().read_bytes() == b"a"
    assert capfd.readouterr().err.count(f"busy (HTTP {status})") == 2


def test_a_server_that_asks_for_an_hour_is_not_waited_for(hub):
    hub.fail(PATH, 429, times=99, Retry_After="3600")
    with pytest.raises(DataError, match="429"):
        fetch()
    assert len(hub.asked) == 1


def test_a_download_that_is_cut_is_fetched_again(hub, capfd):
    hub.raw[PATH] = b"x" * 5000
    hub.cuts[PATH] = 100
    assert len(fetch().read_bytes()) == 5000
    assert "the connection broke" in capfd.readouterr().err


def test_a_file_that_keeps_being_cut_is_no_file(hub, monkeypatch, tmp_path):
    hub.raw[PATH] = b"x" * 5000
    hub.cuts[PATH] = 100
    monkeypatch.setattr(client, "PATIENCE", 0)
    with pytest.raises(DataError, match="without sending complete message"):
        fetch()
    assert not list(tmp_path.rglob("a file.csv*"))


def test_another_file_than_the_published_one_is_refused_and_not_kept(hub, tmp_path):
    hub.raw[PATH] = b"<html>Log in to this network</html>"
    expected = hashlib.sha256(b"a,b\n").hexdigest()
    with pytest.raises(DataError) as caught:
        fetch(sha256=expected)
    found = hashlib.sha256(hub.raw[PATH]).hexdigest()
    assert expected in caught.value.needed and found in caught.value.found
    assert "another network" in caught.value.remedy
    assert not list(tmp_path.rglob("a file.csv*"))


@pytest.mark.parametrize("pinned", [True, False])
def test_a_kept_file_that_changed_is_refused_with_how_to_mend_it(hub, pinned):
    hub.raw[PATH] = b"a,b\n"
    options = {"sha256": hashlib.sha256(b"a,b\n").hexdigest()} if pinned else {}
    kept = fetch(**options)
    kept.write_bytes(b"a,c\n")
    with pytest.raises(DataError) as caught:
        fetch(**options)
    assert hashlib.sha256(b"a,c\n").hexdigest() in caught.value.found
    assert f"Remove {kept}" in caught.value.remedy
    kept.unlink()
    assert fetch(**options).read_bytes() == b"a,b\n"


def test_a_pinned_download_of_the_wrong_bytes_stops_llmbar(hub):
    path = f"/raw/{llmbar.REPOSITORY}/{llmbar.REVISION}/{llmbar.published('Natural')}.json"
    hub.raw[path] = b"[]"
    with pytest.raises(DataError, match=llmbar.SHA256["Natural"]):
        load_items("llmbar/Natural")


@pytest.mark.parametrize("part", llmbar.SHA256)
def test_the_pins_are_those_of_the_published_files(shared_data, part):
    content = (shared_data / "llmbar" / f"{part}.json").read_bytes()
    assert hashlib.sha256(content).hexdigest() == llmbar.SHA256[part]


def test_what_a_server_says_is_cleaned_in_time_that_grows_with_it():
    started = time.process_time()
    assert client._public("a" * 200_000) == "a" * 200_000
    assert time.process_time() - started < 2
    assert client._public("at https://anna:secret@h/x?sig=1 now") == "at https://h/x now"
