"""Items: prompts with their responses, and which response people preferred.

The one shape in which every preference set reaches a reward model. A pair set, a
best-of-four set and a 3×3 matrix are all comparisons over items scored once.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral

import numpy as np
import pandas as pd

from lib.errors import DataError

Turn = Mapping[str, str]
Prompt = Sequence[Turn]
Found = tuple | str  # what a loader makes of a row: arguments of ``Builder.add``, or why not

RESERVED = ("item", "slot", "text", "row")
"""Names no rating may have: columns of responses, and of tables made from them."""

FINGERPRINTED = {
    "prompts": ("item", "prompt_hash"),
    "responses": ("item", "slot", "text"),
    "comparisons": ("better", "worse", "criterion", "subset"),
}
"""Columns of each table that a fingerprint is of."""

BLOCK = 10_000  # rows hashed at a time
QUOTED = json.encoder.encode_basestring_ascii  # a text as ``json.dumps`` writes it


def count(number: int, what: str) -> str:
    """``1 item``, ``2 items``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def prompt_hash(prompt: Prompt) -> str:
    """Sixteen hex digits that identify a conversation by its roles and contents."""
    turns = [f"[{QUOTED(turn['role'])}, {QUOTED(turn['content'])}]" for turn in prompt]
    canonical = f"[{', '.join(turns)}]"
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Items:
    """Prompts, responses and comparisons of one dataset.

    Attributes
    ----------
    name
        The dataset's name, as given to ``load_items``.
    prompts
        One row an item, indexed by position: ``item`` (its id in the dataset, a string),
        ``prompt`` (a list of ``{"role", "content"}`` turns) and ``prompt_hash``.
    responses
        One row a response: ``item`` (the item's id), ``slot`` (its place within the
        item), ``text``, and any ratings as further float columns. Rows of an item are
        neighbours.
    comparisons
        One row a comparison: ``item``, ``better`` and ``worse`` (row numbers of
        ``responses``), ``criterion`` (what it was judged by) and ``subset``.
    dropped
        Rows that were left out, by reason.
    missing
        Subsets that the source lacks.
    about
        Licence, citation, origin and revision, for the pages.
    """

    name: str
    prompts: pd.DataFrame
    responses: pd.DataFrame
    comparisons: pd.DataFrame
    dropped: Mapping[str, int] = field(default_factory=dict)
    missing: Sequence[str] = ()
    about: Mapping[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.prompts)

    @property
    def item_of_response(self) -> np.ndarray:
        """Position in ``prompts`` of each response's item, shape (responses,)."""
        position = pd.Series(np.arange(len(self.prompts)), index=self.prompts["item"])
        return position.loc[self.responses["item"]].to_numpy()

    @property
    def answers(self) -> list[list[str]]:
        """The texts of each item's responses, by slot."""
        first = np.searchsorted(self.item_of_response, np.arange(1, len(self)))
        return [part.tolist() for part in np.split(self.responses["text"].to_numpy(), first)]

    @property
    def fingerprint(self) -> str:
        """SHA-256 of prompts, responses and comparisons, in order; 16 hex digits."""
        digest = hashlib.sha256()
        for table in FINGERPRINTED:
            for block in self.blocks(table):
                digest.update(block)
            digest.update(b"\0")
        return digest.hexdigest()[:16]

    def blocks(self, table: str, before: int = 0) -> Iterator[bytes]:
        """What a table gives to the fingerprint, with ``before`` responses in other pieces.

        Each row is a JSON array of texts; rows follow one another without a mark.
        """
        columns = [getattr(self, table)[column] for column in FINGERPRINTED[table]]
        if table == "comparisons" and before:
            columns[:2] = [column + before for column in columns[:2]]
        for start in range(0, len(columns[0]), BLOCK):
            cells = (column.iloc[start : start + BLOCK].tolist() for column in columns)
            rows = zip(*(map(QUOTED, map(str, column)) for column in cells), strict=True)
            yield f"[{']['.join(map(', '.join, rows))}]".encode()

    def select(self, keep: np.ndarray, reason: str | None = None) -> Items:
        """The items at the given positions (mask or integers), row numbers renewed.

        ``reason`` counts what was left out under ``dropped``; without it the choice is
        taken as part of the request and isn't counted.
        """
        keep = np.asarray(keep)
        keep = np.flatnonzero(keep) if keep.dtype == bool else np.sort(keep)
        old = np.flatnonzero(np.isin(self.item_of_response, keep))
        renumber = np.full(len(self.responses), -1)
        renumber[old] = np.arange(len(old))
        comparisons = self.comparisons[renumber[self.comparisons["better"]] >= 0].copy()
        comparisons["better"] = renumber[comparisons["better"]]
        comparisons["worse"] = renumber[comparisons["worse"]]
        dropped = dict(self.dropped)
        if reason and len(keep) < len(self):
            dropped[reason] = dropped.get(reason, 0) + len(self) - len(keep)
        return replace(
            self,
            prompts=self.prompts.iloc[keep].reset_index(drop=True),
            responses=self.responses.iloc[old].reset_index(drop=True),
            comparisons=comparisons.reset_index(drop=True),
            dropped=dropped,
        )

    def take(self, limit: int, order: str = "sample", seed: int = 0) -> Items:
        """At most ``limit`` items: a seeded sample in the original order, or the head.

        A ``limit`` of 0 takes all.

        Raises
        ------
        DataError
            For an unknown order, or a limit or seed that is not a whole number from 0.
        """
        if order not in ("sample", "head"):
            raise DataError("order 'sample' or 'head'", repr(order), "Choose one of the two.")
        if not isinstance(limit, Integral) or limit < 0:
            raise DataError("a limit of 0 (all) or more", repr(limit), "Give a whole number.")
        if not isinstance(seed, Integral) or seed < 0:
            raise DataError("a seed of 0 or more", repr(seed), "Give a whole number.")
        if not limit or limit >= len(self):
            return self
        if order == "head":
            return self.select(np.arange(limit))
        return self.select(np.random.default_rng(seed).permutation(len(self))[:limit])


