"""Two sets of bases as rewards of the same pairs: are they alike, together and one by one?"""

from __future__ import annotations

import numpy as np
from scipy import optimize


def angles(one: np.ndarray, other: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Principal angles in degrees between spans of rewards, smallest first.

    Parameters
    ----------
    one, other
        Coefficients, shape (components, bases).
    second
        E[zzᵀ]: a diagonal, shape (components,), or whole.
    """
    root = np.sqrt(second)[:, None] if second.ndim == 1 else np.linalg.cholesky(second).T
    turned = [root * each if second.ndim == 1 else root @ each for each in (one, other)]
    left, right = (_orthonormal(each) for each in turned)
    cosine = np.linalg.svd(left.T @ right, compute_uv=False)
    return degrees(cosine)


def _orthonormal(columns: np.ndarray) -> np.ndarray:
    left, values, _ = np.linalg.svd(columns, full_matrices=False)
    return left[:, values > 1e-9 * values[0]] if values[0] > 0 else left[:, :1]


def cosines(one: np.ndarray, other: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Cosines between rewards, shape (bases of one, bases of the other)."""
    turned = [second[:, None] * one if second.ndim == 1 else second @ one]
    turned += [second[:, None] * other if second.ndim == 1 else second @ other]
    lengths = [
        np.sqrt(np.maximum(np.einsum("ij,ij->j", each, by), 1e-300))
        for each, by in zip((one, other), turned, strict=True)
    ]
    return (one.T @ turned[1]) / np.outer(*lengths)


def matched(
    one: np.ndarray, other: np.ndarray, second: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Which basis of the other each of one is, one to one, and the cosines between them."""
    cosine = cosines(one, other, second)
    rows, columns = optimize.linear_sum_assignment(-cosine)
    return columns, cosine[rows, columns]


def degrees(cosine: np.ndarray) -> np.ndarray:
    """Angles of cosines that may lie outside of [−1, 1] by rounding."""
    return np.degrees(np.arccos(np.clip(cosine, -1, 1)))


def expected_angle(half: np.ndarray) -> np.ndarray:
    """Angle in degrees to the truth of a fit of all pairs, from the angle between its halves.

    Notes
    -----
    Errors of two halves are independent, and in many dimensions at right angles: the cosine
    between them is the product of their cosines to the truth, so cos φ = cos²θ. Twice the pairs
    halve the squared tangent: tan²θ_all = tan²θ/2 = (1/cos φ − 1)/2.
    """
    cosine = np.cos(np.radians(np.asarray(half, float)))
    with np.errstate(divide="ignore"):
        return np.degrees(np.arctan(np.sqrt((1 / np.maximum(cosine, 0) - 1) / 2)))
