"""What the labels page says, written from its tables."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from lib import words
from lib.analyses.labels.stats import (
    BORDERLINE,
    DISCRIMINANT,
    DOUBTED,
    EVERY,
    FITS,
    GAP,
    NOT_SHOWN,
    NOT_TESTED,
    WRONG,
    LabelCheck,
)

SHOWN = 6  # sentences of one sort
_NUMBERS = "(difference {delta:.3f}, at least {low:.3f}, adjusted p = {p_adjusted:.2g})."
AGREEMENT = {
    "convergent and discriminant": "agree within each and differ from each other",
    "convergent": "agree within each, but aren't shown to differ "
    f"(that takes a bound below {DISCRIMINANT:.2f})",
    "not shown": "aren't shown to agree within each",
}


def takeaways(check: LabelCheck, matrix: pd.DataFrame | None = None) -> list[str]:
    """Names shown to fit, names wrong, what heads learned from, and what could be found.

    ``matrix`` is as ``stats.label_matrix`` gives it, for what heads win where no name is tested.
    """
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
            fits(check),
            *beside(check, matrix),
            *_accused(check),
            *as_a_whole(check),
        ]
    sentences += _beaten(heads)
    sentences += [] if check.note else [*learned(check), *_power(check)]
    sentences += _untested(heads)
    partly = heads[(heads["missing"] > 0) & (heads["n"] > 0)]
    sentences += words.each(partly, "{head}: {note}, for this head alone.")
    if check.left_out:
        have = "has" if check.left_out == 1 else "have"
        sentences.append(
            f"{words.count(check.left_out, 'comparison')} {have} a criterion that no tested head "
            "claims: shown, and in no test."
        )
    return sentences


def fits(check: LabelCheck) -> str:
    """How many names are shown to fit, which are borderline, and which aren't shown."""
    heads = check.heads
    shown = ", ".join(heads.loc[heads["fits"] == FITS, "head"])
    kinds = {kind: heads[heads["fits"] == kind] for kind in (BORDERLINE, NOT_SHOWN)}
    rest = words.cases({f"{kind}:": rows for kind, rows in kinds.items()}, _wins)
    count = int((heads["fits"] == FITS).sum())
    text = (
        f"Of {words.count(check.tested, 'name')} that could be tested, {count or 'none'} "
        f"{'is' if count == 1 else 'are'} shown to fit"
    )
    text += (
        f", beyond {'its interval' if count == 1 else 'their intervals'}: {shown}" if count else ""
    )
    return f"{text}{'; ' if rest else ''}{rest}."


def beside(check: LabelCheck, matrix: pd.DataFrame | None) -> list[str]:
    """Where a head whose name is shown to fit wins as often on what no tested name claims."""
    heads = check.heads
    fit = heads.loc[heads["fits"] == FITS, ["head", "claims", "own"]]
    if matrix is None or fit.empty:
        return []
    claimed = set(heads.loc[heads["label"] != NOT_TESTED, "claims"])
    rows = fit.merge(matrix[~matrix["criterion"].isin(claimed)][["head", "criterion", "win_rate"]])
    rows = rows[rows["win_rate"] >= rows["own"]]
    found = []
    for (head, claims), own in rows.groupby(["head", "claims"], sort=False):
        most = own.sort_values("win_rate", ascending=False, kind="stable")
        named = words.listed(words.each(most, "{criterion} ({win_rate:.2f})"), SHOWN)
        found.append(
            f"{head} wins at least as often on {named} as on {claims}; no tested head claims "
            f"{'that' if len(own) == 1 else 'those'}, so no test compares them."
        )
    return words.first(found, SHOWN, "further heads do so elsewhere.")


def _wins(row: Any) -> str:
    text = f"{row.head} wins {words.estimate(row.own, row.low, row.high, '.2f')} on {row.claims}"
    beside = row.fits == BORDERLINE and row.nearest
    return f"{text} ({row.nearest} wins {row.nearest_own:.2f} there)" if beside else text


def learned(check: LabelCheck) -> list[str]:
    """What the heads of each family were trained on, where a model has several."""
    heads = check.heads[check.heads["family"] != EVERY]
    heads = heads.assign(labels=heads["source"].str.split(": ").str[-1])
    return [
        f"{family.capitalize()} and what each was trained on: "
        f"{', '.join(words.each(rows, '{head} ({labels})'))}."
        for family, rows in heads.groupby("family", sort=False)
    ]


def as_a_whole(check: LabelCheck) -> list[str]:
    """Do the names of each family fit better than the same names dealt at random within it?"""
    return [_family(row) for row in check.families.itertuples()]


def _family(row: Any) -> str:
    better = row.p < 0.05
    found = "fit better than" if better else "can't be told from"
    text = (
        f"Among {row.family}, {words.count(row.tested, 'name')} as a whole {found} the same names "
        f"dealt at random (p = {row.p:.2g}; the smallest p that these names allow is "
        f"{row.smallest_p:.2g})."
    )
    if better:
        return text
    if row.smallest_p >= 0.05:
        return f"{text} So few names can't reach p = .05, whatever the heads do."
    if math.isnan(row.mde):
        return f"{text} No win rates would have been found to fit better with power .8."
    return (
        f"{text} On average {row.mde:.3f} more wins on their own criteria than with names dealt "
        "at random would have been found with power .8."
    )


