"""What the protocols page says, written from its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from lib import words
from lib.analyses.protocols.stats import COMPONENTS, GENERAL, changing
from lib.words.longer import extremes

SHOWN = 3  # heads that change sides
_MEANS = {
    "head": "differences between heads that hold under every protocol",
    "protocol": "differences between protocols that hold for every head",
    "interaction": "which head wins depending on the protocol",
}
_BELOW = {
    "head": "heads that win more under one protocol win less under another",
    "protocol": "where one head wins more, another wins less",
    "interaction": "cells differ less than sampling alone would make them",
}
_ANY = "whichever protocol is left out"
_NAMES = {"head": "the heads' part", "protocol": "the protocols' part"}


def takeaways(
    matrix: pd.DataFrame, components: pd.DataFrame, without: pd.DataFrame | None = None
) -> list[str]:
    """Heads that cross one half, components, both with a protocol left out, what stays unsaid.

    Tables as ``protocol_matrix``, ``variance_components`` and ``leave_one_out`` return them.
    """
    sentences = [answer(matrix)]
    sentences += words.first(crossing(matrix), SHOWN, "further heads change sides too.")
    sentences += _components(components)
    if without is not None:
        sentences += lasting(components, without)
    sentences += family(matrix, components)
    protocols = matrix["protocol"].nunique()
    if protocols < GENERAL:
        sentences.append(
            f"This is about the {words.count(protocols, 'protocol')} at hand; below {GENERAL} "
            "nothing is said about protocols in general."
        )
    return sentences


def crossing(matrix: pd.DataFrame) -> list[str]:
    """A sentence for each head that is shown above one half here and below it there, and of the
    protocols that this hangs on.

    ``matrix`` holds ``p_adjusted`` over all protocols at once.
    """
    sentences = []
    for row in changing(matrix).itertuples():
        best, worst = matrix.iloc[row.best], matrix.iloc[row.worst]
        needs = f"not without {' nor without '.join(row.needs)}" if row.needs else _ANY
        sentences.append(
            f"{row.head} goes with the labels of {best['protocol']} ({words.rate(best)}) and "
            f"against those of {worst['protocol']} ({words.rate(worst)}); {needs}."
        )
    return sentences


def answer(matrix: pd.DataFrame) -> str:
    """In short: how many heads change sides, and how many of them without any one protocol."""
    found = changing(matrix)
    sides = len(found)
    cells = int(matrix["p_adjusted"].notna().sum())
    sentence = (
        f"{sides} of {words.count(matrix['head'].nunique(), 'head')} "
        f"{'goes' if sides == 1 else 'go'} with the labels of one protocol and against those of "
        f"another, by Holm's correction over {words.count(cells, 'cell')} as one family"
    )
    if not sides:
        return f"{sentence}."
    firm = int((found["needs"].str.len() == 0).sum())
    hanging = found["needs"].explode().dropna().value_counts()
    told = [f"without {protocol} {sides - many or 'none'}" for protocol, many in hanging.items()]
    rest = f": {', '.join(told)}" if told else ""
    return f"{sentence}; {firm or 'none'} of them {_ANY}{rest}."


def left_out(datasets: Sequence[str]) -> list[str]:
    """Which data sets are no protocol, as ``stats.left_out`` names them."""
    if not datasets:
        return []
    verb, its = ("is", "its") if len(datasets) == 1 else ("are", "their")
    return [
        f"{', '.join(datasets)} {verb} no protocol here: {its} criteria each vary a thing of their "
        "own and are judged one by one."
    ]


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
            "uncorrected; estimates keep their sign."
        )
    return sentences


def longer(table: pd.DataFrame) -> list[str]:
    """From where to where the longer response goes, of ``stats.longer``."""
    return extremes(table, "protocol")


def _logit(components: pd.DataFrame) -> pd.DataFrame:
    return components[components["scale"] == "logit"].set_index("component")


def _components(components: pd.DataFrame) -> list[str]:
    logit = _logit(components)
    sentences = _parts(components)
    if logit["estimate"].isna().all():
        return sentences
    row = logit.loc["interaction"]
    sentences.append(
        "With sampling noise left in and what is below 0 counted as nothing, as is common, the "
        f"interaction would read {row['naive_share']:.0%} of the variance."
    )
    if row["note"]:
        sentences.append(f"In the components, {row['note']} (no numbers, or nothing but ties).")
    return sentences


def _parts(components: pd.DataFrame) -> list[str]:
    """What each component is, with its sign, or why that can't be told."""
    logit = _logit(components)
    if logit["estimate"].isna().all():
        return [f"No components of variance: this {logit['note'].iloc[0]}."]
    return [_part(component, row) for component, row in logit.loc[list(COMPONENTS)].iterrows()]


def _part(component: str, row: pd.Series) -> str:
    told = f"{_MEANS[component]} (variance {_signed(row)} in log odds"
    if row["found"]:
        return f"Shown to be there: {told})."
    if row["below"]:
        return f"Below 0: {told}), so {_BELOW[component]}."
    aside = ""
    if row["low"] > 0 or row["high"] < 0:
        aside = f", {'above' if row['low'] > 0 else 'below'} 0 but not so on win rates"
    return (
        f"Not shown to be there: {told}{aside}; {row['mde']:.3f} would have been found with "
        "power .8)."
    )


def _signed(row: Mapping[str, float]) -> str:
    return words.estimate(row["estimate"], row["low"], row["high"], "+.3f")


def _state(row: pd.Series) -> str:
    if row["found"]:
        return "shown to be there"
    return "below 0" if row["below"] else "not shown to be there"


def lasting(components: pd.DataFrame, without: pd.DataFrame) -> list[str]:
    """What becomes of each component when a protocol is left out, of ``stats.leave_one_out``."""
    if without.empty:
        return []
    whole, parts = _logit(components), without[without["scale"] == "logit"]
    sentences = []
    for component in reversed(COMPONENTS):
        rows = parts[parts["component"] == component].set_index("without")
        rows = rows.assign(state=[_state(row) for _, row in rows.iterrows()])
        state = _state(whole.loc[component])
        name = _NAMES.get(component, "the interaction").capitalize()
        least, most = rows["estimate"].agg(["idxmin", "idxmax"])
        ends = (
            f"{_signed(rows.loc[least])} without {least}, {_signed(rows.loc[most])} without {most}"
        )
        other = rows[rows["state"] != state]
        if other.empty:
            sentences.append(f"{name} is {state} {_ANY} ({ends}).")
            continue
        kinds = {f"{said} without": own for said, own in other.groupby("state", sort=False)}
        told = words.cases(kinds, lambda row: f"{row.Index} ({_signed(row._asdict())})")
        sentences.append(f"{name} is {state} with all protocols, but {told}.")
    return sentences


def shares(components: pd.DataFrame, without: pd.DataFrame | None = None) -> str:
    """In short: the components, the interaction first, and that one with a protocol left out."""
    told = list(reversed(_parts(components)))
    return " ".join(told if without is None else told[:1] + lasting(components, without))
