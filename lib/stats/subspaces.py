"""Head matrices as subspaces, on arrays: spectra, angles, principal directions, Mantel's test."""

from __future__ import annotations

import itertools
import math

import numpy as np
from scipy.linalg import eigh, eigh_tridiagonal, lapack
from scipy.stats import norm

from lib.stats.effects import attainable
from lib.stats.winrates import POWER

CHUNK = 4_000_000
LARGE = 1000  # rows of a matrix from which eigenvectors are avoided


def random_heads(
    generator: np.random.Generator, draws: int, shape: tuple[int, int], many: int
) -> np.ndarray:
    """Gaussian head matrices, turned so that few columns hold all that measures depend on.

    Parameters
    ----------
    shape
        Heads and features of the matrices that are drawn.
    many
        Size of the subspace that heads are compared with: by symmetry, that of the first
        ``many`` features.

    Returns
    -------
    numpy.ndarray
        Shape (draws, heads, many + heads), or (draws, heads, features) where that is smaller.

    Notes
    -----
    A rotation of the other features changes neither inner products of heads nor their
    projections on the subspace, and makes those columns the triangular factor of a Wishart
    matrix: χ on the diagonal, normals below (Bartlett 1933). So thousands of features cost no
    more than dozens.
    """
    heads, features = shape
    rest = features - many
    if rest <= heads:
        return generator.standard_normal((draws, heads, features))
    drawn = generator.standard_normal((draws, heads, many + heads))
    factor = np.tril(drawn[:, :, many:], -1)
    own = np.arange(heads)
    factor[:, own, own] = np.sqrt(generator.chisquare(rest - own, (draws, heads)))
    drawn[:, :, many:] = factor
    return drawn


def shape_of(weight: np.ndarray, basis: np.ndarray) -> dict[str, np.ndarray]:
    """Published measures of many head matrices at once.

    Parameters
    ----------
    weight
        Shape (draws, heads, features).
    basis
        Orthonormal rows, shape (components, features).

    Returns
    -------
    dict
        Each of shape (draws,).

    Notes
    -----
    Principal angles of the heads' span: as many as its rank or the components, whichever is
    less, so dependent heads add none. From sines and cosines both (Björck & Golub 1973), since
    a cosine near 1 tells a small angle to half of its digits. Checked against
    ``scipy.linalg.subspace_angles`` of orthonormal bases.
    """
    heads = weight.shape[1]
    unit = weight / np.linalg.norm(weight, axis=2, keepdims=True)
    i, j = np.triu_indices(heads, 1)
    cosine = np.abs((unit @ unit.swapaxes(1, 2))[:, i, j])
    _, sigma, right = np.linalg.svd(weight, full_matrices=False)
    square = sigma**2
    p = square / square.sum(axis=1, keepdims=True)
    entropy = -(p * np.log(np.where(p > 0, p, 1))).sum(axis=1)
    spans = sigma > 1e-10 * sigma[:, :1]
    angle = _angles(right * spans[:, :, None], basis)
    many = np.minimum(spans.sum(axis=1), angle.shape[1])
    angle[np.arange(angle.shape[1]) >= many[:, None]] = np.nan
    inside = ((weight @ basis.T) ** 2).sum(axis=(1, 2)) / square.sum(axis=1)
    with np.errstate(divide="ignore"):
        condition = np.where(sigma[:, -1] > 1e-10 * sigma[:, 0], sigma[:, 0] / sigma[:, -1], np.inf)
    return {
        "rms_cosine": np.sqrt((cosine**2).mean(axis=1)),
        "mean_abs_cosine": cosine.mean(axis=1),
        "largest_cosine": cosine.max(axis=1),
        "participation": sigma.sum(axis=1) ** 2 / square.sum(axis=1),
        "entropy_rank": np.exp(entropy),
        "condition": condition,
        "k90": (p.cumsum(axis=1) < 0.9 - 1e-12).sum(axis=1) + 1.0,
        "angle_smallest": np.fmin.reduce(angle, axis=1),
        "angle_mean": np.nansum(angle, axis=1) / np.where(many, many, np.nan),
        "angle_largest": np.fmax.reduce(angle, axis=1),
        "projection": inside,
    }


