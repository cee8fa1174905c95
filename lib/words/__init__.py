"""The shapes that sentences of several pages share; each page's ``words`` fills them.

``count``       a number with its noun
``number``      a number, or a dash where there is none
``estimate``    a number with its interval
``RATE``        the same for a win rate, as part of a template
``LEARNED``     mark of what learned from other prompts of the same source
``span``        the least and the most of some numbers
``tally``       how many rows have which verdict
``each``        a sentence a row, from one template
``by_note``     a sentence a note, with the heads that carry it
``cases``       which rows are of which kind, as one sentence's parts
``reasons``     why a table holds no numbers
``first``       the first sentences of a sort, and how many were left out
``listed``      the first names of a list, and how many were left out
``mixed``       what isn't told of comparisons whose criteria ask different things
``found``       which effect would have been found, or that none would
``departures``  which departures of a win rate from one half would be found

Where a single sentence or name would be left out it is shown, since to count it takes as long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from lib.data.items import count as count
from lib.markup import READ

RATE = "{win_rate:.3f} [{low:.3f}, {high:.3f}]"
LEARNED = "†"


def number(value: float, form: str, missing: str = "–") -> str:
    """A number in a format of ``format``; ``missing`` for NaN."""
    return missing if pd.isna(value) else format(value, form)


def estimate(value: float, low: float, high: float, form: str = ".3f") -> str:
    """``0.612 [0.570, 0.653]``; the number alone where it has no interval."""
    return f"{value:{form}}" + ("" if pd.isna(low) else f" [{low:{form}}, {high:{form}}]")


def rate(row: Mapping[str, float]) -> str:
    """A win rate with its interval, of ``win_rate``, ``low`` and ``high``."""
    return estimate(row["win_rate"], row["low"], row["high"])


def span(values: pd.Series, form: str, after: str = "") -> str:
    """``0.100 to 0.300`` and what comes after; one number alone where both are written alike."""
    least, most = (format(value, form) for value in values.agg(["min", "max"]))
    return least if least == most else f"{least} to {most}{after}"


def tally(verdicts: pd.Series, order: Iterable[str]) -> str:
    """``2 strong, 1 chance``: verdicts that occur, in an order."""
    counts = verdicts.value_counts()
    return ", ".join(f"{counts[name]} {READ.get(name, name)}" for name in order if name in counts)


def each(rows: pd.DataFrame, template: str, **shared: Any) -> list[str]:
    """The template filled from every row by its columns' names, and from what rows share."""
    return [template.format(**row, **shared) for row in rows.to_dict("records")]


def by_note(rows: pd.DataFrame, template: str) -> list[str]:
    """The template filled with each ``note`` and with the ``heads`` that carry it."""
    noted = rows[rows["note"] != ""].groupby("note", sort=False)["head"]
    return [template.format(note=note, heads=", ".join(map(str, own))) for note, own in noted]


def cases(
    kinds: Mapping[str, pd.DataFrame], shown: Callable[[Any], str], between: str = "; "
) -> str:
    """``gains on a, b; loses to c``: each kind that has rows, with what is shown of them."""
    return between.join(
        f"{kind} {', '.join(map(shown, rows.itertuples()))}"
        for kind, rows in kinds.items()
        if len(rows)
    )


def reasons(notes: pd.Series) -> str:
    """Every note of a table once, in order; ``no numbers`` where there is none."""
    return "; ".join(note for note in dict.fromkeys(notes.fillna("")) if note) or "no numbers"


def first(sentences: Sequence[str], shown: int, more: str) -> list[str]:
    """As many sentences as are shown, then one that counts the others, in the plural."""
    left = len(sentences) - shown
    return [*sentences[:shown], f"{left} {more}"] if left > 1 else list(sentences)


def listed(names: Sequence[str], shown: int, between: str = ", ") -> str:
    """``a, b and 3 more``."""
    left = len(names) - shown
    if left < 2:
        return between.join(names)
    return f"{between.join(names[:shown])} and {left} more"


def mixed(untold: str) -> str:
    """What isn't told where each criterion asks its own question (``lib.data.asks.whole``)."""
    return (
        "Each criterion of these comparisons asks its own question, and “better” means another "
        f"thing for each, so {untold}."
    )


def found(mde: float, what: str = "{:.3f}", nothing: str = "none that can occur") -> str:
    """``0.166 would have been found``; of NaN, that nothing would: no test finds what can't be."""
    return f"{nothing if pd.isna(mde) else what.format(mde)} would have been found"


def departures(mde: pd.Series) -> str:
    """Which departures of win rates from one half tests would find with power .8.

    ``mde`` is the smallest one of each test; NaN where it would find none.
    """
    sizes = mde[mde <= 0.5]
    if sizes.empty:
        return "no win rate would be told from one half with power .8"
    blind = len(mde) - len(sizes)
    return (
        f"a win rate {span(sizes, '.3f')} away from one half would be found with power .8"
        f"{f', none by {blind} of them' if blind else ''}"
    )
