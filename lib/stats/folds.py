"""Folds that keep groups whole."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np


def grouped(group: np.ndarray, folds: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows to fit and to judge by in each fold, each ascending; no group is in both.

    Those of ``sklearn.model_selection.GroupKFold(folds, shuffle=True, random_state=seed)``, which
    takes most of its time to check what it is given.

    Parameters
    ----------
    group
        Of each row.
    folds
        At least two, and no more than there are groups.
    """
    names, place = np.unique(group, return_inverse=True)
    if not 2 <= folds <= len(names):
        raise ValueError(f"{folds} folds of {len(names)} groups")
    fold = np.empty(len(names), int)
    shuffled = np.random.RandomState(seed).permutation(len(names))
    for number, some in enumerate(np.array_split(shuffled, folds)):
        fold[some] = number
    of_row = fold[place]
    for number in range(folds):
        yield np.flatnonzero(of_row != number), np.flatnonzero(of_row == number)
