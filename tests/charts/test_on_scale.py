"""Numbers on coloured cells: black or white, whichever stands out more."""

import re

import pytest

from lib.charts import theme


def luminance(colour):
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def colour_at(value, dark):
    def pair(role):
        text = re.findall("'(#[0-9a-f]{6})'", theme.ink(role)["expr"])[0 if dark else 1]
        return [int(text[i : i + 2], 16) / 255 for i in (1, 3, 5)]

    low, middle, high = map(pair, theme.ASSOCIATION)
    end = high if value > 0 else low
    return [m + (e - m) * abs(value) for m, e in zip(middle, end, strict=True)]


def chosen(value, dark):
    """The expression's answer: its four thresholds, read off and applied by hand."""
    numbers = re.findall(r"x > ([\d.]+) \|\| x < -([\d.]+)", theme.on_association("x")["expr"])
    up, down = map(float, numbers[0 if dark else 1])
    beyond = value > up or value < -down
    return "white" if beyond != dark else "black"


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("value", [i / 20 for i in range(-20, 21)])
def test_every_cell_of_a_scale_can_be_read(value, dark):
    behind = luminance(colour_at(value, dark))
    contrast = {"white": 1.05 / (behind + 0.05), "black": (behind + 0.05) / 0.05}
    assert contrast[chosen(value, dark)] >= 4.5
    assert contrast[chosen(value, dark)] >= max(contrast.values()) - 0.02
