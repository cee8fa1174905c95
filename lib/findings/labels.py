"""What the labels page says, written from its tables."""

from __future__ import annotations

import math

import pandas as pd

from lib.findings import words
from lib.stats.labels import DISCRIMINANT, GAP, LabelCheck

MOST = 6  # sentences of one sort


def labels(check: LabelCheck) -> list[str]:
    """Takeaways: right names, their p, names called wrong, and what could be found."""
    heads = check.heads
    told = []
    if check.note:
        told.append(f"No name could be tested against others: {check.note}.")
        own = [_own(row) for row in heads[heads["own"].notna()].itertuples()]
        told += words.first(own, MOST, "further heads are in the table.")
    else:
        told.append(
            f"Of {check.tested} heads whose claim could be tested, {check.right} get their own "
            "concept when names are assigned by what the heads do best."
        )
        told.append(_better(check))
        told += _accused(check.pairs)
        told += _power(check)
    told += _beaten(heads)
    told += _untested(heads)
    if check.left_out:
        have = "comparison has" if check.left_out == 1 else "comparisons have"
        told.append(
            f"{check.left_out} {have} a criterion that no tested head claims: shown, and in no "
            "test."
        )
    return told


def _better(check: LabelCheck) -> str:
    found = (
        "fit better than random ones would"
        if check.p < 0.05
        else ("can't be told from random ones")
    )
    smallest = f"; the smallest p that these names allow is {check.smallest_p:.2g}"
    told = f"As a whole the names {found} (p = {check.p:.2g}{smallest})."
    if check.p >= 0.05 and not math.isnan(check.mde):
        told += (
            f" On average {check.mde:.3f} more wins on their own criteria than with names dealt at "
            "random would have been found with power .8."
        )
    elif check.p >= 0.05:
        told += " So few names can't reach p = .05, whatever the heads do."
    return told


def _accused(pairs: pd.DataFrame) -> list[str]:
    wrong = pairs[pairs["wrong"]].sort_values("p")
    if wrong.empty:
        return [
            "No name is called wrong: no exchange of two names fits better beyond doubt, where "
            f"{_would(pairs)}."
        ]
    told = [_pair(row) for row in wrong.itertuples()]
    return words.first(told, MOST, "further pairs fit better exchanged.")


def _would(pairs: pd.DataFrame) -> str:
    """The differences that would have been found."""
    least, most = (f"{size:.2f}" for size in pairs["mde"].agg(["min", "max"]))
    sizes = f"{least} to {most}, depending on the pair," if least != most else least
    return f"a difference of {sizes} would have been found with power .8"


def family(check: LabelCheck, other: LabelCheck, agreement: pd.DataFrame) -> list[str]:
    """How many tests the page makes, and which correction covers which.

    Parameters
    ----------
    check, other
        Of the forms ``swap`` and ``centred``.
    agreement
        From ``mtmm``.
    """
    if not len(check.pairs):
        return []
    judged = int((agreement["verdict"] != "undefined").sum()) if len(agreement) else 0
    return [
        "Two families of accusations, each corrected by Holm at half of the page's level: "
        f"{len(check.pairs)} exchanges of two names, and {len(other.pairs)} heads beside another "
        "criterion. The p of the names as a "
        "whole is one test of its own"
        + (f", and the bounds of {judged} pairs of concepts are each their own." if judged else ".")
    ]


def _pair(row) -> str:
    numbers = (
        f"difference {row.delta:.3f}, at least {row.low:.3f}, adjusted p = {row.p_adjusted:.2g}"
    )
    if row.other:
        return (
            f"The names of {row.head} ({row.claims}) and {row.other} ({row.other_claims}) fit "
            f"better exchanged ({numbers})."
        )
    return (
        f"{row.head} is named for {row.claims} and follows {row.other_claims} better ({numbers})."
    )


def _power(check: LabelCheck) -> list[str]:
    least, most = (f"{power:.2f}" for power in check.pairs["power"].agg(["min", "max"]))
    told = f"power {least} to {most}, depending on the pair" if least != most else f"power {least}"
    return [
        f"An exchange of two heads that win {GAP:.2f} more where they belong would be found with "
        f"{told}."
    ]


