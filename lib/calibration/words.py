"""What the calibration page says, written from its table."""

from __future__ import annotations

import pandas as pd

from lib import words

_RATE = "{rate:.1%} [{low99:.1%}, {high99:.1%}]"
_DONE = {
    "false-positive rate": f"“{{claim}}” is said in {_RATE} of worlds where it is false",
    "power": f"“{{claim}}” is said in {_RATE} of worlds where it is true",
    "coverage": f"{{claim}} in {_RATE} of worlds",
}


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
            "As published, {done} ({analysis}; {world}{remark}).",
        ),
        f"Checks rest on {least['draws']:,} to {ours['draws'].max():,} planted worlds; the fewest "
        f"are for {least['analysis']}, where a rate of {least['rate']:.1%} may be anything from "
        f"{least['low99']:.1%} to {least['high99']:.1%}.",
    ]


def _ours(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["form"] == "corrected"]


def _done(rows: pd.DataFrame) -> pd.DataFrame:
    done = [_DONE[row["measure"]].format(**row) for row in rows.to_dict("records")]
    return rows.assign(done=done, remark=("; " + rows["note"]).where(rows["note"] != "", ""))


def _failures(ours: pd.DataFrame) -> list[str]:
    return words.each(
        _done(ours[ours["verdict"] == "fails"]),
        "Misses its target: {done}; {target} was aimed for ({analysis}; {world}).",
    )


def _false(ours: pd.DataFrame) -> list[str]:
    return words.each(
        ours[ours["measure"] == "false-positive rate"].nlargest(1, "rate"),
        "The highest false-positive rate of any claim of ours is "
        + _RATE
        + " ({analysis}: “{claim}”, {world}; {target} was aimed for).",
    )


def made(origin: pd.DataFrame) -> str:
    """When and by what the draws were computed, from ``lib.calibration.made``."""
    first, last = origin["made"].min(), origin["made"].max()
    when = f"on {first}" if first == last else f"from {first} to {last}"
    return (
        f"Worlds were drawn and judged {when}, in {origin['seconds'].sum():,.0f} s of processor "
        f"time, with {words.reasons(origin['versions'])}. They are kept under a digest of all code "
        "that they depend on, and drawn again when that changes."
    )


def answer(table: pd.DataFrame) -> str:
    """In short: how many checks meet their target, miss it, and can't tell."""
    ours = _ours(table)
    shown, undecided, failing = (
        int((ours["verdict"] == verdict).sum()) for verdict in ("shown", "undecided", "fails")
    )
    text = (
        f"Of {words.count(len(ours), 'check')} of {_analyses(ours)}, {shown or 'none'} "
        f"{'is shown to meet its' if shown == 1 else 'are shown to meet their'} target and "
        f"{failing or 'none'} to miss it"
    )
    if not undecided:
        return f"{text}."
    of_them = "1 is" if undecided == 1 else f"{undecided} are"
    return f"{text}; {of_them} undecided, and only more planted worlds could tell."


def _analyses(ours: pd.DataFrame) -> str:
    number = ours["analysis"].nunique()
    return f"{number} {'analysis' if number == 1 else 'analyses'}"


def failures(table: pd.DataFrame) -> str:
    """Which checks of ours fail, each with its numbers."""
    return " ".join(_failures(_ours(table))) or "No check of a corrected form misses its target."


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
