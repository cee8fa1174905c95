"""Sentences of the separability page, written from its tables; none holds a typed number."""

from __future__ import annotations

from typing import Any

import pandas as pd

from lib import words
from lib.analyses.separability.readout import at_least, beyond
from lib.analyses.separability.stats import PUBLISHED, RECOVERED, VERDICTS

AT_LEAST = "at least"  # verdict of a loss that is shown though its size isn't measurable
CLOSE = 0.05  # a tenth of the way from chance to always: larger misses aren't explained
_LOSS = " ({loss:.3f} [{low:.3f}, {high:.3f}], adjusted p = {p_adjusted:.2g}; "
_SHORT = (
    "With {n} comparisons the probe finds {recovered:.3f} where the planted directions themselves "
    f"give {{planted:.3f}}; {RECOVERED:g} apart is allowed"
)
_READOUT = {
    "undefined": "{concept}: no readout loss can be given ({note}).",
    "not measurable": "{concept} → {head}: not measurable. " + _SHORT + ".",
    AT_LEAST: "{head} loses part of {concept} that the state holds, at least {loss:.3f} "
    "[{low:.3f}, {high:.3f}] (adjusted p = {p_adjusted:.2g}). " + _SHORT + ", so how much more is "
    "not measurable.",
    "not read out": "{head} loses part of {concept} that the state holds"
    + _LOSS
    + "{to_scores:.3f} before the scores, {to_head:.3f} after).",
    "read out": "no loss was found between the state and {head} for {concept}"
    + _LOSS
    + "{missed}).",
    "not found": "{concept} was not found in the state, so {head} has nothing to lose"
    + _LOSS
    + "{reach}).",
}


def takeaways(
    probe: pd.DataFrame, ceiling: pd.DataFrame, concepts: pd.DataFrame, losses: pd.DataFrame
) -> list[str]:
    """Which concepts are found and which lost, the published probe, then concept by concept."""
    sentences = [answer(concepts, losses), lost(losses), *measurable(losses)]
    return [*sentences, *published(probe, ceiling), *probes(concepts, losses), *readout(losses)]


def published(probe: pd.DataFrame, ceiling: pd.DataFrame) -> list[str]:
    """What the published probe found, and what already predicted it."""
    both = probe.merge(ceiling, on=["head", "components"], suffixes=("", "_ceiling"))
    known = both.dropna(subset=["accuracy", "predicted"])
    if known.empty:
        return [f"The published probe can't be fitted here: {words.reasons(both['note'])}."]
    nearest = min(known["components"].unique(), key=lambda k: abs(k - PUBLISHED))
    used = known[known["components"] == nearest]
    best, worst = (used.loc[used["accuracy"].agg(which)] for which in ("idxmax", "idxmin"))
    least = used["ceiling"].min()
    return [
        f"On {nearest} components the published probe is right for {best['accuracy']:.3f} of "
        f"responses for {best['head']} and {worst['accuracy']:.3f} for {worst['head']}.",
        f"{_predicted(used)} With no component dropped each head is such a probe itself, w·h, and "
        f"is right for {'every response' if least == 1 else f'{least:.3f} of responses or more'}.",
    ]


def _predicted(used: pd.DataFrame) -> str:
    """Is the published accuracy what the share predicts? Only where no head is far from it."""
    off = (used["accuracy"] - used["predicted"]).abs()
    text = (
        "The share of a head's variance inside these components predicts that to within "
        f"{off.median():.3f} in the median and {off.max():.3f} at most"
    )
    if off.max() <= CLOSE:
        return f"{text}: the probe measures what the components dropped."
    most, far = used.loc[off.idxmax()], int((off > CLOSE).sum())
    return (
        f"{text}; {far} of {words.count(len(used), 'head')} {'misses' if far == 1 else 'miss'} it "
        f"by more than {CLOSE:g}, the most {most['head']}: {most['accuracy']:.3f} where "
        f"{most['predicted']:.3f} was predicted. So what the components dropped doesn't explain "
        f"every accuracy here: few states ({most['n']} here) or skewed scores may be behind it."
    )


def probes(table: pd.DataFrame, losses: pd.DataFrame) -> list[str]:
    """What the concept probes found, beside length alone and with length taken out."""
    return [_probe(row) for row in _without_length(table, losses).itertuples()]


def _without_length(concepts: pd.DataFrame, losses: pd.DataFrame) -> pd.DataFrame:
    """Probes beside the same with length taken out (``probe``, ``probe_p``)."""
    columns = ["concept", "probe", "probe_p"]
    return concepts.merge(losses.drop_duplicates("concept")[columns], on="concept", how="left")


def _found(row: Any) -> Any:
    """With length, by one probe or each in a table."""
    return (row.p_adjusted < 0.05) & (row.accuracy > 0.5)


