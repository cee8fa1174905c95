"""Files of the Hugging Face hub: fetched whole, kept in its client's cache, refused in words.

``snapshot`` is the one way to the network for models and datasets. What it downloads and
how much room that takes is said first; a hub that is busy is waited for, and a name that
can't be had is explained.
"""

from __future__ import annotations

import difflib
import errno
import logging
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from glob import escape
from pathlib import Path
from typing import TypeVar

from lib.errors import AuditError, DataError, ModelError

BUSY = (408, 429, 500, 502, 503, 504)
BROKEN = ("ReadError", "ReadTimeout", "RemoteProtocolError")  # of the client's transport
PATIENCE = 310.0  # seconds that a server is waited for, in all; the hub counts requests by 300
FIRST_WAIT = 2.0  # seconds, doubled each time, where the hub names none
EVERY = 10.0  # seconds between two lines about a download
ERRORS = {"model": ModelError, "dataset": DataError}
ELSEWHERE = {
    "model": "fetch it where there is a network (hf download NAME) and give the folder",
    "dataset": "give the folder that holds its files as 'source'",
}
T = TypeVar("T")
_under_way: list[threading.Event] = []  # of what is said to go on, the innermost last


def snapshot(
    name: str,
    *,
    kind: str = "model",
    revision: str | None = None,
    first: str,
    choose: Callable[[Mapping[str, int], Callable[[str], Path]], Collection[str]],
) -> Path:
    """The folder of a repository on the hub, with the files that are wanted.

    Parameters
    ----------
    name
        ``owner/name``.
    kind
        ``"model"`` or ``"dataset"``.
    revision
        Branch, tag or commit; the default branch when ``None``. A branch that can't be
        looked up is the one that the cache last saw.
    first
        A small file that such a repository has.
    choose
        Given the size in bytes of each file of the repository, by path, and what fetches
        one of them: the paths that are wanted.

    Returns
    -------
    Path
        A folder of the client's cache, named by the commit.

    Raises
    ------
    ModelError, DataError
        By ``kind``: when the files are neither on this machine nor to be had, with what
        the hub answered and what to do; or when they don't fit on the disk.
    """
    from huggingface_hub import (
        constants,
        get_cached_repo_tree,
        snapshot_download,
        try_to_load_from_cache,
    )
    from huggingface_hub.errors import CachedRepoTreeNotFoundError
    from tqdm import tqdm

    def fetch(paths: Collection[str], at: str | None, bars: bool = False) -> Path:
        get = partial(
            snapshot_download,
            name,
            repo_type=kind,
            revision=at,
            allow_patterns=[escape(path) for path in paths],
            tqdm_class=partial(tqdm, disable=not bars),
        )
        return Path(patiently(get, name))

    _discreet()
    try:
        seen = try_to_load_from_cache(name, first, revision=revision, repo_type=kind)
        before = Path(seen).parent.name if isinstance(seen, str) else ""
        folder = fetch([first], revision)
        if before not in ("", folder.name):
            say(f"{name} has moved: it was at {before[:8]} and is at {folder.name[:8]} now")
        try:
            tree = get_cached_repo_tree(name, repo_type=kind, revision=folder.name)
        except CachedRepoTreeNotFoundError:  # kept by an older client, and the hub out of reach
            return folder
        sizes = {file.path: file.size for file in tree}
        wanted = choose(sizes, lambda path: fetch([path], folder.name) / path)
        absent = {path: sizes[path] for path in wanted if not (folder / path).is_file()}
        if absent and constants.HF_HUB_OFFLINE:
            lacking = ", ".join(sorted(absent)[:3])
            raise ERRORS[kind](
                f"the {kind} {name} at {folder.name[:8]}, whole",
                f"only a part of it in the cache (not {lacking}), and HF_HUB_OFFLINE is set",
                f"Unset HF_HUB_OFFLINE to fetch the rest, or {ELSEWHERE[kind]}.",
            )
        if absent:
            total = _announce(name, folder, absent, kind)
            with _watched(name, folder, total):
                fetch(absent, folder.name, bars=sys.stderr.isatty())
        return folder
    except AuditError:
        raise
    except Exception as error:  # the client raises many kinds for the one thing
        raise refused(error, name, kind, revision) from None


def get(url: str, name: str, timeout: float) -> bytes:
    """The bytes at an address outside of the hub, waited for like the hub's."""
    from huggingface_hub.utils import get_session, hf_raise_for_status

    def attempt() -> bytes:
        response = get_session().get(url, timeout=timeout)
        hf_raise_for_status(response)
        return response.content

    _discreet()
    return patiently(attempt, name)


