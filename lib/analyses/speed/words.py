"""What the page on extraction speed says, written from the tables of ``stats``."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pandas as pd

from lib.analyses.speed.stats import MISSED, NOT_MEASURED, REACHED, SINGLE, SORTED

SHARES = ("share_of_limit", "overhead")  # measures that are shares; others are ratios
SECONDS = ("first_score_s",)  # or these


def speed(totals: pd.DataFrame, workers: pd.DataFrame, targets: pd.DataFrame) -> list[str]:
    """Takeaways: ours on each set, on several GPUs, and how many aims were reached.

    Parameters
    ----------
    totals, workers, targets
        As the functions of these names of ``stats`` return them.
    """
    told = [_beside(row) for row in totals.itertuples()]
    told += [
        f"{row.workers} processes extract {row.items:,} items {_times(row.ratio)} as fast as one "
        f"({row.all_s:.1f} s and {row.one_s:.1f} s on {row.card})."
        for row in workers.itertuples()
    ]
    return [*told, answer(targets)]


def starting(starts: pd.DataFrame, memory: pd.DataFrame) -> list[str]:
    """How soon a first score is there, what a run adds to its model, and what memory it takes.

    Parameters
    ----------
    starts, memory
        As the functions of these names of ``stats`` return them.
    """
    told = [
        f"A first score of {row.model} is there {row.first_score_s:.1f} to "
        f"{row.slowest_first_score_s:.1f} s after the process starts ({row.card}); a run of "
        f"{row.items:,} items takes {row.extract_s:.1f} s, of it {row.forward_s:.1f} s in its model"
        + (f": {row.overhead:.1%} more than that." if row.overhead > 0 else ".")
        for row in starts.itertuples()
    ]
    told += [
        f"A run of {row.responses:,} responses, {row.piece_items:,} items at a time, held "
        f"{row.first_mib:,.0f} MiB when a tenth or more was done and {row.last_mib:,.0f} MiB at "
        f"the end; opened, with one slice of the states read, {row.read_mib:,.0f} MiB."
        for row in memory.itertuples()
    ]
    return told


def precision(precision: pd.DataFrame) -> list[str]:
    """How far scores move with number type and packing, and what ties.

    Parameters
    ----------
    precision
        As the function of this name of ``stats`` returns it.
    """
    return [
        f"{row.way.capitalize()}, the scores of {row.model} on {row.items:,} items ({row.card}) "
        f"differ from float32 one at a time by {row.spread_median:.1e} standard deviations of "
        f"the head (the median head; {row.spread_most:.1e} the one with most); "
        f"{row.sides_median:.1%} of the pairs change sides ({row.sides_most:.1%} at most), "
        f"{row.ties:.1%} tie at most, and {row.ties_if_rounded:.1%} would if scores were rounded."
        for row in precision.itertuples()
    ]


def _beside(row: Any) -> str:
    told = (
        f"On {_place(row)}, ours is {_times(row.vs_single)} as fast as one at a time and "
        f"{_times(row.vs_sorted)} as fast as the fastest length-sorted batches"
    )
    if row.vs_best < row.vs_sorted:
        told += f", but {_times(row.vs_best)} as fast as the fastest other way"
    return (
        f"{told}; it reaches {row.share_of_limit:.1%} of the matmul rate measured in that run, "
        f"{row.share_of_held:.1%} of the rate that was held for seconds."
    )


def savings(ways: pd.DataFrame) -> list[str]:
    """Where ours gains on the fastest length-sorted way: fewer tokens, or more a second."""
    told = []
    for _, rows in ways.groupby(["file", "set"], sort=False):
        ours = next(rows[rows["ours"]].itertuples())
        other = _fastest_sorted(rows)
        told.append(
            f"On {_place(ours)}, {other.way} computes {other.tokens / ours.tokens:.2f} times the "
            f"tokens of ours ({other.tokens:,} and {ours.tokens:,}), and ours gets through "
            f"{ours.tokens_per_second / other.tokens_per_second:.2f} times as many a second "
            f"({ours.tokens_per_second:,.0f} and {other.tokens_per_second:,.0f})."
        )
    return told


def shortfalls(
    targets: pd.DataFrame, ways: pd.DataFrame, totals: pd.DataFrame, workers: pd.DataFrame
) -> list[str]:
    """Each aim that was missed, with what the tables tell of why; then what wasn't measured."""
    reasons = {
        "vs_single": lambda row: _launches(_of(ways, row)) + _most(_of(totals, row)),
        "share_of_limit": lambda row: _bursts(totals[totals["card"] == row.card]),
        "ratio": lambda row: _split(next(_of(workers, row).itertuples())),
        "overhead": lambda row: "".join(map(_outside, _of(workers, row).itertuples())),
    }
    told = []
    for row in targets[targets["outcome"] == MISSED].itertuples():
        sentence = f"Missed: {_aim(row)}."
        reason = reasons.get(row.measure, lambda row: "")(row)
        told.append(f"{sentence} {reason.strip()}".rstrip())
    told += [
        f"Not measured: {row.what} ({_whose(row)}), aimed at {_amount(row.measure, row.aim)}."
        for row in targets[targets["outcome"] == NOT_MEASURED].itertuples()
    ]
    told += [
        f"On {_place(row)}, tokenising takes {row.encoding_s_per_1000:.2f} s per 1,000 items, "
        "which is in no ratio of ways."
        for row in totals.itertuples()
    ]
    return told


