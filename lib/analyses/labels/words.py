"""What the labels page says, written from its tables."""

from __future__ import annotations

import math

import pandas as pd

from lib import words
from lib.analyses.labels.stats import DISCRIMINANT, DOUBTED, GAP, NOT_TESTED, WRONG, LabelCheck

MOST = 6  # sentences of one sort


def labels(check: LabelCheck) -> list[str]:
    """Takeaways: right names, their p, names wrong or in doubt, and what could be found."""
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
        told += _accused(check)
        told += _power(check)
    told += _beaten(heads)
    told += _untested(heads)
    told += _missing(heads)
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


def _accused(check: LabelCheck) -> list[str]:
    """What the verdicts on heads rest on, an accusation a sentence."""
    label = check.heads.set_index("head")["label"]
    if not label.isin([WRONG, DOUBTED]).any():
        return [
            "No name is called wrong: no head follows another criterion better than its own "
            f"beyond doubt, where {_would(check.centred)}; and no two names fit better exchanged "
            f"beyond doubt, where {_would(check.pairs)}."
        ]
    told = words.first(
        [_follows(row) for row in _followed(check).itertuples()],
        MOST,
        "further heads follow another criterion better.",
    )
    pairs = [_pair(row, label) for row in _unexplained(check).itertuples()]
    return told + words.first(pairs, MOST, "further pairs fit better exchanged.")


def _followed(check: LabelCheck) -> pd.DataFrame:
    """The surest accusation of each wrong head by itself."""
    own = check.centred[check.centred["wrong"]]
    return own.sort_values("p", kind="stable").drop_duplicates("head")


def _unexplained(check: LabelCheck) -> pd.DataFrame:
    """Pairs that say more than what one of their heads is shown to follow.

    Neither head is wrong; or both are; or one is and follows what the other claims, where it is
    in no pair of two wrong ones.
    """
    wrong = check.heads.loc[check.heads["label"] == WRONG, "head"]
    follows = _followed(check).set_index("head")["other_claims"]
    pairs = check.pairs[check.pairs["wrong"]].sort_values("p")
    sides = pairs[["head", "other"]]
    count = sides.isin(set(wrong)).sum(axis=1)
    paired = set(sides[count == 2].to_numpy().ravel())
    points = (pairs["head"].map(follows) == pairs["other_claims"]) | (
        pairs["other"].map(follows) == pairs["claims"]
    )
    return pairs[(count != 1) | (points & ~sides.isin(paired).any(axis=1))]


def _would(table: pd.DataFrame) -> str:
    """The differences that would have been found."""
    least, most = (f"{size:.2f}" for size in table["mde"].agg(["min", "max"]))
    sizes = f"{least} to {most}, depending on the pair," if least != most else least
    return f"a difference of {sizes} would have been found with power .8"


def family(check: LabelCheck, agreement: pd.DataFrame) -> list[str]:
    """How many tests the page makes, and which correction covers which.

    Parameters
    ----------
    check
        From ``label_check``.
    agreement
        From ``mtmm``.
    """
    if not len(check.pairs):
        return []
    judged = int((agreement["verdict"] != "undefined").sum()) if len(agreement) else 0
    return [
        "Two families of accusations, each corrected by Holm at half of the page's level: "
        f"{len(check.pairs)} exchanges of two names, and {len(check.centred)} heads beside another "
        "criterion. The p of the names as a "
        "whole is one test of its own"
        + (f", and the bounds of {judged} pairs of concepts are each their own." if judged else ".")
    ]


def _numbers(row) -> str:
    return (
        f"(difference {row.delta:.3f}, at least {row.low:.3f}, adjusted p = {row.p_adjusted:.2g})"
    )


def _follows(row) -> str:
    return (
        f"{row.head} is named for {row.claims} and follows {row.other_claims} better "
        f"{_numbers(row)}."
    )


def _pair(row, label: pd.Series) -> str:
    if label[row.other] == NOT_TESTED:
        claims = row.other_claims or "none of the concepts"
        return (
            f"The name of {row.head} ({row.claims}) fits {row.other}, which claims {claims}, "
            f"better {_numbers(row)}."
        )
    known = (label[[row.head, row.other]] == WRONG).any()
    return (
        f"The names of {row.head} ({row.claims}) and {row.other} ({row.other_claims}) fit "
        f"better exchanged{'' if known else ', so that one of the two is wrong'} {_numbers(row)}."
    )


def _power(check: LabelCheck) -> list[str]:
    tested = set(check.heads.loc[check.heads["label"] != NOT_TESTED, "head"])
    claims = check.pairs["other"].isin(tested)
    kinds = {"": check.pairs[claims], ", one of them without a tested claim,": check.pairs[~claims]}
    told = []
    for kind, rows in kinds.items():
        if len(rows):
            least, most = (f"{power:.2f}" for power in rows["power"].agg(["min", "max"]))
            power = f"{least} to {most}, depending on the pair" if least != most else least
            told.append(
                f"An exchange of two heads{kind} that win {GAP:.2f} more where they belong would "
                f"be found with power {power}."
            )
    return told


def _beaten(heads: pd.DataFrame) -> list[str]:
    beaten = heads[heads["beaten_by"] > 0].sort_values("beaten_by", ascending=False)
    told = [
        f"{row.head} is beaten by {words.count(int(row.beaten_by), 'other head')} on {row.claims}, "
        "its own criterion."
        for row in beaten.itertuples()
    ]
    return words.first(told, MOST, "further heads are beaten on theirs.")


def _untested(heads: pd.DataFrame) -> list[str]:
    rows = heads[(heads["label"] == NOT_TESTED) & (heads["note"] != "")]
    told = []
    for note, group in rows.groupby("note", sort=False):
        told.append(f"Not tested ({note}): {', '.join(group['head'].astype(str))}.")
    return told


def _missing(heads: pd.DataFrame) -> list[str]:
    rows = heads[(heads["missing"] > 0) & (heads["n"] > 0)]
    return [f"{row.head}: {row.note}, for this head alone." for row in rows.itertuples()]


def _own(row) -> str:
    return (
        f"{row.head} wins {row.own:.3f} [{row.low:.3f}, {row.high:.3f}] of the comparisons on "
        f"{row.claims}, which it claims."
    )


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
    """In short: how many names fit best where they stand, and which are wrong or in doubt."""
    if check.note:
        return f"No name could be tested against others: {check.note}."
    told = (
        f"Of {check.tested} names that could be tested, {check.right} fit best where they stand "
        f"(p = {check.p:.2g} against names dealt at random)."
    )
    return " ".join([told, *_accused(check)])


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

    def heads(label: str) -> str:
        return ", ".join(check.heads.loc[check.heads["label"] == label, "head"]) or "none"

    return {
        "right": str(check.right),
        "tested": str(check.tested),
        "p": "–" if math.isnan(check.p) else f"{check.p:.2g}",
        "wrong": heads(WRONG),
        "doubted": heads(DOUBTED),
    }
