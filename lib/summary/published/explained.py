"""Claims of reward-lens on models at hand: the same measures as published, and with faults mended.

Of effects (``lib.effects``), whose pages show the same for every head; here it is the first
head as pages show them, so the final score where a gate makes one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import xarray as xr

from lib.analyses.lens import stats as lens
from lib.analyses.patching import agreement, stats
from lib.analyses.patching.agreement import ALIGNED, AS_PUBLISHED, CORRECTED, NORM
from lib.effects import DENOISING, EVERYTHING, LEFT, NOISING, heads

_ENDS = ("", "_low", "_high")


def _one(effects: xr.Dataset) -> xr.Dataset:
    return effects.sel(head=[heads(effects)[0]])


def depths(explained: Sequence[xr.Dataset]) -> pd.DataFrame:
    """At what share of the layers half of a margin is read, first and from where on to stay.

    Returns
    -------
    pandas.DataFrame
        One row a set of effects whose margins aren't all 0: ``model``, ``dataset``, ``head``;
        medians over comparisons, as shares of the layers, with the final norm (``first``,
        ``first_low``, ``first_high``), from where on it stays so (``stays`` …), and the first as
        published (``raw`` …); ``opposed``, the share of
        comparisons in which the published lens picks another response at its last point, with
        ``opposed_low`` and ``opposed_high``.
    """
    rows = []
    for effects in explained:
        one = _one(effects)
        found = lens.depths(one).iloc[0]
        if found["note"] == lens.NO_MARGIN:
            continue
        last = lens.published(one, lens.curves(one)).iloc[0]
        row = _about(effects)
        for end in _ENDS:
            row[f"first{end}"] = found[f"first{end}"] / found["layers"]
            row[f"stays{end}"] = found[f"stays{end}"] / found["layers"]
            row[f"raw{end}"] = found[f"first_raw{end}"] / found["layers"]
        row |= {"opposed": last["end_opposed"], "opposed_low": last["low"]}
        rows.append(row | {"opposed_high": last["high"]})
    names = [f"{name}{end}" for name in ("first", "stays", "raw", "opposed") for end in _ENDS]
    return pd.DataFrame(rows, columns=["model", "dataset", "head", *names])


def _about(effects: xr.Dataset) -> dict[str, str]:
    about = {name: effects.attrs[name] for name in ("model", "dataset")}
    return about | {"head": heads(effects)[0]}


def patches(explained: Sequence[xr.Dataset]) -> pd.DataFrame:
    """Attribution beside patches, and what patches leave that are aligned from the left.

    Returns
    -------
    pandas.DataFrame
        One row a set of effects whose ranks vary: ``model``, ``dataset``, ``head``; mean ρ of
        attribution and noising with both faults mended (``mended`` …) and as published
        (``plain`` …); what mending the alignment and the norm adds to it (``alignment`` …,
        ``norm`` …), each with ``…_low`` and ``…_high``; and ``better_left`` and ``worse_left``:
        what is left of the size of margins when everything in that response is exchanged,
        aligned from the left (0 where the exchange is whole).
    """
    rows = []
    for effects in explained:
        if not effects.sizes["patched"]:
            continue
        one = _one(effects)
        rho = agreement.attribution(one).set_index(["alignment", "parts"])
        change = agreement.faults(one).set_index("what").rename(columns={"change": "rho"})
        row = _about(effects) | _left(one)
        for name, found in (
            ("mended", rho.loc[CORRECTED]),
            ("plain", rho.loc[AS_PUBLISHED]),
            ("alignment", change.loc[ALIGNED]),
            ("norm", change.loc[NORM]),
        ):
            row |= {name: found["rho"], f"{name}_low": found["low"], f"{name}_high": found["high"]}
        rows.append(row)
    names = [f"{name}{end}" for name in ("mended", "plain", ALIGNED, NORM) for end in _ENDS]
    columns = ["model", "dataset", "head", *names, "better_left", "worse_left"]
    return pd.DataFrame(rows, columns=columns).dropna(ignore_index=True)


def _left(one: xr.Dataset) -> dict[str, float]:
    """Of the size of margins what exchanging everything leaves, aligned from the left."""
    margin = one["margin"].values.astype(float)
    size = np.abs(margin).mean()
    found = {}
    for name, mode in (("better_left", NOISING), ("worse_left", DENOISING)):
        every = one["effect"].sel(way=stats.way_of(mode, LEFT), node=EVERYTHING).values
        found[name] = np.abs(margin + every).mean() / size if size > 0 else np.nan
    return found
