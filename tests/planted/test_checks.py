"""A check fails only beyond doubt, and says how much doubt there is."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from lib.errors import ParameterError
from lib.planted import checks


def row(hits, draws, **target):
    happened = np.arange(draws) < hits
    return checks.check("a claim", "a world", "power", happened, **target)


@pytest.mark.parametrize(("hits", "draws"), [(0, 10), (10, 10), (3, 40), (600, 10_000)])
def test_the_interval_is_clopper_and_pearsons(hits, draws):
    expected = stats.binomtest(hits, draws).proportion_ci(0.99, method="exact")
    assert checks.interval(hits, draws) == pytest.approx((expected.low, expected.high))


@pytest.mark.parametrize(
    ("hits", "draws", "target", "verdict"),
    [
        (8, 100, {"at_most": 0.06}, "undecided"),  # above, but so few worlds can't tell
        (800, 10_000, {"at_most": 0.06}, "fails"),
        (0, 100, {"at_most": 0.06}, "shown"),  # at most 5.2%
        (1, 100, {"at_most": 0.06}, "undecided"),
        (70, 100, {"at_least": 0.8}, "undecided"),
        (95, 100, {"at_least": 0.8}, "shown"),
        (7000, 10_000, {"at_least": 0.8}, "fails"),
        (9800, 10_000, {"at_least": 0.93, "at_most": 0.97}, "fails"),
        (9500, 10_000, {"at_least": 0.93, "at_most": 0.97}, "shown"),
        (9690, 10_000, {"at_least": 0.93, "at_most": 0.97}, "undecided"),
        (100, 100, {"at_least": 1.0}, "shown"),  # an identity
        (99, 100, {"at_least": 1.0}, "fails"),
        (0, 100, {"at_most": 0.0}, "shown"),
        (1, 100, {"at_most": 0.0}, "fails"),
        (9000, 10_000, {"at_least": 0.93, "at_most": 0.97}, "fails"),
    ],
)
def test_a_check_fails_when_its_interval_lies_wholly_beyond_the_target(
    hits, draws, target, verdict
):
    found = row(hits, draws, **target)
    assert (found["verdict"], found["rate"]) == (verdict, hits / draws)
    assert set(found) == set(checks.COLUMNS)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ({"at_most": 0.06}, "at most 6%"),
        ({"at_least": 0.8}, "at least 80%"),
        ({"at_least": 0.93, "at_most": 0.97}, "93% to 97%"),
        ({"at_least": 1.0}, "always"),
        ({"at_most": 0.0}, "never"),
    ],
)
def test_targets_in_words(target, words):
    assert row(1, 2, **target)["target"] == words


def test_a_correct_procedure_seldom_fails():
    # True rate at the limit: at most .5% of checks may fail.
    hits = np.random.default_rng(0).binomial(500, 0.06, 4000)
    low = stats.beta.ppf(0.005, hits, 501 - hits)
    assert (low > 0.06).mean() < 0.008
    assert row(int(hits.max()), 500, at_most=0.06)["verdict"] == "fails"


def test_draws_are_capped_and_none_is_an_error():
    assert checks.many(10_000, 300) == 300
    assert checks.many(7, 300) == 7
    with pytest.raises(ParameterError, match="draws above 0; found 0"):
        checks.many(0, 300)


def test_pieces_sum_to_the_whole():
    assert checks.parts(10, 4) == [4, 4, 2]


def test_a_name_has_its_own_numbers():
    one, same = (checks.generator(1, "a").random(3) for _ in range(2))
    assert one.tolist() == same.tolist()
    assert one.tolist() != checks.generator(1, "b").random(3).tolist()
    assert one.tolist() != checks.generator(2, "a").random(3).tolist()
    assert len(set(checks.seeds(0, "a", 50))) == 50


def test_the_tightest_world_is_the_one_nearest_to_or_beyond_its_limit():
    table = pd.DataFrame(
        [
            row(96, 100, at_least=0.93) | {"world": "easy"},
            row(90, 100, at_least=0.93) | {"world": "hard"},
            row(99, 100, at_least=0.93, at_most=0.97) | {"world": "over"},
            row(1, 100, at_most=0.06) | {"claim": "another", "world": "alone"},
        ]
    ).assign(analysis="x")
    found = checks.tightest(table)
    assert found[["claim", "world", "worlds"]].values.tolist() == [
        ["a claim", "hard", 3],
        ["another", "alone", 1],
    ]


def test_rows_of_an_unknown_analysis_are_an_error():
    table = pd.DataFrame([row(1, 2, at_most=0.5)]).assign(analysis="labels")
    assert len(checks.of(table, "labels")) == 1
    with pytest.raises(ParameterError, match="Did you mean 'labels'"):
        checks.of(table, "label")
