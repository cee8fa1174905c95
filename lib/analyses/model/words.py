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
    """Heads and names, the gate, the weakest head of the card, weights.

    And the ``date`` that the template writes, where it writes one.
    """
    sentences = [*_names(heads), *_combined(combined), *_scores(scores), *_weights(heads, cosines)]
    if date:
        sentences.append(
            f"The chat template writes today's date; on these pages that is always {date}, so that "
            "the same text gives the same tokens on any day. Another date can give other scores."
        )
    return sentences


def _names(heads: pd.DataFrame) -> list[str]:
    named, many = int((heads["source"] != "unnamed").sum()), len(heads)
    told = "is told" if named else "is not told"
    sentences = [f"The model has one head; where its name comes from {told}."]
    if many > 1:
        share = "each of them" if named == many else f"{named or 'none'} of them"
        sentences = [f"The model has {many} heads; where the name comes from is told for {share}."]
    claimless = heads.loc[heads["concept"] == "", "head"]
    if len(claimless):
        claim = "claims" if len(claimless) == 1 else "claim"
        sentences.append(
            f"{', '.join(claimless)} {claim} no concept that a comparison here could test."
        )
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
        f"Of {words.count(len(pairs), 'pair')} of heads, the weights of {most['head']} and "
        f"{most['other']} are the most {'alike' if most['cosine'] > 0 else 'opposed'} (cosine "
        f"{most['cosine']:.2f}); a cosine's mean size is {sizes.mean():.2f}.",
    ]


def _scores(scores: pd.DataFrame) -> list[str]:
    known = scores.dropna(subset=["held_out"])
    if known.empty:
        return [f"{scores['note'].iloc[0].capitalize()}."]
    sentences = []
    for score, rows in known.groupby("score", sort=False):
        weakest = rows.loc[rows["held_out"].idxmin()]
        numbers = words.estimate(*weakest[["held_out", "held_out_low", "held_out_high"]])
        which = f"Of {len(rows)} heads judged by {score} on held-out prompts the weakest is "
        if len(rows) == 1:
            which = f"Judged by {score} on held-out prompts, "
        sentences.append(f"{which}{weakest['head']}: {numbers}.")
    outside = known.loc[
        (known["cross_validated"] < known["held_out_low"])
        | (known["cross_validated"] > known["held_out_high"]),
        "head",
    ]
    if len(outside):
        names = ", ".join(outside)
        sentences.append(
            f"Cross-validated scores lie outside of the held-out interval for {names}."
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
    return [f"{text}; the best other rule is right for {best['score']:.3f} ({best['rule']})."]


def glued(heads: pd.DataFrame, scores: pd.DataFrame) -> dict[str, str]:
    """Values of the page for other pages: the number of heads, each head's held-out score."""
    known = scores.dropna(subset=["held_out"])
    kept = {f"held-out-{row.head}": f"{row.held_out:.3f}" for row in known.itertuples()}
    return kept | {"heads": str(len(heads))}
