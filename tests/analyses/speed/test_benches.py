"""Measurements become tables whole, or an error that names the file."""

from __future__ import annotations

import copy
import json
import re

import pandas as pd
import pytest

from lib import paths
from lib.analyses.speed import stats
from lib.errors import DataError

COMMITTED = paths.ROOT / "bench" / "results"

# 500 items; ours at its best takes 10 s per 1,000, the fastest other way isn't a sorted one.
SET = {
    "items": 500,
    "vs_single": 20.0,
    "vs_sorted": 2.5,
    "share_of_limit": 0.5,
    "share_of_held": 0.6,
    "seconds_per_1000": {
        "one at a time": 200.0,
        "padded 32": 20.0,
        "sorted 32": 30.0,
        "sorted 8,192 tokens": 25.0,
        "ours 8,192": 16.0,
        "ours 16,384": 10.0,
    },
    "tokens": {
        "one at a time": 1000,
        "padded 32": 4000,
        "sorted 32": 1100,
        "sorted 8,192 tokens": 1050,
        "ours 8,192": 800,
        "ours 16,384": 700,
        "needed": 690,
    },
    "peak_gb": dict.fromkeys(
        ["one at a time", "padded 32", "sorted 32", "sorted 8,192 tokens"], 16.0
    )
    | {"ours 8,192": 15.0, "ours 16,384": 17.0},
    "encoding_s_per_1000": 0.4,
}
EXTRACTION = {"card": "A card", "model": "m", "matmul_tflops": 700.0, "held_tflops": 600.0}
EXTRACTION["hh-rlhf"] = SET
WORKERS = {
    "card": "A card",
    "workers": 2,
    "items": 4096,
    "one_s": 30.0,
    "all_s": 20.0,
    "ratio": 1.5,
    "gather_s": 3.0,
    "forward_s": 24.0,
    "overhead": 0.25,
}

START = {
    "card": "x86_64, 2 thread(s)",
    "model": "m",
    "first_score_s": 7.0,
    "slowest_first_score_s": 7.5,
    "items": 100,
    "extract_s": 51.0,
    "forward_s": 50.0,
    "overhead": 0.02,
}
MEMORY = {
    "card": "x86_64, 2 thread(s)",
    "responses": 1000,
    "piece_items": 8,
    "seconds": 9.5,
    "tenths_mib": [500.0, 520.0, 510.0],
    "opened_mib": 515.0,
    "read_mib": 516.0,
}

FIGURES = dict(zip(stats.PRECISION[4:11], [0.01, 0.02, 0.1, 0.0, 0.25, 0.01, 0.03], strict=True))
PRECISION = {"card": "A card", "model": "m", "items": 9, "ways": {"bfloat16, packed": FIGURES}}


@pytest.fixture
def keep(tmp_path):
    """Writes measurements by name and returns their folder."""

    def write(**files):
        for name, held in files.items():
            text = held if isinstance(held, str) else json.dumps(held)
            (tmp_path / f"{name}.json").write_text(text)
        return tmp_path

    return write


def changed(*path, to):
    """The measurement with one entry replaced, or left out where ``to`` is ``None``."""
    held = copy.deepcopy(EXTRACTION)
    place = held
    for key in path[:-1]:
        place = place[key]
    if to is None:
        del place[path[-1]]
    else:
        place[path[-1]] = to
    return held


def test_each_way_stands_beside_the_best_of_ours(keep):
    table = stats.ways(keep(extraction_x=EXTRACTION))
    assert tuple(table) == stats.WAYS
    assert table["way"].tolist() == list(SET["seconds_per_1000"])
    assert table["ratio"].tolist() == [20.0, 2.0, 3.0, 2.5, 1.6, 1.0]
    assert table["ours"].tolist() == [False] * 5 + [True]
    # 1,000 tokens of 500 items; 1,000 items take 200 s, so these took 100 s.
    assert table["tokens_per_second"].iloc[0] == 10.0


def test_the_totals_are_those_of_the_seconds(keep):
    (row,) = stats.totals(keep(extraction_x=EXTRACTION)).itertuples()
    assert (row.vs_single, row.vs_padded, row.vs_sorted, row.vs_best) == (20.0, 2.0, 2.5, 2.0)
    assert (row.budget, row.needed, row.items, row.device) == (16384, 690, 500, "GPU")


def test_several_processes_stand_beside_one(keep):
    (row,) = stats.workers(keep(workers_x=WORKERS)).itertuples()
    assert (row.workers, row.ratio, row.overhead) == (2, 1.5, 0.25)


