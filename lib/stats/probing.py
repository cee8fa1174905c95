"""Linear probes on within-item differences, fitted and judged on different prompts.

A probe is a logistic regression without intercept on z = better − worse, so it can learn
from what differs between two responses and from nothing else. Scaling, projection on
principal components and the penalty are all learned inside the training fold; folds never
split a prompt, inner ones neither.

``prepare``        folds with their projections, the costly part, once for all labels
``cross_margins``  held-out margins under any number of label vectors at once
``fit``            the logistic regressions themselves
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg
from scipy.special import ndtri, stdtr, stdtrit

from lib.stats.folds import grouped

CS = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 1e-1, 1.0)
INNER = 3
COMPONENTS = 128
TOLERANCE = 1e-9
SETTLED = 1e-26  # a problem whose steps are this small moves no more than rounding would
ITERATIONS = 1000


@dataclass(frozen=True)
class Split:
    """Projected differences of fitting and judging rows.

    Attributes
    ----------
    fit_rows, test_rows
        Positions along the comparisons.
    z_fit, z_test
        Shapes (fitting rows, components) and (test rows, components); the columns of
        ``z_fit`` are orthogonal.
    """

    fit_rows: np.ndarray
    test_rows: np.ndarray
    z_fit: np.ndarray
    z_test: np.ndarray


@dataclass(frozen=True)
class Fold:
    """An outer split, and the inner ones (of its fitting rows) that choose the penalty."""

    outer: Split
    inner: tuple[Split, ...]


def prepare(
    difference: np.ndarray,
    group: np.ndarray,
    *,
    length: np.ndarray | None = None,
    components: int = COMPONENTS,
    folds: int = 5,
    seed: int = 0,
) -> list[Fold]:
    """Grouped folds with everything that doesn't depend on labels.

    Parameters
    ----------
    difference
        Better minus worse, shape (comparisons, features).
    group
        Prompt of each comparison; at least ``folds`` distinct ones.
    length
        Difference of log lengths, shape (comparisons,): its share is taken out of every
        feature by least squares on the fitting rows. ``None`` leaves it in.
    components
        At most this many principal components.
    folds, seed
        Number of outer folds, and their seed.

    Notes
    -----
    Scaling (root mean square, no centring) and components (of the second moment) don't
    change when rows change sign, so one preparation serves every flipped control.
    """
    difference = np.asarray(difference, float)
    out = []
    for train, test in grouped(group, folds, seed):
        inside = min(INNER, len(np.unique(group[train])))
        out.append(
            Fold(
                split(difference, length, train, test, components),
                tuple(
                    split(difference, length, train[a], train[b], components)
                    for a, b in grouped(group[train], inside, seed)
                ),
            )
        )
    return out


def split(
    difference: np.ndarray,
    length: np.ndarray | None,
    fit_rows: np.ndarray,
    test_rows: np.ndarray,
    components: int,
) -> Split:
    """Residuals on length, scale and components, all learned on the fitting rows."""
    x, y = difference[fit_rows], difference[test_rows]
    if length is not None:
        slope = slopes(x, length[fit_rows])
        x = x - length[fit_rows, None] * slope
        y = y - length[test_rows, None] * slope
    scale = np.sqrt((x**2).mean(axis=0))
    scale[scale <= 1e-9 * max(scale.max(), 1e-300)] = np.inf  # a constant feature says nothing
    axes = _axes(x / scale, components)
    return Split(fit_rows, test_rows, x / scale @ axes, y / scale @ axes)


def slopes(values: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Least-squares slope through the origin of each column on length; 0 if it is constant."""
    square = length @ length
    return length @ values / square if square > 0 else np.zeros(values.shape[1])


def _axes(x: np.ndarray, components: int) -> np.ndarray:
    """Leading eigenvectors of xᵀx, shape (features, at most components)."""
    n, d = x.shape
    wide = d > n
    gram = x @ x.T if wide else x.T @ x
    m = len(gram)
    values, vectors = linalg.eigh(gram, subset_by_index=[m - min(components, m), m - 1])
    kept = values > 1e-10 * max(values[-1], 1e-300)
    values, vectors = values[kept][::-1], vectors[:, kept][:, ::-1]
    return x.T @ vectors / np.sqrt(values) if wide else vectors


