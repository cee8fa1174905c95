"""Bases and the weights of the users that they are fitted on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import optimize
from scipy.special import expit

from lib.errors import DataError
from lib.training.bases.grouping import Pairs, summed

SPREAD = 3.0
LOGIT = 3.0  # sd of a training user's logits before anything is known
STARTS = 3
STEPS = 60
TOLERANCE = 1e-6


@dataclass(frozen=True)
class Bases:
    """Rewards that users share.

    Attributes
    ----------
    coefficients
        Of each basis in the coordinates of the pairs, shape (components, bases).
    weights
        π of each user, shape (users, bases); rows sum to 1.
    mean, precision
        Of the logits w over users, shapes (bases,) and (bases, bases): what ``weigh`` takes for
        likely before it sees a pair.
    loss
        What was minimised, a pair.
    """

    coefficients: np.ndarray
    weights: np.ndarray
    mean: np.ndarray
    precision: np.ndarray
    loss: float

    @property
    def count(self) -> int:
        """How many there are."""
        return self.coefficients.shape[1]

    def vectors(self, pairs: Pairs) -> np.ndarray:
        """V in the units of the states, shape (features, bases)."""
        return pairs.turn @ self.coefficients


def fit(
    pairs: Pairs,
    bases: int,
    *,
    spread: float = SPREAD,
    starts: int = STARTS,
    random: bool = False,
    seed: int = 0,
    steps: int = STEPS,
) -> Bases:
    """Fit bases and users' weights together.

    Parameters
    ----------
    pairs
        From ``grouped``.
    bases
        How many; with one it is a head that all users share, anchored like any other basis.
    spread
        See ``lib.training.bases``.
    starts
        How many are tried; the one with the least loss is kept. The first begins at users that
        stand apart, the others at random users.
    random
        Begin at random in the first start too, as a restart must.
    seed
        Of random starts.
    steps
        Of L-BFGS, at most.

    Raises
    ------
    DataError
        For more bases than users, or than the pairs have dimensions.

    Notes
    -----
    Minimised is Σ_i log(1 + exp(−x_i·V π_u)) + ρ/2 Σ_b |D_b|² + Σ_u |w_u|²/(2·``LOGIT``²), with
    ρ = tr E[xxᵀ]/(spread²·features) in the coordinates of the pairs; in coordinates scaled
    by the bound of Böhning & Lindsay (1988) on the curvature, so that few steps are enough.
    """
    check_count(pairs, bases)
    ridge = penalty(pairs, spread)
    anchor = _shared(pairs, ridge)
    problem = _Problem(pairs, anchor, bases, ridge)
    generator = np.random.default_rng(seed)
    best = None
    for number in range(starts if bases > 1 else 1):
        logits = _start(problem, generator, number > 0 or random)
        found = problem.solve(logits, steps)
        if best is None or found[2] < best[2]:
            best = found
    deviations, logits, loss = best
    mean, precision = _population(logits)
    return Bases(anchor[:, None] + deviations, softmax(logits), mean, precision, loss / len(pairs))


def check_count(pairs: Pairs, bases: int) -> None:
    """Raise a ``DataError`` for more bases than the data can hold."""
    most = min(pairs.users, len(pairs.variance))
    if not 1 <= bases <= most:
        few = "users" if pairs.users == most else "dimensions"
        raise DataError(
            f"from 1 to {most} bases for {pairs.users} users and pairs of "
            f"{len(pairs.variance)} dimensions",
            f"{bases}",
            f"Ask for fewer, or give more {few}.",
        )


def softmax(logits: np.ndarray) -> np.ndarray:
    """Along the last axis."""
    raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True)


def penalty(pairs: Pairs, spread: float) -> float:
    """ρ of ``fit``, in the coordinates of the pairs."""
    return float(pairs.variance.sum()) / spread**2


def logistic(margin: np.ndarray) -> float:
    """Sum of log(1 + exp(−margin))."""
    return float(np.logaddexp(0, -margin).sum())


def _shared(pairs: Pairs, ridge: float) -> np.ndarray:
    """The head of all pairs, shape (components,)."""
    scale = np.sqrt(ridge + len(pairs) * pairs.variance / 4)

    def value(c):
        v = c / scale
        margin = pairs.z @ v.astype(pairs.z.dtype)
        gradient = -(pairs.z.T @ expit(-margin)) + ridge * v
        return logistic(margin) + ridge * (v @ v) / 2, np.asarray(gradient / scale, float)

    options = {"maxiter": STEPS, "ftol": TOLERANCE / 100}
    found = optimize.minimize(
        value, np.zeros(len(scale)), jac=True, method="L-BFGS-B", options=options
    )
    return found.x / scale


class _Problem:
    """The joint fit: D and logits as one vector, D in scaled coordinates."""

    def __init__(self, pairs: Pairs, anchor: np.ndarray, bases: int, ridge: float):
        self.pairs, self.anchor, self.bases, self.ridge = pairs, anchor, bases, ridge
        self.margin = np.asarray(pairs.z @ anchor.astype(pairs.z.dtype), float)
        self.scale = np.sqrt(ridge + len(pairs) * pairs.variance / (4 * bases))[:, None]
        self.shape = (len(pairs.variance), bases)

    def value(self, flat: np.ndarray) -> tuple[float, np.ndarray]:
        pairs, size = self.pairs, self.shape[0] * self.bases
        deviations = flat[:size].reshape(self.shape) / self.scale
        logits = flat[size:].reshape(pairs.users, self.bases)
        weight = softmax(logits)
        each = weight.take(pairs.user, axis=0)
        along = pairs.z @ deviations.astype(pairs.z.dtype)
        margin = self.margin + np.einsum("ij,ij->i", along, each)
        lacking = -expit(-margin)
        down = pairs.z.T @ (each * lacking[:, None]).astype(pairs.z.dtype)
        by_user = summed(along * lacking[:, None], pairs)
        inner = np.einsum("ij,ij->i", by_user, weight)
        logit = weight * (by_user - inner[:, None]) + logits / LOGIT**2
        loss = logistic(margin) + self.ridge * (deviations**2).sum() / 2
        loss += (logits**2).sum() / (2 * LOGIT**2)
        gradient = (down + self.ridge * deviations) / self.scale
        return loss, np.concatenate([gradient.ravel(), logit.ravel()]).astype(float)

    def given(self, logits: np.ndarray) -> np.ndarray:
        """One step to D from zero, where the weights are these."""
        pairs, weight = self.pairs, softmax(logits)
        lacking = expit(-self.margin)
        bend = summed((lacking * (1 - lacking))[:, None], pairs)
        pull = pairs.z.T @ (weight[pairs.user] * lacking[:, None]).astype(pairs.z.dtype)
        values, turned = np.linalg.eigh(weight.T @ (weight * bend))
        solved = (pull @ turned) / (self.ridge + pairs.variance[:, None] * values)
        return solved @ turned.T

    def alone(self) -> np.ndarray:
        """One step of each user by himself, from the shared head: shape (users, components)."""
        pairs = self.pairs
        lacking = expit(-self.margin)
        bend = summed((lacking * (1 - lacking))[:, None], pairs)
        pull = summed(pairs.z * lacking[:, None].astype(pairs.z.dtype), pairs)
        return pull / (self.ridge + pairs.variance * bend)

    def solve(self, logits: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray, float]:
        start = np.concatenate([(self.given(logits) * self.scale).ravel(), logits.ravel()])
        found = optimize.minimize(
            self.value,
            start,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": steps, "ftol": TOLERANCE, "maxcor": 12},
        )
        size = self.shape[0] * self.bases
        logits = found.x[size:].reshape(self.pairs.users, self.bases)
        logits = logits - logits.mean(axis=1, keepdims=True)
        return found.x[:size].reshape(self.shape) / self.scale, logits, float(found.fun)


def _start(problem: _Problem, generator: np.random.Generator, random: bool) -> np.ndarray:
    """Logits to begin with: of the corners that some users stand near, shape (users, bases).

    Users are seen in the plane of their heads that has the most of what they differ in, where
    corners are the users that stand furthest from those chosen before (successive projections:
    Araújo et al., 2001), or random users; weights are what gives each as a mixture of corners.
    """
    pairs, bases = problem.pairs, problem.bases
    apart = problem.alone() * np.sqrt(pairs.variance)
    apart = apart - apart.mean(axis=0)
    trust = np.sqrt(pairs.counts / max(pairs.counts.mean(), 1))[:, None]
    left, values, _ = np.linalg.svd(apart * trust, full_matrices=False)
    plane = (left * values)[:, : bases - 1] / np.maximum(trust, 1e-9)
    scale = np.sqrt((plane**2).sum(axis=1).mean()) or 1.0
    points = np.column_stack([plane / scale, np.ones(len(plane))])
    if random:
        corners = generator.choice(len(points), bases, replace=False)
    else:
        corners, rest = [], points.copy()
        for _ in range(bases):
            length = (rest**2).sum(axis=1)
            corner = int(length.argmax())
            corners.append(corner)
            if length[corner] > 0:
                along = rest[corner] / np.sqrt(length[corner])
                rest = rest - np.outer(rest @ along, along)
    mixture = np.clip(points @ np.linalg.pinv(points[corners]), 0.03, None)
    logits = np.log(mixture / mixture.sum(axis=1, keepdims=True))
    if random:
        logits = logits + generator.standard_normal(logits.shape) / 2
    return logits - logits.mean(axis=1, keepdims=True)


def _population(logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and precision of logits over users; a user more of the widest prior, so it exists."""
    users, bases = logits.shape
    mean = logits.mean(axis=0)
    left = logits - mean
    covariance = (left.T @ left + LOGIT**2 * np.eye(bases)) / (users + 1)
    return mean, np.linalg.inv(covariance)
