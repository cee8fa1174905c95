"""Published sets that say whose choice each was, read from their own files as ``file:PATH``.

==============  ========================================================================
set             file and what of it
==============  ========================================================================
PRISM           ``conversations.jsonl`` (Kirk et al., 2024): in each turn the response that
                went on is preferred to the turn's others; ``user_id`` is the user
TL;DR           ``batch*.json`` or the hub's files (Stiennon et al., 2020): the chosen summary
                of two; ``worker`` is the user, the post the prompt
PersonalLLM     the hub's files (Zollo et al., 2025): eight responses a prompt and ten reward
                models' scores of each; no person judged, so each reward model stands for a
                user, who prefers its best response to its worst
==============  ========================================================================

Each is told by its columns. ``about`` says which it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from lib.data.layouts import encodable, missing, name
from lib.errors import DataError

PRISM = "PRISM: the turn's response that went on is preferred to its others"
TLDR = "TL;DR: the chosen summary of two"
PERSONAL = "PersonalLLM: each reward model's best response is preferred to its worst"
_SCORED = re.compile(r"response_(\d+)_(.+)")
PREFERENCE = "preference"
MEND = "Check that the file is the set's own."


class Judged(NamedTuple):
    """An item with whose comparison each is."""

    item: str
    prompt: str | list[dict]
    responses: list[str]
    comparisons: list[tuple[int, int, str, str]]
    users: list[str]


def layout(row: Mapping) -> str:
    """Which of the sets a row is of; "" for none."""
    if {"conversation_history", "user_id"} <= row.keys():
        return PRISM
    if {"summaries", "choice", "worker"} <= row.keys():
        return TLDR
    if {"prompt", "response_1", "response_2"} <= row.keys() and any(map(_SCORED.fullmatch, row)):
        return PERSONAL
    return ""


def judged(which: str, row: Mapping, number: int, where: str) -> Iterator[Judged | str]:
    """The row's items, or why there is none; errors name the row."""
    read = {PRISM: _prism, TLDR: _tldr, PERSONAL: _personal}[which]
    try:
        yield from read(row, number, where)
    except (AttributeError, KeyError, IndexError, TypeError, ValueError):
        raise DataError(
            f"{where} in the layout of {which.partition(':')[0]}", "another", MEND
        ) from None


def _user(value, where: str) -> str:
    return "" if missing(value) or value == "" else name(str(value), "user", where)


def _text(value, where: str) -> str:
    if not isinstance(value, str):
        raise TypeError
    return encodable(value, "text", where)


def _prism(row: Mapping, number: int, where: str) -> Iterator[Judged | str]:
    user = _user(row["user_id"], where)
    subset = name(str(row.get("conversation_type") or "all"), "subset", where)
    turns: dict[int, dict[str, list]] = {}
    for said in row["conversation_history"]:
        turn = turns.setdefault(int(said["turn"]), {"user": [], "chosen": [], "rejected": []})
        kind = "user" if said["role"] == "user" else "chosen" if said["if_chosen"] else "rejected"
        turn[kind].append(_text(said["content"], where))
    before: list[dict] = []
    for place in sorted(turns):
        turn = turns[place]
        if not turn["user"] or not turn["chosen"]:
            yield "turn without a question or a chosen response"
            return
        before = [*before, {"role": "user", "content": turn["user"][0]}]
        chosen = turn["chosen"][0]
        texts = [chosen, *dict.fromkeys(text for text in turn["rejected"] if text != chosen)]
        if not all(text.strip() for text in (turn["user"][0], *texts)):
            yield "empty text"
        elif len(texts) < 2:
            yield "turn with one response"
        else:
            pairs = [(0, slot, PREFERENCE, subset) for slot in range(1, len(texts))]
            item = f"{row.get('conversation_id') or number}/{place}"
            yield Judged(item, before, texts, pairs, [user] * len(pairs))
        before = [*before, {"role": "assistant", "content": chosen}]


def _tldr(row: Mapping, number: int, where: str) -> Iterator[Judged | str]:
    info, choice = row["info"], row["choice"]
    post = info.get("post") or info.get("article")
    if missing(choice):
        yield "no choice"
        return
    if choice not in (0, 1):
        raise ValueError
    texts = [_text(each["text"], where) for each in row["summaries"]]
    if len(texts) != 2:
        raise ValueError
    if missing(post) or not post.strip() or not all(text.strip() for text in texts):
        yield "empty text"
    elif texts[0] == texts[1]:
        yield "identical responses"
    else:
        pair = [(int(choice), 1 - int(choice), PREFERENCE, "all")]
        user = _user(row["worker"], where)
        yield Judged(str(number), _text(post, where), texts, pair, [user])


def _personal(row: Mapping, number: int, where: str) -> Iterator[Judged | str]:
    texts, scores = {}, {}
    for column, value in row.items():
        if found := _SCORED.fullmatch(str(column)):
            scores.setdefault(found[2], {})[int(found[1])] = value
        elif re.fullmatch(r"response_\d+", str(column)) and not missing(value):
            texts[int(column.removeprefix("response_"))] = _text(value, where)
    prompt = _text(row["prompt"], where)
    if not prompt.strip() or not all(text.strip() for text in texts.values()):
        yield "empty text"
        return
    slots = {text: slot for slot, text in enumerate(dict.fromkeys(texts.values()))}
    pairs, users = [], []
    for model, given in scores.items():
        known = {
            slots[texts[k]]: float(v) for k, v in given.items() if k in texts and not missing(v)
        }
        if not known:
            continue
        best, worst = max(known, key=known.get), min(known, key=known.get)
        if known[best] > known[worst]:
            pairs.append((best, worst, PREFERENCE, "all"))
            users.append(_user(model, where))
    if pairs:
        yield Judged(str(number), prompt, list(slots), pairs, users)
    else:
        yield "no two scores that differ"
