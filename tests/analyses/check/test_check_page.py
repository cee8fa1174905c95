"""The page of a check: its sentences, its charts, and the warning on every page of its model."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from lib import paths, report
from lib.analyses.check import charts, words
from lib.check import lines
from lib.check.lines import Checked, Row

RIGHT = [
    Row("Head", "tensors", "score.weight in model.safetensors", "once", "right"),
    Row("Reading", "scores", "at most 1.0e-07 sd over 32 texts", "at most 0.0001 sd", "right"),
    Row("Template", "system prompt", "'You are terse.'", "as in the card", "note", "It is part."),
    Row("Invariance", "one batch", "largest shift 2.0e-06 sd", "at most 0.001 sd", "right"),
    Row("Length", "window", "0 of 128 texts are longer", "no text beyond", "right"),
    Row("Scale", "spread", "sd 1.2", "every score varies", "right"),
    Row("Reference", "all", "no file (--reference)", "", "not asked"),
    Row("Overlap", "all", "no file (--training)", "", "not asked"),
]
TABLES = {
    "shifts": [
        {"way": "one batch", "largest": 2e-6, "spread": 1e-6, "sides": 0.0, "comparisons": 16},
        {"way": "packing", "largest": 0.0, "spread": 0.0, "sides": 0.0, "comparisons": 16},
        {"way": "bfloat16", "largest": 0.5, "spread": 0.12, "sides": 0.03, "comparisons": 64},
    ],
    "windows": [{"window": 512, "cut": 0.25, "identical": 0.125}],
    "scale": [{"score": "r", "mean": 0.5, "sd": 1.2, "between": 0.4}],
    "costs": [
        {"template": name, "n": 100, "rate": rate, "low": rate - 0.1, "high": rate + 0.1}
        | {"difference": gap, "difference_low": gap - 0.05, "difference_high": gap + 0.05}
        for name, rate, gap in (
            ("its own", 0.7, 0.0),
            ("none", 0.6, -0.1),
            ("another family's", 0.65, -0.05),
        )
    ],
}


def made(rows=RIGHT, tables=TABLES, **changes):
    given = {"dataset": "stimuli/controlled", "items": 64, "quick": False, "fingerprint": {}}
    given |= {"versions": {}, "example": "", "model": "m", **changes}
    return Checked(rows=rows, tables=tables, **given)


def faulty():
    fault = Row("Reading", "scores", "at most 2.0e+00 sd", "at most 0.0001 sd", "wrong", "Don't.")
    waits = Row("Scale", "all", "Reading is wrong", "", "blocked", "Mend Reading first.")
    untold = Row("Template", "closes", "'', no special token", "a token", "can't be told", "Look.")
    kept = [row for row in RIGHT if row.line not in ("Reading", "Scale", "Template")]
    return made([*kept, fault, waits, untold], {})


def test_its_rendering_is_that_of_the_file(assert_rendered):
    assert_rendered(
        Path(__file__).parent / "sentences.txt",
        words.takeaways(made()),
        words.takeaways(faulty()),
    )


def test_pairs_on_which_a_score_is_at_chance_are_said_to_tell_of_no_cost():
    text = "nothing could be lost there"
    assert not any(text in sentence for sentence in words.takeaways(made()))
    chance = [{**row, "low": row["low"] - 0.1} for row in TABLES["costs"]]
    assert any(text in each for each in words.takeaways(made(tables=TABLES | {"costs": chance})))


def test_a_model_that_is_wrong_is_wrong_before_it_is_untold():
    found = faulty()
    assert (found.verdict, found.unsound) == (lines.WRONG, ["Reading"])
    assert made().verdict == lines.RIGHT and made().unsound == []
    untold = made([row for row in faulty().rows if row.verdict != lines.WRONG])
    assert untold.verdict == lines.UNTOLD


@pytest.mark.parametrize(
    ("name", "value"), [("shifts", "-0.301"), ("windows", "0.250"), ("costs", "0.700")]
)
def test_a_chart_shows_its_table(name, value):
    chart = getattr(charts, name)(made().frame(name))
    assert value in chart.alternative
    assert len(chart.data) == len(TABLES[name])


@pytest.mark.parametrize("name", ["shifts", "windows", "costs"])
def test_a_chart_without_a_table_says_so(name):
    assert getattr(charts, name)(pd.DataFrame()).alternative


# ---- On every page of the model ----


@pytest.fixture
def shown(monkeypatch, tmp_path):
    """What a page that begins shows, and where checks would lie."""
    found = []
    monkeypatch.setattr("IPython.display.display", lambda each: found.append(each.markup))
    monkeypatch.setattr(paths, "BOOK", tmp_path)
    monkeypatch.setattr(paths, "RESULTS", tmp_path / "results")

    def begin():
        found.clear()
        cell = 'model: str = "m"  # a model'
        report.begin("validity", {"In": ["", cell, "page = report.begin(...)"], "model": "m"})
        return found

    return begin


def save(checked):
    place = lines.committed("m")
    place.parent.mkdir(parents=True, exist_ok=True)
    checked.save(place)


def test_a_page_of_a_model_that_failed_reading_says_so_at_its_top(shown):
    assert shown() == []
    save(faulty())
    (told,) = shown()
    assert "m failed the check of Reading" in told and 'class="mismatch"' in told
    save(made())
    assert shown() == []


def test_so_it_does_where_the_check_is_a_page_of_the_audit(shown):
    place = paths.RESULTS / "m"
    place.mkdir(parents=True)
    faulty().frame().to_parquet(place / "check.parquet")
    assert len(shown()) == 1
    made().frame().to_parquet(place / "check.parquet")
    assert shown() == []


def test_a_line_that_is_no_matter_of_the_score_warns_on_no_page(shown):
    other = [replace(row, verdict="wrong") if row.line == "Length" else row for row in RIGHT]
    save(made(other))
    assert shown() == []


def test_a_row_says_what_was_expected_and_what_to_do_in_one_cell():
    shown = charts.lines(faulty()).markup
    assert "<bdi>Reading: scores</bdi>" in shown
    assert "<bdi>at most 0.0001 sd; Don&#x27;t.</bdi>" in shown
    assert "verdict-wrong" in shown
    # Nothing was expected of what nobody asked for, and nothing is to be done.
    assert re.search(
        "<bdi>no file .--reference.</bdi></td><td[^>]*><bdi>–</bdi>", charts.lines(made()).markup
    )


def test_a_shift_is_written_as_itself_beside_its_power_of_ten():
    # 2e-06 stands at −5.7 of the axis; its label is the number.
    drawn = charts.shifts(made().frame("shifts"))
    assert {"2e-6", "0.5"} <= set(re.findall(r">([^<]+)</text>", drawn.svg()))