def _probe(row: Any) -> str:
    if pd.isna(row.accuracy):
        return f"{row.concept}: no probe ({row.note})."
    if beyond(row):
        text = "can be read from the state beyond length"
    else:
        text = "is in the state only as length" if _found(row) else "was not found in the state"
    text = (
        f"{row.concept} {text}: a linear probe ranks "
        f"{words.estimate(row.accuracy, row.low, row.high)} of {row.n} held-out comparisons as the "
        f"data set marks them (adjusted p = {row.p_adjusted:.2g}); length alone {row.length:.3f}, "
        f"with length taken out {row.probe:.3f} (adjusted p = {row.probe_p:.2g})"
    )
    if pd.notna(row.flipped):
        text += f"; with signs flipped {row.flipped:.3f}"
    if not _found(row) and not beyond(row) and pd.notna(row.p_adjusted):
        text += f"; {_reach(row.mde)}"
    return f"{text}."


def readout(table: pd.DataFrame) -> list[str]:
    """The verdict on each readout, with its numbers; a concept's unmeasurable ones as one."""
    sentences = []
    for _, rows in table.groupby("concept", sort=False):
        lost = (rows["verdict"] == "not measurable") & ~at_least(rows)
        together = rows[lost].head(1).assign(head=", ".join(rows.loc[lost, "head"]))
        both = [*together.itertuples(), *rows[~lost].itertuples()]
        sentences += map(_readout, both)
    return sentences


def _readout(row: Any) -> str:
    verdict = AT_LEAST if at_least(row) else row.verdict
    missed = words.found(row.mde, "a loss of {:.3f}", "no loss that can occur")
    return _READOUT[verdict].format(**row._asdict(), missed=missed, reach=_reach(row.probe_mde))


def told(losses: pd.DataFrame) -> pd.DataFrame:
    """Losses with the verdict that a page shows: ``AT_LEAST`` where a lower bound is shown."""
    return losses.assign(verdict=losses["verdict"].mask(at_least(losses), AT_LEAST))


def _reach(mde: float) -> str:
    """What a probe must be right for to be found; NaN where being always right isn't enough."""
    return words.found(0.5 + mde, "a probe right for {:.3f}", "not even one always right")


def measurable(losses: pd.DataFrame) -> list[str]:
    """How many readouts could be judged at all, where some couldn't for want of comparisons."""
    asked = losses[losses["verdict"] != "undefined"]
    judged = int((asked["verdict"] != "not measurable").sum())
    if judged == len(asked):
        return []
    return [
        f"So the size of {judged or 'none'} of {len(asked)} readout losses can be measured with "
        "this many comparisons; whether a probe finds the concept, and whether a head loses at "
        "least some of it, can be said all the same."
    ]


def family(losses: pd.DataFrame) -> list[str]:
    """How many tests the corrections of the page cover."""
    concepts = losses.dropna(subset=["probe_p"])["concept"].nunique()
    if not concepts:
        return ["No test could be made, so there is no family to correct."]
    judged = int(losses["p"].notna().sum())
    return [
        f"Three families of tests, each corrected by Holm: probes of "
        f"{words.count(concepts, 'concept')}, the same with length taken out, and {judged} readout "
        f"loss{'' if judged == 1 else 'es'}. What would have been found is told at power .8 after "
        "that correction."
    ]


def answer(concepts: pd.DataFrame, losses: pd.DataFrame) -> str:
    """In short: which concepts a probe finds in the state, and which only as length."""
    known = concepts[concepts["accuracy"].notna()]
    if known.empty:
        return f"No concept could be probed: {words.reasons(concepts['note'])}."
    known = _without_length(known, losses)
    found, alone = known[beyond(known)], known[_found(known) & ~beyond(known)]
    names = f": {', '.join(found['concept'])}" if len(found) else ""
    text = f"Beyond length, a linear probe finds {len(found)} of {len(known)} concepts in the state"
    only = words.each(
        alone,
        " {concept} is found only as length: {accuracy:.3f}, length alone {length:.3f}, with "
        "length taken out {probe:.3f}.",
    )
    return f"{text}{names}.{''.join(only)}"


def lost(losses: pd.DataFrame) -> str:
    """In short: what became of the concepts on the way to the heads that claim them."""
    judged = losses.loc[losses["verdict"] != "undefined", "verdict"]
    if judged.empty:
        return f"No readout could be judged: {words.reasons(losses['note'])}."
    bounds = words.each(
        losses[at_least(losses)],
        "{head} loses at least {loss:.3f} [{low:.3f}, {high:.3f}] of {concept}",
    )
    some = [f"{len(bounds)} lose{'s' if len(bounds) == 1 else ''} at least part of it"]
    rest = words.tally(told(losses)["verdict"], VERDICTS[:-1])
    told_of = ", ".join([*some[: len(bounds)], *([rest] if rest else [])])
    text = f"Of {len(judged)} readouts by a head that claims the concept: {told_of}."
    if not bounds:
        return text
    return f"{text} {', '.join(bounds)}; how much more can't be measured."


def glued(concepts: pd.DataFrame, losses: pd.DataFrame) -> dict[str, str]:
    """Values of the page for other pages: one sentence a concept, one a loss."""
    probed = _without_length(concepts, losses)
    kept = {f"probe-{row.concept}": _probe(row) for row in probed.itertuples()}
    return kept | {
        f"readout-{row.concept}-{row.head}": _readout(row) for row in losses.itertuples()
    }
