"""States of datasets to train heads on: which side each prompt is on, and what is compared.

``bare_backbone``  the embedded backbone without heads, whose states are extracted
``load_part``      a dataset's items as a ``Part``
``comparisons``    what the gate learns from, of several parts
``sides``          the prompts of several parts by side of the split
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lib.data.items import Items
from lib.extraction import align, extract
from lib.models import backbone as backbones
from lib.models import resolve
from lib.models.frozen import FrozenHeads
from lib.models.prompt import PromptFormat
from lib.training import split

# Columns of responses that are no ratings.
FIXED = ("item", "slot", "text", "row", "judgements")
RULE = (
    f"by the digest of the first user turn: below {split.HELD_OUT_SHARE} held out, "
    f"the next {split.CHOOSE_SHARE} for choosing penalties, the rest for training"
)


def bare_backbone(device: str | None = None) -> FrozenHeads:
    """The embedded backbone without heads, in float32.

    ``device`` as for ``load_model``; a ``ModelError`` when that or the backbone isn't here.
    """
    device, dtype = resolve(device, None)
    backbone, tokenizer = backbones.load_embedded(device, dtype)
    return FrozenHeads(
        name=backbones.EMBEDDED,
        heads=[],
        backbone=backbone,
        format=PromptFormat(tokenizer, backbones.EMBEDDED, backbones.END_OF_TURN),
        weight=np.zeros((0, backbone.config.hidden_size), np.float32),
        bias=np.zeros(0, np.float32),
        card={},
    )


@dataclass(frozen=True)
class Part:
    """States of one dataset, with the side of each item.

    Attributes
    ----------
    hidden, gate_hidden
        Shapes (responses, features) and (items, features), float64.
    owner
        Item of each response; ``side``, ``opening`` and ``hashes`` are per item.
    side
        One of ``split.SIDES``.
    opening
        Digest of the first user turn, the unit of the split.
    better, worse
        Rows of the comparisons.
    rated
        Ratings and measures by name, shape (responses,), NaN where missing.
    hashes
        Of the prompts.
    """

    hidden: np.ndarray
    gate_hidden: np.ndarray
    owner: np.ndarray
    side: np.ndarray
    opening: np.ndarray
    better: np.ndarray
    worse: np.ndarray
    rated: Mapping[str, np.ndarray]
    hashes: np.ndarray

    @property
    def difference(self) -> np.ndarray:
        """Preferred state minus the other, shape (comparisons, features)."""
        return self.hidden[self.better] - self.hidden[self.worse]

    @property
    def both(self) -> np.ndarray:
        """Preferred state, then the other, shape (comparisons, 2, features)."""
        return np.stack([self.hidden[self.better], self.hidden[self.worse]], 1)

    @property
    def group(self) -> np.ndarray:
        """An integer for the opening of each item, for grouped folds."""
        return np.unique(self.opening, return_inverse=True)[1]

    def on(self, side: str) -> np.ndarray:
        """States of the responses on one side of the split."""
        return self.hidden[self.side[self.owner] == side]

    def pairs(self, per_item: np.ndarray) -> np.ndarray:
        """A per-item array at each comparison."""
        return per_item[self.owner[self.better]]

    def matrix(self, names: Sequence[str]) -> np.ndarray:
        """Ratings, shape (responses, names); NaN where this dataset has none."""
        missing = np.full(len(self.owner), np.nan)
        return np.column_stack([self.rated.get(name, missing) for name in names])


def load_part(
    model, items: Items, measures: Mapping[str, Callable[[str, int], float]] | None = None
) -> Part:
    """Extract the states of all items, also of those that the model's heads were trained on.

    ``measures`` are further ratings by name, each from a response's text and its length in
    tokens. Of the model only backbone and prompt format are used. Errors are those of
    ``lib.extraction.extract``.
    """
    run = extract(model, items, held_out=False)
    items = items.select(items.prompts["item"].isin(run["item"].values).to_numpy())
    aligned = align(run)
    prompts = items.prompts["prompt"]
    texts, tokens = items.responses["text"], run["n_response_tokens"].values.tolist()
    columns = [column for column in items.responses if column not in FIXED]
    rated = {column: items.responses[column].to_numpy(float) for column in columns}
    for name, measure in (measures or {}).items():
        rated[name] = np.asarray([*map(measure, texts, tokens)])
    return Part(
        hidden=run["hidden"].values.astype(float),
        gate_hidden=run["gate_hidden"].values.astype(float),
        owner=run["item_of_response"].values,
        side=split.side(prompts),
        opening=np.asarray([split.opening(prompt) for prompt in prompts]),
        better=aligned.better,
        worse=aligned.worse,
        rated=rated,
        hashes=items.prompts["prompt_hash"].to_numpy(),
    )


def grouped(parts: Sequence[Part]) -> Iterator[tuple[Part, np.ndarray]]:
    """Each part with its items' groups, which differ from those of other parts."""
    for number, part in enumerate(parts):
        yield part, part.group + number * 1_000_000


def comparisons(parts: Sequence[Part]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Prompt state, both responses' states, side and group of all comparisons of the parts."""
    found = [
        (part.pairs(part.gate_hidden), part.both, part.pairs(part.side), part.pairs(group))
        for part, group in grouped(parts)
    ]
    return tuple(map(np.concatenate, zip(*found, strict=True)))


def sides(parts: Sequence[Part]) -> dict[str, list[str]]:
    """Prompt hashes by side; a prompt on two sides would be a fault of the split."""
    found = {
        side: sorted(set(np.concatenate([part.hashes[part.side == side] for part in parts])))
        for side in split.SIDES
    }
    if sum(map(len, found.values())) != len(set().union(*found.values())):
        raise AssertionError("a prompt is on two sides of the split")
    return found
