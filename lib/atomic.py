"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replacing(target: str | Path) -> Iterator[Path]:
    """A place to write what takes the target's name once the block is done.

    On an error the target stays as it was, and what was written is removed. A process that
    is killed inside leaves ``NAME.partial-…`` beside the target, named after all of it.
    """
    target = Path(target)
    # Of its own even where processes of several hosts write to one disk.
    partial = target.with_name(f"{target.name}.partial-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        yield partial
        as_others(partial)
        os.replace(partial, target)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()


def as_others(path: str | Path) -> None:
    """Give a file or folder that was made for its owner alone the mode that new ones have here."""
    mask = os.umask(0o077)
    os.umask(mask)
    mode = os.stat(path).st_mode
    most = 0o777 if stat.S_ISDIR(mode) else 0o666
    with contextlib.suppress(PermissionError):  # another's
        os.chmod(path, stat.S_IMODE(mode) | (most & ~mask))


def exchange(first: str | Path, second: str | Path) -> bool:
    """Let two names of one disk change places in one step; false where the system has none."""
    libc = ctypes.CDLL(None)
    names = os.fsencode(first), os.fsencode(second)
    if hasattr(libc, "renameat2"):  # Linux: in the working folder, RENAME_EXCHANGE
        here, flag = -100, 2
        return libc.renameat2(here, names[0], here, names[1], flag) == 0
    if hasattr(libc, "renamex_np"):  # macOS: RENAME_SWAP
        return libc.renamex_np(*names, 2) == 0
    return False
