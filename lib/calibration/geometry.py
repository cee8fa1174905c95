"""Geometry: places claimed in worlds where one is to be had, and in those where none is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lib.calibration.checks import FALSE, POWER, check, many, seeds
from lib.planted.geometry import World, backbone_world, heads_world
from lib.stats import geometry

PAIRS = 300
MOST = 100
PLACES = ("heads", "backbone")


def checks(draws: int, seed: int) -> list[dict]:
    """Rows on places of entanglement and on the identity of stored scores."""
    size = f"8 heads, 64 features, {PAIRS} pairs"
    rows, holds, broken = [], [], []
    worlds: tuple[tuple[str, Callable[..., World], str], ...] = (
        ("backbone", backbone_world, "orthonormal heads on stretched states"),
        ("heads", heads_world, "collapsed heads on round states"),
    )
    for place, make, says in worlds:
        for regauged in (False, True):
            claimed = []
            for one in seeds(seed, f"geometry/{place}/{regauged}", many(draws, MOST)):
                world = make(PAIRS, seed=one, regauged=regauged)
                identity = geometry.identity(world.run, world.weight)
                gauges = geometry.gauges(world.run, world.weight, world.gain)
                claimed.append(geometry.location(gauges, identity)["location"].tolist())
                holds.append(bool((identity["verdict"] == "holds").all()))
                if not regauged:
                    other = geometry.identity(world.run, np.roll(world.weight, 1, axis=0))
                    broken.append(bool((other["verdict"] == "holds").any()))
            found = np.asarray(claimed)
            if regauged:
                row = check(
                    "entanglement has a place",
                    f"{says}, gauge changed so that readings disagree; {size}",
                    "false-positive rate",
                    np.isin(found, PLACES).any(axis=1),
                    at_most=FALSE,
                )
            else:
                row = check(
                    f"entanglement is in the {place}",
                    f"{says}; {size}",
                    "power",
                    (found == place).all(axis=1),
                    at_least=POWER,
                )
                wrong = np.isin(found, [p for p in PLACES if p != place]).any(axis=1)
                rows.append(
                    check(
                        "entanglement is in the wrong place",
                        f"{says}; {size}",
                        "false-positive rate",
                        wrong,
                        at_most=FALSE,
                    )
                )
            rows.append(row)
    return [
        *rows,
        check(
            "stored scores are weights times states",
            f"float32 states, with and without a change of gauge; {size}",
            "power",
            np.asarray(holds),
            at_least=1.0,
            note="an identity: one exception is a failure",
        ),
        check(
            "stored scores are weights times states",
            f"another head's weights in each place; {size}",
            "false-positive rate",
            np.asarray(broken),
            at_most=0.0,
            note="an identity: one exception is a failure",
        ),
    ]
