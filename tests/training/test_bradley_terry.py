"""Linear Bradley–Terry heads find a planted direction and don't depend on presentation."""

import numpy as np
import pytest
from scipy import optimize

from lib.training import bradley_terry


@pytest.fixture
def world():
    generator = np.random.default_rng(0)
    direction = np.array([1.0, -0.5, 0, 0, 0])
    difference = generator.standard_normal((800, 5)) * [1, 1, 3, 1, 0.2]
    likely = 1 / (1 + np.exp(-difference @ direction))
    return difference * np.where(generator.random(800) < likely, 1, -1)[:, None], direction


def test_the_fit_minimises_the_penalised_likelihood(world):
    difference, _ = world
    scale = np.sqrt((difference**2).mean(axis=0))

    def loss(w):
        return np.logaddexp(0, -(difference / scale) @ w).sum() + (w @ w) / (2 * 0.1)

    expected = optimize.minimize(loss, np.zeros(5), tol=1e-12).x / scale
    assert np.allclose(bradley_terry.fit(difference, c=0.1), expected, atol=1e-4)


def test_swapping_the_order_of_rows_changes_nothing(world):
    difference, _ = world
    a = bradley_terry.fit(difference)
    b = bradley_terry.fit(difference[::-1])
    assert np.allclose(a, b, rtol=1e-4, atol=1e-7)


def test_a_planted_direction_is_found(world):
    difference, direction = world
    weight = bradley_terry.fit(difference, c=1.0)
    assert weight @ direction / np.linalg.norm(weight) / np.linalg.norm(direction) > 0.97


def test_cross_validation_of_noise_is_at_chance_even_with_repeated_rows():
    generator = np.random.default_rng(1)
    noise = np.repeat(generator.standard_normal((150, 40)), 2, axis=0)
    group = np.repeat(np.arange(150), 2)
    sign = np.repeat(generator.choice([-1.0, 1.0], 150), 2)[:, None]
    correct = bradley_terry.cross_validate(noise * sign, group, c=1.0)
    assert abs(correct.mean() - 0.5) < 0.15


def test_a_tie_counts_half():
    assert bradley_terry.accuracy(np.array([1.0]), np.array([[1.0], [0.0], [-1.0]])).tolist() == [
        1,
        0.5,
        0,
    ]
