"""Worlds for attribution: components that add to the margin, that cancel, and that only vary."""

from __future__ import annotations

import numpy as np
import xarray as xr

from lib.effects import CONSTANT
from lib.planted.worlds import make_run

LAYERS = 6
NAMES = ["embedding", *(f"{p} {n}" for n in range(1, LAYERS + 1) for p in ("attention", "mlp"))]
CARRIER, AGAINST, DECOYS = "mlp 4", "attention 6", ("attention 2", "mlp 2")
SIZES = np.linspace(0.3, 3, len(NAMES))  # typical part of each component, in a head's units


def parts_world(
    effect: float = 0.0,
    *,
    pairs: int = 100,
    heads: int = 2,
    alike: float = 0.5,
    skew: bool = False,
    seed: int = 0,
) -> xr.Dataset:
    """Parts of ``heads`` heads; chosen and rejected are exchanged at random per pair.

    Parameters
    ----------
    effect
        Then ``CARRIER`` adds this many of its standard deviations toward the better response,
        and ``AGAINST`` as many toward the worse, in every head. With 0 no component does.
    alike
        Correlation of two components' parts, as of layers that read one stream: signs of many
        components turn together.
    skew
        Parts have sizes with a long tail, so a few pairs make the mean.

    Notes
    -----
    ``DECOYS`` are two components that write more than all others, one the opposite of the
    other: large in every pair, of no direction, and carrying nothing.
    """
    generator = np.random.default_rng(seed)
    shape = (pairs, len(NAMES), heads)
    shared = generator.standard_normal((pairs, 1, 1))
    part = np.sqrt(alike) * shared + np.sqrt(1 - alike) * generator.standard_normal(shape)
    if skew:
        part = np.sign(part) * np.exp(1.5 * np.abs(part))
        part /= part.std()
    part *= SIZES[:, None]
    place = {name: n for n, name in enumerate(NAMES)}
    one, other = (place[name] for name in DECOYS)
    part[:, one] = 10 * generator.standard_normal((pairs, heads))
    part[:, other] = -part[:, one]
    part *= generator.choice([-1.0, 1.0], (pairs, 1, 1))  # which response is called better
    for name, sign in ((CARRIER, 1), (AGAINST, -1)):
        part[:, place[name]] += sign * effect * part[:, place[name]].std(axis=0)
    part[:, 0] = 0  # the last token is the same in both responses
    return _effects(part)


def carried(name: str, alike: float = 0.5) -> float:
    """Share of the margins that a component carries, without an effect or a skew.

    E[c m] / E[m²] of c = a (√ρ z + √(1 − ρ) e) among others of sizes a_j:
    a (ρ Σa_j + (1 − ρ) a) / (ρ (Σa_j)² + (1 − ρ) Σa_j²), and 0 for the decoys.
    """
    if name in DECOYS:
        return 0.0
    known = {n: a for n, a in zip(NAMES, SIZES, strict=True) if n not in ("embedding", *DECOYS)}
    sizes, own = np.asarray([*known.values()]), known[name]
    over = alike * sizes.sum() ** 2 + (1 - alike) * (sizes**2).sum()
    return float(own * (alike * sizes.sum() + (1 - alike) * own) / over)


def _effects(part: np.ndarray) -> xr.Dataset:
    """Effects, as far as attribution reads them, of parts of margins."""
    part = np.concatenate([part, np.zeros_like(part[:, :1])], axis=1)
    values = np.zeros((2 * len(part), *part.shape[1:]))
    values[::2] = part
    run = make_run(values.sum(axis=1), name="planted/attribution")
    dims = ("response", "component", "head")
    found = run.assign(part=(dims, values), part_raw=(dims, values))
    return found.assign_coords(component=[*NAMES, CONSTANT])
