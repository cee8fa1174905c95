"""A check: how often something happened in planted worlds, and how often it may.

``check`` makes a row from counts, ``many`` says how many worlds a slow check takes,
``generator`` gives each check numbers of its own, whatever the others draw, ``of`` and
``tightest`` choose rows of a whole table.
"""

from __future__ import annotations

import zlib

import numpy as np
import pandas as pd
from scipy import stats

from lib.errors import ParameterError, unknown

LEVEL = 0.99
MEASURES = ("false-positive rate", "power", "coverage")
VERDICTS = ("shown", "undecided", "fails")
FORMS = ("corrected", "as published")
COLUMNS = ("claim", "world", "measure", "draws", "rate", "low99", "high99", "target", "verdict")
COLUMNS += ("form", "at_least", "at_most", "note")
FALSE = 0.06  # share of worlds in which a page may say what isn't so
POWER = 0.8
COVERAGE = (0.93, 0.97)


def interval(hits: int, draws: int, level: float = LEVEL) -> tuple[float, float]:
    """Clopper and Pearson's (1934) exact interval of a share.

    Checked against ``scipy.stats.binomtest``.
    """
    tail = (1 - level) / 2
    low = stats.beta.ppf(tail, hits, draws - hits + 1) if hits > 0 else 0.0
    high = stats.beta.ppf(1 - tail, hits + 1, draws - hits) if hits < draws else 1.0
    return float(low), float(high)


def check(
    claim: str,
    world: str,
    measure: str,
    happened: np.ndarray,
    *,
    at_least: float = 0.0,
    at_most: float = 1.0,
    form: str = "corrected",
    note: str = "",
) -> dict:
    """One row.

    Parameters
    ----------
    claim
        What a page says, as short words.
    world
        What was planted.
    measure
        One of ``MEASURES``: in what share of worlds the claim was made where it is false,
        made where it is true, or held the truth.
    happened
        For each world whether it was, shape (draws,).
    at_least, at_most
        The target.
    form
        Ours, or the published one beside it.
    note
        What else is worth knowing.

    Returns
    -------
    dict
        The ``COLUMNS``: ``rate`` with its 99% interval ``low99`` and ``high99``, ``target`` in
        words, and ``verdict``: ``shown`` where the interval lies wholly within the target,
        ``fails`` where it lies wholly outside, so that a correct procedure seldom fails by
        chance; else ``undecided``. What must be so in every world (or in none) is shown when it
        is so in every one drawn, and fails at the first exception.
    """
    happened = np.asarray(happened, bool)
    draws, hits = len(happened), int(happened.sum())
    low, high = interval(hits, draws)
    return {
        "claim": claim,
        "world": world,
        "measure": measure,
        "draws": draws,
        "rate": hits / draws,
        "low99": low,
        "high99": high,
        "target": _words(at_least, at_most),
        "verdict": _verdict(hits / draws, low, high, at_least, at_most),
        "form": form,
        "at_least": at_least,
        "at_most": at_most,
        "note": note,
    }


def _verdict(rate: float, low: float, high: float, at_least: float, at_most: float) -> str:
    if at_least >= 1 or at_most <= 0:  # an identity: no interval reaches its target
        return "shown" if at_least <= rate <= at_most else "fails"
    if high < at_least or low > at_most:
        return "fails"
    return "shown" if at_least <= low and high <= at_most else "undecided"


def _words(at_least: float, at_most: float) -> str:
    if at_least >= 1:
        return "always"
    if at_most <= 0:
        return "never"
    if at_least <= 0:
        return f"at most {at_most:.0%}"
    if at_most >= 1:
        return f"at least {at_least:.0%}"
    return f"{at_least:.0%} to {at_most:.0%}"


def many(draws: int, most: int) -> int:
    """Worlds for a check that takes at most so many.

    Raises
    ------
    ParameterError
        When ``draws`` isn't above 0.
    """
    if draws < 1:
        raise ParameterError("draws above 0", str(draws), "Give at least one world a check.")
    return min(draws, most)


def generator(seed: int, name: str) -> np.random.Generator:
    """Random numbers that belong to a name, so that no check depends on those before it."""
    return np.random.default_rng([seed, zlib.crc32(name.encode())])


def seeds(seed: int, name: str, count: int) -> list[int]:
    """Seeds of ``count`` worlds."""
    return generator(seed, name).integers(0, 2**31, count).tolist()


def parts(draws: int, step: int) -> list[int]:
    """Sizes of the pieces in which draws are made, so that arrays stay small."""
    return [min(step, draws - first) for first in range(0, draws, step)]


def tightest(table: pd.DataFrame) -> pd.DataFrame:
    """For each claim and measure the world that comes nearest to its limit, or goes beyond.

    Parameters
    ----------
    table
        Rows of ``check``, with ``analysis``.

    Returns
    -------
    pandas.DataFrame
        Those rows, in order, with ``worlds``: of how many each is the tightest.
    """
    above = np.where(table["at_most"] < 1, table["at_most"] - table["rate"], np.inf)
    below = np.where(table["at_least"] > 0, table["rate"] - table["at_least"], np.inf)
    groups = table.assign(slack=np.minimum(above, below)).groupby(
        ["analysis", "claim", "measure", "form"], sort=False
    )
    found = table.loc[groups["slack"].idxmin()]
    return found.assign(worlds=groups.size().to_numpy()).sort_index()


def of(table: pd.DataFrame, analysis: str) -> pd.DataFrame:
    """An analysis' rows with the columns that a reader wants.

    Raises
    ------
    ParameterError
        When the table has no such analysis.
    """
    known = list(dict.fromkeys(table["analysis"]))
    if analysis not in known:
        raise unknown("analysis", analysis, known)
    columns = ["claim", "world", "measure", "form", "draws", "rate", "low99", "high99"]
    return table.loc[table["analysis"] == analysis, [*columns, "target", "verdict", "note"]]
