"""Sparse features as rows of intervals: their parts in margins, and criteria they respond to."""

from __future__ import annotations

import numpy as np
import pandas as pd

from lib.analyses.sarm.stats import BETTER, FEATURES, NAMES, NOT_SHOWN, OWN, SHARED, WORSE
from lib.charts.intervals import intervals
from lib.charts.render import Chart, nothing, require
from lib.charts.rows import toned

MANY = 30


def features(table: pd.DataFrame, note: str = "") -> Chart:
    """Mean part in the margin of the features that matter most.

    ``table`` is as ``stats.features`` returns it; ``note`` says why it is empty.
    """
    if table.empty:
        return nothing(f"Nothing to draw: {note or 'no latent was read'}.", table, "features")
    require(table, FEATURES, "features")
    shown = table["verdict"] != NOT_SHOWN
    first = pd.concat([table[shown], table[~shown]]).head(MANY)
    tone = {BETTER: "better", WORSE: "worse"}
    rows = first.assign(
        name=[f"feature {latent}" for latent in first["latent"]],
        group="all",
        value=first["difference"],
        note=np.where(first["low"].isna(), "one prompt has no interval", ""),
        tone=toned(first["verdict"], tone),
    )
    return intervals(
        rows,
        title="mean part in the margin",
        reference=0.0,
        data=table,
        name="features",
        what="Parts of features in the margin",
        caption=f"Mean over prompts of what a feature adds to the better response less what it "
        f"adds to the worse, with a 95% interval, uncorrected; the {len(first)} features that are "
        "shown to go toward a side, and then those of the largest parts. In grey: not shown, by a "
        "test over all latents.",
    )


def names(table: pd.DataFrame, note: str = "") -> Chart:
    """Effects of features on the criterion that they respond to most, beside the next."""
    known = table[table["effect"].notna()] if len(table) else table
    if known.empty:
        return nothing(f"Nothing to draw: {note or 'no feature was judged'}.", table, "names")
    require(table, NAMES, "names of features")
    tone = {OWN: "better", SHARED: "text"}
    rows = known.assign(
        name=[f"{row.latent}: {row.criterion}" for row in known.itertuples()],
        group="all",
        value=known["effect"],
        beside=known["next_effect"],
        tone=toned(known["verdict"], tone),
    )
    return intervals(
        rows,
        title="effect, in standard deviations",
        reference=0.0,
        data=table,
        name="names",
        what="Effects of features on a criterion",
        beside="the next criterion",
        caption="Difference of a feature between the two responses of a comparison, on the "
        "criterion that half of the prompts chose, judged on the other half, with a 95% interval, "
        "uncorrected. Grey tick: size of its effect on the criterion that comes next.",
    )
