"""Steering as rows of intervals: what was aimed at, and everything else."""

from __future__ import annotations

import pandas as pd

from lib.analyses.steering.stats import TARGETS
from lib.charts.intervals import intervals
from lib.charts.render import Chart, nothing, require
from lib.charts.rows import toned

AIMED, OTHERS = "what was aimed at", "all other criteria"
TONES = {"corrects": "better", "helps": "better", "harms": "worse"}


def targets(table: pd.DataFrame) -> Chart:
    """Changes of accuracy by criterion; a menu turns to the side effects.

    ``table`` is as ``stats.targets`` returns it.
    """
    require(table, TARGETS, "steered criteria")
    known = table[table["change"].notna()]
    if known.empty:
        told = "; ".join(dict.fromkeys(table["note"].dropna())) or "no criterion was steered"
        return nothing(f"Nothing to draw: {told}.", table, "targets")
    name = [f"{row.criterion} ({int(row.latent)})" for row in known.itertuples()]
    own = known.assign(name=name, group=AIMED, value=known["change"], beside=known["dense"])
    own["tone"] = toned(known["verdict"], TONES)
    side = known.assign(name=name, group=OTHERS, value=known["side"], beside=known["dense_side"])
    side["low"], side["high"] = known["side_low"], known["side_high"]
    side["tone"] = toned(known["side_verdict"], TONES)
    side = side[side["value"].notna()]
    return intervals(
        pd.concat([own, side]),
        title="change of accuracy",
        reference=0.0,
        domain=(-0.1, 0.1),
        data=table,
        name="targets",
        what="Changes of accuracy",
        beside="dense direction of equal size",
        menu_name="Of",
        caption="Change of the share of comparisons ranked as labelled where one latent (in "
        "brackets) is suppressed, with a 95% interval, uncorrected, on prompts that didn't choose "
        "it. In grey: not shown, by Holm's correction over criteria. Grey tick: the state moved "
        "along a dense direction instead, by as much.",
    )
