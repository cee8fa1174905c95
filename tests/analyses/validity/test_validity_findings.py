"""Verdicts and the published rule's rejections are told with their true reasons."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from lib import stats
from lib.analyses.validity import words
from lib.planted.worlds import from_gaps, make_run
from lib.words import longer as beside

SIZES = np.random.default_rng(0).uniform(0.99, 1.01, 1000)


def rejected(gaps) -> list[str]:
    gaps = np.asarray(gaps, float)
    run = make_run(np.column_stack([gaps, np.zeros_like(gaps)]).reshape(-1, 1))
    return words.published(stats.validity(run), stats.validity_as_published(run))


def test_a_head_with_wins_enough_is_not_said_to_have_too_few():
    """70 wins of about 1 and 30 losses of about 10: the rule's test says nothing of its rate."""
    told = rejected([*np.linspace(0.9, 1.1, 70), *np.linspace(-10.1, -9.9, 30)])
    assert told[0] == "By the published rule head_0 is not valid."
    assert told[1] == (
        "Rejected for gaps that the rule's test doesn't find above 0, though tracking what the data "
        "set marks as better: head_0."
    )


@pytest.mark.parametrize(
    ("wins", "won", "why"),
    [
        (620, 1.0, "Rejected for too few wins, though tracking what"),
        (
            600,
            0.01,
            "for too few wins and for gaps that the rule's test doesn't find above 0, though",
        ),
        (
            300,
            1.0,
            "Counted as if at chance, though going against the labels beyond chance: head_0.",
        ),
    ],
)
def test_a_rejected_head_is_told_with_its_reason(wins, won, why):
    told = rejected(np.where(np.arange(1000) < wins, won, -1.0) * SIZES)
    assert len(told) == 2 and why in told[1]


def test_a_valid_head_is_named_and_nothing_is_rejected():
    told = rejected(np.where(np.arange(1000) < 700, 1.0, -1.0) * SIZES)
    assert told == ["By the published rule head_0 is valid."]


# ---- Beside length ----


def on_length(gaps, longer, **given) -> pd.DataFrame:
    gaps = np.asarray(gaps, float).reshape(len(longer), -1)
    tokens = np.full(2 * len(gaps), 10)
    tokens[::2] += np.asarray(longer)
    return stats.validity(from_gaps(gaps, tokens=tokens, **given))


@pytest.mark.parametrize(("side", "name"), [(1, "longer"), (-1, "shorter")])
def test_a_verdict_says_that_the_head_is_length(side, name):
    """The longer response wins 80 of 92, or the shorter does, and so does the head."""
    won = np.repeat([1, -1], [80, 12])
    row = next(on_length(won, side * won).itertuples())
    assert row.verdict == "strong"
    told = words.verdict(row)
    assert told.endswith(f"; it chooses as the {name} response does on 100.0% of comparisons.")


@pytest.mark.parametrize(("sign", "does", "which"), [(1, "win", "longer"), (-1, "lose", "shorter")])
def test_a_verdict_says_that_no_advantage_over_length_is_shown(sign, does, which):
    """Length wins 60 of 100; the head wins (or loses) 31 others and not 30 of these."""
    longer = np.repeat([1, -1], [60, 40])
    gaps = np.ones(100)
    gaps[:30], gaps[91:] = -1, -1
    table = on_length(sign * gaps, longer)
    told = words.verdict(next(table.itertuples()))
    assert f"; it is not shown to {does} more than the {which} response does (+0.010, " in told


def test_a_page_of_many_heads_counts_those_that_may_be_length():
    longer = np.repeat([1, -1], [80, 20])
    gaps = np.column_stack([*[longer] * 3, *[np.r_[np.ones(99), -1]] * 4])
    table = on_length(gaps, longer)
    told = words.takeaways(
        table, stats.baselines(make_run(np.ones((4, 7)))), make_run(np.ones((4, 7)))
    )
    assert told[2] == (
        "Of the 7 that go with the labels or against them, 3 choose as the longer or the shorter "
        "response does on 95% or more."
    )
    assert beside.verdicts(table[table["head"] == "head_4"]) == []


def test_heads_that_are_asked_what_they_claim_and_the_opposite_are_named():
    scores = np.tile([[1.0], [0.0]], (40, 1))
    run = make_run(
        np.hstack([scores, -scores, scores]),
        heads=["safety", "refusal", "tone"],
        subset=["should-respond"] * 36 + ["should-refuse"] * 4,
        criterion=["appropriateness"] * 40,
        name="xstest",
    )
    table = stats.validity(run)
    assert words.claims(table) == ["Asked the opposite: refusal (0.00, against these labels)."]
    part = table[table["subset"] == "should-refuse"].assign(subset="all")
    named = (
        "Asked what their names claim: safety (1.00, inconclusive), refusal (0.00, inconclusive)."
    )
    assert words.claims(part) == [named]
    lost = part.assign(win_rate=np.nan, verdict="undefined")
    named = "Asked what their names claim: safety (undefined), refusal (undefined)."
    assert words.claims(lost) == [named]
    assert words.claims(table[table["head"] == "tone"])[0].startswith("The labels ask something")


def test_parts_that_ask_what_names_claim_are_named_where_the_whole_does_not():
    scores = np.tile([[1.0], [0.0]], (60, 1))
    run = make_run(
        np.hstack([scores, -scores]),
        heads=["safety", "refusal"],
        subset=["should-respond"] * 30 + ["should-refuse"] * 30,
        criterion=["appropriateness"] * 60,
        name="xstest",
    )
    assert words.claims(stats.validity(run)) == [
        "As a whole the labels ask something else than the name of any head claims.",
        "Parts of the data ask what their names claim: safety on should-refuse (1.00, strong), "
        "refusal on should-refuse (0.00, against these labels).",
        "Parts of the data ask the opposite: refusal on should-respond (0.00, against these "
        "labels).",
    ]
