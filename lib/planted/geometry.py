"""Planted head matrices and states: entangled by the backbone, by the heads, and regauged.

The two worlds give the same scores' covariance W Σ Wᵀ in different ways. A change of gauge
turns each into the other without changing a score, so after it no place may be claimed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from lib.planted.worlds import make_run


@dataclass(frozen=True)
class World:
    """A run with the weights and the norm gain that made its scores."""

    run: xr.Dataset
    weight: np.ndarray
    gain: np.ndarray


def backbone_world(
    pairs: int = 600, heads: int = 8, features: int = 64, seed: int = 0, regauged: bool = False
) -> World:
    """Orthonormal heads on stretched states: the backbone entangles them.

    With ``regauged`` the final norm's gain has made the states round and collapsed the
    heads: the same scores, and the two gauges then disagree.
    """
    generator, rotation, stretch = _start(features, seed)
    round_states = generator.standard_normal((2 * pairs, features))
    weight = rotation[:heads]
    gain = 1 / stretch if regauged else np.ones(features)
    return _world(round_states * stretch, weight, gain, "planted/backbone")


def heads_world(
    pairs: int = 600, heads: int = 8, features: int = 64, seed: int = 0, regauged: bool = False
) -> World:
    """Collapsed heads on round states: the heads entangle themselves.

    With ``regauged`` the gain stretches the states and makes the heads orthonormal.
    """
    generator, rotation, stretch = _start(features, seed)
    round_states = generator.standard_normal((2 * pairs, features))
    weight = rotation[:heads] * stretch
    gain = stretch if regauged else np.ones(features)
    return _world(round_states, weight, gain, "planted/heads")


def _start(features: int, seed: int):
    generator = np.random.default_rng(seed)
    rotation = np.linalg.qr(generator.standard_normal((features, features)))[0]
    stretch = np.where(np.arange(features) < 2, 10.0, 0.5)
    return generator, rotation, stretch


def _world(normed: np.ndarray, weight: np.ndarray, gain: np.ndarray, name: str) -> World:
    """Run of states ``normed`` times gain, read by heads ``weight`` over gain."""
    hidden = (normed * gain).astype(np.float32)
    weight = (weight / gain).astype(np.float32)
    score = hidden.astype(float) @ weight.astype(float).T
    return World(make_run(score, hidden=hidden, name=name), weight, gain)
