"""Planted heads whose relations are known: copies, blocks under a general factor, one constant.

Every signal is the sum of a part that belongs to the prompt (``between`` of the variance)
and one that belongs to the response, so heads that are independent are still alike within
a prompt: what a null of independent rows takes for factors.
"""

from __future__ import annotations

import numpy as np
import xarray as xr

from lib.planted.worlds import make_run


def signals(
    generator: np.random.Generator, pairs: int, many: int, between: float, per_prompt: int = 1
) -> np.ndarray:
    """Independent unit-variance signals, shape (2·pairs, many).

    ``between`` is the share of the variance that all responses to a prompt have in common;
    ``per_prompt`` divides ``pairs``.
    """
    prompts = generator.standard_normal((pairs // per_prompt, many))
    prompt = np.repeat(prompts, 2 * per_prompt, axis=0)
    own = generator.standard_normal((2 * pairs, many))
    return np.sqrt(between) * prompt + np.sqrt(1 - between) * own


def blocks_world(
    pairs: int = 600,
    blocks: int = 5,
    heads: int = 3,
    general: float = 0.0,
    cohesion: float = 0.8,
    between: float = 0.5,
    seed: int = 0,
) -> xr.Dataset:
    """Heads in blocks under a general factor.

    Two heads of one block correlate at g + (1 − g)·``cohesion`` at every level, two of
    different blocks at g = ``general``; ``heads`` is the number in each block.
    """
    generator = np.random.default_rng(seed)
    drawn = signals(generator, pairs, 1 + blocks + blocks * heads, between)
    shared, block, own = drawn[:, :1], drawn[:, 1 : 1 + blocks], drawn[:, 1 + blocks :]
    special = np.sqrt(cohesion) * np.repeat(block, heads, axis=1) + np.sqrt(1 - cohesion) * own
    score = np.sqrt(general) * shared + np.sqrt(1 - general) * special
    names = [f"block {b + 1} head {h + 1}" for b in range(blocks) for h in range(heads)]
    return make_run(score, heads=names, name="planted/blocks")


def independent_world(
    pairs: int = 300, heads: int = 10, between: float = 0.8, seed: int = 0, per_prompt: int = 1
) -> xr.Dataset:
    """Heads that have nothing to do with one another, each much alike within a prompt.

    ``per_prompt`` is how many of the pairs each prompt has.
    """
    generator = np.random.default_rng(seed)
    score = signals(generator, pairs, heads, between, per_prompt)
    return make_run(score, prompt=np.arange(pairs) // per_prompt, name="planted/independent")


def levels_world(pairs: int = 2000, seed: int = 0, r: float = 0.8) -> xr.Dataset:
    """Two heads that agree on prompts (``r``) and disagree on responses (−``r``).

    Both levels have unit variance, so the pooled correlation is 0.
    """
    generator = np.random.default_rng(seed)
    between, within = ([[1, sign * r], [sign * r, 1]] for sign in (1, -1))
    prompt = generator.multivariate_normal(np.zeros(2), between, pairs)
    own = generator.multivariate_normal(np.zeros(2), within, 2 * pairs)
    score = np.repeat(prompt, 2, axis=0) + own
    return make_run(score, heads=["first", "second"], name="planted/levels")


def copies_world(pairs: int = 300, seed: int = 0) -> xr.Dataset:
    """``original``, its ``copy`` and ``opposite``, two ``other`` heads and a ``constant``."""
    generator = np.random.default_rng(seed)
    drawn = signals(generator, pairs, 3, 0.5)
    one = drawn[:, 0]
    score = np.column_stack([one, one, -one, drawn[:, 1], drawn[:, 2], np.full(2 * pairs, 0.3)])
    names = ["original", "copy", "opposite", "other 1", "other 2", "constant"]
    return make_run(score, heads=names, name="planted/copies")


def length_world(pairs: int = 1000, seed: int = 0, read: str = "length") -> xr.Dataset:
    """Two heads that correlate at one half, and have but one thing in common.

    With ``read`` ``"length"`` that is the length of the response, else something that is
    unrelated to it.
    """
    generator = np.random.default_rng(seed)
    log_length = generator.normal(5, 0.7, 2 * pairs)
    tokens = np.maximum(np.rint(np.exp(log_length)), 1)
    common = (np.log(tokens) - 5) / 0.7
    own = generator.standard_normal((2 * pairs, 2))
    if read != "length":
        common = generator.standard_normal(2 * pairs)
    score = common[:, None] + own
    return make_run(score, heads=["first", "second"], tokens=tokens, name="planted/length")
