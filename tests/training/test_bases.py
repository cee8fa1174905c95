"""Latent bases: planted mixtures are recovered, and what can't be known isn't claimed."""

import numpy as np
import pytest
from scipy import optimize

from lib.errors import DataError
from lib.training import bases
from lib.training.bases.fitting import _Problem, softmax


def planted(users=30, pairs=100, features=16, rewards=3, alpha=0.3, seed=0, decay=0.0):
    """Differences, users, rewards V (features, rewards), weights π, and E[x²]."""
    generator = np.random.default_rng(seed)
    variance = (1.0 + np.arange(features)) ** -decay
    variance /= variance.mean()
    vectors = generator.standard_normal((features, rewards))
    vectors *= 3 / np.sqrt((vectors**2 * variance[:, None]).sum(axis=0))
    weights = generator.dirichlet([alpha] * rewards, users)
    user = np.repeat(np.arange(users), pairs)
    x = generator.standard_normal((users * pairs, features)) * np.sqrt(variance)
    margin = np.einsum("ij,ij->i", x @ vectors, weights[user])
    x *= np.where(generator.random(len(x)) < 1 / (1 + np.exp(-margin)), 1, -1)[:, None]
    return x, user, vectors, weights, variance


def test_planted_rewards_and_everybodys_weights_are_found():
    x, user, vectors, weights, variance = planted(users=40, pairs=150)
    pairs = bases.grouped(x, user)
    found = bases.fit(pairs, 3)
    assert bases.angles(found.vectors(pairs), vectors, variance)[-1] < 20
    place, cosine = bases.matched(vectors, found.vectors(pairs), variance)
    assert cosine.min() > 0.95
    number = [int(name) for name in pairs.names]  # users come in the order of their names
    assert np.corrcoef(found.weights[:, place].ravel(), weights[number].ravel())[0, 1] > 0.95
    assert np.allclose(found.weights.sum(axis=1), 1)


def test_one_basis_is_a_head_of_all_pairs_anchored_at_itself():
    x, user, *_ = planted(users=5, pairs=60, features=6)
    pairs = bases.grouped(x, user)
    ridge = (x**2).sum() / len(x) / bases.SPREAD**2

    def from_(anchor):
        def loss(d):
            return np.logaddexp(0, -x @ (anchor + d)).sum() + ridge * d @ d / 2

        return anchor + optimize.minimize(loss, np.zeros(6), tol=1e-10).x

    expected = from_(from_(np.zeros(6)))
    assert np.allclose(bases.fit(pairs, 1).vectors(pairs)[:, 0], expected, atol=5e-3)


def test_a_strong_penalty_makes_no_second_basis_of_users_who_are_all_alike():
    more = 0
    for seed in range(12):
        x, user, *_ = planted(users=20, pairs=30, features=8, rewards=1, seed=seed)
        more += bases.supported(bases.ranks(bases.grouped(x, user), 3, spread=0.3)["loss"]) > 1
    assert more <= 2


def test_a_head_alone_is_the_penalised_head_of_that_users_pairs():
    x, user, *_ = planted(users=3, pairs=12, features=20)
    pairs = bases.grouped(x, user)
    ridge = pairs.variance.sum() / bases.SPREAD**2

    def loss(v):
        return np.logaddexp(0, -x[user == 1] @ v).sum() + ridge * v @ v / 2

    expected = optimize.minimize(loss, np.zeros(20), tol=1e-10).x
    found = pairs.turn @ bases.heads(pairs, steps=20)[1]
    assert np.allclose(found, expected, atol=1e-4)


def test_the_gradient_of_the_joint_fit_is_that_of_its_loss():
    x, user, *_ = planted(users=4, pairs=8, features=5)
    pairs = bases.grouped(x, user)
    problem = _Problem(pairs, np.linspace(-1, 1, 5), 3, 0.7)
    flat = np.random.default_rng(0).standard_normal(5 * 3 + 4 * 3)
    numeric = optimize.approx_fprime(flat, lambda v: problem.value(v)[0], 1e-6)
    assert np.allclose(problem.value(flat)[1], numeric, atol=1e-4)


def test_weights_of_new_users_minimise_their_own_loss():
    x, user, vectors, *_ = planted(users=6, pairs=20)
    pairs = bases.grouped(x, user)
    inside = pairs.turn.T @ vectors
    found = bases.weigh(inside, pairs)
    along = pairs.z[pairs.user == 2] @ inside

    def loss(w):
        return np.logaddexp(0, -along @ softmax(w)).sum() + w @ w / (2 * bases.LOGIT**2)

    best = optimize.minimize(loss, np.zeros(3), tol=1e-10)
    assert np.allclose(found[2], softmax(best.x), atol=0.02)


def test_a_new_user_without_a_pair_has_the_weights_of_the_others():
    x, user, *_ = planted()
    pairs = bases.grouped(x, user)
    found = bases.fit(pairs, 3)
    none = pairs.only(np.zeros(len(pairs), bool))
    weight = bases.weigh(found.coefficients, none, found.mean, found.precision)
    assert np.allclose(weight, softmax(found.mean))


