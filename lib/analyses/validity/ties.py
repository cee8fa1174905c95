"""How often a head can't tell two responses apart: ties, which a win rate counts half."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from lib import words
from lib.stats.winrates import ALL, tied

MOST = 6  # heads named with their share
ROUGH = ("bfloat16", "float16")  # number types whose rounding makes ties


def ties(table: pd.DataFrame, extraction: Mapping[str, str] | None = None) -> list[str]:
    """One sentence where a head ties on any comparison; none where no head does.

    Parameters
    ----------
    table
        As ``lib.stats.validity`` returns it.
    extraction
        How the run was made, as its ``attrs`` tell: a rough number type is named.
    """
    overall = table[table["subset"] == ALL].assign(share=tied)
    some = overall[overall["share"] > 0].sort_values("share", ascending=False, kind="stable")
    if some.empty:
        return []
    named = [
        f"{row.head} on {row.share:.1%} ({row.ties:.0f} of {row.n})" for row in some.itertuples()
    ]
    verb = "ties" if len(some) == 1 else "tie"
    told = (
        f"{len(some)} of {words.count(len(overall), 'head')} {verb} on some comparisons, each "
        f"counted half: {words.listed(named, MOST)}."
    )
    dtype = (extraction or {}).get("dtype", "")
    if dtype in ROUGH and (some["share"] < 1).any():
        told += f" The run's states were computed in {dtype}, and rounding can make ties."
    return [told]
