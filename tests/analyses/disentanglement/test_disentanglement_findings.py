"""Sentences say what the disentanglement tables hold, and nothing without them."""

import numpy as np
import pandas as pd
import pytest

from lib.analyses.disentanglement import stats, words, worlds
from lib.planted.worlds import make_run


def told(run) -> str:
    published, pairs = (
        stats.disentanglement_as_published(run),
        stats.disentanglement(run, draws=99),
    )
    groups, found = stats.clusters(run, draws=20), stats.factors(run, draws=99)
    overview = stats.overview(published, pairs, groups, found)
    sentences = words.takeaways(overview, pairs, groups)
    sentences += words.published(overview, published)
    assert all(isinstance(value, str) for value in words.glued(overview).values())
    assert all(sentence.endswith(".") and "nan" not in sentence for sentence in sentences)
    return " ".join(sentences)


def test_opposite_signs_between_and_within_are_told():
    assert "opposite signs" not in told(worlds.blocks_world(pairs=100))
    text = told(worlds.levels_world(pairs=500))
    assert "1 has opposite signs in these two intervals: first and second. Intervals" in text
    assert "a description and no test" in text


def test_pairs_of_opposite_signs_are_counted_of_those_with_both_intervals():
    """Two of five pairs; one has no interval within items, and one misses by its high end."""
    ends = {
        "between": [(0.1, 0.5), (-0.5, -0.1), (0.1, 0.5), (0.1, 0.5), (0.1, 0.5)],
        "within": [(-0.4, -0.2), (0.2, 0.4), (-0.4, 0.1), (np.nan, np.nan), (0.1, 0.2)],
    }
    pairs = pd.DataFrame(
        [(kind, "a", str(k), *both) for kind, rows in ends.items() for k, both in enumerate(rows)],
        columns=["kind", "head", "other", "low", "high"],
    )
    (text,) = words.reversals(pairs)
    assert text.startswith("Of 4 pairs with an interval between and within items 2 have opposite")
    assert "a and 0; a and 1." in text


@pytest.mark.parametrize(
    ("heads", "r", "said"),
    [
        ("ab", {"ab": -0.77}, "a is opposed to b (r = -0.77 [-0.82, -0.70], stability 1.00)."),
        ("ab", {"ab": 0.9}, "a, b go together (r = 0.90 [0.85, 0.97], stability 1.00)."),
        ("abc", {"ab": -0.9, "ac": 0.8, "bc": -0.8}, "a, c go together and are opposed to b (s"),
        ("abc", {"ab": -0.9, "ac": -0.8, "bc": 0.8}, "a is opposed to b, c (stability 1.00)."),
    ],
)
def test_heads_of_one_cluster_with_a_negative_correlation_are_opposed(heads, r, said):
    clusters = pd.DataFrame({"kind": "within", "head": list(heads), "cluster": 1})
    clusters = clusters.assign(size=len(heads), stability=1.0)
    pairs = pd.DataFrame(
        [("within", one, other, r, r - 0.05, r + 0.07) for (one, other), r in r.items()],
        columns=["kind", "head", "other", "r", "low", "high"],
    )
    (text,) = words.groups(clusters, pairs)
    assert text.startswith(f"Within items, {said}")
    turned = pairs.rename(columns={"head": "other", "other": "head"})
    assert words.groups(clusters, turned) == [text]


def test_a_hidden_factor_count_is_called_a_lower_bound():
    assert "minor factors can't be seen" in told(worlds.blocks_world(general=0.7))
    assert "minor factors" not in told(worlds.blocks_world(general=0.3))


def test_what_length_takes_away_is_told():
    assert "goes when length is held fixed" in told(worlds.length_world())


@pytest.mark.parametrize("shape", [(40, 1), (2, 2), (2, 1)])
def test_without_two_heads_or_two_items_no_number_is_told(shape):
    told(make_run(np.random.default_rng(0).standard_normal(shape)))


def test_heads_of_nothing_but_nan_are_named():
    text = told(make_run(np.full((20, 2), np.nan)))
    assert "head_0" in text and "no two heads to compare" in text
