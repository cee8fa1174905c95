"""Folds that keep groups whole."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import GroupKFold

from lib.stats.folds import grouped


@pytest.mark.parametrize(("folds", "seed"), [(2, 0), (3, 1), (5, 7), (9, 0)])
def test_folds_are_those_of_scikit_learn(folds, seed):
    group = np.random.default_rng(0).permutation(np.repeat([3, 4, 8, 1, 90, 11, 0, 6, 5], 7))
    found = list(grouped(group, folds, seed))
    theirs = list(GroupKFold(folds, shuffle=True, random_state=seed).split(group, groups=group))
    assert len(found) == folds
    for own, other in zip(found, theirs, strict=True):
        for rows, expected in zip(own, other, strict=True):
            np.testing.assert_array_equal(rows, expected)


@pytest.mark.parametrize(("groups", "folds"), [(3, 4), (1, 1), (4, 1), (0, 2)])
def test_folds_that_groups_cannot_fill_are_refused(groups, folds):
    with pytest.raises(ValueError, match=f"{folds} folds of {groups} groups"):
        list(grouped(np.arange(groups), folds, 0))
