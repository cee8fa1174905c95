"""One forward pass per item: ``extract`` turns a model and items into a Run.

States are kept in the cache under what made them (weights, tokenizer, template, items,
dtype, device, versions), so heads that change are scored again without running the model.
"""

from __future__ import annotations

import hashlib
import json
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import xarray as xr

from lib import paths
from lib.data.items import Items
from lib.errors import DataError, ModelError
from lib.extraction import store as stores
from lib.extraction.run import (
    TRAINED,
    align,
    check,
    check_target,
    comparisons,
    load_run,
    save_run,
)

__all__ = [
    "TRAINED",
    "align",
    "check",
    "check_target",
    "comparisons",
    "extract",
    "load_run",
    "save_run",
]

TOO_LONG = "longer than the model's context"
REFUSED = "refused by the chat template"
NO_EMBEDDING = "token that the model has no embedding for"
# Compiling layers takes about a minute and saves about a fifth: for runs of minutes.
COMPILE_FROM = 2e17  # floating-point operations


def extract(
    model,
    items: Items,
    *,
    store: str | Path | None = None,
    packing: str = "trees",
    budget: int | None = None,
    held_out: bool = True,
    progress: bool | None = None,
) -> xr.Dataset:
    """Score every response of the items.

    Parameters
    ----------
    model
        A ``lib.models.RewardModel``.
    items
        What ``load_items`` returned.
    store
        Folder for the states; in the cache by default.
    packing
        ``"trees"`` (each prompt computed once, no padding) or ``"padded"``. A model that
        trees don't suit is padded all the same, and the run's attributes say why.
    budget
        Tokens a row or batch; by device when ``None``. Results don't depend on it beyond
        rounding. Halved, with a warning, when memory is short.
    held_out
        Leave out items whose prompt trained one of the model's heads, and count them.
    progress
        Show a bar; by default only in a terminal.

    Returns
    -------
    xarray.Dataset
        A Run, as described in ``lib.extraction.run``.

    Raises
    ------
    DataError
        When no item is left to score.
    ModelError
        For an unknown packing, or when a state isn't finite, naming the item.
    StoreError
        When the store is another's, in use, or can't be written.
    """
    from lib.extraction.forward import check_packing

    check_packing(packing)
    items = replace(items, responses=items.responses.assign(row=np.arange(len(items.responses))))
    if held_out and model.trained_on:
        known = items.prompts["prompt_hash"].isin(model.trained_on).to_numpy()
        items = items.select(~known, TRAINED)
    encoded, items = _encode(model, items)
    fingerprint = model.fingerprint
    manifest = _manifest(model, items, fingerprint, packing)
    folder = Path(store) if store else paths.cache() / "states" / _digest(manifest)
    with stores.lock(folder):
        opened = stores.open_store(
            folder, manifest, lambda: _decide(model, encoded, manifest["packing"])
        )
        states = _states(model, items, encoded, opened, budget, progress)
    return _run(model, items, encoded, states, fingerprint, opened.manifest)


def _encode(model, items: Items):
    """Tokens of each item, and the items without those that can't be scored."""
    from lib.models.prompt import RenderError

    limit = getattr(model.backbone.config, "max_position_embeddings", None) or sys.maxsize
    known = model.backbone.get_input_embeddings().weight.shape[0]
    texts = items.responses["text"].to_numpy()
    first = np.searchsorted(items.item_of_response, np.arange(len(items) + 1))
    encoded, left = [], []
    dropped = Counter(items.dropped)
    for i, prompt in enumerate(items.prompts["prompt"]):
        try:
            item = model.format.encode(prompt, texts[first[i] : first[i + 1]])
        except RenderError:
            dropped[REFUSED] += 1
            continue
        if max(map(len, item.sequences)) > limit:
            dropped[TOO_LONG] += 1
            continue
        if max(int(ids.max()) for ids in item.sequences) >= known:
            dropped[NO_EMBEDDING] += 1
            continue
        encoded.append(item)
        left.append(i)
    if not left:
        raise DataError(
            f"an item of {items.name} to score",
            "none: " + ", ".join(f"{count} {reason}" for reason, count in dropped.items()),
            "Choose other data, or extract with held_out=False.",
        )
    items = items.select(left)
    return encoded, replace(items, dropped=dict(dropped))


def _manifest(model, items: Items, fingerprint: dict[str, str], packing: str) -> dict:
    """What identifies the states, before anything is computed."""
    weights = next(model.backbone.parameters())
    return {
        "items": items.fingerprint,
        **{part: fingerprint[part] for part in ("backbone", "tokenizer", "template")},
        "dtype": str(weights.dtype).removeprefix("torch."),
        "device": weights.device.type,
        "versions": _versions(),
        "packing": packing,
        "shard_responses": stores.SHARD_RESPONSES,
    }


def _versions() -> dict[str, str]:
    import torch
    import transformers

    return {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__}


def _digest(manifest: dict) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()[:16]


def _decide(model, encoded, packing: str) -> dict[str, str]:
    """The packing that suits model and items, its attention, and why if it's another."""
    from lib.extraction import attention, parity

    fallback = ""
    if packing == "trees":
        limit = getattr(model, "tree_limit", sys.maxsize)
        longest = max(len(ids) for item in encoded for ids in item.sequences)
        if longest > limit:
            fallback = (
                f"a sequence of {longest} tokens; the model's attention suits trees up to {limit}"
                if limit
                else "the model's attention doesn't suit trees"
            )
        else:
            first = next(iter(stores.plan([len(item.sequences) for item in encoded])))
            fallback = parity.objection(model, encoded[first])
    if packing == "padded" or fallback:
        decided = {"packing": "padded", "attention": model.backbone.config._attn_implementation}
    else:
        decided = {"packing": "trees", "attention": attention.kernel_for(model.backbone)}
    return decided | ({"fallback": fallback} if fallback else {})


