"""What the labels page says, written from its tables."""

from __future__ import annotations

import math

import pandas as pd

from lib import words
from lib.analyses.labels.stats import DISCRIMINANT, DOUBTED, GAP, NOT_TESTED, WRONG, LabelCheck

SHOWN = 6  # sentences of one sort
_NUMBERS = "(difference {delta:.3f}, at least {low:.3f}, adjusted p = {p_adjusted:.2g})."
_AGREEMENT = {
    "convergent and discriminant": "agree within each and differ from each other",
    "convergent": "agree within each, but aren't shown to differ "
    f"(that takes a bound below {DISCRIMINANT:.2f})",
    "not shown": "aren't shown to agree within each",
}


def takeaways(check: LabelCheck) -> list[str]:
    """Right names, their p, names wrong or in doubt, and what could be found."""
    heads = check.heads
    if check.note:
        own = words.each(
            heads[heads["own"].notna()],
            "{head} wins {own:.3f} [{low:.3f}, {high:.3f}] of the comparisons on {claims}, which "
            "it claims.",
        )
        sentences = [
            f"No name could be tested against others: {check.note}.",
            *words.first(own, SHOWN, "further heads are in the table."),
        ]
    else:
        sentences = [
            f"Of {check.tested} heads whose claim could be tested, {check.right} get their own "
            "concept when names are assigned by what the heads do best.",
            _as_a_whole(check),
            *_accused(check),
            *_power(check),
        ]
    sentences += [*_beaten(heads), *_untested(heads)]
    partly = heads[(heads["missing"] > 0) & (heads["n"] > 0)]
    sentences += words.each(partly, "{head}: {note}, for this head alone.")
    if check.left_out:
        have = "has" if check.left_out == 1 else "have"
        sentences.append(
            f"{words.count(check.left_out, 'comparison')} {have} a criterion that no tested head "
            "claims: shown, and in no test."
        )
    return sentences


def _as_a_whole(check: LabelCheck) -> str:
    better = check.p < 0.05
    found = "fit better than random ones would" if better else "can't be told from random ones"
    text = (
        f"As a whole the names {found} (p = {check.p:.2g}; the smallest p that these names allow "
        f"is {check.smallest_p:.2g})."
    )
    if better:
        return text
    if math.isnan(check.mde):
        return f"{text} So few names can't reach p = .05, whatever the heads do."
    return (
        f"{text} On average {check.mde:.3f} more wins on their own criteria than with names dealt "
        "at random would have been found with power .8."
    )


def _accused(check: LabelCheck) -> list[str]:
    """What the verdicts on heads rest on, an accusation a sentence."""
    if not check.heads["label"].isin([WRONG, DOUBTED]).any():
        would = "a difference of {} would have been found with power .8"
        centred, pairs = (
            would.format(words.span(table["mde"], ".2f", ", depending on the pair,"))
            for table in (check.centred, check.pairs)
        )
        return [
            "No name is called wrong: no head follows another criterion better than its own "
            f"beyond doubt, where {centred}; and no two names fit better exchanged "
            f"beyond doubt, where {pairs}."
        ]
    follows = words.each(
        _followed(check),
        "{head} is named for {claims} and follows {other_claims} better " + _NUMBERS,
    )
    pairs = _pairs(check)
    return [
        *words.first(follows, SHOWN, "further heads follow another criterion better."),
        *words.first(pairs, SHOWN, "further pairs fit better exchanged."),
    ]


def _followed(check: LabelCheck) -> pd.DataFrame:
    """The surest accusation of each wrong head by itself."""
    own = check.centred[check.centred["wrong"]]
    return own.sort_values("p", kind="stable").drop_duplicates("head")


def unexplained(check: LabelCheck) -> pd.DataFrame:
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


