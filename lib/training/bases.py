"""Latent bases: many people's choices as mixtures of a few shared rewards.

The reward of user u is h·V π_u, with V of shape (features, bases) and π_u = softmax(w_u): a point
of the simplex (LoRe: Bose et al., 2025, whose own protocol is ``lib.training.lore``). A pair is
x = h_chosen − h_rejected, and is chosen with probability σ(x·V π_u).

``grouped``   pairs by user, checked
``reduced``   the same in few coordinates: exact where those hold the pairs' span
``fit``       V and all users' weights together, each basis anchored
``weigh``     weights alone, of users that V never saw
``heads``     a head a user, alone: what bases have to beat
``angles``    principal angles between two sets of bases, as rewards of these pairs
``choose``    the penalty, by held-out users
``stability`` do restarts, and halves of the items, give the same bases?
``ranks``     loss on held-out items of held-out users, by number of bases

**Anchor.** V_b = v₀ + D_b, where v₀ is the one head that all pairs share, fitted first, and D_b is
penalised: what the data don't say of a basis is what everybody wants.

**Scale.** ``spread`` is the standard deviation that a head's margin x·v has before anything is
known of it, over these pairs: a normal prior on each coefficient, of variance
spread²·features/tr E[xxᵀ] in the units of the states. It is the one penalty of v₀, of D_b and of
heads alone.

**Angles** are between rewards, not between directions: cos = v·Σv′/√(v·Σv · v′·Σv′) with
Σ = E[xxᵀ], which no change of the states' coordinates moves.

**What can be known.** The span of V, at best. Which corners the simplex has in it is told only by
users near them: a mixture of rewards looks like another reward.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import optimize, stats
from scipy.special import expit

from lib.errors import DataError

SPREAD = 3.0
SPREADS = (0.3, 1.0, 3.0)
LOGIT = 3.0  # sd of a training user's logits before anything is known
COMPONENTS = 576
SAMPLE = 8_192  # rows from which directions are chosen where there are more features than that
LEAST = 2  # pairs of a user: one to weigh by, one to be judged on
STARTS = 3
STEPS = 60
TOLERANCE = 1e-6


@dataclass(frozen=True)
class Pairs:
    """Differences of states by user, in coordinates along which they don't correlate.

    Attributes
    ----------
    z
        Shape (pairs, components); rows of a user are neighbours.
    user
        Number of each pair's user, ascending, shape (pairs,).
    names
        Users' names by number.
    item
        What must not be on two sides of a split, as numbers, shape (pairs,).
    row
        Position of each pair in what was given, shape (pairs,).
    turn
        Orthonormal columns, shape (features, components): z = x · turn.
    variance
        E[z²], shape (components,).
    kept
        Share of tr E[xxᵀ] that the components hold; 1 where they are exact.
    """

    z: np.ndarray
    user: np.ndarray
    names: tuple[str, ...]
    item: np.ndarray
    row: np.ndarray
    turn: np.ndarray
    variance: np.ndarray
    kept: float = 1.0

    def __len__(self) -> int:
        return len(self.z)

    @property
    def users(self) -> int:
        """How many there are."""
        return len(self.names)

    @property
    def counts(self) -> np.ndarray:
        """Pairs of each user, shape (users,)."""
        return np.bincount(self.user, minlength=self.users)

    @property
    def unit(self) -> float:
        """Mean variance of a feature that holds the pairs' whole spread."""
        return float(self.variance.mean()) or 1.0

    def only(self, keep: np.ndarray) -> Pairs:
        """Some of the pairs (a mask), of the same users and in the same coordinates."""
        return replace(
            self, z=self.z[keep], user=self.user[keep], item=self.item[keep], row=self.row[keep]
        )

    def of(self, users: np.ndarray) -> Pairs:
        """Pairs of some users (numbers, ascending), who are numbered anew."""
        place = np.full(self.users, -1)
        place[users] = np.arange(len(users))
        part = self.only(place[self.user] >= 0)
        return replace(part, user=place[part.user], names=tuple(self.names[u] for u in users))


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


# ---- Pairs ----


