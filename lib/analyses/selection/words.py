"""Sentences of the selection page, every number from its tables."""

from __future__ import annotations

from typing import Any

import pandas as pd

from lib import words
from lib.analyses.selection.stats import (
    BASELINE,
    BETTER,
    GOLD,
    LONGEST,
    MARKED,
    NOT_TOLD,
    RANDOM,
    SHORTEST,
    UNDEFINED,
    WORSE,
    Candidates,
    Selection,
)
from lib.stats.winrates import ALL, SCORE

NOTHING = "Nothing can be said of what is picked"
SHOWN = 4  # rules named in one sentence


def takeaways(chosen: Selection, found: Candidates) -> list[str]:
    """What is picked, beside random and length, how much longer it is, and what isn't known."""
    if found.note:
        return [f"{NOTHING}: {found.note}."]
    picks = chosen.picks
    own = picks[(picks["subset"] == ALL) & (picks["kind"] != BASELINE)]
    sentences = [
        gold(found),
        answer(chosen),
        *_kinds(own),
        *_beside(own),
        *_longer(own),
        *_subsets(picks),
    ]
    sentences += [family(picks)] if picks["p"].notna().any() else []
    for note, rows in own[own["note"] != ""].groupby("note", sort=False):
        sentences.append(f"{note}: {words.listed(list(rows['rule']), SHOWN)}.".capitalize())
    if found.left_out:
        why = "; ".join(f"{count} with {reason}" for reason, count in found.left_out.items())
        sentences.append(f"Items left out: {why}.")
    return sentences


def answer(chosen: Selection) -> str:
    """The one score, or the last head, beside random, length and the gold."""
    picks = chosen.picks
    own = picks[picks["subset"] == ALL]
    if own.empty:
        return f"{NOTHING}."
    last = own[own["kind"] != BASELINE].iloc[-1]
    by = own[own["kind"] == BASELINE].set_index("rule")["gold"]
    n = int(last["n"])
    if pd.isna(last["gold"]):
        return f"Nothing can be said of what {last['rule']} picks: {last['note']}."
    told = last["verdict"] if last["verdict"] != UNDEFINED else "not tested"
    if last["verdict"] == BETTER:
        more = "and than" if _beats(last) else "though not shown to be better than"
        told += f"{' ' if _beats(last) else ', '}{more} the {last['rival']}"
    return (
        f"The best of {n} by {last['rule']} has an expected gold of "
        f"{words.estimate(last['gold'], last['low'], last['high'])}, {told}: a random pick has "
        f"{by[RANDOM]:.3f}, the longest {by[LONGEST]:.3f}, the shortest {by[SHORTEST]:.3f} and the "
        f"gold's own pick {by[GOLD]:.3f}, on {words.count(int(last['items']), 'item')}."
    )


def gold(found: Candidates) -> str:
    """What gold is here."""
    if found.name == MARKED:
        return (
            "Gold is 1 for a response that the data set marks as better and 0 for the others, so "
            "expected gold is the share of picks that are right."
        )
    return f"Gold is the rating {found.name} of the data set."


def _kinds(own: pd.DataFrame) -> list[str]:
    heads = own[(own["kind"] != SCORE) & own["p"].notna()]
    if heads.empty:
        return []
    parts = []
    for verdict in (BETTER, WORSE, NOT_TOLD):
        rows = heads[heads["verdict"] == verdict]
        rows = rows.sort_values("share", ascending=verdict == WORSE, kind="stable")
        named = words.listed([_share(row) for row in rows.itertuples()], SHOWN)
        if named:
            parts.append(f"{verdict} are {named}" if verdict != NOT_TOLD else f"{verdict}: {named}")
    return [f"Heads, with the share of the possible gain: {'; '.join(parts)}."]


def _share(row: Any) -> str:
    return f"{row.rule} ({words.estimate(row.share, row.share_low, row.share_high, '.2f')})"


def _beside(own: pd.DataFrame) -> list[str]:
    """Rules that are better than random, beside whichever of longest and shortest picks more."""
    better = own[own["verdict"] == BETTER]
    if better.empty:
        return []
    rival = better["rival"].iloc[0]
    last = better["rule"] == own["rule"].iloc[-1]
    better = pd.concat([better[last], better[~last]])  # the one score first, where there is one
    more = better.apply(_beats, axis=1)
    beaten, rest = better.loc[more, "rule"].tolist(), better.loc[~more, "rule"].tolist()
    sentences = []
    if beaten:
        sentences.append(
            f"More gold than the {rival}, which needs no model, is shown for "
            f"{words.listed(beaten, SHOWN)}."
        )
    if rest:
        sentences.append(
            f"Though better than random, these aren't shown to pick more gold than the {rival}: "
            f"{words.listed(rest, SHOWN)}."
        )
    return sentences


def _beats(row: pd.Series) -> bool:
    """Does a rule pick more gold than whichever of longest and shortest picks more?"""
    return bool(row["beside_p"] < 0.05 and row["beside"] > 0)


def _longer(own: pd.DataFrame) -> list[str]:
    last = own.iloc[-1]
    if pd.isna(last["longer"]):
        return []
    more, low, high = last[["longer", "longer_low", "longer_high"]]
    if more < 0:
        more, low, high = -more, -high, -low
    told = words.estimate(more, low, high, ".0%")
    return [
        f"What {last['rule']} picks is {told} {'shorter' if last['longer'] < 0 else 'longer'}, in "
        "tokens, than the responses of its item are on average."
    ]


def _subsets(picks: pd.DataFrame) -> list[str]:
    """The last rule by subset, where there are several."""
    heads = picks[(picks["kind"] != BASELINE) & (picks["subset"] != ALL)]
    if heads.empty:
        return []
    last = picks.loc[picks["kind"] != BASELINE, "rule"].iloc[-1]
    own = heads[heads["rule"] == last]
    kinds = {
        verdict: own[own["verdict"] == verdict] for verdict in (BETTER, WORSE, NOT_TOLD, UNDEFINED)
    }

    def shown(row: Any) -> str:
        return f"{row.subset} ({words.estimate(row.share, row.share_low, row.share_high, '.2f')})"

    told = words.cases(_on(kinds), shown)
    return [f"By subset, with the share of the possible gain, {last} is {told}."]


def _on(kinds: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    return {
        f"{'not tested' if kind == UNDEFINED else kind} on": rows for kind, rows in kinds.items()
    }


def family(picks: pd.DataFrame) -> str:
    """What is corrected with what, and what would have been found."""
    tested = picks[picks["p"].notna()]
    told = words.count(len(tested), "test")
    missed = tested.loc[tested["verdict"] == NOT_TOLD, "mde"]
    rest = ""
    if len(missed):
        rest = f"; a gain of {words.span(missed, '.3f')} would have been found with power .8"
    return (
        f"Verdicts are by Holm's correction over {told} of heads and subsets, those beside length "
        f"by another over as many; intervals are uncorrected{rest}."
    )
