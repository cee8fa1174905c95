"""New users by number of their pairs: bases beside simpler rewards and the published protocol.

Users are dealt into two halves. Each half is new to what the other was fitted on, and judged on
items that nobody was fitted on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy import stats

from lib.analyses.bases.people import People
from lib.training import bases, lore

SHOTS = (1, 2, 4, 8, 16, 32, 64)
TRIALS = 3  # draws of a user's pairs
HELD = 3  # one item of so many is for judging alone
LEAST_USERS, LEAST_SHARE = 3, 1 / 3  # of those who can be judged, for a number of pairs
BASES, ONE, ALONE = "latent bases", "one head for all", "a head a user"
PRINCIPAL, AUDITED = "principal components of differences", "audited heads"
PUBLISHED = "LoRe as published"
METHODS = (BASES, ONE, ALONE, PRINCIPAL, AUDITED, PUBLISHED)
COLUMNS = ["method", "pairs", "users", "accuracy", "low", "high", "gain", "gain_low", "gain_high"]


def few_shot(
    people: People,
    pairs: bases.Pairs,
    count: int,
    *,
    shots: tuple[int, ...] = SHOTS,
    trials: int = TRIALS,
    methods: tuple[str, ...] = METHODS,
    spread: float = bases.SPREAD,
    seed: int = 0,
) -> pd.DataFrame:
    """Accuracy for new users who gave k pairs.

    Parameters
    ----------
    people, pairs
        Choices, and the same as ``lib.training.bases.grouped`` gives them.
    count
        Bases, and principal components; the published protocol has its own number.
    shots
        Numbers of pairs; those that fewer than three users have, or a third, are left out.
    trials
        Draws of each user's pairs, whose accuracies are averaged.
    spread
        The penalty of what is fitted here.

    Returns
    -------
    pandas.DataFrame
        One row a method and number of pairs: ``method``, ``pairs``, ``users``, ``accuracy`` (mean
        over users of the share of held-out pairs ranked as they chose, ties half, but as
        published none) with ``low`` and ``high`` (95%, t over users), and ``gain``,
        ``gain_low``, ``gain_high``: the same of what it gains over one head for all.

    Notes
    -----
    The audited heads are weighed as bases are, each at the same root mean square, all alike
    beforehand. A head a user and weights of components are penalised as the bases are. What is
    published learns from the same users and pairs (``lib.training.lore``).
    """
    found: dict[tuple[str, int], np.ndarray] = {}
    generator = np.random.default_rng(seed)
    dealt = generator.permutation(pairs.users) % 2
    judging = bases.dealt(pairs, HELD, generator) == 0
    for side in (0, 1) if pairs.users > 1 else ():
        for method, k, users, share in _side(
            people, pairs, count, dealt == side, judging, shots, trials, methods, spread, generator
        ):
            whole = found.setdefault((method, k), np.full(pairs.users, np.nan))
            whole[users] = share
    rows = []
    for (method, k), share in found.items():
        known = np.isfinite(share)
        if known.sum() >= max(LEAST_USERS, LEAST_SHARE * pairs.users):
            gain = (share - found[ONE, k])[known]
            told = dict(zip(COLUMNS[3:], (*_mean(share[known]), *_mean(gain)), strict=True))
            rows.append({"method": method, "pairs": k, "users": int(known.sum())} | told)
    table = pd.DataFrame(rows, columns=COLUMNS)
    order = table["method"].map({name: place for place, name in enumerate(METHODS)})
    return table.assign(order=order).sort_values(["order", "pairs"])[COLUMNS].reset_index(drop=True)


def _side(
    people, pairs, count, new, judging, shots, trials, methods, spread, generator
) -> Iterator[tuple[str, int, np.ndarray, np.ndarray]]:
    """Each method and number of pairs: the new users, and their accuracies."""
    users = np.flatnonzero(new)
    known = pairs.only(~judging).of(users)
    judged = pairs.only(judging).of(users)
    seen = pairs.only(~judging).of(np.flatnonzero(~new))
    count = max(1, min(count, seen.users, len(seen.variance)))
    learned = _Learned(people, seen, count, methods, spread, int(generator.integers(2**31)))
    enough = known.counts
    draws = [_order(known, generator) for _ in range(trials)]
    tested = judged.counts > 0
    given = []
    for k in shots:
        with_k = tested & (enough >= k)
        if with_k.any():
            parts = [known.only((order < k) & with_k[known.user]) for order in draws]
            given.append((k, with_k, parts))
    for method in methods:
        rights = learned.right(method, [part for *_, parts in given for part in parts], judged)
        for k, with_k, parts in given:
            share = sum(next(rights) for _ in parts)
            yield method, k, users[with_k], (share / trials)[with_k]


def _order(pairs: bases.Pairs, generator: np.random.Generator) -> np.ndarray:
    """A random place of each pair among its user's, from 0."""
    order = np.lexsort([generator.random(len(pairs)), pairs.user])
    first = np.cumsum(pairs.counts) - pairs.counts
    place = np.empty(len(pairs), int)
    place[order] = np.arange(len(pairs)) - first[pairs.user[order]]
    return place


