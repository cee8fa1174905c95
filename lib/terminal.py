"""Text for a terminal: lines that fit it, columns that stand below one another."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Sequence

NARROWEST, WIDEST = 60, 120


def fitting(width: int) -> int:
    """The width, where it is one that can be read."""
    return min(max(width, NARROWEST), WIDEST)


def wrapped(text: str, width: int, first: str = "", rest: str | None = None) -> list[str]:
    """Lines of a text, behind ``first`` and below it ``rest``, or ``first`` again; words with
    hyphens stay whole.
    """
    rest = first if rest is None else rest
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )


def grid(cells: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Rows of texts in columns as wide as they need, those at the places ``right`` flush right."""
    wide = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(
            text.rjust(size) if place in right else text.ljust(size)
            for place, (text, size) in enumerate(zip(line, wide, strict=True))
        ).rstrip()
        for line in cells
    ]
