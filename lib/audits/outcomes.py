"""Who won each comparison of a dataset, packed: two bits a rule, and an id that tells no text.

An id is a digest of what tells a comparison from others of its dataset: item, digest of the
prompt, places of both responses, criterion, subset. So two audits of one dataset are paired
comparison by comparison, and neither holds an item's name or text.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from lib.stats.winrates import HEAD, SCORE
from lib.summary.compare.stats import KEY

ID = 8  # bytes; two of a million comparisons share one with a chance of 3e-8
CODES = np.asarray([0.0, 0.5, 1.0, np.nan])  # lost, tied, won, no number
NO_NUMBER = 3


@dataclass(frozen=True)
class Outcomes:
    """Who won the comparisons of one dataset.

    Attributes
    ----------
    ids
        Of comparisons, distinct, shape (comparisons,), as whole numbers.
    prompt
        Which of them share one: integers from 0, shape (comparisons,).
    subset
        Name of each one's, shape (comparisons,).
    rules
        Head or one score → 1, ½, 0 or NaN for each comparison.
    """

    ids: np.ndarray
    prompt: np.ndarray
    subset: np.ndarray
    rules: Mapping[str, np.ndarray]


def of_table(table: pd.DataFrame) -> Outcomes:
    """Of the table ``outcomes`` that a validity page leaves: heads, and the one score."""
    own = table[table["kind"].isin([HEAD, SCORE])]
    place = np.zeros(len(own), np.int64)
    for name in KEY:  # comparisons are numbered as they come, whatever rule tells of them first
        codes, known = pd.factorize(own[name], use_na_sentinel=False)
        place = pd.factorize(place * max(1, len(known)) + codes)[0]
    first = np.unique(place, return_index=True)[1]
    texts = dict.fromkeys(["item", "prompt", "criterion", "subset"], str)
    keys = own[KEY].iloc[first].astype(texts)
    rule, names = pd.factorize(own["rule"], use_na_sentinel=False)
    won = np.full((len(names), len(first)), np.nan)
    won[rule[::-1], place[::-1]] = own["outcome"].to_numpy(float)[::-1]  # the first tells
    rules = dict(zip(map(str, names), won, strict=True))
    ids = np.asarray([_id(key) for key in keys.itertuples(index=False, name=None)], np.uint64)
    _, prompt = np.unique(keys["prompt"].to_numpy(str), return_inverse=True)
    return Outcomes(ids, prompt, keys["subset"].to_numpy(str), rules)


def _id(key: tuple) -> int:
    text = json.dumps([str(part) for part in key], ensure_ascii=True)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=ID).digest(), "little")


def pack(found: Outcomes) -> dict:
    """As ``audit.json`` holds them: Base64 of bytes, the lowest bits first."""
    names = list(dict.fromkeys(found.subset.tolist()))
    subset = pd.Series(found.subset).map({name: k for k, name in enumerate(names)})
    return {
        "n": len(found.ids),
        "ids": _text(found.ids.astype("<u8")),
        "prompts": _text(found.prompt.astype("<u4")),
        "subsets": names,
        "subset": _text(subset.to_numpy().astype("<u4")),
        "rules": {rule: _text(_bits(won)) for rule, won in found.rules.items()},
    }


def unpack(packed: Mapping) -> Outcomes:
    """What ``pack`` made.

    Raises
    ------
    ValueError
        For what it can't have made; the message says which part.
    """
    n = packed["n"]
    ids = _array(packed["ids"], "<u8", n, "ids")
    if len(np.unique(ids)) < n:
        raise ValueError("ids: one id twice")
    prompt = _array(packed["prompts"], "<u4", n, "prompts").astype(int)
    subset = _array(packed["subset"], "<u4", n, "subset").astype(int)
    names = np.asarray(packed["subsets"], dtype=str)
    if n and subset.max() >= len(names):
        raise ValueError("subset: one that has no name")
    rules = {
        rule: CODES[_codes(_array(text, "u1", -(-n // 4), rule), n)]
        for rule, text in packed["rules"].items()
    }
    named = names[subset] if n else np.asarray([], dtype=str)
    return Outcomes(ids, np.unique(prompt, return_inverse=True)[1], named, rules)


def _bits(won: np.ndarray) -> np.ndarray:
    """Four comparisons a byte."""
    codes = np.where(np.isnan(won), NO_NUMBER, np.round(2 * np.nan_to_num(won))).astype(np.uint8)
    codes = np.concatenate([codes, np.zeros(-len(codes) % 4, np.uint8)]).reshape(-1, 4)
    return (codes << np.asarray([0, 2, 4, 6], np.uint8)).sum(axis=1).astype(np.uint8)


def _codes(packed: np.ndarray, n: int) -> np.ndarray:
    return ((packed[:, None] >> np.asarray([0, 2, 4, 6], np.uint8)) & 3).ravel()[:n]


def _text(values: np.ndarray) -> str:
    return base64.b64encode(values.tobytes()).decode()


def _array(text: str, kind: str, n: int, what: str) -> np.ndarray:
    try:
        content = base64.b64decode(text, validate=True)
    except ValueError:
        raise ValueError(f"{what}: no Base64") from None
    if len(content) != n * np.dtype(kind).itemsize:
        raise ValueError(f"{what}: {len(content)} bytes of {n} entries")
    return np.frombuffer(content, kind)
