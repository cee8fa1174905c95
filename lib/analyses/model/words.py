"""Sentences of the model page, written from its tables; none holds a typed number."""

from __future__ import annotations

import pandas as pd

from lib import words


def takeaways(
    heads: pd.DataFrame,
    cosines: pd.DataFrame,
    scores: pd.DataFrame,
    combined: pd.DataFrame,
    date: str = "",
) -> list[str]:
    """Heads and names, their weights, the weakest head of the card, the gate.

    And the ``date`` that the template writes, where it writes one.
    """
    sentences = [*_names(heads), *_weights(heads, cosines), *_scores(scores), *_combined(combined)]
    if date:
        sentences.append(
            f"The chat template writes today's date; on these pages that is always {date}, so that "
            "the same text gives the same tokens on any day. Another date can give other scores."
        )
    return sentences


def _names(heads: pd.DataFrame) -> list[str]:
    named = int((heads["source"] != "unnamed").sum())
    sentences = [f"{len(heads)} heads; the names of {named} have a source."]
    if len(heads) == 1:
        sentences = [f"One head; its name {'has a source' if named else 'has none'}."]
    claimless = heads.loc[heads["concept"] == "", "head"]
    if len(claimless):
        names = ", ".join(claimless)
        sentences.append(f"Claiming no concept that a comparison here tests: {names}.")
    return sentences


def _weights(heads: pd.DataFrame, cosines: pd.DataFrame) -> list[str]:
    sentences = words.each(heads[heads["note"] != ""], "{head}: {note}.")
    pairs = cosines[cosines["head"] < cosines["other"]].dropna(subset=["cosine"])
    if pairs.empty:
        return [*sentences, "There are no two heads whose weights could be compared."]
    most, sizes = pairs.loc[pairs["cosine"].abs().idxmax()], pairs["cosine"].abs()
    return [
        *sentences,
        f"The largest weights are those of {heads.loc[heads['norm'].idxmax(), 'head']}: "
        f"{heads['relative'].max():.1f} times the mean norm.",
        f"Of {len(pairs)} pairs of heads the nearest to one line, either way, are {most['head']} "
        f"and {most['other']} (cosine {most['cosine']:.2f}); the mean size of a cosine is "
        f"{sizes.mean():.2f}.",
    ]


def _scores(scores: pd.DataFrame) -> list[str]:
    known = scores.dropna(subset=["held_out"])
    if known.empty:
        return [f"{scores['note'].iloc[0].capitalize()}."]
    sentences = []
    for score, rows in known.groupby("score", sort=False):
        weakest = rows.loc[rows["held_out"].idxmin()]
        numbers = words.estimate(*weakest[["held_out", "held_out_low", "held_out_high"]])
        which = f"By {score}, the weakest of {len(rows)} heads on held-out prompts is "
        if len(rows) == 1:
            which = f"By {score} on held-out prompts, "
        sentences.append(f"{which}{weakest['head']}: {numbers}.")
    outside = known.loc[
        (known["cross_validated"] < known["held_out_low"])
        | (known["cross_validated"] > known["held_out_high"]),
        "head",
    ]
    if len(outside):
        names = ", ".join(outside)
        sentences.append(
            f"The held-out interval doesn't hold the cross-validated score of {names}."
        )
    return sentences


def _combined(combined: pd.DataFrame) -> list[str]:
    if combined["score"].isna().all():
        return []
    gate, rest = combined.iloc[0], combined.iloc[1:]
    text = (
        f"The gated score is right for {words.estimate(gate['score'], gate['low'], gate['high'])} "
        f"of {gate['rows']} held-out comparisons"
    )
    if rest.empty:
        return [f"{text}."]
    best = rest.loc[rest["score"].idxmax()]
    return [f"{text}; the best of what it is compared with is {best['rule']}, {best['score']:.3f}."]


def glued(heads: pd.DataFrame, scores: pd.DataFrame) -> dict[str, str]:
    """Values of the page for other pages: the number of heads, each head's held-out score."""
    known = scores.dropna(subset=["held_out"])
    kept = {f"held-out-{row.head}": f"{row.held_out:.3f}" for row in known.itertuples()}
    return kept | {"heads": str(len(heads))}
