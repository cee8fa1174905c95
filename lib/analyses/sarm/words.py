"""What the page on sparse features says, written from its tables."""

from __future__ import annotations

import pandas as pd

from lib import words
from lib.analyses.sarm.stats import (
    BETTER,
    NOT_SHOWN,
    OWN,
    READINGS,
    SAME,
    SHARED,
    UNDEFINED,
    WORSE,
)

SHOWN = 4
CLOSE = 1e-4  # of a standard deviation: as good as the same score


def takeaways(
    collapse: pd.DataFrame,
    quality: pd.DataFrame,
    here: pd.DataFrame,
    accuracy: pd.DataFrame,
    attribution: pd.DataFrame,
    features: pd.DataFrame,
    names: pd.DataFrame,
    stability: pd.DataFrame,
    whole: bool = True,
) -> list[str]:
    """How good the reward is, which it is, its features, the autoencoder, what comes again.

    ``whole`` is ``lib.data.asks.whole`` of the data set: where each criterion asks its own
    question, features are counted and no side is told.
    """
    if len(collapse) and collapse["flag"].isna().all():
        return [f"Nothing can be said of features here: {words.reasons(collapse['note'])}."]
    return [
        *_right(accuracy, collapse),
        answer(collapse),
        *_features(features, whole),
        *_names(names),
        *_quality(quality, here),
        *_accuracy(accuracy),
        *_stability(stability),
        *_attribution(attribution),
        *_other(collapse),
    ]


def answer(table: pd.DataFrame) -> str:
    """Is this reward a linear head on the state?"""
    known = table[table["flag"].notna()]
    if known.empty:
        return f"It can't be told which reward this is: {words.reasons(table['note'])}."
    own = known.iloc[0]
    if pd.isna(own["gap"]):
        return f"It can't be told which reward this is: {own['note']}."
    if own["flag"] == "off" and own["gap"] < CLOSE:
        return (
            f"This reward reads all pre-activations, and is a linear head on the state: its scores "
            f"differ from that head's by at most {own['gap']:.1g} standard deviations. Other "
            f"weights that share {own['shared']:.0%} of the largest give the same scores to within "
            f"{own['other_gap']:.1g}, so its features are not identified."
        )
    if own["flag"] == "off":
        return (
            f"This reward reads all pre-activations, which makes it a linear head on the state; "
            f"computed, the two differ by up to {own['gap']:.1g} standard deviations, more than "
            f"rounding should."
        )
    if own["gap"] < CLOSE:
        return (
            f"This reward reads {own['l0']:.0f} latents of a response, and on these responses does "
            f"what a linear head on the state does (within {own['gap']:.1g} standard deviations): "
            "they share their latents."
        )
    return (
        f"This reward reads {own['l0']:.0f} latents of a response and is no linear head on the "
        f"state: its scores differ from those of the same weights on all pre-activations by up to "
        f"{own['gap']:.2g} standard deviations. In the median response its parts are as many as "
        f"{own['participation']:.1f} of equal size would be (participation ratio)."
    )


def _right(accuracy: pd.DataFrame, collapse: pd.DataFrame) -> list[str]:
    """How often the reward itself is right on held-out comparisons, and whether beyond chance."""
    flag = collapse["flag"].iloc[0] if len(collapse) else ""
    own = accuracy[accuracy["reading"] == READINGS["z" if flag == "on" else "pre"]]
    return [
        f"On {row.rows:.0f} held-out comparisons this reward is right for "
        f"{words.estimate(row.accuracy, row.low, row.high)}"
        f"{', not told from chance' if row.low <= 0.5 <= row.high else ''}."
        for row in own[own["accuracy"].notna()].head(1).itertuples()
    ]


def _other(table: pd.DataFrame) -> list[str]:
    """The same with its flag turned, where that says more."""
    rest = table.iloc[1:]
    rest = rest[(rest["flag"] == "off") & rest["gap"].notna()]
    return words.each(
        rest,
        "Without the choice of the largest, the reward would be a linear head (distance at most "
        "{gap:.1g} standard deviations), and other weights that share {shared:.0%} of the largest "
        "would give the same scores (within {other_gap:.1g}).",
    )


