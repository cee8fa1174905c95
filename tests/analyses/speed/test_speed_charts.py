"""Every way is a bar from zero; ours alone is in colour."""

from __future__ import annotations

import io

import pandas as pd
import pytest

from lib.analyses.speed import charts
from lib.analyses.speed.stats import WAYS
from lib.errors import DataError


def ways(*rows) -> pd.DataFrame:
    columns = ["file", "set", "way", "seconds_per_1000", "ratio", "ours"]
    shared = {"card": "A card", "model": "m", "items": 1000, "tokens": 7, "peak_gb": 16.0}
    return pd.DataFrame(rows, columns=columns).assign(**shared).reindex(columns=WAYS)


TABLE = ways(
    ("x.json", "hh-rlhf", "one at a time", 40.0, 4.0, False),
    ("x.json", "hh-rlhf", "ours 16,384", 10.0, 1.0, True),
    ("x.json", "rm-bench", "one at a time", 300.0, 3.0, False),
    ("x.json", "rm-bench", "ours 16,384", 100.0, 1.0, True),
)


def drawn(chart) -> pd.DataFrame:
    (text,) = chart.spec["datasets"].values()
    return pd.read_csv(io.StringIO(text), keep_default_na=False, na_values=[""])


def test_bars_of_a_part_share_a_scale_and_parts_do_not():
    found = drawn(charts.seconds(TABLE))
    assert found["length"].dropna().tolist() == pytest.approx([1, 0.25, 1, 1 / 3], abs=1e-5)
    assert found["label"].dropna().tolist() == [
        *("40.00 s (4.00×)", "10.00 s", "300.00 s (3.00×)", "100.00 s")
    ]
    assert (found["start"] == 0).all()


def test_ours_alone_is_in_colour():
    found = drawn(charts.seconds(TABLE))
    assert found.loc[found["tone"] == "better", "name"].tolist() == ["ours 16,384"] * 2


def test_a_part_is_named_by_set_model_card_and_items():
    titles = drawn(charts.seconds(TABLE))["title"].dropna().tolist()
    assert titles == [f"{name} · m · A card · 1,000 items" for name in ("hh-rlhf", "rm-bench")]


def test_two_measurements_of_one_set_are_told_apart_by_file():
    again = pd.concat([TABLE.iloc[:2], TABLE.iloc[:2].assign(file="y.json")])
    titles = drawn(charts.seconds(again))["title"].dropna()
    assert [title.split(" · ")[-1] for title in titles] == ["x.json", "y.json"]


def test_the_alternative_text_holds_every_number():
    told = charts.seconds(TABLE).alternative
    assert "one at a time 40.00, ours 16,384 10.00" in told
    assert "one at a time 300.00, ours 16,384 100.00" in told


@pytest.mark.parametrize(("width", "dark"), [(720, False), (340, True)])
def test_it_draws_without_a_word_for_nothing(width, dark):
    picture = charts.seconds(TABLE).svg(width, dark)
    assert "300.00 s (3.00×)" in picture and "null" not in picture


def test_a_card_with_a_hostile_name_stays_text():
    hostile = TABLE.assign(card="</script><script>alert(1)")
    shown = charts.seconds(hostile).html()
    assert "&lt;script&gt;alert(1)" in shown and "<script>alert" not in shown


def test_nothing_measured_is_said_and_another_table_is_an_error():
    assert "No way" in charts.seconds(TABLE.iloc[:0]).alternative
    with pytest.raises(DataError, match="column"):
        charts.seconds(pd.DataFrame({"x": [1]}))
