"""Items with several responses whose gold is known, and scores that follow it or don't."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import xarray as xr

from lib.planted.worlds import make_run
from lib.run import check


def candidates_run(
    score: np.ndarray,
    gold: np.ndarray,
    *,
    rated: bool = False,
    prompt: np.ndarray | None = None,
    tokens: np.ndarray | None = None,
    final: np.ndarray | None = None,
    subset: Sequence[str] | None = None,
    name: str = "planted/selection",
) -> xr.Dataset:
    """A Run of items with k responses each.

    Parameters
    ----------
    score
        Shape (items, k, heads).
    gold
        Shape (items, k): ratings, or with ``rated`` false 1 for what is marked as better, compared
        with each 0.
    prompt, subset
        Of each item.
    tokens, final
        Of each response, shape (items, k).
    """
    items, k, heads = score.shape
    above = (gold[:, :, None] > gold[:, None, :]) & (not rated)
    item, first, second = np.nonzero(above)
    better, worse = item * k + first, item * k + second
    base = _bare(heads)
    names = np.asarray(subset if subset is not None else ["all"] * items, np.str_)
    own = np.arange(items) if prompt is None else np.asarray(prompt)
    lengths = np.full((items, k), 10) if tokens is None else np.asarray(tokens)
    variables = {
        "score": (("response", "head"), score.reshape(-1, heads).astype(np.float32)),
        "hidden": (("response", "feature"), np.zeros((items * k, 1), np.float32)),
        "gate_hidden": (("item", "feature"), np.zeros((items, 1), np.float32)),
        "item_of_response": ("response", np.repeat(np.arange(items), k)),
        "slot": ("response", np.tile(np.arange(k), items)),
        "prompt_hash": ("item", np.asarray([f"{p:016x}" for p in own], np.str_)),
        "n_prompt_tokens": ("item", np.full(items, 10)),
        "n_response_tokens": ("response", lengths.ravel().astype(np.int64)),
        "n_chars": ("response", 4 * lengths.ravel().astype(np.int64)),
        "better": ("comparison", better),
        "worse": ("comparison", worse),
        "criterion": ("comparison", np.asarray(["preference"] * len(better), np.str_)),
        "subset": ("comparison", names[better // k] if len(better) else names[:0]),
        "head_source": ("head", base["head_source"].values),
        "head_concept": ("head", base["head_concept"].values),
    }
    if rated:
        variables["rating"] = (("response", "attribute"), gold.reshape(-1, 1).astype(np.float32))
        variables["attribute_name"] = ("attribute", np.asarray(["score"], np.str_))
    if final is not None:
        variables["final"] = ("response", np.asarray(final, np.float32).ravel())
    coords = {
        "head": base["head"].values,
        "item": np.asarray([str(i) for i in range(items)], np.str_),
        "response": np.arange(items * k),
    }
    return check(xr.Dataset(variables, coords, base.attrs | {"dataset": name}))


@cache
def _bare(heads: int) -> xr.Dataset:
    """Names of heads and attributes, as any planted run has them."""
    return make_run(np.zeros((2, heads)))


def candidate_world(
    items: int = 120,
    k: int = 4,
    *,
    right: int = 1,
    strength: Sequence[float] = (0.0,),
    alike: float = 0.5,
    blocks: bool = False,
    per_prompt: int = 1,
    rated: bool = False,
    seed: int = 0,
) -> xr.Dataset:
    """Items of which each head's scores follow the gold by a strength of their own.

    Parameters
    ----------
    right
        How many of the k are right; of rated ones each has a rating from 1 to 5, drawn at random.
    strength
        Of each head: what a right response scores more, or a standard deviation of the rating, in
        standard deviations of the noise.
    alike
        Correlation of two heads' noise.
    blocks
        Right responses share most of their noise, and wrong ones too, as three styles of one
        content do.
    per_prompt
        Items of a prompt; their noise correlates by one half.
    """
    generator = np.random.default_rng(seed)
    heads = len(strength)

    def drawn(*shape: int) -> np.ndarray:
        common = generator.standard_normal((*shape, 1))
        return np.sqrt(alike) * common + np.sqrt(1 - alike) * generator.standard_normal(
            (*shape, heads)
        )

    noise = drawn(items, k)
    gold = np.zeros((items, k))
    if rated:
        gold = generator.integers(1, 6, (items, k)).astype(float)
        lean = (gold - 3) / np.sqrt(2)
    else:
        gold[:, :right] = 1
        lean = gold
    if blocks:
        side = drawn(items, 2)
        noise = np.sqrt(0.8) * side[:, gold.astype(int)[0]] + np.sqrt(0.2) * noise
    if per_prompt > 1:
        shared = drawn(-(-items // per_prompt), k)
        noise = np.sqrt(0.5) * np.repeat(shared, per_prompt, axis=0)[:items] + np.sqrt(0.5) * noise
    score = lean[:, :, None] * np.asarray(strength) + noise
    return candidates_run(
        score,
        gold,
        rated=rated,
        prompt=np.arange(items) // per_prompt,
        tokens=generator.integers(20, 400, (items, k)),
        final=score.mean(axis=2) if heads > 1 else None,
    )
