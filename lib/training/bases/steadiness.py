"""Do restarts, and halves of the items, give the same bases?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lib.training.bases.fitting import SPREAD, STARTS, Bases, fit
from lib.training.bases.grouping import Pairs, dealt
from lib.training.bases.spans import angles, cosines, degrees, expected_angle, matched


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
        return degrees(np.diag(cosines(one, other, second)))

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
