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

``NAME#FORM,FORM`` is a set's own responses manipulated, ``lib.data.manipulations``.

``items``          prompts, responses, comparisons
``asks``           what the labels of each set ask
``concepts``       which concept a comparison is about, and which a name claims
``measures``       what can be measured of a text without a model
``sources``        a folder or the hub, ``github`` at a pinned commit
``rows``           checked rows of published sets, a module each: ``beavertails``, ``helpsteer2``,
                   ``hh_rlhf``, ``llmbar``, ``reward_bench``, ``reward_bench_2``, ``rm_bench``,
                   ``ultrafeedback``, ``xstest``
``file``           a user's own files, whose rows ``layouts`` reads; ``raters`` says whose choices
``stimuli``        pairs of our own
``manipulations``  a set's own responses with more of a surface
``describe``       a set in a few lines
``published``      figures of published audits
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from lib import manipulated
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
from lib.data.items import Builder, Items, in_chunks, prompt_hash
from lib.data.manipulations import manipulate
from lib.errors import DataError, unknown

__all__ = ["NAMES", "SETS", "Items", "load_items", "prompt_hash", "stream_items"]

# Each module has ``items(builder, part, split, source)``, which yields what the builder takes,
# ``PARTS``, ``SPLITS`` and ``ABOUT``; a part may be left out where ``WHOLE`` is true. Some have
# ``LARGE`` (it may not fit in memory), ``ALIASES`` of splits, or ``finish(items, part)``.
# Adding a set is one entry here.
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
        One of the names above, with or without forms of manipulation.
    split
        Where the set has splits.
    source
        A folder that holds the set's files in their published layout. Without it they come
        from the hub at a pinned revision. Stimuli and files need none.
    limit
        At most this many items; 0 for all. Manipulations are put to those that are taken.
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
        For an unknown name, a source that lacks the files, rows that can't be used, or a
        manipulation that fits no response.
    """
    own, forms = manipulated.split(name)
    items = _load(own, split, source, ties).take(limit, order, seed)
    return manipulate(items, forms) if forms else items


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
        sets are small, and cut after they were loaded, as those that are manipulated are.
        Each piece counts what was dropped while it was read.
    """
    if size < 1:
        raise DataError("a size of 1 or more", str(size), "Give a whole number.")
    family, forms = name.partition("/")[0], manipulated.split(name)[1]
    as_it_comes = name.startswith("file:") and not forms
    if as_it_comes or (not forms and ties == "drop" and getattr(SETS.get(family), "LARGE", False)):
        yield from in_chunks(*_open(name, split, source, ties), size)
        return
    items = load_items(name, split=split, source=source, ties=ties)
    for start in range(0, len(items), size):
        piece = items.select(np.arange(start, min(start + size, len(items))))
        # What was dropped while the set was read counts once.
        yield replace(piece, dropped={}) if start else piece


def _load(name: str, split: str, source: str | Path | None, ties: str) -> Items:
    builder, steps = _open(name, split, source, ties)
    for _ in steps:
        pass
    family, _, part = name.partition("/")
    finish = getattr(SETS.get(family), "finish", None)
    return finish(builder.build(), part or None) if finish else builder.build()


def _open(
    name: str, split: str, source: str | Path | None, ties: str
) -> tuple[Builder, Iterator[None]]:
    """A builder for a set, and the steps in which the set's rows come to it."""
    if name.startswith("file:"):
        builder = file.Judging(name)
        return builder, file.steps(builder, name.removeprefix("file:"), ties)
    if name not in NAMES:
        raise unknown("dataset", name, NAMES, DataError)
    if ties != "drop":
        raise DataError(
            f"ties {'drop'!r} for {name}",
            repr(ties),
            "Only the ties of a file can be kept: published sets count them as their authors do.",
        )
    family, _, part = name.partition("/")
    module = SETS[family]
    split = getattr(module, "ALIASES", {}).get(split, split)
    if module.SPLITS and split not in module.SPLITS:
        raise unknown(f"split of {family}", split, module.SPLITS, DataError)
    builder = Builder(name, dict(module.ABOUT))
    source = None if source in (None, "") else str(source)
    found = module.items(builder, part or None, split, source)
    return builder, map(builder.take, found)
