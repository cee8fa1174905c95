"""Ridge heads for ratings, one an attribute, each on the rows that have it (ArmoRM, stage 1).

The penalty is chosen on prompts that the weights never saw; missing ratings of one
attribute take nothing from another.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lib.training import split

ALPHAS = 10.0 ** np.arange(-4, 5)


@dataclass(frozen=True)
class RidgeHeads:
    """Fitted heads, rating ≈ h Wᵀ + b: ``weight`` (attributes, features), the rest (attributes,).

    ``alpha`` is the chosen penalty, ``r2`` the share of variance explained on the choosing
    rows, ``rows`` counts the training rows.
    """

    weight: np.ndarray
    bias: np.ndarray
    alpha: np.ndarray
    r2: np.ndarray
    rows: np.ndarray


def fit(
    hidden: np.ndarray, ratings: np.ndarray, train: np.ndarray, choose: np.ndarray
) -> RidgeHeads:
    """One ridge regression an attribute, its penalty chosen on other prompts.

    Parameters
    ----------
    hidden
        States, shape (responses, features).
    ratings
        Shape (responses, attributes); NaN where a rating is missing.
    train, choose
        Masks of responses, disjoint by prompt.

    Raises
    ------
    ValueError
        Naming the attribute's column when it has fewer than two training or choosing rows
        or does not vary.

    Notes
    -----
    Solved for all penalties at once from the eigenvectors of the centred Gram matrix;
    checked against ``sklearn.linear_model.Ridge``.
    """
    fitted = [_fit_one(hidden, ratings[:, k], train, choose, k) for k in range(ratings.shape[1])]
    return RidgeHeads(*(np.asarray(values) for values in zip(*fitted, strict=True)))


def _fit_one(hidden, rating, train, choose, column):
    known = np.isfinite(rating)
    fit_rows, choose_rows = known & train, known & choose
    if not enough(rating, train, choose):
        raise ValueError(f"attribute {column} has too few ratings, or ratings that do not vary")
    weights, biases = solve(hidden[fit_rows], rating[fit_rows], ALPHAS)
    predicted = hidden[choose_rows].astype(float) @ weights + biases
    truth = rating[choose_rows].astype(float)
    r2 = 1 - ((truth[:, None] - predicted) ** 2).mean(axis=0) / truth.var()
    best = int(np.argmax(r2))
    return weights[:, best], biases[best], ALPHAS[best], r2[best], int(fit_rows.sum())


def enough(rating: np.ndarray, train: np.ndarray, choose: np.ndarray) -> bool:
    """Are two ratings or more on both sides, and do those to train on vary?"""
    known = np.isfinite(rating)
    fewest = min((known & train).sum(), (known & choose).sum())
    return bool(fewest >= 2 and np.ptp(rating[known & train]) > 0)


def solve(
    hidden: np.ndarray, rating: np.ndarray, alphas: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Ridge weights (features, alphas) and intercepts (alphas,) for each penalty."""
    x, y = hidden.astype(float), rating.astype(float)
    centre, mean = x.mean(axis=0), y.mean()
    values, vectors = np.linalg.eigh((x - centre).T @ (x - centre))
    moment = vectors.T @ ((x - centre).T @ (y - mean))
    weights = vectors @ (moment[:, None] / (np.maximum(values, 0)[:, None] + alphas))
    return weights, mean - centre @ weights


def cross_validate(
    hidden: np.ndarray, rating: np.ndarray, group: np.ndarray, alpha: float
) -> np.ndarray:
    """Held-out prediction of each row under grouped cross-validation, shape (rows,)."""

    def predict(train, test):
        weight, bias = solve(hidden[train], rating[train], np.asarray([alpha]))
        return hidden[test].astype(float) @ weight[:, 0] + bias[0]

    return split.out_of_fold(group, predict)