def _beaten(heads: pd.DataFrame) -> list[str]:
    beaten = heads[heads["beaten_by"] > 0].sort_values("beaten_by", ascending=False)
    told = [
        f"{row.head} is beaten by {words.count(int(row.beaten_by), 'other head')} on {row.claims}, "
        "its own criterion."
        for row in beaten.itertuples()
    ]
    return words.first(told, MOST, "further heads are beaten on theirs.")


def _untested(heads: pd.DataFrame) -> list[str]:
    rows = heads[(heads["label"] == "not tested") & (heads["note"] != "")]
    told = []
    for note, group in rows.groupby("note", sort=False):
        told.append(f"Not tested ({note}): {', '.join(group['head'].astype(str))}.")
    return told


def _own(row) -> str:
    return (
        f"{row.head} wins {row.own:.3f} [{row.low:.3f}, {row.high:.3f}] of the comparisons on "
        f"{row.claims}, which it claims."
    )


def centred(check: LabelCheck) -> list[str]:
    """The second form of accusation: a head that follows another criterion better."""
    if check.note:
        return [f"No name could be tested against others: {check.note}."]
    wrong = check.pairs[check.pairs["wrong"]].sort_values("p")
    if wrong.empty:
        return [
            "No head follows another criterion better than its own beyond doubt, where "
            f"{_would(check.pairs)}."
        ]
    told = [_pair(row) for row in wrong.itertuples()]
    return words.first(told, MOST, "further heads follow another criterion better.")


def agreement(table: pd.DataFrame) -> list[str]:
    """Multitrait-multimethod: a sentence a pair of concepts, the undefined ones together."""
    if table.empty:
        return [
            "No concept has heads from two sources, so agreement of heads that claim the same "
            "can't be measured here."
        ]
    told = []
    for row in table[table["verdict"] != "undefined"].itertuples():
        high = f", at most {row.htmt_high:.2f}" if not math.isnan(row.htmt_high) else ""
        says = {
            "convergent and discriminant": "agree within each and differ from each other",
            "convergent": f"agree within each, but aren't shown to differ "
            f"(that takes a bound below {DISCRIMINANT:.2f})",
            "not shown": "aren't shown to agree within each",
        }[row.verdict]
        told.append(
            f"Heads of {row.concept} and of {row.other} {says} (HTMT {row.htmt:.2f}{high})."
        )
    undefined = table[table["verdict"] == "undefined"]
    if len(undefined):
        told.append(
            f"Undefined for {len(undefined)} of {len(table)} pairs of concepts "
            f"({'; '.join(dict.fromkeys(undefined['note']))})."
        )
    return told


def answer(check: LabelCheck) -> str:
    """In short: how many names fit best where they stand, and whether any is called wrong."""
    if check.note:
        return f"No name could be tested against others: {check.note}."
    told = (
        f"Of {check.tested} names that could be tested, {check.right} fit best where they stand "
        f"(p = {check.p:.2g} against names dealt at random)."
    )
    return " ".join([told, *_accused(check.pairs)])


def limits(check: LabelCheck) -> str:
    """What the silence of the test is worth, and which names it couldn't reach."""
    power = [] if check.note else _power(check)
    return " ".join([*power, *_untested(check.heads)])


def beaten(check: LabelCheck) -> str:
    """Heads that others beat on the criterion of their own name."""
    heads = check.heads
    if len(heads) < 2 or heads["beaten_by"].isna().all():
        return "No head could be tested against another on its own criterion."
    return " ".join(_beaten(heads)) or "No head is beaten on its own criterion by another head."


def glued(check: LabelCheck) -> dict[str, str]:
    """Values of the labels page for other pages."""
    wrong = check.heads.loc[check.heads["label"] == "wrong", "head"].astype(str)
    return {
        "right": str(check.right),
        "tested": str(check.tested),
        "p": "–" if math.isnan(check.p) else f"{check.p:.2g}",
        "wrong": ", ".join(wrong) or "none",
    }
