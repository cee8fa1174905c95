"""Planted effects: nodes that carry a head's margin, decoys, and labels exchanged at random.

Nodes of one size are rare, and they go together: half of each one's variance is a factor of its
prompt that all nodes and heads share in their own degree, and noising and denoising of a node
agree but for noise of their own. Values have heavy tails.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import xarray as xr

from lib.effects import BOTH_ENDS, DENOISING, LEFT, NOISING
from lib.planted.effects import components, make_effects

LAYERS = 12
TAILS = 5  # degrees of freedom of what is drawn
ALIKE = 0.5  # share of a node's variance that nodes and heads have in common
OWN = 0.4  # sd of what noising and denoising each have alone, of a node's
LONGER = 12  # tokens of each better response; the worse ones have ten
WAYS = tuple(f"{mode}, {end}" for end in (BOTH_ENDS, LEFT) for mode in (NOISING, DENOISING))


NODES = tuple(components(LAYERS)[1:-1])


class Planted(NamedTuple):
    """What nodes carry by noising and by denoising, (prompts, nodes, heads), and margins."""

    there: np.ndarray
    back: np.ndarray
    margin: np.ndarray  # (prompts, heads)

    def exchanged(self, seed: int) -> Planted:
        """With better and worse exchanged at random in each prompt: as ``exchanged`` below."""
        swap = _swapped(len(self.margin), seed)
        each = swap[:, None, None]
        return Planted(
            np.where(each, -self.back, self.there),
            np.where(each, -self.there, self.back),
            np.where(swap[:, None], -self.margin, self.margin),
        )


def planted(
    prompts: int = 48,
    heads: int = 3,
    *,
    carry: Mapping[str, float] | None = None,
    cancel: Mapping[str, str] | None = None,
    margin: float = 1.0,
    seed: int = 0,
) -> Planted:
    """What ``patching_world`` plants, without the rest of effects."""
    return _planted(np.random.default_rng(seed), prompts, heads, carry, cancel, margin)[0]


def patching_world(
    prompts: int = 48,
    heads: int = 3,
    *,
    carry: Mapping[str, float] | None = None,
    cancel: Mapping[str, str] | None = None,
    margin: float = 1.0,
    seed: int = 0,
) -> xr.Dataset:
    """Effects of one comparison a prompt.

    Parameters
    ----------
    carry
        Node → mean of what it carries in each head, in its own standard deviations; 0 for all
        others.
    cancel
        Node → the node that takes back what it carries, prompt by prompt, but for a tenth.
    margin
        Mean margin, in its standard deviations.
    seed
        Of everything.
    """
    generator = np.random.default_rng(seed)
    found, values, size = _planted(generator, prompts, heads, carry, cancel, margin)
    shape, whole = values.shape, found.margin
    # From the left half of it is out of reach.
    left = [values / 2 + OWN * size * _drawn(generator, *shape) for _ in range(2)]
    parts = values + size * _drawn(generator, *shape) / 2
    raw = parts + 2 * size * _drawn(generator, *shape)
    ends = (whole, whole, whole / 2, whole / 2)
    effect = {
        name: -np.concatenate([carried, end[:, None]], axis=1)
        for name, carried, end in zip(WAYS, (found.there, found.back, *left), ends, strict=True)
    }
    effects = make_effects(
        _summed(parts, whole),
        effect,
        part_raw=_summed(raw, whole),
        patched=range(prompts),
        name="planted/patching",
    )
    effects["n_response_tokens"].values[::2] = LONGER
    return effects.sel(way=list(WAYS))


def _drawn(generator: np.random.Generator, *shape: int) -> np.ndarray:
    return generator.standard_t(TAILS, shape) / np.sqrt(TAILS / (TAILS - 2))


def _planted(
    generator: np.random.Generator,
    prompts: int,
    heads: int,
    carry: Mapping[str, float] | None,
    cancel: Mapping[str, str] | None,
    margin: float,
) -> tuple[Planted, np.ndarray, np.ndarray]:
    """With what nodes carry in truth, and their sizes."""
    size = np.exp(generator.normal(-2, 1, (len(NODES), 1)))
    side = generator.choice([-1.0, 1.0], (len(NODES), heads))
    common = _drawn(generator, prompts, 1, heads)
    own = _drawn(generator, prompts, len(NODES), heads)
    values = np.sqrt(ALIKE) * side * common + np.sqrt(1 - ALIKE) * own
    for name, mean in (carry or {}).items():
        values[:, NODES.index(name)] += mean
    for name, by in (cancel or {}).items():
        place, other = NODES.index(name), NODES.index(by)
        size[other] = size[place]
        values[:, other] = 0.1 * _drawn(generator, prompts, heads) - values[:, place]
    values *= size
    ways = (values + OWN * size * _drawn(generator, *values.shape) for _ in range(2))
    whole = _drawn(generator, prompts, heads) + margin + common[:, 0]
    return Planted(*ways, whole), values, size


def _swapped(prompts: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random(prompts) < 0.5


def _summed(parts: np.ndarray, margin: np.ndarray) -> np.ndarray:
    """Parts of both responses of each pair, the worse one's 0, that sum to the better's margin."""
    rest = margin[:, None] - parts.sum(axis=1, keepdims=True)  # what the embedding adds
    found = np.zeros((2 * len(parts), parts.shape[1] + 2, parts.shape[2]))
    found[::2, :-1] = np.concatenate([rest, parts], axis=1)
    return found


def exchanged(effects: xr.Dataset, seed: int = 0) -> xr.Dataset:
    """The same with better and worse exchanged at random in each comparison.

    What was noising is then denoising, and every sign is turned.
    """
    swap = _swapped(effects.sizes["patched"], seed)
    found = effects.copy(deep=True)
    for mode, other in ((NOISING, DENOISING), (DENOISING, NOISING)):
        for alignment in (BOTH_ENDS, LEFT):
            there = effects["effect"].sel(way=f"{other}, {alignment}").values
            found["effect"].sel(way=f"{mode}, {alignment}").values[swap] = -there[swap]
    found["margin"].values[swap] *= -1
    found["direct"].values[swap] *= -1
    rows = effects["comparison_of_patched"].values[swap]
    for name, other in (("better", "worse"), ("worse", "better")):
        found[name].values[rows] = effects[other].values[rows]
    return found
