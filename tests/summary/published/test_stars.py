"""A star is a test of margins: rates leave it open, and it can be had without a win rate."""

import numpy as np
import pytest

from lib.planted.worlds import make_run
from lib.summary.published import claims, stars
from lib.summary.published.stats import PARTS


def test_wins_alone_leave_the_star_open():
    assert stars.p_range(10, 10) == (1 / 1024, 1 / 1024)  # one sign pattern of 2^10
    low, high = stars.p_range(9, 10)
    assert low == pytest.approx(2 / 1024)  # the smallest rank is lost: sums 54 and 55
    # the largest is lost: a sum of 45; 43 of 1,024 patterns lose ranks that sum to 10 or less
    assert high == pytest.approx(43 / 1024)
    low, high = stars.p_range(416, 800)
    assert low < 1e-12 and high > 0.999


def margins(values, name=PARTS[0]):
    """A run of one head with these margins, won where above 0."""
    score = np.column_stack([values, np.zeros(len(values))]).ravel()
    return make_run(score[:, None], heads=["head"], name=name)


def test_few_large_wins_earn_a_star_and_no_win_rate():
    run = margins([*np.linspace(-1, -0.1, 55), *np.linspace(5, 9, 45)])
    found = stars.again([run]).iloc[0]
    assert found["win_rate"] == 0.45 and found["star_p"] < 0.05 < found["wins_p"]
    many_small = margins([*np.linspace(0.1, 1, 65), *np.linspace(-9, -5, 35)])
    found = stars.again([many_small]).iloc[0]
    assert found["star_p"] > 0.05 > found["wins_p"]


def test_without_finite_scores_there_is_no_row():
    assert stars.again([margins([1.0, np.nan, 2.0])]).empty and stars.again([]).empty


def test_the_card_says_of_heads_at_hand_what_stars_and_wins_find(figures):
    runs = [margins([*np.linspace(-1, -0.1, 55), *np.linspace(5, 9, 45)])]
    runs += [margins([*np.linspace(0.1, 1, 65), *np.linspace(-9, -5, 35)], PARTS[1])]
    table = claims.claims(figures, runs).set_index("key")
    told = table.loc["hh-stars", "recomputed"]
    assert f"heads of this book's model on {PARTS[0]} and {PARTS[1]}, the audit's test" in told
    assert "stars 1 of 2" in told and "finds 0 of these, and 1 that the stars don't" in told
