"""What the system refuses to read or write, as an error that says what to do about it."""

from __future__ import annotations

import errno

from lib.errors import StoreError

ROOM = "Free some disk, or name a place on another."
ALLOWED = "Check that you may read and write there, or name another place."
NAMED = "Check the name: each folder on the way to it has to be one that is there."
REMEDIES = {
    errno.ENOSPC: ROOM,
    errno.EDQUOT: ROOM,
    errno.EACCES: ALLOWED,
    errno.EPERM: ALLOWED,
    errno.EROFS: ALLOWED,
    errno.ENOENT: NAMED,
    errno.ENOTDIR: NAMED,
    errno.EEXIST: "Name another place, or take away what is there.",
    errno.ENAMETOOLONG: "Name a shorter one.",
    errno.EMFILE: "Let a process have more open files: ulimit -n",
}
OTHER = "Check that the place can be read and written, and its disk has room."


def refused(error: OSError) -> StoreError:
    """The error for what the system refused."""
    return StoreError("to read and write files", f"{error}", remedy(error))


def remedy(error: OSError) -> str:
    """What to do about what the system refused."""
    return REMEDIES.get(error.errno or 0, OTHER)
