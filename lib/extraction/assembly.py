"""From a job and its states to a Run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import xarray as xr

from lib.data.items import Items
from lib.extraction import store as stores
from lib.extraction.job import Job
from lib.extraction.shards import States
from lib.run import IDENTICAL, SCHEMA, by_reason, check, texts


def assemble(job: Job, states: States, manifest) -> xr.Dataset:
    """The Run of a job's states; ``manifest`` is that of their store."""
    import safetensors

    model, unscored = job.model, by_reason(part.unscored for part in states.encoded)
    encoded = [item for part in states.encoded for item in part.items]
    places = [place for part in states.encoded for place in part.places]
    items = replace(job.items.select(places), dropped=job.dropped(unscored))
    hidden, gate_hidden = states.hidden, states.gate_hidden
    halved = {} if states.halved is None else {"out of memory": f"rows cut to {states.halved}"}
    owner = items.item_of_response
    readout = model.read(hidden, gate_hidden[owner] if model.gated else None)
    n_prompt = np.asarray([item.n_prompt for item in encoded])
    sequences = [ids for item in encoded for ids in item.sequences]
    lengths = np.asarray([len(ids) for ids in sequences])
    fingerprint = items.fingerprint  # of all that was scored
    items = _without_identical(items, sequences)
    table = items.comparisons
    row = items.responses["row"].to_numpy(np.int64)
    variables = {
        "score": (("response", "head"), readout.score),
        "hidden": (("response", "feature"), hidden),
        "gate_hidden": (("item", "feature"), gate_hidden),
        **{name: (SCHEMA[name][0], values) for name, values in states.taps.items()},
        "item_of_response": ("response", owner),
        "slot": ("response", items.responses["slot"].to_numpy(np.int64)),
        "prompt_hash": ("item", texts(items.prompts["prompt_hash"])),
        "n_prompt_tokens": ("item", n_prompt),
        "n_response_tokens": ("response", lengths - n_prompt[owner]),
        "n_chars": ("response", items.responses["text"].str.len().to_numpy(np.int64)),
        "better": ("comparison", row[table["better"]]),
        "worse": ("comparison", row[table["worse"]]),
        "criterion": ("comparison", texts(table["criterion"])),
        "subset": ("comparison", texts(table["subset"])),
        "head_source": ("head", texts(head.source for head in model.heads)),
        "head_concept": ("head", texts(head.concept for head in model.heads)),
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
                "head": texts(head.name for head in model.heads),
                "item": texts(items.prompts["item"]),
            },
            {
                "model": model.name,
                "dataset": items.name,
                "items": fingerprint,
                "fingerprint": job.fingerprint,
                "dropped": {reason: int(count) for reason, count in items.dropped.items()},
                "unscored": unscored,
                "missing": list(items.missing),
                "about": dict(items.about),
                "extraction": {
                    "dtype": manifest["dtype"],
                    "device": manifest["device"],
                    **manifest[stores.DECIDED],
                    **({"date": model.format.date} if model.format.date else {}),
                    "reads": model.card.get("reads") or model.format.reads,
                    **halved,
                },
                "versions": {**manifest["versions"], "safetensors": safetensors.__version__},
                "template_example": model.format.example,
            },
        )
    )


def _without_identical(items: Items, sequences: list[np.ndarray]) -> Items:
    """Without comparisons of responses whose tokens are the same: no model can tell them apart."""
    table = items.comparisons
    pairs = zip(table["better"], table["worse"], strict=True)
    same = np.asarray([np.array_equal(sequences[a], sequences[b]) for a, b in pairs], bool)
    if not same.any():
        return items
    dropped = {**items.dropped, IDENTICAL: int(same.sum())}
    return replace(items, comparisons=table[~same].reset_index(drop=True), dropped=dropped)
