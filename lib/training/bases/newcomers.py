"""Users that bases never saw: their weights, heads of their own, and how well these serve them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from scipy.special import expit

from lib.training.bases.fitting import LOGIT, SPREAD, penalty, softmax
from lib.training.bases.grouping import Pairs, summed


def weigh(
    coefficients: np.ndarray,
    pairs: Pairs,
    mean: np.ndarray | None = None,
    precision: np.ndarray | None = None,
    steps: int = 12,
) -> np.ndarray:
    """Weights of users, given bases; a user without a pair has those of the prior.

    Parameters
    ----------
    coefficients
        Shape (components, bases), in the coordinates of the pairs.
    pairs
        Of the users to weigh.
    mean, precision
        Of their logits beforehand: ``Bases``'s, or all alike with a spread of ``LOGIT``.
    steps
        Of Newton's method, damped so that no user's loss rises.

    Returns
    -------
    numpy.ndarray
        Shape (users, bases).
    """
    bases = coefficients.shape[1]
    mean = np.zeros(bases) if mean is None else mean
    precision = np.eye(bases) / LOGIT**2 if precision is None else precision
    along = np.asarray(pairs.z @ coefficients.astype(pairs.z.dtype), float)
    logits = np.tile(mean, (pairs.users, 1))
    if bases == 1:
        return np.ones_like(logits)

    def losses(logits):
        margin = np.einsum("ij,ij->i", along, softmax(logits)[pairs.user])
        off = logits - mean
        fitted = summed(np.logaddexp(0, -margin)[:, None], pairs)[:, 0]
        return fitted + np.einsum("ub,bc,uc->u", off, precision, off) / 2, margin

    damping = np.full(pairs.users, 1e-2)
    current, margin = losses(logits)
    for _ in range(steps):
        weight = softmax(logits)
        inner = np.einsum("ij,ij->i", along, weight[pairs.user])
        slope = weight[pairs.user] * (along - inner[:, None])  # of the margin in the logits
        lacking = expit(-margin)
        gradient = -summed(slope * lacking[:, None], pairs) + (logits - mean) @ precision
        bend = (lacking * (1 - lacking))[:, None, None]
        curve = summed(bend * slope[:, :, None] * slope[:, None, :], pairs) + precision
        curve = curve + damping[:, None, None] * np.eye(bases)
        step = np.linalg.solve(curve, gradient[:, :, None])[:, :, 0]
        tried, margins = losses(logits - step)
        better = tried <= current
        logits = np.where(better[:, None], logits - step, logits)
        margin = np.where(better[pairs.user], margins, margin)
        gain = np.where(better, current - tried, 0)
        current = np.where(better, tried, current)
        damping = np.where(better, damping / 4, damping * 8)
        if better.all() and gain.max() < 1e-5:
            break
    return softmax(logits)


def heads(pairs: Pairs, spread: float = SPREAD, steps: int = 8) -> np.ndarray:
    """A head of each user from his own pairs alone, shape (users, components).

    Newton's method in the span of the user's pairs; zero for a user without any.
    """
    ridge = penalty(pairs, spread)
    out = np.zeros((pairs.users, pairs.z.shape[1]))
    ends = np.cumsum(pairs.counts)
    for user, (end, count) in enumerate(zip(ends, pairs.counts, strict=True)):
        if not count:
            continue
        z = np.asarray(pairs.z[end - count : end], float)
        gram = z @ z.T / ridge
        dual = np.full(count, 0.5)
        for _ in range(steps):
            # At the optimum the head is Σ dual·z/ridge with dual = σ(−margin).
            margin = gram @ dual
            lacking = expit(-margin)
            bend = lacking * (1 - lacking)
            system = np.eye(count) + bend[:, None] * gram
            dual = dual + np.linalg.solve(system, lacking - dual)
        out[user] = z.T @ dual / ridge
    return out


def judge(
    coefficients: np.ndarray, weights: np.ndarray, pairs: Pairs
) -> tuple[np.ndarray, np.ndarray]:
    """Mean loss and share of right choices (ties half) of each user; NaN without a pair."""
    return next(judges(coefficients, [weights], pairs))


def judges(
    coefficients: np.ndarray, weights: Iterable[np.ndarray], pairs: Pairs
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """``judge`` by each of several weights."""
    along = np.asarray(pairs.z @ coefficients.astype(pairs.z.dtype), float)
    for weight in weights:
        yield by_user(np.einsum("ij,ij->i", along, weight[pairs.user]), pairs)


def by_user(margin: np.ndarray, pairs: Pairs) -> tuple[np.ndarray, np.ndarray]:
    """What ``judge`` gives, of margins."""
    sums = summed(np.column_stack([np.logaddexp(0, -margin), (np.sign(margin) + 1) / 2]), pairs)
    counts = pairs.counts
    means = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], np.nan)
    return means[:, 0], means[:, 1]
