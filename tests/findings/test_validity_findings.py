"""Verdicts and the published rule's rejections are told with their true reasons."""

from __future__ import annotations

import numpy as np
import pytest

from lib import stats
from lib.findings import validity as says
from lib.planted import make_run

SIZES = np.random.default_rng(0).uniform(0.99, 1.01, 1000)


def rejected(gaps) -> list[str]:
    gaps = np.asarray(gaps, float)
    run = make_run(np.column_stack([gaps, np.zeros_like(gaps)]).reshape(-1, 1))
    return says.published(stats.validity(run), stats.validity_as_published(run))


def test_a_head_with_wins_enough_is_not_said_to_have_too_few():
    """70 wins of about 1 and 30 losses of about 10: the rule's test says nothing of its rate."""
    told = rejected([*np.linspace(0.9, 1.1, 70), *np.linspace(-10.1, -9.9, 30)])
    assert told[0] == "By the published rule 0 of 1 heads are valid."
    assert told[1] == (
        "Rejected while tracking what the data set marks as better, with wins enough, but gaps "
        "that the rule's test doesn't find above 0: head_0."
    )


@pytest.mark.parametrize(
    ("wins", "won", "why"),
    [
        (620, 1.0, "better, with fewer wins than the rule's threshold: head_0."),
        (600, 0.01, "better, with too few wins, and gaps that the rule's test doesn't find above"),
        (300, 1.0, "Rejected while pointing the other way: head_0."),
    ],
)
def test_a_rejected_head_is_told_with_its_reason(wins, won, why):
    told = rejected(np.where(np.arange(1000) < wins, won, -1.0) * SIZES)
    assert len(told) == 2 and why in told[1]


def test_a_valid_head_is_named_and_nothing_is_rejected():
    told = rejected(np.where(np.arange(1000) < 700, 1.0, -1.0) * SIZES)
    assert told == ["By the published rule 1 of 1 heads are valid: head_0."]
