"""``file:PATH``: preference data of the user's own, as JSON Lines, JSON, Parquet or CSV.

=============  ==============================================================
column         content
=============  ==============================================================
``prompt``     a text, or a list of ``{"role", "content"}`` turns
``chosen``     a text, or a list of texts: each is preferred to each rejected;
               or turns, after the prompt or with it
``rejected``   likewise
``system``     optional: a text that goes before the prompt
``tie``        optional: true where neither was preferred
``subset``     optional: a name to report by
``criterion``  optional: what the choice was made by
``user``       optional: who made it
``ratings``    optional: one ``{attribute: number}`` a response, chosen first
=============  ==============================================================

Or a published set that says whose choices those are, in its own file (``lib.data.raters``).

Or one response a row: ``prompt`` and ``completion``, or ``messages``, with a ``label`` (true
or false), a ``score`` or a ``rating``; rows of one prompt are an item, and the higher value
is preferred. ``lib.data.layouts`` has the rules by which prompt and response are told apart;
``about`` says which were used, and which columns weren't.

A tie is said by ``tie``, by ``label``, ``winner`` or ``preference`` (one of ``TIES``), by
equal ``score_chosen`` and ``score_rejected``, or by ``ratings`` that are equal: by the one
named as the criterion, or all where none is. It is dropped and counted, or kept as an item
without a comparison.

A row without a subset is in ``all``, or in ``unlabelled`` where another row has one.

In CSV, lists of texts, turns and ratings are written as JSON. ``item`` is the row number,
from 0, or that of a prompt's first row. A text that occurs twice among a row's chosen, or
among its rejected, counts once. A subset, a criterion and a rating's name have at most 200
characters, all of them printable.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from lib.data import layouts, raters, sources
from lib.data.items import Builder, Items
from lib.data.layouts import encodable, missing
from lib.documents import decode
from lib.errors import DataError, ParameterError

ALL, UNLABELLED = "all", "unlabelled"  # subset of rows that name none
TIE = KEPT = "ties"  # a reason to drop rows, and the key of ``about`` that says otherwise
TIES = ("tie", "ties", "tied", "tie (bothbad)", "both bad", "draw", "equal", "same")
JUDGED = ("label", "winner", "preference")
SCORES = (
    ("score_chosen", "score_rejected"),
    ("chosen_score", "rejected_score"),
    ("chosen_rating", "rejected_rating"),
    ("chosen-rating", "rejected-rating"),
)
SAYS_MORE = {"system", "tie", "ratings", *JUDGED, *sum(SCORES, ())}
READ = {"prompt", "chosen", "rejected", "subset", "criterion", "user", *SAYS_MORE}
IN_JSON = ("prompt", "chosen", "rejected", "ratings", "messages", "completion")


class Judging(Builder):
    """A builder that also keeps whose each comparison is, where any is somebody's."""

    def __init__(self, name: str, about: dict[str, str] | None = None):
        super().__init__(name, about)
        self._users: list[str] = []

    def add(self, item, prompt, responses, comparisons, ratings=None, users=()) -> None:
        """As ``Builder.add``; ``users`` has a name a comparison, or is empty."""
        comparisons = list(comparisons)
        super().add(item, prompt, responses, comparisons, ratings)
        self._users += list(users) or [""] * len(comparisons)

    def build(self) -> Items:
        """As ``Builder.build``, with a column ``user`` of comparisons where one has a user."""
        items = super().build()
        if not any(self._users):
            return items
        return replace(items, comparisons=items.comparisons.assign(user=self._users))