def _angles(rows: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """Degrees from orthonormal rows (draws, heads, features) to a subspace, smallest first."""
    left, cosine, _ = np.linalg.svd(rows @ basis.T, full_matrices=False)
    vectors = left.swapaxes(1, 2) @ rows
    sine = np.linalg.norm(vectors - vectors @ basis.T @ basis, axis=2)
    return np.degrees(np.arctan2(sine, cosine))


def principal(states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Principal directions (rows) and their variances λ, largest first, of centred states.

    Notes
    -----
    From the smaller of the two inner-product matrices, so the cost is that of
    min(n, features)³.
    """
    n, features = states.shape
    if n >= features:
        variance, vectors = np.linalg.eigh(states.T @ states)
        return vectors[:, ::-1].T, np.maximum(variance[::-1], 0)
    variance, left = np.linalg.eigh(states @ states.T)
    variance, left = np.maximum(variance[::-1], 0), left[:, ::-1]
    some = variance > 1e-12 * variance[0] if variance[0] > 0 else variance > 0
    variance, left = variance[some], left[:, some]
    return (states.T @ left / np.sqrt(variance)).T, variance


def leading(states: np.ndarray, many: int) -> tuple[np.ndarray, np.ndarray]:
    """The first ``many`` of ``principal``, or as many as there are."""
    n, features = states.shape
    if min(n, features) < LARGE or n < features:
        directions, variance = principal(states)
        return directions[:many], variance[:many]
    first = max(0, features - many)
    variance, vectors = eigh(
        states.T @ states, subset_by_index=(first, features - 1), overwrite_a=True
    )
    return vectors[:, ::-1].T, np.maximum(variance[::-1], 0)


def readings(
    symmetric: np.ndarray, vectors: np.ndarray, *, overwrite: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues, largest first, and what vectors have of each eigenvector.

    Parameters
    ----------
    symmetric
        Positive semi-definite, shape (n, n).
    vectors
        Rows, shape (K, n).
    overwrite
        May the matrix be destroyed? That saves a copy of it.

    Returns
    -------
    values, products
        Shapes (n,) and (K, n): λ_k, and the inner products of the rows with v_k. The sign of
        each v_k is arbitrary.

    Notes
    -----
    Large matrices are brought to a tridiagonal form, the reflections are applied to the rows,
    and only the eigenvectors of that form are computed: no eigenvector of the matrix itself is,
    which saves about half of the work and of the memory. Checked against ``numpy.linalg.eigh``.
    """
    n = len(symmetric)
    if n < LARGE:
        values, left = np.linalg.eigh(symmetric)
        products = vectors @ left
    else:
        values, products = _tridiagonal(symmetric if overwrite else symmetric.copy(), vectors)
    return np.maximum(values[::-1], 0), products[:, ::-1]


def _tridiagonal(symmetric: np.ndarray, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues, ascending, and products, by LAPACK's ``sytrd``, ``ormqr`` and ``stemr``."""
    n = len(symmetric)
    size = int(lapack.dsytrd_lwork(n, lower=1)[0])
    # The matrix is its own transpose, so its rows serve as the columns that LAPACK wants.
    reflected, diagonal, beside, tau, _ = lapack.dsytrd(
        symmetric.T, lower=1, lwork=size, overwrite_a=1
    )
    rows = np.array(vectors.T, order="F")
    applied, _, _ = lapack.dormqr(
        "L", "T", np.asfortranarray(reflected[1:, :-1]), tau, rows[1:], 64 * rows.shape[1]
    )
    rows[1:] = applied
    del reflected
    values, own = eigh_tridiagonal(diagonal, beside, lapack_driver="stemr")
    return values, rows.T @ own


def nearest_orthonormal(weight: np.ndarray) -> np.ndarray:
    """The orthonormal rows nearest to the unit rows of W: its polar factor (Löwdin 1950)."""
    unit = weight / np.linalg.norm(weight, axis=1, keepdims=True)
    left, _, right = np.linalg.svd(unit, full_matrices=False)
    return left @ right


def mantel_test(
    one: np.ndarray, other: np.ndarray, draws: int = 9999, seed: int = 0
) -> tuple[float, float, float, float]:
    """Statistic, two-sided p, smallest reachable p and what would be found; see ``mantel``."""
    heads = len(one)
    i, j = np.triu_indices(heads, 1)
    x, y = one[i, j], other[i, j]
    if len(x) < 3 or np.ptp(x) < 1e-12 or np.ptp(y) < 1e-12 or not np.isfinite(x + y).all():
        return np.nan, np.nan, np.nan, np.nan
    x = (x - x.mean()) / np.linalg.norm(x - x.mean())
    centred = other - y.mean()
    scale = np.linalg.norm(y - y.mean())
    statistic = float(x @ (y - y.mean()) / scale)
    exact = math.factorial(heads) <= draws
    if exact:
        orders = np.asarray(list(itertools.permutations(range(heads))))
    else:
        generator = np.random.default_rng(seed)
        orders = generator.permuted(np.tile(np.arange(heads), (draws, 1)), axis=1)
    step = max(1, CHUNK // len(x))
    null = np.concatenate(
        [
            centred[order[:, i], order[:, j]] @ x / scale
            for order in np.array_split(orders, math.ceil(len(orders) / step))
        ]
    )
    reached = int((np.abs(null) >= abs(statistic) - 1e-12).sum())
    mde = float(attainable(np.quantile(np.abs(null), 0.95) + norm.ppf(POWER) * null.std()))
    if exact:
        return statistic, reached / len(orders), 1 / len(orders), mde
    return statistic, (1 + reached) / (1 + draws), 1 / (1 + draws), mde
