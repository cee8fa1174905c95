"""What no effect can be isn't said to be detectable."""

from __future__ import annotations

import numpy as np

from lib.stats.effects import attainable


def test_an_effect_that_cannot_occur_is_none():
    found = attainable(np.asarray([0.3, 0.5, 0.843, 1.2, np.nan, np.inf]), 0.5)
    assert found[:2].tolist() == [0.3, 0.5] and np.isnan(found[2:]).all()
    assert attainable(0.843) == 0.843 and np.isnan(attainable(1.0001))
