"""Planted worlds of sparse rewards: responses whose latents are known."""

from __future__ import annotations

import numpy as np

from lib.models.sae import SAE, Reward
from lib.stats.latents import Sparse


def latent_world(
    shift: float = 0.0,
    *,
    pairs: int = 80,
    latents: int = 120,
    k: int = 8,
    criteria: int = 4,
    every: bool = False,
    weight: float = 1.0,
    seed: int = 0,
) -> Sparse:
    """Responses of an autoencoder that leaves states as they are, one latent a feature.

    Parameters
    ----------
    shift
        What the first latent has more in better responses, in standard deviations of the
        difference of two responses.
    k
        Latents that are kept; the first always is.
    criteria
        Of the comparisons, as many of each.
    every
        Does the first latent have that under each criterion, or under one alone, which is then
        ``criterion 0``?
    weight
        Of the first latent in the reward; those of the others are standard normal.
    """
    generator = np.random.default_rng(seed)
    common = generator.standard_normal((pairs, latents))
    x = generator.standard_normal((pairs, 2, latents)) + common[:, None]
    # Some latents are kept for most responses and some for hardly any.
    x += np.linspace(-1.5, 1.5, latents)[generator.permutation(latents)]
    criterion = np.arange(pairs) * criteria // pairs
    x[:, :, 0] += 6
    x[every | (criterion == 0), 0, 0] += shift * np.sqrt(2)
    one = np.eye(latents, dtype=np.float32)
    none = np.zeros(latents, np.float32)
    weights = generator.standard_normal(latents).astype(np.float32)
    weights[0] = weight
    reward = Reward(SAE(one, one, none, none, k), weights, True)
    x = x.reshape(2 * pairs, latents).astype(np.float32)
    rows = np.arange(2 * pairs)
    # Halves are taken of prompts by number, so those of a criterion are of both parities.
    return Sparse(
        reward,
        x,
        reward.read(x).astype(float),
        rows,
        np.repeat(np.arange(pairs), 2).astype(str),
        rows[::2],
        rows[1::2],
        np.arange(pairs),
        np.asarray([f"criterion {c}" for c in criterion]),
        np.full(pairs, "all"),
    )
