"""Effects of a model's parts on its rewards, as ``lib.effects`` has them, computed.

One pass over the traced items (``tracing``), then each way to patch over some of their
comparisons, one a prompt (``patching``). Both are kept in the cache while they are made: a run
that was killed goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import xarray as xr

from lib import paths
from lib.effects import EVERYTHING, Way, check
from lib.effects import ways as all_ways
from lib.errors import DataError, ModelError
from lib.mechanisms.patching import GATE_AGAIN, PAIRED, SIDES, patch
from lib.mechanisms.tracing import trace
from lib.models.anatomy import describe
from lib.run import TRAINED, align, texts

TRACED = 100  # prompts
PATCHED = 48  # comparisons, one a prompt, where any are
GATE = "gate"  # where the final score's name comes from


def effects(
    model,
    items,
    *,
    traced: int = TRACED,
    patched: int = PATCHED,
    seed: int = 0,
    attention_heads: bool = False,
    store: str | Path | None = None,
    on_comparison: Callable[[], None] = lambda: None,
) -> xr.Dataset:
    """What each part of a model adds to its rewards, and what patching it does to margins.

    Parameters
    ----------
    model
        A ``lib.models.linear.LinearHeads`` on a described backbone.
    items
        What ``load_items`` returned. Those whose prompt trained a head are left out and counted.
    traced, patched
        How many items, and of how many comparisons, each of another prompt, ``seed`` draws.
        With none patched, what patches say is there with no rows.
    attention_heads
        Also tell each layer's attention heads apart.
    store
        Folder to keep in what is done; in the cache by default.
    on_comparison
        Called after each comparison in each way.

    Returns
    -------
    xarray.Dataset
        As in ``lib.effects``.

    Raises
    ------
    ModelError
        For a backbone that isn't described, heads that aren't linear in the last state, parts
        that don't sum, or memory that has no room for one text.
    DataError
        Where no comparison of two texts is left.
    StoreError
        When the store is another's, in use, or can't be written.
    """
    began = time.monotonic()
    explainable(model)
    if traced < 1 or patched < 0:
        raise DataError("items and comparisons to explain", f"{traced}, {patched}", "Ask for some.")
    items = drawn(model, items, traced, seed)
    place = Path(store) if store else paths.cache() / "patches"
    found = trace(
        model,
        items,
        attention_heads=attention_heads,
        held_out=False,  # left out already
        **({"store": place / "trace"} if store else {}),
    )
    some = _chosen(found, patched, seed)
    found = found.assign(comparison_of_patched=("patched", some))
    table = items.comparisons
    rows = table.set_index(["better", "worse", "criterion", "subset"], drop=False)
    rows = rows.assign(row=np.arange(len(table)))["row"]
    wanted = [
        int(np.atleast_1d(rows.loc[key])[0])
        for key in zip(
            *(found[name].values[some] for name in ("better", "worse", "criterion", "subset")),
            strict=True,
        )
    ]
    chosen = replace(items, comparisons=table.iloc[wanted].reset_index(drop=True))
    return check(_with_patches(found, model, chosen, seed, place, on_comparison, began))


def explainable(model) -> None:
    """Raise a ``ModelError`` for a model whose parts can't be told, saying what it would take."""
    describe(model.backbone)
    if getattr(model, "weight", None) is None:
        raise ModelError(
            "heads that are linear in the state after the final norm",
            f"{type(model).__name__} ({model.name})",
            "Leave lens, attribution and patching out for this model.",
        )


def drawn(model, items, traced: int, seed: int):
    """The items that are traced: a seeded sample of those that trained no head."""
    if model.trained_on:
        known = items.prompts["prompt_hash"].isin(model.trained_on).to_numpy()
        items = items.select(~known, TRAINED)
    compared = np.isin(np.arange(len(items)), items.item_of_response[items.comparisons["better"]])
    if not compared.any():
        raise DataError(
            f"a comparison of two responses to one prompt in {items.name}",
            f"none among {len(items)} items",
            "Take a dataset with pairs of responses that no head was trained on.",
        )
    return items.select(compared).take(traced, seed=seed)


def _chosen(found: xr.Dataset, patched: int, seed: int) -> np.ndarray:
    """Positions along ``comparison``: one of each prompt, of so many prompts."""
    if not found.sizes["comparison"]:
        raise DataError(
            f"a comparison of two different responses in {found.attrs['dataset']}",
            "none that the model can score",
            "Take other data.",
        )
    generator = np.random.default_rng(seed)
    order = generator.permutation(found.sizes["comparison"])
    prompt = align(found).prompt[order]
    first = np.unique(prompt, return_index=True)[1]
    return np.sort(order[np.sort(first)[:patched]])


