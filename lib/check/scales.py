"""*Length*: tokens beyond windows. *Scale*: spread of scores, within prompts and between them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lib.check.lines import LENGTH, NOTE, RIGHT, SCALE, WRONG, Row
from lib.check.subject import Subject
from lib.models.prompt import EncodedItem

WINDOWS = (512, 1024, 2048, 4096)
CONSTANT = 1e-6  # of a score's own size: less is float32's rounding


def length(
    items: Sequence[EncodedItem], pairs: Sequence[tuple[int, int]], window: int | None
) -> tuple[list[Row], list[dict]]:
    """Responses beyond the model's window, and what other windows would cut.

    ``pairs`` are the responses of each comparison; ``window`` is ``None`` without a limit.
    """
    sequences = [ids for item in items for ids in item.sequences]
    longest = max(map(len, sequences), default=0)
    limit = f"{window:,} tokens" if window else "no limit"
    beyond = sum(len(ids) > window for ids in sequences) if window else 0
    found = f"{beyond} of {len(sequences)} texts are longer; the longest has {longest:,} tokens"
    expected = f"no text beyond the model's window, {limit}"
    do = "They are left out and counted here; elsewhere they are cut, mostly at their end."
    table = [_cut(sequences, pairs, each) for each in WINDOWS]
    cuts = ", ".join(f"{record['cut']:.0%} at {record['window']:,}" for record in table)
    same = ", ".join(f"{record['identical']:.0%}" for record in table)
    return [
        Row(LENGTH, "window", found, expected, WRONG if beyond else RIGHT, do if beyond else ""),
        Row(
            LENGTH,
            "elsewhere",
            f"texts cut: {cuts}; comparisons of what is left the same: {same}",
            "",
            NOTE,
        ),
    ], table


def _cut(sequences, pairs, window: int) -> dict:
    same = [np.array_equal(sequences[a][:window], sequences[b][:window]) for a, b in pairs]
    return {
        "window": window,
        "cut": float(np.mean([len(ids) > window for ids in sequences])) if sequences else 0.0,
        "identical": float(np.mean(same)) if same else 0.0,
    }


def scale(subject: Subject) -> tuple[list[Row], list[dict]]:
    """Does every score vary, and how much of it is the prompt's?"""
    scores, owner = subject.all, subject.items.item_of_response
    mean, sd = scores.mean(axis=0), subject.sd
    between = shares(scores, owner)
    table = [
        {"score": name, "mean": float(m), "sd": float(s), "between": float(b)}
        for name, m, s, b in zip(subject.named, mean, sd, between, strict=True)
    ]
    constant = [
        name
        for name, m, s in zip(subject.named, mean, sd, strict=True)
        if not s > CONSTANT * max(abs(m), 1e-30)
    ]
    expected = f"every score varies over {len(scores)} responses"
    rows = [Row(SCALE, "spread", _spread(table), expected, RIGHT)]
    if constant:
        found = f"the same number for every text: {', '.join(constant[:5])}"
        do = "Such a head says nothing: check its weights."
        rows = [Row(SCALE, "spread", found, expected, WRONG, do)]
    known = between[np.isfinite(between)]
    if len(known):
        told = f"{known.min():.2f} to {known.max():.2f}" if len(known) > 1 else f"{known[0]:.2f}"
        do = "Where it is large, compare scores of one prompt's responses alone, or centre them."
        rows.append(Row(SCALE, "between prompts", f"{told} of the variance", "", NOTE, do))
    return rows, table


def _spread(table: list[dict]) -> str:
    sds = [record["sd"] for record in table]
    return f"sd {min(sds):.3g} to {max(sds):.3g}" if len(sds) > 1 else f"sd {sds[0]:.3g}"


def shares(scores: np.ndarray, owner: np.ndarray) -> np.ndarray:
    """Share of each score's variance that lies between prompts; NaN for one that doesn't vary.

    One-way random effects, σ²_b / (σ²_b + σ²_w) from the mean squares, with
    n₀ = (N − Σn²/N)/(G − 1) responses a prompt and a negative σ²_b as 0 (Searle, Casella and
    McCulloch 1992, *Variance Components*, chapter 3).

    Parameters
    ----------
    scores
        Shape (responses, columns).
    owner
        Item of each response, shape (responses,).
    """
    _, group = np.unique(owner, return_inverse=True)
    sizes = np.bincount(group)
    total, groups = len(group), len(sizes)
    if groups < 2 or total == groups:
        return np.full(scores.shape[1], np.nan)
    sums = np.zeros((groups, scores.shape[1]))
    np.add.at(sums, group, scores)
    means = sums / sizes[:, None]
    within = ((scores - means[group]) ** 2).sum(axis=0) / (total - groups)
    around = (sizes[:, None] * (means - scores.mean(axis=0)) ** 2).sum(axis=0) / (groups - 1)
    n0 = (total - (sizes**2).sum() / total) / (groups - 1)
    variance = np.maximum(around - within, 0) / n0
    whole = variance + within
    return np.divide(variance, whole, out=np.full_like(whole, np.nan), where=whole > 0)
