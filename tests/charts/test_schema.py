"""Specs are judged as jsonschema judges them."""

from __future__ import annotations

import copy
import random

import altair as alt
import jsonschema
import pytest
from altair.utils.schemapi import SchemaValidationError

from lib.charts import schema, theme
from lib.charts.render import Chart, frame, tips

WRONG = [None, True, 0, -3, 0.5, "", "no", "#12345g", [], ["x"], {}, {"expr": 1}, {"value": []}]


def charts():
    """A small one of each form: a single view, layers, and views side by side."""
    data = alt.InlineData(values="a,b\nx,1\n", format={"type": "csv"})
    points = alt.Chart(data).mark_point(fill=theme.ink("better"), size=40)
    points = points.encode(
        x=alt.X("b:Q", axis=alt.Axis(grid=False), scale=alt.Scale(domain=[0, 1])),
        y=alt.Y("a:N", sort=["x"]),
        color=alt.condition("datum.b > 1", alt.value("#123456"), alt.value("#654321")),
        tooltip=tips({"a": "A", "b": ("B", ".2f")}),
    )
    layers = alt.layer(points, points.mark_rule(strokeDash=[2, 2]), data=data)
    return [frame(points, height=40), frame(layers, height=40), alt.hconcat(points, points)]


def places(value, path=()):
    """Paths to all values within a spec."""
    yield path
    if isinstance(value, (dict, list)):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(each, (*path, key))


def changed(spec, source):
    """The spec with one value replaced, taken away, or put in under an odd name."""
    spec = copy.deepcopy(spec)
    *path, last = source.choice([path for path in places(spec) if path])
    holder = spec
    for key in path:
        holder = holder[key]
    way = source.randrange(4)
    if way == 0:
        del holder[last]
    elif way == 1 and isinstance(holder, dict):
        holder[source.choice(["zest", "width", "type", "params"])] = source.choice(WRONG)
    else:
        holder[last] = source.choice(WRONG)
    return spec


def test_changed_specs_are_judged_as_jsonschema_judges_them():
    source, found, agreed = random.Random(0), [], 0
    for chart in charts():
        spec = chart.to_dict(validate=False)
        spec.pop("config")
        wanted = {**alt.VegaLiteSchema._rootschema, **chart._schema}
        judge = jsonschema.Draft7Validator(
            wanted, format_checker=jsonschema.Draft7Validator.FORMAT_CHECKER
        )
        assert schema.fits(chart, spec) and judge.is_valid(spec)
        for _ in range(40):
            one = changed(spec, source)
            found.append(judge.is_valid(one))
            assert found[-1] or not schema.fits(chart, one), one  # never lets pass what is wrong
            agreed += schema.fits(chart, one) == found[-1]
    assert 20 < sum(found) < len(found) - 20
    assert agreed > 0.97 * len(found)


@pytest.mark.parametrize("height", [-1, None, "high", {"steps": 3}])
def test_a_chart_that_does_not_fit_is_an_error_that_says_so(height):
    drawing = alt.Chart(alt.InlineData(values=[{}])).mark_point(size=height)
    with pytest.raises(SchemaValidationError, match="is an invalid value|is less than"):
        Chart(drawing, alternative="Nothing.", data=None, name="x")