def _with_patches(found, model, items, seed, place, on_comparison, began) -> xr.Dataset:
    names = [*found["head"].values]
    several = len(set(items.comparisons["item"])) != 1  # none has every way, with no rows
    ways = [way for way in all_ways(model.gated) if several or way.mode != "resample"]
    if len(items.comparisons):
        found, effect = _patched(found, model, items, ways, seed, place, on_comparison)
    else:
        found, effect = _unpatched(found, ways)
    sources = [*(head.source for head in model.heads), *[GATE] * model.gated]
    concepts = [*(head.concept for head in model.heads), *[""] * model.gated]
    found = found.assign(
        effect=(
            ("way", "patched", "node", "head"),
            np.stack([effect[way.name] for way in ways]),
        ),
        head_source=("head", texts(sources)),
        head_concept=("head", texts(concepts)),
        **{
            name: ("way", texts(getattr(way, name) for way in ways))
            for name in ("mode", "alignment", "positions", "sides", "gate")
        },
    ).assign_coords(
        head=texts(names),
        component=texts(found["component"].values),
        node=texts([*found["component"].values[1:-1], EVERYTHING]),
        way=texts(way.name for way in ways),
    )
    found.attrs |= {
        "seed": seed,
        "command": "",
        "seconds": round(time.monotonic() - began, 1),
        "everything_within": _everything(found),
    }
    return found


def _patched(
    found, model, items, ways: Sequence[Way], seed: int, place: Path, on_comparison
) -> tuple[xr.Dataset, dict[str, np.ndarray]]:
    """Margins and direct effects of patched comparisons, and what each way does to them."""
    effect: dict[str, np.ndarray] = {}
    groups: dict[tuple, list[Way]] = {}
    for way in ways:
        key = (way.mode in PAIRED, way.alignment, way.positions, way.sides)
        groups.setdefault(key, []).append(way)
    for number, ((_, alignment, positions, sides), same) in enumerate(groups.items()):
        made = patch(
            model,
            items,
            modes=list(dict.fromkeys(way.mode for way in same)),
            alignment=alignment,
            positions=positions,
            sides=SIDES if sides == "both" else (sides,),
            seed=seed,
            paths=not number,
            fingerprint=found.attrs["fingerprint"],
            store=place / _digest(model, found, items, same, seed),
            on_comparison=on_comparison,
        )
        if not number:
            first = made
        for way in same:
            columns = [*found["head"].values]
            if way.gate == "recomputed":
                columns[-1] = GATE_AGAIN
            effect[way.name] = made["effect"].sel(mode=way.mode, head=columns).values
    _same_order(first, found)
    assert first["node"].values.tolist() == [*found["component"].values[1:-1], EVERYTHING]
    found = found.assign(
        margin=(("patched", "head"), first["margin"].values),
        direct=(("patched", "component", "head"), first["direct"].values),
    )
    return found, effect


def _unpatched(found: xr.Dataset, ways: Sequence[Way]) -> tuple[xr.Dataset, dict[str, np.ndarray]]:
    """The same of no comparison."""
    components, heads = found.sizes["component"], found.sizes["head"]
    none = np.zeros((0, components, heads), np.float32)
    found = found.assign(
        margin=(("patched", "head"), none[:, 0]), direct=(("patched", "component", "head"), none)
    )
    nodes = none[:, 1:]  # without embedding and constant, with everything
    return found, {way.name: nodes for way in ways}


def _same_order(patches: xr.Dataset, found: xr.Dataset) -> None:
    """The comparisons that were patched are those chosen, in their order."""
    some = found["comparison_of_patched"].values
    for side in ("better", "worse"):
        assert patches[side].values.tolist() == found[side].values[some].tolist()


def _everything(found: xr.Dataset) -> float:
    """How far from 0 a pair's margin is left where everything is patched."""
    paired = found["mode"].isin(PAIRED) & (found["alignment"] == "both ends")
    left = found["effect"].sel(way=paired, node=EVERYTHING).values + found["margin"].values
    margin = found["margin"].values
    if not margin.size:
        return 0.0
    scale = np.maximum(np.abs(margin), margin.std(axis=0))
    return float((np.abs(left) / np.maximum(scale, np.finfo(np.float32).tiny)).max(initial=0.0))


def _digest(model, found: xr.Dataset, items, same: Sequence[Way], seed: int) -> str:
    """A name for what is patched in some ways."""
    weights = next(model.backbone.parameters())
    about = [items.fingerprint, found.attrs["fingerprint"], seed, [way.name for way in same]]
    about += [str(weights.dtype), weights.device.type]
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:16]
