"""What the calibration page says, written from its table."""

from __future__ import annotations

import pandas as pd

from lib import words

_DONE = {
    "false-positive rate": "said where it is false",
    "power": "said where it is true",
    "coverage": "true",
}
_RATE = "{rate:.1%} [{low99:.1%}, {high99:.1%}]"


def takeaways(table: pd.DataFrame) -> list[str]:
    """How many checks meet their target, which fail, what published forms do."""
    ours = _ours(table)
    least = ours.loc[ours["draws"].idxmin()]
    return [
        answer(table),
        *_failures(ours),
        *_false(ours),
        *words.each(
            _done(table[table["form"] == "as published"]),
            "As published: “{claim}” is {done} in " + _RATE + " of worlds ({analysis}; "
            "{world}{remark}).",
        ),
        f"Checks rest on {least['draws']:,} to {ours['draws'].max():,} planted worlds; the fewest "
        f"are for {least['analysis']}, where a rate of {least['rate']:.1%} may be anything from "
        f"{least['low99']:.1%} to {least['high99']:.1%}.",
    ]


def _ours(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["form"] == "corrected"]


def _done(rows: pd.DataFrame) -> pd.DataFrame:
    remark = ("; " + rows["note"]).where(rows["note"] != "", "")
    return rows.assign(done=rows["measure"].map(_DONE), remark=remark)


def _failures(ours: pd.DataFrame) -> list[str]:
    rows = _done(ours[ours["verdict"] == "fails"])
    side = (rows["low99"] > rows["at_most"]).map({True: "above", False: "below"})
    return words.each(
        rows.assign(side=side),
        "Fails, {side} its target of {target}: {analysis}, “{claim}” is {done} in "
        + _RATE
        + " of worlds ({world}).",
    )


def _false(ours: pd.DataFrame) -> list[str]:
    return words.each(
        ours[ours["measure"] == "false-positive rate"].nlargest(1, "rate"),
        "The highest false-positive rate of any claim is "
        + _RATE
        + " ({analysis}: “{claim}”, {world}; {target} was aimed for).",
    )


def made(origin: pd.DataFrame) -> str:
    """When and by what the draws were computed, from ``lib.calibration.made``."""
    first, last = origin["made"].min(), origin["made"].max()
    when = f"on {first}" if first == last else f"from {first} to {last}"
    return (
        f"Worlds were drawn and judged {when}, in {origin['seconds'].sum():,.0f} s, with "
        f"{words.reasons(origin['versions'])}. They are kept under a digest of all code that they "
        "depend on, and drawn again when that changes."
    )


def answer(table: pd.DataFrame) -> str:
    """In short: how many checks meet their target, can't tell, and fail."""
    ours = _ours(table)
    shown, undecided, failing = (
        int((ours["verdict"] == verdict).sum()) for verdict in ("shown", "undecided", "fails")
    )
    are, their = ("is", "its") if shown == 1 else ("are", "their")
    return (
        f"Of {len(ours)} checks of {ours['analysis'].nunique()} analyses, {shown or 'none'} {are} "
        f"shown to meet {their} target, {undecided or 'none'} {'is' if undecided == 1 else 'are'} "
        f"undecided with so many worlds, {failing or 'none'} fail{'s' if failing == 1 else ''}."
    )


def failures(table: pd.DataFrame) -> str:
    """Which checks of ours fail, each with its numbers."""
    return " ".join(_failures(_ours(table))) or "No check of a corrected form fails."


def false_rate(table: pd.DataFrame) -> str:
    """In short: the highest false-positive rate of any claim of ours."""
    return " ".join(_false(_ours(table))) or "No claim was counted."


def glued(table: pd.DataFrame) -> dict[str, str]:
    """Values of the calibration page for other pages."""
    ours = _ours(table)
    verdicts = ours["verdict"].value_counts()
    family = ours[(ours["analysis"] == "validity") & (ours["measure"] == "false-positive rate")]
    worst = family.nlargest(1, "rate")
    return {
        "checks": str(len(ours)),
        "shown": str(verdicts.get("shown", 0)),
        "undecided": str(verdicts.get("undecided", 0)),
        "failing": str(verdicts.get("fails", 0)),
        "validity-false": " ".join(words.each(worst, _RATE)) or "–",
        "draws": f"{int(table['draws'].max()):,}",
    }
