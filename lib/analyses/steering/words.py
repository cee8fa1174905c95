"""What the page on steering says, written from its tables."""

from __future__ import annotations

import pandas as pd

from lib import words
from lib.analyses.steering.stats import ALL, CORRECTS, HARMS, HELPS

SHOWN = 4
DOES = {CORRECTS: "raises", HARMS: "lowers"}


def takeaways(targets: pd.DataFrame, corrections: pd.DataFrame) -> list[str]:
    """What suppression corrects on new prompts, what else it moves, and the published form."""
    if targets["criterion"].isna().all():
        return [f"Nothing can be steered here: {words.reasons(targets['note'])}."]
    return [answer(targets), *_side(targets), *_beside(targets), *published(corrections)]


def answer(table: pd.DataFrame) -> str:
    """Which criteria a chosen latent corrects on prompts that didn't choose it."""
    judged = table[table["change"].notna()]
    if judged.empty:
        return f"No criterion could be steered: {words.reasons(table['note'])}."
    shown = judged[judged["verdict"].isin([CORRECTS, HARMS])]
    many = _criteria(len(judged))
    if shown.empty:
        return (
            f"No latent, chosen on half of a criterion's prompts, is shown to change its accuracy "
            f"on the other half, over {many} (Holm)."
        )
    told = words.each(
        shown.assign(does=shown["verdict"].map(DOES)),
        "latent {latent:.0f} {does} the accuracy on {criterion} from {before:.2f} to {after:.2f} "
        "({change:+.3f} [{low:+.3f}, {high:+.3f}])",
    )
    return (
        f"On prompts that didn't choose it, {words.listed(told, SHOWN, '; ')}; by Holm's "
        f"correction over {many}, intervals uncorrected. Only the change is tested, not whether "
        "the accuracy that it leads to is above one half."
    )


def _side(table: pd.DataFrame) -> list[str]:
    known = table[table["side"].notna()]
    if known.empty:
        return []
    shown = known[known["side_verdict"].isin([HELPS, HARMS])]
    many = words.count(len(known), "latent")
    if shown.empty:
        most = known["side"].abs().max()
        return [
            f"No chosen latent, of {len(known)}, is shown to change the accuracy over all other "
            f"criteria (Holm); the largest such change is {most:.3f}."
        ]
    told = words.each(
        shown,
        "latent {latent:.0f}, aimed at {criterion}, {side_verdict} the others ({side:+.3f} "
        "[{side_low:+.3f}, {side_high:+.3f}])",
    )
    return [
        f"Side effects: {words.listed(told, SHOWN, '; ')}; by Holm's correction over {many}, "
        "intervals uncorrected."
    ]


def _beside(table: pd.DataFrame) -> list[str]:
    known = table[table["change"].notna() & table["random"].notna()]
    if known.empty:
        return []
    above = int((known["change"] > known["random_high"]).sum())
    text = (
        f"{above} of {len(known)} chosen latents change their criterion by more than each of the "
        "latents with the nearest firing rates does"
    )
    both = known[known["dense"].notna()]
    if len(both):
        more = int((both["dense"] > both["change"]).sum())
        text += (
            f"; moving the state along a dense direction, by as much, raises accuracy more for "
            f"{more} of {len(both)} criteria"
        )
    return [f"{text}. These are counts, without a test."]


def published(table: pd.DataFrame) -> list[str]:
    """Suppress one feature, correct one preference."""
    whole = table[(table["criterion"] == ALL) & table["correctable"].notna()]
    return [
        f"In the published form, one feature for one preference, suppressing some latent corrects "
        f"{row.correctable:.0%}"
        + ("" if pd.isna(row.low) else f" [{row.low:.0%}, {row.high:.0%}]")
        + f" of {words.count(int(row.wrong), 'comparison')} that are ranked wrongly"
        + (
            ""
            if pd.isna(row.broken)
            else f"; the one that harms least breaks {row.broken:.0f} others and mends "
            f"{row.mended:.0f} in the median, and a latent of the nearest firing rates corrects "
            f"{row.random:.0%} of them"
        )
        + ". Here a preference chooses its own feature, which no other prompt tests."
        for row in whole.itertuples()
    ]


def _criteria(number: int) -> str:
    return f"{number} {'criterion' if number == 1 else 'criteria'}"
