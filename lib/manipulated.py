"""Names of datasets whose own responses are manipulated: ``NAME#FORM,FORM``.

``file:answers.jsonl#length,formatting`` is the file's responses, each beside itself padded and
beside itself in Markdown; ``#all`` asks for every form that can be put to any of them.
``lib.data.manipulations`` has the forms. A ``#`` within a path is the path's own: what follows
the last one is forms only where neither a dot nor a slash is in it.
"""

from __future__ import annotations

from collections.abc import Sequence

MARK, ALL = "#", "all"


def split(name: str) -> tuple[str, tuple[str, ...]]:
    """The dataset's own name and the forms asked for; none for a dataset as it is."""
    own, mark, forms = name.rpartition(MARK)
    if not mark or "." in forms or "/" in forms:
        return name, ()
    return own, tuple(forms.split(","))


def joined(name: str, forms: Sequence[str]) -> str:
    """The name that asks for these forms; all of them where none is named."""
    return f"{name}{MARK}{','.join(forms) or ALL}"
