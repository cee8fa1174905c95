"""One forward pass per item: ``extract`` turns a model and items into a Run.

States are kept in the cache under what made them (weights, tokenizer, template, items,
dtype), so heads that change are scored again without running the model.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import xarray as xr

from lib import paths
from lib.data.items import Items
from lib.errors import DataError, ModelError
from lib.extraction import store as stores
from lib.extraction.run import TRAINED, align, check, comparisons, load_run, save_run

__all__ = ["TRAINED", "align", "check", "comparisons", "extract", "load_run", "save_run"]

TOO_LONG = "longer than the model's context"
REFUSED = "refused by the chat template"


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
        ``"trees"`` (each prompt computed once, no padding) or ``"padded"``.
    budget
        Tokens a row or batch; by device when ``None``. Results don't depend on it beyond
        rounding.
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
        opened = stores.open_store(folder, manifest)
        hidden, gate_hidden = _states(model, items, encoded, opened, packing, budget, progress)
    return _run(model, items, encoded, hidden, gate_hidden, fingerprint, manifest)


def _encode(model, items: Items):
    """Tokens of each item, and the items without those that can't be scored."""
    from lib.models.prompt import RenderError

    limit = getattr(model.backbone.config, "max_position_embeddings", None) or sys.maxsize
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
    return {
        "items": items.fingerprint,
        **{part: fingerprint[part] for part in ("backbone", "tokenizer", "template")},
        "dtype": str(next(model.backbone.parameters()).dtype).removeprefix("torch."),
        "packing": packing,
        "shard_responses": stores.SHARD_RESPONSES,
    }


def _digest(manifest: dict) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()[:16]


def _states(model, items, encoded, store, packing, budget, progress):
    from lib.extraction.forward import forward

    ids = items.prompts["item"].to_numpy()
    counts = [len(item.sequences) for item in encoded]
    first = np.cumsum([0, *counts])
    hidden, gate_hidden = [], []
    with _bar(len(encoded), progress) as advance:
        for number, shard in enumerate(stores.plan(counts)):
            size = {
                "hidden": int(first[shard.stop] - first[shard.start]),
                "gate_hidden": shard.stop - shard.start,
            }
            tensors = store.read(number, size)
            if tensors is None:
                states = forward(model.backbone, encoded[shard], packing, budget, on_step=advance)
                tensors = {"hidden": states.hidden, "gate_hidden": states.gate_hidden}
                _finite(tensors, ids[shard], counts[shard])
                store.write(number, tensors)
            else:
                advance(size["gate_hidden"])
            hidden.append(tensors["hidden"])
            gate_hidden.append(tensors["gate_hidden"])
    return np.concatenate(hidden), np.concatenate(gate_hidden)


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


def _run(model, items: Items, encoded, hidden, gate_hidden, fingerprint, manifest) -> xr.Dataset:
    import safetensors
    import torch
    import transformers

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
                    "packing": manifest["packing"],
                    "device": str(next(model.backbone.parameters()).device.type),
                },
                "versions": {
                    "torch": torch.__version__.split("+")[0],
                    "transformers": transformers.__version__,
                    "safetensors": safetensors.__version__,
                },
                "template_example": model.format.example,
            },
        )
    )
