"""Calibration: every claim that a page can make, put to worlds whose answer is known.

One module an analysis, each with a function ``checks(draws, seed)`` that gives rows:

``validity``         verdicts on heads, their intervals, what is told of power
``protocols``        components of variance between heads and protocols, heads that change sides
``labels``           names called wrong, names better than random, agreement of heads
``disentanglement``  factors, clusters, intervals of correlations
``geometry``         where entanglement lives
``separability``     concepts found, losses between state and head
``gating``           what a gate gains, and where it loses
``comparing``        differences between models

``calibrate`` puts them together; ``checks`` holds what a row is. Worlds are those of
``lib.planted``, and what judges them is ``lib.stats`` (and ``lib.summary``) itself, in one call
for all draws where its functions take arrays, else in one call a draw.
"""

from __future__ import annotations

import pandas as pd

from lib.calibration import (
    comparing,
    disentanglement,
    gating,
    geometry,
    labels,
    protocols,
    separability,
    validity,
)
from lib.calibration.checks import COLUMNS

ANALYSES = {
    "validity": validity,
    "protocols": protocols,
    "labels": labels,
    "disentanglement": disentanglement,
    "geometry": geometry,
    "separability": separability,
    "gating": gating,
    "comparing": comparing,
}


def calibrate(draws: int = 10_000, seed: int = 0) -> pd.DataFrame:
    """All checks of all analyses.

    Parameters
    ----------
    draws
        Worlds of a kind, at most; a check that is slow takes fewer and says so.
    seed
        Of everything.

    Returns
    -------
    pandas.DataFrame
        One row a check, as in ``lib.calibration.checks.check``, with ``analysis`` first.

    Raises
    ------
    ParameterError
        When ``draws`` isn't above 0.
    """
    rows = [
        {"analysis": name} | row
        for name, module in ANALYSES.items()
        for row in module.checks(draws, seed)
    ]
    return pd.DataFrame(rows)[["analysis", *COLUMNS]]


__all__ = ["ANALYSES", "calibrate"]
