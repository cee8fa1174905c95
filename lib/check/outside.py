"""*Reference*: published scores of the same items. *Overlap*: prompts of a training file."""

from __future__ import annotations

import codecs
import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lib import documents
from lib.check.lines import BLOCKED, OVERLAP, REFERENCE, RIGHT, UNTOLD, WRONG, Row
from lib.check.subject import Subject
from lib.data import sources
from lib.data.items import Items
from lib.data.measures import ngrams
from lib.errors import DataError
from lib.stats.proportions import wilson

SHOWN = 10
GRAM = 13  # words
CHOSEN, REJECTED = "scores_chosen", "scores_rejected"
LAYOUT = (
    "ids (id or item) with scores_chosen and scores_rejected, with scores, or with results "
    "(1 where the chosen response wins)"
)


@dataclass(frozen=True)
class Published:
    """One item of a reference: its scores in the order of its responses, or its choice."""

    scores: Sequence[float] | None = None
    choice: float | None = None  # 1 where the better response wins, 0 where the worse, .5 a tie


def read(path: str | Path) -> dict[str, Published]:
    """Items of a reference file by id.

    JSON as RewardBench's evaluation sets publish it (one object with a list for each column),
    an array of objects, JSON Lines, CSV or Parquet.

    Raises
    ------
    DataError
        For a file without ids, or without scores and choices, or without rows; for an id that
        is there twice.
    """
    found: dict[str, Published] = {}
    for number, row in enumerate(_rows(Path(path))):
        name, each = _id(row.get("id", row.get("item"))), _published(row)
        if name is None or each is None:
            there = ", ".join(map(str, row)) or "no columns"
            raise DataError(f"{LAYOUT} in row {number} of {path}", there, "Name them so.")
        if name in found:
            raise DataError(f"each id once in {path}", f"{name!r} again", "Keep one.")
        found[name] = each
    if not found:
        raise DataError(f"at least one row in {path}", "none", "Name the file with the results.")
    return found


def _id(value) -> str | None:
    """An id as text; none for what is neither text nor a whole number."""
    if isinstance(value, float) and value.is_integer():  # a column that once had gaps
        value = int(value)
    return str(value) if type(value) in (str, int) else None


def _rows(path: Path):
    if path.suffix == ".json":
        content = documents.read_bytes(path, what="a reference", limit=1 << 28)
        content = content.removeprefix(codecs.BOM_UTF8)
        try:
            whole = documents.parse_json(content)
        except ValueError as reason:
            if b"\n{" not in content.strip():  # else JSON Lines under another name
                raise DataError(f"JSON in {path}", f"{reason}", "Mend the file.") from None
            whole = None
        if isinstance(whole, Mapping) and any(isinstance(v, list) for v in whole.values()):
            columns = {k: v for k, v in whole.items() if isinstance(v, list)}
            if len({len(v) for v in columns.values()}) > 1:
                needed = f"columns of one length in {path}"
                told = ", ".join(f"{k} {len(v)}" for k, v in list(columns.items())[:5])
                raise DataError(needed, told, "Write the file again.")
            return [
                dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
            ]
    return sources.read_rows(path)


def _published(row: Mapping) -> Published | None:
    if row.get(CHOSEN) is not None and row.get(REJECTED) is not None:
        return _numbers([*_several(row[CHOSEN]), *_several(row[REJECTED])])
    if row.get("scores") is not None:
        return _numbers(_several(row["scores"]))
    if row.get("results") is not None:
        choices = [_number(value) for value in _several(row["results"])]
        known = len(choices) == 1 and choices[0] in (0, 0.5, 1)
        return Published(choice=choices[0]) if known else None
    return None


def _several(value) -> list:
    value = value.tolist() if isinstance(value, np.ndarray) else value
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _numbers(values: list) -> Published | None:
    found = [_number(value) for value in values if not isinstance(value, bool)]
    good = len(found) == len(values) > 0 and all(map(math.isfinite, found))
    return Published(scores=found) if good else None


def _number(value) -> float:
    """A cell of a table is text; NaN for what is no number."""
    try:
        return float(value) if isinstance(value, (str, int, float)) else math.nan
    except (ValueError, OverflowError):
        return math.nan


