"""What the page on extraction speed says, written from the tables of ``lib.summary.benches``."""

from __future__ import annotations

from typing import Any

import pandas as pd

from lib.summary.benches import MISSED, NOT_MEASURED, REACHED, SINGLE, SORTED

SHARES = ("share_of_limit", "overhead")  # measures that are shares; others are ratios


def speed(totals: pd.DataFrame, workers: pd.DataFrame, targets: pd.DataFrame) -> list[str]:
    """Takeaways: ours on each set, on several GPUs, and how many aims were reached.

    Parameters
    ----------
    totals, workers, targets
        As the functions of these names of ``lib.summary.benches`` return them.
    """
    told = [_beside(row) for row in totals.itertuples()]
    told += [
        f"{row.workers} processes extract {row.items:,} items {_times(row.ratio)} as fast as one "
        f"({row.all_s:.1f} s and {row.one_s:.1f} s on {row.card})."
        for row in workers.itertuples()
    ]
    return [*told, answer(targets)]


def _beside(row: Any) -> str:
    told = (
        f"On {_place(row)}, ours is {_times(row.vs_single)} as fast as one at a time and "
        f"{_times(row.vs_sorted)} as fast as the fastest length-sorted batches"
    )
    if row.vs_best < row.vs_sorted:
        told += f", but {_times(row.vs_best)} as fast as the fastest other way"
    return f"{told}; it reaches {row.share_of_limit:.1%} of the matmul rate measured in that run."


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
        "vs_single": lambda row: _launches(_of(ways, row)),
        "share_of_limit": lambda row: _bursts(totals[totals["card"] == row.card]),
        "ratio": lambda row: _split(next(_of(workers, row).itertuples())),
        "overhead": lambda row: _outside(next(_of(workers, row).itertuples())),
    }
    told = []
    for row in targets[targets["outcome"] == MISSED].itertuples():
        sentence = f"Missed: {_aim(row)}."
        reason = reasons.get(row.measure)
        told.append(f"{sentence} {reason(row)}" if reason else sentence)
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
    """In short: how many aims were reached, and which were not."""
    counts = targets["outcome"].value_counts()
    told = f"Of {len(targets)} aims {counts.get(REACHED, 0)} were reached"
    for outcome in (MISSED, NOT_MEASURED):
        rows = targets[targets["outcome"] == outcome]
        if len(rows):
            told += f", {len(rows)} {outcome}"
    missed = "; ".join(_aim(row) for row in targets[targets["outcome"] == MISSED].itertuples())
    return f"{told}. Missed: {missed}." if missed else f"{told}."


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
    """Values for other pages: the sentence of each set and of several GPUs, and the count."""
    told = speed(totals, workers, targets)
    names = [f"{row.set}-{row.device}" for row in totals.itertuples()]
    names += [f"workers-{row.workers}" for row in workers.itertuples()]
    return dict(zip(names, told, strict=False)) | {"answer": told[-1]}


# ---- Why ----


def _launches(ways: pd.DataFrame) -> str:
    single = next(ways[ways["way"] == SINGLE].itertuples())
    other = _fastest_sorted(ways)
    return (
        f"One at a time the card gets through {single.tokens_per_second:,.0f} tokens a second, "
        f"with {other.way} through {other.tokens_per_second:,.0f}: it isn't busy, and most likely "
        "waits for the host to launch its work. So this ratio depends on the host too."
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
        f"{row.one_s - row.forward_s:.2f} s between went to tokenising, shards and writing. "
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
    if measure in SHARES:
        return f"{value:.0%}" if digits is None else f"{value:.{digits}%}"
    return f"{value:g}×" if digits is None else f"{value:.{digits + 1}f}×"


def _times(ratio: float) -> str:
    return f"{ratio:.2f} times"
