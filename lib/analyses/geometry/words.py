"""Sentences of the geometry page, every number from its tables."""

from __future__ import annotations

from typing import Any

import pandas as pd

from lib import words
from lib.analyses.geometry.stats import (
    BROKEN,
    DOMINATES,
    FOLDED,
    KINDS,
    ONE_GAUGE,
    POST_NORM,
    TOLERANCE,
)

_LEVEL = {"pooled": "Over all responses", "within": "Within items"}
_WHOSE = {"heads": "heads'", "backbone": "backbone's"}


def takeaways(
    location: pd.DataFrame, gauges: pd.DataFrame, identity: pd.DataFrame, note: str = ""
) -> list[str]:
    """The place that is claimed or why none is, and whether the identity holds.

    ``note`` says what of the weights isn't at hand.
    """
    sentences = [f"{note[0].upper()}{note[1:]}."] if note else []
    sentences += [place(location, gauges, kind) for kind in KINDS]
    worst = identity.sort_values("error", ascending=False, na_position="last").head(1)
    return sentences + [_identity(row) for row in worst.itertuples()]


def place(location: pd.DataFrame, gauges: pd.DataFrame, kind: str = "within") -> str:
    """Where entanglement of one kind is claimed to live, or why no place is."""
    row = location[location["kind"] == kind].iloc[0]
    both = gauges[(gauges["kind"] == kind) & gauges["gauge"].isin([POST_NORM, FOLDED])]
    if row["location"] == "none":
        why = _parts(both) if row["note"] not in (BROKEN, ONE_GAUGE) else ""
        return f"{_LEVEL[kind]}, no place is claimed: {why or row['note']}."
    numbers = words.each(
        both,
        "{gauge}: heads alone {rms_heads:.2f}, backbone alone {rms_backbone:.2f}, "
        "scores {rms_r:.2f}",
    )
    return (
        f"{_LEVEL[kind]}, the entanglement looks like the {_WHOSE[row['location']]} in both "
        f"gauges ({'; '.join(numbers)})."
    )


def _parts(both: pd.DataFrame) -> str:
    """How much larger one part is than the other, where both have one and neither dominates."""
    if both.empty or not (both["reading"] == "both").all():
        return ""
    ratio = both["rms_backbone"] / both["rms_heads"]
    larger, smaller = ("backbone", "heads") if (ratio >= 1).all() else ("heads", "backbone")
    if larger == "heads":
        ratio = 1 / ratio
    if (ratio < 1).any():
        return ""
    return (
        f"the {_WHOSE[larger]} part is {words.span(ratio, '.2f')} times the {_WHOSE[smaller]}, "
        f"short of the {DOMINATES:g} times in both gauges that a place takes"
    )


def _identity(row: Any) -> str:
    """Whether stored scores have the covariance that weights and states give."""
    if row.verdict == "undefined":
        return f"The identity cov(s) = W Σ Wᵀ was not checked: {row.note}."
    dtype = "" if row.dtype == "float32" else f" that were computed in {row.dtype}"
    return (
        f"The identity cov(s) = W Σ Wᵀ {row.verdict} (largest relative error {row.error:.1g} on "
        f"{row.states} states{dtype}; {TOLERANCE:g} is allowed)."
    )


def published(measures: pd.DataFrame, mantel: pd.DataFrame) -> list[str]:
    """The published measures in words, with what random heads would show."""
    row = measures.set_index("measure")
    if pd.isna(row.loc["rms_cosine", "value"]):
        return [f"The published measures can't be had: {measures['note'].iloc[0]}."]
    gap, angle, r2 = row.loc["rms_cosine"], row.loc["angle_mean"], row.loc["r2", "value"]
    sentences = [
        f"The orthogonality gap is {gap['value']:.3f}; random heads show "
        f"{gap['low']:.3f} to {gap['high']:.3f}.",
        f"The heads' span is at {angle['value']:.0f}° on average to the "
        f"{int(row.loc['components', 'value'])} largest directions of the states; a random "
        f"span is at {angle['low']:.0f}° to {angle['high']:.0f}°.",
    ]
    if pd.notna(r2):
        sentences.append(
            f"Cosines account for {r2:.0%} of the variance of the Spearman correlations, in this "
            "gauge."
        )
    test = mantel.iloc[0]
    if pd.notna(test["p"]):
        sentences.append(
            f"Permuting heads gives p = {test['p']:.2g} (the smallest reachable: "
            f"{test['smallest_p']:.2g}) for cosines and correlations to go together (correlation "
            f"{test['statistic']:+.2f}; {words.found(test['mde'], '{:.2f} of either sign')}); "
            "this describes, it doesn't confirm."
        )
    elif test["note"]:
        sentences.append(f"Whether cosines and correlations go together: {test['note']}.")
    return sentences


def glued(location: pd.DataFrame) -> dict[str, str]:
    """Values of the page for other pages."""
    return {f"location-{row.kind}": row.location for row in location.itertuples()}