def patiently(attempt: Callable[[], T], name: str) -> T:
    """What ``attempt`` returns, tried again while a server is busy or connections break.

    It waits as long as the server asks for, else longer each time, and begins no wait that
    would end more than ``PATIENCE`` seconds after the first try; each wait is said.
    """
    end, wait = time.monotonic() + PATIENCE, FIRST_WAIT
    while True:
        try:
            return attempt()
        except Exception as error:
            response = _response(error)
            if response is not None and response.status_code in BUSY:
                why, asked = f"the server is busy (HTTP {response.status_code})", _asked(response)
            elif any(type(each).__name__ in BROKEN for each in _chain(error)):
                why, asked = "the connection broke", None
            else:
                raise
            pause = asked or wait  # 0 is no wait that a busy server wants
            if time.monotonic() + pause > end:
                raise
            say(f"{name}: {why}; next try in {pause:g} s")
            time.sleep(pause)
            wait *= 2


def refused(error: Exception, name: str, kind: str, revision: str | None = None) -> AuditError:
    """The error of ours for one of the hub's client: what it means and what to do."""
    from huggingface_hub import errors, get_token

    chain = list(_chain(error))
    response = _response(error)
    status = response.status_code if response is not None else None
    at = f" at revision {revision[:40]}" if revision else ""
    needed = f"the {kind} {name}{at}" + (", as a folder or on the hub" if kind == "model" else "")
    missing = "no such folder, and " if kind == "model" else ""
    elsewhere = ELSEWHERE[kind]
    page = f"huggingface.co/{'datasets/' if kind == 'dataset' else ''}{name}"
    log_in = "log in (hf auth login, or set HF_TOKEN)"

    def is_any(*types: type) -> bool:
        return any(isinstance(each, types) for each in chain)

    if status == 401 and "invalid credentials" in str(error).lower():
        found = "a token that the hub doesn't know (HTTP 401)"
        remedy = f"Log in again (hf auth login, or set HF_TOKEN), or log out; or {elsewhere}."
    elif is_any(errors.GatedRepoError):
        who = "an account without access" if get_token() else "nobody logged in"
        found = f"it is gated, and {who} (HTTP {status})"
        remedy = f"Accept its terms at {page}, then {log_in} with that account; or {elsewhere}."
    elif is_any(errors.RevisionNotFoundError):
        found = "no such branch, tag or commit in that repository"
        remedy = f"Look it up at {page}, or leave it out for the newest."
    elif is_any(errors.RepositoryNotFoundError) or status in (401, 404):
        near = _nearest(name, kind)
        found = f"{missing}none of that name that the hub shows to this account (HTTP {status})"
        hint = f"Did you mean {' or '.join(near)}? " if near else ""
        remedy = f"{hint}Check its spelling; for a private one {log_in}; or {elsewhere}."
    elif status == 403:
        found = f"access refused (HTTP 403): {said(error)}"
        remedy = f"Use a token that may read it: {log_in}; or {elsewhere}."
    elif status in BUSY:
        found = reason(error)
        remedy = f"Try again later (logged in, more requests are allowed), or {elsewhere}."
    elif is_any(errors.OfflineModeIsEnabled):
        found = f"{missing}{reason(error)}"
        remedy = f"Check its name; unset HF_HUB_OFFLINE, or {elsewhere}."
    elif any(isinstance(each, OSError) and each.errno == errno.ENOSPC for each in chain):
        return _no_room(needed, "no room left while it was downloaded", kind)
    else:
        found = f"{missing}{said(error)}"
        remedy = f"Check its name and the network; or {elsewhere}."
    return ERRORS[kind](needed, found, remedy)


def reason(error: Exception) -> str:
    """Why something couldn't be fetched, in a few words."""
    from huggingface_hub.errors import OfflineModeIsEnabled

    response = _response(error)
    if response is not None and response.status_code in BUSY:
        asked = _asked(response)
        wish = "" if asked is None else f" that asks to wait {asked:g} s"
        return f"a busy server (HTTP {response.status_code}){wish}"
    if any(isinstance(each, OfflineModeIsEnabled) for each in _chain(error)):
        return "none in the cache, and HF_HUB_OFFLINE is set"
    return said(error)


def said(error: Exception) -> str:
    """The first line of a message, without tokens, or credentials and queries of a URL."""
    lines = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip().splitlines()
    return _public(lines[0] if lines else type(error).__name__)[:200]


def _public(text: str) -> str:
    text = re.sub(r"\b(\w+://)[^/\s@]*@", r"\1", text)
    text = re.sub(r"\b(\w+://[^\s?]*)\?\S*", r"\1", text)
    return re.sub(r"\bhf_[A-Za-z0-9]{6,}", "hf_…", text)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _response(error: Exception):
    """The answer of the hub that an error came from."""
    found = (getattr(each, "response", None) for each in _chain(error))
    return next((response for response in found if response is not None), None)


