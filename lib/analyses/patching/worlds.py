"""Planted effects: nodes that carry a head's margin, decoys, and labels exchanged at random.

Nodes of one size are rare, and they go together: half of each one's variance is a factor of its
prompt that all nodes and heads share in their own degree, and noising and denoising of a node
agree but for noise of their own. Values have heavy tails.
"""

from __future__ import annotations

from collections.abc import Mapping

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

    def drawn(*shape: int) -> np.ndarray:
        return generator.standard_t(TAILS, shape) / np.sqrt(TAILS / (TAILS - 2))

    names = components(LAYERS)[1:-1]
    many = len(names)
    size = np.exp(generator.normal(-2, 1, (many, 1)))
    side = generator.choice([-1.0, 1.0], (many, heads))
    common, own = drawn(prompts, 1, heads), drawn(prompts, many, heads)
    values = np.sqrt(ALIKE) * side * common + np.sqrt(1 - ALIKE) * own
    for name, mean in (carry or {}).items():
        values[:, names.index(name)] += mean
    for name, by in (cancel or {}).items():
        place, other = names.index(name), names.index(by)
        size[other] = size[place]
        values[:, other] = 0.1 * drawn(prompts, heads) - values[:, place]
    values *= size
    noise = [OWN * size * drawn(prompts, many, heads) for _ in range(4)]
    # From the left half of it is out of reach.
    ways = [*(values + x for x in noise[:2]), *(values / 2 + x for x in noise[2:])]
    whole = drawn(prompts, heads) + margin + common[:, 0]
    parts = values + size * drawn(prompts, many, heads) / 2
    raw = parts + 2 * size * drawn(prompts, many, heads)
    ends = (whole, whole, whole / 2, whole / 2)
    effect = {
        name: -np.concatenate([carried, end[:, None]], axis=1)
        for name, carried, end in zip(WAYS, ways, ends, strict=True)
    }
    found = make_effects(
        _summed(parts, whole),
        effect,
        part_raw=_summed(raw, whole),
        patched=range(prompts),
        name="planted/patching",
    )
    found["n_response_tokens"].values[::2] = LONGER
    return found.sel(way=list(WAYS))


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
    swap = np.random.default_rng(seed).random(effects.sizes["patched"]) < 0.5
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
