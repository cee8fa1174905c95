"""LoRe's few-shot protocol as its authors describe and release it (Bose et al., 2025).

Half of the users are seen. V and their weights are learned together; a new user's weights alone
from k of his pairs, drawn anew in each trial; what counts is the share of his other pairs whose
margin is above 0, averaged over users.

What is theirs and not ours (``lib.training.bases``): no penalty, states as they are, margins
divided by 100, each user's mean loss counted alike, standard normal starts, and a fixed number of
Adam's steps (Kingma & Ba, 2015): 500 at rate .5 for V and weights, 500 at rate .1 for a new user.
The loss of users is separable, but Adam's steps are not scaled by it, so users can be fitted
together.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from lib.training.bases.fitting import softmax

SCALE = 100.0
BASES = 5  # of the released script on summaries
STEPS = 500
RATE, NEW_RATE = 0.5, 0.1
BETAS, EPSILON = (0.9, 0.999), 1e-8  # Adam's defaults


class Adam:
    """Adam without weight decay, on one array."""

    def __init__(self, values: np.ndarray, rate: float):
        self.values, self.rate, self.step = values, rate, 0
        self.first, self.second = np.zeros_like(values), np.zeros_like(values)

    def take(self, gradient: np.ndarray) -> None:
        """One step against a gradient."""
        self.step += 1
        one, two = BETAS
        self.first += (1 - one) * (gradient - self.first)
        self.second += (1 - two) * (gradient**2 - self.second)
        root = np.sqrt(self.second / (1 - two**self.step)) + EPSILON
        self.values -= self.rate / (1 - one**self.step) * self.first / root


def joint(
    difference: np.ndarray,
    user: np.ndarray,
    bases: int = BASES,
    *,
    steps: int = STEPS,
    rate: float = RATE,
    start: tuple[np.ndarray, np.ndarray] | None = None,
    seed: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """V, shape (features, bases), and weights, shape (users, bases), of seen users.

    Parameters
    ----------
    difference, user
        Pairs, and the number of each pair's user, from 0 without gaps.
    start
        V and logits to begin with; standard normal by default.
    """
    generator = np.random.default_rng(seed)
    users = int(user.max()) + 1
    if start is None:
        logits = generator.standard_normal((users, bases))
        start = generator.standard_normal((difference.shape[1], bases)), logits
    vectors, logits = Adam(start[0].astype(float), rate), Adam(start[1].astype(float), rate)
    share = 1 / np.bincount(user, minlength=users)[user]
    once, place, sign = _once(difference)
    for _ in range(steps):
        along = (once @ vectors.values).take(place, axis=0) * sign
        weight, slope, to_logits = _logit_gradient(along, logits.values, user, share)
        # Pair by pair, since hundreds of Adam's steps make much of how sums are rounded.
        down = (slope[:, None] * weight[user]).T @ difference
        vectors.take(down.T)
        logits.take(to_logits)
    return vectors.values, softmax(logits.values)


def _once(difference: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each pair once, whichever way round; which of them each pair is, and the sign it has there.

    Many users choose between the same responses.
    """
    first = difference[np.arange(len(difference)), (difference != 0).argmax(axis=1)]
    sign = np.where(first < 0, -1.0, 1.0)[:, None]
    turned = np.ascontiguousarray(difference * sign + 0.0)  # no −0, which has other bytes
    rows = turned.view(f"V{turned.itemsize * turned.shape[1]}").ravel()
    _, known, place = np.unique(rows, return_index=True, return_inverse=True)
    return turned[known], place, sign


def personal(
    vectors: np.ndarray,
    difference: np.ndarray,
    user: np.ndarray,
    users: int,
    *,
    steps: int = STEPS,
    rate: float = NEW_RATE,
    start: np.ndarray | None = None,
    seed: int = 0,
) -> np.ndarray:
    """Weights of new users from their few pairs, V held, shape (users, bases)."""
    return weigh(difference @ vectors, user, users, steps=steps, rate=rate, start=start, seed=seed)


def weigh(
    along: np.ndarray,
    user: np.ndarray,
    users: int,
    *,
    draws: int = 1,
    steps: int = STEPS,
    rate: float = NEW_RATE,
    start: np.ndarray | None = None,
    seed: int = 0,
) -> np.ndarray:
    """``personal`` from the pairs' rewards by each basis, shape (pairs, bases).

    With several ``draws`` of the users' pairs, user u of draw d is number d·``users`` + u; each
    begins where he begins in the first, and is as if he were fitted in a draw alone.
    """
    if start is None:
        start = np.random.default_rng(seed).standard_normal((users, along.shape[1]))
    logits = Adam(np.tile(start.astype(float), (draws, 1)), rate)
    share = 1 / np.maximum(np.bincount(user, minlength=draws * users), 1)[user]
    for _ in range(steps):
        logits.take(_logit_gradient(along, logits.values, user, share)[2])
    return softmax(logits.values)


def _logit_gradient(along, logits, user, share):
    """Weights, d loss / d margin a pair (through the division), and d loss / d logits."""
    weight = softmax(logits)
    each = weight.take(user, axis=0)
    margin = np.einsum("ij,ij->i", along, each)
    slope = -expit(-margin / SCALE) * share / SCALE
    pull = slope[:, None] * each * (along - margin[:, None])
    columns = [np.bincount(user, pull[:, b], len(logits)) for b in range(logits.shape[1])]
    return weight, slope, np.column_stack(columns)


def right(
    vectors: np.ndarray, weights: np.ndarray, difference: np.ndarray, user: np.ndarray
) -> np.ndarray:
    """Share of each user's pairs with a margin above 0 (a tie loses), NaN without any."""
    return ranked(difference @ vectors, weights, user)


def ranked(along: np.ndarray, weights: np.ndarray, user: np.ndarray) -> np.ndarray:
    """``right`` from the pairs' rewards by each basis."""
    margin = np.einsum("ij,ij->i", along, weights[user])
    counts = np.bincount(user, minlength=len(weights))
    wins = np.bincount(user, margin > 0, len(weights))
    return np.where(counts, wins / np.maximum(counts, 1), np.nan)
