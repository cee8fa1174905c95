"""Pairs by user, in few coordinates, and their parts.

``grouped``  pairs by user, checked, in few coordinates: exact where those hold the pairs' span
``dealt``    parts in each of which every user has items
``summed``   sums of rows by user
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lib.errors import DataError

COMPONENTS = 576
SAMPLE = 8_192  # rows from which directions are chosen where there are more features than that
LEAST = 2  # pairs of a user: one to weigh by, one to be judged on


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

    @cached_property
    def counts(self) -> np.ndarray:
        """Pairs of each user, shape (users,)."""
        return np.bincount(self.user, minlength=self.users)

    @cached_property
    def starts(self) -> tuple[np.ndarray, np.ndarray]:
        """The users who have a pair, and the place of the first pair of each."""
        there = np.flatnonzero(self.counts)
        return there, (np.cumsum(self.counts) - self.counts)[there]

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


def summed(values: np.ndarray, pairs: Pairs) -> np.ndarray:
    """Sums of rows by user, zero for a user without any: (pairs, …) to (users, …)."""
    out = np.zeros((pairs.users, *values.shape[1:]))
    there, first = pairs.starts
    if len(there):
        out[there] = np.add.reduceat(values, first, axis=0)
    return out
