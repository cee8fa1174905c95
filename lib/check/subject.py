"""What the lines of a check share: the items as the model tokenises them, and their scores."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from lib.data.items import Items
from lib.extraction import parity
from lib.extraction.forward import forward
from lib.extraction.job import REFUSED, unfit
from lib.models.prompt import EncodedItem, RenderError

FEW = 16  # items of which each text is scored alone, on a CPU
FEWER = 8  # in a quick check


def encoded(format, items: Items) -> tuple[Items, list[EncodedItem]]:
    """The items that a template renders, and their tokens."""
    found = format.encode_many(items.prompts["prompt"], items.answers)
    kept = [i for i, item in enumerate(found) if not isinstance(item, RenderError)]
    return items.select(np.asarray(kept, int), REFUSED), [found[i] for i in kept]


@dataclass
class Subject:
    """A loaded model with items that it can score.

    ``few`` are positions of the shortest of them: of these each text is scored alone, and again
    in every other way. Scores have the columns of ``Readout.columns``.
    """

    name: str
    model: Any
    items: Items
    encoded: list[EncodedItem]
    quick: bool

    @classmethod
    def of(cls, name: str, model, items: Items, found: list[EncodedItem], quick: bool) -> Subject:
        """With those items that fit the model; of a quick check the shortest alone."""
        fit = [i for i, item in enumerate(found) if not unfit(model, item)]
        if quick:
            fit = sorted(sorted(fit, key=lambda i: found[i].n_tokens)[:FEWER])
        return cls(name, model, items.select(np.asarray(fit, int)), [found[i] for i in fit], quick)

    @cached_property
    def few(self) -> list[EncodedItem]:
        """The shortest items; all of them on an accelerator."""
        on_cpu = next(self.model.backbone.parameters()).device.type == "cpu"
        return [self.encoded[i] for i in self._few[: FEW if on_cpu else None]]

    @cached_property
    def _few(self) -> list[int]:
        return sorted(range(len(self.encoded)), key=lambda i: self.encoded[i].n_tokens)

    @cached_property
    def kernel(self) -> tuple[str, str]:
        """What computes rows of trees; none, and why, where items are padded instead."""
        longest = max(len(ids) for item in self.encoded for ids in item.sequences)
        if getattr(self.model, "tree_limit", sys.maxsize) < longest:
            return "", "the model's attention doesn't suit trees"
        return parity.kernel(self.model, self.encoded)

    def scores(self, items: list[EncodedItem], model=None, **how) -> np.ndarray:
        """Scores of the items' responses, in one of the ways of ``forward``."""
        model = model or self.model
        return parity.scores(model, items, forward(model.backbone, items, **how))

    def fast(self, items: list[EncodedItem], model=None) -> np.ndarray:
        """Scores as an extraction computes them."""
        kernel, _ = self.kernel
        how = {"kernel": kernel} if kernel else {"packing": "padded"}
        return self.scores(items, model, **how)

    @cached_property
    def all(self) -> np.ndarray:
        """Scores of all items' responses."""
        return self.fast(self.encoded)

    @property
    def packed(self) -> np.ndarray:
        """Scores of ``few`` among all."""
        return self.all[self._rows(len(self.few))]

    @cached_property
    def alone(self) -> np.ndarray:
        """Scores of ``few``, each text by itself."""
        return self.scores(self.few, packing="padded", budget=1)

    @cached_property
    def sd(self) -> np.ndarray:
        """Standard deviation of each score over all items' responses."""
        return self.all.std(axis=0)

    @property
    def named(self) -> list[str]:
        """What the columns of scores are called."""
        names = [head.name for head in self.model.heads]
        return names if self.all.shape[1] == len(names) else [*names, "final score"]

    def _rows(self, count: int) -> np.ndarray:
        """Responses of so many of the shortest items, in their order."""
        owner = self.items.item_of_response
        return np.concatenate([np.flatnonzero(owner == i) for i in self._few[:count]])

    def shift(self, found: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Differences in standard deviations, of the scores that vary."""
        varies = self.sd > 0
        return np.abs(found - right)[:, varies] / self.sd[varies]

    def gaps(self, scores: np.ndarray, items: list[EncodedItem] | None = None) -> np.ndarray:
        """Better less worse of each comparison, (comparisons, columns); of ``few`` if given."""
        table = self.items.comparisons
        better, worse = table["better"].to_numpy(int), table["worse"].to_numpy(int)
        if items is not None:
            row = np.full(len(self.items.responses), -1)
            order = self._rows(len(items))
            row[order] = np.arange(len(order))
            known = (row[better] >= 0) & (row[worse] >= 0)
            better, worse = row[better][known], row[worse][known]
        return scores[better] - scores[worse]
