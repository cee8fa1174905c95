"""Planted protocol worlds: win rates that differ by head, by protocol, by both, or not at all."""

from __future__ import annotations

import numpy as np
import xarray as xr
from scipy import stats

from lib.planted.worlds import from_gaps

KINDS = ("zero", "main", "interaction", "one protocol")


def cell_logits(
    kind: str, heads: int, protocols: int, sd: float, generator: np.random.Generator
) -> np.ndarray:
    """True log odds of winning, shape (heads, protocols).

    ``zero``: all 0. ``main``: the sum of a head's and a protocol's own value, each with
    variance sd². ``interaction``: a value of its own for each cell, scaled so that the mean
    square of ``stats.anova``'s interaction is sd². ``one protocol``: a head's own value under all
    protocols, another one under the first.
    """
    if kind == "zero":
        return np.zeros((heads, protocols))
    if kind == "main":
        head, protocol = _scaled(generator, heads, sd), _scaled(generator, protocols, sd)
        return head[:, None] + protocol[None, :]
    if kind == "one protocol":
        head, other = _scaled(generator, heads, sd), _scaled(generator, heads, sd)
        return np.column_stack([other] + [head] * (protocols - 1))
    drawn = generator.standard_normal((heads, protocols))
    rest = drawn - drawn.mean(0) - drawn.mean(1, keepdims=True) + drawn.mean()
    return sd * drawn / np.sqrt((rest**2).sum() / ((heads - 1) * (protocols - 1)))


def _scaled(generator: np.random.Generator, count: int, sd: float) -> np.ndarray:
    drawn = generator.standard_normal(count)
    return sd * (drawn - drawn.mean()) / drawn.std(ddof=1)


def protocol_world(
    kind: str = "zero",
    *,
    heads: int = 6,
    protocols: int = 5,
    prompts: int = 100,
    per_prompt: int = 1,
    sd: float = 0.5,
    agreement: float = 0.3,
    shared: bool = False,
    seed: int = 0,
) -> list[xr.Dataset]:
    """Runs of one model, one a protocol.

    Parameters
    ----------
    kind
        See ``cell_logits``.
    agreement
        Correlation, in the latent normal, of two heads on one comparison.
    shared
        Do all protocols use the same prompts, and their comparisons the same luck?
    """
    generator = np.random.default_rng(seed)
    rate = 1 / (1 + np.exp(-cell_logits(kind, heads, protocols, sd, generator)))
    runs, luck = [], None
    for p in range(protocols):
        if luck is None or not shared:
            luck = _luck(generator, prompts, per_prompt, heads, agreement)
        margin = stats.norm.ppf(rate[:, p]) + luck
        prompt = np.repeat(np.arange(prompts), per_prompt)
        runs.append(
            from_gaps(
                margin,
                prompt=prompt if shared else prompt + p * prompts,
                name=f"file:planted-{p}",
            )
        )
    return runs


def protocol_wins(
    generator: np.random.Generator,
    draws: int,
    prompts: int,
    rates: np.ndarray,
    agreement: float = 0.3,
) -> np.ndarray:
    """Outcomes of many worlds at once, one comparison a prompt and prompts of each protocol.

    Parameters
    ----------
    rates
        True win rates, shape (heads, protocols).
    agreement
        Correlation, in the latent normal, of two heads on one comparison.

    Returns
    -------
    numpy.ndarray
        Was it won? Shape (draws, prompts, heads, protocols).
    """
    heads, protocols = rates.shape
    common, own = (
        generator.standard_normal((draws, prompts, many, protocols), dtype=np.float32)
        for many in (1, heads)
    )
    drawn = np.float32(agreement**0.5) * common + np.float32((1 - agreement) ** 0.5) * own
    return drawn < stats.norm.ppf(rates).astype(np.float32)


def _luck(generator, prompts, per_prompt, heads, agreement) -> np.ndarray:
    """Unit normals by comparison and head; half of each is its prompt's where it has several."""
    common = generator.standard_normal((2, prompts, 1))
    own = generator.standard_normal((2, prompts, heads))
    prompt = np.sqrt(agreement) * common + np.sqrt(1 - agreement) * own
    if per_prompt == 1:
        return prompt[0]
    row_common = generator.standard_normal((prompts, per_prompt, 1))
    row_own = generator.standard_normal((prompts, per_prompt, heads))
    row = np.sqrt(agreement) * row_common + np.sqrt(1 - agreement) * row_own
    return ((prompt[0][:, None, :] + row) / np.sqrt(2)).reshape(-1, heads)