def test_angles_are_between_rewards_so_coordinates_of_the_states_do_not_matter():
    generator = np.random.default_rng(0)
    second = np.diag([1.0, 4.0, 0.25, 2.0])
    one, other = generator.standard_normal((2, 4, 2))
    turn = generator.standard_normal((4, 4))
    back = np.linalg.inv(turn)
    moved = bases.angles(back @ one, back @ other, turn.T @ second @ turn)
    assert np.allclose(bases.angles(one, other, second), moved)
    assert np.allclose(bases.angles(one, one @ [[1, 2], [0, 1]], second), 0, atol=1e-5)
    assert np.allclose(bases.angles(one, other, np.diag(second)), bases.angles(one, other, second))


def test_fewer_pairs_than_features_lose_nothing():
    x, user, *_ = planted(users=4, pairs=6, features=50)
    pairs = bases.grouped(x, user)
    assert pairs.kept == 1 and pairs.z.shape[1] == 24
    assert np.allclose(pairs.z @ pairs.turn.T, x[pairs.row])


def test_of_many_features_the_leading_directions_are_kept_whoever_won():
    x, user, *_ = planted(users=20, pairs=200, features=1500, decay=2.0)
    pairs = bases.grouped(x, user, components=40)
    assert pairs.z.shape[1] == 40 and 0.9 < pairs.kept < 1
    turned = bases.grouped(x * np.where(np.arange(len(x)) % 2, 1, -1)[:, None], user, components=40)
    assert np.allclose(np.abs(pairs.turn.T @ turned.turn).max(axis=1), 1, atol=1e-4)


# ---- What the data support ----


def test_the_number_of_planted_bases_is_found_on_held_out_users():
    x, user, *_ = planted(users=40, pairs=100)
    loss = bases.ranks(bases.grouped(x, user), 5)["loss"]
    assert loss.shape == (5, 40)
    assert bases.supported(loss) == 3


@pytest.mark.parametrize("seed", range(5))
def test_users_who_are_all_alike_support_one_basis(seed):
    x, user, *_ = planted(users=20, pairs=50, rewards=1, seed=seed)
    assert bases.supported(bases.ranks(bases.grouped(x, user), 4)["loss"]) == 1


def test_two_bases_more_are_taken_where_one_alone_does_not_help():
    generator = np.random.default_rng(0)
    noise = generator.normal(0, 0.01, (4, 30))
    assert bases.supported(np.asarray([[0.6], [0.6], [0.4], [0.4]]) + noise) == 3
    assert bases.supported(np.asarray([[0.6], [0.6], [0.6], [0.6]]) + 1e-9 * noise) in (1, 2)
    assert bases.supported(np.full((1, 30), 0.5)) == 1


def test_halves_say_how_far_the_fit_is_from_the_truth():
    errors = []
    for seed in range(4):
        x, user, vectors, _, variance = planted(users=40, pairs=150, seed=seed)
        pairs = bases.grouped(x, user)
        found = bases.fit(pairs, 3)
        stable = bases.stability(pairs, found, seed=seed)
        assert stable.restart.max() < 5  # the least loss is found from anywhere
        true = bases.angles(found.vectors(pairs), vectors, variance)[-1]
        errors.append(stable.expected - true)
    assert abs(np.mean(errors)) < 4 and np.abs(errors).max() < 9


def test_few_pairs_in_many_dimensions_are_known_to_say_nothing():
    x, user, *_ = planted(users=5, pairs=20, features=576)
    pairs = bases.grouped(x, user)
    assert bases.stability(pairs, bases.fit(pairs, 3)).expected > 40


def test_halves_keep_items_whole_and_give_every_user_some():
    x, user, *_ = planted(users=6, pairs=10)
    item = np.tile(np.arange(10) // 2, 6) + 5 * user
    pairs = bases.grouped(x, user, item)
    mask = bases.dealt(pairs, 2, np.random.default_rng(0)) == 0
    for each in np.unique(pairs.item):
        assert len(set(mask[pairs.item == each])) == 1
    for each in range(6):
        assert 0 < mask[pairs.user == each].sum() < 10


# ---- What can't be used ----


@pytest.mark.parametrize("nobody", [None, float("nan"), "", "  "])
def test_a_pair_without_a_user_is_an_error_that_names_its_row(nobody):
    x, user, *_ = planted(users=3, pairs=4)
    named = np.asarray(user, object)
    named[7] = nobody
    with pytest.raises(DataError, match="none for 1 of 12, the first of them row 7"):
        bases.grouped(x, named)


def test_a_user_of_one_pair_is_an_error_that_names_him():
    x, user, *_ = planted(users=3, pairs=4)
    with pytest.raises(DataError, match="found 1 of '2', and 1 such of 3 users"):
        bases.grouped(x[:9], user[:9])


def test_more_bases_than_users_or_dimensions_are_an_error_that_says_which():
    x, user, *_ = planted(users=3, pairs=4)
    with pytest.raises(DataError, match="from 1 to 3 bases for 3 users.*more users"):
        bases.fit(bases.grouped(x, user), 4)
    with pytest.raises(DataError, match="pairs of 2 dimensions; found 3.*more dimensions"):
        bases.fit(bases.grouped(x[:, :2], user), 3)


def test_states_that_are_no_numbers_or_all_alike_are_an_error():
    x, user, *_ = planted(users=3, pairs=4)
    with pytest.raises(DataError, match="numbers"):
        bases.grouped(np.where(np.arange(16) == 3, np.nan, x), user)
    with pytest.raises(DataError, match="differ"):
        bases.grouped(x * 0, user)
    with pytest.raises(DataError, match="a user for each"):
        bases.grouped(x, user[:-1])
