"""What the bases page says, written from its tables."""

from __future__ import annotations

import pandas as pd

from lib import words
from lib.analyses.bases.few import BASES, ONE
from lib.analyses.bases.naming import AGAINST
from lib.analyses.bases.people import SIMULATED, STAND_INS, USERS
from lib.analyses.bases.stats import BOUND, UNNAMED, Study

KINDS = {
    USERS: "these users",
    STAND_INS: "parts of the data that stand for users",
    SIMULATED: "simulated users",
}
NEW = {
    USERS: "a new user",
    STAND_INS: "a part of the data that stands for a new user",
    SIMULATED: "a new simulated user",
}


def takeaways(studies: list[Study], few: pd.DataFrame) -> list[str]:
    """For each kind of people: how many bases, how steady, their names, what new users gain."""
    return [sentence for study in studies for sentence in _of(study, few)]


def _of(study: Study, few: pd.DataFrame) -> list[str]:
    return [answer(study), *_steady(study), *_names(study), *_new(study, few), *_left_out(study)]


def answer(study: Study) -> str:
    """How many bases the choices of one kind of people support."""
    who = KINDS[study.people.kind]
    if study.note:
        return f"Nothing can be said of {who}: {study.note}."
    users = words.count(study.pairs.users, "user")
    size = f"{users} with {words.count(len(study.pairs), 'pair')}"
    if study.numbers.empty:
        return f"Of {who} there is one ({size}), so nothing can be shared: one head is fitted."
    if study.count == 1:
        lost = _second(study.numbers.iloc[1:2])
        return (
            f"Choices of {who} ({size}) support one basis: nothing shows that they want different "
            f"things{lost}."
        )
    row = study.numbers.iloc[study.count - 1]
    first = study.numbers.iloc[0]
    return (
        f"Choices of {who} ({size}) support {study.count} bases: held-out users rank "
        f"{row['accuracy']:.3f} of held-out pairs as they chose, and {first['accuracy']:.3f} with "
        f"one head for all."
    )


def _second(rows: pd.DataFrame) -> str:
    rows = rows[rows["gain"].notna() & rows["low"].notna()]
    return "".join(
        words.each(rows, "; a second gains {gain:+.4f} [{low:+.4f}, {high:+.4f}] in held-out loss")
    )


def _steady(study: Study) -> list[str]:
    if study.note:
        return []
    row = study.steady.iloc[0]
    what = "basis" if row["bases"] == 1 else f"span of {row['bases']} bases"
    true = f"; in truth it is {row['truth']:.0f}" if pd.notna(row["truth"]) else ""
    if row["claimed"]:
        return [
            f"The {what} is told to within {BOUND:.0f} degrees: fits of two halves of the items "
            f"differ by {row['halves']:.0f}, which puts the fit of all {row['expected']:.0f} from "
            f"the truth{true}."
        ]
    return [
        f"The {what} isn't told: fits of two halves of the items differ by {row['halves']:.0f} "
        f"degrees, which puts the fit of all {row['expected']:.0f} from the truth{true}; nothing "
        f"is named."
    ]


def _names(study: Study) -> list[str]:
    table = study.bases
    named = table[table["name"] != UNNAMED]
    told = words.each(
        named,
        "Basis {basis} ({share:.0%} of all weight) is named {name}: on stimuli that didn't choose "
        "the name it goes that way in {rate:.2f} [{low:.2f}, {high:.2f}] of comparisons (adjusted "
        "p = {p_adjusted:.2g}); pointed to by {sources}.",
    )
    rest = table[table["name"] == UNNAMED]
    if len(rest) and len(study.steady) and study.steady["claimed"].iloc[0]:
        why = "; ".join(
            f"basis {row.basis}: {row.why}"
            + (f" (evidence points {_way(row.points_to)})" if row.points_to else "")
            for row in rest.itertuples()
        )
        told.append(f"Unnamed of {KINDS[study.people.kind]}: {why}.")
    return told


def _way(points: str) -> str:
    return points if points.startswith(AGAINST) else f"to {points}"


def _new(study: Study, few: pd.DataFrame) -> list[str]:
    own = few[few["whose"] == study.people.kind]
    bases = own[own["method"] == BASES]
    if bases.empty:
        return []
    last = bases.iloc[-1]
    k = int(last["pairs"])
    rest = own[(own["pairs"] == k) & (own["method"] != BASES)]
    rest = rest.sort_values("accuracy", ascending=False, kind="stable")
    kinds = {
        "fewer than": rest[rest["accuracy"] > last["accuracy"]],
        "as many as": rest[rest["accuracy"] == last["accuracy"]],
        "more than": rest[rest["accuracy"] < last["accuracy"]],
    }
    beside = words.cases(kinds, lambda row: f"{row.method} ({row.accuracy:.3f})")
    helps = bases[bases["gain_low"] > 0]
    since = (
        f"is shown from {words.count(int(helps['pairs'].iloc[0]), 'pair')} on"
        if len(helps) and (bases.loc[helps.index[0] :, "gain_low"] > 0).all()
        else "isn't shown"
    )
    others = (
        "; bases aren't tested against the other methods" if (rest["method"] != ONE).any() else ""
    )
    return [
        f"After {words.count(k, 'pair')} of {NEW[study.people.kind]}, bases rank "
        f"{words.estimate(last['accuracy'], last['low'], last['high'])} of the held-out pairs as "
        f"that user chose: {beside}. That bases rank more than {ONE} {since}, in intervals over "
        f"{words.count(int(last['users']), 'user')}, uncorrected{others}."
    ]


def _left_out(study: Study) -> list[str]:
    lost = study.people.left_out
    if not lost or study.note:
        return []
    said = "; ".join(f"{count} {reason}" for reason, count in lost.items())
    return [f"Comparisons that are left out of {KINDS[study.people.kind]}: {said}."]


def glued(studies: list[Study]) -> dict:
    """What other pages quote."""
    return {"answer": " ".join(map(answer, studies))}
