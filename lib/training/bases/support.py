"""What held-out users support: how strong a penalty, and how many bases."""

from __future__ import annotations

import numpy as np
from scipy import optimize
from scipy.special import stdtr, stdtrit

from lib.training.bases.fitting import SPREAD, fit, logistic
from lib.training.bases.grouping import Pairs, dealt
from lib.training.bases.newcomers import weigh

SPREADS = (0.3, 1.0, 3.0)


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
    best = optimize.minimize_scalar(lambda log: logistic(np.exp(log) * margin), bounds=(-7, 4))
    counts = np.bincount(user, minlength=users)
    there = counts > 0
    for out, values in (
        (loss, np.logaddexp(0, -np.exp(best.x) * margin)),
        (right, (np.sign(margin) + 1) / 2),
    ):
        out[there] = np.bincount(user, values, users)[there] / counts[there]
    return loss, right


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
    half = stdtrit(df, 0.975) * se
    return mean, mean - half, mean + half, float(stdtr(df, -mean / se))
