"""Planted effects: arrays as ``lib.effects`` has them, whose right answers are known.

No model is behind them. Parts and what patches do are given, by prompt, and all the rest
follows: scores are sums of parts, lenses run up to them, and a margin is what its responses
have more and less.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr

from lib.effects import CONSTANT, EVERYTHING, FINAL, check, ways
from lib.run import ATTRS, texts


def components(layers: int) -> list[str]:
    """Of so many layers, the constant last."""
    each = (f"{part} {n}" for n in range(1, layers + 1) for part in ("attention", "mlp"))
    return ["embedding", *each, CONSTANT]


def make_effects(
    part: np.ndarray,
    effect: Mapping[str, np.ndarray] | None = None,
    *,
    direct: np.ndarray | None = None,
    patched: Sequence[int] | None = None,
    heads: Sequence[str] | None = None,
    prompt: Sequence[int] | None = None,
    part_raw: np.ndarray | None = None,
    scale: float = 1.0,
    gated: bool = False,
    model: str = "planted",
    name: str = "planted/effects",
) -> xr.Dataset:
    """Effects of pairs: rows 2i and 2i + 1 of ``part`` are the better and worse response.

    Parameters
    ----------
    part
        Shape (2·pairs, components, heads), components as ``components`` has them.
    effect
        Way → change of the margin, (patched, nodes, heads); a node for every component but
        the embedding and the constant, and ``EVERYTHING`` last. A way that isn't there is
        what taking the parts from the other response, or for zero, mean and resample away,
        would make of the margin if nothing read anything: minus the part's own gap.
    direct
        Shape (patched, components, heads); by default minus the part's own gap.
    patched
        Which pairs are; the first 48 by default.
    heads
        Names; with ``gated`` the last column is the final score's, and isn't among them.
    prompt
        An integer for the prompt of each pair; each its own by default.
    part_raw
        As ``part``, without the norm; by default ``part`` times ``scale``.
    """
    part = np.asarray(part, float)
    n, k = len(part) // 2, part.shape[-1]
    names = list(heads) if heads is not None else [f"head_{i}" for i in range(k - gated)]
    names += [FINAL] * gated
    layers = (part.shape[1] - 2) // 2
    raw = part * scale if part_raw is None else np.asarray(part_raw, float)
    some = np.arange(min(n, 48)) if patched is None else np.asarray(patched)
    gap = (part[::2] - part[1::2])[some]
    alone = -np.concatenate([gap[:, 1:-1], gap.sum(axis=1, keepdims=True)], axis=1)
    known = ways(gated)
    given = effect or {}
    pairs = np.arange(n, dtype=np.int64)
    hashes = pairs if prompt is None else np.asarray(prompt)
    f, r = np.float32, ("response", "component", "head")
    variables = {
        "part": (r, part.astype(f)),
        "part_raw": (r, raw.astype(f)),
        "lens": (("response", "depth", "head"), _lens(part).astype(f)),
        "lens_raw": (("response", "depth", "head"), _lens(raw).astype(f)),
        "score": (("response", "head"), part.sum(axis=1).astype(f)),
        "margin": (("patched", "head"), gap.sum(axis=1).astype(f)),
        "effect": (
            ("way", "patched", "node", "head"),
            np.stack([given.get(way.name, alone) for way in known]).astype(f),
        ),
        "direct": (
            ("patched", "component", "head"),
            np.asarray(-gap if direct is None else direct, f),
        ),
        "comparison_of_patched": ("patched", some.astype(np.int64)),
        **{
            about: ("way", texts(getattr(way, about) for way in known))
            for about in ("mode", "alignment", "positions", "sides", "gate")
        },
        "item_of_response": ("response", np.repeat(pairs, 2)),
        "slot": ("response", np.tile(np.asarray([0, 1], np.int64), n)),
        "prompt_hash": ("item", texts(f"{p:016x}" for p in hashes)),
        "n_prompt_tokens": ("item", np.full(n, 10, np.int64)),
        "n_response_tokens": ("response", np.full(2 * n, 10, np.int64)),
        "better": ("comparison", 2 * pairs),
        "worse": ("comparison", 2 * pairs + 1),
        "criterion": ("comparison", texts(["preference"] * n)),
        "subset": ("comparison", texts(["all"] * n)),
        "head_source": ("head", texts(["planted"] * k)),
        "head_concept": ("head", texts([""] * k)),
    }
    coords = {
        "head": texts(names),
        "item": texts(pairs),
        "response": np.arange(2 * n, dtype=np.int64),
        "component": texts(components(layers)),
        "node": texts([*components(layers)[1:-1], EVERYTHING]),
        "way": texts(way.name for way in known),
    }
    attrs = {key: kind() if (kind := _plain(ATTRS[key])) else "" for key in ATTRS}
    attrs |= {"model": model, "dataset": name, "items": "0" * 16}
    attrs["extraction"] = {"dtype": "float32", "packing": "none", "device": "cpu"}
    attrs |= {"seed": 0, "command": "", "seconds": 0.0}
    attrs |= {"sums_within": 0.0, "everything_within": 0.0}
    return check(xr.Dataset(variables, coords, attrs))


def _plain(kind) -> type:
    return getattr(kind, "__origin__", kind)


def _lens(part: np.ndarray) -> np.ndarray:
    """The constant and what was added up to each layer: (responses, layers + 1, heads)."""
    return part[:, :-1].cumsum(axis=1)[:, ::2] + part[:, -1:]


def effects_world(
    pairs: int = 48,
    layers: int = 4,
    carrier: str = "mlp 3",
    decoy: tuple[str, str] = ("attention 2", "mlp 2"),
    strength: float = 1.0,
    seed: int = 0,
) -> xr.Dataset:
    """One component carries the reward of the first head, none that of the second.

    What ``carrier`` adds to ``head_0`` is larger in the better response by ``strength`` of
    its noise's standard deviation. The first ``decoy`` writes ten times as much, and the second
    takes it away again, in whatever response: patches of the first go through the second, so
    neither moves a margin. With ``strength`` 0 nothing is carried at all.
    """
    generator = np.random.default_rng(seed)
    names = components(layers)
    part = 0.1 * generator.standard_normal((2 * pairs, len(names), 2))
    part[:, -1] = [0.5, -1.0]
    label = np.tile([0.5, -0.5], pairs)
    part[:, names.index(carrier), 0] += strength * label + 0.3 * generator.standard_normal(
        2 * pairs
    )
    large = 10 * generator.standard_normal((2 * pairs, 2))
    part[:, names.index(decoy[0])] += large
    part[:, names.index(decoy[1])] -= large
    gap = part[::2] - part[1::2]
    moved = -np.concatenate([gap[:, 1:-1], gap.sum(axis=1, keepdims=True)], axis=1)
    first, second = (names.index(each) - 1 for each in decoy)
    both = moved[:, first] + moved[:, second]
    moved[:, first], moved[:, second] = both / 2, both / 2
    given = {way.name: moved for way in ways(False)}
    return make_effects(part, given, patched=range(pairs), name="planted/effects world")
