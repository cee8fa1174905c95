"""What the page of one head says, written from its tables."""

from __future__ import annotations

import pandas as pd

from lib import words
from lib.analyses.one_head.stats import CANCELLED, CONFIRMED, OPPOSES, OTHERS

SHOWN = 4  # names in a sentence
UNTOLD = (
    "which response {head} prefers on average, and what carries that, isn't told here; what makes "
    "its margins is, whichever response they favour"
)
PERCENT = (*("makes", "low", "high"), *("side", "side_low", "side_high"))
PATCHES = ("patches", "patches_low", "patches_high")  # columns of shares


def takeaways(
    margin: pd.DataFrame, largest: pd.DataFrame, attention: pd.DataFrame, whole: bool = True
) -> list[str]:
    """What is preferred, what makes it, how steadily, what patches say, and inside attention.

    ``whole`` is ``lib.data.asks.whole`` of the data set: where each criterion asks its own
    question, nothing is said of what is preferred on average.
    """
    parts = [
        preferred(margin) if whole else words.mixed(UNTOLD.format(head=margin["head"].iloc[0]))
    ]
    top = largest[largest["component"] != OTHERS]
    if top["makes"].isna().all():
        return [*parts, "No response scores higher than another, so there is nothing to share out."]
    patched = confirmed(top) if whole else confirmed(top)[1:]
    return [*parts, made(largest), steady(top), *patched, *inside(attention)]


def preferred(margin: pd.DataFrame) -> str:
    """Which response the head prefers."""
    row = margin.iloc[0]
    rate = words.estimate(row["better"], row["better_low"], row["better_high"], ".0%")
    mean = words.estimate(row["margin"], row["low"], row["high"], "+z.3f")
    return (
        f"{row['head']} scores the better response higher in {rate} of "
        f"{words.count(int(row['n']), 'comparison')}; its mean margin is {mean}."
    )


def made(largest: pd.DataFrame) -> str:
    """What makes most of the margins, and how much is left."""
    top = largest[largest["component"] != OTHERS]
    rest = float(largest.loc[largest["component"] == OTHERS, "makes"].sum())
    return (
        "Of its margins, whichever response they favour, most is made by "
        f"{', '.join(_shares(top.head(SHOWN), 'z.0%'))}. The {len(top)} largest components "
        f"make {1 - rest:z.0%} together, all others {rest:z.0%}."
    )


def _shares(rows: pd.DataFrame, form: str, between: str = " ") -> list[str]:
    return [
        f"{row.component}{between}{words.estimate(row.makes, row.low, row.high, form)}"
        for row in rows.itertuples()
    ]


def _side(row: pd.Series) -> str:
    rate = words.estimate(row["side"], row["side_low"], row["side_high"], ".0%")
    return f"{row['component']} ({rate})"


def steady(top: pd.DataFrame) -> str:
    """How often the largest components are on one side of the margin."""
    far = (top["side"] - 0.5).abs()
    most, least = (_side(top.loc[place]) for place in (far.idxmax(), far.idxmin()))
    one_side = int(((top["side_low"] > 0.5) | (top["side_high"] < 0.5)).sum())
    return (
        f"Of the {len(top)} the most steady is {most}, the least {least}: in so many comparisons "
        f"it adds towards the response that the head prefers. {one_side} of them are on one side "
        "more often than on the other, by their own intervals."
    )


def confirmed(top: pd.DataFrame) -> list[str]:
    """What patches say of the largest components."""
    told = top[top["verdict"] != ""]
    if told.empty:
        return []
    said = {CONFIRMED: "confirmed to carry", OPPOSES: "shown to oppose", CANCELLED: "cancelled in"}
    parts = [
        f"{words.listed(rows['component'].tolist(), SHOWN)} {'is' if len(rows) == 1 else 'are'} "
        f"{what} its mean margin"
        for verdict, what in said.items()
        if len(rows := told[told["verdict"] == verdict])
    ]
    verdicts = f"Of {len(told)} that can be patched "
    verdicts += " and ".join(parts) or "none is shown to carry or to oppose its mean margin"
    verdicts += " (exact sign flips, Holm over all nodes and heads of the model)."
    known = told[told["patches"].notna()]
    if known.empty:
        return [verdicts]
    same = int(((known["patches_low"] > 0) & (known["makes"] > 0)).sum())
    same += int(((known["patches_high"] < 0) & (known["makes"] < 0)).sum())
    most = known.loc[known["patches"].abs().idxmax()]
    size = words.estimate(*(most[name] for name in PATCHES), "z.0%")
    return [
        verdicts,
        f"Of margins of either sign, exchanging {most['component']} takes {size}; for "
        f"{same} of {len(known)} what patches take has the sign of what the component makes, by "
        "their own intervals.",
    ]


def inside(attention: pd.DataFrame) -> list[str]:
    """Which attention heads make most."""
    known = attention[attention["makes"].notna()]
    if known.empty:
        return []
    largest = "; ".join(_shares(known.head(SHOWN), "z.1%", ": "))
    return [f"Inside attention, most is made by {largest}."]


def glued(margin: pd.DataFrame, largest: pd.DataFrame) -> dict[str, str]:
    """Values of the page for other pages."""
    head = margin["head"].iloc[0]
    return {f"sources-{head}": made(largest) if largest["makes"].notna().any() else ""}
