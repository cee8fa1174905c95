"""Words that sentences of several pages share.

``count``    a number with its noun
``reasons``  why a table holds no numbers
``first``    the first sentences of a sort, and how many were left out
``listed``   the first names of a list, and how many were left out
``rate``     a win rate with its interval
``size``     a size that would be found, or that none would
``departures``  which departures of a win rate from one half would be found

Where a single one would be left out it is told, since to count it takes as long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from lib.data.items import count as count


def reasons(notes: pd.Series) -> str:
    """Every note of a table once, in order; ``no numbers`` where there is none."""
    return "; ".join(note for note in dict.fromkeys(notes.fillna("")) if note) or "no numbers"


def first(told: Sequence[str], most: int, more: str) -> list[str]:
    """The first ``most`` sentences, then one that counts those left out.

    Parameters
    ----------
    told
        Sentences, the most important first.
    most
        How many are told.
    more
        What follows their number, in the plural: ``further heads do so.``
    """
    left = len(told) - most
    return [*told[:most], f"{left} {more}"] if left > 1 else list(told)


def listed(names: Sequence[str], most: int, between: str = ", ") -> str:
    """``a, b and 3 more``."""
    left = len(names) - most
    if left < 2:
        return between.join(names)
    return f"{between.join(names[:most])} and {left} more"


def rate(row: Mapping[str, float]) -> str:
    """``0.612 [0.570, 0.653]``, of ``win_rate``, ``low`` and ``high``."""
    return f"{row['win_rate']:.3f} [{row['low']:.3f}, {row['high']:.3f}]"


def size(mde: float) -> str:
    """``0.150``; ``no difference`` of NaN."""
    return "no difference" if pd.isna(mde) else f"{mde:.3f}"


def departures(mde: pd.Series) -> str:
    """Which departures of win rates from one half tests would find with power .8.

    Parameters
    ----------
    mde
        The smallest one of each test; NaN where it would find none.
    """
    sizes = mde[mde <= 0.5]
    if sizes.empty:
        return "no departure from one half would be found with power .8"
    least, most = (f"{size:.3f}" for size in (sizes.min(), sizes.max()))
    told = f"departures from one half of {least}{f' to {most}' if least != most else ''}"
    blind = len(mde) - len(sizes)
    return f"{told} would be found with power .8{f', none by {blind} of them' if blind else ''}"