def reference(subject: Subject, path: str | Path, allowed: float) -> tuple[list[Row], list[dict]]:
    """Agreement with published results, and the largest differences by id.

    Published scores may be of another number type and batch: ``allowed``, in standard deviations
    of the score, is what these may move one by. A choice differs where it is another although our
    scores are further apart than that.
    """
    published = read(path)
    scores, sd = subject.all[:, -1], subject.sd[-1]
    if len(subject.model.heads) > 1 and len(subject.named) == len(subject.model.heads):
        do = "Nothing says which of its heads was published."
        return [Row(REFERENCE, "scores", "several heads", "one score", UNTOLD, do)], []
    if not sd:
        do = "Mend Scale first."
        return [Row(REFERENCE, "scores", "no score that varies", "one", BLOCKED, do)], []
    owner = subject.items.item_of_response
    differences, agree, others = [], [], []
    for i, name in enumerate(subject.items.prompts["item"].astype(str)):
        if name not in published:
            continue
        ours, theirs = scores[owner == i], published[name]
        if theirs.scores is not None and len(theirs.scores) != len(ours):
            others.append(name)
            continue
        if theirs.scores is not None:
            with np.errstate(over="ignore"):  # infinitely far is far
                gaps = np.abs(ours - theirs.scores) / sd
            differences += [
                {"item": name, "slot": slot, "ours": float(a), "theirs": float(b), "sd": float(g)}
                for slot, (a, b, g) in enumerate(zip(ours, theirs.scores, gaps, strict=True))
            ]
        agree += _choices(subject, name, scores, owner, i, theirs, sd, differences)
    unfit = f"{len(others)} items with another number of scores than responses: "
    unfit = f"{unfit}{', '.join(others[:3])}" if others else ""
    if unfit and not agree:
        do = "Give each response of these items its score."
        return [Row(REFERENCE, "scores", unfit, "a score a response", UNTOLD, do)], []
    if not agree:
        found = f"none of {len(published)} ids is an item of {subject.items.name}"
        do = "Name the data that the results are of: --data, and its items: --items."
        return [Row(REFERENCE, "scores", found, "ids of the same items", UNTOLD, do)], []
    differences.sort(key=lambda record: -record["sd"])
    beyond = sum(record["sd"] > allowed for record in differences)
    interval = wilson(np.asarray(agree, float), np.ones(len(agree)))
    told = (
        f"{interval.estimate:.3f} [{interval.low:.3f}, {interval.high:.3f}] of {len(agree)} "
        f"choices agree; {beyond} scores differ by more than {allowed:.2g} sd"
    )
    if beyond:
        told += ": " + ", ".join(dict.fromkeys(r["item"] for r in differences[:beyond][:3]))
    if unfit:
        told += f"; {unfit}"
    do = "Look at the largest differences: another template, revision or number type?"
    do = do if beyond else "Give each response of these items its score." if unfit else ""
    row = Row(
        REFERENCE,
        "scores",
        told,
        f"the same choices, and scores within {allowed:.2g} sd",
        WRONG if beyond else UNTOLD if unfit else RIGHT,
        do,
    )
    return [row], differences[:SHOWN]


def _choices(subject, name, scores, owner, i, theirs, sd, differences) -> list[float]:
    """Does each comparison of an item come out alike? Half for a tie on one side."""
    table, found = subject.items.comparisons, []
    first = int(np.flatnonzero(owner == i)[0])
    for row in table[table["item"].astype(str) == name].itertuples():
        ours = scores[row.better] - scores[row.worse]
        if theirs.choice is not None:
            other = theirs.choice * 2 - 1
            apart = abs(ours) / sd if np.sign(ours) != np.sign(other) else 0.0
            differences.append(
                {"item": name, "slot": -1, "ours": float(np.sign(ours)), "theirs": other}
                | {"sd": float(apart)}
            )
        else:
            other = theirs.scores[row.better - first] - theirs.scores[row.worse - first]
        found.append(1.0 if np.sign(ours) == np.sign(other) else 0.5 if not ours * other else 0.0)
    return found


def overlap(items: Items, training: Items) -> list[Row]:
    """Shares of the prompts that stand in training data, whole or by 13 words in a row."""
    texts = [_text(prompt) for prompt in training.prompts["prompt"]]
    whole = {_normal(text) for text in texts}
    grams = {gram for text in texts for gram in ngrams(text, GRAM) if len(gram) == GRAM}
    asked = [_text(prompt) for prompt in items.prompts["prompt"]]
    same = sum(_normal(text) in whole for text in asked)
    shared = sum(not grams.isdisjoint(ngrams(text, GRAM)) for text in asked)
    found = (
        f"of {len(asked)} prompts {same} stand there whole, {shared} share {GRAM} words in a row"
    )
    do = "Leave those items out: a model that was trained on them isn't judged by them."
    bad = bool(same or shared)
    expected = f"none in {Path(training.name.removeprefix('file:')).name}"
    return [Row(OVERLAP, "prompts", found, expected, WRONG if bad else RIGHT, do if bad else "")]


def _text(prompt) -> str:
    return "\n".join(turn["content"] for turn in prompt if turn["role"] != "system")


def _normal(text: str) -> str:
    words = re.findall(r"\w+", text.lower())
    return hashlib.sha256(" ".join(words).encode()).hexdigest()
