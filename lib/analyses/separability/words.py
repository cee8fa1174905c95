"""Sentences of the separability page, written from its tables; none holds a typed number."""

from __future__ import annotations

from typing import Any

import pandas as pd

from lib import words
from lib.analyses.separability.stats import PUBLISHED, RECOVERED, VERDICTS

CLOSE = 0.05  # a tenth of the way from chance to always: larger misses aren't explained


def published(probe: pd.DataFrame, ceiling: pd.DataFrame) -> list[str]:
    """What the published probe found, and what already predicted it."""
    both = probe.merge(ceiling, on=["head", "components"], suffixes=("", "_ceiling"))
    known = both.dropna(subset=["accuracy", "predicted"])
    if known.empty:
        return [f"The published probe can't be fitted here: {words.reasons(both['note'])}."]
    size = known["components"].unique()
    nearest = min(size, key=lambda k: abs(k - PUBLISHED))
    used = known[known["components"] == nearest]
    best, worst = (used.loc[used["accuracy"].agg(which)] for which in ("idxmax", "idxmin"))
    return [
        f"On {nearest} components the published probe is right for {best['accuracy']:.3f} of "
        f"responses for {best['head']} and {worst['accuracy']:.3f} for {worst['head']}.",
        f"{_predicted(used)} On the whole state, w·h itself is right for at least "
        f"{used['ceiling'].min():.3f}.",
    ]


def _predicted(used: pd.DataFrame) -> str:
    """Is the published accuracy what the share predicts? Only where no head is far from it."""
    off = (used["accuracy"] - used["predicted"]).abs()
    told = "The share of a head's variance inside these components predicts that to within"
    sizes = f"{off.median():.3f} in the median and {off.max():.3f} at most"
    if off.max() <= CLOSE:
        return f"{told} {sizes}: the probe measures what the components dropped."
    most, far = used.loc[off.idxmax()], int((off > CLOSE).sum())
    return (
        f"{told} {sizes}; {far} of {words.count(len(used), 'head')} "
        f"{'misses' if far == 1 else 'miss'} it by more than {CLOSE:g}, the most {most['head']}: "
        f"{most['accuracy']:.3f} where {most['predicted']:.3f} was predicted. So what the "
        f"components dropped doesn't explain every accuracy here: few states ({most['n']} here) "
        "or skewed scores may be behind it."
    )


def probes(table: pd.DataFrame) -> list[str]:
    """What the concept probes found, beside length alone."""
    return [_probe(row) for row in table.itertuples()]


def _found(row: Any) -> Any:
    """Of one probe, or of each in a table."""
    return (row.p_adjusted < 0.05) & (row.accuracy > 0.5)


def _probe(row: Any) -> str:
    if pd.isna(row.accuracy):
        return f"{row.concept}: no probe ({row.note})."
    says = "can be read from the state" if _found(row) else "was not found in the state"
    told = (
        f"{row.concept} {says}: a linear probe ranks {row.accuracy:.3f} "
        f"[{row.low:.3f}, {row.high:.3f}] of {row.n} held-out comparisons as the data set "
        f"marks them "
        f"(adjusted p = {row.p_adjusted:.2g}); length alone {row.length:.3f}"
    )
    if pd.notna(row.flipped):
        told += f"; with signs flipped {row.flipped:.3f}"
    if not _found(row) and pd.notna(row.mde):
        told += f"; {0.5 + row.mde:.3f} would have been found"
    return f"{told}."


_SAYS = {
    "not read out": "{head} loses part of {concept} that the state holds",
    "read out": "no loss was found between the state and {head} for {concept}",
    "not found": "{concept} was not found in the state, so {head} has nothing to lose",
}


def readout(table: pd.DataFrame) -> list[str]:
    """The verdict on each readout, with its numbers; a concept's unmeasurable ones as one."""
    told = []
    for _, rows in table.groupby("concept", sort=False):
        lost = rows["verdict"] == "not measurable"
        if lost.any():
            heads = ", ".join(rows.loc[lost, "head"])
            told += [_readout(row) for row in rows[lost].head(1).assign(head=heads).itertuples()]
        told += [_readout(row) for row in rows[~lost].itertuples()]
    return told


