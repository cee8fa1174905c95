"""Names that are shown to fit: their heads win what they claim, and others of their family less.

A small p of the names as a whole can come from a few names, and from the mere difference of two
kinds of heads. Here each name stands for itself, among heads that learned from the same kind of
labels. All take any leading axes of draws; ``own`` is as in ``exchanges``.

``beyond_half``   p that a head wins no more than one half of what it claims
``fits_p``        the same, and no more than each other head of its family
``fits_adjusted`` corrected within families, which share the level
"""

from __future__ import annotations

import numpy as np

from lib.analyses.labels.exchanges import RIVAL, Moments, contrasts, one_sided
from lib.stats import permutation, proportions

FITS, BORDERLINE, NOT_SHOWN = "shown", "borderline", "not shown"


def beyond_half(
    won: np.ndarray, criterion: np.ndarray, prompt: np.ndarray, own: np.ndarray
) -> np.ndarray:
    """One-sided exact p of each head's wins on its own criterion, shape (…, heads).

    By random signs of prompts (``lib.stats.permutation.sign_flips``). ``won`` and what follows
    are as ``exchanges.moments`` takes them; NaN for heads without a claim.
    """
    out = np.full((*won.shape[:-2], won.shape[-1]), np.nan)
    for head in np.flatnonzero(own >= 0):
        there = criterion == own[head]
        net = np.moveaxis(np.nan_to_num(2 * won[..., there, head] - 1), -1, 0)
        net, _ = proportions.by_prompt(net, prompt[there])
        out[..., head] = np.where(net.sum(axis=0) > 0, permutation.sign_flips(net) / 2, 1)
    return out


def rivals_of(part: Moments, own: np.ndarray, family: np.ndarray, head: int) -> np.ndarray:
    """Heads of its family that aren't named for what it claims and have numbers there."""
    others = (family == family[head]) & (own >= RIVAL) & (own != own[head])
    return np.flatnonzero(others & part.known[:, own[head]])


def fits_p(part: Moments, own: np.ndarray, family: np.ndarray, half: np.ndarray) -> np.ndarray:
    """P that a name doesn't fit: the largest of ``half`` and of one beside each such head.

    An intersection–union test: all of it must be so. Shape (…, heads), NaN without a claim.
    """
    p = half.copy()
    heads, criteria = np.eye(len(own)), np.eye(part.prompts.shape[1])
    for head in np.flatnonzero(own >= 0):
        others = rivals_of(part, own, family, head)
        if len(others):
            columns = np.repeat(criteria[[own[head]]], len(others), axis=0)
            beside = one_sided(*contrasts(part, columns, (heads[head] - heads[others])[:, None]))
            p[..., head] = np.maximum(p[..., head], beside.max(axis=-1))
    return p


def fits_adjusted(p: np.ndarray, own: np.ndarray, family: np.ndarray) -> np.ndarray:
    """Holm within each family, Bonferroni over the families that have names to test."""
    out = np.full(p.shape, np.nan)
    names = np.unique(family[own >= 0])
    for name in names:
        there = (own >= 0) & (family == name)
        out[..., there] = np.minimum(len(names) * permutation.holm(p[..., there]), 1)
    return out
