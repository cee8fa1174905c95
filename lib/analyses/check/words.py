"""What the page of a check says, written from its rows and tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from lib import words
from lib.check.lines import BLOCKED, LINES, NOT_ASKED, RIGHT, UNTOLD, WRONG, Checked, warning
from lib.stats.proportions import wilson

FAULT = "{line}, {what}: found {found}; expected {expected}. {do}"


def takeaways(checked: Checked) -> list[str]:
    """Which lines are right; each fault and what couldn't be told; what a user should know."""
    by = {verdict: [n for n, v in checked.lines.items() if v == verdict] for verdict in _ORDER}
    asked = len(LINES) - len(by[NOT_ASKED])
    sentences = [
        f"{asked} of the {words.count(len(LINES), 'line')} below were looked at. {_told(by)}."
    ]
    rows = checked.frame()
    sentences += words.each(rows[rows["verdict"].isin([WRONG, UNTOLD])], FAULT)
    if checked.unsound:
        sentences.append(warning(checked.model, checked.unsound))
    sentences += _own_system_prompt(rows)
    sentences += _number_types(checked.frame("shifts"))
    sentences += _costs(checked.frame("costs"))
    if by[NOT_ASKED]:
        sentences.append(
            f"Not looked at, since no file was named for it: {', '.join(by[NOT_ASKED])}."
        )
    return [sentence.strip() for sentence in sentences]


_ORDER = (RIGHT, WRONG, UNTOLD, BLOCKED, NOT_ASKED)


def _told(by: dict[str, list[str]]) -> str:
    said = {
        RIGHT: "Right: {}",
        WRONG: "Wrong: {}",
        UNTOLD: "Can't be told: {}",
        BLOCKED: "Not before those are mended: {}",
    }
    return ". ".join(form.format(", ".join(by[name])) for name, form in said.items() if by[name])


def _own_system_prompt(rows: pd.DataFrame) -> list[str]:
    own = rows[(rows["what"] == "system prompt") & ~rows["found"].isin(["none"])]
    return words.each(own, "The template puts a system prompt before every conversation: {found}.")


def _number_types(shifts: pd.DataFrame) -> list[str]:
    if shifts.empty:
        return []
    kind = shifts["way"].isin(["bfloat16", "float16"])
    exact = shifts[~kind]
    return [
        f"In float32 no batch, padding, order or kernel moves a score by more than "
        f"{exact['largest'].max():.1e} standard deviations ({len(exact)} ways).",
        *words.each(
            shifts[kind].assign(changed=[_sides(row) for row in shifts[kind].itertuples()]),
            "In {way} a score is off by {spread:.2f} standard deviations (root mean square, the "
            "worst score) and by {largest:.2f} at most; of {comparisons} comparisons {changed} "
            "change sides. The verdict goes by the root mean square, not by sides.",
        ),
    ]


def _sides(row: Any) -> str:
    """Share of comparisons that change sides; with its interval, each counted as independent."""
    if not row.comparisons:
        return f"{row.sides:.1%}"
    changed = np.arange(row.comparisons) < round(row.sides * row.comparisons)
    share = wilson(changed.astype(float), np.ones(row.comparisons))
    return words.estimate(row.sides, share.low, share.high, ".1%")


def _costs(costs: pd.DataFrame) -> list[str]:
    if costs.empty:
        return []
    own = costs.iloc[0]
    rate = words.estimate(own["rate"], own["low"], own["high"])
    sentences = [
        f"Under its own template the right response wins {rate} of {own['n']} pairs that differ in "
        "correctness."
    ]
    if own["low"] <= 0.5:
        sentences[0] += (
            " That isn't shown to be more than one half, so nothing could be lost there: the "
            "differences below don't say what another template costs where the score ranks right."
        )
    for row in costs.iloc[1:].itertuples():
        ends = words.estimate(row.difference, row.difference_low, row.difference_high, "+.3f")
        name = "no template" if row.template == "none" else f"{row.template} template"
        sentences.append(f"Under {name} it wins {row.rate:.3f}; the paired difference is {ends}.")
    return sentences
