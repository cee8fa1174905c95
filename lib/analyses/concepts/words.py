"""Sentences of the concepts page, every number from its tables."""

from __future__ import annotations

import pandas as pd

from lib import words
from lib.analyses.concepts.coverage import FEW, HIGH
from lib.analyses.concepts.directions import FOUND, PAID
from lib.analyses.concepts.divergence import RATE, THRESHOLD

LISTED = 3


def takeaways(
    found: pd.DataFrame, alignment: pd.DataFrame, conflict: pd.DataFrame, slopes: pd.DataFrame
) -> list[str]:
    """Which concepts are directions, which are paid for, which go together, and how far."""
    return [answer(found), *paid(alignment), *together(conflict), *bent(slopes)]


def answer(found: pd.DataFrame) -> str:
    """In short: the concepts that are directions of the states, and those only as length."""
    known = found[found["verdict"] != "undefined"]
    if known.empty:
        return f"No concept could be tried: {words.reasons(found['note'])}."
    there = known[known["verdict"] == "found"]
    names = f": {', '.join(there['concept'])}" if len(there) else ""
    text = (
        f"The mean difference of one half of the pairs ranks the other half for {len(there)} of "
        f"{words.count(len(known), 'concept')}, length taken out or not{names}."
    )
    rest = words.each(
        known[known["verdict"] == "only as length"],
        "{concept} is found only as length: {accuracy:.2f} of held-out pairs, {without_length:.2f} "
        "with length taken out.",
    )
    rest += words.each(
        known[known["verdict"] == "not shown"],
        "{concept} is not shown: {accuracy:.2f} [{low:.2f}, {high:.2f}].",
    )
    return " ".join([text, *rest])


def paid(alignment: pd.DataFrame) -> list[str]:
    """What heads pay for, head by head; and how many payments are only length."""
    known = alignment[alignment["verdict"] != "undefined"]
    if known.empty:
        return [f"No head could be compared with a concept: {words.reasons(alignment['note'])}."]
    told = known[known["verdict"].isin(["for", "against"])]
    text = f"Of {len(known)} pairs of a head and a concept: {words.tally(known['verdict'], PAID)}."
    strongest = told.loc[told["gap"].abs().sort_values(ascending=False).index]
    sentences = words.each(
        strongest.assign(
            way=strongest["verdict"].map({"for": "pays for", "against": "pays against"})
        ),
        "{head} {way} {concept}: {gap:+.2f} [{gap_low:+.2f}, {gap_high:+.2f}] standard deviations.",
    )
    more = "more such pairs are in the table."
    return [text, *words.first(sentences, LISTED, more)]


def together(conflict: pd.DataFrame) -> list[str]:
    """Pairs of concepts whose directions go together or are opposed in both forms."""
    if conflict.empty:
        return ["There is one concept, so none to compare it with."]
    raw = conflict[conflict["form"] == "raw"].set_index(["one", "other"])
    white = conflict[conflict["form"] == "whitened"].set_index(["one", "other"])
    known = raw[raw["verdict"] != "undefined"]
    if known.empty:
        return [f"No two directions could be compared: {words.reasons(white['note'])}."]
    called = int(known["label"].isin(["aligned", "in conflict"]).sum())
    told = known[known["verdict"].isin(["together", "in conflict"])]
    text = (
        f"As published, {called} of {len(known)} pairs of concepts would be called aligned or in "
        f"conflict; {len(told)} {'is' if len(told) == 1 else 'are'} shown, raw and whitened alike."
    )
    each = told.join(white["published"].rename("white")).reset_index()
    each["ends"] = each["verdict"].map({"together": "go together", "in conflict": "are opposed"})
    return [
        text,
        *words.each(
            each, "{one} and {other} {ends}: cosine {published:+.2f}, whitened {white:+.2f}."
        ),
    ]


def bent(slopes: pd.DataFrame) -> list[str]:
    """How often a reward goes one way as a concept is added, and what turns."""
    known = slopes[slopes["slope"].notna()]
    if known.empty:
        return [f"No dose could be given: {words.reasons(slopes['note'])}."]
    steady = int((known["monotone"] == 1).sum())
    return [
        f"As a concept is added to the last layer's state, the reward moves one way at every dose "
        f"for all prompts in {steady} of {len(known)} pairs of a head and a concept; in the others "
        "the final norm turns some of them round."
    ]


def family(found: pd.DataFrame, alignment: pd.DataFrame, conflict: pd.DataFrame) -> list[str]:
    """How many tests the corrections of the page cover."""
    many = [int(table["p"].notna().sum()) for table in (found, alignment)]
    pairs = int(conflict["p"].notna().sum()) // 2 if len(conflict) else 0
    if not many[0]:
        return ["No test could be made, so there is no family to correct."]
    return [
        f"Each kind of test is a family corrected by Holm: {words.count(many[0], 'concept')}, "
        f"{many[1]} pairs of a head and a concept, each with length left in and taken out, and "
        f"{pairs} pairs of concepts, raw and whitened. A claim needs both of its tests."
    ]


def covered(coverage: pd.DataFrame) -> list[str]:
    """What the published index comes to with all pairs, and with few of them."""
    known = coverage[coverage["disparity"].notna()]
    if known.empty:
        return [f"No index could be computed: {words.reasons(coverage['note'])}."]
    row = known.loc[(known["few_high"] - known["few_low"]).idxmax()]
    return [
        f"With all {words.span(known['n'], 'd')} pairs of a concept the published index is at most "
        f"{known['disparity'].max():.2f}: with enough probes every concept is covered, whatever "
        "they show.",
        f"With {FEW} of them, drawn at random, {row['head']} on {row['concept']} has anything from "
        f"{row['few_low']:.2f} to {row['few_high']:.2f}; over all heads and concepts "
        f"{known['few_above'].mean():.0%} of the draws lie at or above {HIGH}, where the published "
        "table begins to warn.",
    ]


def flagged(tail: pd.DataFrame, calibrated: pd.DataFrame) -> list[str]:
    """How often the published distance flags ordinary states, and what the calibrated one does."""
    shares = ", ".join(
        f"{_share(row.flagged)} in {words.count(row.dimensions, 'dimension')}"
        for row in tail.itertuples()
    )
    text = f"A distance of {THRESHOLD:g} flags ordinary normal states by chance: {shares}."
    known = calibrated[calibrated["flagged"].notna()].set_index("rule")
    if known.empty:
        return [text, f"No threshold could be calibrated: {words.reasons(calibrated['note'])}."]
    as_published, ours = known.loc["published"], known.loc["calibrated"]
    return [
        text,
        f"On this run's states ({as_published['dimensions']} features) it flags "
        f"{as_published['flagged']:.0%} of {as_published['n']} ordinary ones, whose median "
        f"distance is {as_published['distance']:.0f}; a threshold of "
        f"{ours['threshold']:.1f}, from states held out to flag {RATE:.0%}, flags "
        f"{ours['flagged']:.1%} [{ours['low']:.1%}, {ours['high']:.1%}].",
    ]


def _share(value: float) -> str:
    return "more than 99.99%" if value > 0.9999 else f"{value:.1%}"


def glued(found: pd.DataFrame) -> dict[str, str]:
    """Values of the page for other pages."""
    counts = words.tally(found["verdict"], FOUND)
    return {"found": counts} | {f"found-{row.concept}": row.verdict for row in found.itertuples()}
