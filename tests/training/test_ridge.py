"""Ridge heads agree with scikit-learn and take each attribute's own rows."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from lib.training import ridge


@pytest.fixture
def world():
    generator = np.random.default_rng(0)
    hidden = generator.standard_normal((300, 6)) + 2
    truth = generator.standard_normal((2, 6))
    ratings = hidden @ truth.T + 0.5 * generator.standard_normal((300, 2))
    train = np.arange(300) < 200
    return hidden, ratings, train, ~train, truth


def test_weights_are_those_of_scikit_learn_at_the_chosen_penalty(world):
    hidden, ratings, train, choose, _ = world
    found = ridge.fit(hidden, ratings, train, choose)
    for k in range(2):
        model = Ridge(found.alpha[k]).fit(hidden[train], ratings[train, k])
        assert np.allclose(found.weight[k], model.coef_) and np.isclose(
            found.bias[k], model.intercept_
        )
        scores = [
            Ridge(a).fit(hidden[train], ratings[train, k]).score(hidden[choose], ratings[choose, k])
            for a in ridge.ALPHAS
        ]
        assert np.isclose(found.r2[k], max(scores))


def test_missing_ratings_of_one_attribute_take_nothing_from_another(world):
    hidden, ratings, train, choose, _ = world
    whole = ridge.fit(hidden, ratings, train, choose)
    ratings = ratings.copy()
    ratings[::3, 1] = np.nan
    part = ridge.fit(hidden, ratings, train, choose)
    assert np.array_equal(part.weight[0], whole.weight[0])
    assert part.rows.tolist() == [200, 133]


def test_an_attribute_without_ratings_is_named(world):
    hidden, ratings, train, choose, _ = world
    ratings[:, 1] = np.nan
    with pytest.raises(ValueError, match="attribute 1"):
        ridge.fit(hidden, ratings, train, choose)
