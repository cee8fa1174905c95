"""Is a spec what Vega-Lite's schema allows? As jsonschema says, in a fraction of its time.

Altair's own validation lists all that keeps a spec from each branch of the schema; jsonschema-rs
says whether it fits. Where it doesn't, altair is asked for the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import quote

import altair as alt
import jsonschema_rs


def fits(chart: alt.TopLevelMixin, spec: Mapping[str, Any]) -> bool:
    """Does the spec fit the schema of the chart's class?"""
    return _judge(chart._schema["$ref"]).is_valid(spec)


def prepare() -> None:
    """Compile the schemas of charts of one layer and of several, before the first of them."""
    for kind in (alt.Chart, alt.LayerChart):
        _judge(kind._schema["$ref"])


@cache
def _judge(reference: str) -> jsonschema_rs.Draft7Validator:
    wanted = {"$ref": _escaped(reference), "definitions": _definitions()}
    return jsonschema_rs.Draft7Validator(wanted, validate_formats=True)


@cache
def _definitions() -> dict[str, Any]:
    return _with_addresses(alt.VegaLiteSchema._rootschema["definitions"])


def _with_addresses(schema: Any) -> Any:
    """The schema with references that are addresses: names in it hold ``<`` and ``|``."""
    if isinstance(schema, dict):
        return {
            key: _escaped(value)
            if key == "$ref" and isinstance(value, str)
            else _with_addresses(value)
            for key, value in schema.items()
        }
    return [_with_addresses(each) for each in schema] if isinstance(schema, list) else schema


def _escaped(reference: str) -> str:
    return quote(reference, safe="#/")