def _features(table: pd.DataFrame, whole: bool = True) -> list[str]:
    if table.empty:
        return []
    if not whole:
        moved = int(table["verdict"].isin([BETTER, WORSE]).sum())
        return [
            words.mixed(
                f"no side is told here: {moved} of {words.count(len(table), 'latent')} that were "
                "read have a mean part told from zero, by one test over all"
            )
        ]
    kinds = {
        "toward the better response": table[table["verdict"] == BETTER],
        "toward the worse": table[table["verdict"] == WORSE],
    }
    shown = sum(map(len, kinds.values()))
    count = words.count(len(table), "latent")
    if not shown:
        return [
            f"No feature is shown to go toward the better response or toward the worse, by one "
            f"test over {count} that were read here."
        ]
    told = [
        f"{kind} {len(rows)} ("
        + words.listed(
            words.each(rows, "{latent}: {difference:+.3f} [{low:+.3f}, {high:+.3f}]"), SHOWN
        )
        + ")"
        for kind, rows in kinds.items()
        if len(rows)
    ]
    return [
        f"Features shown to go {', '.join(told)}, by one test over {count} that were read here; "
        "intervals are uncorrected."
    ]


def _names(table: pd.DataFrame) -> list[str]:
    judged = table[table["verdict"] != UNDEFINED] if len(table) else table
    if judged.empty:
        return []
    own = judged[judged["verdict"] == OWN]
    shared = int((judged["verdict"] == SHARED).sum())
    none = int((judged["verdict"] == NOT_SHOWN).sum())
    told = words.each(own, "{latent} ({criterion})")
    listed = f" ({words.listed(told, SHOWN)})" if told else ""
    return [
        f"Of {words.count(len(judged), 'feature')}, judged on prompts that didn't choose their "
        f"criterion, by Holm's correction: shown to respond to it alone {len(own)}{listed}, to "
        f"respond and not to it alone {shared}, not shown to respond {none}."
    ]


def _quality(quality: pd.DataFrame, here: pd.DataFrame) -> list[str]:
    told = []
    known = quality[quality["explained"].notna()]
    if len(known):
        own = known[known["chosen"].astype(bool)].iloc[:1]
        own = own if len(own) else known.iloc[:1]
        told += words.each(
            own,
            "On held-out texts the autoencoder explains {explained:.3f} [{low:.3f}, {high:.3f}] of "
            "the variance of all tokens and {explained_last:.3f} [{last_low:.3f}, {last_high:.3f}] "
            "of last ones, which are those that are read; {never_fired:.1%} of its latents are "
            "never among the largest.",
        )
        told += [
            f"Where a dense head reads the rebuilt state, its accuracy changes by "
            f"{row.less_dense:+.3f} [{row.less_low:+.3f}, {row.less_high:+.3f}] (held out, paired)."
            for row in own.itertuples()
            if pd.notna(row.less_dense)
        ]
    told += words.each(
        here[here["explained"].notna()],
        "Of the {responses} responses here it explains {explained:.3f} [{low:.3f}, {high:.3f}] of "
        "the variance.",
    )
    return told


def _accuracy(table: pd.DataFrame) -> list[str]:
    known = table[table["less_dense"].notna() & (table["reading"] != "the state itself")]
    if known.empty:
        return []
    rows = known.assign(how=[_how(row) for row in known.itertuples()])
    told = words.each(rows, "{reading} {how}{less_dense:+.3f} [{less_low:+.3f}, {less_high:+.3f}]")
    return [
        f"Accuracy less that of a dense head on the same state, on the same held-out comparisons: "
        f"{'; '.join(told)}. Intervals are uncorrected."
    ]


def _how(row) -> str:
    if pd.isna(row.less_low):
        return ""
    if row.less_high < 0:
        return "loses: "
    return "gains: " if row.less_low > 0 else "isn't told apart: "


def _stability(table: pd.DataFrame) -> list[str]:
    known = table[table["again"].notna()]
    if known.empty:
        return []
    told = words.each(known, "{again:.0%} of {of} ({latents})")
    return [
        "Found again in the autoencoders of all other seeds "
        f"({words.span(known['seeds'], '.0f')}), each the other's nearest with a cosine of at "
        f"least {SAME:g}: {'; '.join(told)}."
    ]


def _attribution(table: pd.DataFrame) -> list[str]:
    known = table[table["gap"].notna()]
    told = [
        f"The parts sum to the reward (within {row.gap:.1g} standard deviations)."
        for row in known.iloc[:1].itertuples()
    ]
    return told + [
        f"The published attribution through an autoencoder doesn't sum to the dense score that it "
        f"is of: it is off by up to {row.gap:.2g} standard deviations beyond a constant, and "
        f"{row.changed:.1%} of the comparisons change sides; which latents matter agrees with the "
        f"parts here by a rank correlation of {words.number(row.alike, '.2f')}."
        for row in known.iloc[1:].itertuples()
    ]
