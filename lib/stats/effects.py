"""How large an effect can be at all."""

from __future__ import annotations

import numpy as np


def attainable(mde: np.ndarray | float, most: float = 1.0) -> np.ndarray:
    """A minimum detectable effect of normal theory where it can occur; NaN, for none, elsewhere.

    Parameters
    ----------
    mde
        Of a quantile and a standard error, which know no bound.
    most
        The largest effect that there can be: 1 for a difference of two shares, ½ for a share's
        distance from one half.
    """
    mde = np.asarray(mde, float)
    return np.where(mde <= most, mde, np.nan)
