"""A world for gating: two kinds of prompt, and one head that is right on each.

People choose by ``first`` on prompts of one kind and by ``second`` on the other; ``verbosity``
leaks into both, and the debiasing matrix takes it out again. The gate knows the kind.

``equal_world`` has a gate that is as good as the best head, and worse than fixed weights.
``debiased_world`` has one that is as good with debiasing as without, or worse.
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from scipy.special import expit

from lib.planted.worlds import make_run

HEADS = ("first", "second", "verbosity")
LAMBDAS = (0.5, 0.25, 1.0)
SCALE = 2.0  # what the gate sums to


def transform() -> np.ndarray:
    """M: the identity, less λ in the row of ``verbosity``, shape (3, 3)."""
    matrix = np.eye(3)
    matrix[2] -= LAMBDAS
    return matrix


def gating_world(
    pairs: int = 1200, strength: float = 2.0, seed: int = 0, informed: bool = True
) -> xr.Dataset:
    """A gated run; its subsets are the kinds of prompt, ``one`` and ``two``.

    Parameters
    ----------
    pairs
        Half of each kind.
    strength
        People prefer with probability σ(strength · gap of the right quality).
    seed
        Of everything.
    informed
        Does the gate know the kind? Otherwise it guesses.

    Notes
    -----
    The gate gives the head that it takes for the right one between .6 and .9 of what it
    doesn't give ``verbosity``. Where people never err (``strength`` without bound), a head mix
    at angle θ to the right quality ranks 1 − θ/π of the pairs as they did; a gate that guesses
    stands as often at θ as at 90° − θ, so it is then exactly as good as the uniform one.
    """
    generator = np.random.default_rng(seed)
    kind = np.arange(pairs) % 2
    quality = generator.standard_normal((pairs, 2, 2))
    tokens = generator.integers(20, 400, (pairs, 2))
    long = (np.log(tokens) - np.log(tokens).mean()) / np.log(tokens).std()
    gap = quality[np.arange(pairs), 0, kind] - quality[np.arange(pairs), 1, kind]
    swap = generator.random(pairs) >= expit(strength * gap)
    quality[swap], long[swap] = quality[swap, ::-1], long[swap, ::-1]
    tokens[swap] = tokens[swap, ::-1]
    score = np.empty((pairs, 2, 3))
    score[..., :2] = quality + long[..., None] * LAMBDAS[:2]
    score[..., 2] = long
    own = generator.uniform(0.6, 0.9, pairs)
    wasted = generator.uniform(0, 0.2, pairs)
    favoured = kind if informed else generator.integers(0, 2, pairs)
    gate = np.empty((pairs, 3))
    gate[:, 2] = wasted
    gate[np.arange(pairs), favoured] = own * (1 - wasted)
    gate[np.arange(pairs), 1 - favoured] = (1 - own) * (1 - wasted)
    coefficients = SCALE * gate @ transform().T
    run = make_run(
        score.reshape(-1, 3),
        heads=HEADS,
        concepts=["", "", "verbosity"],
        subset=np.where(kind == 0, "one", "two").tolist(),
        hidden=generator.standard_normal((2 * pairs, 4)),
        tokens=tokens.reshape(-1),
        final=(score * coefficients[:, None]).sum(axis=2).reshape(-1),
        name="planted/gating",
    )
    return run.assign(gate=(("item", "head"), coefficients.astype(np.float32)))


COSINE = 0.8  # of the best head with what people choose by, and of the score


def equal_world(pairs: int = 1000, seed: int = 0) -> xr.Dataset:
    """A gated run whose score is exactly as good as its best head; fixed weights beat both.

    Notes
    -----
    With independent unit normals Q, m and n, people choose by Q and never err; ``best`` is
    cQ + sm and ``worse`` is cQ + s(2n − m), c = ``COSINE`` and s = √(1 − c²). The gate gives
    each one half, so the score is cQ + sn: it ranks 1 − arccos(c)/π of the pairs, as ``best``
    does. Weights of ¾ and ¼ leave the least noise, s²/2, and rank
    1 − arccos(c/√(c² + s²/2))/π.
    """
    generator = np.random.default_rng(seed)
    sine = np.sqrt(1 - COSINE**2)
    quality, m, n = generator.standard_normal((3, pairs, 2))
    order = np.argsort(-quality, axis=1)
    quality, m, n = (np.take_along_axis(part, order, axis=1) for part in (quality, m, n))
    score = np.stack([COSINE * quality + sine * m, COSINE * quality + sine * (2 * n - m)], axis=2)
    run = make_run(
        score.reshape(-1, 2),
        heads=("best", "worse"),
        final=score.mean(axis=2).reshape(-1),
        name="planted/equal-gate",
    )
    return run.assign(gate=(("item", "head"), np.full((pairs, 2), 0.5, np.float32)))


def debiased_world(pairs: int = 1000, seed: int = 0, noise: float = 1.0) -> xr.Dataset:
    """A gated run whose score is exactly as good without debiasing, or better.

    Parameters
    ----------
    pairs, seed
        How many, and of everything.
    noise
        That debiasing puts in, of the noise that it takes out.

    Notes
    -----
    With independent unit normals Q, m and n, people choose by Q and never err; ``head`` is
    cQ + sm, c = ``COSINE`` and s = √(1 − c²), and ``removed`` is s(m − ``noise`` n): taken out
    of the head it leaves cQ + ``noise`` sn. Where c' is the cosine of either to Q it ranks
    1 − arccos(c')/π of the pairs, so a ``noise`` of 1 makes no difference.
    """
    generator = np.random.default_rng(seed)
    sine = np.sqrt(1 - COSINE**2)
    quality, m, n = generator.standard_normal((3, pairs, 2))
    order = np.argsort(-quality, axis=1)
    quality, m, n = (np.take_along_axis(part, order, axis=1) for part in (quality, m, n))
    score = np.stack([COSINE * quality + sine * m, sine * (m - noise * n)], axis=2)
    gate = generator.uniform(0.5, 1.5, pairs)[:, None] * [1, -1]
    run = make_run(
        score.reshape(-1, 2),
        heads=("head", "removed"),
        final=(score * gate[:, None]).sum(axis=2).reshape(-1),
        name="planted/debiased-gate",
    )
    return run.assign(gate=(("item", "head"), gate.astype(np.float32)))