def _readout(row: Any) -> str:
    if row.verdict == "undefined":
        return f"{row.concept}: no readout loss can be given ({row.note})."
    if row.verdict == "not measurable":
        return (
            f"{row.concept} → {row.head}: not measurable. With {row.n} comparisons the probe finds "
            f"{row.recovered:.3f} where the planted directions themselves give "
            f"{row.planted:.3f}; {RECOVERED:g} apart is allowed."
        )
    told = _SAYS[row.verdict].format(head=row.head, concept=row.concept)
    told += f" ({row.loss:.3f} [{row.low:.3f}, {row.high:.3f}], adjusted p = {row.p_adjusted:.2g}"
    if row.verdict == "not read out":
        told += f"; {row.to_scores:.3f} before the scores, {row.to_head:.3f} after"
    elif row.verdict == "not found":
        told += f"; a probe right for {0.5 + row.probe_mde:.3f} would have been found"
    else:
        told += f"; a loss of {row.mde:.3f} would have been found"
    return f"{told})."


def takeaways(
    probe: pd.DataFrame, ceiling: pd.DataFrame, concepts: pd.DataFrame, losses: pd.DataFrame
) -> list[str]:
    """All of the page's findings in order."""
    told = [*published(probe, ceiling), *probes(concepts), *readout(losses)]
    return [*told, *measurable(losses)]


def measurable(losses: pd.DataFrame) -> list[str]:
    """How many readouts could be judged at all, where some couldn't for want of comparisons."""
    asked = losses[losses["verdict"] != "undefined"]
    short = int((asked["verdict"] == "not measurable").sum())
    if not short:
        return []
    left = len(asked) - short
    return [
        f"So {left or 'none'} of {len(asked)} readouts can be judged with this many comparisons; "
        "whether a probe finds the concept can be said all the same."
    ]


def family(losses: pd.DataFrame) -> list[str]:
    """How many tests the corrections of the page cover."""
    concepts = losses.dropna(subset=["probe_p"])["concept"].nunique()
    judged = int(losses["p"].notna().sum())
    if not concepts:
        return ["No test could be made, so there is no family to correct."]
    one, other = ("" if concepts == 1 else "s"), ("" if judged == 1 else "es")
    return [
        f"Two families of tests, each corrected by Holm: probes of {concepts} concept{one}, "
        f"and {judged} readout loss{other}. What would have been found is "
        "told at power .8 after that correction."
    ]


def answer(concepts: pd.DataFrame) -> str:
    """In short: which concepts a probe finds in the state."""
    known = concepts[concepts["accuracy"].notna()]
    if known.empty:
        return f"No concept could be probed: {words.reasons(concepts['note'])}."
    found = known[_found(known)]["concept"]
    told = f"A linear probe finds {len(found)} of {len(known)} concepts in the state"
    return told + (f": {', '.join(found)}." if len(found) else ".")


def lost(losses: pd.DataFrame) -> str:
    """In short: what became of the concepts on the way to the heads that claim them."""
    judged = losses[losses["verdict"] != "undefined"]
    if judged.empty:
        return f"No readout could be judged: {words.reasons(losses['note'])}."
    counts = judged["verdict"].value_counts()
    said = ", ".join(f"{counts[name]} {name}" for name in VERDICTS if name in counts)
    return f"Of {len(judged)} readouts by a head that claims the concept: {said}."


def glued(concepts: pd.DataFrame, losses: pd.DataFrame) -> dict[str, str]:
    """Values of the page for other pages: one sentence a concept, one a loss."""
    told = {f"probe-{row.concept}": _probe(row) for row in concepts.itertuples()}
    return told | {
        f"readout-{row.concept}-{row.head}": _readout(row) for row in losses.itertuples()
    }
