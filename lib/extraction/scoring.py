"""Responses scored: the states of a job's shards, and the Run that they make."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import xarray as xr

from lib.data.items import RESERVED, Items
from lib.errors import ParameterError
from lib.extraction import shards
from lib.extraction import store as stores
from lib.extraction.job import Job, NothingToScoreError, prepare
from lib.run import IDENTICAL, SCHEMA, by_reason, check, texts


def extract(
    model,
    items: Items,
    *,
    store: str | Path | None = None,
    packing: str = "trees",
    budget: int | None = None,
    held_out: bool = True,
    progress: bool | None = None,
    gather: Sequence[str | Path] = (),
    taps: Sequence[str] = (),
    before: Callable[[], object] | None = None,
    fingerprint: Mapping[str, str] | None = None,
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
    gather
        Stores that ``extract_part`` filled elsewhere, whose shards are taken.
    taps
        What else to keep of the same pass, by name: see ``lib.extraction.taps``.
    before
        Called before shards are computed, unless all that are asked for are at hand; may
        raise.
    fingerprint
        Of the model, where it is known: it takes reading all weights.

    Returns
    -------
    xarray.Dataset
        A Run, as described in ``lib.run``.

    Raises
    ------
    DataError
        When no item is left to score.
    ModelError
        For an unknown packing or tap, a backbone without what a tap listens to, a template
        that closes a response in a way of its own, or when a state isn't finite, naming the
        item. What is computed by then is kept.
    StoreError
        When the store is another's, in use, or can't be written.
    """
    job = prepare(model, items, store, packing, held_out, taps, fingerprint)
    with stores.opened(job.folder, job.manifest, job.decide) as opened:
        for folder in gather:
            stores.adopt(folder, opened, len(job.shards))
        size, numbers = shards.Budget(job, budget), range(len(job.shards))
        if before is not None and not opened.holds(numbers):
            before()
        found = list(shards.computed(job, opened, numbers, size, progress))
    return _run_of(job, found, opened.manifest, size.halved)


def extract_part(
    model,
    items: Items,
    part: int,
    parts: int,
    *,
    store: str | Path | None = None,
    packing: str = "trees",
    budget: int | None = None,
    held_out: bool = True,
    progress: bool | None = None,
    taps: Sequence[str] = (),
    before: Callable[[], object] | None = None,
) -> Path:
    """Compute one worker's share of the states, for ``extract`` to gather; gives the store.

    Workers may write into one store, on one host or a shared disk, or each into its own,
    which ``extract(…, gather=folders)`` then collects.

    Parameters
    ----------
    part, parts
        Which worker of how many, from 0. Shards are shared out by the length of their texts.

    Raises
    ------
    ParameterError
        For a part that isn't one of them.
    """
    if not 0 <= part < parts:
        raise ParameterError(
            f"a part from 0 to {parts - 1} of {parts}", str(part), "Number the workers from 0."
        )
    job = prepare(model, items, store, packing, held_out, taps)
    mine = stores.parts(job.n_chars, parts)[part]
    for number in mine[:1]:
        job.encode_ahead(number)  # while another worker decides for all
    with stores.opened(job.folder, job.manifest, job.decide, (part, parts)) as opened:
        if before is not None and not opened.holds(mine):
            before()
        for _ in shards.computed(job, opened, mine, shards.Budget(job, budget), progress):
            pass
    return job.folder


def is_stored(
    model,
    items: Items,
    *,
    store: str | Path | None = None,
    held_out: bool = True,
    taps: Sequence[str] = (),
) -> bool:
    """Are all states of an extraction at hand, so that it takes no time?"""
    try:
        return prepare(model, items, store, "trees", held_out, taps).is_stored
    except NothingToScoreError:
        return True


def _run_of(
    job: Job, found: Sequence[shards.Shard], manifest: Mapping, halved: int | None
) -> xr.Dataset:
    """The Run of all of a job's shards, with the manifest of their store.

    ``halved`` is the budget that memory had room for, if it was cut.
    """
    import safetensors

    model, unscored = job.model, by_reason(shard.encoded.unscored for shard in found)
    encoded = [item for shard in found for item in shard.encoded.items]
    places = [place for shard in found for place in shard.encoded.places]
    items = replace(job.items.select(places), dropped=job.dropped(unscored))

    def states(name: str) -> np.ndarray:
        return np.concatenate([shard.tensors[name] for shard in found if shard.encoded.items])

    hidden, gate_hidden = states("hidden"), states("gate_hidden")
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
        **{tap.name: (SCHEMA[tap.name][0], states(tap.name)) for tap in job.taps},
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
    if rated := [name for name in items.responses if name not in RESERVED]:
        ratings = items.responses[rated].to_numpy(np.float32)
        variables["rating"] = (("response", "attribute"), ratings)
        variables["attribute_name"] = ("attribute", texts(rated))
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
                    **({"out of memory": f"rows cut to {halved}"} if halved else {}),
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
