"""What falls short is said with its numbers, and changes with them."""

from __future__ import annotations

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


def test_a_missed_ratio_tells_what_was_found_aimed_for_and_why():
    (told,) = [s for s in short(totals(vs_single=13.8), workers()) if s.startswith("Missed")]
    assert "13.80× where at least 21× was aimed for" in told
    assert "gets through 40 tokens a second, with sorted 64 through 500" in told
    assert "waits for the host" in told
    assert "it would be 17.2 times" in told  # 13.8 / .8


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
    (told,) = words.savings(WAYS)
    assert "sorted 64 computes 2.00 times the tokens of ours (4,000 and 2,000)" in told
    assert "1.20 times as many a second (600 and 500)" in told


@pytest.mark.parametrize(("best", "said"), [(2.5, False), (1.5, True)])
def test_another_way_is_told_where_it_is_faster_than_the_sorted_ones(best, said):
    table = totals(vs_best=best)
    told = words.takeaways(table, NONE, stats.targets(table, NONE, STARTS))[0]
    assert "25.00 times as fast as one at a time" in told
    assert "80.0% of the matmul rate measured in that run, 90.0% of the rate" in told
    assert ("but 1.50 times as fast as the fastest other way" in told) is said


def test_the_answer_counts_the_aims():
    table = totals(vs_single=13.8)
    told = words.answer(stats.targets(table, NONE, STARTS))
    assert told.startswith("Of 10 aims 4 were reached, 1 missed, 5 not measured. Missed: speed-up")
    assert words.answer(stats.targets(totals(), workers(), STARTS)).startswith(
        "Of 10 aims 7 were reached, 3 not measured."
    )


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


def test_values_for_other_pages_are_sentences_of_this_one():
    table = totals()
    targets = stats.targets(table, workers(), STARTS)
    kept = words.glued(table, workers(), targets)
    assert list(kept) == ["hh-rlhf-GPU", "workers-2", "answer"]
    assert kept["workers-2"].startswith("2 processes extract 4,096 items 1.94 times as fast")
    assert kept["answer"] == words.answer(targets)


def test_notes_name_their_file():
    files = pd.DataFrame({"file": ["a.json", "b.json"], "note": ["", "older code."]})
    assert words.notes(files) == ["b.json: older code."]


def test_aims_are_shown_with_their_units():
    shown = words.shown(stats.targets(totals(share_of_limit=0.726), NONE, STARTS))
    rows = shown.set_index("what")[["aim", "measured"]]
    assert rows.loc["share of the card's matmul rate"].tolist() == ["at least 75%", "72.6%"]
    assert rows.loc["speed-up of two GPUs over one"].tolist() == ["at least 1.9×", "–"]


def test_a_late_start_is_missed_in_seconds():
    late = STARTS.assign(first_score_s=8.04)
    told = words.shortfalls(stats.targets(totals(), workers(), late), WAYS, totals(), NONE)
    assert "8.04 s where at most 8 s was aimed for" in "".join(told)


def test_starts_and_memory_are_told_with_their_numbers():
    row = {"responses": 1000000, "piece_items": 4096, "first_mib": 700.4, "last_mib": 712}
    memory = pd.DataFrame([row | {"read_mib": 900}]).reindex(columns=stats.MEMORY)
    start, kept = words.starting(STARTS, memory)
    assert (
        "7.0 to 7.5 s" in start
        and "takes 51.0 s, of it 50.0 s in its model: 2.0% more than that" in start
    )
    (told,) = words.starting(STARTS.assign(forward_s=52.0, overhead=-0.02), memory.iloc[:0])
    assert told.endswith("of it 52.0 s in its model.")
    assert "1,000,000 responses, 4,096 items at a time, held 700 MiB" in kept
    assert "712 MiB at the end" in kept and "900 MiB" in kept


def test_number_types_are_told_in_standard_deviations_and_shares():
    figures = [0.012, 0.025, 0.1, 0.0, 0.25, 0.01, 0.03]
    row = dict(zip(stats.PRECISION[4:11], figures, strict=True))
    row |= {"way": "bfloat16, packed", "model": "m", "items": 9, "card": "A card"}
    (told,) = words.precision(pd.DataFrame([row]).reindex(columns=stats.PRECISION))
    assert told.startswith("Bfloat16, packed, the scores of m on 9 items (A card) differ")
    assert "1.2e-02 standard deviations" in told and "1.0% of the pairs change sides" in told
    assert "0.0% tie at most, and 25.0% would" in told
