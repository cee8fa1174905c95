"""Sentences written from tables: what pages say in their takeaways and glue elsewhere.

Every number in them comes from the table given; none is typed. Each function returns plain
text, which ``lib.report`` escapes.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
import xarray as xr

from lib.extraction.run import TRAINED
from lib.stats.winrates import ALL, CHANCE, distinct

_SAYS = {
    "strong": "{head} strongly tracks what people chose",
    "tracks": "{head} tracks what people chose",
    "inverted": "{head} is inverted: it prefers what people rejected",
    "chance": "{head} is at chance",
    "inconclusive": "{head} is inconclusive",
    "undefined": "{head} gives no verdict: {note}",
}


def interval(row: Any) -> str:
    """``.612 [.570, .653]``."""
    return f"{row.win_rate:.3f} [{row.low:.3f}, {row.high:.3f}]"


def verdict(row: Any) -> str:
    """A head's verdict as a sentence with its numbers."""
    says = _SAYS[row.verdict].format(head=row.head, note=row.note)
    if row.verdict == "undefined":
        return f"{says}."
    found = f"{says} (win rate {interval(row)}, adjusted p = {row.p_adjusted:.2g})"
    if row.verdict in ("inconclusive", "chance"):
        found += (
            f"; this page finds departures from one half of {row.mde:.3f} or more"
            if pd.notna(row.mde)
            else "; one prompt can't show any departure from one half"
        )
    return f"{found}."


def validity(table: pd.DataFrame, baselines: pd.DataFrame, run: xr.Dataset) -> list[str]:
    """Takeaways of the validity page: the heads on all comparisons, length, who was left out."""
    overall = table[table["subset"] == ALL]
    told = [verdict(row) for row in overall.itertuples()] if len(overall) <= 6 else _many(overall)
    told += family(table)
    longer = baselines[
        (baselines["subset"] == ALL) & (baselines["baseline"] == "longer response")
    ].iloc[0]
    if pd.notna(longer.win_rate):
        told.append(f"The longer response alone wins {interval(longer)} of the comparisons.")
    if (overall["verdict"] != "undefined").any() and not _can_be_chance(overall):
        told.append(
            f"No head could be called chance here: no interval is short enough to fit inside "
            f"{CHANCE[0]:.2f} to {CHANCE[1]:.2f}."
        )
    held_back = run.attrs["dropped"].get(TRAINED, 0)
    if held_back:
        told.append(
            f"{held_back} items were held back because their prompt trained a head; "
            f"{run.sizes['item']} are audited."
        )
    return told


def family(table: pd.DataFrame) -> list[str]:
    """How many verdicts are corrected together, and what those that found nothing could find."""
    tests = distinct(table)
    tests = tests[tests["p"].notna()]
    if tests.empty:
        return []
    several = "s" if len(tests) > 1 else ""
    told = f"Verdicts are one family of {len(tests)} test{several}, corrected by Holm"
    missed = tests[tests["verdict"].isin(["inconclusive", "chance"]) & tests["mde"].notna()]
    if missed.empty:
        return [f"{told}."]
    least, most = (f"{size:.3f}" for size in missed["mde"].agg(["min", "max"]))
    sizes = f"{least} to {most}" if least != most else least
    return [
        f"{told}; for the {len(missed)} that found nothing, departures from one half of {sizes} "
        "would have been found with power .8."
    ]


def _many(overall: pd.DataFrame) -> list[str]:
    counted = overall["verdict"].value_counts()
    told = ", ".join(f"{n} {v}" for v, n in counted.items())
    told = [f"Of {len(overall)} heads: {told}."]
    defined = overall[overall["verdict"] != "undefined"]
    if defined.empty:
        notes = "; ".join(dict.fromkeys(overall["note"]))
        return [*told, f"No head gives a verdict: {notes}."]
    best = next(defined.nlargest(1, "win_rate").itertuples())
    worst = next(defined.nsmallest(1, "win_rate").itertuples())
    return [*told, f"Highest: {verdict(best)}", f"Lowest: {verdict(worst)}"]


def _can_be_chance(overall: pd.DataFrame) -> bool:
    return bool(((overall["high"] - overall["low"]) <= CHANCE[1] - CHANCE[0]).any())


def published(table: pd.DataFrame, rule: pd.DataFrame) -> list[str]:
    """What the published rule calls valid, and what it can't tell apart."""
    merged = table.merge(rule[["head", "subset", "valid"]], on=["head", "subset"])
    overall = merged[merged["subset"] == ALL]
    valid = overall[overall["valid"]]["head"].tolist()
    missed = overall[~overall["valid"]]
    told = [
        f"By the published rule {len(valid)} of {len(overall)} heads are valid"
        + (f": {', '.join(valid)}." if valid else ".")
    ]
    for says, name in (
        ("inverted", "pointing the other way"),
        ("tracks", "tracking what people chose, with fewer wins than the rule's threshold"),
    ):
        heads = missed[missed["verdict"] == says]["head"].tolist()
        if heads:
            told.append(f"Rejected while {name}: {', '.join(heads)}.")
    return told


def glued(table: pd.DataFrame) -> dict[str, str]:
    """Values of the validity page for other pages: one sentence a head, and the count."""
    overall = table[table["subset"] == ALL]
    values = {f"verdict-{row.head}": verdict(row) for row in overall.itertuples()}
    return values | {"comparisons": str(int(overall["n"].iloc[0]))}


def counted(counts: pd.DataFrame, lengths: pd.DataFrame) -> dict[str, str]:
    """Values of the data page for other pages."""
    items = counts.set_index("step")["items"]
    longer = lengths[lengths["subset"] == ALL].iloc[0]
    return {
        "read": str(items["read"]),
        "usable": str(items["usable"]),
        "scored": str(items["scored"]),
        "longer": "–" if pd.isna(longer["longer_wins"]) else f"{longer['longer_wins']:.3f}",
    }
