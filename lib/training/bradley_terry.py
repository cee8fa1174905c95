"""Linear Bradley–Terry heads on frozen states.

P(a preferred to b) = σ(w·(h_a − h_b)): a logistic regression without intercept on the
differences of states (Bradley & Terry, 1952). Differences are scaled to unit variance, not
centred, so that swapping the two sides only changes their sign.
"""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import LogisticRegression

from lib.training import split

C = 1e-3
CS = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)


def fit(difference: np.ndarray, c: float = C) -> np.ndarray:
    """Weights of a head, shape (features,), in the units of the states.

    Parameters
    ----------
    difference
        State of the preferred response minus the other's, shape (pairs, features).
    c
        Inverse ridge penalty on the scaled differences.
    """
    scale = np.sqrt((difference**2).mean(axis=0))
    scale[scale == 0] = 1.0
    # Alternate signs give the solver its two classes; the model is symmetric in them.
    sign = np.where(np.arange(len(difference)) % 2, -1.0, 1.0)
    model = LogisticRegression(C=c, fit_intercept=False, tol=1e-8, max_iter=2000)
    model.fit(difference / scale * sign[:, None], sign > 0)
    return (model.coef_[0] / scale).astype(np.float64)


def choose(difference: np.ndarray, train: np.ndarray, choosing: np.ndarray) -> float:
    """The penalty of ``CS`` with the least log loss on pairs that the weights never saw."""
    losses = [loss(difference[choosing] @ fit(difference[train], c)) for c in CS]
    return CS[int(np.argmin(losses))]


def loss(margin: np.ndarray) -> float:
    """Mean −log σ(margin): what Bradley–Terry minimises; steadier than accuracy to choose by."""
    return float(np.logaddexp(0, -margin).mean())


def cross_scores(
    difference: np.ndarray, states: np.ndarray, group: np.ndarray, c: float
) -> np.ndarray:
    """Scores of states by heads that were fitted on other groups, shape (pairs, …).

    ``states`` has shape (pairs, …, features). A gate that is trained on a head's own
    training pairs sees margins that no new pair has; these are what it will see.
    """
    whole = np.linalg.norm(fit(difference, c))

    def scores(train, test):
        weight = fit(difference[train], c)
        return states[test] @ (weight * whole / np.linalg.norm(weight))

    return split.out_of_fold(group, scores)


def right(margin: np.ndarray) -> np.ndarray:
    """1 for a margin above 0, ½ at 0, else 0."""
    return (margin > 0) + (margin == 0) / 2


def accuracy(weight: np.ndarray, difference: np.ndarray) -> np.ndarray:
    """1 where the head ranks the pair as people did, ½ at a tie, else 0; shape (pairs,)."""
    return right(difference @ weight)


def cross_validate(
    difference: np.ndarray, group: np.ndarray, folds: int = 5, c: float = C
) -> np.ndarray:
    """Held-out accuracy of each pair under grouped cross-validation, shape (pairs,)."""
    return split.out_of_fold(
        group,
        lambda train, test: accuracy(fit(difference[train], c), difference[test]),
        folds,
    )