def steps(builder: Judging, path: str | Path, ties: str) -> Iterator[None]:
    """Each step adds a row of the file to the builder, or drops it; ``ties`` as ``load_items``.

    Rows of one response each are read whole before their items are added.

    Raises
    ------
    DataError
        Naming the row (counted from 0) and what is wrong with it.
    ParameterError
        For another word for ``ties``.
    """
    if ties not in ("drop", "keep"):
        raise ParameterError("ties 'drop' or 'keep'", repr(ties), "Choose one of the two.")
    about = builder.about
    about |= {"origin": f"the file {Path(path).name}", "licence": "the user's own"}
    if ties == "keep":
        about[KEPT] = "kept, as items without a comparison"
    if not str(path).strip():
        raise DataError("a path after 'file:'", "none", "Name the dataset file:PATH.")
    file = encodable(Path(path).name, "name", "a file")
    rows = sources.read_rows(path)
    if file.endswith(sources.TABLES):
        rows = map(_from_csv, rows)
    subsets = _Subsets(path)
    published, value, columns, rules = "", "", {}, {}
    groups: dict[str, list] = {}
    for number, row in enumerate(rows):
        where = f"row {number} of {file}"
        if number == 0 and (published := raters.layout(row)):
            about["layout"] = published
        if published:
            for found in raters.judged(published, row, number, where):
                if isinstance(found, str):
                    builder.drop(found)
                else:
                    builder.add(*found[:4], users=found.users)
                yield
            continue
        if number == 0:
            value = layouts.unpaired(row, where)
        if not columns.keys() >= row.keys():
            columns.update(dict.fromkeys(row))
            _note_unread(about, columns, value)
        if value:
            rule, prompt, text, rating = layouts.rated(row, value, where)
            at = number, prompt, subsets.of(row, where), _criterion(row, where), _user(row, where)
            key = json.dumps(at[1:], sort_keys=True)  # another criterion is another question
            groups.setdefault(key, [at]).append((text, rating))
        else:
            rule = _add(builder, number, row, subsets, where, ties)
        if rule and rule not in rules:
            rules[rule] = None
            about["layout"] = "; ".join(rules)
        yield
    for (number, prompt, subset, criterion, user), *rated in groups.values():
        _add_rated(builder, str(number), prompt, (criterion, subset), user, rated, value, ties)
        yield


def _note_unread(about: dict, columns: Mapping, value: str) -> None:
    used = {"prompt", "completion", "messages", "system", "subset", "criterion", "user", value}
    unread = [column for column in columns if column not in (used if value else READ)]
    if unread:
        shown = ", ".join(ascii(str(column)[:80])[1:-1] for column in unread[:12])
        about["not read"] = f"{shown}, …" if len(unread) > 12 else shown


class _Subsets:
    """A row's subset; what rows without one are named depends on the others."""

    def __init__(self, path: str | Path):
        self.path, self.default = path, ""

    def of(self, row: Mapping, where: str) -> str:
        subset = _label(row.get("subset"), "subset", "", where)
        if not subset:
            self.default = self.default or (UNLABELLED if _any_subset(self.path) else ALL)
        return subset or self.default


def _criterion(row: Mapping, where: str) -> str:
    return _label(row.get("criterion"), "criterion", "preference", where)


def _user(row: Mapping, where: str) -> str:
    return _label(row.get("user"), "user", "", where)


def _users(user: str, pairs: list) -> list[str]:
    return [user] * len(pairs) if user else []


def _add(builder: Judging, number: int, row: Mapping, subsets, where: str, ties: str) -> str:
    """Add a row of chosen and rejected, or count why not; the rule that it was read by."""
    subset, criterion = subsets.of(row, where), _criterion(row, where)
    user = _user(row, where)
    if _is_plain(row):  # most rows of a large file
        pair = [(0, 1, criterion, subset)]
        responses = row["chosen"], row["rejected"]
        builder.add(str(number), row["prompt"], responses, pair, users=_users(user, pair))
        return layouts.TEXTS
    tied = _said_tie(row, where)
    if tied and ties == "drop":
        builder.drop(TIE)
        return ""
    told = layouts.pair(row, where)
    if isinstance(told, str):
        builder.drop(told)
        return ""
    chosen, rejected = told.chosen, told.rejected
    better, worse = _firsts(chosen), _firsts(rejected)
    both = [text for text in better if text in worse]
    if len(both) > 1 and not tied:
        raise DataError(
            f"chosen and rejected in {where} that don't contradict each other",
            f"{len(both)} texts that are in both",
            "Leave each on one side; a tie is said by a column 'tie'.",
        )
    pairs = [
        (i, len(better) + j, criterion, subset)
        for i, first in enumerate(better)
        for j, second in enumerate(worse)
        if first != second
    ]
    if not pairs:
        builder.drop("identical responses")
        return told.rule
    ratings = _ratings(row.get("ratings"), len(chosen) + len(rejected), where)
    if ratings:
        kept = [*better.values(), *(len(chosen) + place for place in worse.values())]
        ratings = [ratings[place] for place in kept]
        tied = tied or _equal(ratings, criterion)
    if tied and ties == "drop":
        builder.drop(TIE)
    else:
        pairs = [] if tied else pairs
        responses, users = [*better, *worse], _users(user, pairs)
        builder.add(str(number), told.prompt, responses, pairs, ratings, users=users)
    return told.rule


