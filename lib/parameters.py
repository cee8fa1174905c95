"""Parameters of a page: what its tagged cell declares, and what may be given for them.

A page declares each parameter once, in the cell tagged ``parameters``, as
``name: type = default  # meaning``. Papermill injects what it is given without looking at
names or types; here both are checked, before a run and again inside the page.
"""

from __future__ import annotations

import ast
import io
import json
import tokenize
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lib.errors import ParameterError, unknown

TYPES = {kind.__name__: kind for kind in (str, int, float, bool, list, dict)}
# How text from a shell is read.
READERS = TYPES | {
    "bool": lambda text: {"true": True, "false": False}[text.lower()],
    "list": json.loads,
    "dict": json.loads,
}
SEEDS = range(2**32)  # those that numpy and scikit-learn both take


@dataclass(frozen=True)
class Parameter:
    """One declared parameter."""

    name: str
    type: str
    default: Any
    meaning: str


def declared(source: str) -> dict[str, Parameter]:
    """The parameters that a cell declares, by name.

    Raises
    ------
    ParameterError
        When the cell holds anything but typed literals.
    """
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = {each.start[0]: each.string for each in tokens if each.type == tokenize.COMMENT}
    found = {}
    for node in ast.parse(source).body:
        try:
            kind, name = ast.unparse(node.annotation), node.target.id
            value = ast.literal_eval(node.value)
        except (AttributeError, TypeError, ValueError):
            kind = ""
        if kind not in TYPES:
            raise ParameterError(
                "lines like 'limit: int = 0  # meaning' alone in the parameters cell",
                repr(ast.unparse(node)),
                f"Declare a literal with one of the types {', '.join(TYPES)}.",
            )
        meaning = comments.get(node.end_lineno, "").lstrip("# ").strip()
        found[name] = Parameter(name, kind, value, meaning)
    return found


def assigned(source: str) -> set[str]:
    """Names that a cell assigns."""
    names = set()
    for node in ast.parse(source).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def check(
    known: Mapping[str, Parameter], given: Mapping[str, Any], names: Iterable[str] | None = None
) -> dict[str, Any]:
    """The given values, each of its declared type.

    Whole numbers pass for ``float``; everything else must be of the type itself, so that
    ``"seven"`` or ``True`` never passes for a number. Path-like values become text. A list
    holds texts, and a whole number named ``seed`` is one of ``SEEDS``.

    Raises
    ------
    ParameterError
        For a name that isn't declared (listing those that are), or another type.
    """
    for name in names if names is not None else given:
        if name not in known:
            raise unknown("parameter", name, known)
    return {name: _typed(known[name], value) for name, value in given.items() if name in known}


def _typed(parameter: Parameter, value: Any) -> Any:
    if hasattr(value, "__fspath__"):
        value = str(value)
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        value = value.item()
    expected = TYPES[parameter.type]
    if expected is float and type(value) is int:
        value = float(value)
    if type(value) is not expected:
        meaning = f" ({parameter.meaning})" if parameter.meaning else ""
        raise ParameterError(
            f"{parameter.name} of type {parameter.type}{meaning}",
            f"{value!r} of type {type(value).__name__}",
            f"The default is {parameter.default!r}.",
        )
    if expected is list:
        value = [str(each) if hasattr(each, "__fspath__") else each for each in value]
        if not all(isinstance(each, str) for each in value):
            needed = f"{parameter.name} as a list of texts"
            raise ParameterError(needed, repr(value), "Put each in quotes.")
    if expected is int and parameter.name == "seed" and value not in SEEDS:
        raise ParameterError(f"a seed from 0 to {SEEDS[-1]}", repr(value), "Give another.")
    return value


def from_text(parameter: Parameter, text: str) -> Any:
    """A value typed at a shell, read by its declared type and not by its looks.

    ``007`` stays text for a ``str``; lists and dicts are written as JSON.

    Raises
    ------
    ParameterError
        When the text isn't of that type.
    """
    try:
        return _typed(parameter, READERS[parameter.type](text))
    except (ValueError, KeyError):
        needed = f"{parameter.name} of type {parameter.type}"
        raise ParameterError(needed, repr(text), "Write it as such.") from None
