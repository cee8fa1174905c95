"""The null of parallel analysis: heads that have nothing to do with one another."""

from __future__ import annotations

import numpy as np

CACHED = 200_000  # numbers moved about at a time: more than a cache holds is slower


def permuted_correlations(
    values: np.ndarray, start: np.ndarray, sizes: np.ndarray, draws: int, seed: int
) -> np.ndarray:
    """Correlations after whole prompts traded places, head by head.

    Parameters
    ----------
    values
        Centred columns of length 1, rows sorted by prompt, shape (kinds, rows, heads); the
        kinds share each permutation.
    start, sizes
        First row and number of rows of each prompt. Only prompts of one size trade places, and
        the rows of each are rotated by a random step.

    Returns
    -------
    numpy.ndarray
        Shape (kinds, draws, heads, heads).
    """
    generator = np.random.default_rng(seed)
    kinds, rows, heads = values.shape
    out = np.zeros((kinds, draws, heads, heads))
    step = max(1, CACHED // (rows * heads))
    for size in np.unique(sizes):
        starts = start[sizes == size]
        many = len(starts)
        # every rotation of every prompt, a row each, head after head
        turn = (np.arange(size)[:, None] + np.arange(size)) % size
        index = (starts[:, None, None] + turn).reshape(-1, size)
        rotated = values[:, index].transpose(0, 3, 1, 2).reshape(kinds, -1, size)
        first = np.arange(heads, dtype=np.int32)[:, None] * (many * size)
        place = np.arange(many, dtype=np.int32) * size
        for begin in range(0, draws, step):
            shape = (min(step, draws - begin), heads, many)
            source = generator.permuted(np.broadcast_to(place, shape), axis=-1)
            source += first + generator.integers(0, size, shape, dtype=np.int32)
            for kind in range(kinds):
                moved = rotated[kind].take(source, axis=0).reshape(*shape[:2], -1)
                out[kind, begin : begin + shape[0]] += moved @ moved.swapaxes(1, 2)
    return out