def fit(z: np.ndarray, labels: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Ridge-penalised logistic regressions without intercept, many at once.

    Parameters
    ----------
    z
        Shape (rows, components), with orthogonal columns.
    labels
        ±1, shape (rows, problems).
    c
        Inverse penalty of each problem, shape (problems,), as in scikit-learn.

    Returns
    -------
    numpy.ndarray
        Weights, shape (components, problems).

    Notes
    -----
    Orthogonal columns make Böhning's (1992) bound on the Hessian diagonal, zᵀz/4 + 1/c, so
    accelerated gradient steps in that metric (Nesterov, restarted) solve all problems with
    two matrix products a step; those that are settled are left out of later ones. Checked
    against ``sklearn.linear_model.LogisticRegression``.
    """
    curvature = (z**2).sum(axis=0)[:, None] / 4 + 1 / c
    chosen = z.T @ (labels > 0).astype(float)
    found = np.empty_like(curvature)
    live = np.arange(len(c))
    weight = point = np.zeros_like(curvature)
    pace = np.ones(len(c))
    for step in range(ITERATIONS):
        gradient = z.T @ _expit(z @ point)
        gradient += point / c - chosen
        change = gradient / curvature
        moved = point - change
        ahead = moved - weight
        back = np.einsum("ij,ij,ij->j", change, curvature, ahead) > 0
        pace = np.where(back, 1.0, pace)
        faster = (1 + np.sqrt(1 + 4 * pace**2)) / 2
        momentum = np.where(back, 0.0, (pace - 1) / faster)
        point, weight, pace = moved + momentum * ahead, moved, faster
        left = np.einsum("ij,ij->j", gradient, change)
        if left.max() <= TOLERANCE * len(z):
            break
        if step % 8 != 7:
            continue
        pushed = np.einsum("ij,ij,ij->j", ahead, curvature, ahead)
        going = np.maximum(left, pushed) > SETTLED * len(z)
        if going.mean() < 0.9:
            found[:, live[~going]] = weight[:, ~going]
            live, c, pace = live[going], c[going], pace[going]
            curvature, chosen = curvature[:, going], chosen[:, going]
            point, weight = point[:, going], weight[:, going]
    found[:, live] = weight
    return found


def _expit(values: np.ndarray) -> np.ndarray:
    """σ in place: ``scipy.special.expit`` takes several times as long."""
    np.negative(values, out=values)
    with np.errstate(over="ignore"):  # 1/(1 + ∞) is what is meant
        np.exp(values, out=values)
    values += 1
    return np.reciprocal(values, out=values)


def cross_margins(folds: list[Fold], labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Held-out margins z·w of every comparison, the penalty chosen inside each fold.

    Parameters
    ----------
    folds
        As ``prepare`` returns them.
    labels
        ±1, shape (comparisons, problems); all ones where better is better.

    Returns
    -------
    margins, chosen
        Shapes (comparisons, problems) and (folds, problems). A comparison is ranked
        rightly where margin × label > 0.
    """
    margins = np.zeros(labels.shape)
    chosen = np.empty((len(folds), labels.shape[1]))
    grid = np.asarray(CS)
    for number, fold in enumerate(folds):
        loss = np.zeros((labels.shape[1], len(grid)))
        for inner in fold.inner:
            many = np.repeat(labels[inner.fit_rows], len(grid), axis=1)
            weight = fit(inner.z_fit, many, np.tile(grid, labels.shape[1]))
            signed = np.repeat(labels[inner.test_rows], len(grid), axis=1)
            loss += np.logaddexp(0, -signed * (inner.z_test @ weight)).sum(0).reshape(loss.shape)
        chosen[number] = grid[loss.argmin(axis=1)]
        weight = fit(fold.outer.z_fit, labels[fold.outer.fit_rows], chosen[number])
        margins[fold.outer.test_rows] = fold.outer.z_test @ weight
    return margins, chosen


def right(margins: np.ndarray, labels: np.ndarray | float = 1.0) -> np.ndarray:
    """1 where the margin has the label's sign, ½ where it is 0, else 0."""
    return (np.sign(margins * labels) + 1) / 2


def held_out_residual(
    values: np.ndarray, length: np.ndarray | None, folds: list[Fold]
) -> np.ndarray:
    """Columns less what length explains, its slope learned on the other folds."""
    if length is None:
        return values
    out = np.empty(values.shape)
    for fold in folds:
        rows = fold.outer.test_rows
        slope = slopes(values[fold.outer.fit_rows], length[fold.outer.fit_rows])
        out[rows] = values[rows] - length[rows, None] * slope
    return out


def flips(item: np.ndarray, draws: int, seed: int) -> np.ndarray:
    """A random sign for each item, shape (comparisons, draws)."""
    single = np.unique(item, return_inverse=True)[1]
    drawn = np.random.default_rng([seed, 2]).random((single.max() + 1, draws))
    return np.where(drawn < 0.5, -1.0, 1.0)[single]


def beyond(found: float, flipped: np.ndarray) -> float:
    """One-sided p of an accuracy among those of the same pipeline under flipped signs.

    Held-out accuracies of one fold are not independent: what one fold lacks, the others
    have. Under no concept they vary more than a binomial, which would be found above ½ in
    up to 7% of null worlds where 2.5% are meant. Flipped draws vary alike: if no concept is
    there, found and F flipped accuracies are exchangeable, and about normal, so
    (found − mean)/(sd·√(1 + 1/F)) is t on F − 1 degrees of freedom. One-sided, since a probe
    that is wrong on held-out prompts has found nothing.
    """
    scale = spread(flipped)
    if np.isnan(scale):
        return np.nan
    if scale == 0:
        return 0.0 if found > flipped.mean() else 1.0
    return float(stdtr(len(flipped) - 1, -(found - flipped.mean()) / scale))


def spread(flipped: np.ndarray) -> float:
    """sd·√(1 + 1/F) of F flipped accuracies, what ``beyond`` measures in; NaN below two."""
    draws = len(flipped)
    return float(flipped.std(ddof=1) * np.sqrt(1 + 1 / draws)) if draws > 1 else np.nan


def detectable(scale: np.ndarray, draws: int, alpha: float, power: float) -> np.ndarray:
    """Accuracy above chance that ``beyond`` would find at level ``alpha`` with this power.

    Parameters
    ----------
    scale
        From ``spread``, of ``draws`` flipped accuracies.

    Notes
    -----
    (t₁₋α + z_power) · scale, t on ``draws`` − 1 degrees of freedom.
    """
    if draws < 2:
        return np.full(np.shape(scale), np.nan)
    return (ndtri(power) - stdtrit(draws - 1, alpha)) * scale
