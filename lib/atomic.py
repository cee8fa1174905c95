"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replacing(target: str | Path) -> Iterator[Path]:
    """A place to write what takes the target's name once the block is done.

    On an error the target stays as it was, and what was written is removed. A process that
    is killed inside leaves ``NAME.partial-…`` beside the target, named after all of it.

    Parameters
    ----------
    target
        A file, in a folder that is there.
    """
    target = Path(target)
    # Of its own even where processes of several hosts write to one disk.
    partial = target.with_name(f"{target.name}.partial-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        yield partial
        os.replace(partial, target)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()