def grouped(
    difference: np.ndarray,
    user: Sequence,
    item: Sequence | None = None,
    *,
    components: int = COMPONENTS,
    least: int = LEAST,
    seed: int = 0,
) -> Pairs:
    """Pairs by user, in few coordinates.

    Parameters
    ----------
    difference
        State of the chosen response minus the rejected one's, shape (pairs, features).
    user
        Whose choice each was.
    item
        What prompt each is of; each its own by default.
    components
        Coordinates at most, 0 for all that the pairs span.
    least
        Pairs that each user must have.
    seed
        Of the directions, where not all are kept.

    Raises
    ------
    DataError
        For differences that aren't numbers or are all zero, a user without a name, or one with
        fewer pairs than ``least``.
    """
    difference = np.asarray(difference)
    given = np.asarray(user, object)
    if difference.ndim != 2 or len(given) != len(difference) or not len(difference):
        raise DataError(
            "a user for each of one pair or more",
            f"{len(given)} users of differences of shape {difference.shape}",
            "Give a row a pair, and a user a row.",
        )
    nobody = np.asarray([_nameless(each) for each in given])
    if nobody.any():
        raise DataError(
            "a user for every pair",
            f"none for {int(nobody.sum())} of {len(given)}, the first of them row "
            f"{int(np.argmax(nobody))}",
            "Fill the user column, or leave those pairs out.",
        )
    if not np.isfinite(difference.sum()):
        raise DataError("states that are numbers", "others", "Extract the run again.")
    if not difference.any():
        raise DataError("responses whose states differ", "none", "Give other pairs.")
    names, code = np.unique(given.astype(str), return_inverse=True)
    counts = np.bincount(code)
    few = np.flatnonzero(counts < least)
    if len(few):
        name = str(names[few[0]])
        raise DataError(
            f"{least} pairs or more of each user",
            f"{counts[few[0]]} of {name!r}, and {len(few)} such of {len(names)} users",
            "Leave these users out: what a user wants must be seen, and then judged.",
        )
    order = np.argsort(code, kind="stable")
    turn, kept = _directions(difference, components, seed)
    z = (difference if turn is None else difference @ turn)[order]
    turn = np.eye(difference.shape[1], dtype=z.dtype) if turn is None else turn
    item = np.arange(len(z)) if item is None else np.unique(item, return_inverse=True)[1]
    variance = np.einsum("ij,ij->j", z, z, dtype=np.float64) / len(z)
    return Pairs(z, code[order], tuple(map(str, names)), item[order], order, turn, variance, kept)


def _nameless(name) -> bool:
    return name is None or name != name or not str(name).strip()


def _directions(x: np.ndarray, components: int, seed: int) -> tuple[np.ndarray, float]:
    """Principal directions of the pairs about zero, shape (features, components), and their share.

    From the smaller inner-product matrix where that is small, else from a sketch of some of the
    rows with one power iteration (Halko, Martinsson & Tropp, 2011). About zero, since which of
    two responses was chosen must not matter.
    """
    n, features = x.shape
    many = min(n, features, components or n)
    if min(n, features) <= max(2 * COMPONENTS, many):
        if features <= n:
            square, vectors = np.linalg.eigh(np.asarray(x.T @ x, float))
        else:
            square, left = np.linalg.eigh(np.asarray(x @ x.T, float))
        held = square > 1e-10 * square[-1]
        total = square.sum()
        square, keep = square[held][::-1][:many], np.flatnonzero(held)[::-1][:many]
        found = vectors[:, keep] if features <= n else x.T @ left[:, keep] / np.sqrt(square)
        share = min(1.0, float(square.sum() / total))
        return found.astype(x.dtype), 1.0 if share > 1 - 1e-6 else share
    generator = np.random.default_rng(seed)
    rows = np.sort(generator.permutation(n)[: max(SAMPLE, 4 * many)])
    some = x[rows]
    sketch = generator.standard_normal((features, many + 16)).astype(x.dtype)
    for _ in range(2):
        sketch = np.linalg.qr(some.T @ (some @ sketch))[0]
    seen = some @ sketch
    square, inner = np.linalg.eigh(np.asarray(seen.T @ seen, float))
    keep = np.argsort(square)[::-1][:many]
    share = float(square[keep].sum() / np.einsum("ij,ij->", some, some, dtype=np.float64))
    return (sketch @ inner[:, keep].astype(x.dtype)), min(1.0, share)


