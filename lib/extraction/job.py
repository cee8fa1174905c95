"""What an extraction is to compute.

``prepare``   plans the shards, sees that something can be scored, and names the store
``Job``       what came of it; encodes a shard when it is asked for, and leaves out what
              can't be scored
``Encoded``   what it encodes

Shards are planned over the items as given, so that each can be encoded by itself: by
whoever computes it, and while a GPU is at work on the one before.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from lib import paths
from lib.data.items import Items
from lib.errors import DataError, ModelError
from lib.extraction import store as stores
from lib.run import TRAINED, by_reason

TOO_LONG = "longer than the model's context"
REFUSED = "refused by the chat template"
METHOD = 2  # one more when the same model and items come out otherwise, be it by rounding
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
class Encoded:
    """Those of some items that the model can score."""

    items: list  # of ``lib.models.prompt.EncodedItem``
    places: list[int]  # of each of them among all of the job's items
    unscored: dict[str, list[str]]  # ids of the others, by reason

    @property
    def counts(self) -> list[int]:
        """Responses of each item."""
        return [len(item.sequences) for item in self.items]


@dataclass(frozen=True)
class Job:
    """What is to be computed, and where it goes."""

    model: Any
    items: Items  # as given, less those that trained a head
    fingerprint: dict[str, str]
    manifest: dict
    folder: Path
    taps: list  # of ``lib.extraction.taps.Tap``
    ahead: dict[int, Encoded] = field(default_factory=dict)  # shards encoded before their turn

    @property
    def tree_limit(self) -> int:
        """Tokens up to which the model's attention suits trees."""
        return getattr(self.model, "tree_limit", sys.maxsize)

    @cached_property
    def shards(self) -> list[slice]:
        """Items of each shard."""
        return stores.plan(self._counts, self.manifest["shard_responses"])

    def n_items(self, number: int) -> int:
        """Items of a shard, with those that can't be scored."""
        return self.shards[number].stop - self.shards[number].start

    @cached_property
    def n_chars(self) -> list[int]:
        """Characters of each shard's texts, which is about what it costs."""
        turns = self.items.prompts["prompt"]
        own = np.asarray([sum(len(turn["content"]) for turn in prompt) for prompt in turns])
        answers = self.items.responses["text"].str.len().to_numpy()
        np.add.at(own, self.items.item_of_response, answers)
        return [int(own[shard].sum()) for shard in self.shards]

    @cached_property
    def _counts(self) -> np.ndarray:
        return np.bincount(self.items.item_of_response, minlength=len(self.items))

    @cached_property
    def _answers(self) -> list[list[str]]:
        return self.items.answers

    def encode(self, number: int) -> Encoded:
        """Tokens of a shard's items, without those that can't be scored."""
        from lib.models.prompt import RenderError

        if number in self.ahead:
            return self.ahead[number]
        shard = self.shards[number]
        prompts = self.items.prompts["prompt"].iloc[shard]
        found = self.model.format.encode_many(prompts, self._answers[shard])
        encoded = Encoded([], [], {})
        for i, item in enumerate(found, shard.start):
            reason = REFUSED if isinstance(item, RenderError) else unfit(self.model, item)
            if reason:
                name = str(self.items.prompts["item"].iloc[i])
                encoded.unscored.setdefault(reason, []).append(name)
            else:
                encoded.items.append(item)
                encoded.places.append(i)
        return encoded

    def encode_ahead(self, number: int) -> None:
        """Encode a shard now, and keep that for its turn."""
        self.ahead[number] = self.encode(number)

    def first_scorable(self) -> Encoded:
        """The first shard that holds something to score.

        Raises
        ------
        NothingToScoreError
            When none does.
        """
        for number in range(len(self.shards)):
            self.encode_ahead(number)
            if self.ahead[number].items:
                return self.ahead[number]
        unscored = by_reason(part.unscored for part in self.ahead.values())
        raise NothingToScoreError(self.items.name, self.dropped(unscored), unscored)

    def dropped(self, unscored: Mapping[str, Sequence[str]]) -> dict[str, int]:
        """How many items were left out for each reason, those that can't be scored too."""
        counted = Counter(self.items.dropped)
        counted.update({reason: len(those) for reason, those in unscored.items()})
        return dict(counted)

    @property
    def is_stored(self) -> bool:
        """Is there a file of every shard?"""
        return stores.Store(self.folder, self.manifest).holds(range(len(self.shards)))

    def decide(self) -> dict[str, str]:
        """How it is computed; asked for a new store only."""
        kernel, fallback = self._kernel() if self.manifest["packing"] == "trees" else ("", "")
        return {
            "packing": "trees" if kernel else "padded",
            "attention": kernel or self.model.backbone.config._attn_implementation,
            **({"fallback": fallback} if fallback else {}),
        }

    def _kernel(self) -> tuple[str, str]:
        """The kernel for trees, none where they don't suit, and why not the fastest way."""
        from lib.extraction import parity

        limit = self.tree_limit
        if not limit:
            return "", "the model's attention doesn't suit trees"
        if limit < sys.maxsize:
            every = (item for n in range(len(self.shards)) for item in self.encode(n).items)
            longest = max(len(ids) for item in every for ids in item.sequences)
            if longest > limit:
                return "", (
                    f"a sequence of {longest} tokens; the model's attention suits trees up to "
                    f"{limit}"
                )
        return parity.kernel(self.model, self.first_scorable().items)


