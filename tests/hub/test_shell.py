"""The shell's commands with names of a hub: processes of their own, as a user starts them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from lib import hub as client
from lib import paths
from lib.__main__ import main

NAME = "some-org/tiny-rm"


@pytest.fixture
def command(served, tmp_path):
    """Runs ``python -m lib`` with the hub and a cache of its own."""

    def run(*words: str, **settings: str) -> subprocess.CompletedProcess:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
        settings = {
            "HF_ENDPOINT": served.url,
            "HF_HOME": str(tmp_path / "hf"),
            "REWARD_AUDIT_CACHE": str(tmp_path / "audit"),
            **settings,
        }
        return subprocess.run(
            [sys.executable, "-m", "lib", *words],
            cwd=paths.ROOT,
            env=kept | settings,
            capture_output=True,
            text=True,
            timeout=120,
        )

    return run


def test_extract_says_what_it_reads_fetches_and_loads(served, classifier, command, tmp_path):
    served.add(NAME, classifier)
    words = ("extract", "--model", NAME, "--dataset", "stimuli/probes", "--limit", "2")
    done = command(*words, "--out", str(tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    told = done.stderr.splitlines()
    assert told[:2] == ["Reading stimuli/probes …", f"Loading {NAME} …"]
    assert told[2].startswith(f"{NAME} at aaaaaaaa: ")
    assert "%|" not in done.stderr  # no bars where nobody watches a terminal


def test_audit_says_the_same_before_it_builds(hub, classifier, monkeypatch, tmp_path, capfd):
    written = []
    monkeypatch.setattr("lib.book.build.build", lambda cores: tmp_path / "index.html")
    monkeypatch.setattr("lib.book.plan.add", written.append)
    hub.add(NAME, classifier)
    words = ["audit", "--model", NAME, "--datasets", "stimuli/probes", "--limit", "2"]
    assert main(words) == 0
    told = capfd.readouterr().err.splitlines()
    assert told[:2] == ["Reading stimuli/probes …", f"Loading {NAME} …"]
    assert told[2].startswith(f"{NAME} at aaaaaaaa: ") and "to download" in told[2]
    assert [entry["model"] for entry in written] == [NAME]


def test_audit_of_a_set_that_cannot_be_had_writes_nothing(hub, monkeypatch, capfd):
    written = []
    monkeypatch.setattr("lib.book.plan.add", written.append)
    words = ["audit", "--model", NAME, "--datasets", "hh-rlhf/harmless-base"]
    assert main(words) == 1 and not written
    last = capfd.readouterr().err.splitlines()[-1]
    assert last.startswith("DataError: needed the dataset Anthropic/hh-rlhf at revision 09be8c5b")


def test_a_name_that_cannot_be_had_is_one_line_and_exit_status_1(hub, classifier, capfd):
    hub.add(NAME, classifier, gated=401)
    assert main(["extract", "--dataset", "stimuli/probes", "--out", "none", "--model", NAME]) == 1
    gated = capfd.readouterr()
    last = gated.err.splitlines()[-1]
    assert last.startswith("ModelError: needed the model some-org/tiny-rm")
    assert "hf auth login" in last and "Traceback" not in gated.err and not gated.out


def test_how_long_loading_takes_is_said_now_and_then_but_not_over_what_is_inside(
    monkeypatch, capfd
):
    monkeypatch.setattr(client, "EVERY", 0.01)
    with client.under_way("Loading a"):
        _wait_for(capfd, "Loading a: 0 s so far")
        with client.under_way("Reading b"):
            told = _wait_for(capfd, "Reading b: 0 s so far\nReading b: 0 s so far")
            assert "Loading a" not in told.partition("Reading b: ")[2]


def _wait_for(capfd, text: str) -> str:
    import time

    told = ""
    for _ in range(500):
        told += capfd.readouterr().err
        if text in told:
            return told
        time.sleep(0.01)
    raise AssertionError(told)