# ---- Fitting ----


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
        See the module's notes.
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
    ridge = _ridge(pairs, spread)
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


def _ridge(pairs: Pairs, spread: float) -> float:
    return float(pairs.variance.sum()) / spread**2


def _loss(margin: np.ndarray) -> float:
    return float(np.logaddexp(0, -margin).sum())


def _sums(values: np.ndarray, pairs: Pairs) -> np.ndarray:
    """Of rows by user, zero for a user without any: (pairs, …) to (users, …)."""
    counts = pairs.counts
    out = np.zeros((pairs.users, *values.shape[1:]))
    there = np.flatnonzero(counts)
    first = (np.cumsum(counts) - counts)[there]
    if len(there):
        out[there] = np.add.reduceat(values, first, axis=0)
    return out


def _shared(pairs: Pairs, ridge: float) -> np.ndarray:
    """The head of all pairs, shape (components,)."""
    scale = np.sqrt(ridge + len(pairs) * pairs.variance / 4)

    def value(c):
        v = c / scale
        margin = pairs.z @ v.astype(pairs.z.dtype)
        gradient = -(pairs.z.T @ expit(-margin)) + ridge * v
        return _loss(margin) + ridge * (v @ v) / 2, np.asarray(gradient / scale, float)

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
        each = weight[pairs.user]
        along = pairs.z @ deviations.astype(pairs.z.dtype)
        margin = self.margin + np.einsum("ij,ij->i", along, each)
        lacking = -expit(-margin)
        down = pairs.z.T @ (each * lacking[:, None]).astype(pairs.z.dtype)
        by_user = _sums(along * lacking[:, None], pairs)
        inner = np.einsum("ij,ij->i", by_user, weight)
        logit = weight * (by_user - inner[:, None]) + logits / LOGIT**2
        loss = _loss(margin) + self.ridge * (deviations**2).sum() / 2
        loss += (logits**2).sum() / (2 * LOGIT**2)
        gradient = (down + self.ridge * deviations) / self.scale
        return loss, np.concatenate([gradient.ravel(), logit.ravel()]).astype(float)

    def given(self, logits: np.ndarray) -> np.ndarray:
        """One step to D from zero, where the weights are these."""
        pairs, weight = self.pairs, softmax(logits)
        lacking = expit(-self.margin)
        bend = _sums((lacking * (1 - lacking))[:, None], pairs)
        pull = pairs.z.T @ (weight[pairs.user] * lacking[:, None]).astype(pairs.z.dtype)
        values, turned = np.linalg.eigh(weight.T @ (weight * bend))
        solved = (pull @ turned) / (self.ridge + pairs.variance[:, None] * values)
        return solved @ turned.T

    def alone(self) -> np.ndarray:
        """One step of each user by himself, from the shared head: shape (users, components)."""
        pairs = self.pairs
        lacking = expit(-self.margin)
        bend = _sums((lacking * (1 - lacking))[:, None], pairs)
        pull = _sums(pairs.z * lacking[:, None].astype(pairs.z.dtype), pairs)
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


# ---- New users ----


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
        fitted = _sums(np.logaddexp(0, -margin)[:, None], pairs)[:, 0]
        return fitted + np.einsum("ub,bc,uc->u", off, precision, off) / 2, margin

    damping = np.full(pairs.users, 1e-2)
    current, margin = losses(logits)
    for _ in range(steps):
        weight = softmax(logits)
        inner = np.einsum("ij,ij->i", along, weight[pairs.user])
        slope = weight[pairs.user] * (along - inner[:, None])  # of the margin in the logits
        lacking = expit(-margin)
        gradient = -_sums(slope * lacking[:, None], pairs) + (logits - mean) @ precision
        bend = (lacking * (1 - lacking))[:, None, None]
        curve = _sums(bend * slope[:, :, None] * slope[:, None, :], pairs) + precision
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
    ridge = _ridge(pairs, spread)
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


# ---- Comparing ----


