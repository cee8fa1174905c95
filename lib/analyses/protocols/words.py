"""What the protocols page says, written from its tables."""

from __future__ import annotations

import pandas as pd

from lib import words
from lib.analyses.protocols.stats import COMPONENTS, GENERAL
from lib.words.longer import extremes

SHOWN = 6  # heads that change sides
_MEANS = {
    "head": "differences between heads that hold under every protocol",
    "protocol": "differences between protocols that hold for every head",
    "interaction": "which head wins depending on the protocol",
}


def takeaways(matrix: pd.DataFrame, components: pd.DataFrame) -> list[str]:
    """Heads that cross one half, components with their shares, what stays unsaid."""
    sentences = words.first(crossing(matrix), SHOWN, "further heads change sides too.") or [
        "No head is shown to win more than half here and less than half there."
    ]
    sentences += [*_components(components), *family(matrix, components)]
    protocols = matrix["protocol"].nunique()
    if protocols < GENERAL:
        sentences.append(
            f"This is about the {words.count(protocols, 'protocol')} at hand; below {GENERAL} "
            "nothing is said about protocols in general."
        )
    return sentences


def crossing(matrix: pd.DataFrame) -> list[str]:
    """A sentence for each head that is shown above one half here and below it there.

    ``matrix`` holds ``p_adjusted`` over all protocols at once.
    """
    return [
        f"{head} goes with the labels of {best['protocol']} ({words.rate(best)}) and against those "
        f"of {worst['protocol']} ({words.rate(worst)})."
        for head, best, worst in changing(matrix)
    ]


def changing(matrix: pd.DataFrame) -> list[tuple[str, pd.Series, pd.Series]]:
    """Heads that change sides after correction, each with its highest and its lowest cell."""
    found = []
    for head, rows in matrix.groupby("head", sort=False):
        shown = rows[rows["p_adjusted"] < 0.05]
        if (shown["win_rate"] > 0.5).any() and (shown["win_rate"] < 0.5).any():
            ends = shown["win_rate"].agg(["idxmax", "idxmin"])
            found.append((head, *(shown.loc[end] for end in ends)))
    return found


def family(matrix: pd.DataFrame, components: pd.DataFrame) -> list[str]:
    """How many tests there are, how they are corrected, and what they would have found."""
    tested = matrix[matrix["p"].notna()]
    sentences = []
    if len(tested):
        sentences.append(
            "Cells are tested against one half as one family of "
            f"{words.count(len(tested), 'test')}, corrected by Holm; "
            f"{words.departures(tested['mde'])}."
        )
    if components["estimate"].notna().any():
        sentences.append(
            f"The {len(COMPONENTS)} components are each judged by an interval of their own, "
            "uncorrected."
        )
    return sentences


def longer(table: pd.DataFrame) -> list[str]:
    """From where to where the longer response goes, of ``stats.longer``."""
    return extremes(table, "protocol")


def _logit(components: pd.DataFrame) -> pd.DataFrame:
    return components[components["scale"] == "logit"].set_index("component")


def _components(components: pd.DataFrame) -> list[str]:
    logit = _logit(components)
    sentences = _shares(components)
    if logit.loc["total", "share"] != 1:
        return sentences
    row = logit.loc["interaction"]
    sentences.append(
        f"With sampling noise left in, as is common, the interaction's share would read "
        f"{row['naive_share']:.0%}."
    )
    if row["note"]:
        sentences.append(f"In the components, {row['note']} (no numbers, or nothing but ties).")
    return sentences


def _shares(components: pd.DataFrame) -> list[str]:
    """What each component takes of the variance, or why that can't be told."""
    logit = _logit(components)
    total = logit.loc["total"]
    if logit["estimate"].isna().all():
        return [f"No components of variance: this {logit['note'].iloc[0]}."]
    if total["share"] != 1:
        return [
            "Once sampling noise is taken out no variance between cells is left "
            f"(total {total['estimate']:.3f}), so there are no shares to tell."
        ]
    sentences = []
    for component, row in logit.loc[list(COMPONENTS)].iterrows():
        share = words.estimate(row["share"], row["share_low"], row["share_high"], ".0%")
        sentences.append(
            f"{share} of the variance is {_MEANS[component]}."
            if row["found"]
            else f"Not shown to be there: {_MEANS[component]} ({share} of the variance; a standard "
            f"deviation of {row['mde'] ** 0.5:.2f} log odds would have been found)."
        )
    return sentences


def answer(matrix: pd.DataFrame) -> str:
    """In short: how many heads change sides from protocol to protocol."""
    sides = len(changing(matrix))
    return (
        f"{sides or 'None'} of {words.count(matrix['head'].nunique(), 'head')} "
        f"{'goes' if sides == 1 else 'go'} with the labels of one protocol and against those of "
        "another, corrected over all at once."
    )


def shares(components: pd.DataFrame) -> str:
    """In short: how the variance between cells splits, the interaction first."""
    return " ".join(reversed(_shares(components)))


def glued(components: pd.DataFrame) -> dict[str, str]:
    """Values of the protocols page for other pages."""
    share = _logit(components)["share"]
    return {f"share-{name}": words.number(share[name], ".0%") for name in COMPONENTS}
