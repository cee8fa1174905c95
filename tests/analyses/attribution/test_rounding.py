"""What is said of bfloat16 is what was measured."""

from __future__ import annotations

import pandas as pd
import pytest

from lib.analyses.attribution import rounding
from lib.analyses.attribution.stats import WITHIN
from lib.errors import DataError


def test_the_committed_measurement_holds_in_float32_and_says_how_it_was_made():
    table, command = rounding.measured()
    assert (table[["sums_float32", "everything_float32"]] <= WITHIN).all(axis=None)
    assert command.startswith("python bench/rounding.py ")
    (sentence,) = rounding.told(table, command)
    assert sentence.endswith(command) and "nan" not in sentence


def test_several_models_give_a_span():
    row = {"dataset": "d", "items": 3, "patched": 1, "sums_float32": 1e-6, "node_ranks": 0.9}
    row |= {"part_moved": 0.02, "effect_moved": 0.3}
    rows = [row | {"model": "a", "sums_bfloat16": 0.1}, row | {"model": "b", "sums_bfloat16": 0.2}]
    (sentence,) = rounding.told(pd.DataFrame(rows), "made so")
    assert "for a and b the largest miss is 0.1 to 0.2 of" in sentence
    assert "3 items of d, 1 of them patched: made so" in sentence


def test_a_damaged_measurement_is_an_error(tmp_path):
    (tmp_path / "rounding.json").write_text("[")
    with pytest.raises(DataError):
        rounding.measured(tmp_path / "rounding.json")
