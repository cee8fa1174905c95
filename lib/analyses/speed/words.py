"""What the page on extraction speed says, written from the tables of ``stats``."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pandas as pd

from lib import words
from lib.analyses.speed.stats import MISSED, NOT_MEASURED, REACHED, SINGLE, SORTED

SHARES = ("share_of_limit", "overhead")  # measures that are shares; others are ratios
SECONDS = ("first_score_s",)  # or these
_PLACE = "{items:,} items of {set} ({model}, {card})"


def takeaways(totals: pd.DataFrame, workers: pd.DataFrame, targets: pd.DataFrame) -> list[str]:
    """How many aims were reached, and ours on each set and on several GPUs."""
    return [answer(targets), *_measured(totals, workers)]


def _measured(totals: pd.DataFrame, workers: pd.DataFrame) -> list[str]:
    other = [
        f", but {row.vs_best:.2f} times as fast as the fastest other way"
        if row.vs_best < row.vs_sorted
        else ""
        for row in totals.itertuples()
    ]
    return [
        *words.each(
            totals.assign(other=other),
            f"On {_PLACE}, ours is {{vs_single:.2f}} times as fast as one at a time and "
            "{vs_sorted:.2f} times as fast as the fastest length-sorted batches{other}. It reaches "
            "{share_of_limit:.1%} of the matmul rate that a short burst measured in that run, and "
            "{share_of_held:.1%} of the rate that was held for seconds.",
        ),
        *words.each(
            workers,
            "{workers} processes extract {items:,} items {ratio:.2f} times as fast as one "
            "({all_s:.1f} s and {one_s:.1f} s on {card}).",
        ),
    ]


def starting(starts: pd.DataFrame, memory: pd.DataFrame) -> list[str]:
    """How soon a first score is there, what a run adds to its model, and what memory it takes."""
    more = [f"; all else adds {each:.1%}" if each > 0 else "" for each in starts["overhead"]]
    return [
        *words.each(
            starts.assign(more=more),
            "A first score of {model} is there {first_score_s:.1f} to {slowest_first_score_s:.1f} "
            "s after the process starts ({card}); a run of {items:,} items takes {extract_s:.1f} "
            "s, {forward_s:.1f} s of them in its model{more}.",
        ),
        *words.each(
            memory,
            "A run of {responses:,} responses, {piece_items:,} items at a time, held "
            "{first_mib:,.0f} MiB when a tenth or more was done and {last_mib:,.0f} MiB at the "
            "end; to open it and read one slice of its states took {read_mib:,.0f} MiB.",
        ),
    ]


def precision(precision: pd.DataFrame) -> list[str]:
    """How far scores move with number type and packing, and what ties."""
    return words.each(
        precision.assign(way=precision["way"].str.capitalize()),
        "{way}: a head's scores on {items:,} items ({model}, {card}) differ from those in float32, "
        "one at a time, by {spread_median:.1e} standard deviations for the median head and by "
        "{spread_most:.1e} at most. {sides_median:.1%} of the pairs change sides for the median "
        "head and {sides_most:.1%} at most; {ties:.1%} tie at most, {ties_if_rounded:.1%} if "
        "scores were rounded.",
    )


def savings(ways: pd.DataFrame) -> list[str]:
    """Where ours gains on the fastest length-sorted way: fewer tokens, or more a second."""
    sentences = []
    for _, rows in ways.groupby(["file", "set"], sort=False):
        ours, other = rows[rows["ours"]].iloc[0], _fastest_sorted(rows)
        sentences.append(
            f"On {_PLACE.format(**ours)}, {other['way']} computes "
            f"{other['tokens'] / ours['tokens']:.2f} times the tokens of ours "
            f"({other['tokens']:,} and {ours['tokens']:,}), and ours gets through "
            f"{ours['tokens_per_second'] / other['tokens_per_second']:.2f} times as many a second "
            f"({ours['tokens_per_second']:,.0f} and {other['tokens_per_second']:,.0f})."
        )
    return sentences


def shortfalls(
    targets: pd.DataFrame, ways: pd.DataFrame, totals: pd.DataFrame, workers: pd.DataFrame
) -> list[str]:
    """Each aim that was missed, with what the tables tell of why; then what wasn't measured."""
    reasons = {
        "vs_single": lambda row: [_launches(_of(ways, row)), _whole_rate(_of(totals, row))],
        "share_of_limit": lambda row: [_bursts(totals[totals["card"] == row.card])],
        "ratio": lambda row: words.each(
            _of(workers, row).assign(even=lambda all: all["one_s"] / all["workers"]),
            "All took {all_s:.2f} s; an even share of what one took is {even:.2f} s.",
        ),
        "overhead": lambda row: words.each(
            _of(workers, row).assign(between=lambda all: all["one_s"] - all["forward_s"]),
            "One process took {one_s:.2f} s, its model alone {forward_s:.2f} s; the {between:.2f} "
            "s between hold what is tokenised before the first row, trying the packing, rows that "
            "are less full within shards, and writing the last of them. Gathering shards into a "
            "run took {gather_s:.2f} s more, which no ratio counts.",
        ),
    }
    sentences = []
    for row in targets[targets["outcome"] == MISSED].itertuples():
        why = reasons[row.measure](row) if row.measure in reasons else []
        sentences.append(" ".join([f"Missed: {_aim(row)}.", *filter(None, why)]))
    sentences += [
        f"Not measured: {row.what} ({_whose(row)}), aimed at {_amount(row.measure, row.aim)}."
        for row in targets[targets["outcome"] == NOT_MEASURED].itertuples()
    ]
    return sentences + words.each(
        totals,
        f"On {_PLACE}, tokenising takes {{encoding_s_per_1000:.2f}} s per 1,000 items; no ratio "
        "counts that.",
    )


