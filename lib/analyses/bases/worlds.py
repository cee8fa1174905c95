"""Users whose rewards are known mixtures, and stimuli that move one known reward each."""

from __future__ import annotations

import numpy as np

from lib.analyses.bases.naming import Concepts
from lib.analyses.bases.people import SIMULATED, USERS, People

CONCEPTS = ("correctness", "helpfulness", "honesty", "readability", "safety", "verbosity")
MOVED = 1.2  # sd by which a stimulus moves its own reward, of what others move it by chance


def planted_people(
    *,
    users: int = 40,
    pairs: int = 100,
    features: int = 16,
    rewards: int = 3,
    alpha: float = 0.3,
    decay: float = 0.0,
    spread: float = 3.0,
    prompts: int = 100,
    foreign: bool = False,
    seed: int = 0,
) -> tuple[People, Concepts, np.ndarray, np.ndarray]:
    """People, stimuli, the rewards that they mix, and E[x²].

    Parameters
    ----------
    users, pairs, features
        Sizes.
    rewards
        How many are mixed; with one, users are all alike.
    alpha
        Weights are Dirichlet(alpha, …).
    decay
        The k-th feature has a variance of k^−decay, scaled to a mean of 1.
    spread
        Standard deviation of a reward's margin; choices are Bradley–Terry's.
    prompts
        Stimuli of each concept.
    foreign
        Are the rewards that people mix other than the ones that stimuli move?

    Returns
    -------
    people, stimuli, rewards, variance
        Reward k is what ``CONCEPTS[k]`` moves, if not ``foreign``. Rewards of all concepts, and
        foreign ones, don't correlate over pairs. ``rewards`` has shape (features, rewards).
    """
    generator = np.random.default_rng(seed)
    variance = (1.0 + np.arange(features)) ** -decay
    variance /= variance.mean()
    root = np.sqrt(variance)
    many = len(CONCEPTS) + rewards
    drawn = np.linalg.qr(generator.standard_normal((features, min(many, features))))[0]
    known, other = drawn[:, : len(CONCEPTS)], drawn[:, len(CONCEPTS) :]
    mixed = (other if foreign else known)[:, :rewards]
    vectors = spread * mixed / root[:, None]
    weight = generator.dirichlet([alpha] * rewards, users)
    user = np.repeat(np.arange(users), pairs)
    x = generator.standard_normal((len(user), features)) * root
    margin = np.einsum("ij,ij->i", x @ vectors, weight[user])
    x *= np.where(generator.random(len(x)) < 1 / (1 + np.exp(-margin)), 1, -1)[:, None]
    given = People(
        USERS if foreign else SIMULATED,
        x,
        np.asarray([f"user {each:02d}" for each in user], str),
        np.arange(len(x)),
        np.full(len(x), "", "U1"),
        np.zeros((len(x), 0)),
        (),
        (),
    )
    concept = np.repeat(np.arange(len(CONCEPTS)), prompts)
    moved = generator.standard_normal((len(concept), features)) + MOVED * known.T[concept]
    stimuli = Concepts(moved * root, np.asarray(CONCEPTS)[concept], np.arange(len(concept)))
    return given, stimuli, vectors, variance
