"""Alignment tension: known shared neurons, abilities that no neuron carries more than another."""

from __future__ import annotations

import numpy as np

from lib.analyses.tension import crossed, neurons, silencing
from lib.analyses.tension.worlds import LAYERS, WIDTH, network
from lib.planted.checks import POWER, check, generator, many, seeds
from lib.training.tension.kept import GRADIENT, HARMLESS, HELPFUL, MIXED, SHARED, SOURCES

MOST = 300  # worlds of a kind
SHARED_NEURONS = 20
FALSE = 0.05
SIZE = f"{LAYERS * WIDTH} neurons, 5 seeds, 150 prompts a side, 20 random sets a seed"
APART = "silencing a set costs more or less than random neurons"
MATTER = "shared neurons matter"
FOUND = "the shared neurons are found"
MEAN = "a mean over prompts and seeds"
NEEDED = 0.9  # of the planted neurons are among the top ones
LEAST = {5: 0.93, 3: 0.90}  # coverage asked for, by how many seeds


def checks(draws: int, seed: int) -> list[dict]:
    """Rows on sets that are said to matter, rightly and wrongly, and on the intervals."""
    return [*_even(draws, seed), *_shared(draws, seed), *_means(draws, seed)]


def _even(draws: int, seed: int) -> list[dict]:
    """Every neuron carries as much of either ability as any other."""
    world = f"abilities spread evenly over all neurons; {SIZE}"
    apart, matter, published = [], [], []
    for one in seeds(seed, "tension/even", many(draws, 2 * MOST)):
        table = silencing.silenced(network(0, seed=one))
        apart.append(table["verdict"].isin([silencing.LOWER, silencing.HIGHER]).any())
        own = table[(table["set"] == SHARED) & (table["model"] == MIXED) & table["p"].notna()]
        matter.append((own["verdict"] == silencing.LOWER).any())
        published.append((own["change"] < 0).all())
    rate = "false-positive rate"
    return [
        check(APART, world, rate, np.asarray(apart), at_most=FALSE, note="any set, model or side"),
        check(MATTER, world, rate, np.asarray(matter), at_most=FALSE),
        check(
            f"{MATTER} (accuracy falls on both sides)",
            world,
            rate,
            np.asarray(published),
            at_most=FALSE,
            form="as published",
        ),
    ]


def _shared(draws: int, seed: int) -> list[dict]:
    """Few neurons carry both abilities; others are larger."""
    world = f"{SHARED_NEURONS} neurons carry both abilities, 40 others are larger; {SIZE}"
    found, needed = [], []
    for one in seeds(seed, "tension/shared", many(draws, MOST)):
        study = network(SHARED_NEURONS, seed=one)
        table = silencing.silenced(study)
        own = table[(table["set"] == GRADIENT) & (table["model"] == MIXED) & table["p"].notna()]
        needed.append(len(own) == len(SOURCES) and (own["verdict"] == silencing.LOWER).all())
        tops = [
            neurons.mask(study, number, side, GRADIENT).ravel()[:SHARED_NEURONS]
            for number in study.seeds
            for side in (HELPFUL, HARMLESS)
        ]
        found.append(np.mean(np.all(tops, axis=0)) >= NEEDED)
    return [
        check(FOUND, world, "power", np.asarray(found), at_least=0.95, note="gradient importance"),
        check(
            MATTER,
            world,
            "power",
            np.asarray(needed),
            at_least=POWER,
            note="gradient importance, mixed model, both sides",
        ),
    ]


def _means(draws: int, seed: int) -> list[dict]:
    """Values of seeds that differ, on prompts that differ."""
    rows = []
    for n_seeds, least in LEAST.items():
        numbers = generator(seed, f"tension/means/{n_seeds}")
        held = []
        for _ in range(many(draws, 3_000)):
            values = 0.2 * numbers.standard_normal((n_seeds, 1))
            values = values + 0.5 * numbers.standard_normal((1, 300))
            found = crossed.mean(values + numbers.standard_normal((n_seeds, 300)))
            held.append(found.low <= 0 <= found.high)
        world = f"{n_seeds} seeds whose means differ by .2 sd, 300 prompts by .5 sd"
        rows.append(check(MEAN, world, "coverage", np.asarray(held), at_least=least))
    return rows
