"""Protocols: components of variance that aren't there, and those that are."""

from __future__ import annotations

import numpy as np
import pandas as pd

from lib.calibration.checks import COVERAGE, FALSE, POWER, check, many, seeds
from lib.planted.protocols import protocol_world
from lib.stats import protocols

HEADS, PROTOCOLS, PROMPTS = 6, 5, 100
SD = 0.5
RESAMPLES = 500
WORLDS = {"zero": 200, "main": 60, "interaction": 60}
PARTS = {
    "head": "heads differ whatever the protocol",
    "protocol": "protocols differ whatever the head",
    "interaction": "which head wins depends on the protocol",
}


def checks(draws: int, seed: int) -> list[dict]:
    """Rows on components of variance."""
    size = f"{HEADS} heads, {PROTOCOLS} protocols of {PROMPTS} prompts"
    zero, main, mixed = (_worlds(kind, draws, seed) for kind in WORLDS)
    false, power = "false-positive rate", "power"
    told = f"; intervals by {RESAMPLES} resamples"
    rows = [
        check(
            "any component is found",
            f"no cell differs; {size}{told}",
            false,
            zero["found"].any(axis=1),
            at_most=FALSE,
        ),
        check(
            PARTS["interaction"],
            f"no cell differs; {size}",
            false,
            zero["found"][:, 2],
            at_most=FALSE,
        ),
        check(
            "most of the variance is interaction",
            f"no cell differs; {size}",
            false,
            zero["naive"][:, 2] > 0.5,
            at_most=FALSE,
            form="as published",
            note=f"sampling noise left in: a mean share of {zero['naive'][:, 2].mean():.0%}",
        ),
        check(
            PARTS["interaction"],
            f"main effects alone (sd {SD} in log odds); {size}",
            false,
            main["found"][:, 2],
            at_most=FALSE,
        ),
    ]
    for k, name in enumerate(("head", "protocol")):
        world = f"main effects alone (sd {SD} in log odds); {size}"
        rows.append(check(PARTS[name], world, power, main["found"][:, k], at_least=POWER))
    world = f"a value of its own for each cell (sd {SD} in log odds); {size}"
    rows.append(check(PARTS["interaction"], world, power, mixed["found"][:, 2], at_least=POWER))
    held = [(f"the {n}s' part", main, k) for k, n in enumerate(("head", "protocol"))]
    for name, table, k in [*held, ("the interaction", mixed, 2)]:
        inside = (table["low"][:, k] <= SD**2) & (table["high"][:, k] >= SD**2)
        rows.append(
            check(
                f"the interval holds {name}",
                world if k == 2 else f"main effects alone (sd {SD} in log odds); {size}",
                "coverage",
                inside,
                at_least=COVERAGE[0],
                note="prompts are drawn anew, heads and protocols are those planted",
            )
        )
    return rows


def _worlds(kind: str, draws: int, seed: int) -> dict[str, np.ndarray]:
    """Columns of the components' table on the logit scale, each of shape (draws, 3)."""
    tables = []
    for one in seeds(seed, f"protocols/{kind}", many(draws, WORLDS[kind])):
        runs = protocol_world(
            kind, heads=HEADS, protocols=PROTOCOLS, prompts=PROMPTS, sd=SD, seed=one
        )
        table = protocols.variance_components(runs, draws=RESAMPLES, seed=one)
        logit = table[table["scale"] == "logit"].set_index("component")
        tables.append(logit.loc[list(protocols.COMPONENTS)].reset_index())
    whole = pd.concat(tables)
    shape = (len(tables), len(protocols.COMPONENTS))
    columns = {"found": "found", "low": "low", "high": "high", "naive": "naive_share"}
    return {key: whole[name].to_numpy().reshape(shape) for key, name in columns.items()}
