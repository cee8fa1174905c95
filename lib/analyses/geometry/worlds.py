"""Planted head matrices and states: entangled by the backbone, by the heads, and regauged.

The two worlds give the same scores' covariance W Σ Wᵀ in different ways. A change of gauge
turns each into the other without changing a score, so after it no place may be claimed.
``dtype`` is the type in which the states are computed.
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
    pairs: int = 600,
    heads: int = 8,
    features: int = 64,
    seed: int = 0,
    regauged: bool = False,
    dtype: str = "float32",
) -> World:
    """Orthonormal heads on stretched states: the backbone entangles them.

    With ``regauged`` the final norm's gain has made the states round and collapsed the
    heads: the same scores, and the two gauges then disagree.
    """
    generator, rotation, stretch = _start(features, seed)
    round_states = generator.standard_normal((2 * pairs, features))
    weight = rotation[:heads]
    gain = 1 / stretch if regauged else np.ones(features)
    return _world(round_states * stretch, weight, gain, "planted/backbone", dtype)


def heads_world(
    pairs: int = 600,
    heads: int = 8,
    features: int = 64,
    seed: int = 0,
    regauged: bool = False,
    dtype: str = "float32",
) -> World:
    """Collapsed heads on round states: the heads entangle themselves.

    With ``regauged`` the gain stretches the states and makes the heads orthonormal.
    """
    generator, rotation, stretch = _start(features, seed)
    round_states = generator.standard_normal((2 * pairs, features))
    weight = rotation[:heads] * stretch
    gain = stretch if regauged else np.ones(features)
    return _world(round_states, weight, gain, "planted/heads", dtype)


def _start(features: int, seed: int):
    generator = np.random.default_rng(seed)
    rotation = np.linalg.qr(generator.standard_normal((features, features)))[0]
    stretch = np.where(np.arange(features) < 2, 10.0, 0.5)
    return generator, rotation, stretch


def _world(
    normed: np.ndarray, weight: np.ndarray, gain: np.ndarray, name: str, dtype: str
) -> World:
    """Run of states ``normed`` times gain, read by heads ``weight`` over gain.

    As a model does it: states are rounded to ``dtype`` and read in float32.
    """
    hidden = _rounded(normed * gain, dtype)
    weight = (weight / gain).astype(np.float32)
    run = make_run(hidden @ weight.T, hidden=hidden, name=name)
    run.attrs["extraction"]["dtype"] = dtype
    return World(run, weight, gain)


def _rounded(states: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "float32":
        return states.astype(np.float32)
    import torch  # NumPy has no bfloat16; worlds of float32 go without

    return torch.from_numpy(states).to(getattr(torch, dtype)).float().numpy()