def test_a_start_stands_beside_what_its_run_adds(keep):
    (row,) = stats.starts(keep(start_x=START)).itertuples()
    assert (row.first_score_s, row.slowest_first_score_s, row.device) == (7.0, 7.5, "CPU")
    assert row.overhead == pytest.approx(51 / 50 - 1)


def test_memory_is_told_after_the_first_tenth_at_the_end_and_at_its_most(keep):
    (row,) = stats.memory(keep(memory_x=MEMORY)).itertuples()
    assert (row.first_mib, row.last_mib, row.most_mib, row.read_mib) == (500, 510, 520, 516)
    assert (row.responses, row.piece_items) == (1000, 8)


@pytest.mark.parametrize("tenths", [None, [], 3, [500.0, "520"], [float("nan")]])
def test_memory_without_its_tenths_is_an_error(keep, tenths):
    with pytest.raises(DataError, match="tenth"):
        stats.memory(keep(memory_x=MEMORY | {"tenths_mib": tenths}))


def test_number_types_are_told_with_their_ties(keep):
    (row,) = stats.precision(keep(precision_x=PRECISION)).itertuples()
    assert (row.way, row.items, row.ties, row.ties_if_rounded) == ("bfloat16, packed", 9, 0, 0.25)


@pytest.mark.parametrize(
    "ways", [None, [], {"bfloat16": 3}, {"bfloat16": {}}, {"bfloat16": FIGURES | {"ties": -0.1}}]
)
def test_a_number_type_without_its_figures_is_an_error(keep, ways):
    with pytest.raises(DataError, match="precision_x.json"):
        stats.precision(keep(precision_x=PRECISION | {"ways": ways}))


def test_a_processor_is_told_from_a_card_and_comes_last(keep):
    folder = keep(
        extraction_cpu=EXTRACTION | {"card": "x86_64, 2 thread(s)"}, extraction_h=EXTRACTION
    )
    table = stats.totals(folder)
    assert table["device"].tolist() == ["GPU", "CPU"]


def test_what_a_folder_lacks_gives_empty_tables_with_their_columns(keep):
    folder = keep(workers_x=WORKERS)
    assert stats.ways(folder).empty and tuple(stats.ways(folder)) == stats.WAYS
    assert stats.totals(folder).empty and stats.drill(folder).empty


def test_files_of_any_origin_are_listed_with_their_notes(keep):
    folder = keep(memory_x={"peak": 3}, workers_x=WORKERS | {"note": "old", "date": "2026-01-02"})
    assert stats.files(folder)[["file", "date", "note"]].values.tolist() == [
        ["memory_x.json", "", ""],
        ["workers_x.json", "2026-01-02", "old"],
    ]


def test_figures_of_the_drill_are_text(keep):
    held = {"card": "A card", "command": "c", "all right": True, "error": 2.0216e-07, "pairs": 200}
    table = stats.drill(keep(armorm_drill=held))
    assert table[["figure", "value"]].values.tolist() == [
        ["all right", "yes"],
        ["error", "2.022e-07"],
        ["pairs", "200"],
    ]


# ---- Aims ----


def aims(folder) -> pd.DataFrame:
    table = stats.targets(stats.totals(folder), stats.workers(folder), stats.starts(folder))
    return table.set_index(["device", "set", "measure"])


def test_an_aim_is_reached_or_missed_by_the_number_measured(keep):
    held = {**EXTRACTION, "hh-rlhf": SET | {"items": 1000}, "rm-bench": SET}
    outcome = aims(keep(extraction_x=held, workers_x=WORKERS))["outcome"]
    assert outcome["GPU", "hh-rlhf", "vs_single"] == "missed"  # 20, 21 aimed for
    assert outcome["GPU", "hh-rlhf", "vs_sorted"] == "reached"  # 2.5, 2.1 aimed for
    assert outcome["GPU", "hh-rlhf", "share_of_limit"] == "missed"  # .5, .75 aimed for
    assert outcome["GPU", "rm-bench", "vs_sorted"] == "reached"
    assert outcome["GPU", "", "ratio"] == "missed"  # 1.5, 1.9 aimed for
    assert outcome["GPU", "", "overhead"] == "missed"  # .25, at most .05 aimed for
    assert outcome["CPU", "hh-rlhf", "vs_best"] == "not measured"


def test_less_overhead_than_the_most_is_enough(keep):
    held = WORKERS | {"forward_s": 29.5}  # 30 / 29.5 is .017 more
    assert aims(keep(workers_x=held))["outcome"]["GPU", "", "overhead"] == "reached"


def test_fewer_items_than_the_aim_names_do_not_count(keep):
    outcome = aims(keep(extraction_x=EXTRACTION))["outcome"]
    assert outcome["GPU", "hh-rlhf", "vs_sorted"] == "not measured"


