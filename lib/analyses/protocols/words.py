"""What the protocols page says, written from its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from lib import words
from lib.analyses.protocols.stats import COMPONENTS, GENERAL, changing
from lib.words.longer import extremes

SHOWN = 3  # heads that change sides
_MEANS = {
    "head": "Differences between heads that hold under every protocol",
    "protocol": "Differences between protocols that hold for every head",
    "interaction": "Interaction (which head wins depends on the protocol)",
}
_BELOW = {
    "head": "heads that win more under one protocol win less under another",
    "protocol": "where one head wins more, another wins less",
    "interaction": "cells differ less than sampling alone would make them",
}
_ANY = "whichever protocol is left out"
_NAMES = {
    "head": "Differences between heads",
    "protocol": "Differences between protocols",
    "interaction": "The interaction",
}


def takeaways(
    matrix: pd.DataFrame, components: pd.DataFrame, without: pd.DataFrame | None = None
) -> list[str]:
    """How many heads change sides, components, these without a protocol, heads, what stays unsaid.

    Tables as ``protocol_matrix``, ``variance_components`` and ``leave_one_out`` return them.
    """
    sentences = [answer(matrix), *_parts(components)]
    if without is not None:
        sentences += lasting(components, without)
    sentences += words.first(crossing(matrix), SHOWN, "further heads change sides too.")
    sentences += [*_kept_in(components), *family(matrix, components)]
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
        needs = f"not shown without {' nor without '.join(row.needs)}" if row.needs else ""
        needs = needs or f"shown {_ANY}"
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
        f"another (corrected by Holm over {words.count(cells, 'cell')} as one family)"
    )
    if not sides:
        return f"{sentence}."
    firm = int((found["needs"].str.len() == 0).sum())
    hanging = found["needs"].explode().dropna().value_counts()
    left = {protocol: sides - many for protocol, many in hanging.items()}
    told = [f"without {protocol} {number or 'none'}" for protocol, number in left.items()]
    if told:
        told[0] += f" {'is' if next(iter(left.values())) < 2 else 'are'} left"
    rest = f" ({', '.join(told)})" if told else ""
    is_ = "is" if firm < 2 else "are"
    return f"{sentence}; {firm or 'none'} of these {is_} shown {_ANY}{rest}."


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


def _kept_in(components: pd.DataFrame) -> list[str]:
    """What the interaction would be without corrections, and which heads aren't in it."""
    logit = _logit(components)
    if logit["estimate"].isna().all():
        return []
    row = logit.loc["interaction"]
    sentences = [
        "Computed as is common, with sampling noise left in and parts below 0 set to 0, the "
        f"interaction would have {row['naive_share']:.0%} of the variance."
    ]
    if row["note"]:
        sentences.append(f"In the components, {row['note']} (no numbers, or nothing but ties).")
    return sentences


def _parts(components: pd.DataFrame) -> list[str]:
    """What each component is, with its sign, the interaction first, or why that can't be told."""
    logit = _logit(components)
    if logit["estimate"].isna().all():
        return [f"No components of variance: this {logit['note'].iloc[0]}."]
    return [_part(component, logit.loc[component]) for component in reversed(COMPONENTS)]


def _part(component: str, row: pd.Series) -> str:
    state = _state(row)
    told = f"{_MEANS[component]}: {state} (variance {_signed(row)} in log odds"
    if row["found"]:
        return f"{told})."
    if row["below"]:
        return f"{told}), so {_BELOW[component]}."
    aside = ""
    if row["low"] > 0 or row["high"] < 0:
        aside = f", {'above' if row['low'] > 0 else 'below'} 0 there but not in win rates"
    return f"{told}{aside}; {row['mde']:.3f} would have been found with power .8)."


def _signed(row: Mapping[str, float]) -> str:
    return words.estimate(row["estimate"], row["low"], row["high"], "+.3f")


def _state(row: pd.Series) -> str:
    if row["found"]:
        return "shown"
    return "below 0" if row["below"] else "not shown"


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
        name = _NAMES[component]
        least, most = rows["estimate"].agg(["idxmin", "idxmax"])
        ends = (
            f"a variance from {_signed(rows.loc[least])} without {least} to "
            f"{_signed(rows.loc[most])} without {most}"
        )
        other = rows[rows["state"] != state]
        if other.empty:
            sentences.append(f"{name}: {state} {_ANY} ({ends}).")
            continue
        kinds = {f"{said} without": own for said, own in other.groupby("state", sort=False)}
        told = words.cases(kinds, lambda row: f"{row.Index} ({_signed(row._asdict())})")
        sentences.append(f"{name}: {state} with all protocols, but {told}.")
    return sentences


def shares(components: pd.DataFrame, without: pd.DataFrame | None = None) -> str:
    """In short: the components, the interaction first, and that one with a protocol left out."""
    told = _parts(components)
    return " ".join(told if without is None else told[:1] + lasting(components, without))
