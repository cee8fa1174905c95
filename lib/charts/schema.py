"""Is a spec what Vega-Lite's schema allows? As jsonschema says, in a fiftieth of its time.

jsonschema lists all that keeps an instance from each branch of an ``anyOf``; here a branch ends
with the first of it. A part of the schema is made a function when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import altair as alt
from jsonschema import Draft7Validator

Fits = Callable[[Any], bool]
KINDS = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
SILENT = {"description", "definitions", "$schema"}


def fits(chart: alt.TopLevelMixin, spec: Mapping[str, Any]) -> bool:
    """Does the spec fit the schema of the chart's class? Where it doesn't, jsonschema says why."""
    return _reached(chart._schema["$ref"])(spec)


@cache
def _reached(reference: str) -> Fits:
    definitions = alt.VegaLiteSchema._rootschema["definitions"]
    return _of(definitions[reference.removeprefix("#/definitions/")])


def _of(schema: bool | Mapping[str, Any]) -> Fits:
    if isinstance(schema, bool):
        return lambda value: schema
    if "$ref" in schema:  # what stands beside it doesn't count
        return lambda value: _reached(schema["$ref"])(value)
    parts = [
        _KEYWORDS[keyword](given, schema)
        for keyword, given in sorted(schema.items(), key=lambda pair: pair[0] != "type")
        if keyword not in SILENT
    ]
    return lambda value: all(part(value) for part in parts)


def _type(given: str | list[str], _) -> Fits:
    names = [given] if isinstance(given, str) else given
    kinds = tuple(KINDS[name] for name in names if name in KINDS)
    number = "number" in names

    def of_type(value) -> bool:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return isinstance(value, kinds)
        return number or ("integer" in names and value == value // 1)

    return of_type


def _one_of(values: list, _) -> Fits:
    kept = [(each, isinstance(each, bool)) for each in values]
    return lambda value: (value, isinstance(value, bool)) in kept


def _any(branches: list, _) -> Fits:
    made = [_of(each) for each in branches]
    return lambda value: any(branch(value) for branch in made)


def _properties(given: Mapping[str, Any], _) -> Fits:
    known = {name: _of(each) for name, each in given.items()}
    return lambda value: (
        not isinstance(value, dict)
        or all(known[name](each) for name, each in value.items() if name in known)
    )


def _others(given: bool | Mapping, schema: Mapping) -> Fits:
    known, allowed = schema.get("properties", {}).keys(), _of(given)
    return lambda value: (
        not isinstance(value, dict)
        or all(allowed(each) for name, each in value.items() if name not in known)
    )


def _each(given: Mapping, _) -> Fits:
    allowed = _of(given)
    return lambda value: not isinstance(value, list) or all(map(allowed, value))


def _within(kinds: type | tuple, of: Callable, holds: Callable) -> Callable[..., Fits]:
    """A limit on a number or a size, which says nothing of other kinds."""

    def limited(limit, _) -> Fits:
        return lambda value: (
            not isinstance(value, kinds) or isinstance(value, bool) or holds(of(value), limit)
        )

    return limited


def _least(size, limit) -> bool:
    return size >= limit


def _most(size, limit) -> bool:
    return size <= limit


_KEYWORDS: dict[str, Callable[[Any, Mapping], Fits]] = {
    "type": _type,
    "const": lambda value, _: _one_of([value], _),
    "enum": _one_of,
    "anyOf": _any,
    "properties": _properties,
    "additionalProperties": _others,
    "items": _each,
    "required": lambda names, _: (
        lambda value: not isinstance(value, dict) or value.keys() >= set(names)
    ),
    "format": lambda name, _: lambda value: Draft7Validator.FORMAT_CHECKER.conforms(value, name),
    "minimum": _within((int, float), lambda number: number, _least),
    "maximum": _within((int, float), lambda number: number, _most),
    "minItems": _within(list, len, _least),
    "maxItems": _within(list, len, _most),
    "minLength": _within(str, len, _least),
    "maxLength": _within(str, len, _most),
    "minProperties": _within(dict, len, _least),
}