def answer(targets: pd.DataFrame) -> str:
    """In short: how many aims were reached, by every measurement of them, and which were not."""
    aims = targets.groupby(["device", "set", "measure"], sort=False)["outcome"].agg(_of_all)
    others = words.tally(aims, (MISSED, NOT_MEASURED))
    text = f"Of {len(aims)} aims {(aims == REACHED).sum()} were reached"
    text += f", {others}." if others else "."
    missed = "; ".join(_aim(row) for row in targets[targets["outcome"] == MISSED].itertuples())
    return f"{text} Missed: {missed}." if missed else text


def _of_all(outcomes: pd.Series) -> str:
    """Of one aim: missed where any measurement missed it."""
    return MISSED if (outcomes == MISSED).any() else outcomes.iloc[0]


def notes(files: pd.DataFrame) -> list[str]:
    """The notes that measurements carry."""
    noted = files[files["note"] != ""]
    return words.each(noted.assign(note=noted["note"].str.rstrip(".")), "{file}: {note}.")


def shown(targets: pd.DataFrame) -> pd.DataFrame:
    """The aims as a page shows them: in words and with units."""
    rows = list(targets.itertuples())
    measured = [_found(row) if row.outcome != NOT_MEASURED else "–" for row in rows]
    table = targets.assign(of=list(map(_whose, rows)), aim=list(map(_bound, rows)))
    return table.assign(measured=measured)[["of", "what", "aim", "measured", "outcome", "file"]]


def glued(totals: pd.DataFrame, workers: pd.DataFrame, targets: pd.DataFrame) -> dict[str, str]:
    """Values for other pages: the sentence of each set and of several GPUs, and the count.

    Where two files measured the same, their names are put after.
    """
    names = [(f"{row.set}-{row.device}", row.file) for row in totals.itertuples()]
    names += [(f"workers-{row.workers}", row.file) for row in workers.itertuples()]
    shared = Counter(name for name, _ in names)
    keys = [
        name if shared[name] == 1 else f"{name}-{file.removesuffix('.json')}"
        for name, file in names
    ]
    kept = dict(zip(keys, _measured(totals, workers), strict=True))
    return kept | {"answer": answer(targets)}


# ---- Why ----


def _launches(ways: pd.DataFrame) -> str:
    single, other = ways[ways["way"] == SINGLE].iloc[0], _fastest_sorted(ways)
    if single["tokens_per_second"] >= other["tokens_per_second"]:
        return ""
    return (
        f"One at a time the card gets through {single['tokens_per_second']:,.0f} tokens a second, "
        f"with {other['way']} through {other['tokens_per_second']:,.0f}: it isn't busy, and most "
        "likely waits for the host to launch its work. So this ratio depends on the host too, and "
        "is the smaller the faster the host."
    )


def _whole_rate(totals: pd.DataFrame) -> str:
    row = totals.iloc[0]
    times = row["vs_single"] / row["share_of_limit"]
    return f"With the whole of the card's matmul rate it would be {times:.1f} times."


def _bursts(totals: pd.DataFrame) -> str:
    text = "The share counts no operations of attention, so it can't reach the whole rate."
    rates = totals["matmul_tflops"]
    if rates.nunique() == 1:
        return text
    return (
        f"{text} The rate itself was measured anew for each set, at {words.span(rates, ',.0f')} "
        "TFLOP/s; the share moves with it."
    )


def _of(table: pd.DataFrame, target: Any) -> pd.DataFrame:
    rows = table[table["file"] == target.file]
    return rows[rows["set"] == target.set] if target.set else rows


def _fastest_sorted(ways: pd.DataFrame) -> pd.Series:
    return ways[ways["way"].str.startswith(SORTED)].nsmallest(1, "seconds_per_1000").iloc[0]


# ---- Words ----


def _whose(row: Any) -> str:
    where = row.card or ("a CPU" if row.device == "CPU" else "a card")
    return f"{row.set}, {where}" if row.set else where


def _aim(row: Any) -> str:
    return f"{row.what} ({_whose(row)}), {_found(row)} where {_bound(row)} was aimed for"


def _bound(row: Any) -> str:
    return f"{'at least' if row.least else 'at most'} {_amount(row.measure, row.aim)}"


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
