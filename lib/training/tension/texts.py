"""What a study trains and tests on: comparisons as tokens, split by prompt.

``Texts``    responses of a dataset as tokens, with what was compared
``load``     a dataset's
``sample``   rows of some of their comparisons, seeded
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lib.data import load_items
from lib.errors import DataError
from lib.models.prompt import PromptFormat
from lib.training import split


@dataclass(frozen=True)
class Texts:
    """Responses of a dataset as tokens.

    Attributes
    ----------
    name, fingerprint
        Of the dataset.
    sequences
        Ids of prompt and response of each response, up to the token that is read.
    gate_at
        Position of the token that closes the prompt, of each response.
    better, worse
        Places in ``sequences``, of each comparison.
    origin, subset, opening, side
        Dataset and part of it, digest of the prompt's opening and side of the split
        (``lib.training.split``), of each comparison.
    """

    name: str
    fingerprint: str
    sequences: list[np.ndarray]
    gate_at: np.ndarray
    better: np.ndarray
    worse: np.ndarray
    origin: np.ndarray
    subset: np.ndarray
    opening: np.ndarray
    side: np.ndarray

    def __len__(self) -> int:
        return len(self.better)

    def where(self, rows: np.ndarray) -> Texts:
        """Some of the comparisons, with their own responses alone."""
        kept, places = np.unique(
            np.concatenate([self.better[rows], self.worse[rows]]), return_inverse=True
        )
        better, worse = np.split(places, 2)
        return replace(
            self,
            sequences=[self.sequences[i] for i in kept],
            gate_at=self.gate_at[kept],
            better=better,
            worse=worse,
            origin=self.origin[rows],
            subset=self.subset[rows],
            opening=self.opening[rows],
            side=self.side[rows],
        )

    def margins(self, scores: np.ndarray) -> np.ndarray:
        """score(better) − score(worse) of scores (…, responses): shape (…, comparisons)."""
        return scores[..., self.better] - scores[..., self.worse]


def load(name: str, format: PromptFormat, source: str = "", limit: int = 0) -> Texts:
    """A dataset's responses as tokens; comparisons of equal tokens are left out.

    Raises
    ------
    DataError
        Where no comparison of different responses is left.
    """
    items = load_items(name, source=source, limit=limit)
    owner = items.item_of_response
    encoded = format.encode_many(items.prompts["prompt"], items.answers)
    slot = items.responses["slot"].to_numpy()
    sequences = [
        None if isinstance(encoded[item], Exception) else encoded[item].sequences[place]
        for item, place in zip(owner, slot, strict=True)
    ]
    table = items.comparisons
    better, worse = table["better"].to_numpy(), table["worse"].to_numpy()
    used = np.asarray(
        [
            sequences[one] is not None and not np.array_equal(sequences[one], sequences[other])
            for one, other in zip(better, worse, strict=True)
        ],
        bool,
    )
    if not used.any():
        found = f"none among {len(table)}"
        raise DataError(
            f"a comparison of two different responses in {name}", found, "Give another set."
        )
    prompts = items.prompts["prompt"]
    of = owner[better]
    whole = Texts(
        name,
        items.fingerprint,
        sequences,
        np.asarray([0 if isinstance(encoded[i], Exception) else encoded[i].gate_at for i in owner]),
        better,
        worse,
        np.full(len(table), name),
        table["subset"].to_numpy().astype(str),
        np.asarray([split.opening(prompt) for prompt in prompts])[of],
        split.side(prompts)[of],
    )
    return whole.where(np.flatnonzero(used))


def sample(texts: Texts, n: int, seed: int) -> np.ndarray:
    """Rows of at most n comparisons of each subset, drawn by a seed."""
    generator = np.random.default_rng(seed)
    rows = [
        generator.permutation(np.flatnonzero(texts.subset == subset))[:n]
        for subset in np.unique(texts.subset)
    ]
    return np.sort(np.concatenate(rows))


def joined(first: Texts, second: Texts) -> Texts:
    """Two sets as one, one after the other."""
    n = len(first.sequences)
    return Texts(
        f"{first.name} and {second.name}",
        f"{first.fingerprint}+{second.fingerprint}",
        [*first.sequences, *second.sequences],
        np.append(first.gate_at, second.gate_at),
        np.append(first.better, second.better + n),
        np.append(first.worse, second.worse + n),
        np.append(first.origin, second.origin),
        np.append(first.subset, second.subset),
        np.append(first.opening, second.opening),
        np.append(first.side, second.side),
    )
