"""What the protocols page says, written from its tables."""

from __future__ import annotations

import pandas as pd

from lib import words
from lib.analyses.protocols.stats import COMPONENTS, GENERAL

MOST = 6  # heads that change sides
_MEANS = {
    "head": "differences between heads that hold under every protocol",
    "protocol": "differences between protocols that hold for every head",
    "interaction": "which head wins depending on the protocol",
}


def protocols(matrix: pd.DataFrame, components: pd.DataFrame) -> list[str]:
    """Takeaways: components with their shares, heads that cross one half, what stays unsaid."""
    told = [*_crossing(matrix), *_components(components), *family(matrix, components)]
    count = matrix["protocol"].nunique()
    if count < GENERAL:
        several = "s" if count > 1 else ""
        told.append(
            f"This is about the {count} protocol{several} at hand; below {GENERAL} nothing is "
            "said about protocols in general."
        )
    return told


def _crossing(matrix: pd.DataFrame) -> list[str]:
    told = []
    for head, rows in matrix.groupby("head", sort=False):
        above, below = rows[_side(rows, 1)], rows[_side(rows, -1)]
        if len(above) and len(below):
            best = above.loc[above["win_rate"].idxmax()]
            worst = below.loc[below["win_rate"].idxmin()]
            told.append(
                f"{head} goes with the labels of {best['protocol']} ({words.rate(best)}) and "
                f"against those of {worst['protocol']} ({words.rate(worst)})."
            )
    told = words.first(told, MOST, "further heads change sides too.")
    return told or ["No head is shown to win more than half here and less than half there."]


def _side(matrix: pd.DataFrame, sign: int) -> pd.Series:
    """Cells shown to lie above one half (1) or below it (−1)."""
    return (matrix["p_adjusted"] < 0.05) & (sign * (matrix["win_rate"] - 0.5) > 0)


def family(matrix: pd.DataFrame, components: pd.DataFrame) -> list[str]:
    """How many tests there are, how they are corrected, and what they would have found."""
    tested = matrix[matrix["p"].notna()]
    told = []
    if len(tested):
        told.append(
            "Cells are tested against one half as one family of "
            f"{words.count(len(tested), 'test')}, corrected by Holm; "
            f"{words.departures(tested['mde'])}."
        )
    if components["estimate"].notna().any():
        told.append(
            f"The {len(COMPONENTS)} components are each judged by an interval of their own, "
            "uncorrected."
        )
    return told


def _components(components: pd.DataFrame) -> list[str]:
    logit = components[components["scale"] == "logit"].set_index("component")
    told = _shares(components)
    if logit.loc["total", "share"] != 1:
        return told
    row = logit.loc["interaction"]
    told.append(
        f"With sampling noise left in, as is common, the interaction's share would read "
        f"{row['naive_share']:.0%}."
    )
    if row["note"]:
        told.append(f"In the components, {row['note']} (no numbers, or nothing but ties).")
    return told


def _shares(components: pd.DataFrame) -> list[str]:
    """What each component takes of the variance, or why that can't be told."""
    logit = components[components["scale"] == "logit"].set_index("component")
    if logit["estimate"].isna().all():
        return [f"No components of variance: this {logit['note'].iloc[0]}."]
    total = logit.loc["total"]
    if total["share"] != 1:
        return [
            "Once sampling noise is taken out no variance between cells is left "
            f"(total {total['estimate']:.3f}), so there are no shares to tell."
        ]
    told = []
    for component in COMPONENTS:
        row = logit.loc[component]
        share = f"{row['share']:.0%} [{row['share_low']:.0%}, {row['share_high']:.0%}]"
        if row["found"]:
            told.append(f"{share} of the variance is {_MEANS[component]}.")
        else:
            told.append(
                f"Not shown to be there: {_MEANS[component]} ({share} of the variance; a standard "
                f"deviation of {row['mde'] ** 0.5:.2f} log odds would have been found)."
            )
    return told


def answer(matrix: pd.DataFrame) -> str:
    """In short: how many heads change sides from protocol to protocol."""
    heads = matrix.assign(above=_side(matrix, 1), below=_side(matrix, -1))
    sides = heads.groupby("head", sort=False)[["above", "below"]].any().all(axis=1)
    return (
        f"{int(sides.sum()) or 'None'} of {words.count(len(sides), 'head')} "
        f"go{'es' if sides.sum() == 1 else ''} "
        "with the labels of one protocol and against those of another, corrected over all at once."
    )


def shares(components: pd.DataFrame) -> str:
    """In short: how the variance between cells splits, the interaction first."""
    return " ".join(reversed(_shares(components)))


def glued(components: pd.DataFrame) -> dict[str, str]:
    """Values of the protocols page for other pages."""
    logit = components[components["scale"] == "logit"].set_index("component")
    return {
        f"share-{component}": "–"
        if pd.isna(logit.loc[component, "share"])
        else f"{logit.loc[component, 'share']:.0%}"
        for component in COMPONENTS
    }