def _asked(response) -> float | None:
    """Seconds that a server asks to wait: ``Retry-After``, or the end of a rate's window."""
    after = response.headers.get("Retry-After") or ""
    window = re.search(r"r\s*=\s*0\s*;\s*t\s*=\s*(\d+)", response.headers.get("RateLimit") or "")
    given = after if after.isdecimal() else window and window[1]
    return float(given) if given else None


def _nearest(name: str, kind: str) -> list[str]:
    """Names on the hub that are like this one, of the same owner or of any."""
    from huggingface_hub import HfApi

    owner, _, short = name.rpartition("/")
    listing = {"model": HfApi().list_models, "dataset": HfApi().list_datasets}[kind]
    found: set[str] = set()
    for asked in ({"author": owner}, {"search": short}):
        try:
            found |= {each.id for each in listing(limit=100, **asked)}
        except Exception:  # only a hint
            continue
    return difflib.get_close_matches(name, sorted(found), n=2)


def _announce(name: str, folder: Path, absent: Mapping[str, int], kind: str) -> int:
    total = sum(absent.values())
    place = folder.parents[2]  # the cache, of this and of other repositories
    free = shutil.disk_usage(place).free
    files = f"{len(absent)} file{'s' * (len(absent) != 1)}"
    room = f"{_bytes(free)} free at {place}"
    say(f"{name} at {folder.name[:8]}: {_bytes(total)} in {files} to download; {room}")
    if total > free:
        raise _no_room(f"{_bytes(total)} of disk space for {name}", room, kind)
    return total


def _no_room(needed: str, found: str, kind: str) -> AuditError:
    return ERRORS[kind](
        needed, found, "Free some, or set HF_HOME to a folder on a larger disk; nothing is lost."
    )


@contextmanager
def under_way(what: str) -> Iterator[None]:
    """Inside, say what is done: when it begins, and every so often how long it has taken."""
    say(f"{what} …")
    with _ticking(lambda seconds: f"{what}: {seconds:.0f} s so far"):
        yield


@contextmanager
def _watched(name: str, folder: Path, total: int) -> Iterator[None]:
    """Inside, lines say how far a download is, where the client's own bars aren't shown."""
    blobs = folder.parents[1] / "blobs"
    before = _held(blobs)

    def so_far(seconds: float) -> str:
        got = _held(blobs) - before
        return f"{name}: {_bytes(got)} of {_bytes(total)}, {_bytes(got / seconds)} a second"

    with _ticking(so_far, shown=not sys.stderr.isatty()):
        yield


@contextmanager
def _ticking(sentence: Callable[[float], str], shown: bool = True) -> Iterator[None]:
    """Say a sentence about the seconds gone by, now and then, but for what goes on inside."""
    done, start = threading.Event(), time.monotonic()

    def lines() -> None:
        while not done.wait(EVERY):
            if shown and _under_way[-1] is done:
                say(sentence(time.monotonic() - start))

    _under_way.append(done)
    threading.Thread(target=lines, daemon=True).start()
    try:
        yield
    finally:
        done.set()
        _under_way.remove(done)


def _held(folder: Path) -> int:
    if not folder.is_dir():
        return 0
    total = 0
    for entry in os.scandir(folder):
        try:
            total += entry.stat().st_size
        except FileNotFoundError:  # moved between the two calls
            continue
    return total


def _bytes(count: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def _discreet() -> None:
    """The client's own warnings hold no signed addresses; a server can't make it wait for hours."""
    from huggingface_hub.utils import get_session

    for handler in logging.getLogger("huggingface_hub").handlers:
        if _cleaned not in handler.filters:
            handler.addFilter(_cleaned)
    answered = get_session().event_hooks["response"]
    if _bounded not in answered:
        answered.append(_bounded)


def _cleaned(record: logging.LogRecord) -> bool:
    record.msg, record.args = _public(record.getMessage()), ()
    return True


class BusyError(OSError):
    """A server asks for a longer wait than anybody has patience for."""

    def __init__(self, response):
        self.response = response
        super().__init__(f"HTTP {response.status_code}")


def _bounded(response) -> None:
    # Without an answer to this one the client takes what its cache has.
    looks_up = "/revision/" in response.request.url.path
    if response.status_code in BUSY and not looks_up and (_asked(response) or 0) > PATIENCE:
        raise BusyError(response)


def say(sentence: str) -> None:
    """A line for whoever waits: on stderr, at once."""
    print(sentence, file=sys.stderr, flush=True)
