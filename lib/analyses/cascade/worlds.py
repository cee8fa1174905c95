"""Scenarios crossed with dimensions, whose margins share one factor or nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr

from lib.planted.worlds import from_gaps

DIMENSIONS = ("a", "b", "c", "d", "e", "f")


def factor_world(
    shared: float = 0.0,
    *,
    scenarios: int = 16,
    loaded: Sequence[str] = DIMENSIONS,
    heads: int = 3,
    alike: float = 0.5,
    skew: bool = False,
    seed: int = 0,
) -> xr.Dataset:
    """A run whose margins in the ``loaded`` dimensions correlate by ``shared`` in every head.

    Parameters
    ----------
    shared
        Correlation of two loaded dimensions across scenarios, from one factor.
    alike
        Correlation of two heads' margins in the same scenario and dimension.
    skew
        Margins are exponentials of normal ones, less their median, so that a few are large.
    """
    generator = np.random.default_rng(seed)
    shape = (scenarios, len(DIMENSIONS))

    def drawn(*size: int) -> np.ndarray:
        common = generator.standard_normal((*size, 1))
        own = generator.standard_normal((*size, heads))
        return np.sqrt(alike) * common + np.sqrt(1 - alike) * own

    factor, rest = drawn(scenarios, 1), drawn(*shape)
    loads = np.isin(DIMENSIONS, loaded)[None, :, None] * shared
    margin = np.sqrt(loads) * factor + np.sqrt(1 - loads) * rest
    if skew:
        margin = np.expm1(margin)
    subset = np.tile(DIMENSIONS, scenarios).tolist()
    return from_gaps(
        margin.reshape(-1, heads),
        prompt=np.repeat(np.arange(scenarios), len(DIMENSIONS)),
        subset=subset,
        criterion=["aligned"] * len(subset),
        name="planted/cascade",
    )
