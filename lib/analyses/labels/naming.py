"""What heads claim to measure, and what comparisons are about.

``claims``    the concept of each head
``criteria``  the concept of each comparison
``families``  what kind of labels each head learned from
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr

from lib.data import concepts
from lib.errors import DataError
from lib.run import Aligned

NOT_NUMBERS = "scores that are not numbers"
EVERY, CHOICES, MEASURED = "all heads", "preference heads", "rating and proxy heads"


def claims(run: xr.Dataset) -> np.ndarray:
    """The concept that each head claims, or "": strings, shape (heads,).

    A model that declares concepts is taken at its word for all of its heads; the names are
    read (``lib.data.concepts.of_head``) only where it declares none at all.
    """
    declared = run["head_concept"].values
    if (declared != "").any():
        return declared.astype(np.str_)
    return np.asarray([concepts.of_head(str(name)) for name in run["head"].values], np.str_)


def families(run: xr.Dataset) -> np.ndarray:
    """What kind of labels each head learned from, shape (heads,).

    By its source, which names the labels: ``CHOICES`` or ``MEASURED`` where a model has heads of
    both kinds, else ``EVERY``. Heads of two kinds are easy to tell apart whatever they are
    called, so names are dealt at random within a family alone.
    """
    chosen = np.asarray(["choices of" in str(source) for source in run["head_source"].values])
    if chosen.all() or not chosen.any():
        return np.full(len(chosen), EVERY)
    return np.where(chosen, CHOICES, MEASURED)


def criteria(run: xr.Dataset, aligned: Aligned) -> np.ndarray:
    """What each comparison is about, shape (comparisons,): its concept, else its criterion."""
    found: dict[tuple[str, str], str] = {}
    for pair in set(zip(aligned.criterion.tolist(), aligned.subset.tolist(), strict=True)):
        try:
            found[pair] = concepts.of_comparison(run.attrs["dataset"], *pair) or pair[0]
        except DataError:
            found[pair] = pair[0]
    pairs = zip(aligned.criterion.tolist(), aligned.subset.tolist(), strict=True)
    return np.asarray([found[pair] for pair in pairs], np.str_)


def without_numbers(n: int, missing: int) -> str:
    """How many comparisons of a head have no numbers, or ""."""
    if not missing:
        return ""
    return f"{missing} of {n + missing} comparisons without numbers left out" if n else NOT_NUMBERS


def empty(columns: tuple[str, ...]) -> pd.DataFrame:
    """A table of labels without rows, its columns of the kinds that rows would have."""
    text = {"head", "criterion", "claims", "other", "other_claims", "concept", "verdict", "note"}
    kinds = {
        c: (object if c in text else bool if c in ("wrong", "claimed") else float) for c in columns
    }
    return pd.DataFrame({c: pd.Series(dtype=kind) for c, kind in kinds.items()})
