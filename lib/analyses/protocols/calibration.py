"""Protocols: components of variance and heads that change sides, there and not there.

``changing``  which heads change sides, for all draws at once, and which of them whichever protocol
              is left out (a test compares it with the page)
``checks``    the rows
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from lib.analyses.protocols import stats
from lib.analyses.protocols.worlds import protocol_wins, protocol_world
from lib.planted.checks import COVERAGE, FALSE, POWER, check, generator, many, parts, seeds
from lib.stats import permutation

HEADS, PROTOCOLS, PROMPTS = 6, 5, 100
SD = 0.5
RESAMPLES = 500
ALPHA = 0.05
CROSSINGS = 4_000  # worlds of heads that change sides or don't
STEP = 500  # of them at once
WORLDS = {"zero": 200, "main": 60, "interaction": 60, "one protocol": 200}
PARTS = {
    "head": "heads differ whatever the protocol",
    "protocol": "protocols differ whatever the head",
    "interaction": "which head wins depends on the protocol",
}


SIDES = {
    "every head wins half everywhere": np.full((HEADS, PROTOCOLS), 0.5),
    "each head wins one rate of .42 to .58 everywhere": np.repeat(
        [[0.42], [0.46], [0.5], [0.5], [0.54], [0.58]], PROTOCOLS, axis=1
    ),
    "heads win .55 to .75, or .25 to .45, depending on the protocol": np.stack(
        [np.roll([0.55, 0.6, 0.65, 0.7, 0.75], k) for k in range(3)]
        + [np.roll([0.25, 0.3, 0.35, 0.4, 0.45], k) for k in range(3)]
    ),
    "each head wins .8 of one protocol and half of all others": np.where(
        np.arange(PROTOCOLS) == np.arange(HEADS)[:, None] % PROTOCOLS, 0.8, 0.5
    ),
}
CROSSING = np.full((HEADS, PROTOCOLS), 0.5)
CROSSING[0] = [0.7, 0.7, 0.7, 0.3, 0.3]
LASTING = np.where(CROSSING > 0.5, 0.75, np.where(CROSSING < 0.5, 0.25, 0.5))
HANGING = np.array([[0.7, 0.7, 0.7, 0.7, 0.2]] * HEADS)


def checks(draws: int, seed: int) -> list[dict]:
    """Rows on components of variance, and on heads that change sides."""
    return [*_components(draws, seed), *_sides(draws, seed)]


def changing(won: np.ndarray, least: int = 1) -> np.ndarray:
    """Which heads are shown above one half under one protocol and below it under another.

    As the protocols page and the scorecard do it: corrected over all cells at once.

    Parameters
    ----------
    won
        One comparison a prompt: shape (draws, prompts, heads, protocols).
    least
        Cells on each side; with 2 it holds whichever protocol is left out.

    Returns
    -------
    numpy.ndarray
        Shape (draws, heads).
    """
    net = 2 * np.moveaxis(won, 1, 0).astype(np.int8) - 1
    p = permutation.sign_flips(net)
    p = permutation.holm(p.reshape(len(p), -1)).reshape(p.shape)
    side = np.sign(net.sum(axis=0, dtype=np.int64)) * (p < ALPHA)
    return ((side > 0).sum(axis=2) >= least) & ((side < 0).sum(axis=2) >= least)


def _sides(draws: int, seed: int) -> list[dict]:
    size = f"{HEADS} heads, {PROTOCOLS} protocols of {PROMPTS} prompts"
    claim, rows = "a head changes sides", []
    for says, rates in SIDES.items():
        any_head = _crossed(rates, says, draws, seed).any(axis=1)
        world = f"{says}; {size}"
        rows.append(check(claim, world, "false-positive rate", any_head, at_most=ALPHA))
    says = f"1 of {HEADS} heads wins .7 of 3 protocols and .3 of 2, the others half"
    found = _crossed(CROSSING, says, draws, seed)[:, 0]
    rows.append(check(claim, f"{says}; {size}", "power", found, at_least=POWER))
    claim = "a head changes sides whichever protocol is left out"
    says = "every head wins .7 of 4 protocols and .2 of 1"
    any_head = _crossed(HANGING, says, draws, seed, least=2).any(axis=1)
    rows.append(check(claim, f"{says}; {size}", "false-positive rate", any_head, at_most=ALPHA))
    says = f"1 of {HEADS} heads wins .75 of 3 protocols and .25 of 2, the others half"
    found = _crossed(LASTING, says, draws, seed, least=2)[:, 0]
    return [*rows, check(claim, f"{says}; {size}", "power", found, at_least=POWER)]


def _crossed(rates: np.ndarray, name: str, draws: int, seed: int, least: int = 1) -> np.ndarray:
    """``changing`` in worlds of these rates."""
    source = generator(seed, f"protocols/sides/{name}")
    return np.concatenate(
        [
            changing(protocol_wins(source, part, PROMPTS, rates), least)
            for part in parts(many(draws, CROSSINGS), STEP)
        ]
    )


def _components(draws: int, seed: int) -> list[dict]:
    size = f"{HEADS} heads, {PROTOCOLS} protocols of {PROMPTS} prompts"
    zero, main, mixed, hanging = (_worlds(kind, draws, seed) for kind in WORLDS)
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
            "any component is below 0",
            f"no cell differs; {size}{told}",
            false,
            zero["below"].any(axis=1),
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
            zero["naive_share"][:, 2] > 0.5,
            at_most=FALSE,
            form="as published",
            note=f"sampling noise left in: a mean share of {zero['naive_share'][:, 2].mean():.0%}",
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
    claim = f"{PARTS['interaction']}, whichever is left out"
    rows.append(check(claim, world, power, mixed["lasting"][:, 2], at_least=POWER))
    says = f"heads differ (sd {SD} in log odds), and otherwise under 1 protocol alone; {size}"
    rows.append(check(claim, says, false, hanging["lasting"][:, 2], at_most=FALSE))
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
    """Columns of the components' table on the logit scale, each of shape (draws, 3).

    ``lasting``: is it found whichever protocol is left out? For worlds of an interaction.
    """
    tables = []
    for one in seeds(seed, f"protocols/{kind}", many(draws, WORLDS[kind])):
        runs = protocol_world(
            kind, heads=HEADS, protocols=PROTOCOLS, prompts=PROMPTS, sd=SD, seed=one
        )
        table = _logit(stats.variance_components(runs, draws=RESAMPLES, seed=one))
        if kind in ("interaction", "one protocol"):
            rest = _logit(stats.leave_one_out(runs, draws=RESAMPLES, seed=one))
            table["lasting"] = table["found"] & rest["found"].groupby(level=0).all()
        tables.append(table.loc[list(stats.COMPONENTS)])
    whole = pd.concat(tables)
    shape = (len(tables), len(stats.COMPONENTS))
    columns = ["found", "below", "low", "high", "naive_share", "lasting"]
    return {name: whole[name].to_numpy().reshape(shape) for name in columns if name in whole}


def _logit(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["scale"] == "logit"].set_index("component")
