"""What the calibration page says, written from its table."""

from __future__ import annotations

import pandas as pd

_DONE = {
    "false-positive rate": "said where it is false",
    "power": "said where it is true",
    "coverage": "true",
}


def calibration(table: pd.DataFrame) -> list[str]:
    """Takeaways: how many checks meet their target, which fail, what published forms do."""
    ours = table[table["form"] == "corrected"]
    failing = ours[ours["verdict"] == "fails"]
    shown, undecided = (int((ours["verdict"] == name).sum()) for name in ("shown", "undecided"))
    told = [
        f"Of {len(ours)} checks of {ours['analysis'].nunique()} analyses, {shown or 'none'} "
        f"{'is' if shown == 1 else 'are'} shown to meet {'its' if shown == 1 else 'their'} "
        f"target, {undecided or 'none'} {'is' if undecided == 1 else 'are'} undecided with so many "
        f"worlds, {len(failing) or 'none'} fail{'s' if len(failing) == 1 else ''}."
    ]
    told += [_failure(row) for row in failing.itertuples()]
    told += _false(ours)
    told += [_published(row) for row in table[table["form"] == "as published"].itertuples()]
    least = ours.loc[ours["draws"].idxmin()]
    told.append(
        f"Checks rest on {least['draws']:,} to {ours['draws'].max():,} planted worlds; the fewest "
        f"are for {least['analysis']}, where a rate of {least['rate']:.1%} may be anything from "
        f"{least['low99']:.1%} to {least['high99']:.1%}."
    )
    return told


def _rate(row) -> str:
    return f"{row.rate:.1%} [{row.low99:.1%}, {row.high99:.1%}]"


def _failure(row) -> str:
    side = "above" if row.low99 > row.at_most else "below"
    return (
        f"Fails, {side} its target of {row.target}: {row.analysis}, “{row.claim}” is "
        f"{_DONE[row.measure]} in {_rate(row)} of worlds ({row.world})."
    )


def _false(ours: pd.DataFrame) -> list[str]:
    false = ours[ours["measure"] == "false-positive rate"]
    if false.empty:
        return []
    row = false.loc[false["rate"].idxmax()]
    return [
        f"The highest false-positive rate of any claim is {row['rate']:.1%} "
        f"[{row['low99']:.1%}, {row['high99']:.1%}] ({row['analysis']}: “{row['claim']}”, "
        f"{row['world']}; {row['target']} was aimed for)."
    ]


def _published(row) -> str:
    note = f"; {row.note}" if row.note else ""
    return (
        f"As published: “{row.claim}” is {_DONE[row.measure]} in {_rate(row)} of worlds "
        f"({row.analysis}; {row.world}{note})."
    )


def made(origin: pd.DataFrame) -> str:
    """When and by what the draws were computed, from ``lib.calibration.made``."""
    first, last = origin["made"].min(), origin["made"].max()
    when = f"on {first}" if first == last else f"from {first} to {last}"
    versions = "; ".join(dict.fromkeys(origin["versions"]))
    return (
        f"Worlds were drawn and judged {when}, in {origin['seconds'].sum():,.0f} s, with "
        f"{versions}. They are kept under a digest of all code that they depend on, and drawn "
        "again when that changes."
    )


def answer(table: pd.DataFrame) -> str:
    """In short: how many checks meet their target, can't tell, and fail."""
    return calibration(table)[0]


def failures(table: pd.DataFrame) -> str:
    """Which checks of ours fail, each with its numbers."""
    failing = table[(table["form"] == "corrected") & (table["verdict"] == "fails")]
    told = " ".join(_failure(row) for row in failing.itertuples())
    return told or "No check of a corrected form fails."


def false_rate(table: pd.DataFrame) -> str:
    """In short: the highest false-positive rate of any claim of ours."""
    return " ".join(_false(table[table["form"] == "corrected"])) or "No claim was counted."


def glued(table: pd.DataFrame) -> dict[str, str]:
    """Values of the calibration page for other pages."""
    ours = table[table["form"] == "corrected"]
    family = ours[(ours["analysis"] == "validity") & (ours["measure"] == "false-positive rate")]
    return {
        "checks": str(len(ours)),
        "shown": str(int((ours["verdict"] == "shown").sum())),
        "undecided": str(int((ours["verdict"] == "undecided").sum())),
        "failing": str(int((ours["verdict"] == "fails").sum())),
        "validity-false": f"{family['rate'].max():.1%}",
        "draws": f"{int(table['draws'].max()):,}",
    }
