"""Files of a public GitHub repository at a pinned commit, kept in the cache.

For sets whose authors publish there and whose copy on the hub is no use to us: LLMBar's is a
loading script, which ``datasets`` no longer runs, and XSTest's completions are only in a
third party's copy for which no revision could be pinned.
"""

from __future__ import annotations

import hashlib
import urllib.parse
from pathlib import Path

from lib import atomic, hub, paths
from lib.data import sources
from lib.errors import DataError

HOST = "https://raw.githubusercontent.com"
TIMEOUT = 60  # seconds


def find(
    source: str | None, *stems: str, pin: tuple[str, ...], required: bool = True
) -> Path | None:
    """A file under one of the stems of a source folder; without one, what is pinned.

    ``pin`` has the arguments of ``fetch``. A file that a folder lacks is a ``DataError`` where
    it is required.
    """
    if source is None:
        return fetch(*pin)
    return (sources.require if required else sources.find)(source, *stems)


def fetch(repository: str, revision: str, path: str, sha256: str = "") -> Path:
    """The place in the cache of a file at a commit's full hash, downloaded at the first call.

    Where its ``sha256`` isn't known, that of the first download is kept beside it, and each
    later call compares with it. With ``HF_HUB_OFFLINE`` set the network isn't tried.

    Raises
    ------
    DataError
        When it isn't cached and can't be had, naming the file and the ``source`` option, or
        when it is another than it was.
    """
    kept = paths.cache() / "github" / repository / revision / path
    record = kept.with_name(f"{kept.name}.sha256")
    what = f"{path} of github.com/{repository} at {revision[:8]}"
    if kept.is_file():
        found = hashlib.sha256(kept.read_bytes()).hexdigest()
        known = sha256 or (record.read_text().strip() if record.is_file() else "")
        remedy = f"Remove {kept}: the next call fetches it again."
    else:
        url = f"{HOST}/{repository}/{revision}/{urllib.parse.quote(path)}"
        try:
            content = hub.get(url, what, TIMEOUT)
        except Exception as error:  # the client raises many kinds for the one thing
            raise DataError(
                what,
                hub.reason(error),
                "Give the folder that holds its files as 'source', or check the network.",
            ) from None
        found, known = hashlib.sha256(content).hexdigest(), sha256
        remedy = (
            "Something between here and github.com changes files: try another network, or "
            "give the folder that holds them as 'source'."
        )
    if known and found != known:
        raise DataError(f"{what} with sha256 {known}", f"one with {found}", remedy)
    if not kept.is_file():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with atomic.replacing(kept) as partial:
            partial.write_bytes(content)
    if not known:
        with atomic.replacing(record) as partial:
            partial.write_text(found)
    return kept
