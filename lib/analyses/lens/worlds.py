"""Worlds for the lens: margins that are settled from a known depth on, and layers in any order."""

from __future__ import annotations

import numpy as np
import xarray as xr

from lib.planted.worlds import make_run

LAYERS = 12


def settled_world(
    settled: int, before: float = 0.5, after: float = 0.98, *, pairs: int = 100, seed: int = 0
) -> xr.Dataset:
    """One head whose lens picks the end's response in a known share of pairs at each depth.

    Parameters
    ----------
    settled
        From this depth on the share is ``after``; before it, ``before``.
    before
        One half is what the lens shows where chosen and rejected are exchanged at random per
        pair.
    """
    lens = settled_margins(settled, before, after, pairs=pairs, seed=seed)
    return _effects(lens, np.diff(lens, axis=1))


def settled_margins(
    settled: int, before: float = 0.5, after: float = 0.98, *, pairs: int = 100, seed: int = 0
) -> np.ndarray:
    """Margins of ``settled_world`` at each depth: (pairs, depths)."""
    generator = np.random.default_rng(seed)
    end = generator.standard_normal(pairs)
    share = np.where(np.arange(LAYERS + 1) < settled, before, after)
    share[-1] = 1
    same = np.where(generator.random((pairs, LAYERS + 1)) < share, 1.0, -1.0)
    size = generator.exponential(1, (pairs, LAYERS + 1)) + 1e-3
    lens = same * size * np.sign(end)[:, None]
    lens[:, -1] = end
    return lens


def ordered_world(growth: float = 0.0, *, pairs: int = 100, seed: int = 0) -> xr.Dataset:
    """One head whose layers write margins of sizes that grow with depth, or don't.

    Parameters
    ----------
    growth
        A layer's typical size is e^(growth · its place from 0 to 1), times a size of its own;
        with none, layers differ and their places say nothing.
    """
    generator = np.random.default_rng(seed)
    place = np.linspace(0, 1, LAYERS)
    size = np.exp(growth * place + 0.5 * generator.standard_normal(LAYERS))
    mean = 0.3 * generator.standard_normal(LAYERS)
    steps = (generator.standard_normal((pairs, LAYERS)) + mean) * size
    lens = np.concatenate([np.zeros((pairs, 1)), steps.cumsum(axis=1)], axis=1)
    return _effects(lens, steps)


def _effects(lens: np.ndarray, steps: np.ndarray) -> xr.Dataset:
    """Effects, as far as the lens reads them, of margins (pairs, depths)."""
    pairs = len(lens)
    run = make_run(_better(lens[:, -1:]), name="planted/lens")
    parts = np.concatenate([lens[:, :1], steps], axis=1)  # a layer's MLP writes all of it
    names = ["embedding", *(f"mlp {n}" for n in range(1, LAYERS + 1)), "constant"]
    parts = np.concatenate([parts, np.zeros((pairs, 1))], axis=1)
    found = run.assign(
        lens=(("response", "depth", "head"), _better(lens)[..., None]),
        lens_raw=(("response", "depth", "head"), _better(lens)[..., None]),
        part=(("response", "component", "head"), _better(parts)[..., None]),
    )
    return found.assign_coords(component=names)


def _better(margins: np.ndarray) -> np.ndarray:
    """Of responses, better ones first in each pair; the worse ones have 0."""
    values = np.zeros((2 * len(margins), *margins.shape[1:]))
    values[::2] = margins
    return values
