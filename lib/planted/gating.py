"""A world for gating: two kinds of prompt, and one head that is right on each.

People choose by ``first`` on prompts of one kind and by ``second`` on the other; ``verbosity``
leaks into both, and the debiasing matrix takes it out again. The gate knows the kind.
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
