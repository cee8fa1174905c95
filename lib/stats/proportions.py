"""Win rates and their intervals when rows come in clusters.

Several comparisons of one prompt are not independent, so the prompt is the unit: all
functions take per-prompt totals. ``by_cluster`` makes them from rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats


def by_cluster(values: np.ndarray, cluster: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Per-cluster sums of rows and their counts.

    Parameters
    ----------
    values
        Shape (rows, …).
    cluster
        Integers from 0, shape (rows,).

    Returns
    -------
    totals, sizes
        Shapes (clusters, …) and (clusters,).
    """
    sizes = np.bincount(cluster)
    totals = np.zeros((len(sizes), *values.shape[1:]))
    np.add.at(totals, cluster, values)
    return totals, sizes.astype(float)


@dataclass(frozen=True)
class Interval:
    """An estimate with its interval; each field has the totals' trailing shape."""

    estimate: np.ndarray
    low: np.ndarray
    high: np.ndarray
    se: np.ndarray


def wilson(totals: np.ndarray, sizes: np.ndarray, level: float = 0.95) -> Interval:
    """Wilson interval of a proportion with cluster-robust effective sample size.

    With p̂ the overall proportion, V = G/(G−1) Σ_c (t_c − n_c p̂)² / n² its cluster-robust
    variance over G clusters, and n_eff = p̂(1 − p̂)/V (the number of clusters when V is 0),
    the score interval of Wilson (1927) is taken at n_eff with the t quantile on G − 1
    degrees of freedom, as proposed by Korn & Graubard (1998) for the exact interval.

    Parameters
    ----------
    totals
        Wins plus half the ties of each cluster, shape (clusters, …).
    sizes
        Rows of each cluster, shape (clusters,) or that of ``totals``.
    level
        Of confidence.

    Returns
    -------
    Interval
        ``[0, 1]`` with an infinite standard error where there is a single cluster.

    Notes
    -----
    With one row a cluster and no ties this is Wilson's interval at n − 1 with a t quantile,
    checked against ``statsmodels.stats.proportion.proportion_confint``; its coverage is
    simulated in ``lib.planted``.
    """
    totals = np.asarray(totals, float)
    sizes = np.asarray(sizes, float)
    if sizes.ndim == 1:
        sizes = sizes.reshape(-1, *[1] * (totals.ndim - 1))
    n_clusters = totals.shape[0]
    n = np.broadcast_to(sizes, totals.shape).sum(axis=0)
    p = totals.sum(axis=0) / n
    if n_clusters < 2:
        return Interval(p, np.zeros_like(p), np.ones_like(p), np.full_like(p, np.inf))
    residual = totals - sizes * p
    variance = n_clusters / (n_clusters - 1) * (residual**2).sum(axis=0) / n**2
    with np.errstate(divide="ignore", invalid="ignore"):
        n_eff = np.where(variance > 0, p * (1 - p) / variance, n_clusters)
    # All clusters alike at p strictly inside (0, 1): nothing varies, so take the clusters.
    n_eff = np.where(n_eff > 0, n_eff, n_clusters)
    t = stats.t.ppf((1 + level) / 2, n_clusters - 1)
    shrink = 1 + t**2 / n_eff
    centre = (p + t**2 / (2 * n_eff)) / shrink
    half = t / shrink * np.sqrt(p * (1 - p) / n_eff + t**2 / (4 * n_eff**2))
    se = np.where(variance > 0, np.sqrt(variance), np.sqrt(0.25 / n_clusters))
    return Interval(p, np.maximum(centre - half, 0), np.minimum(centre + half, 1), se)


def bootstrap(
    totals: np.ndarray, sizes: np.ndarray, draws: int = 2000, seed: int = 0, level: float = 0.95
) -> tuple[np.ndarray, np.ndarray]:
    """Percentile interval of the win rate, resampling clusters.

    Shown beside ``wilson``, never judged by: it is too short near 0 and 1.

    Parameters
    ----------
    totals, sizes
        Shapes (clusters, columns) and (clusters,).
    draws, seed
        Number of resamples and the seed.
    """
    generator = np.random.default_rng(seed)
    n = len(sizes)
    rates = np.empty((draws, totals.shape[1]))
    step = max(1, 4_000_000 // n)
    for start in range(0, draws, step):
        stop = min(draws, start + step)
        weight = generator.multinomial(n, np.full(n, 1 / n), size=stop - start)
        rates[start:stop] = (weight @ totals) / (weight @ sizes)[:, None]
    tail = (1 - level) / 2
    return np.quantile(rates, tail, axis=0), np.quantile(rates, 1 - tail, axis=0)
