"""The published few-shot protocol: the same steps as Adam takes on the published loss."""

import numpy as np
import torch

from lib.training import lore


def drawn(users=5, pairs=12, features=7, bases=3):
    generator = np.random.default_rng(0)
    x = generator.standard_normal((users * pairs, features)) * 20
    user = np.repeat(np.arange(users), pairs)
    start = generator.standard_normal((features, bases)), generator.standard_normal((users, bases))
    return x, user, start


def published(x, user, vectors, logits):
    """Each user's mean −log σ(x·V softmax(w)/100), summed."""
    return sum(
        -torch.nn.functional.logsigmoid(
            torch.from_numpy(x[user == k]) @ (vectors @ torch.softmax(logits[k], 0)) / 100
        ).mean()
        for k in range(len(logits))
    )


def test_joint_learning_takes_the_steps_of_adam_on_the_published_loss():
    x, user, start = drawn()
    vectors, logits = (torch.tensor(each, requires_grad=True) for each in start)
    adam = torch.optim.Adam([vectors, logits], lr=lore.RATE)
    for _ in range(40):
        adam.zero_grad()
        published(x, user, vectors, logits).backward()
        adam.step()
    found, weights = lore.joint(x, user, 3, steps=40, start=start)
    assert np.allclose(found, vectors.detach(), atol=1e-9)
    assert np.allclose(weights, torch.softmax(logits, 1).detach(), atol=1e-9)


def test_a_new_user_moves_his_weights_alone():
    x, user, (vectors, start) = drawn()
    logits = torch.tensor(start, requires_grad=True)
    adam = torch.optim.Adam([logits], lr=lore.NEW_RATE)
    for _ in range(40):
        adam.zero_grad()
        published(x, user, torch.from_numpy(vectors), logits).backward()
        adam.step()
    found = lore.personal(vectors, x, user, 5, steps=40, start=start)
    assert np.allclose(found, torch.softmax(logits, 1).detach(), atol=1e-9)


def test_a_tie_counts_as_wrong_as_published():
    x = np.asarray([[1.0], [0.0], [-1.0], [2.0]])
    found = lore.right(np.ones((1, 1)), np.ones((3, 1)), x, np.asarray([0, 0, 0, 1]))
    assert np.allclose(found[:2], [1 / 3, 1]) and np.isnan(found[2])
