"""Accusations of wrong labels, on arrays: names exchanged, or another criterion fitting better.

``moments`` gives win rates with their prompt-clustered covariance; ``swap_contrasts`` and
``centred_contrasts`` what an accusation rests on. All take any leading axes of draws.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from scipy import stats

from lib.stats import permutation, proportions


@dataclass(frozen=True)
class Moments:
    """Win rates of heads by criterion, with what their contrasts' intervals need.

    Attributes
    ----------
    rate
        A, shape (…, heads, criteria).
    covariance
        Prompt-clustered sampling covariance: ``covariance[…, c, h, d, k]`` is that of A[h, c]
        and A[k, d]. NaN for a criterion with a single prompt.
    prompts
        Of each criterion, shape (criteria,).
    """

    rate: np.ndarray
    covariance: np.ndarray
    prompts: np.ndarray


def moments(won: np.ndarray, criterion: np.ndarray, prompt: np.ndarray) -> Moments:
    """Win rates by head and criterion with their prompt-clustered covariance.

    Parameters
    ----------
    won
        1, ½ or 0 for each comparison and head, shape (…, comparisons, heads).
    criterion
        Integers from 0 without gaps, shape (comparisons,).
    prompt
        Integers, shape (comparisons,). A prompt may have several criteria.

    Notes
    -----
    Each prompt's influence on A[h, c] is (its wins − its rows · A[h, c]) / n_c, times
    √(G/(G − 1)) for the G prompts of the criterion; the covariance is the sum of products
    over prompts. With one comparison a prompt the variance is p(1 − p)/(n − 1).
    """
    order = np.lexsort((prompt, criterion))
    criterion, prompt, won = criterion[order], prompt[order], won[..., order, :]
    changed = (np.diff(criterion) != 0) | (np.diff(prompt) != 0)
    starts = np.concatenate([[0], np.flatnonzero(changed) + 1])
    size = np.diff([*starts, len(prompt)]).astype(float)
    totals = np.add.reduceat(won, starts, axis=-2)
    owner, who = criterion[starts], prompt[starts]
    n = np.bincount(criterion).astype(float)
    prompts = np.bincount(owner)
    first = np.concatenate([[0], np.cumsum(prompts)[:-1]])
    rate = np.add.reduceat(totals, first, axis=-2) / n[:, None]
    with np.errstate(divide="ignore"):
        scale = np.sqrt(prompts / np.where(prompts > 1, prompts - 1, np.nan)) / n
    influence = (totals - size[:, None] * rate[..., owner, :]) * scale[owner, None]
    covariance = _covariance(influence, who, first, prompts)
    return Moments(np.swapaxes(rate, -1, -2), covariance, prompts)


def _covariance(influence, who, first, prompts) -> np.ndarray:
    count, heads = len(prompts), influence.shape[-1]
    out = np.zeros((*influence.shape[:-2], count, heads, count, heads))
    spans = [slice(f, f + p) for f, p in zip(first, prompts, strict=True)]
    for c, d in itertools.combinations_with_replacement(range(count), 2):
        _, mine, theirs = np.intersect1d(who[spans[c]], who[spans[d]], return_indices=True)
        if len(mine):
            left = influence[..., spans[c], :][..., mine, :]
            right = influence[..., spans[d], :][..., theirs, :]
            block = np.swapaxes(left, -1, -2) @ right
            out[..., c, :, d, :] = block
            out[..., d, :, c, :] = np.swapaxes(block, -1, -2)
    return out


def swap_family(own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions i < j of all pairs of heads with different claims."""
    first, second = np.triu_indices(len(own), 1)
    differ = own[first] != own[second]
    return first[differ], second[differ]


def centred_family(own: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Each head with each criterion that it doesn't claim."""
    head, criterion = np.divmod(np.arange(len(own) * count), count)
    differ = own[head] != criterion
    return head[differ], criterion[differ]


def swap_contrasts(part: Moments, own, first, second):
    """Δ of exchanged names for pairs of heads, its standard error and degrees of freedom.

    Returns
    -------
    delta, se, df
        Shapes (…, pairs).

    Notes
    -----
    Δ = (A[i, b] − A[j, b]) + (A[j, a] − A[i, a]), a and b what i and j claim: two means of
    differences, each of one set of comparisons. As in ``lib.stats.proportions`` a quarter of
    a prompt that is half +1 and half −1 is added to each variance, so that few unanimous
    prompts prove nothing; degrees of freedom are Welch's.
    """
    eye = np.eye(len(own))
    toward = eye[first] - eye[second]
    return _contrasts(part, toward, own[second], own[first])


def centred_contrasts(part: Moments, own, head, criterion):
    """Δ of a head's centred win rate on a criterion and on its own; as ``swap_contrasts``."""
    toward = np.eye(len(own))[head] - 1 / len(own)
    return _contrasts(part, toward, criterion, own[head])


def _contrasts(part: Moments, weight, gained, lost):
    """Σ_k w_k (A[k, gained] − A[k, lost]), weights of shape (contrasts, heads)."""
    gain = (weight * np.swapaxes(part.rate, -1, -2)[..., gained, :]).sum(axis=-1)
    loss = (weight * np.swapaxes(part.rate, -1, -2)[..., lost, :]).sum(axis=-1)
    cov = np.moveaxis(part.covariance, -3, -2)  # (…, criterion, criterion, head, head)

    def form(c, d):
        return np.einsum("ph,...phk,pk->...p", weight, cov[..., c, d, :, :], weight)

    prior = proportions.PSEUDO_CLUSTERS / part.prompts.astype(float) ** 2
    gains = form(gained, gained) + prior[gained] * (1 + gain**2)
    losses = form(lost, lost) + prior[lost] * (1 + loss**2)
    variance = np.maximum(gains + losses - 2 * form(gained, lost), 1e-12)
    free = part.prompts - 1.0
    df = (gains + losses) ** 2 / (gains**2 / free[gained] + losses**2 / free[lost])
    return gain - loss, np.sqrt(variance), df


def one_sided(delta: np.ndarray, se: np.ndarray, df: np.ndarray) -> np.ndarray:
    """P(T ≥ Δ/SE): small when Δ is above 0."""
    return stats.t.sf(delta / se, df)


def holm_levels(p: np.ndarray, alpha: float) -> np.ndarray:
    """The level at which Holm's procedure tests each p; where it stops, that step's.

    ``p`` lies below its level exactly where its Holm-adjusted p lies below ``alpha``.
    """
    rank = np.argsort(np.argsort(p))
    stop = int((permutation.holm(p) < alpha).sum())
    return alpha / (len(p) - np.minimum(rank, min(stop, len(p) - 1)))
