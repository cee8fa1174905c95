"""What falls short is said with its numbers, and changes with them."""

from __future__ import annotations

import pandas as pd
import pytest

from lib.findings import speed as findings
from lib.summary import benches


def ways(*rows) -> pd.DataFrame:
    columns = ["way", "seconds_per_1000", "tokens", "tokens_per_second", "ours"]
    shared = {"card": "A card", "model": "m", "set": "hh-rlhf", "items": 1000, "file": "x.json"}
    return pd.DataFrame(rows, columns=columns).assign(**shared).reindex(columns=benches.WAYS)


def totals(**changes) -> pd.DataFrame:
    row = {
        "card": "A card",
        "model": "m",
        "set": "hh-rlhf",
        "items": 1000,
        "share_of_limit": 0.8,
        "vs_single": 25.0,
        "vs_padded": 6.0,
        "vs_sorted": 2.5,
        "vs_best": 2.5,
        "encoding_s_per_1000": 0.4,
        "matmul_tflops": 700.0,
        "device": "GPU",
        "file": "x.json",
    }
    return pd.DataFrame([row | changes]).reindex(columns=benches.TOTALS)


def workers(**changes) -> pd.DataFrame:
    row = {
        "card": "A card",
        "workers": 2,
        "items": 4096,
        "one_s": 30.0,
        "all_s": 15.5,
        "ratio": 30 / 15.5,
        "forward_s": 29.0,
        "overhead": 30 / 29 - 1,
        "gather_s": 3.0,
        "device": "GPU",
        "file": "w.json",
    }
    return pd.DataFrame([row | changes]).reindex(columns=benches.WORKERS)


WAYS = ways(
    ("one at a time", 100.0, 4000, 40.0, False),
    ("sorted 32", 20.0, 5000, 250.0, False),
    ("sorted 64", 8.0, 4000, 500.0, False),
    ("ours 16,384", 4.0, 2000, 600.0, True),
)
NONE = workers().iloc[:0]


def short(totals: pd.DataFrame, workers: pd.DataFrame) -> list[str]:
    targets = benches.targets(totals, workers)
    return findings.shortfalls(targets, WAYS, totals, workers)


def test_nothing_is_called_missed_where_every_aim_was_reached():
    told = short(totals(), workers())
    assert not [sentence for sentence in told if sentence.startswith("Missed")]


def test_a_missed_ratio_tells_what_was_found_aimed_for_and_why():
    (told,) = [s for s in short(totals(vs_single=13.8), workers()) if s.startswith("Missed")]
    assert "13.80× where at least 21× was aimed for" in told
    assert "gets through 40 tokens a second, with sorted 64 through 500" in told
    assert "waits for the host" in told


def test_a_share_below_its_aim_tells_how_far_the_rate_itself_moved():
    both = pd.concat([totals(share_of_limit=0.7), totals(set="other", matmul_tflops=800.0)])
    (told,) = [s for s in short(both, workers()) if s.startswith("Missed")]
    assert "70.0% where at least 75% was aimed for" in told
    assert "at 700 to 800 TFLOP/s" in told


def test_overhead_tells_where_the_seconds_went():
    many = workers(forward_s=20.0, overhead=0.5)
    (told,) = [s for s in short(totals(), many) if s.startswith("Missed")]
    assert "50.0% where at most 5% was aimed for" in told
    assert "the 10.00 s between" in told and "3.00 s more" in told


def test_two_processes_that_fall_short_stand_beside_an_even_share():
    (told,) = [s for s in short(totals(), workers(ratio=1.8)) if s.startswith("Missed")]
    assert "1.80× where at least 1.9× was aimed for" in told
    assert "15.50 s; an even share of what one took is 15.00 s" in told


def test_a_near_miss_is_not_rounded_into_a_hit():
    (told,) = [s for s in short(totals(), workers(ratio=1.8999)) if s.startswith("Missed")]
    assert "1.8999× where at least 1.9×" in told


def test_what_was_not_measured_is_said():
    told = short(totals(), NONE)
    assert "Not measured: speed-up of two GPUs over one (a card), aimed at 1.9×." in told
    assert any(s.startswith("Not measured") and "a CPU" in s for s in told)


def test_a_saving_is_split_into_tokens_and_their_rate():
    (told,) = findings.savings(WAYS)
    assert "sorted 64 computes 2.00 times the tokens of ours (4,000 and 2,000)" in told
    assert "1.20 times as many a second (600 and 500)" in told


@pytest.mark.parametrize(("best", "said"), [(2.5, False), (1.5, True)])
def test_another_way_is_told_where_it_is_faster_than_the_sorted_ones(best, said):
    table = totals(vs_best=best)
    told = findings.speed(table, NONE, benches.targets(table, NONE))[0]
    assert "25.00 times as fast as one at a time" in told
    assert ("but 1.50 times as fast as the fastest other way" in told) is said


def test_the_answer_counts_the_aims():
    table = totals(vs_single=13.8)
    told = findings.answer(benches.targets(table, NONE))
    assert told.startswith("Of 8 aims 2 were reached, 1 missed, 5 not measured. Missed: speed-up")
    assert findings.answer(benches.targets(totals(), workers())).startswith(
        "Of 8 aims 5 were reached, 3 not measured."
    )


def test_values_for_other_pages_are_sentences_of_this_one():
    table = totals()
    targets = benches.targets(table, workers())
    kept = findings.glued(table, workers(), targets)
    assert list(kept) == ["hh-rlhf-GPU", "workers-2", "answer"]
    assert kept["workers-2"].startswith("2 processes extract 4,096 items 1.94 times as fast")
    assert kept["answer"] == findings.answer(targets)


def test_notes_name_their_file():
    files = pd.DataFrame({"file": ["a.json", "b.json"], "note": ["", "older code."]})
    assert findings.notes(files) == ["b.json: older code."]


def test_aims_are_shown_with_their_units():
    shown = findings.shown(benches.targets(totals(share_of_limit=0.726), NONE))
    rows = shown.set_index("what")[["aim", "measured"]]
    assert rows.loc["share of the card's matmul rate"].tolist() == ["at least 75%", "72.6%"]
    assert rows.loc["speed-up of two GPUs over one"].tolist() == ["at least 1.9×", "–"]