def _accused(check: LabelCheck) -> list[str]:
    """What the verdicts on heads rest on, an accusation a sentence."""
    if not check.heads["label"].isin([WRONG, DOUBTED]).any():
        centred, pairs = (_reach(table["mde"]) for table in (check.centred, check.pairs))
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


def _reach(mde: pd.Series) -> str:
    """Which differences would have been found; NaN where none that can occur."""
    if mde.isna().all():
        return "no difference that can occur would have been found with power .8"
    blind = f" ({mde.isna().sum()} could show none that can occur)" if mde.isna().any() else ""
    spread = words.span(mde, ".2f", ", depending on the pair,")
    return f"a difference of {spread} would have been found with power .8{blind}"


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
        f"criterion. Names shown to fit are one more family of {words.count(check.tested, 'test')}"
        f"{_shared(check)}. The p of a family's names as a whole is one test of its own"
        + (f", and the bounds of {judged} pairs of concepts are each their own." if judged else ".")
    ]


def _shared(check: LabelCheck) -> str:
    """How the correction of names shown to fit is divided."""
    kinds = len(check.families)
    within = f" within each of {kinds} kinds of heads, which share the level" if kinds > 1 else ""
    return f", corrected by Holm{within}"


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
    if rows.empty:
        return []
    each = words.each(rows, "{head} (than {beaten_by:.0f} on {claims})")
    return [
        "On what they claim, these heads win less often than some that don't claim it; no test "
        f"compares them: {words.listed(each, SHOWN)}."
    ]


def _untested(heads: pd.DataFrame) -> list[str]:
    return words.by_note(heads[heads["label"] == NOT_TESTED], "Not tested ({note}): {heads}.")


def agreement(table: pd.DataFrame) -> list[str]:
    """Multitrait-multimethod: a sentence a pair of concepts, the undefined ones together."""
    if table.empty:
        return [
            "No concept has heads from two sources, so agreement of heads that claim the same "
            "can't be measured here."
        ]
    defined, undefined = (table[table["verdict"].isin(AGREEMENT) == each] for each in (True, False))
    high = [f", at most {bound:.2f}" if pd.notna(bound) else "" for bound in defined["htmt_high"]]
    sentences = words.each(
        defined.assign(text=defined["verdict"].map(AGREEMENT), bound=high),
        "Heads of {concept} and of {other} {text} (HTMT {htmt:.2f}{bound}).",
    )
    if len(undefined):
        sentences.append(
            f"Undefined for {len(undefined)} of {len(table)} pairs of concepts "
            f"({words.reasons(undefined['note'])})."
        )
    return sentences


def answer(check: LabelCheck, matrix: pd.DataFrame | None = None) -> str:
    """In short: how many names are shown to fit, and which are wrong or in doubt."""
    if check.note:
        return f"No name could be tested against others: {check.note}."
    return " ".join([fits(check), *beside(check, matrix), *_accused(check)])


def in_short(check: LabelCheck) -> str:
    """Two sentences for who has a minute: how many names are shown to fit, and which are wrong."""
    heads = check.heads
    if check.note:
        return f"No name could be tested against others: {check.note}."
    counts = heads["fits"].value_counts().reindex([FITS, BORDERLINE, NOT_SHOWN], fill_value=0)
    fit, near, unshown = counts
    parts = [f"{fit or 'none'} {'is' if fit == 1 else 'are'} shown to fit"]
    parts += [f"{near} {'is' if near == 1 else 'are'} borderline"] * bool(near)
    parts += [f"{unshown} {'is' if unshown == 1 else 'are'} not shown to"] * bool(unshown)
    grave = {"Called wrong": WRONG, "In doubt": DOUBTED}
    named = {
        said: ", ".join(heads.loc[heads["label"] == kind, "head"]) for said, kind in grave.items()
    }
    told = [f"{said}: {who}" for said, who in named.items() if who]
    return (
        f"Where one quality alone varies, of {words.count(check.tested, 'tested name')} "
        f"{', '.join(parts)}. {'; '.join(told) or 'None is called wrong'}."
    )


def limits(check: LabelCheck) -> str:
    """What the silence of the test is worth, and which names it couldn't reach."""
    power = [] if check.note else _power(check)
    return " ".join([*power, *_untested(check.heads)])


def beaten(check: LabelCheck) -> str:
    """Heads that win less on the criterion of their own name than heads that don't claim it."""
    heads = check.heads
    if len(heads) < 2 or heads["beaten_by"].isna().all():
        return "No head could be tested against another on its own criterion."
    return " ".join(_beaten(heads)) or "On what it claims no head wins less than one that doesn't."


def glued(check: LabelCheck) -> dict[str, str]:
    """Values of the labels page for other pages."""
    heads = {
        label: ", ".join(check.heads.loc[check.heads["label"] == label, "head"]) or "none"
        for label in (WRONG, DOUBTED)
    }
    return {
        "right": str(check.right),
        "tested": str(check.tested),
        "learned": " ".join(learned(check)) or "The model's heads are of one kind.",
        "as-a-whole": " ".join(as_a_whole(check)) or "No names could be dealt at random.",
        "wrong": heads[WRONG],
        "doubted": heads[DOUBTED],
    }
