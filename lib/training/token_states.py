"""States of every token of a set of texts, in shards on disk: what an autoencoder learns from.

``write(backbone, items, folder)`` computes them once, shard by shard, each there whole or not
at all, so that a killed pass goes on where it stopped; ``TokenStates`` reads them, a shard in
memory at a time. A shard holds, of consecutive items::

    states   (tokens, features)  float16
    item     (tokens,)           int64    position of the item
    last     (tokens,)           int64    row of the response whose last token it is, else −1

A prompt's tokens are there once, however many responses it has. Half precision moves a
normalised state by at most 5e-4 of its largest entry.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file, save_file

from lib import documents
from lib.atomic import replacing
from lib.errors import StoreError
from lib.extraction import pack
from lib.models.prompt import EncodedItem

SHARD = 1 << 17  # tokens, about
BATCH = {"cpu": 2048, "cuda": 65536}  # tokens computed at a time
INDEX = "tokens.json"
FIELDS = {"made": str, "features": int, "shards": list[int]}


@dataclass(frozen=True)
class TokenStates:
    """Finished shards in a folder: ``tokens`` of each, and the states' ``features``."""

    folder: Path
    tokens: Sequence[int]
    features: int

    def __len__(self) -> int:
        return sum(self.tokens)

    def shard(self, number: int) -> dict[str, np.ndarray]:
        """``states``, ``item`` and ``last`` of one shard."""
        return load_file(_path(self.folder, number))

    def shards(self) -> Iterator[dict[str, np.ndarray]]:
        """All of them, one in memory at a time."""
        for number in range(len(self.tokens)):
            yield self.shard(number)


@dataclass(frozen=True)
class InMemory(TokenStates):
    """States at hand, as one shard."""

    held: dict[str, np.ndarray]

    @classmethod
    def of(cls, states: np.ndarray, item: np.ndarray | None = None) -> InMemory:
        """Each state an item by itself, and its last token, unless ``item`` says otherwise."""
        rows = np.arange(len(states))
        held = {
            "states": np.asarray(states, np.float16),
            "item": rows if item is None else np.asarray(item, np.int64),
            "last": rows,
        }
        return cls(Path(), [len(states)], states.shape[1], held)

    def shard(self, number: int) -> dict[str, np.ndarray]:
        """The one that there is."""
        return self.held


def write(
    backbone: torch.nn.Module, items: Sequence[EncodedItem], folder: str | Path, made: str
) -> TokenStates:
    """The states of all tokens of the items, computed unless they are there.

    Parameters
    ----------
    backbone
        Its ``last_hidden_state`` is kept.
    items
        As the model's format encodes them.
    folder
        New, empty, or of the same states unfinished.
    made
        What identifies the states: model and items.

    Raises
    ------
    StoreError
        When the folder holds other states.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    groups = _groups(items)
    features = backbone.config.get_text_config().hidden_size
    counts = [sum(items[i].n_tokens for i in group) for group in groups]
    note = {"made": made, "features": features, "shards": counts}
    if (folder / INDEX).is_file():
        kept = documents.read_json(
            folder / INDEX, what="a note of token states", error=StoreError, fields=FIELDS
        )
        if kept != note:
            raise StoreError(
                f"states of these tokens in {folder}", "others", "Name another folder."
            )
    elif any(folder.iterdir()):
        raise StoreError(f"a new folder for token states at {folder}", "other files", "Name one.")
    else:
        with replacing(folder / INDEX) as partial:
            partial.write_text(json.dumps(note) + "\n")
    first = np.cumsum([0, *(len(item.sequences) for item in items)])
    for number, group in enumerate(groups):
        if not (path := _path(folder, number)).is_file():
            found = _computed(backbone, [items[i] for i in group], group, first)
            with replacing(path) as partial:
                save_file(found, partial)
    return TokenStates(folder, counts, features)


def opened(folder: str | Path) -> TokenStates:
    """States that are there; a ``StoreError`` where some are missing."""
    folder = Path(folder)
    note = documents.read_json(
        folder / INDEX, what="a note of token states", error=StoreError, fields=FIELDS
    )
    missing = [n for n in range(len(note["shards"])) if not _path(folder, n).is_file()]
    if missing:
        raise StoreError(f"all shards of token states in {folder}", f"no {missing[0]}", "Finish.")
    return TokenStates(folder, note["shards"], note["features"])


def _path(folder: Path, number: int) -> Path:
    return folder / f"tokens-{number:05d}.safetensors"


def _groups(items: Sequence[EncodedItem]) -> list[list[int]]:
    """Consecutive items of about ``SHARD`` tokens."""
    found, size = [[]], 0
    for i, item in enumerate(items):
        if size >= SHARD:
            found.append([])
            size = 0
        found[-1].append(i)
        size += item.n_tokens
    return found


def _computed(backbone, items: list[EncodedItem], places, first) -> dict[str, np.ndarray]:
    """One shard: whole sequences in batches of like lengths, and of each what it adds."""
    device = next(backbone.parameters()).device
    sequences = [ids for item in items for ids in item.sequences]
    skip = [0 if n == 0 else item.n_shared for item in items for n in range(len(item.sequences))]
    made = [None] * len(sequences)
    for group in pack.plan_batches([len(ids) for ids in sequences], BATCH.get(device.type, 4096)):
        lengths = [len(sequences[i]) for i in group]
        ids = np.zeros((len(group), max(lengths)), np.int64)
        mask = np.zeros_like(ids)
        for row, i in enumerate(group):
            ids[row, : lengths[row]] = sequences[i]
            mask[row, : lengths[row]] = 1
        inputs = [torch.from_numpy(each).to(device) for each in (ids, mask)]
        with torch.inference_mode():
            states = backbone(
                input_ids=inputs[0], attention_mask=inputs[1], use_cache=False
            ).last_hidden_state
            host = states.to(torch.float16).cpu().numpy()
        for row, i in enumerate(group):
            made[i] = host[row, skip[i] : lengths[row]]
    sizes = [len(each) for each in made]
    owner = np.repeat(places, [len(item.sequences) for item in items])
    rows = np.concatenate([np.arange(first[i], first[i + 1]) for i in places])
    last = np.full(sum(sizes), -1)
    last[np.cumsum(sizes) - 1] = rows
    return {
        "states": np.concatenate(made),
        "item": np.repeat(owner, sizes).astype(np.int64),
        "last": last.astype(np.int64),
    }
