"""Files of a public GitHub repository at a pinned commit, kept in the cache.

For sets whose authors publish there and whose copy on the hub is no use to us: LLMBar's is a
loading script, which ``datasets`` no longer runs, and XSTest's completions are only in a
third party's copy for which no revision could be pinned.
"""

from __future__ import annotations

import os
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from lib import paths
from lib.errors import DataError

HOST = "https://raw.githubusercontent.com"
TIMEOUT = 60  # seconds


def fetch(repository: str, revision: str, path: str) -> Path:
    """The file's place in the cache, downloaded at the first call.

    Parameters
    ----------
    repository
        ``owner/name``.
    revision
        A commit's full hash, so that the bytes can't change.
    path
        The file's path inside the repository.

    Raises
    ------
    DataError
        When it isn't cached and can't be had, naming the file and the ``source`` option.
        With ``HF_HUB_OFFLINE`` set the network isn't tried.
    """
    kept = paths.cache() / "github" / repository / revision / path
    if kept.is_file():
        return kept
    try:
        if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
            raise OSError("HF_HUB_OFFLINE is set")
        url = f"{HOST}/{repository}/{revision}/{urllib.parse.quote(path)}"
        with urllib.request.urlopen(url, timeout=TIMEOUT) as reply:
            content = reply.read()
    except (OSError, urllib.error.URLError) as error:
        raise DataError(
            f"{path} of github.com/{repository} at {revision[:8]}",
            str(error) or type(error).__name__,
            "Give the folder that holds its files as 'source', or check the network.",
        ) from None
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=kept.parent, delete=False) as partial:
        partial.write(content)
    os.replace(partial.name, kept)
    return kept
