"""Preference data as Items and Comparisons: ``load_items`` is the one way in.

=====================  ===================================================================
name                   what
=====================  ===================================================================
``hh-rlhf``            helpfulness and harmlessness dialogues, by part
``reward-bench``       RewardBench, 23 subsets in four sections
``reward-bench-2``     RewardBench 2, best of four, and Ties
``rm-bench``           RM-Bench, three styles of right and wrong responses, by domain
``helpsteer2``         HelpSteer2 ratings as comparisons: ``/type-a``, ``/type-b``
``llmbar``             LLMBar, instruction following against a superficially better reply
``xstest``             XSTest completions with human refusal labels
``ultrafeedback``      UltraFeedback ratings, for training heads
``beavertails``        BeaverTails safety judgements, for training heads
``stimuli``            pairs of our own: ``/controlled``, ``/holistic``, ``/probes``
``file:PATH``          JSON Lines, JSON, Parquet or CSV with prompt, chosen, rejected
=====================  ===================================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from lib.data import (
    beavertails,
    file,
    helpsteer2,
    hh_rlhf,
    llmbar,
    reward_bench,
    reward_bench_2,
    rm_bench,
    stimuli,
    ultrafeedback,
    xstest,
)
from lib.data.items import Items, prompt_hash
from lib.errors import DataError, unknown

__all__ = ["NAMES", "SETS", "Items", "load_items", "prompt_hash", "stream_items"]

# Each module has ``load(name, part, *, split, source)``, ``PARTS`` and ``ABOUT``; a part may
# be left out where ``WHOLE`` is true. Adding a set is one entry here.
SETS = {
    "hh-rlhf": hh_rlhf,
    "reward-bench": reward_bench,
    "reward-bench-2": reward_bench_2,
    "rm-bench": rm_bench,
    "helpsteer2": helpsteer2,
    "llmbar": llmbar,
    "xstest": xstest,
    "ultrafeedback": ultrafeedback,
    "beavertails": beavertails,
    "stimuli": stimuli,
}
NAMES = (
    *(name for name, module in SETS.items() if module.WHOLE),
    *(f"{name}/{part}" for name, module in SETS.items() for part in module.PARTS),
    "file:PATH",
)


def load_items(
    name: str,
    *,
    split: str = "test",
    source: str | Path | None = None,
    limit: int = 0,
    seed: int = 0,
    order: str = "sample",
    ties: str = "drop",
) -> Items:
    """Load a preference set.

    Parameters
    ----------
    name
        One of the names above.
    split
        Where the set has splits.
    source
        A folder that holds the set's files in their published layout. Without it they come
        from the hub at a pinned revision. Stimuli and files need none.
    limit
        At most this many items; 0 for all.
    seed
        Seed of the sample that ``limit`` takes.
    order
        ``"sample"`` (seeded, across the whole set) or ``"head"`` (the first ones).
    ties
        Of a file: rows that say that neither response was preferred are dropped and counted
        (``"drop"``), or are items without a comparison (``"keep"``).

    Raises
    ------
    DataError
        For an unknown name, a source that lacks the files, or rows that can't be used.
    """
    source = None if source in (None, "") else str(source)
    return _load(name, split, source, ties).take(limit, order, seed)


def stream_items(
    name: str,
    *,
    size: int = 10_000,
    split: str = "test",
    source: str | Path | None = None,
    ties: str = "drop",
) -> Iterator[Items]:
    """A preference set in pieces, for sets that don't fit in memory.

    Parameters
    ----------
    name, split, source, ties
        As for ``load_items``.
    size
        Items a piece. For files and hh-rlhf no more than a piece is held at a time; other
        sets are small, and cut after they were loaded. Each piece counts what was dropped
        while it was read.
    """
    if size < 1:
        raise DataError("a size of 1 or more", str(size), "Give a whole number.")
    source = None if source in (None, "") else str(source)
    family, _, part = name.partition("/")
    if name.startswith("file:"):
        yield from file.stream(name, name.removeprefix("file:"), size, ties)
    elif ties == "drop" and name in NAMES and hasattr(SETS[family], "stream"):
        stream = SETS[family].stream
        yield from stream(name, part or None, size=size, split=split, source=source)
    else:
        items = _load(name, split, source, ties)
        for start in range(0, len(items), size):
            piece = items.select(np.arange(start, min(start + size, len(items))))
            # What was dropped while the set was read counts once.
            yield replace(piece, dropped={}) if start else piece


def _load(name: str, split: str, source: str | None, ties: str = "drop") -> Items:
    if name.startswith("file:"):
        return file.load(name, name.removeprefix("file:"), ties)
    if name not in NAMES:
        raise unknown("dataset", name, NAMES, DataError)
    if ties != "drop":
        raise DataError(
            f"ties {'drop'!r} for {name}",
            repr(ties),
            "Only the ties of a file can be kept: published sets count them as their authors do.",
        )
    family, _, part = name.partition("/")
    return SETS[family].load(name, part or None, split=split, source=source)
