"""What an extraction is to compute, settled before the model runs.

``prepare``   encodes the items, leaves out what can't be scored, and names the store
``Job``       what came of it
"""

from __future__ import annotations

import hashlib
import itertools
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lib import paths
from lib.data.items import Items
from lib.errors import DataError, ModelError
from lib.extraction import store as stores
from lib.extraction.run import TRAINED

TOO_LONG = "longer than the model's context"
REFUSED = "refused by the chat template"
NO_EMBEDDING = "token that the model has no embedding for"


class NothingToScoreError(DataError):
    """No item is left; ``dropped`` counts why, ``unscored`` names those that can't be scored."""

    def __init__(
        self,
        name: str,
        dropped: Mapping[str, int],
        unscored: Mapping[str, Sequence[str]] | None = None,
    ):
        self.name, self.dropped, self.unscored = name, dict(dropped), dict(unscored or {})
        super().__init__(
            f"an item of {name} to score",
            "none: " + ", ".join(f"{count} {reason}" for reason, count in dropped.items()),
            "Choose other data, or extract with held_out=False.",
        )

    def __reduce__(self):
        return type(self), (self.name, self.dropped, self.unscored)


@dataclass(frozen=True)
class Job:
    """What is to be computed, and where it goes."""

    model: Any
    items: Items
    encoded: list
    unscored: dict[str, list[str]]  # ids of items that can't be scored, by reason
    fingerprint: dict[str, str]
    manifest: dict
    folder: Path
    taps: list  # of ``lib.extraction.taps.Tap``

    @property
    def counts(self) -> list[int]:
        """Responses of each item."""
        return [len(item.sequences) for item in self.encoded]

    @property
    def shards(self) -> list[slice]:
        """Items of each shard."""
        return stores.plan(self.counts, self.manifest["shard_responses"])

    @property
    def is_stored(self) -> bool:
        """Is there a file of every shard?"""
        return stores.Store(self.folder, self.manifest).holds(range(len(self.shards)))

    def decide(self) -> dict[str, str]:
        """How it is computed; asked for a new store only."""
        return _decide(self.model, self.encoded, self.manifest["packing"])


def prepare(model, items: Items, store, packing: str, held_out: bool, taps) -> Job:
    """The job of an extraction with these options, each as ``extract`` has it.

    Raises
    ------
    NothingToScoreError
        When no item is left to score.
    ModelError
        For an unknown packing or tap, or a backbone without what a tap listens to.
    """
    from lib.extraction import taps as tapping
    from lib.extraction.forward import check_packing

    check_packing(packing)
    for tap in taps:
        if not isinstance(tap, str):  # a store knows its taps by their names
            raise ModelError("names of taps", repr(tap), "Give a Tap of your own to forward.")
    taps = tapping.resolve(taps)
    tapping.check(model.backbone, taps)
    items = replace(items, responses=items.responses.assign(row=np.arange(len(items.responses))))
    if held_out and model.trained_on:
        known = items.prompts["prompt_hash"].isin(model.trained_on).to_numpy()
        items = items.select(~known, TRAINED)
    encoded, items, unscored = _encode(model, items)
    fingerprint = model.fingerprint
    manifest = _manifest(model, items, fingerprint, packing)
    if taps:  # without, the store of before taps is still the same one
        manifest["taps"] = sorted(tap.name for tap in taps)
    folder = Path(store) if store else paths.cache() / "states" / _digest(manifest)
    return Job(model, items, encoded, unscored, fingerprint, manifest, folder, taps)


def unfit(model, item) -> str:
    """Why an encoded item can't be scored; empty when it can."""
    limit = getattr(model.backbone.config, "max_position_embeddings", None) or sys.maxsize
    if max(map(len, item.sequences)) > limit:
        return TOO_LONG
    known = model.backbone.get_input_embeddings().weight.shape[0]
    return NO_EMBEDDING if max(int(ids.max()) for ids in item.sequences) >= known else ""


def _encode(model, items: Items):
    """Tokens of each item, the items without those that can't be scored, and the ids of these."""
    from lib.models.prompt import RenderError

    texts = items.responses["text"].to_numpy()
    first = np.searchsorted(items.item_of_response, np.arange(len(items) + 1))
    encoded, left = [], []
    unscored: dict[str, list[str]] = {}
    ids = items.prompts["item"].to_list()
    found = model.format.encode_many(
        items.prompts["prompt"], (texts[a:b] for a, b in itertools.pairwise(first))
    )
    for i, item in enumerate(found):
        reason = REFUSED if isinstance(item, RenderError) else unfit(model, item)
        if reason:
            unscored.setdefault(reason, []).append(str(ids[i]))
            continue
        encoded.append(item)
        left.append(i)
    dropped = Counter(items.dropped)
    dropped.update({reason: len(those) for reason, those in unscored.items()})
    if not left:
        raise NothingToScoreError(items.name, dropped, unscored)
    return encoded, replace(items.select(left), dropped=dict(dropped)), unscored


def _manifest(model, items: Items, fingerprint: dict[str, str], packing: str) -> dict:
    """What identifies the states, before anything is computed."""
    weights = next(model.backbone.parameters())
    return {
        "items": items.fingerprint,
        **{part: fingerprint[part] for part in ("backbone", "tokenizer", "template")},
        "dtype": str(weights.dtype).removeprefix("torch."),
        "device": weights.device.type,
        "versions": versions(),
        "packing": packing,
        "shard_responses": stores.shard_responses(weights.device.type),
    }


def versions() -> dict[str, str]:
    """Of what computes the states."""
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
