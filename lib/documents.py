"""Documents written elsewhere, read through one guard.

A configuration, an index or a card may be of any size, depth and shape, may be a pipe that
never ends, and may hold text that no file can be written with. What passes here is a
regular file of bounded size, in UTF-8, nested no deeper than programs that walk it can
follow, with each key once, finite numbers, whole ones of bounded length, and text that can
be encoded again.
"""

from __future__ import annotations

import functools
import json
import math
import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from lib.errors import AuditError, DataError, unreadable

LIMIT = 16 << 20  # bytes: the longest index of a released model has 9 million
DEPTH = 64
DIGITS = 100  # of a whole number; the largest float has 309
SHOWN = 80  # characters of a value that an error shows
REMEDY = "Write the file again, or fetch it again from where it came."


class OnceEach(yaml.SafeLoader):
    """Safe; a key that is there twice is refused, since one value of it would be lost."""

    def compose_mapping_node(self, anchor):
        """The node, its keys counted."""
        return once_each(super().compose_mapping_node(anchor))


def once_each(node: yaml.MappingNode) -> yaml.MappingNode:
    """The node; a ``YAMLError`` for a key that is there twice."""
    keys = Counter(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode))
    for key, count in keys.items():
        if count > 1:
            line = node.start_mark.line + 1
            raise yaml.YAMLError(f"{key} {count} times in the entry at line {line}")
    return node


def read_bytes(
    path: Path,
    *,
    what: str,
    error: type[AuditError] = DataError,
    limit: int = LIMIT,
    remedy: str = REMEDY,
) -> bytes:
    """All of a regular file; links are followed.

    An ``AuditError`` of the class and with the remedy given, for ``what`` isn't there, is a
    folder, a pipe or a device, has more than ``limit`` bytes, or can't be read.
    """

    def refused(found: str) -> AuditError:
        return error(f"{what} at {path}", found, remedy)

    try:
        # Opening a pipe would wait for its writer.
        number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with open(number, "rb") as stream:
            held = os.fstat(number)
            if not stat.S_ISREG(held.st_mode):
                raise refused("no regular file")
            most = min(limit, held.st_size)
            content = stream.read(most + 1)  # room for so many bytes is taken at once
    except FileNotFoundError:
        raise refused("no such file") from None
    except IsADirectoryError:
        raise refused("a folder") from None
    except ValueError as reason:  # a NUL in the path
        raise refused(str(reason)) from None
    except OSError as reason:
        raise unreadable("file", path, reason, error) from None
    if len(content) > most:
        raise refused(f"more than {most:,} bytes" + ("" if most == limit else ", the size it had"))
    return content


def read_json(
    path: Path,
    *,
    what: str,
    error: type[AuditError] = DataError,
    limit: int = LIMIT,
    remedy: str = REMEDY,
    fields: Mapping[str, Any] | None = None,
    finite: bool = True,
) -> dict:
    """The object that a JSON file holds.

    An ``AuditError`` for what ``read_bytes``, ``parse_json`` or, with the types of ``fields``,
    ``check_fields`` refuses, and for JSON that is no object.
    """
    content = read_bytes(path, what=what, error=error, limit=limit, remedy=remedy)
    try:
        document = parse_json(content, finite=finite)
        if not isinstance(document, dict):
            raise ValueError("JSON that is no object")
    except ValueError as reason:
        raise error(f"{what} at {path}", str(reason), remedy) from None
    check_fields(document, fields or {}, what=f"{what} at {path}", error=error, remedy=remedy)
    return document


def parse_json(text: str | bytes, *, finite: bool = True) -> Any:
    """The value of a JSON text, in UTF-8 where it is bytes.

    Raises
    ------
    ValueError
        For malformed JSON or UTF-8, a key that occurs twice in an object, values nested
        deeper than ``DEPTH``, whole numbers of more than ``DIGITS`` digits, text with half
        of a surrogate pair, and, unless ``finite`` is false, NaN, infinities and numbers
        beyond the range of a float. The message says which and where.
    """
    try:
        text = text.decode("utf-8") if isinstance(text, bytes) else text
        value = _DOCUMENTS.decode(text)
    except RecursionError:
        raise ValueError(f"values nested more than {DEPTH} deep") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as reason:
        raise ValueError(f"not JSON: {reason}") from None
    _walk(value, finite)
    return value