def prepare(
    model, items: Items, store, packing: str, held_out: bool, taps, fingerprint=None
) -> Job:
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
        if not isinstance(tap, str) and not tap.key:  # by which a store knows it
            raise ModelError("names of taps", repr(tap), "Give a Tap of your own to forward.")
    taps = tapping.resolve(taps)
    tapping.check(model.backbone, taps)
    items = replace(items, responses=items.responses.assign(row=np.arange(len(items.responses))))
    if held_out and model.trained_on:
        known = items.prompts["prompt_hash"].isin(model.trained_on).to_numpy()
        items = items.select(~known, TRAINED)
    fingerprint = dict(model.fingerprint if fingerprint is None else fingerprint)
    manifest = _manifest(model, items, fingerprint, packing)
    if taps:  # without, the store of before taps is still the same one
        manifest["taps"] = sorted(tap.key or tap.name for tap in taps)
    folder = Path(store) if store else paths.cache() / "states" / _digest(manifest)
    job = Job(model, items, fingerprint, manifest, folder, taps)
    job.first_scorable()
    if packing == "trees" and 0 < job.tree_limit < sys.maxsize:
        for number in range(len(job.shards)):  # all are asked for their length
            job.encode_ahead(number)
    return job


def unfit(model, item) -> str:
    """Why an encoded item can't be scored; empty when it can."""
    limit = getattr(model.backbone.config, "max_position_embeddings", None) or sys.maxsize
    if max(map(len, item.sequences)) > limit:
        return TOO_LONG
    known = model.backbone.get_input_embeddings().weight.shape[0]
    return NO_EMBEDDING if max(int(ids.max()) for ids in item.sequences) >= known else ""


def _manifest(model, items: Items, fingerprint: dict[str, str], packing: str) -> dict:
    """What identifies the states, before anything is computed."""
    from lib.models.identity import versions

    weights = next(model.backbone.parameters())
    return {
        "items": items.fingerprint,
        **{part: digest for part, digest in fingerprint.items() if part != "heads"},
        "dtype": str(weights.dtype).removeprefix("torch."),
        "device": weights.device.type,
        "versions": versions(),
        "packing": packing,
        "method": METHOD,
        "shard_responses": stores.shard_responses(weights.device.type),
    }


def _digest(manifest: dict) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()[:16]
