"""Studies of a tiny network whose neurons' parts are known.

One hidden layer, h = relu(z), and a linear read-out, so that silencing is exact. Some neurons are
large whatever the text, as in a backbone before any reward training.
"""

from __future__ import annotations

import math

import numpy as np

from lib.training.tension.kept import (
    BASE,
    BY_LAYER,
    CHANGED,
    GRADIENT,
    HARMLESS,
    HELPFUL,
    MIXED,
    NONE,
    OBJECTIVES,
    ONLY_HARMLESS,
    ONLY_HELPFUL,
    OWN,
    RAISED,
    SETS,
    SHARED,
    SIZES,
    SOURCES,
    WAYS,
    Set,
    Study,
)

LAYERS, WIDTH, SHARE = 6, 50, 0.1
NEURONS = LAYERS * WIDTH
FEW = 60  # prompts of each side that random sets are tried on
LARGE = 40  # neurons that are large in the base, the last ones
OFFSET = 3.0  # by so many standard deviations of z
REST = 0.7  # standard deviation of a margin that no neuron carries
ABILITY = 1.2  # mean margin of a model on its own comparisons


def network(
    shared: int,
    *,
    seeds: int = 5,
    prompts: int = 150,
    draws: int = 20,
    learnt: int = 200,
    seed: int = 0,
) -> Study:
    """A study in which helpful and harmless abilities use so many shared neurons.

    Parameters
    ----------
    shared
        The first neurons, which carry both abilities alone; 0 where all neurons carry an equal
        part of either.
    seeds, prompts, draws
        Of the study; prompts of each side.
    learnt
        Comparisons of each side on which neurons are chosen.
    """
    generator = np.random.default_rng(seed)
    carries = np.zeros(NEURONS)
    carries[: shared or NEURONS] = 1.0
    offset = np.zeros(NEURONS)
    offset[-LARGE:] = OFFSET
    # A neuron's activation differs by this much between better and worse responses.
    part = ABILITY / math.sqrt(carries.sum())
    sets, probe, held, chosen = {}, [], {}, {}
    for side, name in SOURCES.items():
        held[side] = _differences(generator, prompts, offset, carries * part)
        chosen[side] = _differences(generator, learnt, offset, carries * part)
        better = np.arange(prompts) * 2
        tokens = generator.integers(20, 200, 2 * prompts)
        subset = np.full(prompts, name)
        sets[name] = Set(name, better, better + 1, subset, np.arange(prompts), tokens)
        probe.append((name, np.arange(prompts)))
    few = np.concatenate([side * prompts + np.arange(min(FEW, prompts)) for side in (0, 1)])
    models = {}
    for number in range(seeds):
        models |= _seed(generator, number, carries, held, chosen, offset, few, draws)
    document = {"settings": {"share": SHARE}, "shape": [LAYERS, WIDTH], "seeds": seeds}
    return Study(document, sets, probe, few, models, {key: {} for key in models})


def _differences(generator, n: int, offset: np.ndarray, gain: np.ndarray) -> np.ndarray:
    """Activations of better less those of worse responses, (comparisons, neurons)."""
    worse = generator.standard_normal((n, NEURONS)) + offset
    better = generator.standard_normal((n, NEURONS)) + offset + gain
    return np.maximum(better, 0) - np.maximum(worse, 0)


def _seed(generator, number, carries, held, chosen, offset, few, draws) -> dict:
    """Models of the three objectives, which differ in what of the read-out they learnt."""
    sign = {HELPFUL: (1.0, -0.5), HARMLESS: (-0.5, 1.0), MIXED: (0.7, 0.7)}
    weight = carries / math.sqrt(carries.sum())
    base = np.maximum(offset, 0.4) + 0.01 * generator.standard_normal(NEURONS)
    seen = {
        side: {
            OWN: base + 0.01 * generator.standard_normal(NEURONS),
            CHANGED: generator.random(NEURONS),
            GRADIENT: (chosen[_learnt_from(side)] * weight).mean(axis=0),
        }
        for side in OBJECTIVES
    }
    tops = {side: _top(of[OWN]) for side, of in seen.items()}
    found = {}
    for side, of in seen.items():
        masks = {
            OWN: tops[side],
            BASE: _top(base),
            RAISED: _top(of[OWN] - base),
            CHANGED: _top(of[CHANGED]),
            GRADIENT: _top(of[GRADIENT]),
            SHARED: tops[HELPFUL] & tops[HARMLESS],
            ONLY_HELPFUL: tops[HELPFUL] & ~tops[HARMLESS],
            ONLY_HARMLESS: tops[HARMLESS] & ~tops[HELPFUL],
        }
        # What no neuron carries: of the prompt in part, the same for every seed, and of the seed.
        reads = np.concatenate(
            [strength * held[name] for strength, name in zip(sign[side], SOURCES, strict=True)]
        )
        rest = REST * generator.standard_normal(len(reads))

        def margins(off, reads=reads, rest=rest):
            return (reads @ (weight * ~off).T + rest).astype(np.float16)

        silent = np.zeros(NEURONS, bool)
        ways = [silent if way == NONE else masks[way.partition(", ")[0]] for way in WAYS]
        arrays = {
            "margin": np.stack([margins(off) for off in ways]),
            "mask": np.stack([np.packbits(masks[name]) for name in SETS]),
            "activation": of[OWN].reshape(LAYERS, WIDTH).astype(np.float16),
            "rmsd": np.asarray([0.001]),
            "like base": np.asarray([1.0]),
        }
        for size in SIZES:
            mask = masks[OWN if size == BY_LAYER else size]
            drawn = np.stack([_drawn(generator, mask, size == BY_LAYER) for _ in range(draws)])
            some = reads[few] @ (weight * ~drawn).T + rest[few][:, None]
            arrays[f"random {size}"] = some.T.astype(np.float16)
        whole = margins(silent).astype(np.float32).reshape(len(SOURCES), -1)
        for name, own in zip(SOURCES.values(), whole, strict=True):
            score = np.zeros(2 * len(own), np.float32)
            score[::2] = own
            arrays[f"score {name}"] = score
        found[number, side] = arrays
    return found


def _learnt_from(side: str) -> str:
    return HELPFUL if side == MIXED else side


def _top(importance: np.ndarray) -> np.ndarray:
    mask = np.zeros(NEURONS, bool)
    mask[np.argsort(-importance, kind="stable")[: math.ceil(SHARE * NEURONS)]] = True
    return mask


def _drawn(generator, mask: np.ndarray, by_layer: bool) -> np.ndarray:
    if by_layer:
        return generator.permuted(mask.reshape(LAYERS, WIDTH), axis=1).ravel()
    return generator.permutation(mask)
