"""How what a head's name claims stands to what labels ask, and which labels those are.

``claims``  the concept of each head
``table``   the relation of each head and subset
``sample``  what a run holds of its dataset
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
import pandas as pd
import xarray as xr

from lib.data import asks, concepts
from lib.data.asks import MAIN
from lib.data.concepts import CLAIMED, OPPOSED, OTHER
from lib.run import Aligned, align


def claims(run: xr.Dataset) -> list[str]:
    """The concept that each head claims, or "".

    As its model declares; where that is none, as the head's name says, since whoever reads a
    table of scores reads the name.
    """
    declared = map(str, run["head_concept"].values)
    names = map(str, run["head"].values)
    return [known or concepts.of_head(name) for known, name in zip(declared, names, strict=True)]


def table(run: xr.Dataset, aligned: Aligned, masks: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """The relation of each head to the labels of each subset.

    Parameters
    ----------
    run
        A Run.
    aligned
        Its comparisons.
    masks
        Subset → which comparisons are its, shape (comparisons,).

    Returns
    -------
    pandas.DataFrame
        One row a head and subset: ``head``, ``subset``, ``claimed`` and ``opposed`` (shares of the
        comparisons that ask what the head claims, and the opposite; NaN without comparisons) and
        ``relation``, one of ``lib.data.concepts.RELATIONS``: that of nine tenths of the comparisons
        or more, else ``"claims something else"``.
    """
    rows = []
    heads = list(zip(map(str, run["head"].values), claims(run), strict=True))
    for subset, mask in masks.items():
        pairs = zip(aligned.criterion[mask], aligned.subset[mask], strict=True)
        sizes = Counter((str(criterion), str(own)) for criterion, own in pairs)
        total = sum(sizes.values())
        for head, claim in heads:
            shares = dict.fromkeys((CLAIMED, OPPOSED), 0.0 if total else np.nan)
            for (criterion, own), size in sizes.items():
                found = concepts.relation(claim, run.attrs["dataset"], criterion, own)
                if found in shares:
                    shares[found] += size / total
            # a rounding of sums mustn't decide
            main = [name for name, share in shares.items() if share > MAIN - 1e-9]
            rows.append((head, subset, *shares.values(), main[0] if main else OTHER))
    return pd.DataFrame(rows, columns=["head", "subset", "claimed", "opposed", "relation"])


def sample(run: xr.Dataset) -> pd.DataFrame:
    """What a run holds of its dataset, in one row, for labels that stand for the dataset.

    Returns
    -------
    pandas.DataFrame
        ``dataset``, ``question`` and ``kind`` (``lib.data.asks``), ``items`` (scored),
        ``compared`` (of these, in a comparison), ``comparisons``, ``prompts`` (of these), ``part``
        (``lib.data.asks.parts``; empty for all of it) and ``lacks`` (names of what the source
        lacks).
    """
    aligned = align(run)
    dataset, lacks = run.attrs["dataset"], run.attrs["missing"]
    sizes = Counter(map(str, aligned.subset))
    row = {"dataset": dataset, **asks.of(dataset)._asdict(), "items": run.sizes["item"]}
    row["compared"] = len(np.unique(run["item_of_response"].values[aligned.better]))
    row |= {"comparisons": len(aligned), "prompts": len(np.unique(aligned.prompt))}
    return pd.DataFrame([row | {"part": asks.parts(sizes, lacks), "lacks": ", ".join(lacks)}])
