"""``file:PATH``: preference data of the user's own, as JSON Lines, JSON, Parquet or CSV.

=============  ==============================================================
column         content
=============  ==============================================================
``prompt``     a text, or a list of ``{"role", "content"}`` turns
``chosen``     a text, or a list of texts: each is preferred to each rejected
``rejected``   a text, or a list of texts
``subset``     optional: a name to report by
``criterion``  optional: what the choice was made by
``ratings``    optional: one ``{attribute: number}`` a response, chosen first
=============  ==============================================================

A row without a subset is in ``all``, or in ``unlabelled`` where another row has one.

In CSV, lists of texts, turns and ratings are written as JSON. ``item`` is the row number,
from 0. A text that occurs twice among a row's chosen, or among its rejected, counts once.
A subset, a criterion and a rating's name have at most 200 characters.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

from lib.data import sources
from lib.data.items import Builder, Items, in_chunks
from lib.errors import DataError

ROLES = ("system", "user", "assistant")
REQUIRED = ("prompt", "chosen", "rejected")
# Characters: arrays hold names at a fixed width, so a long one costs its length in every row.
LONGEST = 200
ALL, UNLABELLED = "all", "unlabelled"  # subset of rows that name none


def load(name: str, path: str | Path) -> Items:
    """Items of the file.

    Raises
    ------
    DataError
        Naming the row (counted from 0) and what is wrong with it.
    """
    builder = Builder(name)
    for _ in _steps(builder, path):
        pass
    return builder.build(_about(path))


def stream(name: str, path: str | Path, size: int) -> Iterator[Items]:
    """The same items, at most ``size`` at a time."""
    builder = Builder(name)
    return in_chunks(builder, _steps(builder, path), size, _about(path))


def _about(path: str | Path) -> dict[str, str]:
    return {"origin": f"the file {Path(path).name}", "licence": "the user's own"}


def _steps(builder: Builder, path: str | Path) -> Iterator[None]:
    if not str(path).strip():
        raise DataError("a path after 'file:'", "none", "Name the dataset file:PATH.")
    rows = sources.read_rows(path)
    if Path(path).name.endswith((".csv", ".csv.gz")):
        rows = map(_from_csv, rows)
    default = ""  # what rows without a subset are named, once there is one
    for number, row in enumerate(rows):
        where = f"row {number} of {Path(path).name}"
        if number == 0:
            _require_columns(row, where)
        prompt = _prompt(row.get("prompt"), where)
        chosen = _texts(row.get("chosen"), "chosen", where)
        rejected = _texts(row.get("rejected"), "rejected", where)
        subset = _label(row.get("subset"), "subset", "", where)
        if not subset:
            default = default or (UNLABELLED if _any_subset(path) else ALL)
            subset = default
        criterion = _label(row.get("criterion"), "criterion", "preference", where)
        better, worse = _firsts(chosen), _firsts(rejected)
        pairs = [
            (i, len(better) + j, criterion, subset)
            for i, first in enumerate(better)
            for j, second in enumerate(worse)
            if first != second
        ]
        if not pairs:
            builder.drop("identical responses")
        else:
            ratings = _ratings(row.get("ratings"), len(chosen) + len(rejected), where)
            if ratings:
                kept = [*better.values(), *(len(chosen) + place for place in worse.values())]
                ratings = [ratings[place] for place in kept]
            builder.add(str(number), prompt, [*better, *worse], pairs, ratings)
        yield


def _any_subset(path: str | Path) -> bool:
    """Does any row of the file name a subset?"""
    found = (row.get("subset") for row in sources.read_rows(path))
    return any(not _missing(value) and value != "" for value in found)


def _require_columns(row: Mapping, where: str) -> None:
    absent = [column for column in REQUIRED if column not in row]
    if absent:
        raise DataError(
            f"a {' and a '.join(absent)} column in {where}",
            f"the columns {', '.join(map(repr, row))}" if row else "no columns",
            f"Name the columns {', '.join(REQUIRED)}.",
        )


def _firsts(texts: list[str]) -> dict[str, int]:
    """The distinct texts in order, with the place at which each occurs first."""
    places: dict[str, int] = {}
    for place, text in enumerate(texts):
        places.setdefault(text, place)
    return places


def _from_csv(row: Mapping) -> dict:
    """A CSV row with its JSON cells decoded; a text that merely looks like JSON stays one."""
    return {column: _cell(column, value) for column, value in row.items()}


def _cell(column: str, text):
    if column not in (*REQUIRED, "ratings") or not text:
        return text or None
    try:
        value = sources.parse_json(text)
    except ValueError:
        return text
    kind = {"prompt": Mapping, "ratings": Mapping}.get(column, str)
    if isinstance(value, list) and (not value or any(isinstance(each, kind) for each in value)):
        return value
    return text


def _missing(value) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _label(value, column: str, default: str, where: str) -> str:
    if _missing(value) or value == "":
        return default
    if isinstance(value, list | Mapping):
        raise DataError(f"a {column} in {where}: a text", repr(value)[:80], "Mend the row.")
    return _name(str(value), column, where)


def _name(text: str, column: str, where: str) -> str:
    if len(text) > LONGEST:
        raise DataError(
            f"a {column} in {where} of at most {LONGEST} characters",
            f"{len(text)} characters",
            "Give it a shorter one.",
        )
    return _encodable(text, column, where)


def _encodable(text: str, column: str, where: str) -> str:
    """The text, which must have a UTF-8 form: JSON can spell half a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"a {column} in {where} that can be written as UTF-8",
            f"half a surrogate pair at character {error.start}",
            "Mend or remove the row.",
        ) from None
    return text


def _prompt(value, where: str):
    if isinstance(value, str) and value.strip():
        return _encodable(value, "prompt", where)
    good = (
        isinstance(value, list)
        and value
        and all(
            isinstance(turn, Mapping)
            and turn.get("role") in ROLES
            and isinstance(turn.get("content"), str)
            for turn in value
        )
    )
    if not good:
        raise DataError(
            f"a prompt in {where}: a text, or turns with a role ({', '.join(ROLES)}) and content",
            "nothing" if _missing(value) or value == "" else repr(value)[:80],
            "Mend or remove the row.",
        )
    if value[-1]["role"] != "user":
        raise DataError(
            f"a prompt that ends with the user's turn in {where}",
            f"a last turn of the {value[-1]['role']}",
            "Move the assistant's last turn to 'chosen' and 'rejected'.",
        )
    for turn in value:
        _encodable(turn["content"], "prompt", where)
    return value


def _texts(value, column: str, where: str) -> list[str]:
    texts = value if isinstance(value, list) else [value]
    for text in texts or [None]:
        if not isinstance(text, str) or not text.strip():
            raise DataError(
                f"a {column} text in {where}",
                "nothing" if _missing(text) or text == "" else repr(text)[:80],
                "Mend or remove the row.",
            )
        _encodable(text, column, where)
    return texts


def _ratings(value, responses: int, where: str) -> list[dict[str, float]] | None:
    if _missing(value):
        return None
    try:
        rated = [
            {key: float(number) for key, number in each.items() if number is not None}
            for each in value
        ]
    except (TypeError, ValueError, AttributeError, OverflowError):
        rated = []
    if len(rated) != responses:
        raise DataError(
            f"ratings in {where}: a list of {responses} objects of numbers, one a response",
            repr(value)[:80],
            "Mend the row or leave its ratings out.",
        )
    for each in rated:
        for key, number in each.items():
            _name(key, "rating's name", where)
            if not math.isfinite(number):
                raise DataError(
                    f"finite ratings in {where}", f"{key} {number}", "Write null for none."
                )
    return rated
