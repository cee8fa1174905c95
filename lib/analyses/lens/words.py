"""Sentences of the lens page, every number from its tables."""

from __future__ import annotations

from typing import Any

import pandas as pd

from lib import words
from lib.analyses.lens.orders import EARLIER, LATER
from lib.analyses.lens.stats import ALIKE, WITHIN

SHOWN = 4  # heads named in one sentence
ENDS = ("", "_low", "_high")
WHOLE = [f"{name}{end}" for name in ("first", "stays", "first_raw") for end in ENDS]
WHOLE += ["settled"]  # columns of layers


def takeaways(
    depths: pd.DataFrame, published: pd.DataFrame, order: pd.DataFrame, miss: float
) -> list[str]:
    """From where on choices are settled, when margins are made, and what the norm changes."""
    known = depths[depths["note"] == ""]
    if known.empty:
        return [f"Nothing can be said of depths: {words.reasons(depths['note'])}."]
    sentences = [answer(depths), halfway(depths), *made(order), *audit(published)]
    sentences.append(
        f"The lens' last point is the reward: the largest difference is {miss:.1g} of the larger "
        f"of a score and its head's standard deviation ({WITHIN:g} is allowed in float32)."
    )
    sentences += words.by_note(depths, "{note}: {heads}.")
    lost = known[known["left_out"] > 0]
    sentences += words.each(
        lost.head(1),
        "{left_out} comparisons of {head} are left out, since both responses score the same.",
    )
    return sentences


def answer(depths: pd.DataFrame) -> str:
    """From which depth on the lens is shown to pick the reward's response."""
    known = depths[depths["note"] == ""]
    if known.empty:
        return f"Nothing can be said of depths: {words.reasons(depths['note'])}."
    layers = int(known["layers"].iloc[0])
    early = known[known["settled"] < layers].sort_values("settled", kind="stable")
    late = len(known) - len(early)
    start = (
        f"That the lens picks the response which the reward picks in at least {ALIKE:.0%} of "
        "comparisons, at a depth and at all after it,"
    )
    if early.empty:
        least = known["needed"].iloc[0]
        seen = words.number(least, ".0%", "no share")
        return (
            f"{start} is shown for no head before the last of {layers} layers; agreement "
            f"in {seen} of {int(known['n'].max())} comparisons would show it."
        )
    named = [f"{row.head} from layer {row.settled:.0f}" for row in early.itertuples()]
    rest = f"; for {words.count(late, 'head')} at no depth before the end" if late else ""
    return f"{start} is shown for {words.listed(named, SHOWN)}, of {layers} layers{rest}."


def halfway(depths: pd.DataFrame) -> str:
    """Where the first head's margin is half there for the first time, and for good."""
    row = next(depths[depths["note"] == ""].itertuples())
    return (
        f"{row.head}: the median comparison has half its final margin for the first time after "
        f"{_layer(row, 'first')} and keeps it from layer {_layer(row, 'stays')} on, of "
        f"{row.layers} layers; as published, for the first time after {_layer(row, 'first_raw')}."
    )


def _layer(row: Any, name: str) -> str:
    value, low, high = (getattr(row, f"{name}{end}") for end in ENDS)
    return f"{'' if name == 'stays' else 'layer '}{value:.0f} [{low:.0f}, {high:.0f}]"


def made(order: pd.DataFrame) -> list[str]:
    """Whether margins are made later or earlier than in a random order of the same layers."""
    known = order[order["p"].notna()]
    if known.empty:
        return [f"Orders can't be compared: {words.reasons(order['note'])}."]
    parts = []
    for verdict in (LATER, EARLIER):
        names = known.loc[known["verdict"] == verdict, "head"].map(str).tolist()
        if names:
            all_of_them = len(names) == len(known) > 1
            every = "every head" if all_of_them else words.listed(names, SHOWN)
            parts.append(f"{verdict} for {every}")
    row = next(known.itertuples())
    beside = (
        f"{row.head} on average from layer {row.mean_depth:.1f} on, and in random orders "
        f"{row.shuffled:.1f} [{row.low:.1f}, {row.high:.1f}]"
    )
    told = " and ".join(parts) or "neither later nor earlier than that for any head"
    return [
        "Beside the same layers in random order, half of the margin comes to stay "
        f"{told} (Holm over {words.count(len(known), 'head')}; {beside})."
    ]


def audit(published: pd.DataFrame) -> list[str]:
    """How far the lens as published is from the reward at its own end."""
    known = published[published["end_opposed"].notna()]
    if known.empty:
        return []
    worst = known.loc[known["end_opposed"].idxmax()]
    most = words.estimate(worst["end_opposed"], worst["low"], worst["high"], ".0%")
    often = f"{most} of comparisons"
    if len(known) > 1:
        spread = words.span(known["end_opposed"], ".0%")
        often = f"{spread} of comparisons, most often for {worst['head']} ({most})"
    rho = known["end_rho"].dropna()
    rank = f"; rank correlation with the reward's margins {words.span(rho, '.2f')}"
    sentences = [
        "As published the lens skips the final norm: at its last point it picks another response "
        f"than the reward in {often}{rank if len(rho) else ''}."
    ]
    inner = known[known["opposed"].notna()]
    if (inner["opposed"] > 0).any():
        most = inner.loc[inner["opposed"].idxmax()]
        sentences.append(
            "Before the end, lenses with the norm and as published differ most in sign for "
            f"{most['head']} after layer {most['depth']:.0f}: in {most['opposed']:.0%} of "
            "comparisons."
        )
    return sentences


def glued(depths: pd.DataFrame) -> dict[str, float]:
    """Values of the page for other pages."""
    known = depths[depths["note"] == ""]
    return {f"settled-{row.head}": int(row.settled) for row in known.itertuples()}
