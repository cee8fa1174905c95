"""What the patching page says, written from its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from lib import words
from lib.analyses.patching.agreement import ALIGNED, AS_PUBLISHED, CORRECTED, NORM
from lib.analyses.patching.stats import (
    CANCELLED,
    CONFIRMED,
    NO_MARGIN,
    NOT_SHOWN,
    OPPOSES,
    UNDEFINED,
    VERDICTS,
    way_of,
)
from lib.effects import DENOISING, NOISING, PUBLISHED

SHOWN = 4  # nodes that a sentence names
UNTOLD = (
    "which response a head prefers on average, and what carries that, isn't told here; how far "
    "attribution and patches agree is"
)
SHARE = "{node} ({share:+.0%} [{share_low:+.0%}, {share_high:+.0%}])"


def takeaways(
    found: pd.DataFrame,
    largest: pd.DataFrame,
    agreement: pd.DataFrame,
    faults: pd.DataFrame,
    alignment: pd.DataFrame,
    ways: pd.DataFrame,
    gate: pd.DataFrame,
    published: Mapping[str, Any],
    whole: bool = True,
) -> list[str]:
    """Each head's answer, then what alignment and norm do, then how ways to patch differ.

    ``whole`` is ``lib.data.asks.whole`` of the data set: where each criterion asks its own
    question, nothing is said of the mean margin and of what carries it.
    """
    first, *others = found["head"].unique()
    return [
        why(found, largest, first) if whole else words.mixed(UNTOLD),
        *attributed(agreement, faults, first, published),
        from_the_left(alignment, first),
        *(_others(found, largest, others) if whole else []),
        *between(ways, first),
        *recomputed(gate),
        *family(found),
    ]


def _others(found: pd.DataFrame, largest: pd.DataFrame, heads: Sequence[str]) -> list[str]:
    """Further heads; those with no mean margin and no pull on it share one sentence."""
    rows = found[found["head"].isin(heads)]
    idle = rows.groupby("head", sort=False).filter(
        lambda own: own["note"].eq(NO_MARGIN).all() and own["pulls"].eq("").all()
    )
    names = idle["head"].unique()
    if len(names) < 2:
        names = []
    sentences = [why(found, largest, head) for head in heads if head not in names]
    if len(names):
        each = idle.drop_duplicates("head")
        prompts = words.count(int(each["prompts"].iloc[0]), "prompt")
        means = [
            f"{row.head} {words.estimate(row.margin, row.margin_low, row.margin_high)}"
            for row in each.itertuples()
        ]
        sentences.append(
            f"The mean margins of {len(names)} heads over {prompts} are not told from 0, so no "
            f"node can be shown to carry them: {', '.join(means)}."
        )
    return sentences


def why(found: pd.DataFrame, largest: pd.DataFrame, head: str) -> str:
    """In short: which nodes are confirmed to carry what one head says."""
    rows = found[found["head"] == head]
    row = rows.iloc[0]
    if rows["verdict"].eq(UNDEFINED).all() or row["note"] not in ("", NO_MARGIN):
        return f"{head}: nothing can be told: {words.reasons(rows['note'])}."
    margin, low, high = row["margin"], row["margin_low"], row["margin_high"]
    prompts = words.count(int(row["prompts"]), "prompt")
    if row["note"] == NO_MARGIN:
        return (
            f"{head}: its mean margin over {prompts}, {words.estimate(margin, low, high)}, is not "
            f"told from 0, so no node can be shown to carry it.{_pulls(rows)}"
        )
    if margin < 0:
        margin, low, high = -margin, -high, -low
    side = "better" if row["margin"] > 0 else "worse"
    return (
        f"{head} scores the {side} response higher by {words.estimate(margin, low, high)} on "
        f"average over {prompts}. {_carriers(rows)} {_attribution(largest, head)}".strip()
    )


def _pulls(rows: pd.DataFrame) -> str:
    """Which way nodes move a mean that isn't told from 0 in all."""
    sides = {side: rows[rows["pulls"] == side] for side in ("better", "worse")}
    parts = [
        f"{len(own)} of {len(rows)} nodes towards the {side} response "
        f"({words.listed(words.each(_by_size(own), '{node} {carried:+.3f}'), SHOWN)})"
        for side, own in sides.items()
        if len(own)
    ]
    return f" Patches show {' and '.join(parts)}." if parts else ""


