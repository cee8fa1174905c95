"""Coverage disparity, published as a distortion index: which concepts do a head's margins cover?

As published, margins of all probes are stretched to 0 … 1, a concept is covered by
C = 1 − Π(1 − c) over its probes, and its index is 1 − C/max C. C grows with the number of
probes whatever they show: with many it is 1 for every concept, with two it is luck.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import xarray as xr

from lib.analyses.concepts.pairs import pairs

FEW = 2  # probes a concept; published: one to three
DRAWS = 400
HIGH = 0.7  # published: from here on a concept is at high risk
_COLUMNS = ["concept", "head", "n", "covered", "disparity", "few_low", "few_high", "few_above"]
_COLUMNS += ["mean_covered", "exposure", "exposure_mean", "note"]


def coverage(
    run: xr.Dataset,
    alignment: pd.DataFrame,
    *,
    few: int = FEW,
    draws: int = DRAWS,
    seed: int = 0,
) -> pd.DataFrame:
    """The published index with all pairs, with few of them, and what it is used for.

    Parameters
    ----------
    run
        A Run with states.
    alignment
        As ``directions.alignment`` gives it, for the cosines.
    few, draws, seed
        The index again with so many pairs of each concept, drawn so often.

    Returns
    -------
    pandas.DataFrame
        One row a concept and head: ``concept``, ``head``, ``n``, ``covered`` (C) and
        ``disparity`` with all pairs; ``few_low`` and ``few_high`` (central 95% of the disparity
        over the draws) and ``few_above`` (share of them that are at or above ``HIGH``);
        ``mean_covered`` (mean of c, which doesn't grow with the number of pairs), ``exposure``
        = |cosine as published| · (1 − C), ``exposure_mean`` (the same with the mean) and
        ``note``.
    """
    usable = [each for each in pairs(run) if not each.note]
    heads, tables = run["head"].values, []
    generator = np.random.default_rng([seed, 5])
    if usable:
        stretched = _stretched(np.concatenate([each.gap for each in usable]))
        parts = np.split(stretched, np.cumsum([len(each) for each in usable])[:-1])
        whole = np.stack([_covered(part) for part in parts])
        index = _disparity(whole)
        drawn = np.stack([_few(usable, few, generator) for _ in range(draws)])
        low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
        above = (drawn >= HIGH).mean(axis=0)
    for number, each in enumerate(usable):
        table = pd.DataFrame({"concept": each.concept, "head": heads, "n": len(each)})
        numbers = {"covered": whole, "disparity": index, "few_low": low, "few_high": high}
        numbers |= {"few_above": above}
        table = table.assign(**{name: of[number] for name, of in numbers.items()}, note="")
        tables.append(table.assign(mean_covered=parts[number].mean(axis=0)))
    if not tables:
        return pd.DataFrame([{"concept": "every concept", "note": "too few pairs"}]).reindex(
            columns=_COLUMNS
        )
    cosines = alignment[["concept", "head", "published"]]
    table = pd.concat(tables, ignore_index=True).merge(cosines, on=["concept", "head"], how="left")
    size = table["published"].abs()
    table["exposure"] = size * (1 - table["covered"])
    table["exposure_mean"] = size * (1 - table["mean_covered"])
    return table[_COLUMNS]


def index(margins: Sequence[np.ndarray]) -> np.ndarray:
    """The published index of each concept, shape (concepts, heads).

    ``margins`` holds those of each concept's probes, shape (probes, heads).
    """
    stretched = _stretched(np.concatenate(margins))
    parts = np.split(stretched, np.cumsum([len(each) for each in margins])[:-1])
    return _disparity(np.stack([_covered(part) for part in parts]))


def _stretched(gaps: np.ndarray) -> np.ndarray:
    """Margins of all probes stretched to 0 … 1, ½ where they are all the same."""
    least, most = gaps.min(axis=0), gaps.max(axis=0)
    wide = most > least
    return np.where(wide, (gaps - least) / np.where(wide, most - least, 1), 0.5)


def _covered(strength: np.ndarray) -> np.ndarray:
    return 1 - np.prod(1 - strength, axis=0)


def _disparity(covered: np.ndarray) -> np.ndarray:
    """1 − C/max C over concepts (axis 0); 1 where nothing is covered."""
    most = covered.max(axis=0)
    return np.where(most > 0, 1 - covered / np.where(most > 0, most, 1), 1.0)


def _few(usable, few: int, generator: np.random.Generator) -> np.ndarray:
    return index([each.gap[generator.permutation(len(each))[:few]] for each in usable])
