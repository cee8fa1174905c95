"""What changed between two audits, written from its tables."""

from __future__ import annotations

import pandas as pd

from lib import words
from lib.audits.changes import ALIKE, CHANGED, GONE, HIGHER, LOWER, NEW, SAME, UNPAIRED, Changes
from lib.stats.winrates import ALL

NOTHING = "Nothing changed: the two audits have the same verdicts, by the same outcomes."
SHOWN = 12  # sentences of a sort
WHY = {
    HIGHER: "beyond noise: it wins more of the same comparisons",
    LOWER: "beyond noise: it wins fewer of the same comparisons",
    ALIKE: "within noise: on the same comparisons no difference is shown",
    SAME: "no outcome of the same comparisons differs",
    UNPAIRED: "not paired",
}


def takeaways(found: Changes) -> list[str]:
    """What moved beyond noise, which verdicts changed, what made the two, what was tested."""
    if found.empty:
        return [NOTHING]
    moved = [_moved(row) for row in found.found.itertuples()]
    changed = found.verdicts[found.verdicts["change"] == CHANGED]
    counts = words.tally(found.verdicts["change"], (CHANGED, NEW, GONE)) or "none changed"
    return [
        f"Verdicts: {counts}; {_counted(found)}.",
        *words.first(moved, SHOWN, "further heads or scores moved beyond noise."),
        *words.first(
            [_verdict(row) for row in changed.itertuples()], SHOWN, "further verdicts changed."
        ),
        *found.notes,
        *_family(found.moved),
    ]


def _counted(found: Changes) -> str:
    """``2 of 30 questions moved beyond noise``."""
    tested = found.moved[found.moved["verdict"] != UNPAIRED]
    return f"{len(found.found)} of {words.count(len(tested), 'paired question')} moved beyond noise"


def _place(row) -> str:
    part = "" if row.part in (ALL, "") else f": {row.part}"
    return f"{row.model}, {row.judged} on {row.dataset}{part}"


def _moved(row) -> str:
    ends = words.estimate(row.difference, row.low, row.high, "+.3f")
    return (
        f"{_place(row)} wins {row.new_rate:.3f} of {row.n} comparisons where it won "
        f"{row.rate:.3f}: {ends}, adjusted p = {row.p_adjusted:.2g}."
    )


def _verdict(row) -> str:
    place = _place(row) if row.dataset else f"{row.model}, {row.judged}: {row.part}"
    return (
        f"{place} ({row.of}): {row.before or 'none'}, now {row.after or 'none'}; {WHY[row.moved]}."
    )


def _family(moved: pd.DataFrame) -> list[str]:
    tests = moved[moved["p"].notna()]
    if tests.empty:
        return []
    text = f"Paired tests are one family of {len(tests)}, corrected by Holm"
    missed = tests.loc[tests["verdict"] == ALIKE, "mde"].dropna()
    if missed.empty:
        return [f"{text}."]
    sizes = words.span(missed, ".3f")
    return [f"{text}; where nothing was shown {sizes} would have been found with power .8."]
