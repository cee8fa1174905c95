"""Folders that one process writes at a time, and that hold nothing of anybody else's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from lib.atomic import replacing
from lib.errors import StoreError


@contextmanager
def held(lock: Path, refuse: Callable[[Path], None], timeout: float = 0) -> Iterator[None]:
    """Hold a folder by a lock in it; it is made when it isn't there.

    Raises
    ------
    StoreError
        While another process holds it, when it can't be written, or what ``refuse`` raises
        for a folder with other things in it.
    """
    folder = lock.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        refuse(folder)
        file = FileLock(lock)
        file.acquire(timeout=timeout)
    except Timeout:
        raise StoreError(
            f"a folder that no other process is writing ({folder})",
            "one in use",
            "Wait for the other process, or name another folder.",
        ) from None
    except OSError as error:
        raise unwritable(folder, error) from None
    try:
        yield
    finally:
        file.release()


def write(path: Path, text: str) -> None:
    """Write a file by rename; a disk that has no room for it is a ``StoreError``."""
    try:
        with replacing(path) as partial:
            partial.write_text(text)
    except OSError as error:
        raise StoreError(
            f"room to write {path}", str(error), "Free some disk, or name another folder."
        ) from None


def unwritable(folder: Path, error: OSError) -> StoreError:
    """The error for a folder that can't be made or written."""
    return StoreError(f"a folder to write at {folder}", str(error), "Name another folder.")


def foreign(needed: str, found: str) -> StoreError:
    """The error for a place that holds other things."""
    return StoreError(needed, found, "Name another folder; nothing in this one was changed.")


def listed(names: Iterable[str]) -> str:
    """The first three names, and how many more there are."""
    names = sorted(names)
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{more}"
