"""What the longer response alone wins, said beside what heads win.

A validity page tests, of each verdict, whether the head has an advantage over length; elsewhere no
test is made of length, so it is in no family.

``head``      one head's verdict
``verdicts``  all verdicts of a table
``extremes``  the data sets on which it wins the least and the most
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from lib import words
from lib.stats.winrates import ALIKE, AS_LENGTH, FOUND, LONGER, NO_MORE, SHORTER


def head(row: Any) -> str:
    """What a head's verdict owes to length, to follow its numbers; empty where nothing is said."""
    which = next((name for name in (LONGER, SHORTER) if row.length.endswith(name)), "")
    if row.length == AS_LENGTH.format(which):
        return f"it chooses as the {which} does on {row.agreement:.1%} of comparisons"
    if row.length == NO_MORE.format(which):
        does = "lose" if row.verdict == "inverted" else "win"
        return (
            f"it is not shown to {does} more than the {which} does ({row.advantage:+.3f}, adjusted "
            f"p = {row.p_length:.2g})"
        )
    return ""


def verdicts(table: pd.DataFrame) -> list[str]:
    """How many of the heads that track or are inverted may read length alone.

    Nothing is said of rows without ``length``, which ``lib.stats.validity`` gives them.
    """
    found = table.reindex(columns=["verdict", "length"]).dropna()
    length = found.loc[found["verdict"].isin(FOUND), "length"].astype(str)
    alike, unshown = (
        int(length.str.startswith(text.partition("{")[0]).sum()) for text in (AS_LENGTH, NO_MORE)
    )
    parts = []
    if alike:
        parts.append(
            f"{alike} {'chooses' if alike == 1 else 'choose'} as the longer or the shorter "
            f"response does on {ALIKE:.0%} or more"
        )
    if unshown:
        is_ = "is" if unshown == 1 else "are"
        parts.append(f"{unshown} {is_} not shown to have an advantage over length")
    if not parts:
        return []
    return [f"Of the {len(length)} that go with the labels or against them, {' and '.join(parts)}."]


def extremes(table: pd.DataFrame, what: str = "dataset") -> list[str]:
    """From where to where the longer response goes, over the data sets of column ``what``."""
    known = table[table["win_rate"].notna()].reset_index(drop=True)
    if known.empty:
        return []
    most, least = (known.loc[known["win_rate"].agg(end)] for end in ("idxmax", "idxmin"))
    wins = "The longer response alone wins"
    if len(known) == 1:
        return [f"{wins} {words.rate(most)} of {most[what]}."]
    if most["win_rate"] == least["win_rate"]:
        return [f"{wins} {most['win_rate']:.3f} of each of {len(known)} data sets."]
    return [
        f"{wins} {words.rate(least)} of {least[what]} and {words.rate(most)} of {most[what]}, "
        "the least and the most: a head that reads nothing but length does so too."
    ]