def answer(targets: pd.DataFrame) -> str:
    """In short: how many aims were reached, by every measurement of them, and which were not."""
    aims = targets.groupby(["device", "set", "measure"], sort=False)["outcome"].agg(_of_all)
    counts = aims.value_counts()
    told = f"Of {len(aims)} aims {counts.get(REACHED, 0)} were reached"
    for outcome in (MISSED, NOT_MEASURED):
        if outcome in counts:
            told += f", {counts[outcome]} {outcome}"
    missed = "; ".join(_aim(row) for row in targets[targets["outcome"] == MISSED].itertuples())
    return f"{told}. Missed: {missed}." if missed else f"{told}."


def _of_all(outcomes: pd.Series) -> str:
    """Of one aim: missed where any measurement missed it."""
    return MISSED if (outcomes == MISSED).any() else outcomes.iloc[0]


def notes(files: pd.DataFrame) -> list[str]:
    """The notes that measurements carry."""
    noted = files[files["note"] != ""]
    return [f"{row.file}: {row.note.rstrip('.')}." for row in noted.itertuples()]


def shown(targets: pd.DataFrame) -> pd.DataFrame:
    """The aims as a page shows them: in words and with units."""
    return pd.DataFrame(
        {
            "of": [_whose(row) for row in targets.itertuples()],
            "what": targets["what"],
            "aim": [
                f"{'at least' if row.least else 'at most'} {_amount(row.measure, row.aim)}"
                for row in targets.itertuples()
            ],
            "measured": [
                _found(row) if row.outcome != NOT_MEASURED else "–" for row in targets.itertuples()
            ],
            "outcome": targets["outcome"],
            "file": targets["file"],
        }
    )


def glued(totals: pd.DataFrame, workers: pd.DataFrame, targets: pd.DataFrame) -> dict[str, str]:
    """Values for other pages: the sentence of each set and of several GPUs, and the count.

    Where two files measured the same, their names are put after.
    """
    told = speed(totals, workers, targets)
    names = [(f"{row.set}-{row.device}", row.file) for row in totals.itertuples()]
    names += [(f"workers-{row.workers}", row.file) for row in workers.itertuples()]
    shared = Counter(name for name, _ in names)
    keys = [
        name if shared[name] == 1 else f"{name}-{file.removesuffix('.json')}"
        for name, file in names
    ]
    return dict(zip([*keys, "answer"], told, strict=True))


# ---- Why ----


def _launches(ways: pd.DataFrame) -> str:
    single = next(ways[ways["way"] == SINGLE].itertuples())
    other = _fastest_sorted(ways)
    if single.tokens_per_second >= other.tokens_per_second:
        return ""
    return (
        f"One at a time the card gets through {single.tokens_per_second:,.0f} tokens a second, "
        f"with {other.way} through {other.tokens_per_second:,.0f}: it isn't busy, and most likely "
        "waits for the host to launch its work. So this ratio depends on the host too, and is the "
        "smaller the faster the host."
    )


def _most(totals: pd.DataFrame) -> str:
    row = next(totals.itertuples())
    return (
        f" With the whole of the card's matmul rate it would be "
        f"{row.vs_single / row.share_of_limit:.1f} times."
    )


def _bursts(totals: pd.DataFrame) -> str:
    told = "The share counts no operations of attention, so it can't reach the whole rate."
    low, high = totals["matmul_tflops"].min(), totals["matmul_tflops"].max()
    if low == high:
        return told
    return (
        f"{told} The rate itself was measured anew for each set, at {low:,.0f} to {high:,.0f} "
        "TFLOP/s; the share moves with it."
    )


def _split(row: Any) -> str:
    return (
        f"All took {row.all_s:.2f} s; an even share of what one took is "
        f"{row.one_s / row.workers:.2f} s."
    )


def _outside(row: Any) -> str:
    return (
        f"One process took {row.one_s:.2f} s, its model alone {row.forward_s:.2f} s; the "
        f"{row.one_s - row.forward_s:.2f} s between hold what is tokenised before the first row, "
        "trying the packing, rows that are less full within shards, and writing the last of them. "
        f"Gathering shards into a run took {row.gather_s:.2f} s more, which no ratio counts."
    )


def _of(table: pd.DataFrame, target: Any) -> pd.DataFrame:
    rows = table[table["file"] == target.file]
    return rows[rows["set"] == target.set] if target.set else rows


def _fastest_sorted(ways: pd.DataFrame) -> Any:
    rows = ways[ways["way"].str.startswith(SORTED)]
    return next(rows.nsmallest(1, "seconds_per_1000").itertuples())


# ---- Words ----


def _place(row: Any) -> str:
    return f"{row.items:,} items of {row.set} ({row.model}, {row.card})"


def _whose(row: Any) -> str:
    where = row.card or ("a CPU" if row.device == "CPU" else "a card")
    return f"{row.set}, {where}" if row.set else where


def _aim(row: Any) -> str:
    bound = "at least" if row.least else "at most"
    return (
        f"{row.what} ({_whose(row)}), {_found(row)} where {bound} "
        f"{_amount(row.measure, row.aim)} was aimed for"
    )


def _found(row: Any) -> str:
    """The value, with digits enough to stand on its own side of the aim."""
    for digits in range(1, 6):
        text = _amount(row.measure, row.found, digits)
        if text != _amount(row.measure, row.aim, digits):
            return text
    return text


def _amount(measure: str, value: float, digits: int | None = None) -> str:
    if measure in SECONDS:
        return f"{value:g} s" if digits is None else f"{value:.{digits}f} s"
    if measure in SHARES:
        return f"{value:.0%}" if digits is None else f"{value:.{digits}%}"
    return f"{value:g}×" if digits is None else f"{value:.{digits + 1}f}×"


def _times(ratio: float) -> str:
    return f"{ratio:.2f} times"