def _pairs(check: LabelCheck) -> list[str]:
    label = check.heads.set_index("head")["label"]
    sentences = []
    for row in unexplained(check).to_dict("records"):
        if label[row["other"]] == NOT_TESTED:
            row["other_claims"] = row["other_claims"] or "none of the concepts"
            text = (
                "The name of {head} ({claims}) fits {other}, which claims {other_claims}, better "
            )
        else:
            known = (label[[row["head"], row["other"]]] == WRONG).any()
            text = (
                "The names of {head} ({claims}) and {other} ({other_claims}) fit better exchanged"
                f"{'' if known else ', so that one of the two is wrong'} "
            )
        sentences.append((text + _NUMBERS).format(**row))
    return sentences


def family(check: LabelCheck, agreement: pd.DataFrame) -> list[str]:
    """How many tests the page makes, and which correction covers which, of ``stats.mtmm`` too."""
    if not len(check.pairs):
        return []
    judged = int((agreement["verdict"] != "undefined").sum()) if len(agreement) else 0
    return [
        "Two families of accusations, each corrected by Holm at half of the page's level: "
        f"{len(check.pairs)} exchanges of two names, and {len(check.centred)} heads beside another "
        "criterion. The p of the names as a whole is one test of its own"
        + (f", and the bounds of {judged} pairs of concepts are each their own." if judged else ".")
    ]


def _power(check: LabelCheck) -> list[str]:
    tested = check.heads.loc[check.heads["label"] != NOT_TESTED, "head"]
    claims = check.pairs["other"].isin(set(tested))
    kinds = {"": check.pairs[claims], ", one of them without a tested claim,": check.pairs[~claims]}
    return [
        f"An exchange of two heads{kind} that win {GAP:.2f} more where they belong would be found "
        f"with power {words.span(rows['power'], '.2f', ', depending on the pair')}."
        for kind, rows in kinds.items()
        if len(rows)
    ]


def _beaten(heads: pd.DataFrame) -> list[str]:
    rows = heads[heads["beaten_by"] > 0].sort_values("beaten_by", ascending=False)
    others = [words.count(int(number), "other head") for number in rows["beaten_by"]]
    sentences = words.each(
        rows.assign(others=others),
        "{head} is beaten by {others} on {claims}, its own criterion.",
    )
    return words.first(sentences, SHOWN, "further heads are beaten on theirs.")


def _untested(heads: pd.DataFrame) -> list[str]:
    return words.by_note(heads[heads["label"] == NOT_TESTED], "Not tested ({note}): {heads}.")


def agreement(table: pd.DataFrame) -> list[str]:
    """Multitrait-multimethod: a sentence a pair of concepts, the undefined ones together."""
    if table.empty:
        return [
            "No concept has heads from two sources, so agreement of heads that claim the same "
            "can't be measured here."
        ]
    defined, undefined = (
        table[table["verdict"].isin(_AGREEMENT) == each] for each in (True, False)
    )
    high = [f", at most {bound:.2f}" if pd.notna(bound) else "" for bound in defined["htmt_high"]]
    sentences = words.each(
        defined.assign(text=defined["verdict"].map(_AGREEMENT), bound=high),
        "Heads of {concept} and of {other} {text} (HTMT {htmt:.2f}{bound}).",
    )
    if len(undefined):
        sentences.append(
            f"Undefined for {len(undefined)} of {len(table)} pairs of concepts "
            f"({words.reasons(undefined['note'])})."
        )
    return sentences


def answer(check: LabelCheck) -> str:
    """In short: how many names fit best where they stand, and which are wrong or in doubt."""
    if check.note:
        return f"No name could be tested against others: {check.note}."
    text = (
        f"Of {check.tested} names that could be tested, {check.right} fit best where they stand "
        f"(p = {check.p:.2g} against names dealt at random)."
    )
    return " ".join([text, *_accused(check)])


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
    heads = {
        label: ", ".join(check.heads.loc[check.heads["label"] == label, "head"]) or "none"
        for label in (WRONG, DOUBTED)
    }
    return {
        "right": str(check.right),
        "tested": str(check.tested),
        "p": words.number(check.p, ".2g"),
        "wrong": heads[WRONG],
        "doubted": heads[DOUBTED],
    }