class _Learned:
    """What each method learned from the users that it saw."""

    def __init__(self, people: People, seen: bases.Pairs, count: int, methods, spread, seed: int):
        self.people, self.count, self.spread, self.seed = people, count, spread, seed
        self.one = bases.fit(seen, 1, spread=spread)
        own = bases.fit(seen, count, spread=spread, seed=seed) if BASES in methods else None
        self.bases = own
        self.scale = np.sqrt((people.gaps**2).mean(axis=0)) if people.heads else None
        self.published = None
        if PUBLISHED in methods:
            x = people.difference[seen.row].astype(float)
            many = min(lore.BASES, x.shape[1])
            self.published = lore.joint(x, seen.user, many, seed=seed)[0]

    def right(
        self, method: str, given: list[bases.Pairs], judged: bases.Pairs
    ) -> Iterator[np.ndarray]:
        """For each draw of pairs, the share of each user's held-out ones that are ranked as he
        chose.
        """
        if method == BASES:
            known = bases.judges(self.bases.coefficients, map(self._weigh, given), judged)
            yield from (right for _, right in known)
        elif method == ONE:
            _, same = bases.judge(self.one.coefficients, np.ones((judged.users, 1)), judged)
            yield from (same for _ in given)
        elif method in (ALONE, PRINCIPAL):
            cut = slice(None) if method == ALONE else slice(self.count)
            for part in given:
                own = bases.heads(_cut(part, part.z[:, cut]), self.spread)
                margin = np.einsum("ij,ij->i", judged.z[:, cut], own[judged.user])
                yield bases.by_user(margin, judged)[1]
        elif method == AUDITED:
            if self.scale is None:
                yield from (np.full(judged.users, np.nan) for _ in given)
                return
            gaps = self.people.gaps / self.scale * bases.SPREAD
            one = np.eye(gaps.shape[1])
            weights = (bases.weigh(one, _cut(part, gaps[part.row])) for part in given)
            known = bases.judges(one, weights, _cut(judged, gaps[judged.row]))
            yield from (right for _, right in known)
        else:
            yield from self._published(given, judged)

    def _weigh(self, given: bases.Pairs) -> np.ndarray:
        found = self.bases
        return bases.weigh(found.coefficients, given, found.mean, found.precision)

    def _published(self, given: list[bases.Pairs], judged: bases.Pairs) -> Iterator[np.ndarray]:
        """All draws at once: a new user's weights come of his own pairs alone."""
        users = judged.users
        row = np.concatenate([part.row for part in given])
        user = np.concatenate([part.user + draw * users for draw, part in enumerate(given)])
        weight = lore.weigh(self._along(row), user, users, draws=len(given), seed=self.seed)
        along = self._along(judged.row)
        for own in weight.reshape(len(given), users, -1):
            yield lore.ranked(along, own, judged.user)

    def _along(self, row: np.ndarray) -> np.ndarray:
        """Rewards of pairs by each published basis."""
        rows, place = np.unique(row, return_inverse=True)
        return (self.people.difference[rows].astype(float) @ self.published)[place]


def _cut(pairs: bases.Pairs, z: np.ndarray) -> bases.Pairs:
    """The pairs in other coordinates."""
    return replace(pairs, z=z, variance=pairs.variance[: z.shape[1]])


def _mean(values: np.ndarray) -> tuple[float, float, float]:
    """Mean over users with its 95% t interval."""
    mean = float(values.mean())
    half = stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return mean, mean - half, mean + half
