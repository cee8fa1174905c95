"""A hub on this machine, and the real clients of the hub that know no other."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import local_hub
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "models"))


@pytest.fixture
def served():
    """A hub without repositories, on a port of its own."""
    hub, server = local_hub.serve()
    yield hub
    server.shutdown()
    server.server_close()


@pytest.fixture
def hub(served, tmp_path, monkeypatch):
    """The same, where this process's client looks, with an empty cache and nobody logged in."""
    from huggingface_hub import constants, file_download
    from huggingface_hub.utils import _http

    from lib import hub as client
    from lib.data import github

    for name, value in {
        "ENDPOINT": served.url,
        "HUGGINGFACE_CO_URL_TEMPLATE": served.url + "/{repo_id}/resolve/{revision}/{filename}",
        "HF_HUB_CACHE": str(tmp_path / ".cache" / "hub"),
        "HF_TOKEN_PATH": str(tmp_path / "token"),
        "HF_HUB_OFFLINE": False,
    }.items():
        monkeypatch.setattr(constants, name, value)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setenv("REWARD_AUDIT_CACHE", str(tmp_path / "audit"))
    monkeypatch.setattr(github, "HOST", f"{served.url}/raw")
    monkeypatch.setattr(client, "FIRST_WAIT", 0.01)
    monkeypatch.setattr(client, "PATIENCE", 2)
    for module in (_http, file_download):  # its own waits between tries
        monkeypatch.setattr(module, "time", SimpleNamespace(sleep=lambda seconds: None))
    return served


@pytest.fixture
def offline(monkeypatch):
    """Makes the client's network forbidden, as ``HF_HUB_OFFLINE=1`` does."""

    def forbid() -> None:
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    return forbid


@pytest.fixture(scope="session")
def classifier(tmp_path_factory) -> dict[str, bytes]:
    """Files of a tiny reward model of three heads, by path."""
    import tiny

    folder = tmp_path_factory.mktemp("classifier")
    tiny.write_classifier(folder, labels=3)
    return {path.name: path.read_bytes() for path in folder.iterdir()}
