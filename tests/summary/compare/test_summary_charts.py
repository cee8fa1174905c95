"""Models side by side: every interval drawn, every difference told from zero or not."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest

from lib.charts import theme
from lib.errors import DataError
from lib.summary.compare import charts
from lib.summary.compare.stats import DIFFERENCES, SCORES


def drawn(chart) -> pd.DataFrame:
    (text,) = [t for t in chart.spec["datasets"].values() if "tone" in str(t)[:80]]
    return pd.read_csv(io.StringIO(text), keep_default_na=False, na_values=[""])


def scores(*rows) -> pd.DataFrame:
    columns = ["model", "dataset", "win_rate", "low", "high", "note"]
    return pd.DataFrame(rows, columns=columns).reindex(columns=list(SCORES))


def pairs(*rows) -> pd.DataFrame:
    columns = ["model", "other", "dataset", "difference", "low", "high", "verdict", "note"]
    return pd.DataFrame(rows, columns=columns).reindex(columns=list(DIFFERENCES))


BOTH = scores(
    ("one", "xstest", 0.7, 0.6, 0.8, ""),
    ("two", "xstest", np.nan, np.nan, np.nan, "not run"),
    ("one", "llmbar", 0.5, 0.4, 0.6, ""),
    ("two", "llmbar", 0.6, 0.5, 0.7, ""),
)


def test_models_stand_next_to_one_another_on_each_dataset():
    found = drawn(charts.scores(BOTH))
    assert found["name"].tolist() == [
        *("xstest · one", "xstest · two", "llmbar · one", "llmbar · two")
    ]
    assert found["low"].tolist()[2:] == [0.4, 0.5]
    assert found["tone"].tolist() == ["text", "baseline", "text", "baseline"]
    assert "xstest · two: not run" in charts.scores(BOTH).alternative


def test_one_model_needs_no_name_in_every_row():
    found = drawn(charts.scores(BOTH[BOTH["model"] == "one"]))
    assert found["name"].tolist() == ["xstest", "llmbar"]


def test_only_what_was_told_apart_is_coloured():
    table = pairs(
        ("one", "two", "xstest", 0.2, 0.1, 0.3, "higher", ""),
        ("one", "two", "llmbar", -0.2, -0.3, -0.1, "lower", ""),
        ("one", "two", "rm-bench", 0.1, -0.1, 0.3, "not told apart", ""),
        ("one", "two", "hh-rlhf", np.nan, np.nan, np.nan, "undefined", "no comparison in common"),
    )
    chart = charts.differences(table)
    assert drawn(chart)["tone"].tolist() == ["better", "worse", "baseline", "baseline"]
    assert "hh-rlhf: no comparison in common" in chart.alternative
    assert chart.alternative.startswith("Paired differences on one less two: xstest 0.200")


def test_a_menu_chooses_among_pairs():
    rows = [(a, b, "xstest", 0.0, -0.1, 0.1, "not told apart", "") for a, b in ("ab", "ac", "bc")]
    (menu,) = [p for p in charts.differences(pairs(*rows)).spec["params"] if "bind" in p]
    assert menu["bind"]["labels"] == ["a less b", "a less c", "b less c"]


def test_nothing_to_compare_is_said():
    assert "nothing to compare" in charts.differences(pairs()).alternative


@pytest.mark.parametrize("draw", [charts.scores, charts.differences])
def test_another_table_is_an_error(draw):
    with pytest.raises(DataError, match="column"):
        draw(pd.DataFrame({"x": [1]}))


def test_length_is_a_tick_in_the_row_of_each_score():
    chart = charts.scores(BOTH.assign(longer=[0.45, np.nan, 0.62, 0.25]))
    assert drawn(chart)["beside"].tolist() == pytest.approx([0.45, np.nan, 0.62, 0.25], nan_ok=True)
    assert "xstest · one 0.700 [0.600, 0.800] (longer response 0.450)" in chart.alternative
    assert "Grey tick: the share that the longer response alone" in chart.caption
    low = chart.spec["layer"][0]["encoding"]["x"]["scale"]["domain"][0]
    assert low == 0.2, "the axis is that of shares won, which holds every tick"
    wide = charts.scores(BOTH.assign(longer=[0.45, np.nan, 0.62, 0.15]))
    assert wide.spec["layer"][0]["encoding"]["x"]["scale"]["domain"] == [0, 1]


@pytest.mark.parametrize("width", [720, 360])
@pytest.mark.parametrize("dark", [False, True])
def test_a_tick_is_drawn_where_there_is_a_length(width, dark):
    some, none = (
        charts.scores(BOTH.assign(longer=value)) for value in ([0.45, 0.3, 0.6, None], None)
    )
    grey = f'fill="{theme.INKS["baseline"][dark]}"'
    assert some.svg(width, dark).count(grey) - none.svg(width, dark).count(grey) == 3