def decode(text: str) -> Any:
    """The value of one row of a JSON text, whose numbers and texts readers of rows check.

    Raises
    ------
    ValueError
        For malformed JSON (a ``JSONDecodeError``, which has the place), a key that occurs
        twice in an object, an integer with more digits than Python reads, or values nested
        too deeply; the message says which.
    """
    try:
        return ROWS.decode(text)
    except RecursionError:
        raise ValueError("values nested too deeply") from None


def check_fields(
    document: Mapping,
    fields: Mapping[str, Any],
    *,
    what: str,
    error: type[AuditError] = DataError,
    remedy: str = REMEDY,
) -> None:
    """Raise the error for a field of another type, and name it; absent fields pass.

    Types are annotations (``dict[str, str]``, ``int | None``). Nothing is converted: ``"512"``
    is no ``int``, and neither is ``True``.
    """
    for name, kind in fields.items():
        if name in document:
            wrong = misfit(document[name], kind)
            if wrong:
                place, needed, found = wrong
                field = ".".join([name, *place])[:SHOWN]
                raise error(f"{needed} as {field} in {what}", found, remedy)


@functools.cache
def _adapter(kind):
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def misfit(value, kind, context: Any = None) -> tuple[list[str], str, str] | None:
    """Place, what was needed there and what was found, of a value that isn't of the type."""
    from pydantic import ValidationError

    try:
        _adapter(kind).validate_python(value, strict=True, context=context)
    except ValidationError as refused:
        wrong = refused.errors(include_url=False, include_context=False)
        found = wrong[0]["input"]
        arms = [each for each in wrong if each["input"] is found]
        needed = " or ".join(dict.fromkeys(_needed(each["msg"]) for each in arms))
        # A union's arms are named after the place; only keys of the value are places in it.
        place, inner = [], value
        for part in wrong[0]["loc"]:
            listed = isinstance(inner, list) and isinstance(part, int) and part < len(inner)
            if listed or (isinstance(inner, Mapping) and part in inner):
                place, inner = [*place, str(part)], inner[part]
        if wrong[0]["type"] == "missing":
            return [*place, wrong[0]["loc"][-1]], "a value", "none"
        return place, needed, shown(found)
    return None


def _needed(message: str) -> str:
    """What a message of pydantic asks for: ``a valid integer``, ``a number less than …``."""
    message = message.removeprefix("Input should be ").partition(" or instance of ")[0]
    message = re.sub(r"^(greater|less) than", r"a number \1 than", message)
    return re.sub(r"^(String|List) should", lambda kind: f"a {kind[1].lower()} to", message)


def shown(value) -> str:
    """A value of a document, as an error shows it."""
    text = json.dumps(value, default=repr)
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"


def first_repeated(names: Iterable[str]) -> str | None:
    """The first name that occurs more than once."""
    return next((name for name, count in Counter(names).items() if count > 1), None)


def _object(pairs: list[tuple]) -> dict:
    held = dict(pairs)
    if len(held) < len(pairs):
        raise ValueError(f"the key {first_repeated(key for key, _ in pairs)!r} more than once")
    return held


def _whole(digits: str) -> int:
    if len(digits) > DIGITS:
        raise ValueError(f"a whole number of {len(digits):,} digits")
    return int(digits)


# Made once: one costs as much as a row.
ROWS = json.JSONDecoder(object_pairs_hook=_object)
_DOCUMENTS = json.JSONDecoder(object_pairs_hook=_object, parse_int=_whole)


def _walk(value, finite: bool) -> None:
    """Raise a ``ValueError`` for what is nested too deeply, and for what can't be written again."""
    level = [("", value)]
    for _ in range(DEPTH + 1):
        below = []
        for name, held in level:
            if isinstance(held, dict):
                for key in held:
                    _encodable(key, key)
                below += held.items()
            elif isinstance(held, list):
                below += [(name, each) for each in held]
            elif isinstance(held, str):
                _encodable(held, name)
            elif finite and isinstance(held, float) and not math.isfinite(held):
                raise ValueError(f"a number that isn't finite ({held}) in {name[:SHOWN]!a}")
        if not below:
            return
        level = below
    raise ValueError(f"values nested more than {DEPTH} deep")


def _encodable(text: str, name: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError(f"half of a surrogate pair in {name[:SHOWN]!a}") from None
