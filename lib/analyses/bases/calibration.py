"""Latent bases: users alike or mixed, whose rewards stimuli move or don't, few pairs and many."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lib.analyses.bases import few, stats
from lib.analyses.bases.worlds import CONCEPTS, planted_people
from lib.planted.checks import FALSE, POWER, check, many, seeds
from lib.training import bases

ALIKE, MIXED, FEW, BLURRED, FOREIGN, TINY, NEW = 60, 36, 44, 18, 20, 24, 24  # worlds of a kind
MOST = 4
NUMBER, SPAN, CORNERS = "a number of bases", "a span of bases", "bases one by one"
NAME, GAIN = "a basis' name", "new users gain by bases"
WRONG = 0.05  # share of names that may be wrong
NAMED = 0.8  # share of bases that are to be named where they can be told
EVERY = "each basis is a draw"


def checks(draws: int, seed: int) -> list[dict]:
    """Rows on numbers of bases, spans, single bases and names."""
    return [
        *_alike(draws, seed),
        *_mixed(draws, seed),
        *_few(draws, seed),
        *_blurred(draws, seed),
        *_foreign(draws, seed),
        *_tiny(draws, seed),
        *_new(draws, seed),
    ]


def _judged(draws: int, seed: int, name: str, most: int, **world) -> Iterator[tuple]:
    """Each world's study, its cosines to the planted rewards, and its angle to their span."""
    for one in seeds(seed, f"bases/{name}", many(draws, most)):
        given, stimuli, rewards, variance = planted_people(seed=one, **world)
        found = stats.study(given, stimuli, most=MOST, seed=one)
        vectors = found.found.vectors(found.pairs)
        cosine = bases.cosines(vectors, rewards, variance)
        whole = vectors.shape[1] <= rewards.shape[1]
        angle = bases.angles(vectors, rewards, variance)[-1] if whole else 90.0
        yield found, cosine, angle


def _right(found: stats.Study, cosine: np.ndarray) -> list[tuple[bool, bool]]:
    """Of each basis: is it named, and as the planted reward that it is nearest to?"""
    nearest = [CONCEPTS[k] for k in cosine.argmax(axis=1)]
    return [
        (name != stats.UNNAMED, name == own)
        for name, own in zip(found.bases["name"], nearest, strict=True)
    ]


def _alike(draws: int, seed: int) -> list[dict]:
    world = {"users": 20, "pairs": 30, "features": 8, "rewards": 1}
    counts = [each[0].count for each in _judged(draws, seed, "alike", ALIKE, **world)]
    said = "20 users all alike, 30 pairs each, 8 features"
    more = np.asarray(counts) > 1
    return [check(NUMBER, said, "false-positive rate", more, at_most=FALSE, note="more than one")]


def _mixed(draws: int, seed: int) -> list[dict]:
    world = {"users": 40, "pairs": 100, "features": 12, "alpha": 0.2}
    said = "40 users near one of 3 rewards (Dirichlet .2), 100 pairs each, 12 features"
    counts, claims, angles, near, named, wrong = [], [], [], [], [], []
    for found, cosine, angle in _judged(draws, seed, "mixed", MIXED, **world):
        counts.append(found.count)
        claims.append(found.claimed)
        angles.append(angle)
        table = found.bases
        steady = (table["restart"] <= stats.SETTLED) & (table["expected"] <= stats.CLAIMED)
        distinct = len(set(cosine.argmax(axis=1))) == len(cosine)
        for told, most in zip(steady & found.claimed, cosine.max(axis=1), strict=True):
            if told:
                near.append(distinct and most >= np.cos(np.radians(stats.BOUND)))
        right = _right(found, cosine)
        named += [name for name, _ in right]
        wrong += [name and not own for name, own in right]
    counts, claims, angles = map(np.asarray, (counts, claims, angles))
    beyond = claims & (angles > stats.BOUND)
    within = f"more than {stats.BOUND:g} degrees off"
    one = {"at_least": 0.93, "note": f"within {stats.BOUND:g} degrees of one planted reward each"}
    return [
        check(NUMBER, said, "power", counts == 3, at_least=POWER),
        check(NUMBER, said, "false-positive rate", counts > 3, at_most=FALSE, note="too many"),
        check(SPAN, said, "power", claims, at_least=POWER),
        check(SPAN, said, "false-positive rate", beyond, at_most=FALSE, note=within),
        check(CORNERS, said, "coverage", np.asarray(near, bool), **one),
        check(NAME, said, "power", np.asarray(named), at_least=NAMED, note=EVERY),
        check(NAME, said, "false-positive rate", np.asarray(wrong), at_most=WRONG, note=EVERY),
    ]


