"""HelpSteer2: two responses a prompt, each rated by people on five attributes from 0 to 4.

The ratings stay as columns of ``responses``; two kinds of comparisons are read off them, on
items that are scored once:

TYPE A (``type_a``)
    the response with the highest total of the five against the one with the lowest. The
    totals count complexity and verbosity as merits, as the published audit did.
TYPE B (``type_b``)
    responses at least 2 apart on one attribute and at most 1 apart on each other one: the
    criterion is that attribute. A cap takes a seeded sample of each attribute's pairs; the
    published audit took the largest gaps first, which ``by="gap"`` repeats. Verbosity pairs
    differ in length by construction, so read them beside the length baseline.

Multi-turn prompts are published as one string, the first user turn unmarked and the others
behind ``<extra_id_1>Assistant`` or ``<extra_id_1>User`` on a line of its own. The two rows
of a prompt are neighbours, which is checked; a prompt text that occurs twice is two items.

A part leaves out, and counts, items without such a comparison; the whole set keeps every item
(a head can be trained on its ratings). No cap is applied: ``type_b`` has one. A source folder
holds ``train.jsonl.gz`` and ``validation.jsonl.gz``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd

from lib.data import sources
from lib.data.items import Builder, Found, Items
from lib.data.rows import check_texts
from lib.errors import DataError, unknown

REPOSITORY = "nvidia/HelpSteer2"
REVISION = "990b2711a36180dd19d9c94b8627844866f8982a"
PARTS = ("type-a", "type-b")
WHOLE = True
SPLITS = ("train", "validation")
ALIASES = {"test": "validation"}  # the set has no test split
ATTRIBUTES = ("helpfulness", "correctness", "coherence", "complexity", "verbosity")
TARGET_GAP = 2
OTHER_GAP = 1
ABOUT = {
    "licence": "CC-BY-4.0",
    "origin": f"{REPOSITORY} at {REVISION[:8]}, or its files in a folder",
    "citation": "Wang et al. (2024), HelpSteer2: Open-source dataset for training "
    "top-performing reward models",
    "cite": "wang2024helpsteer2",
}

_MARK = "<extra_id_1>"
_TURN = re.compile(rf"\n?{_MARK}(User|Assistant)\n")


def parse_prompt(prompt: str) -> list[dict[str, str]] | str:
    """Turns of a published prompt, or the reason to drop it."""
    first, *rest = _TURN.split(prompt)
    turns = [{"role": "user", "content": first}] + [
        {"role": role.lower(), "content": content}
        for role, content in zip(rest[::2], rest[1::2], strict=True)
    ]
    if any(_MARK in turn["content"] for turn in turns):
        return "turn marker without a role"
    if turns[-1]["role"] != "user":
        return "last turn not the user's"
    if not all(turn["content"].strip() for turn in turns):
        return "empty turn in the prompt"
    return turns


def type_a(responses: pd.DataFrame) -> pd.DataFrame:
    """Highest against lowest total of the five ratings, one comparison an item at most.

    Parameters
    ----------
    responses
        ``items.responses`` of this set; rows are numbered from 0.

    Returns
    -------
    pandas.DataFrame
        Columns ``item, better, worse, criterion, subset``; criterion ``total``, subset
        ``type-a``. An item whose totals are all equal has no row.
    """
    total = responses[list(ATTRIBUTES)].to_numpy().sum(axis=1)
    rows = []
    for item, slots in responses.groupby("item", sort=False).indices.items():
        better, worse = slots[total[slots].argmax()], slots[total[slots].argmin()]
        if total[better] > total[worse]:
            rows.append((item, better, worse, "total", "type-a"))
    return _frame(rows)


def type_b(
    responses: pd.DataFrame, *, cap: int = 0, by: str = "seed", seed: int = 0
) -> pd.DataFrame:
    """Pairs that differ by 2 or more on one attribute and by 1 or less on the others.

    Parameters
    ----------
    responses
        ``items.responses`` of this set; rows are numbered from 0.
    cap
        At most this many pairs of an attribute; 0 for all.
    by
        What the cap keeps: ``"seed"``, a sample, or ``"gap"``, the largest gaps (the
        earlier pair first among equals), as published.
    seed
        Seed of the sample; each attribute's is drawn apart from the others'.

    Returns
    -------
    pandas.DataFrame
        Columns ``item, better, worse, criterion, subset``; criterion is the attribute,
        subset ``type-b/`` and the attribute; in the order of ``responses``.

    Raises
    ------
    DataError
        For a negative cap or an unknown ``by``.
    """
    if cap < 0:
        raise DataError("a cap of 0 (none) or more", str(cap), "Give a whole number.")
    if by not in ("seed", "gap"):
        raise unknown("way to cap", by, ("seed", "gap"), DataError)
    ratings = responses[list(ATTRIBUTES)].to_numpy()
    slots = responses.groupby("item", sort=False).indices.values()
    pairs = [pair for rows in slots for pair in combinations(rows, 2)]
    pairs = np.array(pairs, dtype=int).reshape(-1, 2)
    gap = ratings[pairs[:, 0]] - ratings[pairs[:, 1]]
    chosen = []
    for column, attribute in enumerate(ATTRIBUTES):
        others = np.abs(np.delete(gap, column, axis=1))
        target = np.abs(gap[:, column])
        found = np.flatnonzero((target >= TARGET_GAP) & (others <= OTHER_GAP).all(axis=1))
        if cap and by == "gap":
            found = found[np.argsort(-target[found], kind="stable")[:cap]]
        elif cap:
            found = np.random.default_rng([seed, column]).permutation(found)[:cap]
        chosen += [(row, column, attribute) for row in found]
    item, out = responses["item"].to_numpy(), []
    for row, column, attribute in sorted(chosen):
        first, second = pairs[row]
        better, worse = (first, second) if gap[row, column] > 0 else (second, first)
        out.append((item[first], better, worse, attribute, f"type-b/{attribute}"))
    return _frame(out)


def items(builder: Builder, part: str | None, split: str, source: str | None) -> Iterator[Found]:
    """Prompts with two rated responses; ``finish`` compares them."""
    hub = {"repository": REPOSITORY, "revision": REVISION, "split": split}
    rows = sources.rows(source, split, **hub)
    for number, pair in enumerate(_neighbours(rows, split)):
        yield _item(pair, number, split)


def finish(items: Items, part: str | None) -> Items:
    """Items with both types of comparisons, or with one and only the items that have it."""
    kinds = {"type-a": type_a, "type-b": type_b}
    found = [kinds[kind](items.responses) for kind in ([part] if part else PARTS)]
    items = replace(items, comparisons=pd.concat(found, ignore_index=True))
    if part is None:
        return items
    compared = items.prompts["item"].isin(items.comparisons["item"]).to_numpy()
    return items.select(compared, f"no {part} comparison")


def _frame(rows: list[tuple]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["item", "better", "worse", "criterion", "subset"])
    return frame.astype({"better": int, "worse": int})


def _neighbours(rows: Iterable[dict], split: str) -> Iterator[tuple[dict, dict]]:
    """Rows two by two, each checked to be of one prompt."""
    rows = iter(rows)
    for number, first in enumerate(rows):
        second = next(rows, None)
        for row in (first, second or first):
            absent = [c for c in ("prompt", "response", *ATTRIBUTES) if c not in row]
            if absent:
                raise DataError(
                    f"columns prompt, response and {', '.join(ATTRIBUTES)} in {split}",
                    f"a row without {', '.join(absent)}",
                    "Check that the file is HelpSteer2's own.",
                )
        if second is None or first["prompt"] != second["prompt"]:
            raise DataError(
                f"the two rows of each prompt side by side in {split} of helpsteer2",
                f"row {2 * number} without its neighbour",
                "Restore the published order of the rows.",
            )
        yield first, second


def _item(pair: tuple[dict, dict], number: int, split: str) -> Found:
    for place, row in enumerate(pair, 2 * number):
        check_texts(row, ("prompt", "response"), place, f"{split} of helpsteer2", "HelpSteer2's")
    texts = [row["response"] for row in pair]
    turns = parse_prompt(pair[0]["prompt"])
    if isinstance(turns, str):
        return turns
    if not all(text.strip() for text in texts):
        return "empty response"
    if texts[0] == texts[1]:
        return "identical responses"
    ratings = [_ratings(row, place) for place, row in enumerate(pair, 2 * number)]
    return f"{split}/{number}", turns, texts, [], ratings


def _ratings(row: dict, number: int) -> dict[str, float]:
    for attribute in ATTRIBUTES:
        if str(row[attribute]).removesuffix(".0") not in ("0", "1", "2", "3", "4"):
            raise DataError(
                f"a {attribute} rating of 0, 1, 2, 3 or 4",
                f"{row[attribute]!r} in row {number}",
                "Mend or remove the prompt's two rows.",
            )
    return {attribute: float(row[attribute]) for attribute in ATTRIBUTES}
