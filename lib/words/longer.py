"""What the longer response alone wins, said beside what heads, gates and models win.

A validity page tests, of each verdict, whether the head has an advantage over length; elsewhere no
test is made of length, so it is in no family.

``head``       one head's verdict
``verdicts``   all verdicts of a table
``protocols``  the protocols page
``scorecard``  the scorecard
``gate``       the gating page
``compare``    the comparison of models
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from lib import words
from lib.stats.winrates import ALIKE, ALL, AS_LENGTH, GATE, LONGER, NO_MORE, SHORTER

MOST = 6  # models and data sets that win no more than length
FOUND = ("strong", "tracks", "inverted")


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

    Parameters
    ----------
    table
        With ``verdict`` and ``length``, as ``lib.stats.validity`` gives them; nothing is said
        of rows that lack the latter.
    """
    found = table.reindex(columns=["verdict", "length"]).dropna()
    found = found[found["verdict"].isin(FOUND)]
    alike, silent = (
        int(found["length"].astype(str).str.startswith(text.partition("{")[0]).sum())
        for text in (AS_LENGTH, NO_MORE)
    )
    parts = [
        f"{alike} {'chooses' if alike == 1 else 'choose'} as the longer or the shorter response "
        f"does on {ALIKE:.0%} or more",
        f"{silent} {'is' if silent == 1 else 'are'} not shown to have an advantage over length",
    ]
    told = [part for part, many in zip(parts, (alike, silent), strict=True) if many]
    if not told:
        return []
    return [f"Of the {len(found)} that track or are inverted, {' and '.join(told)}."]


def protocols(table: pd.DataFrame) -> list[str]:
    """From where to where the longer response goes.

    Parameters
    ----------
    table
        As ``lib.analyses.protocols.stats.longer`` returns it.
    """
    return _range(table.rename(columns={"protocol": "dataset"}))


def scorecard(card: pd.DataFrame, lengths: pd.DataFrame) -> list[str]:
    """From where to where the longer response goes, and which head goes most with it.

    Parameters
    ----------
    card, lengths
        As ``lib.summary``'s ``scorecard`` and ``longer`` return them.
    """
    told = _range(lengths[lengths["subset"] == ALL])
    known = card.dropna(subset=["from_length"])
    if len(known) > 1 and told:
        near = known.loc[known["from_length"].idxmin()]
        told.append(
            f"The head whose win rates stay nearest to its own is {near['head']}: "
            f"{near['from_length']:.3f} away, the mean over protocols."
        )
    return told


def _range(table: pd.DataFrame) -> list[str]:
    known = table[table["win_rate"].notna()].reset_index(drop=True)
    if known.empty:
        return []
    most, least = (known.loc[known["win_rate"].agg(end)] for end in ("idxmax", "idxmin"))
    if len(known) == 1:
        return [f"The longer response alone wins {words.rate(most)} of {most['dataset']}."]
    if most["win_rate"] == least["win_rate"]:
        return [
            f"The longer response alone wins {most['win_rate']:.3f} of each of {len(known)} data "
            "sets."
        ]
    return [
        f"The longer response alone wins {words.rate(least)} of {least['dataset']} and "
        f"{words.rate(most)} of {most['dataset']}, the least and the most: a head that reads "
        "nothing but length does so too."
    ]


def gate(rules: pd.DataFrame) -> list[str]:
    """The gate beside the longer response, on all comparisons.

    Parameters
    ----------
    rules
        As ``lib.analyses.gating.stats.with_length`` returns it.
    """
    overall = rules[rules["subset"] == ALL].set_index("rule")
    row = overall.loc[LONGER]
    if row[["win_rate", "gain"]].isna().any() or overall.loc[GATE, "note"]:
        return []
    return [
        f"The longer response alone wins {words.rate(row)}; the gate gains {row['gain']:+.3f} "
        f"[{row['gain_low']:+.3f}, {row['gain_high']:+.3f}] on it, outside of the corrected family."
    ]


def compare(scores: pd.DataFrame) -> list[str]:
    """Which models' scores win no more than the longer response does, and where.

    Parameters
    ----------
    scores
        As ``lib.summary.scores`` returns it.
    """
    known = scores[scores["win_rate"].notna() & scores["longer"].notna()]
    if known.empty:
        return []
    short = known[known["win_rate"] <= known["longer"]]
    if short.empty:
        left = len(scores) - len(known)
        return [
            "Each model's score wins more than the longer response alone on each data set"
            + (f" where both are known; not so for {left} more." if left else ".")
        ]
    where = [
        f"{row.model} on {row.dataset} ({row.win_rate:.3f}, length {row.longer:.3f})"
        for row in short.itertuples()
    ]
    return [
        "The longer response alone wins as much as the score of "
        f"{words.listed(where, MOST)}, or more."
    ]
