"""Sparse features: dictionaries found again, features that go toward a side, and their names."""

from __future__ import annotations

import numpy as np

from lib.analyses.sarm import stats
from lib.analyses.sarm.worlds import Dictionary, dictionary_world
from lib.planted.checks import FALSE, POWER, check, many, seeds
from lib.planted.latents import latent_world
from lib.stats.latents import Sparse

ALPHA = 0.05
TRAINED, NULL, FEW, NAMED = 3, 5_000, 300, 300
FLIPS = 399
MATCHED, RIGHT = 0.9, 0.9  # share of features to be found, and of pairs in the right order
SHIFT, OWN = 0.7, 1.8
PAIRS, MORE = 80, 160
SIZE = "120 latents, 8 kept, 80 pairs"
CLAIM = "a feature goes toward the better or the worse response"
NAME = "a feature responds to one criterion alone"


def checks(draws: int, seed: int) -> list[dict]:
    """Rows on dictionaries, on features without and with a direction, and on their names."""
    return [*_dictionaries(draws, seed), *_sides(draws, seed), *_names(draws, seed)]


def _dictionaries(draws: int, seed: int) -> list[dict]:
    """Of features and of pairs of them, over all dictionaries."""
    matched, right = [], []
    for one in seeds(seed, "sarm/dictionary", many(draws, TRAINED)):
        cosine, found, weight = recovered(dictionary_world(one), one)
        matched += (cosine >= stats.SAME).tolist()
        a, b = np.triu_indices(len(weight), 1)
        right += ((found[a] > found[b]) == (weight[a] > weight[b])).tolist()
    world = "states are 3 of 48 directions, a reward of known weights; 96 latents, 3 kept"
    note = f"over {many(draws, TRAINED)} dictionaries together"
    return [
        check(
            f"a planted direction is found again (cosine {stats.SAME:g})",
            world,
            "power",
            np.asarray(matched),
            at_least=MATCHED,
            note=f"directions {note}",
        ),
        check(
            "two directions' weights are in the right order",
            world,
            "power",
            np.asarray(right),
            at_least=RIGHT,
            note=f"pairs of directions {note}",
        ),
    ]


def recovered(world: Dictionary, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cosine of each direction's best latent, the weight that was learnt for it, and the true one.

    An autoencoder is learnt from the states, and a Bradley–Terry head on its latents from choices
    that the planted reward makes, by margins.
    """
    from lib.training import sae, sarm  # imports torch
    from lib.training.token_states import InMemory

    recipe = sae.Recipe(
        2 * len(world.directions), 3, seed, steps=800, batch=256, rate=5e-3, warm_up=50, silent=5000
    )
    made = sae.train(InMemory.of(world.states), recipe)
    cosine = world.directions @ (made.decoder / np.linalg.norm(made.decoder, axis=0))
    generator = np.random.default_rng(seed)
    reward = world.amounts @ world.weight
    one, other = generator.permutation(len(reward))[:8000].reshape(2, -1)
    swapped = generator.random(len(one)) > 1 / (1 + np.exp(reward[other] - reward[one]))
    better, worse = np.where(swapped, other, one), np.where(swapped, one, other)
    z = made.encode(world.states).dense()
    [weight] = sarm.bradley_terry(z[better] - z[worse], [1e-1], "all")
    return cosine.max(axis=1), weight[cosine.argmax(axis=1)], world.weight


def _sides(draws: int, seed: int) -> list[dict]:
    none, published, some = [], [], []
    for one in seeds(seed, "sarm/null", many(draws, NULL)):
        _, told = stats.sides(_world(0.0, one), flips=FLIPS, seed=one)
        none.append((told.p_adjusted < ALPHA).any())
    for one in seeds(seed, "sarm/few", many(draws, FEW)):
        table = _features(0.0, one, draws=100)
        published.append(((table["selection_low"] > 0) | (table["selection_high"] < 0)).any())
        table = _features(SHIFT, one).set_index("latent")
        some.append(table["verdict"].get(0) == stats.BETTER)
    world = f"no latent differs between better and worse; {SIZE}"
    return [
        check(CLAIM, world, "false-positive rate", np.asarray(none), at_most=FALSE),
        check(
            "a feature is selected (the interval of its score leaves out 0)",
            world,
            "false-positive rate",
            np.asarray(published),
            at_most=FALSE,
            form="as published",
            note="without a correction for how many features are looked at",
        ),
        check(
            CLAIM,
            f"one latent is larger in better responses by {SHIFT:g} sd; {SIZE}",
            "power",
            np.asarray(some),
            at_least=POWER,
        ),
    ]


def _features(shift: float, seed: int, draws: int = 1):
    found = _world(shift, seed)
    return stats.features(found, alpha=ALPHA, flips=FLIPS, draws=draws, seed=seed)


def _world(shift: float, seed: int) -> Sparse:
    return latent_world(shift, pairs=PAIRS, every=True, seed=seed)


def _names(draws: int, seed: int) -> list[dict]:
    """A feature that responds to nothing, to every criterion, and to one."""
    rows = []
    kinds = (
        ("responds to no criterion", 0.0, False, "false-positive rate", {"at_most": FALSE}),
        ("responds to all alike", OWN, True, "false-positive rate", {"at_most": FALSE}),
        (f"responds to one, by {OWN:g} sd", OWN, False, "power", {"at_least": POWER}),
    )
    for world, shift, every, measure, target in kinds:
        said = []
        for one in seeds(seed, f"sarm/names/{world}", many(draws, NAMED)):
            found = latent_world(shift, pairs=MORE, latents=20, k=12, every=every, seed=one)
            said.append(stats.names(found, [0])["verdict"].iloc[0] == stats.OWN)
        told = f"a feature {world}; 4 criteria of {MORE // 4} pairs"
        rows.append(check(NAME, told, measure, np.asarray(said), **target))
    return rows