def _is_plain(row: Mapping) -> bool:
    """Is it three texts that say all there is, so that no rule has anything to find?"""
    prompt, better, worse = row.get("prompt"), row.get("chosen"), row.get("rejected")
    if not (type(prompt) is type(better) is type(worse) is str and better != worse):
        return False
    try:
        (prompt + better + worse).encode()
    except UnicodeEncodeError:
        return False
    said = prompt.strip() and better.strip() and worse.strip()
    return bool(said) and row.keys().isdisjoint(SAYS_MORE)


def _add_rated(builder, item: str, prompt, judged, user, rated, value: str, ties: str) -> None:
    """Add the rated responses of one prompt: the higher is better, equal ones aren't compared."""
    first: dict[str, float] = {}
    for text, rating in rated:
        if first.setdefault(text, rating) != rating:
            builder.drop(f"response with more than one {value}")
            return
    texts = [*first]
    pairs = [
        (i, j, *judged)
        for i in range(len(texts))
        for j in range(len(texts))
        if first[texts[i]] > first[texts[j]]
    ]
    if len(texts) == 1:
        builder.drop("prompts with one response")
    elif not pairs and ties == "drop":
        builder.drop("prompts with one label" if value == "label" else TIE)
    else:
        ratings = [{value: first[text]} for text in texts]
        builder.add(item, prompt, texts, pairs, ratings, users=_users(user, pairs))


def _said_tie(row: Mapping, where: str) -> bool:
    """Does a column say that neither response was preferred?"""
    said = row.get("tie")
    if isinstance(said, str):
        said = {"true": True, "1": True, "false": False, "0": False, "": None}.get(
            said.strip().lower(), said
        )
    if not (missing(said) or (isinstance(said, bool | int | float) and said in (0, 1))):
        raise DataError(
            f"a tie in {where}: true or false", repr(said)[:80], "Mend or remove the row."
        )
    judged = (row.get(column) for column in JUDGED)
    return (
        (not missing(said) and bool(said))
        or any(isinstance(word, str) and word.strip().lower() in TIES for word in judged)
        or any(_number(row.get(a)) == _number(row.get(b)) for a, b in SCORES if a in row)
    )


def _number(value) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _equal(ratings: list[dict[str, float]], criterion: str) -> bool:
    if any(criterion in each for each in ratings):
        ratings = [{criterion: each.get(criterion, math.nan)} for each in ratings]
    return bool(ratings[0]) and all(each == ratings[0] for each in ratings)


def _any_subset(path: str | Path) -> bool:
    """Does any row of the file name a subset?"""
    if sources.lacks_key(path, "subset"):
        return False
    found = (row.get("subset") for row in sources.read_rows(path))
    return any(not missing(value) and value != "" for value in found)


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
    if column not in IN_JSON or not text:
        return text or None
    try:
        value = decode(text)
    except ValueError:
        return text
    kinds = (Mapping, str) if column in ("chosen", "rejected") else Mapping
    if isinstance(value, list) and (not value or any(isinstance(each, kinds) for each in value)):
        return value
    return text


def _label(value, column: str, default: str, where: str) -> str:
    if type(value) is str and value:
        return layouts.name(value, column, where)
    if missing(value) or value == "":
        return default
    if isinstance(value, list | Mapping):
        raise DataError(f"a {column} in {where}: a text", repr(value)[:80], "Mend the row.")
    return layouts.name(str(value), column, where)


def _ratings(value, responses: int, where: str) -> list[dict[str, float]] | None:
    if missing(value):
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
            layouts.name(key, "rating's name", where)
            if not math.isfinite(number):
                raise DataError(
                    f"finite ratings in {where}", f"{key} {number}", "Write null for none."
                )
    return rated