def angles(one: np.ndarray, other: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Principal angles in degrees between spans of rewards, smallest first.

    Parameters
    ----------
    one, other
        Coefficients, shape (components, bases).
    second
        E[zzᵀ]: a diagonal, shape (components,), or whole.
    """
    root = np.sqrt(second)[:, None] if second.ndim == 1 else np.linalg.cholesky(second).T
    turned = [root * each if second.ndim == 1 else root @ each for each in (one, other)]
    left, right = (_orthonormal(each) for each in turned)
    cosine = np.linalg.svd(left.T @ right, compute_uv=False)
    return _degrees(cosine)


def _degrees(cosine: np.ndarray) -> np.ndarray:
    return np.degrees(np.arccos(np.clip(cosine, -1, 1)))


def _orthonormal(columns: np.ndarray) -> np.ndarray:
    left, values, _ = np.linalg.svd(columns, full_matrices=False)
    return left[:, values > 1e-9 * values[0]] if values[0] > 0 else left[:, :1]


def cosines(one: np.ndarray, other: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Cosines between rewards, shape (bases of one, bases of the other)."""
    turned = [second[:, None] * one if second.ndim == 1 else second @ one]
    turned += [second[:, None] * other if second.ndim == 1 else second @ other]
    lengths = [
        np.sqrt(np.maximum(np.einsum("ij,ij->j", each, by), 1e-300))
        for each, by in zip((one, other), turned, strict=True)
    ]
    return (one.T @ turned[1]) / np.outer(*lengths)


def matched(
    one: np.ndarray, other: np.ndarray, second: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Which basis of the other each of one is, one to one, and the cosines between them."""
    cosine = cosines(one, other, second)
    rows, columns = optimize.linear_sum_assignment(-cosine)
    return columns, cosine[rows, columns]


# ---- What the data support ----


def choose(pairs: Pairs, bases: int = 3, *, seed: int = 0) -> float:
    """The spread of ``SPREADS`` with the least loss on held-out items of held-out users."""
    bases = min(bases, pairs.users - pairs.users // 2, len(pairs.variance))
    if pairs.users < 2:
        return SPREAD
    losses = []
    for spread in SPREADS:
        held = ranks(pairs, bases, least=bases, spread=spread, folds=2, seed=seed)["loss"]
        known = held[-1][np.isfinite(held[-1])]
        losses.append(known.mean() if len(known) else np.inf)
    return SPREADS[int(np.argmin(losses))]


def dealt(pairs: Pairs, parts: int, generator: np.random.Generator) -> np.ndarray:
    """A part of each pair's item, from 0, shape (pairs,): each user has some items in every part.

    An item that several users judged is in the same part for all of them.
    """
    items, place = np.unique(pairs.item, return_inverse=True)
    first = np.full(len(items), -1)
    first[place[::-1]] = pairs.user[::-1]  # the first user of each item
    order = np.lexsort([generator.random(len(items)), first])
    part = np.empty(len(items), int)
    part[order] = (np.arange(len(items)) + generator.integers(parts)) % parts
    return part[place]


@dataclass(frozen=True)
class Stability:
    """How far fits agree that should.

    Attributes
    ----------
    restart, half
        Largest principal angle in degrees between the first fit and one begun at random, a
        restart each; between fits of the two halves of every user's items, a split each.
    restart_basis, half_basis
        Angle of each basis to its match there, shapes (restarts, bases) and (splits, bases).
    expected
        What ``half`` says of the fit of all pairs: see ``expected_angle``.
    expected_basis
        The same of each basis, shape (bases,).
    """

    restart: np.ndarray
    half: np.ndarray
    restart_basis: np.ndarray
    half_basis: np.ndarray
    expected: float
    expected_basis: np.ndarray


def stability(
    pairs: Pairs,
    found: Bases,
    *,
    spread: float = SPREAD,
    restarts: int = 3,
    splits: int = 3,
    seed: int = 0,
) -> Stability:
    """Fit again, begun at random, and on halves of the items.

    Restarts on the same pairs say whether the fit found the least loss, and whether other corners
    would do as well; only halves say whether other pairs would have given the same bases. A
    penalty bends both halves alike, towards directions in which pairs vary much, and they agree
    for it: so what is fitted to be told needs a spread that is no less than margins have.
    """
    generator = np.random.default_rng(seed)
    count, second = found.count, pairs.variance

    def again(part: Pairs, restart: bool) -> np.ndarray:
        begin = int(generator.integers(2**31))
        starts = STARTS if restart else 1
        other = fit(part, count, spread=spread, starts=starts, random=restart, seed=begin)
        return other.coefficients[:, matched(found.coefficients, other.coefficients, second)[0]]

    def basis(one, other):
        return _degrees(np.diag(cosines(one, other, second)))

    restart, restart_basis, half, half_basis = [], [], [], []
    for _ in range(restarts):
        other = again(pairs, True)
        restart.append(angles(found.coefficients, other, second)[-1])
        restart_basis.append(basis(found.coefficients, other))
    for _ in range(splits):
        mask = dealt(pairs, 2, generator) == 0
        if not mask.any() or mask.all():
            half.append(90.0)
            half_basis.append(np.full(count, 90.0))
            continue
        one, other = (again(pairs.only(side), False) for side in (mask, ~mask))
        half.append(angles(one, other, second)[-1])
        half_basis.append(basis(one, other))
    half, half_basis = np.asarray(half), np.asarray(half_basis)
    return Stability(
        np.asarray(restart),
        half,
        np.asarray(restart_basis),
        half_basis,
        float(expected_angle(half.mean())),
        expected_angle(half_basis.mean(axis=0)),
    )


def expected_angle(half: np.ndarray) -> np.ndarray:
    """Angle in degrees to the truth of a fit of all pairs, from the angle between its halves.

    Notes
    -----
    Errors of two halves are independent, and in many dimensions at right angles: the cosine
    between them is the product of their cosines to the truth, so cos φ = cos²θ. Twice the pairs
    halve the squared tangent: tan²θ_all = tan²θ/2 = (1/cos φ − 1)/2.
    """
    cosine = np.cos(np.radians(np.asarray(half, float)))
    with np.errstate(divide="ignore"):
        return np.degrees(np.arctan(np.sqrt((1 / np.maximum(cosine, 0) - 1) / 2)))


def ranks(
    pairs: Pairs,
    most: int = 6,
    *,
    least: int = 1,
    spread: float = SPREAD,
    folds: int = 4,
    starts: int = 1,
    seed: int = 0,
) -> dict[str, np.ndarray]:
    """Loss on held-out items of held-out users, by number of bases.

    Parameters
    ----------
    pairs
        From ``grouped``.
    least, most
        Bases are tried from one to so many, or to as many as the users of a fold allow; losses
        of fewer than ``least`` are NaN.
    folds
        Users and items are each dealt to so many, or to as many as there are users.

    Returns
    -------
    dict
        ``loss`` and ``right``: of each number of bases and user, shape (numbers, users), the mean
        loss and the share of right choices on the items of his fold, with weights from his other
        items and bases from other users' other items; NaN for a user with nothing there.
        ``seen``: the mean loss on the same items of the users that bases were fitted on. The
        margins of a number of bases are scaled by one factor, the best, before losses are taken.
    """
    generator = np.random.default_rng(seed)
    folds = min(folds, pairs.users)
    of_user = generator.permutation(pairs.users) % folds
    of_item = dealt(pairs, folds, generator)
    most = min(most, len(pairs.variance), pairs.users - int(np.ceil(pairs.users / folds)))
    shape = (max(most, 1), pairs.users)
    new = [np.full(len(pairs), np.nan) for _ in range(shape[0])]
    seen = [np.full((folds, len(pairs)), np.nan) for _ in range(shape[0])]
    for fold in range(folds if pairs.users > 1 else 0):
        mine = of_user == fold
        out, test = mine[pairs.user], of_item == fold
        others = np.flatnonzero(~mine)
        trained = pairs.only(~out & ~test).of(others)
        known = pairs.only(out & ~test).of(np.flatnonzero(mine))
        for number in range(min(least, shape[0]), shape[0] + 1):
            found = fit(trained, number, spread=spread, starts=starts, seed=seed)
            weight = weigh(found.coefficients, known, found.mean, found.precision)
            whole = np.zeros((pairs.users, number))
            whole[mine], whole[others] = weight, found.weights
            rows = np.flatnonzero(test)
            along = np.asarray(pairs.z[rows] @ found.coefficients.astype(pairs.z.dtype), float)
            margin = np.einsum("ij,ij->i", along, whole[pairs.user[rows]])
            own = out[rows]
            new[number - 1][rows[own]] = margin[own]
            seen[number - 1][fold, rows[~own]] = margin[~own]
    loss, correct, fitted = np.full(shape, np.nan), np.full(shape, np.nan), np.full(shape, np.nan)
    for number in range(min(least, shape[0]) - 1, shape[0]):
        loss[number], correct[number] = _scaled(new[number], pairs.user, pairs.users)
        user = np.tile(pairs.user, folds)
        fitted[number] = _scaled(seen[number].ravel(), user, pairs.users)[0]
    return {"loss": loss, "right": correct, "seen": fitted}


def _scaled(margin: np.ndarray, user: np.ndarray, users: int) -> tuple[np.ndarray, np.ndarray]:
    """``by_user`` of margins that aren't NaN, times the one factor that serves them best.

    What a penalty takes from a margin a basis more gives back, to users all alike as well: so
    numbers of bases must not be compared by the size of their margins.
    """
    known = np.isfinite(margin)
    margin, user = margin[known], user[known]
    loss, right = np.full(users, np.nan), np.full(users, np.nan)
    if not len(margin):
        return loss, right
    best = optimize.minimize_scalar(lambda log: _loss(np.exp(log) * margin), bounds=(-7, 4))
    counts = np.bincount(user, minlength=users)
    there = counts > 0
    for out, values in (
        (loss, np.logaddexp(0, -np.exp(best.x) * margin)),
        (right, (np.sign(margin) + 1) / 2),
    ):
        out[there] = np.bincount(user, values, users)[there] / counts[there]
    return loss, right


def judge(
    coefficients: np.ndarray, weights: np.ndarray, pairs: Pairs
) -> tuple[np.ndarray, np.ndarray]:
    """Mean loss and share of right choices (ties half) of each user; NaN without a pair."""
    along = np.asarray(pairs.z @ coefficients.astype(pairs.z.dtype), float)
    margin = np.einsum("ij,ij->i", along, weights[pairs.user])
    return by_user(margin, pairs)


def by_user(margin: np.ndarray, pairs: Pairs) -> tuple[np.ndarray, np.ndarray]:
    """What ``judge`` gives, of margins."""
    sums = _sums(np.column_stack([np.logaddexp(0, -margin), (np.sign(margin) + 1) / 2]), pairs)
    counts = pairs.counts
    means = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], np.nan)
    return means[:, 0], means[:, 1]


def supported(loss: np.ndarray, alpha: float = 0.05) -> int:
    """How many bases the losses of held-out users support: more are added while they help.

    Parameters
    ----------
    loss
        From ``ranks``, shape (numbers, users).
    alpha
        Level of a step: one basis more, or two at once where one alone doesn't help, by one-sided
        t tests over users at half of it each.
    """
    known = loss[:, np.isfinite(loss).all(axis=0)]
    number = 1
    while True:
        for more in (1, 2):
            if number + more <= len(known):
                p = gains(known[number - 1], known[number + more - 1])[3]
                if p < alpha / 2:
                    number += more
                    break
        else:
            return number


def gains(before: np.ndarray, after: np.ndarray) -> tuple[float, float, float, float]:
    """Mean of before − after over users, its 95% t interval, and a one-sided p that it is ≤ 0."""
    gain = before - after
    if len(gain) < 2:
        return (float(gain.mean()) if len(gain) else np.nan), np.nan, np.nan, np.nan
    se = gain.std(ddof=1) / np.sqrt(len(gain))
    mean, df = float(gain.mean()), len(gain) - 1
    if se == 0:
        return mean, mean, mean, float(mean <= 0)
    half = stats.t.ppf(0.975, df) * se
    return mean, mean - half, mean + half, float(stats.t.sf(mean / se, df))
