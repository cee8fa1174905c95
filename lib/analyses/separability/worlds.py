"""Worlds for separability: a concept that is read out, that isn't, that isn't there, or is length.

States are normal with a falling spectrum. People choose by a direction u of the state, with
probability σ(a·u·Δh), or by nothing; one head claims the concept.
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from scipy.special import expit

from lib.errors import unknown
from lib.planted.worlds import make_run

CONCEPT = "helpfulness"
KINDS = ("not read out", "absent", "head equals concept", "only length")


def separability_world(
    kind: str, *, pairs: int = 1500, features: int = 12, strength: float = 2.5, seed: int = 0
) -> xr.Dataset:
    """A run of pairs with heads ``claims`` and ``other``.

    Parameters
    ----------
    kind
        ``"not read out"``: people choose by u, both heads are orthogonal to it.
        ``"absent"``: people choose by nothing that the state holds.
        ``"head equals concept"``: people choose by u, and ``claims`` is u.
        ``"only length"``: people choose by log length, which u holds beside its own.
    pairs, features
        Sizes.
    strength
        a, with u·Δh of unit variance.
    seed
        Of everything.

    Raises
    ------
    ParameterError
        For an unknown kind.
    """
    if kind not in KINDS:
        raise unknown("separability world", kind, KINDS)
    generator = np.random.default_rng(seed)
    spectrum = 1 / np.sqrt(1 + np.arange(features) / 3)
    hidden = generator.standard_normal((pairs, 2, features)) * spectrum
    axes = np.linalg.qr(generator.standard_normal((features, 3)))[0].T
    gap = (hidden[:, 0] - hidden[:, 1]) @ axes[0]
    blind = kind in ("absent", "only length")
    chance = np.full(pairs, 0.5) if blind else expit(strength * gap / gap.std())
    swap = generator.random(pairs) >= chance
    hidden[swap] = hidden[swap, ::-1]
    hidden = hidden.reshape(2 * pairs, features)
    tokens = generator.integers(20, 400, 2 * pairs)
    if kind == "only length":
        two = tokens.reshape(pairs, 2)
        gap = np.log(two[:, 0] / two[:, 1])
        shorter = generator.random(pairs) >= expit(strength * gap / gap.std())
        two[shorter] = two[shorter, ::-1]
        hidden = hidden + np.log(tokens)[:, None] * axes[0]
    weight = axes[[0 if kind == "head equals concept" else 1, 2]]
    run = make_run(
        hidden @ weight.T,
        heads=["claims", "other"],
        concepts=[CONCEPT, ""],
        criterion=[CONCEPT] * pairs,
        hidden=hidden,
        tokens=tokens,
        name="planted/separability",
    )
    prompts = generator.standard_normal((pairs, features)).astype(np.float32)
    return run.assign(gate_hidden=(("item", "feature"), prompts))
