"""The errors a user meets: each says what was needed, what was found, and what to do.

``AuditError`` is the root, so a caller can catch everything of ours in one line. The
subclasses name the stage that failed; their three fields are kept apart from the message
for programs that want them.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lib.visible import visible

MOST = 5_000  # characters of a part of a message


class AuditError(Exception):
    """Something the user can mend.

    Attributes
    ----------
    needed, found, remedy
        The three parts of the message, as given; the message shows control codes as pictures.
    """

    def __init__(self, needed: str, found: str, remedy: str):
        self.needed, self.found, self.remedy = needed, found, remedy
        said = (text if len(text) <= MOST else f"{text[:MOST]}…" for text in map(str, self.fields))
        super().__init__(visible("needed {}; found {}. {}".format(*said)))

    @property
    def fields(self) -> tuple[str, str, str]:
        """Needed, found and remedy."""
        return self.needed, self.found, self.remedy

    def __reduce__(self):
        return type(self), self.fields


class DataError(AuditError):
    """A dataset, a source folder or a row that can't be used."""


class ModelError(AuditError):
    """A model, its heads or its tokenizer that can't be used."""


class StoreError(AuditError):
    """A store of extracted states that is damaged, foreign or in use."""


class ParameterError(AuditError):
    """A parameter of a page or command with an unknown name or a wrong type."""


class PageError(AuditError):
    """A notebook that did not run to its end."""


def unknown(
    kind: str, name: str, known: Iterable[str], error: type[AuditError] = ParameterError
) -> AuditError:
    """An error for a name that isn't known, with the known ones and the nearest of them."""
    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    return error(f"a known {kind}", f"{name!r}", f"{hint}Known: {', '.join(known) or 'none'}.")


def unreadable(
    kind: str, path: Path, refused: OSError, error: type[AuditError] = DataError
) -> AuditError:
    """An error for a file or folder that the system refuses to look at or read."""
    return error(
        f"a readable {kind} at {path}",
        refused.strerror or f"{refused}",
        "Check the path and its permissions.",
    )


@contextmanager
def readable(kind: str, path: Path, error: type[AuditError] = DataError) -> Iterator[None]:
    """Inside, what the system refuses is the error of ``unreadable``."""
    try:
        yield
    except OSError as refused:
        raise unreadable(kind, path, refused, error) from None
