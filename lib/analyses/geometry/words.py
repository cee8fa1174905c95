"""Sentences of the geometry page, every number from its tables."""

from __future__ import annotations

import pandas as pd

from lib.analyses.geometry.stats import FOLDED, KINDS, POST_NORM, TOLERANCE

_LEVEL = {"pooled": "Over all responses", "within": "Within items"}


def geometry(
    location: pd.DataFrame, gauges: pd.DataFrame, identity: pd.DataFrame, note: str = ""
) -> list[str]:
    """Takeaways: the place that is claimed or why none is, and whether the identity holds.

    ``note`` says what of the weights isn't at hand.
    """
    told = [f"{note[0].upper()}{note[1:]}."] if note else []
    told += [place(location, gauges, kind) for kind in KINDS]
    worst = identity.sort_values("error", ascending=False, na_position="last").head(1)
    return told + [checked(row) for row in worst.itertuples()]


def place(location: pd.DataFrame, gauges: pd.DataFrame, kind: str = "within") -> str:
    """Where entanglement of one kind is claimed to live, or why no place is."""
    row = location[location["kind"] == kind].iloc[0]
    if row["location"] == "none":
        return f"{_LEVEL[kind]}, no place is claimed: {row['note']}."
    return (
        f"{_LEVEL[kind]}, the entanglement looks like the {_whose(row['location'])} in both "
        f"gauges ({_numbers(gauges, kind)})."
    )


def _whose(place: str) -> str:
    return {"heads": "heads'", "backbone": "backbone's"}[place]


def _numbers(gauges: pd.DataFrame, kind: str) -> str:
    rows = gauges[(gauges["kind"] == kind) & gauges["gauge"].isin([POST_NORM, FOLDED])]
    return "; ".join(
        f"{row.gauge}: heads alone {row.rms_heads:.2f}, backbone alone {row.rms_backbone:.2f}, "
        f"scores {row.rms_r:.2f}"
        for row in rows.itertuples()
    )


def checked(row) -> str:
    """Whether stored scores have the covariance that weights and states give."""
    if row.verdict == "undefined":
        return f"The identity cov(s) = W Σ Wᵀ was not checked: {row.note}."
    size = f"largest relative error {row.error:.1g} on {row.states} states"
    if row.dtype != "float32":
        size += f" that were computed in {row.dtype}"
    does = "holds" if row.verdict == "holds" else "fails"
    return f"The identity cov(s) = W Σ Wᵀ {does} ({size}; {TOLERANCE:g} is allowed)."


def published(measures: pd.DataFrame, mantel: pd.DataFrame) -> list[str]:
    """The published measures in words, with what random heads would show."""
    row = measures.set_index("measure")
    if pd.isna(row.loc["rms_cosine", "value"]):
        return [f"The published measures can't be had: {measures['note'].iloc[0]}."]
    gap, angle = row.loc["rms_cosine"], row.loc["angle_mean"]
    told = [
        f"The orthogonality gap is {gap['value']:.3f}; random heads show "
        f"{gap['low']:.3f} to {gap['high']:.3f}.",
        f"The heads' span is at {angle['value']:.0f}° on average to the "
        f"{int(row.loc['components', 'value'])} largest directions of the states; a random "
        f"span is at {angle['low']:.0f}° to {angle['high']:.0f}°.",
    ]
    if pd.notna(row.loc["r2", "value"]):
        told.append(
            f"Cosines account for {row.loc['r2', 'value']:.0%} of the variance of the Spearman "
            "correlations, in this gauge."
        )
    test = mantel.iloc[0]
    if pd.notna(test["p"]):
        told.append(
            f"Permuting heads gives p = {test['p']:.2g} (the smallest reachable: "
            f"{test['smallest_p']:.2g}) for cosines and correlations to go together (correlation "
            f"{test['statistic']:+.2f}; {test['mde']:.2f} of either sign would have been found); "
            "this describes, it doesn't confirm."
        )
    elif test["note"]:
        told.append(f"Whether cosines and correlations go together: {test['note']}.")
    return told


def glued(location: pd.DataFrame) -> dict[str, str]:
    """Values of the page for other pages."""
    return {f"location-{row.kind}": row.location for row in location.itertuples()}
