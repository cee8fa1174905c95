"""Average linkage on 1 − |r|: one tree with its fit, and many clusterings at once.

On arrays: ``linked`` (a tree), ``average_linkage`` (of many matrices at once) and
``best_jaccard`` (how well clusters are found again).
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.cluster import hierarchy
from scipy.spatial.distance import squareform


def average_linkage(distance: np.ndarray, height: float) -> np.ndarray:
    """Average-linkage clusters of many distance matrices at once, cut at a height.

    Parameters
    ----------
    distance
        Shape (draws, heads, heads), symmetric.
    height
        Clusters whose mean distance is at most this are merged.

    Returns
    -------
    numpy.ndarray
        Labels from 0, with gaps, shape (draws, heads).

    Notes
    -----
    Sokal and Michener (1958): the two nearest clusters are merged and their distances
    averaged by size. Loops over merges, not over draws. Checked against
    ``scipy.cluster.hierarchy.fcluster(linkage(…, "average"), …, "distance")``.
    """
    d = np.array(distance, float)
    draws, heads, _ = d.shape
    d[:, np.arange(heads), np.arange(heads)] = np.inf
    size = np.ones((draws, heads))
    labels = np.tile(np.arange(heads), (draws, 1))
    every = np.arange(draws)
    for _ in range(heads - 1):
        i, j = np.divmod(d.reshape(draws, -1).argmin(axis=1), heads)
        row = np.flatnonzero(d[every, i, j] <= height)
        if not len(row):
            break
        i, j = i[row], j[row]
        a, b = size[row, i][:, None], size[row, j][:, None]
        merged = (a * d[row, i] + b * d[row, j]) / (a + b)
        d[row, i], d[row, :, i] = merged, merged
        d[row, i, i] = np.inf
        d[row, j], d[row, :, j] = np.inf, np.inf
        size[row, i] += size[row, j]
        labels[row] = np.where(labels[row] == j[:, None], i[:, None], labels[row])
    return labels


def linked(r: np.ndarray, height: float):
    """Heads with correlations, their labels from 0 along the tree, its fit, its leaf order."""
    used = np.flatnonzero(np.isfinite(np.diagonal(r)))
    if len(used) < 2:
        return used, np.zeros(len(used), int), np.nan, np.zeros(len(used), int)
    distance = 1 - np.abs(np.clip(r[np.ix_(used, used)], -1, 1))
    np.fill_diagonal(distance, 0)
    flat = squareform(distance, checks=False)
    tree = hierarchy.linkage(flat, "average", optimal_ordering=True)
    leaves = hierarchy.leaves_list(tree)
    position = np.argsort(leaves)
    label = hierarchy.fcluster(tree, height, "distance")
    label[leaves] = pd.factorize(label[leaves])[0]  # from 0 along the tree
    tree_distance = hierarchy.cophenet(tree)
    varied = len(flat) > 1 and np.ptp(flat) > 0 and np.ptp(tree_distance) > 0
    cophenetic = np.corrcoef(tree_distance, flat)[0, 1] if varied else np.nan
    return used, label, cophenetic, position


def best_jaccard(label: np.ndarray, again: np.ndarray) -> np.ndarray:
    """Best Jaccard index of each cluster in each draw, shape (draws, clusters)."""
    heads = len(label)
    member = (label[:, None] == np.arange(label.max() + 1)).astype(float)
    drawn = (again[:, :, None] == np.arange(heads)).astype(float)
    shared = np.einsum("dhc,hs->dcs", drawn, member)
    union = drawn.sum(axis=1)[:, :, None] + member.sum(axis=0) - shared
    return (shared / union).max(axis=1)
