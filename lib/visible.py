"""Characters that would act rather than be seen, made visible.

``visible``  of a text
``console``  of all that is printed
"""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

PICTURES = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\n\t"}
PICTURES |= {code: "\ufffd" for code in range(0x7F, 0xA0)}
_DIRECTION = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
PICTURES |= {code: f"[U+{code:04X}]" for code in _DIRECTION}


def visible(text: str) -> str:
    """Control codes as their pictures (ESC is ␛) and direction marks by name; breaks stay."""
    return text.translate(PICTURES)


@contextmanager
def console() -> Iterator[None]:
    """Inside, whatever is written to stdout and stderr passes ``visible``, by whomever.

    What isn't caught inside is told here and ends the program.
    """
    before = sys.stdout, sys.stderr
    for stream in before:  # what a terminal can't show is escaped
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    sys.stdout, sys.stderr = map(_Neutral, before)
    try:
        yield
    except Exception:
        traceback.print_exc()  # later the interpreter would print it as it stands
        raise SystemExit(1) from None
    finally:
        sys.stdout, sys.stderr = before


class _Neutral:
    """A text stream whose text is made visible; a progress bar may still move on a terminal."""

    _MOVES = re.compile(r"\r|(?:\n|\x1b\[A)*")  # what tqdm begins a line with, or sends alone

    def __init__(self, stream):
        self._stream = stream

    def write(self, text: str) -> int:
        moves = self._MOVES.match(text)[0] if self._stream.isatty() else ""
        if moves not in ("\r", text):
            moves = ""
        self._stream.write(moves + visible(text[len(moves) :]))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str):
        return getattr(self._stream, name)
