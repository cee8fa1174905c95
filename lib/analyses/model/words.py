"""Sentences of the model page, written from its tables; none holds a typed number."""

from __future__ import annotations

import pandas as pd

from lib import words

ENDS = ("idxmin", "idxmax")
LEARNED = {"preference": "preferences", "rating": "ratings", "measure": "measures of the text"}
SCORES = {"spearman": "Spearman's ρ"}


def takeaways(
    heads: pd.DataFrame,
    cosines: pd.DataFrame,
    scores: pd.DataFrame,
    combined: pd.DataFrame,
    date: str = "",
) -> list[str]:
    """Heads and names, the gate, held-out scores of the card, weights.

    And the ``date`` that the template writes, where it writes one.
    """
    sentences = [
        *_names(heads, scores),
        *_combined(combined),
        *_scores(scores),
        *_weights(heads, cosines),
    ]
    if date:
        sentences.append(
            f"The chat template writes today's date; on these pages that is always {date}, so that "
            "the same text gives the same tokens on any day. Another date can give other scores."
        )
    return sentences


def _names(heads: pd.DataFrame, scores: pd.DataFrame) -> list[str]:
    """How many heads, what they learned from, whose name has no source, or claims nothing."""
    kinds = scores["kind"].dropna().value_counts(sort=False)
    sentences = [f"The model has {words.count(len(heads), 'head')}."]
    if kinds.sum() == len(heads) > 1:
        learned = [f"{number} on {LEARNED.get(kind, kind)}" for kind, number in kinds.items()]
        trained = ", ".join(learned).replace(" on", " trained on", 1)
        sentences = [f"The model has {len(heads)} heads: {trained}."]
    bare = heads.loc[heads["source"] == "unnamed", "head"]
    if len(bare):
        sentences.append(f"Where the name comes from is not told for {', '.join(bare)}.")
    claimless = heads.loc[heads["concept"] == "", "head"]
    if len(claimless):
        claim = "claims" if len(claimless) == 1 else "claim"
        sentences.append(f"{', '.join(claimless)} {claim} no concept of this book's vocabulary.")
    return sentences


def _weights(heads: pd.DataFrame, cosines: pd.DataFrame) -> list[str]:
    sentences = words.each(heads[heads["note"] != ""], "{head}: {note}.")
    pairs = cosines[cosines["head"] < cosines["other"]].dropna(subset=["cosine"])
    if pairs.empty:
        none = "There are no two heads whose weights could be compared."
        return sentences + [none] * (len(heads) > 1)
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
        least, most = (_held_out(rows.loc[rows["held_out"].agg(end)]) for end in ENDS)
        which = f"Held-out {SCORES.get(score, score)} of"
        if len(rows) == 1:
            sentences.append(f"{which} {least}.")
        else:
            sentences.append(
                f"{which} {len(rows)} heads, each on its own task, goes from {least} to {most}."
            )
        unsure = rows[(rows["held_out_low"] <= 0.5) & (rows["held_out_high"] >= 0.5)]
        if score == "accuracy" and len(unsure):
            sentences.append(f"Not told from chance by it: {', '.join(unsure['head'])}.")
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


def _held_out(row: pd.Series) -> str:
    return f"{row['head']} {words.estimate(*row[['held_out', 'held_out_low', 'held_out_high']])}"


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


def gateless(gate: pd.DataFrame, transform: pd.DataFrame) -> list[str]:
    """What a model has not: a gate, a debiasing matrix, or one that changes anything."""
    ungated, notes = (gate["part"] == "gate").any(), transform["note"][transform["note"] != ""]
    told = [f"{note[0].upper()}{note[1:]}." for note in notes]
    return [*(["This model has no gate."] if ungated else []), *told]


def glued(heads: pd.DataFrame, scores: pd.DataFrame) -> dict[str, str]:
    """Values of the page for other pages: the number of heads, each head's held-out score."""
    known = scores.dropna(subset=["held_out"])
    kept = {f"held-out-{row.head}": f"{row.held_out:.3f}" for row in known.itertuples()}
    return kept | {"heads": str(len(heads))}
