"""What falls short is said with its numbers, and changes with them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from lib.analyses.speed import stats, words


def ways(*rows) -> pd.DataFrame:
    columns = ["way", "seconds_per_1000", "tokens", "tokens_per_second", "ours"]
    shared = {"card": "A card", "model": "m", "set": "hh-rlhf", "items": 1000, "file": "x.json"}
    return pd.DataFrame(rows, columns=columns).assign(**shared).reindex(columns=stats.WAYS)


def totals(**changes) -> pd.DataFrame:
    row = {
        "card": "A card",
        "model": "m",
        "set": "hh-rlhf",
        "items": 1000,
        "share_of_limit": 0.8,
        "share_of_held": 0.9,
        "vs_single": 25.0,
        "vs_padded": 6.0,
        "vs_sorted": 2.5,
        "vs_best": 2.5,
        "encoding_s_per_1000": 0.4,
        "matmul_tflops": 700.0,
        "device": "GPU",
        "file": "x.json",
    }
    return pd.DataFrame([row | changes]).reindex(columns=stats.TOTALS)


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
    return pd.DataFrame([row | changes]).reindex(columns=stats.WORKERS)


WAYS = ways(
    ("one at a time", 100.0, 4000, 40.0, False),
    ("sorted 32", 20.0, 5000, 250.0, False),
    ("sorted 64", 8.0, 4000, 500.0, False),
    ("ours 16,384", 4.0, 2000, 600.0, True),
)
NONE = workers().iloc[:0]
STARTS = pd.DataFrame(
    [
        {
            "card": "x86_64, 2 thread(s)",
            "model": "m",
            "first_score_s": 7.02,
            "slowest_first_score_s": 7.5,
            "items": 100,
            "extract_s": 51.0,
            "forward_s": 50.0,
            "overhead": 0.02,
            "device": "CPU",
            "file": "start.json",
        }
    ]
).reindex(columns=stats.STARTS)


def short(totals: pd.DataFrame, workers: pd.DataFrame) -> list[str]:
    targets = stats.targets(totals, workers, STARTS)
    return words.shortfalls(targets, WAYS, totals, workers)


def test_nothing_is_called_missed_where_every_aim_was_reached():
    told = short(totals(), workers())
    assert not [sentence for sentence in told if sentence.startswith("Missed")]


def test_a_near_miss_is_not_rounded_into_a_hit():
    (told,) = [s for s in short(totals(), workers(ratio=1.8999)) if s.startswith("Missed")]
    assert "1.8999× where at least 1.9×" in told


@pytest.mark.parametrize(("best", "said"), [(2.5, False), (1.5, True)])
def test_another_way_is_told_where_it_is_faster_than_the_sorted_ones(best, said):
    table = totals(vs_best=best)
    told = words.takeaways(table, NONE, stats.targets(table, NONE, STARTS))[1]
    assert "25.00 times as fast as one at a time" in told
    assert "80.0% of the matmul rate that a short burst measured" in told
    assert "90.0% of the rate that was held" in told
    assert ("but 1.50 times as fast as the fastest other way" in told) is said


def test_an_aim_that_was_measured_twice_counts_once():
    twice = pd.concat([totals(), totals(vs_single=13.8, file="y.json", card="B card")])
    told = words.answer(stats.targets(twice, NONE, STARTS))
    # 25 and 13.8 times, 21 aimed for; the sorted way's aim was reached by both.
    assert told.startswith("Of 10 aims 4 were reached, 1 missed, 5 not measured.")
    assert told.count("one at a time") == 1 and "B card" in told
    kept = words.glued(twice, NONE, stats.targets(twice, NONE, STARTS))
    assert list(kept) == ["hh-rlhf-GPU-x", "hh-rlhf-GPU-y", "answer"]
    assert "13.80 times" in kept["hh-rlhf-GPU-y"]


def test_no_cause_is_told_that_the_speeds_contradict():
    fast = WAYS.assign(tokens_per_second=[900.0, 250.0, 500.0, 600.0])
    table = totals(vs_single=13.8)
    told = words.shortfalls(stats.targets(table, NONE, STARTS), fast, table, NONE)
    assert "waits for the host" not in told[0]
    assert told[0].endswith("it would be 17.2 times.")  # 13.8 / .8


def test_aims_are_shown_with_their_units():
    shown = words.shown(stats.targets(totals(share_of_limit=0.726), NONE, STARTS))
    rows = shown.set_index("what")[["aim", "measured"]]
    assert rows.loc["share of the card's matmul rate"].tolist() == ["at least 75%", "72.6%"]
    assert rows.loc["speed-up of two GPUs over one"].tolist() == ["at least 1.9×", "–"]


def test_a_late_start_is_missed_in_seconds():
    late = STARTS.assign(first_score_s=8.04)
    told = words.shortfalls(stats.targets(totals(), workers(), late), WAYS, totals(), NONE)
    assert "8.04 s where at most 8 s was aimed for" in "".join(told)


def test_rendering_of_the_page(assert_rendered):
    """Four aims are missed, each for a reason of its own; the card's rate moved between sets."""
    table = pd.concat(
        [totals(vs_single=13.8, share_of_limit=0.7), totals(set="other", matmul_tflops=800.0)]
    )
    many = workers(ratio=1.8, forward_s=20.0, overhead=0.5)
    targets = stats.targets(table, many, STARTS)
    row = {"responses": 1000000, "piece_items": 4096, "first_mib": 700.4, "last_mib": 712}
    memory = pd.DataFrame([row | {"read_mib": 900}]).reindex(columns=stats.MEMORY)
    figures = dict(
        zip(stats.PRECISION[4:11], [0.012, 0.025, 0.1, 0, 0.25, 0.01, 0.03], strict=True)
    )
    figures |= {"way": "bfloat16, packed", "model": "m", "items": 9, "card": "A card"}
    precise = pd.DataFrame([figures]).reindex(columns=stats.PRECISION)
    faster = STARTS.assign(forward_s=52.0, overhead=-0.02)
    files = pd.DataFrame({"file": ["a.json", "b.json"], "note": ["", "older code."]})
    assert_rendered(
        Path(__file__).with_name("sentences.txt"),
        words.takeaways(table, many, targets),
        words.shortfalls(targets, WAYS.assign(set="hh-rlhf"), table, many),
        words.savings(WAYS),
        words.notes(files),
        words.starting(pd.concat([STARTS, faster]), memory),
        words.precision(precise),
        words.glued(table, many, targets),
    )


def test_the_answer_counts_the_aims():
    assert words.answer(stats.targets(totals(vs_single=13.8), NONE, STARTS)).startswith(
        "Of 10 aims 4 were reached, 1 missed, 5 not measured. Missed: speed-up"
    )
    reached = words.answer(stats.targets(totals(), workers(), STARTS))
    assert reached == "Of 10 aims 7 were reached, 3 not measured."
