"""Geometry: places claimed in worlds where one is to be had, and in those where none is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lib.analyses.geometry import stats
from lib.analyses.geometry.worlds import World, backbone_world, heads_world
from lib.planted.checks import FALSE, POWER, check, many, seeds

PAIRS = 300
MOST, EXACT = 100, 50  # worlds of a kind, and where one exception decides
PLACES = ("heads", "backbone")
DTYPES = ("float32", "bfloat16")
SIZE = f"8 heads, 64 features, {PAIRS} pairs"
WORLDS: tuple[tuple[str, Callable[..., World], str], ...] = (
    ("backbone", backbone_world, "orthonormal heads on stretched states"),
    ("heads", heads_world, "collapsed heads on round states"),
)


def checks(draws: int, seed: int) -> list[dict]:
    """Rows on places of entanglement and on the identity of stored scores."""
    return [*_places(draws, seed), *_identity(draws, seed)]


def _places(draws: int, seed: int) -> list[dict]:
    false, rows = "false-positive rate", []
    for place, make, says in WORLDS:
        plain, changed = (
            np.asarray(
                [
                    _judged(world, world.weight)[0]
                    for world in _drawn(make, f"{place}/{regauged}", draws, seed, regauged=regauged)
                ]
            )
            for regauged in (False, True)
        )
        others = [other for other in PLACES if other != place]
        wrong = np.isin(plain, others).any(axis=1)
        world = f"{says}; {SIZE}"
        gauge = f"{says}, gauge changed so that readings disagree; {SIZE}"
        any_place = np.isin(changed, PLACES).any(axis=1)
        found = (plain == place).all(axis=1)
        rows += [
            check("entanglement is in the wrong place", world, false, wrong, at_most=FALSE),
            check(f"entanglement is in the {place}", world, "power", found, at_least=POWER),
            check("entanglement has a place", gauge, false, any_place, at_most=FALSE),
        ]
    return rows


def _identity(draws: int, seed: int) -> list[dict]:
    """Heads with their own weights, and with one another's, which made no score."""
    claims = ("stored scores are weights times states", "entanglement has a place")
    note = "an identity: one exception is a failure"
    rows = []
    for dtype in DTYPES:
        own, held, placed = [], [], []
        for place, make, _ in WORLDS:
            name, most = f"identity/{place}/{dtype}", min(draws, EXACT)
            for world in _drawn(make, f"{name}/regauged", most, seed, dtype=dtype, regauged=True):
                own.append(_holds(world))
            for world in _drawn(make, name, most, seed, dtype=dtype):
                own.append(_holds(world))
                found, verdicts = _judged(world, np.roll(world.weight, 1, axis=0))
                held.append("holds" in verdicts)
                placed.append(bool(np.isin(found, PLACES).any()))
        states = f"states in {dtype}; {SIZE}"
        world = f"with and without a change of gauge, {states}"
        rows.append(check(claims[0], world, "power", np.asarray(own), at_least=1.0, note=note))
        rows += [
            check(
                claim,
                f"another head's weights in each place, {states}",
                "false-positive rate",
                np.asarray(happened),
                at_most=0.0,
                note=note,
            )
            for claim, happened in zip(claims, (held, placed), strict=True)
        ]
    return rows


def _drawn(make: Callable[..., World], name: str, draws: int, seed: int, **options):
    """Worlds of a kind, one at a time."""
    for one in seeds(seed, f"geometry/{name}", many(draws, MOST)):
        yield make(PAIRS, seed=one, **options)


def _holds(world: World) -> bool:
    return bool((stats.identity(world.run, world.weight)["verdict"] == "holds").all())


def _judged(world: World, weight: np.ndarray) -> tuple[list[str], list[str]]:
    """Places that are claimed and verdicts on the identity, by kind."""
    identity = stats.identity(world.run, weight)
    gauges = stats.gauges(world.run, weight, world.gain)
    place = stats.location(gauges, identity)["location"]
    return place.tolist(), identity["verdict"].tolist()
