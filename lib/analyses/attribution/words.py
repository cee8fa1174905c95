"""Sentences of the attribution page, every number from its tables."""

from __future__ import annotations

import numpy as np
import pandas as pd

from lib import words
from lib.analyses.attribution.stats import (
    NORMED,
    RAW,
    TOWARD_BETTER,
    TOWARD_WORSE,
    UNDEFINED,
    WITHIN,
)

SHOWN = 3  # components named in one sentence
HEADS = 6  # sentences of heads
UNTOLD = (
    "which components go toward it on average isn't told here; what share of a head's margins "
    "each carries is, whichever response they favour"
)
SHARES = ["same", "same_low", "same_high"]
SHARES += ["carries", "carries_low", "carries_high", "carries_raw"]  # columns of shares
LARGEST = 10  # components of a head that count as large


def takeaways(
    parts: pd.DataFrame, totals: pd.DataFrame, miss: float, whole: bool = True
) -> list[str]:
    """Which components go toward a response, how many carry half, what cancels, what sums.

    ``whole`` is ``lib.data.asks.whole`` of the data set: where each criterion asks its own
    question, no direction is told.
    """
    tested = parts[parts["verdict"] != UNDEFINED]
    if tested.empty:
        return [f"Nothing can be said of parts: {words.reasons(parts['note'])}.", sums(miss)]
    sentences = [answer(parts, whole), *largest(parts, totals, whole), halves(totals)]
    sentences += [*audit(parts, totals), sums(miss)]
    return [*sentences, family(parts)] if whole else sentences


def answer(parts: pd.DataFrame, whole: bool = True) -> str:
    """How many components are shown to go toward one of the two responses."""
    tested = parts[parts["verdict"] != UNDEFINED]
    if not whole and len(tested):
        return words.mixed(UNTOLD)
    counts = tested["verdict"].value_counts()
    better, worse = (int(counts.get(verdict, 0)) for verdict in (TOWARD_BETTER, TOWARD_WORSE))
    heads = tested.loc[tested["verdict"].isin([TOWARD_BETTER, TOWARD_WORSE]), "head"].nunique()
    if not better + worse:
        return (
            "No component of any head is shown to go toward the better response or toward the "
            f"worse, of {len(tested)} that were tested."
        )
    return (
        f"Of {len(tested)} parts that were tested, in "
        f"{words.count(tested['head'].nunique(), 'head')}, {better} are shown to go toward the "
        f"better response and {worse} toward the worse, in {words.count(heads, 'head')}."
    )


def largest(parts: pd.DataFrame, totals: pd.DataFrame, whole: bool = True) -> list[str]:
    """For each head what carries most of its margins, and what is shown of that."""
    sentences = []
    for row in totals[totals["form"] == NORMED].itertuples():
        own = parts[(parts["head"] == row.head) & parts["carries"].notna()]
        if own.empty:
            continue
        order = own["carries"].abs().sort_values(ascending=False, kind="stable").index
        most = own.loc[order]
        named = words.each(
            most.head(SHOWN), "{component} {carries:z.0%} [{carries_low:z.0%}, {carries_high:z.0%}]"
        )
        told = most.head(LARGEST)
        told = told[told["verdict"].isin([TOWARD_BETTER, TOWARD_WORSE])]
        which = ", ".join(words.each(told, "{component} ({verdict})"))
        carried = f"{row.head}: {', '.join(named)} of its margins, whichever way they go"
        if whole:
            carried += "; of its ten largest components a direction is shown for "
            carried += which or "none"
        sentences.append(f"{carried}.")
    return words.first(sentences, HEADS, "further heads are in the table.")


def shown(parts: pd.DataFrame) -> pd.DataFrame:
    """The rows of each head that the page lists: its largest, and all with a direction."""
    place = parts["carries"].abs().groupby(parts["head"], sort=False).rank(ascending=False)
    told = parts["verdict"].isin([TOWARD_BETTER, TOWARD_WORSE])
    return parts[(place <= LARGEST) | told].reset_index(drop=True)


def halves(totals: pd.DataFrame) -> str:
    """How many components carry half, and how much is cancelled, with the norm."""
    known = totals[(totals["form"] == NORMED) & totals["half"].notna()]
    if known.empty:
        return f"Shares of margins can't be told: {words.reasons(totals['note'])}."
    pair = known["cancels_pair"].replace(np.inf, np.nan).dropna()
    sentence = (
        f"Half of what is carried takes {words.span(known['half'], '.0f')} of "
        f"{words.span(known['components'], '.0f')} components"
        f"{', depending on the head' * (len(known) > 1)}"
    )
    if len(pair):
        sentence += (
            "; in the median comparison the parts' sizes sum to "
            f"{words.span(pair, '.1f')} times the margin, and the rest cancels"
        )
    return f"{sentence}."


def audit(parts: pd.DataFrame, totals: pd.DataFrame) -> list[str]:
    """How far parts as published, without the norm, are from those that sum to the margin."""
    both = totals.pivot(index="head", columns="form", values="margin")
    rho = totals.loc[totals["form"] == NORMED, "rho"].dropna()
    if rho.empty or both.isna().any(axis=None):
        return []
    turned = int((np.sign(both[NORMED]) != np.sign(both[RAW])).sum())
    tops = []
    for _, own in parts[parts["carries"].notna()].groupby("head", sort=False):
        first, other = (
            set(own["component"].loc[own[c].abs().nlargest(LARGEST).index])
            for c in ("carries", "carries_raw")
        )
        tops.append(len(first & other))
    return [
        "As published, without the norm, the mean of what parts sum to has another sign than the "
        f"mean margin for {turned} of {words.count(len(both), 'head')}; parts of a comparison "
        f"correlate in rank by {words.span(rho, '.2f')}, and {words.span(pd.Series(tops), '.0f')} "
        f"of the {LARGEST} largest components are the same."
    ]


def sums(miss: float) -> str:
    """That parts are parts of this margin."""
    return (
        f"Parts sum to the margin of every comparison and to the reward of every response: the "
        f"largest miss is {miss:.1g} of the larger of that and the head's standard deviation "
        f"({WITHIN:g} is allowed in float32)."
    )


def family(parts: pd.DataFrame) -> str:
    """How many tests the correction covers."""
    tested = parts["p"].notna()
    return (
        f"Directions are tested by exact sign flips of {int(parts['prompts'].max())} prompts, as "
        f"one family of {int(tested.sum())} tests, corrected by Holm."
    )


def glued(parts: pd.DataFrame) -> dict[str, int]:
    """Values of the page for other pages: of each head how many components have a direction."""
    told = parts["verdict"].isin([TOWARD_BETTER, TOWARD_WORSE])
    counts = told.groupby(parts["head"], sort=False).sum()
    return {f"directed-{head}": int(n) for head, n in counts.items()}
