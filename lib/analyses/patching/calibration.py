"""Patching: nodes confirmed where none carries anything, where some do, and where one is undone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lib.analyses.patching import stats
from lib.analyses.patching.stats import CANCELLED, CONFIRMED, NOT_SHOWN, Judged
from lib.analyses.patching.worlds import NODES, OWN, Planted, planted
from lib.planted.checks import COVERAGE, FALSE, POWER, check, many, seeds
from lib.stats import ratios

HEADS = 2
EXCHANGED, DECOYS = 1500, 200  # draws
NONE = {24: 1200, 100: 400}  # prompts → draws
POWERED = {24: 400, 48: 300, 100: 200}
SIZES = {"mlp 4": 0.5, "mlp 6": 0.75, "mlp 9": 1.0}  # means that are always tried, in sd
CARRIER, DECOY, UNDOES = "attention 5", "attention 7", "mlp 7"
SPREAD = np.sqrt(1 + OWN**2 / 2)  # sd of the mean of noising and denoising, of a node's
MANY = f"{len(NODES)} nodes, {HEADS} heads"
FALSE_RATE = "false-positive rate"


def checks(draws: int, seed: int) -> list[dict]:
    """Rows on confirmed nodes, on decoys and on intervals."""
    return [*_labels(draws, seed), *_none(draws, seed), *_decoys(draws, seed), *_power(draws, seed)]


def _labels(draws: int, seed: int) -> list[dict]:
    """Better and worse exchanged at random, so that nothing goes with being better."""

    def world(one: int) -> Planted:
        return planted(48, HEADS, carry=SIZES, seed=one).exchanged(one + 1)

    found = [judged for _, judged in _judged(world, "exchanged", draws, EXCHANGED, seed)]
    said = f"better and worse exchanged at random in each comparison; 48 prompts, {MANY}"
    return [
        check(
            "a node carries or opposes",
            said,
            FALSE_RATE,
            [(each.verdict != NOT_SHOWN).any() for each in found],
            at_most=FALSE,
        ),
        check(
            "a node pulls towards a response",
            said,
            FALSE_RATE,
            [(each.pulls != "").any() for each in found],
            at_most=FALSE,
            note="said whichever side the head's mean margin is on, and if it is on none",
        ),
    ]


def _none(draws: int, seed: int) -> list[dict]:
    """A margin that is told from 0, and nodes that vary with nothing to do with it on average."""
    rows = []
    for prompts, most in NONE.items():

        def world(one: int, prompts: int = prompts) -> Planted:
            return planted(prompts, HEADS, seed=one)

        found = list(_judged(world, f"none/{prompts}", draws, most, seed))
        said = f"nodes carry nothing on average; {prompts} prompts, {MANY}"
        ends = [ratios.mean((made.there + made.back)[:, 0, 0] / 2) for made, _ in found]
        rows += [
            check(
                "a node carries or opposes",
                said,
                FALSE_RATE,
                [(judged.verdict != NOT_SHOWN).any() for _, judged in found],
                at_most=FALSE,
            ),
            check(
                "the interval of what a node carries",
                said,
                "coverage",
                [each.low <= 0 <= each.high for each in ends],
                at_least=COVERAGE[0],
                at_most=COVERAGE[1],
            ),
        ]
    return rows


def _decoys(draws: int, seed: int) -> list[dict]:
    """A node that carries much, all of which another takes back."""

    def world(one: int) -> Planted:
        return planted(48, HEADS, carry={DECOY: 1.5}, cancel={DECOY: UNDOES}, seed=one)

    places = [NODES.index(DECOY), NODES.index(UNDOES)]
    pair = [judged.verdict[places] for _, judged in _judged(world, "decoy", draws, DECOYS, seed)]
    said = f"one node takes back 1.5 sd that another carries; 48 prompts, {MANY}"
    return [
        check(
            "a node that is taken back is confirmed",
            said,
            FALSE_RATE,
            [(verdict == CONFIRMED).any() for verdict in pair],
            at_most=FALSE,
        ),
        check(
            "the two are called cancelled",
            said,
            "power",
            [(verdict == CANCELLED).all() for verdict in pair],
            at_least=POWER,
        ),
    ]


def _power(draws: int, seed: int) -> list[dict]:
    """A node that carries what the page says it would find, and others of given sizes."""
    rows = []
    for prompts, most in POWERED.items():
        mean = detectable(prompts)

        def world(one: int, prompts: int = prompts, mean: float = mean) -> Planted:
            return planted(prompts, HEADS, carry=SIZES | {CARRIER: mean}, seed=one)

        found = np.asarray(
            [
                judged.verdict[:, 0] == CONFIRMED
                for _, judged in _judged(world, f"power/{prompts}", draws, most, seed)
            ]
        )
        rate = {name: found[:, NODES.index(name)].mean() for name in SIZES}
        rates = ", ".join(f"{size:g} sd {rate[name]:.0%}" for name, size in SIZES.items())
        rows.append(
            check(
                "a node is confirmed",
                f"it carries {mean:.2f} sd, the stated MDE; {prompts} prompts, {MANY}",
                "power",
                found[:, NODES.index(CARRIER)],
                at_least=POWER - 0.1,
                note=f"beside it, means of {rates}; a stated MDE is nominal, so .1 is allowed",
            )
        )
    return rows


def detectable(prompts: int) -> float:
    """The mean that the page says it would find, in a node's standard deviations."""
    values = np.zeros((prompts, 1))
    values[: prompts // 2], values[prompts // 2 :] = 1, -1
    values *= SPREAD / values.std(ddof=1)
    return float(stats.detectable(values, stats.ALPHA / (len(NODES) * HEADS))[0])


def _judged(
    world: Callable[[int], Planted], name: str, draws: int, most: int, seed: int
) -> list[tuple[Planted, Judged]]:
    """Every world with its verdicts, by the function that the page's table is made of."""
    made = (world(one) for one in seeds(seed, f"patching/{name}", many(draws, most)))
    return [(each, stats.judge(*each)) for each in made]