def _few(draws: int, seed: int) -> list[dict]:
    """About as many pairs as a claim needs, so that it is often almost made."""
    world = {"users": 20, "pairs": 40, "features": 12, "alpha": 0.3, "decay": 1.0}
    said = "20 users, mixtures of 3 rewards (Dirichlet .3), 40 pairs each, 12 uneven features"
    return _false(said, _judged(draws, seed, "few", FEW, **world))


def _blurred(draws: int, seed: int) -> list[dict]:
    """Nobody near a corner, so that the span can be told and corners can't."""
    world = {"users": 50, "pairs": 120, "features": 12, "alpha": 3.0}
    said = "50 users far from any of 3 rewards (Dirichlet 3), 120 pairs each, 12 features"
    return _false(said, _judged(draws, seed, "blurred", BLURRED, **world))


def _false(said: str, judged: Iterator[tuple]) -> list[dict]:
    """Spans that are told and are off, and names that aren't those of the nearest reward."""
    false, wrong = [], []
    for found, cosine, angle in judged:
        false.append(found.claimed and angle > stats.BOUND)
        wrong += [name and not own for name, own in _right(found, cosine)]
    note = f"more than {stats.BOUND:g} degrees off"
    return [
        check(SPAN, said, "false-positive rate", np.asarray(false), at_most=FALSE, note=note),
        check(NAME, said, "false-positive rate", np.asarray(wrong), at_most=WRONG, note=EVERY),
    ]


def _foreign(draws: int, seed: int) -> list[dict]:
    world = {"users": 30, "pairs": 80, "features": 12, "alpha": 0.2, "foreign": True}
    said = "30 users near one of 3 rewards that no stimulus moves, 80 pairs each, 12 features"
    named = []
    for found, cosine, _ in _judged(draws, seed, "foreign", FOREIGN, **world):
        named += [name for name, _ in _right(found, cosine)]
    return [check(NAME, said, "false-positive rate", np.asarray(named), at_most=WRONG, note=EVERY)]


def _tiny(draws: int, seed: int) -> list[dict]:
    world = {"users": 5, "pairs": 20, "features": 576}
    said = "5 users, mixtures of 3 rewards (Dirichlet .3), 20 pairs each, 576 features"
    claims = [each[0].claimed for each in _judged(draws, seed, "tiny", TINY, **world)]
    return [check(SPAN, said, "false-positive rate", np.asarray(claims), at_most=0.0)]


def _new(draws: int, seed: int) -> list[dict]:
    """What bases gain over one head, where users are mixed, and where they are all alike."""
    rows = []
    methods, shots = (few.BASES, few.ONE), (16,)
    for rewards, said in ((3, "near one of 3 rewards (Dirichlet .2)"), (1, "all alike")):
        shown = []
        for one in seeds(
            seed, f"bases/new/{rewards}", many(draws, NEW * (3 if rewards == 1 else 1))
        ):
            given, *_ = planted_people(
                users=30, pairs=50, features=8, alpha=0.2, rewards=rewards, seed=one
            )
            pairs = bases.grouped(given.difference, given.user, given.prompt)
            table = few.few_shot(given, pairs, 3, shots=shots, trials=1, methods=methods, seed=one)
            shown.append(table.loc[table["method"] == few.BASES, "gain_low"].iloc[0] > 0)
        world = f"30 users {said}, 16 pairs of each new one, 8 features"
        target = {"at_least": POWER} if rewards > 1 else {"at_most": FALSE}
        measure = "power" if rewards > 1 else "false-positive rate"
        rows.append(check(GAIN, world, measure, np.asarray(shown), **target))
    return rows
