"""RewardBench 2: 1,865 prompts with one right answer among four, and a Ties subset.

An item has its chosen responses at the first slots and its rejected ones after them;
``comparisons`` holds every chosen with every rejected response. Outside ``Ties`` one response
is chosen. In ``Ties`` the ids come in pairs: ``ref:n`` has one right answer, ``tied:n`` has
several equally right ones, and a head should keep those closer to each other than to any
wrong one. An item is ``part/id``, as ``ties/tied:7``. The official scores are
``lib.analyses.validity.official.reward_bench_2``.

``criterion`` is the part (``precise-if``), ``subset`` the published name (``Precise IF``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from lib.data import sources
from lib.data.items import Builder, Items
from lib.data.reward_bench import field, prompt, text, texts
from lib.errors import DataError, unknown

SET = "reward-bench-2"
REPOSITORY = "allenai/reward-bench-2"
REVISION = "7ff08853b0d5686e79b13fda8677024f566a104a"
TIES = "Ties"
SUBSETS: Mapping[str, str] = {
    "factuality": "Factuality",
    "precise-if": "Precise IF",
    "math": "Math",
    "safety": "Safety",
    "focus": "Focus",
    "ties": TIES,
}
# Items of each subset at the pinned revision, 1,865 in all; Ties is 51 pairs of items.
COUNTS: Mapping[str, int] = {
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


def load(name: str, part: str | None, *, split: str = "test", source: str | None = None) -> Items:
    """Items of one subset, or of all that the source has.

    Parameters
    ----------
    name
        The dataset's full name, kept on the items.
    part
        One of ``PARTS``; ``None`` for all.
    split
        ``"test"``; there is no other.
    source
        A folder with the published file, ``test.parquet`` (or .jsonl, .json, …; also under
        the hub's own name ``data/test-00000-of-00001.parquet``), or with a file for each
        subset, named as in ``PARTS``; the hub when ``None``.

    Returns
    -------
    Items
        Subsets without rows are in ``missing``. Items with an empty prompt or response are
        in ``dropped``.

    Raises
    ------
    DataError
        For an unknown split, a missing file, a row without the columns, a subset that isn't
        RewardBench 2's, several chosen responses outside Ties, a Ties id of another form, or
        a subset asked for by name that the source lacks.
    """
    if split not in SPLITS:
        raise unknown(f"split of {SET}", split, SPLITS, DataError)
    wanted = [SUBSETS[part]] if part else list(COUNTS)
    builder = Builder(name)
    seen: set[str] = set()
    for rows in _files(part, source):
        for number, row in enumerate(rows):
            subset = text(field(row, "subset", number, SET), "subset", number, SET)
            if subset not in _PART_OF:
                raise unknown(f"subset of {SET}", subset, _PART_OF, DataError)
            if subset in wanted:
                seen.add(subset)
                _collect(builder, row, number, subset)
    builder.missing = [subset for subset in wanted if subset not in seen]
    if part and not seen:
        raise DataError(
            f"rows of subset {SUBSETS[part]!r} in {SET}",
            "rows of other subsets only",
            f"Leave '/{part}' out of the name, or check the source.",
        )
    return builder.build(ABOUT)


def _files(part: str | None, source: str | None) -> list[Iterable[dict]]:
    if source is None:
        return [sources.from_hub(REPOSITORY, revision=REVISION, split="test")]
    whole = sources.find(source, *FILES)
    if whole:
        return [sources.read_rows(whole)]
    if part:
        return [sources.read_rows(sources.require(source, part))]
    paths = [path for each in PARTS if (path := sources.find(source, each))]
    if not paths:
        sources.require(source, *FILES)
    return [sources.read_rows(path) for path in paths]


def _collect(builder: Builder, row: Mapping, number: int, subset: str) -> None:
    where = f"{SET}, subset {subset}"
    turns = prompt(field(row, "prompt", number, where), number, where)
    chosen = texts(field(row, "chosen", number, where), "chosen", number, where)
    rejected = texts(field(row, "rejected", number, where), "rejected", number, where)
    identity = str(field(row, "id", number, where))
    if subset == TIES:
        _check_tie(identity, len(chosen), where)
    elif len(chosen) != 1:
        raise DataError(
            f"one chosen response in row {number} of {where}",
            f"{len(chosen)}",
            "Check that the file is the benchmark's own.",
        )
    if not any(turn["content"].strip() for turn in turns):
        builder.drop("empty prompt")
        return
    if not all(each.strip() for each in chosen + rejected):
        builder.drop("an empty response")
        return
    part = _PART_OF[subset]
    pairs = [
        (better, len(chosen) + worse, part, subset)
        for better in range(len(chosen))
        for worse in range(len(rejected))
    ]
    builder.add(f"{part}/{identity}", turns, chosen + rejected, pairs)


def _check_tie(identity: str, chosen: int, where: str) -> None:
    match = TIE_ID.fullmatch(identity)
    if not match:
        raise DataError(
            f"ids 'ref:n' and 'tied:n' in {where}",
            repr(identity),
            "Check that the file is the benchmark's own.",
        )
    if (match[1] == "ref") != (chosen == 1):
        raise DataError(
            f"one chosen response for 'ref:n' and several for 'tied:n' in {where}",
            f"{chosen} for {identity!r}",
            "Check that the file is the benchmark's own.",
        )
