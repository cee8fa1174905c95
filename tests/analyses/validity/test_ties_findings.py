"""Ties are told where there are any, with their share."""

from __future__ import annotations

import pandas as pd
import pytest

from lib.analyses.validity.words import NAMED, ties


def table(**counts: float) -> pd.DataFrame:
    """Head → ties of 200 comparisons; a part of them ties more."""
    rows = pd.DataFrame({"head": list(counts), "ties": list(counts.values())}).assign(n=200)
    part = rows.assign(ties=9, n=10, subset="part")
    return pd.concat([rows.assign(subset="all"), part], ignore_index=True)


def test_no_ties_need_no_words():
    assert ties(table(a=0, b=0)) == []


def test_heads_that_tie_are_named_with_their_share_the_largest_first():
    assert ties(table(a=1, b=0, c=50)) == [
        "2 of 3 heads tie on some comparisons, each counted half: c on 25.0% (50 of 200), a on "
        "0.5% (1 of 200)."
    ]
    assert ties(table(a=200))[0].startswith("1 of 1 head ties on some comparisons")


def test_scores_that_are_not_numbers_are_no_ties():
    assert ties(table(a=float("nan"))) == []


def test_many_heads_are_counted():
    (told,) = ties(table(**{f"head-{k}": 1 + k for k in range(NAMED + 3)}))
    assert told.count("of 200") == NAMED and "and 3 more" in told


@pytest.mark.parametrize(("dtype", "said"), [("bfloat16", True), ("float32", False)])
def test_a_number_type_that_makes_ties_is_named(dtype, said):
    (told,) = ties(table(a=3), {"dtype": dtype})
    assert ("computed in bfloat16, and rounding can make ties." in told) == said
    assert ties(table(a=0), {"dtype": dtype}) == []
