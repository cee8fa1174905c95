"""Sentences of the model page, written from its tables; none holds a typed number."""

from __future__ import annotations

import pandas as pd


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
    told = [*_names(heads), *_weights(heads, cosines), *_scores(scores), *_combined(combined)]
    return [*told, *_date(date)]


def _date(date: str) -> list[str]:
    if not date:
        return []
    return [
        f"The chat template writes today's date; on these pages that is always {date}, so that "
        "the same text gives the same tokens on any day. Another date can give other scores."
    ]


def _names(heads: pd.DataFrame) -> list[str]:
    named = heads[heads["source"] != "unnamed"]
    if len(heads) == 1:
        told = [f"One head; its name {'has a source' if len(named) else 'has none'}."]
    else:
        told = [f"{len(heads)} heads; the names of {len(named)} have a source."]
    silent = heads[heads["concept"] == ""]["head"].tolist()
    if silent:
        told.append(f"Claiming no concept that a comparison here tests: {', '.join(silent)}.")
    return told


def _weights(heads: pd.DataFrame, cosines: pd.DataFrame) -> list[str]:
    zero = heads[heads["note"] != ""]
    told = [f"{row.head}: {row.note}." for row in zero.itertuples()]
    pairs = cosines[cosines["head"] < cosines["other"]].dropna(subset=["cosine"])
    if pairs.empty:
        return [*told, "There are no two heads whose weights could be compared."]
    most = pairs.loc[pairs["cosine"].abs().idxmax()]
    return [
        *told,
        f"The largest weights are those of {heads.loc[heads['norm'].idxmax(), 'head']}: "
        f"{heads['relative'].max():.1f} times the mean norm.",
        f"Of {len(pairs)} pairs of heads the nearest to one line, either way, are "
        f"{most['head']} and "
        f"{most['other']} (cosine {most['cosine']:.2f}); the mean size of a cosine is "
        f"{pairs['cosine'].abs().mean():.2f}.",
    ]


def _scores(scores: pd.DataFrame) -> list[str]:
    known = scores.dropna(subset=["held_out"])
    if known.empty:
        return [f"{scores['note'].iloc[0].capitalize()}."]
    told = []
    for score, rows in known.groupby("score", sort=False):
        weakest = rows.loc[rows["held_out"].idxmin()]
        found = (
            f"{weakest['head']}: {weakest['held_out']:.3f} [{weakest['held_out_low']:.3f}, "
            f"{weakest['held_out_high']:.3f}]."
        )
        if len(rows) == 1:
            told.append(f"By {score} on held-out prompts, {found}")
        else:
            told.append(
                f"By {score}, the weakest of {len(rows)} heads on held-out prompts is {found}"
            )
    outside = known[
        (known["cross_validated"] < known["held_out_low"])
        | (known["cross_validated"] > known["held_out_high"])
    ]["head"].tolist()
    if outside:
        told.append(
            f"The held-out interval doesn't hold the cross-validated score of {', '.join(outside)}."
        )
    return told


def _combined(combined: pd.DataFrame) -> list[str]:
    if combined["score"].isna().all():
        return []
    gate, rest = combined.iloc[0], combined.iloc[1:]
    told = (
        f"The gated score is right for {gate['score']:.3f} [{gate['low']:.3f}, "
        f"{gate['high']:.3f}] of {gate['rows']} held-out comparisons"
    )
    if rest.empty:
        return [f"{told}."]
    best = rest.loc[rest["score"].idxmax()]
    return [f"{told}; the best of what it is compared with is {best['rule']}, {best['score']:.3f}."]


def glued(heads: pd.DataFrame, scores: pd.DataFrame) -> dict[str, str]:
    """Values of the page for other pages: the number of heads, each head's held-out score."""
    known = scores.dropna(subset=["held_out"])
    told = {f"held-out-{row.head}": f"{row.held_out:.3f}" for row in known.itertuples()}
    return told | {"heads": str(len(heads))}