def test_more_than_two_processes_say_nothing_of_two(keep):
    assert aims(keep(workers_x=WORKERS | {"workers": 4}))["outcome"]["GPU", "", "ratio"] == (
        "not measured"
    )


def test_a_processor_has_aims_of_its_own(keep):
    held = EXTRACTION | {"card": "x86_64, 2 thread(s)", "rm-bench": SET}
    outcome = aims(keep(extraction_cpu=held))["outcome"]
    assert outcome["CPU", "hh-rlhf", "vs_best"] == "reached"  # 2, 1.45 aimed for
    assert outcome["CPU", "rm-bench", "vs_best"] == "reached"
    assert outcome["GPU", "hh-rlhf", "vs_single"] == "not measured"


def test_a_start_has_aims_of_its_own(keep):
    late = START | {"slowest_first_score_s": 8.6, "first_score_s": 8.1}
    reached = keep(start_a=START)
    assert aims(reached)["outcome"]["CPU", "", "first_score_s"] == "reached"
    assert aims(reached)["outcome"]["CPU", "", "overhead"] == "reached"  # .02, at most .05
    outcome = aims(keep(start_a=late))["outcome"]
    assert outcome["CPU", "", "first_score_s"] == "missed"


# ---- What is no measurement ----


@pytest.mark.parametrize(
    ("held", "says"),
    [
        ("{", "JSON in extraction_x.json"),
        ("[1]", "an object in extraction_x.json"),
        ({"card": "A card"}, "a set of items in extraction_x.json"),
        (changed("hh-rlhf", "items", to=None), "'items'"),
        (changed("hh-rlhf", "tokens", to=3), "tokens of each way of hh-rlhf"),
        (changed("hh-rlhf", "tokens", "padded 32", to=None), "'padded 32'"),
        (changed("hh-rlhf", "seconds_per_1000", "sorted 32", to=0), "above 0 for 'sorted 32'"),
        (changed("hh-rlhf", "seconds_per_1000", "sorted 32", to="9"), "'sorted 32'"),
        (changed("hh-rlhf", "peak_gb", "sorted 32", to=float("nan")), "nan"),
        (changed("hh-rlhf", "seconds_per_1000", to={"padded 32": 2.0}), "a way of ours"),
    ],
)
def test_a_broken_measurement_is_an_error_that_names_it(keep, held, says):
    with pytest.raises(DataError, match=re.escape(says)):
        stats.ways(keep(extraction_x=held))


@pytest.mark.parametrize(
    ("held", "says"),
    [
        (changed("hh-rlhf", "vs_sorted", to=2.6), "vs_sorted of 2.500, that of the seconds"),
        (changed("hh-rlhf", "share_of_limit", to=True), "'share_of_limit'"),
        (changed("hh-rlhf", "tokens", "needed", to=None), "'needed'"),
        (changed("matmul_tflops", to=None), "'matmul_tflops'"),
        (changed("held_tflops", to=-1), "'held_tflops'"),
        (changed("hh-rlhf", "share_of_held", to=None), "'share_of_held'"),
    ],
)
def test_a_total_that_is_missing_or_contradicts_the_seconds_is_an_error(keep, held, says):
    with pytest.raises(DataError, match=re.escape(says)):
        stats.totals(keep(extraction_x=held))


def test_a_ratio_of_processes_that_contradicts_their_seconds_is_an_error(keep):
    with pytest.raises(DataError, match="ratio of 1.500"):
        stats.workers(keep(workers_x=WORKERS | {"ratio": 1.9}))


def test_a_folder_without_measurements_is_an_error(tmp_path):
    with pytest.raises(DataError, match="measurements"):
        stats.ways(tmp_path)


# ---- Those of the checkout ----


def test_committed_measurements_are_read_whole():
    assert not stats.ways(COMMITTED).isna().any(axis=None)
    assert not stats.totals(COMMITTED).isna().any(axis=None)
    assert stats.ways("bench/results").equals(stats.ways(COMMITTED))


def test_the_list_of_measurements_is_in_step_with_the_files():
    rows = re.findall(r"^\| `(\S+)` \| (.+?) \| `(.+?)` \| (\S+) \|$", README, re.MULTILINE)
    listed = {file: (card, command, date) for file, card, command, date in rows}
    files = stats.files(COMMITTED)
    assert sorted(listed) == sorted(files["file"])
    for row in files.itertuples():
        card, command, date = listed[row.file]
        assert card.startswith(row.card) and command == row.command
        assert row.date in ("", date)


README = (COMMITTED / "README.md").read_text(encoding="utf-8")
