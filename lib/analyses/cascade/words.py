"""What the cascade page says, written from its tables."""

from __future__ import annotations

import pandas as pd

from lib import words
from lib.analyses.cascade.stats import (
    ALIGNED,
    MISALIGNED,
    NOT_SHOWN,
    OPPOSED,
    TOGETHER,
    TWO,
    UNDEFINED,
    Correlations,
)

SHOWN = 4  # rules or pairs that are told one by one
_R = "{r:.2f} [{low:.2f}, {high:.2f}], adjusted p = {p_adjusted:.2g}"


def takeaways(preferences: pd.DataFrame, found: Correlations, published: pd.DataFrame) -> list[str]:
    """Do failures go together, in which dimensions are there any, and the published figures."""
    return [
        answer(found.together),
        *_pairs(found.pairs),
        *as_published(found.pairs, published),
        *_preferences(preferences),
        *family(preferences, found),
    ]


def answer(table: pd.DataFrame) -> str:
    """Which rules' margins rise and fall together over all dimensions."""
    tested = table[table["verdict"] != UNDEFINED]
    if tested.empty:
        return f"Nothing can be said of failures that go together: {words.reasons(table['note'])}."
    told = []
    for verdict, text in (
        (TOGETHER, "Margins of different dimensions rise and fall together across scenarios for"),
        (OPPOSED, "Margins of different dimensions run against one another for"),
    ):
        rows = tested[tested["verdict"] == verdict].sort_values("p", kind="stable")
        if len(rows):
            named = words.each(rows, "{head} (mean r {r:.2f} [{low:.2f}, {high:.2f}])")
            told.append(f"{text} {words.listed(named, SHOWN)}.")
    rest = tested[tested["verdict"] == NOT_SHOWN]
    if len(rest):
        who = "no rule" if not told else f"{words.count(len(rest), 'further rule')}"
        sizes = rest["mde"].dropna()
        missed = (
            f"a mean correlation of {words.span(sizes, '.2f')} would have been found with power .8"
            if len(sizes)
            else "no mean correlation would have been found with power .8"
        )
        text = "Failures are shown to go together for" if not told else "It isn't shown for"
        told.append(f"{text} {who} ({missed}).")
    return " ".join(told)


def _pairs(table: pd.DataFrame) -> list[str]:
    tested = table[table["verdict"] != UNDEFINED]
    if tested.empty:
        return []
    claimed = tested[tested["verdict"].isin([TOGETHER, OPPOSED])]
    sizes = tested["mde"].dropna()
    reach = (
        f"a correlation of {words.span(sizes, '.2f')} would be found with power .8"
        if len(sizes)
        else "none would be found with power .8"
    )
    if claimed.empty:
        return [
            f"No two dimensions are shown to go together for any rule, over "
            f"{words.count(len(tested), 'pair')} of rule and dimensions; {reach}."
        ]
    rows = claimed.sort_values("p", kind="stable")
    kinds = {TOGETHER: "go together", OPPOSED: "run against one another"}
    told = words.each(
        rows.assign(does=rows["verdict"].map(kinds)),
        "{head}: {one} and {other} {does} (r " + _R + ").",
    )
    return words.first(told, SHOWN, f"further pairs of dimensions are shown to correlate; {reach}.")


def as_published(pairs: pd.DataFrame, published: pd.DataFrame) -> list[str]:
    """What the published design gives: two scenarios a dimension."""
    known = pairs[pairs["published"].notna()]
    two = published[(published["scenarios"] == TWO) & published["risk"].notna()]
    if known.empty or two.empty:
        return []
    perfect = int((known["published"].abs() > 1 - 1e-9).sum())
    up = int((known["published"] > 0).sum())
    whole = published[(published["scenarios"] != TWO) & published["risk"].notna()]
    return [
        f"As published, with two scenarios a dimension, {perfect} of {len(known)} correlations "
        f"have size 1 ({up} of them +1, {len(known) - up} of them -1): two points lie on a line. "
        f"On all {words.span(known['n'], 'd')} scenarios the same correlations lie between "
        f"{known['r'].min():.2f} and {known['r'].max():.2f}. The published risk is then at least "
        f"{two['risk'].min():.2f} for every rule, and on all scenarios "
        f"{words.span(whole['risk'], '.2f')}."
    ]


def _preferences(table: pd.DataFrame) -> list[str]:
    """The one score, or the rule that stands last, by dimension; then how many cells."""
    tested = table[table["verdict"] != UNDEFINED]
    if tested.empty:
        return []
    last = tested["head"].iloc[-1]
    own = tested[tested["head"] == last]
    kinds = {
        "prefers the aligned responses in": own[own["verdict"] == ALIGNED],
        "prefers the misaligned ones in": own[own["verdict"] == MISALIGNED],
        "is not shown to prefer either in": own[own["verdict"] == NOT_SHOWN],
    }
    cells = tested["verdict"].value_counts()
    return [
        f"{last} {words.cases(kinds, _cell)}.",
        f"Over all rules and dimensions the aligned responses are preferred in "
        f"{cells.get(ALIGNED, 0)}, the misaligned ones in {cells.get(MISALIGNED, 0)} of "
        f"{words.count(len(tested), 'cell')}; the rest isn't told from one half.",
    ]


def _cell(row) -> str:
    return f"{row.dimension} ({words.estimate(row.win_rate, row.low, row.high, '.2f')})"


def family(preferences: pd.DataFrame, found: Correlations) -> list[str]:
    """What is corrected with what."""
    sizes = [int(table["p"].notna().sum()) for table in (found.together, found.pairs, preferences)]
    if not any(sizes):
        return []
    mean, two, cells = sizes
    return [
        f"Three families are corrected by Holm, each by itself: {words.count(mean, 'mean')} of "
        f"correlations, {words.count(two, 'correlation')} of two dimensions, and "
        f"{words.count(cells, 'preference')}. Verdicts are by these tests; intervals are "
        "uncorrected and made without supposing that nothing correlates, so one may hold 0 where a "
        "test finds something."
    ]
