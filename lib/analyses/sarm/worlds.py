"""States that are made of a sparse dictionary."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Dictionary:
    """``directions`` (features, state), ``amounts`` and ``states`` of each token, ``weight``."""

    directions: np.ndarray
    amounts: np.ndarray
    states: np.ndarray
    weight: np.ndarray


def dictionary_world(
    seed: int, *, features: int = 32, many: int = 48, k: int = 3, tokens: int = 20_000
) -> Dictionary:
    """States that are sums of k of many directions, with a little noise, and a reward of them."""
    generator = np.random.default_rng(seed)
    directions = generator.standard_normal((many, features))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    amounts = np.zeros((tokens, many))
    which = np.argsort(generator.random((tokens, many)), axis=1)[:, :k]
    np.put_along_axis(amounts, which, generator.uniform(0.5, 1.5, (tokens, k)), axis=1)
    states = amounts @ directions + 0.02 * generator.standard_normal((tokens, features))
    weight = generator.normal(0, 3, many)
    return Dictionary(directions, amounts, states.astype(np.float32), weight)