def _by_size(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.loc[rows["carried"].abs().sort_values(ascending=False, kind="stable").index]


def _carriers(rows: pd.DataFrame) -> str:
    """Which nodes carry it, oppose it or cancel one another; or what would have been found."""
    kinds = {kind: rows[rows["verdict"] == kind] for kind in (CONFIRMED, OPPOSES, CANCELLED)}
    whole = f"Of {len(rows)} nodes"
    parts = []
    if len(kinds[CONFIRMED]):
        parts.append(f"{_some(kinds[CONFIRMED], 'is', 'are')} confirmed to carry it: ")
        parts[-1] += _named(kinds[CONFIRMED])
    if len(kinds[OPPOSES]):
        parts.append(f"{_some(kinds[OPPOSES], 'opposes', 'oppose')} it: {_named(kinds[OPPOSES])}")
    if len(kinds[CANCELLED]):
        pairs = words.each(kinds[CANCELLED], "{node} by {undone_by}")
        parts.append(f"{_some(kinds[CANCELLED], 'is', 'are')} cancelled: {', '.join(pairs)}")
    if parts:
        return f"{whole} {'; '.join(parts)}."
    sizes = rows["mde"].dropna() / rows["margin"].abs()
    if sizes.empty:
        return f"{whole} none is shown to carry it, and so few prompts could show none."
    return (
        f"{whole} none is shown to carry or to oppose it; what carried "
        f"{words.span(sizes, '.0%')} of it, depending on the node, would have been found."
    )


def _some(rows: pd.DataFrame, one: str, more: str) -> str:
    return f"{len(rows)} {one if len(rows) == 1 else more}"


def _named(rows: pd.DataFrame) -> str:
    return words.listed(words.each(_by_size(rows), SHARE), SHOWN)


def _attribution(largest: pd.DataFrame, head: str) -> str:
    """What patching says of the component that attribution puts first."""
    rows = largest[(largest["head"] == head) & largest["verdict"].ne("")]
    if rows.empty or pd.isna(rows["share"].iloc[0]):
        return ""
    row = rows.iloc[0]
    said = {
        CONFIRMED: "which patches confirm",
        OPPOSES: "which by patches opposes it",
        CANCELLED: "which by patches another node takes back",
        NOT_SHOWN: "which patches don't show",
    }
    return (
        f"By attribution its largest node is {row['component']} ({row['share']:+.0%}), "
        f"{said[row['verdict']]}."
    )


def attributed(
    agreement: pd.DataFrame, faults: pd.DataFrame, head: str, published: Mapping[str, Any]
) -> list[str]:
    """Do attribution and patches agree here, and how much of it do alignment and norm make?"""
    own = agreement[agreement["head"] == head].set_index(["alignment", "parts"])
    mended, plain = own.loc[CORRECTED], own.loc[AS_PUBLISHED]
    others = (
        f"For other models {published['skywork']:+.3f} (Skywork) and {published['armorm']:+.3f} "
        "(ArmoRM) were published, without an interval and without saying what was correlated"
    )
    if pd.isna(mended["rho"]) or pd.isna(plain["rho"]):
        return [f"{head}: attribution and patches can't be compared here. {others}."]
    change = faults[faults["head"] == head].set_index("what")
    each = agreement[agreement["head"] != head].groupby(["alignment", "parts"])["rho"]
    spans = ""
    if agreement["head"].nunique() > 1:
        ranges = [words.span(each.get_group(way), "+z.2f") for way in (CORRECTED, AS_PUBLISHED)]
        spans = f" Over the other heads it is {ranges[0]}, as published {ranges[1]}."
    return [
        f"{head}: the ranks that attribution and noising give the nodes correlate with a mean ρ of "
        f"{_rho(mended)} over prompts (median {mended['median']:+z.2f}, middle half "
        f"{mended['lower']:+z.2f} to {mended['upper']:+z.2f}). Aligned from the left and without "
        f"the final norm, as published, it is {_rho(plain)}.{spans}",
        f"{others}. Here the alignment makes {_rho(change.loc[ALIGNED].rename({'change': 'rho'}))} "
        f"of ρ and the norm {_rho(change.loc[NORM].rename({'change': 'rho'}))} ({head}). Of mean "
        f"parts and mean effects ρ is {mended['of_means']:+z.2f}, as published "
        f"{plain['of_means']:+z.2f}; of their mean sizes {mended['of_sizes']:+z.2f} and "
        f"{plain['of_sizes']:+z.2f}.",
    ]


def _rho(row: Mapping[str, float]) -> str:
    return words.estimate(row["rho"], row["low"], row["high"], "+z.2f")


def from_the_left(alignment: pd.DataFrame, head: str) -> str:
    """What the published alignment does to patches."""
    own = alignment[alignment["head"] == head].set_index("mode")
    there, back = own.loc[NOISING], own.loc[DENOISING]
    text = (
        "Aligned from the left, as published, the token at which the reward is read is out of "
        f"reach in {there['unreached']:.0%} of comparisons for noising and in "
        f"{back['unreached']:.0%} for denoising."
    )
    if pd.notna(there["left_over"]):
        text += (
            f" Patching everything then leaves {there['left_over']:.0%} and "
            f"{back['left_over']:.0%} of the size of {head}'s margins; aligned at both ends it "
            "leaves nothing."
        )
    changed = alignment.drop_duplicates("head")
    nodes = int(changed["nodes"].iloc[0]) * len(changed)
    return (
        f"{text} {int(changed['changed'].sum())} of {nodes} verdicts on a node and head would "
        "be others."
    )


def between(ways: pd.DataFrame, head: str) -> list[str]:
    """How far other ways to patch rank nodes as noising does."""
    rows = ways[ways["head"] == head].set_index("way")
    names = {way_of(DENOISING): "denoising", PUBLISHED: "zeroing all of the better response"}
    names |= {f"{mode}, response": mode for mode in ("zero", "mean", "resample")}
    told = [f"{said} {_rho(rows.loc[name])}" for name, said in names.items() if name in rows.index]
    if not told or rows["rho"].isna().all():
        return []
    return [
        f"{head}: the nodes' ranks by noising correlate with those by other patches: "
        f"mean ρ of {', '.join(told)}."
    ]


def recomputed(gate: pd.DataFrame) -> list[str]:
    """What recomputing the gate changes, where the prompt is patched too."""
    known = gate.dropna(subset=["change"])
    if known.empty:
        return []
    most = known.loc[known["change"].abs().idxmax()]
    told = int((known["p_adjusted"] < 0.05).sum())
    return [
        f"With the gate recomputed, zeroing {most['node']} changes most: the final score's margin "
        f"loses {most['recomputed']:+.3f} and not {most['held']:+.3f}. "
        f"{told} of {len(known)} nodes differ after Holm."
    ]


def family(found: pd.DataFrame) -> list[str]:
    """Verdicts in all, and what the correction covers."""
    tests = int(found["p"].notna().sum())
    return [
        f"Verdicts are corrected by Holm over {tests} tests of a node for a head: "
        f"{words.tally(found['verdict'], VERDICTS)}."
    ]


def glued(
    found: pd.DataFrame, largest: pd.DataFrame, agreement: pd.DataFrame, whole: bool = True
) -> dict[str, str]:
    """Values of the page for other pages: each head's answer and its ρ."""
    answers = {
        f"why-{head}": why(found, largest, head) if whole else words.mixed(UNTOLD)
        for head in found["head"].unique()
    }
    rows = agreement.set_index(["alignment", "parts"])
    rho = {
        f"rho-{name}-{row['head']}": words.number(row["rho"], "+.3f")
        for name, way in (("corrected", CORRECTED), ("published", AS_PUBLISHED))
        for row in rows.loc[[way]].to_dict("records")
    }
    return answers | rho