@dataclass(frozen=True)
class _States:
    """States of all items; ``halved`` is the budget that memory had room for, if it was cut."""

    hidden: np.ndarray
    gate_hidden: np.ndarray
    halved: int | None


def _states(model, items, encoded, store, budget, progress) -> _States:
    from lib.extraction import forward as forwards

    packing = store.manifest[stores.DECIDED]["packing"]
    asked = budget = budget or forwards.default_budget(model.backbone)
    ids = items.prompts["item"].to_numpy()
    counts = [len(item.sequences) for item in encoded]
    first = np.cumsum([0, *counts])
    compiled = _operations(model, encoded) >= COMPILE_FROM
    hidden, gate_hidden = [], []
    with _bar(len(encoded), progress) as advance:
        for number, shard in enumerate(stores.plan(counts)):
            size = {
                "hidden": int(first[shard.stop] - first[shard.start]),
                "gate_hidden": shard.stop - shard.start,
            }
            tensors = store.read(number, size)
            if tensors is None:
                states = forwards.forward(
                    model.backbone,
                    encoded[shard],
                    packing,
                    budget,
                    on_step=advance,
                    compiled=compiled,
                )
                if states.budget < budget:
                    warnings.warn(
                        f"out of memory: going on with {states.budget} tokens a row instead "
                        f"of {budget}",
                        stacklevel=3,
                    )
                    budget = states.budget
                tensors = {"hidden": states.hidden, "gate_hidden": states.gate_hidden}
                _finite(tensors, ids[shard], counts[shard])
                store.write(number, tensors)
            else:
                advance(size["gate_hidden"])
            hidden.append(tensors["hidden"])
            gate_hidden.append(tensors["gate_hidden"])
    halved = budget if budget < asked else None
    return _States(np.concatenate(hidden), np.concatenate(gate_hidden), halved)


def _operations(model, encoded) -> float:
    """Floating-point operations of the run's matrix products, about."""
    weights = sum(parameter.numel() for parameter in model.backbone.parameters())
    return 2.0 * weights * sum(item.n_tokens for item in encoded)


def _finite(tensors, ids, counts) -> None:
    owners = {
        "hidden": np.repeat(np.arange(len(ids)), counts),
        "gate_hidden": np.arange(len(ids)),
    }
    for name, values in tensors.items():
        bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
        if len(bad):
            raise ModelError(
                "finite hidden states",
                f"NaN or infinity for item {ids[owners[name][bad[0]]]!r} ({len(bad)} in all)",
                "Run in float32, or leave that item out.",
            )


@contextmanager
def _bar(total: int, progress: bool | None) -> Iterator:
    from tqdm import tqdm

    show = sys.stderr.isatty() if progress is None else progress
    with tqdm(total=total, unit="item", disable=not show, desc="extract") as bar:
        yield bar.update


def _run(model, items: Items, encoded, states: _States, fingerprint, manifest) -> xr.Dataset:
    import safetensors

    hidden, gate_hidden = states.hidden, states.gate_hidden
    halved = {} if states.halved is None else {"out of memory": f"rows cut to {states.halved}"}
    owner = items.item_of_response
    readout = model.read(hidden, gate_hidden[owner] if model.gated else None)
    n_prompt = np.asarray([item.n_prompt for item in encoded])
    lengths = np.asarray([len(ids) for item in encoded for ids in item.sequences])
    table = items.comparisons
    row = items.responses["row"].to_numpy(np.int64)
    variables = {
        "score": (("response", "head"), readout.score),
        "hidden": (("response", "feature"), hidden),
        "gate_hidden": (("item", "feature"), gate_hidden),
        "item_of_response": ("response", owner),
        "slot": ("response", items.responses["slot"].to_numpy(np.int64)),
        "prompt_hash": ("item", items.prompts["prompt_hash"].to_numpy(np.str_)),
        "n_prompt_tokens": ("item", n_prompt),
        "n_response_tokens": ("response", lengths - n_prompt[owner]),
        "n_chars": ("response", items.responses["text"].str.len().to_numpy(np.int64)),
        "better": ("comparison", row[table["better"]]),
        "worse": ("comparison", row[table["worse"]]),
        "criterion": ("comparison", table["criterion"].to_numpy(np.str_)),
        "subset": ("comparison", table["subset"].to_numpy(np.str_)),
        "head_source": ("head", np.asarray([head.source for head in model.heads], np.str_)),
        "head_concept": ("head", np.asarray([head.concept for head in model.heads], np.str_)),
    }
    if readout.final is not None:
        variables["final"] = ("response", readout.final)
    if readout.gate is not None:
        first = np.unique(owner, return_index=True)[1]
        variables["gate"] = (("item", "head"), readout.gate[first])
    return check(
        xr.Dataset(
            variables,
            {
                "response": row,
                "head": np.asarray([head.name for head in model.heads], np.str_),
                "item": items.prompts["item"].to_numpy(np.str_),
            },
            {
                "model": model.name,
                "dataset": items.name,
                "items": items.fingerprint,
                "fingerprint": fingerprint,
                "dropped": {reason: int(count) for reason, count in items.dropped.items()},
                "missing": list(items.missing),
                "about": dict(items.about),
                "extraction": {
                    "dtype": manifest["dtype"],
                    "device": manifest["device"],
                    **manifest[stores.DECIDED],
                    **halved,
                },
                "versions": {**manifest["versions"], "safetensors": safetensors.__version__},
                "template_example": model.format.example,
            },
        )
    )
