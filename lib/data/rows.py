"""Rows of published sets, checked: what one lacks is an error that names it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from lib.data.items import Builder
from lib.errors import DataError, unknown

BENCHMARK = "Check that the file is the benchmark's own."


def check_columns(row: Mapping, columns: Sequence[str], which: str, where: str, whose: str) -> None:
    """Raise a ``DataError`` for columns that a row lacks."""
    absent = [column for column in columns if column not in row]
    if absent:
        raise DataError(
            f"columns {', '.join(columns)} in {where}",
            f"{which} without {', '.join(absent)}",
            f"Check that the file is {whose} own.",
        )


def check_texts(row: Mapping, columns: Sequence[str], number: int, where: str, whose: str) -> None:
    """Raise a ``DataError`` for columns that hold no text."""
    lacking = [column for column in columns if not isinstance(row.get(column), str)]
    if lacking:
        raise DataError(
            f"texts under {' and '.join(map(repr, columns))} in {where}",
            f"row {number} without a {' or '.join(lacking)} text",
            f"Check that the file is {whose} own.",
        )


class Row(NamedTuple):
    """A row of a benchmark; what is wrong with it is a ``DataError`` that names the row."""

    values: Mapping
    number: int
    where: str

    def field(self, column: str):
        """The value in a column."""
        if self.values.get(column) is None:
            columns = f"columns {', '.join(sorted(map(str, self.values)))}"
            raise DataError(
                f"column {column!r} in row {self.number} of {self.where}",
                "nothing in it" if column in self.values else columns,
                BENCHMARK,
            )
        return self.values[column]

    def text(self, column: str) -> str:
        """The text in a column."""
        return self._text(self.field(column), column)

    def texts(self, column: str) -> list[str]:
        """The texts in a column, at least one."""
        held = self.field(column)
        if not isinstance(held, list) or not held:
            raise DataError(
                f"a list of texts in column {column!r} of row {self.number} of {self.where}",
                "an empty list" if held == [] else f"a {type(held).__name__}",
                BENCHMARK,
            )
        return [self._text(each, column) for each in held]

    def prompt(self) -> list[dict[str, str]]:
        """A text as one user turn; a list of turns as it stands."""
        held = self.field("prompt")
        if not isinstance(held, list) or not held:
            return [{"role": "user", "content": self._text(held, "prompt")}]
        for turn in held:
            if not isinstance(turn, Mapping) or not {"role", "content"} <= set(turn):
                raise DataError(
                    f"turns with role and content in column 'prompt' of row {self.number} of "
                    f"{self.where}",
                    f"a {type(turn).__name__}",
                    BENCHMARK,
                )
        return [{"role": str(turn["role"]), "content": str(turn["content"])} for turn in held]

    def _text(self, held, column: str) -> str:
        if not isinstance(held, str):
            raise DataError(
                f"a text in column {column!r} of row {self.number} of {self.where}",
                f"a {type(held).__name__}",
                BENCHMARK,
            )
        return held


def labelled(
    builder: Builder,
    files: Iterable[tuple[str, Iterable[Mapping]]],
    column: str,
    known: Collection[str],
    wanted: Collection[str],
    name: str,
    part: tuple[str, str, str] | None,
) -> Iterator[tuple[str, Row]]:
    """Label and row of all rows of a benchmark whose label is wanted.

    A file is a label and its rows; where that is empty each row tells its own in a column.
    Labels without a row are missing; that all of them are is a ``DataError`` where one part
    was asked for: what it is, its title and its name.
    """
    seen = set()
    for own, rows in files:
        for number, values in enumerate(rows):
            label = own or Row(values, number, name).text(column)
            if label not in known:
                raise unknown(f"{column} of {name}", label, known, DataError)
            if label in wanted:
                seen.add(label)
                yield label, Row(values, number, f"{name}, {column} {label}")
    builder.missing += [label for label in wanted if label not in seen]
    if part and not seen:
        kind, title, asked = part
        raise DataError(
            f"rows of {kind} {title!r} in {name}",
            f"rows of other {kind}s only",
            f"Leave '/{asked}' out of the name, or check the source.",
        )


def is_blank(turns: Iterable[Mapping[str, str]]) -> bool:
    """Is there nothing in any turn?"""
    return not any(turn["content"].strip() for turn in turns)


def crossed(better: int, worse: int, criterion: str, subset: str) -> list[tuple]:
    """Comparisons of each of the first slots with each of the slots behind them."""
    return [(i, better + j, criterion, subset) for i in range(better) for j in range(worse)]
