"""What the validity page says, written from its tables."""

from __future__ import annotations

from typing import Any

import pandas as pd
import xarray as xr

from lib import words
from lib.run import TRAINED
from lib.stats.winrates import ALL, CHANCE, STRONG, distinct
from lib.words import longer as beside

_SAYS = {
    "strong": "{head} strongly tracks what the data set marks as better",
    "tracks": "{head} tracks what the data set marks as better",
    "inverted": "{head} is inverted: it prefers what the data set marks as worse",
    "chance": "{head} is at chance",
    "inconclusive": "{head} is inconclusive",
    "undefined": "{head} gives no verdict: {note}",
}


def interval(row: Any) -> str:
    """``.612 [.570, .653]``."""
    return f"{row.win_rate:.3f} [{row.low:.3f}, {row.high:.3f}]"


def verdict(row: Any) -> str:
    """A head's verdict as a sentence with its numbers, and with what it may owe to length."""
    says = _SAYS[row.verdict].format(head=row.head, note=row.note)
    if row.verdict == "undefined":
        return f"{says}."
    found = f"{says} (win rate {interval(row)}, adjusted p = {row.p_adjusted:.2g})"
    if row.verdict in ("inconclusive", "chance"):
        found += f"; {words.departures(pd.Series([row.mde]))}"
    owed = beside.head(row)
    return f"{found}; {owed}." if owed else f"{found}."


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
            "No head could be called chance here: none has both an interval short enough to fit "
            f"inside {CHANCE[0]:.2f} to {CHANCE[1]:.2f} and a test that would find the ends of "
            "that band."
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
    told = f"Verdicts are one family of {words.count(len(tests), 'test')}, corrected by Holm"
    missed = tests[tests["verdict"].isin(["inconclusive", "chance"])]
    if missed.empty:
        return [f"{told}."]
    return [f"{told}; for the {len(missed)} that found nothing, {words.departures(missed['mde'])}."]


def _many(overall: pd.DataFrame) -> list[str]:
    counted = overall["verdict"].value_counts()
    told = ", ".join(f"{n} {v}" for v, n in counted.items())
    told = [f"Of {len(overall)} heads: {told}.", *beside.verdicts(overall)]
    defined = overall[overall["verdict"] != "undefined"]
    if defined.empty:
        notes = "; ".join(dict.fromkeys(overall["note"]))
        return [*told, f"No head gives a verdict: {notes}."]
    best = next(defined.nlargest(1, "win_rate").itertuples())
    worst = next(defined.nsmallest(1, "win_rate").itertuples())
    return [*told, f"Highest: {verdict(best)}", f"Lowest: {verdict(worst)}"]


def _can_be_chance(overall: pd.DataFrame) -> bool:
    short = (overall["high"] - overall["low"]) <= CHANCE[1] - CHANCE[0]
    return bool((short & (overall["mde"] <= CHANCE[1] - 0.5)).any())


def published(table: pd.DataFrame, rule: pd.DataFrame) -> list[str]:
    """What the published rule calls valid, and what it rejects for which reason.

    Parameters
    ----------
    table, rule
        As ``lib.stats``'s ``validity`` and ``validity_as_published`` return them.
    """
    found = rule[["head", "subset", "accuracy", "p", "valid"]].rename(columns={"p": "rule_p"})
    merged = table.merge(found, on=["head", "subset"])
    overall = merged[merged["subset"] == ALL]
    valid = overall[overall["valid"]]["head"].tolist()
    missed = overall[~overall["valid"]]
    told = [
        f"By the published rule {len(valid)} of {len(overall)} heads are valid"
        + (f": {', '.join(valid)}." if valid else ".")
    ]
    inverted = missed[missed["verdict"] == "inverted"]["head"]
    if len(inverted):
        told.append(f"Rejected while pointing the other way: {', '.join(inverted)}.")
    tracking = missed[missed["verdict"].isin(["strong", "tracks"])]
    few, silent = tracking["accuracy"] < STRONG, ~(tracking["rule_p"] < 0.05)
    for why, rejected in (
        ("with fewer wins than the rule's threshold", few & ~silent),
        ("with wins enough, but gaps that the rule's test doesn't find above 0", silent & ~few),
        ("with too few wins, and gaps that the rule's test doesn't find above 0", few & silent),
    ):
        if rejected.any():
            heads = ", ".join(tracking.loc[rejected, "head"])
            told.append(
                f"Rejected while tracking what the data set marks as better, {why}: {heads}."
            )
    return told


def glued(table: pd.DataFrame) -> dict[str, str]:
    """Values of the validity page for other pages: one sentence a head, and the count."""
    overall = table[table["subset"] == ALL]
    values = {f"verdict-{row.head}": verdict(row) for row in overall.itertuples()}
    return values | {"comparisons": str(int(overall["n"].iloc[0]))}