class Builder:
    """Collects a dataset's items, and what it leaves out, and turns them into ``Items``."""

    def __init__(self, name: str, about: dict[str, str] | None = None):
        self.name, self.about = name, {} if about is None else about
        self._prompts: list[tuple] = []
        self._responses: list[tuple] = []
        self._ratings: list[Mapping[str, float]] = []
        self._comparisons: list[tuple] = []
        self.dropped: Counter[str] = Counter()
        self.missing: list[str] = []

    def add(
        self,
        item: str,
        prompt: str | Prompt,
        responses: Sequence[str],
        comparisons: Iterable[tuple[int, int, str, str]],
        ratings: Sequence[Mapping[str, float]] | None = None,
    ) -> None:
        """Add one item; a ``DataError`` for a rating named as in ``RESERVED``.

        Parameters
        ----------
        item
            Its id in the dataset, unique there.
        prompt
            A text, taken as one user turn, or a list of turns.
        responses
            Texts, in slot order.
        comparisons
            ``(better slot, worse slot, criterion, subset)`` rows.
        ratings
            For each response, its ratings by attribute.
        """
        taken = ratings and [name for name in RESERVED if any(name in each for each in ratings)]
        if taken:
            raise DataError(
                f"no ratings named {', '.join(RESERVED)} in item {item} of {self.name}",
                ", ".join(taken),
                "Rename those ratings.",
            )
        if isinstance(prompt, str):
            turns = [{"role": "user", "content": prompt}]
        else:
            turns = [{"role": turn["role"], "content": turn["content"]} for turn in prompt]
        item, start = str(item), len(self._responses)
        self._prompts.append((item, turns, prompt_hash(turns)))
        self._responses += [(item, slot, text) for slot, text in enumerate(responses)]
        if ratings:
            self._ratings += [{}] * (start - len(self._ratings))
            self._ratings += [dict(rated) for rated in ratings]
        self._comparisons += [
            (item, start + better, start + worse, criterion, subset)
            for better, worse, criterion, subset in comparisons
        ]

    def drop(self, reason: str, count: int = 1) -> None:
        """Count rows left out for a reason."""
        self.dropped[reason] += count

    def take(self, found: Found) -> None:
        """Add an item, or count why there is none."""
        if isinstance(found, str):
            self.drop(found)
        else:
            self.add(*found)

    def __len__(self) -> int:
        return len(self._prompts)

    def flush(self) -> Items:
        """The items collected since the last flush, which are then forgotten."""
        items = self.build()
        self.__init__(self.name, self.about)
        return items

    def build(self) -> Items:
        """The collected ``Items``; a ``DataError`` when there are none, or two share an id."""
        if not self._prompts:
            reasons = ", ".join(f"{count} {reason}" for reason, count in self.dropped.items())
            raise DataError(
                f"at least one usable row in {self.name}",
                f"none ({reasons or 'the source is empty'})",
                "Check the source and the names of its columns.",
            )
        prompts = _table(self._prompts, ["item", "prompt", "prompt_hash"])
        repeated = prompts["item"][prompts["item"].duplicated()]
        if len(repeated):
            raise DataError(
                f"distinct item ids in {self.name}",
                f"{repeated.iloc[0]!r} more than once",
                "Give each row its own id, or leave the ids out.",
            )
        responses = _table(self._responses, ["item", "slot", "text"])
        if self._ratings:
            unrated = [{}] * (len(responses) - len(self._ratings))
            responses = responses.join(pd.DataFrame(self._ratings + unrated))
        columns = ["item", "better", "worse", "criterion", "subset"]
        return Items(
            name=self.name,
            prompts=prompts,
            responses=responses,
            comparisons=_table(self._comparisons, columns).astype(
                {"better": np.int64, "worse": np.int64}
            ),
            dropped=dict(self.dropped),
            missing=tuple(self.missing),
            about=dict(self.about),
        )


def _table(rows: list[tuple], columns: list[str]) -> pd.DataFrame:
    """A table made column by column, which is faster than row by row."""
    return pd.DataFrame(dict(zip(columns, zip(*rows, strict=True), strict=False)), columns=columns)


def in_chunks(builder: Builder, steps: Iterable[None], size: int) -> Iterator[Items]:
    """Items of a builder as its rows come in, at most ``size`` at a time.

    ``steps`` adds an item to the builder, or drops it, each time it is advanced. A piece is
    given when the next has begun or nothing follows, so that what is left out after the last
    item is counted with it.
    """
    ready = None
    for _ in steps:
        if len(builder) and ready is not None:
            yield ready
            ready = None
        if len(builder) == size:
            ready = builder.flush()
    if len(builder):
        ready = builder.flush()
    if ready is not None:
        dropped = dict(Counter(ready.dropped) + Counter(builder.dropped))
        yield replace(ready, dropped=dropped, missing=(*ready.missing, *builder.missing))
