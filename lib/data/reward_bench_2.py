"""RewardBench 2: 1,865 prompts with one right answer among four, and a Ties subset.

An item has its chosen responses at the first slots and its rejected ones after them;
``comparisons`` holds every chosen with every rejected response. Outside ``Ties`` one response
is chosen. In ``Ties`` the ids come in pairs: ``ref:n`` has one right answer, ``tied:n`` has
several equally right ones, and a head should keep those closer to each other than to any
wrong one. An item is ``part/id``, as ``ties/tied:7``. The official scores are
``lib.analyses.validity.official.reward_bench_2``.

``criterion`` is the part (``precise-if``), ``subset`` the published name (``Precise IF``).
Items with an empty prompt or response are dropped. A source folder holds the published file,
``test.parquet`` (or .jsonl, .json, …; also under the hub's own name
``data/test-00000-of-00001.parquet``), or one for each subset, named as in ``PARTS``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from lib.data import sources
from lib.data.items import Builder, Found
from lib.data.rows import BENCHMARK, Row, crossed, is_blank, labelled
from lib.errors import DataError

SET = "reward-bench-2"
REPOSITORY = "allenai/reward-bench-2"
REVISION = "7ff08853b0d5686e79b13fda8677024f566a104a"
TIES = "Ties"
SUBSETS = {
    "factuality": "Factuality",
    "precise-if": "Precise IF",
    "math": "Math",
    "safety": "Safety",
    "focus": "Focus",
    "ties": TIES,
}
# Items of each subset at the pinned revision, 1,865 in all; Ties is 51 pairs of items.
COUNTS = {
    "Factuality": 475,
    "Precise IF": 160,
    "Math": 183,
    "Safety": 450,
    "Focus": 495,
    TIES: 102,
}
TIE_ID = re.compile(r"(ref|tied):(\d+)$")
PARTS = tuple(SUBSETS)
WHOLE = True
SPLITS = ("test",)
FILES = ("test", "data/test-00000-of-00001")
ABOUT = {
    "licence": "ODC-BY; responses carry their models' terms",
    "origin": f"{REPOSITORY} at {REVISION[:8]}, or its files in a folder",
    "citation": "Malik et al. (2025), RewardBench 2: Advancing Reward Model Evaluation",
    "cite": "malik2025rewardbench2",
}

_PART_OF = {subset: part for part, subset in SUBSETS.items()}


def items(builder: Builder, part: str | None, split: str, source: str | None) -> Iterator[Found]:
    """Items of one subset, or of all that the source has."""
    wanted = [SUBSETS[part]] if part else list(COUNTS)
    asked = ("subset", SUBSETS[part], part) if part else None
    files = [("", rows) for rows in _files(part, source)]
    for subset, row in labelled(builder, files, "subset", COUNTS, wanted, SET, asked):
        yield _item(row, subset, _PART_OF[subset])


def _files(part: str | None, source: str | None) -> list[Iterable[dict]]:
    """The published file, which may lack; or one for each subset."""
    hub = {"repository": REPOSITORY, "revision": REVISION, "split": "test"}
    whole = sources.rows(source, *FILES, required=False, **hub)
    if whole:
        return [whole]
    if part:
        return [sources.read_rows(sources.require(source, part))]
    paths = [path for each in PARTS if (path := sources.find(source, each))]
    if not paths:
        sources.require(source, *FILES)
    return [sources.read_rows(path) for path in paths]


def _item(row: Row, subset: str, part: str) -> Found:
    turns, chosen, rejected = row.prompt(), row.texts("chosen"), row.texts("rejected")
    identity = str(row.field("id"))
    if subset == TIES:
        _check_tie(identity, len(chosen), row.where)
    elif len(chosen) != 1:
        raise DataError(
            f"one chosen response in row {row.number} of {row.where}", f"{len(chosen)}", BENCHMARK
        )
    if is_blank(turns):
        return "empty prompt"
    responses = chosen + rejected
    if not all(each.strip() for each in responses):
        return "an empty response"
    pairs = crossed(len(chosen), len(rejected), part, subset)
    return f"{part}/{identity}", turns, responses, pairs


def _check_tie(identity: str, chosen: int, where: str) -> None:
    match = TIE_ID.fullmatch(identity)
    if not match:
        raise DataError(f"ids 'ref:n' and 'tied:n' in {where}", repr(identity), BENCHMARK)
    if (match[1] == "ref") != (chosen == 1):
        raise DataError(
            f"one chosen response for 'ref:n' and several for 'tied:n' in {where}",
            f"{chosen} for {identity!r}",
            BENCHMARK,
        )
