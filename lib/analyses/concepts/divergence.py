"""How unlike other states must a state be before it is flagged?

Published: a Mahalanobis distance above 2.0, "two standard deviations". But the squared distance
of a normal state in d dimensions is χ² on d degrees of freedom, so 2.0 is rare in one dimension
and far below every distance in twenty.

``tail``        how often 2.0 flags by chance, exactly, and what would flag 5%
``calibrated``  the same on the run's own states, with a threshold from states held out
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats
from sklearn.covariance import ledoit_wolf

from lib.stats import proportions

THRESHOLD = 2.0
RATE = 0.05
DIMENSIONS = (1, 2, 5, 20)
ADDED = 1e-4  # to the published covariance's diagonal
LEAST = 30  # prompts


def tail(dimensions: tuple[int, ...] = DIMENSIONS) -> pd.DataFrame:
    """Chance flags of normal states: P(χ²_d > 4), and the distance that flags 5%.

    Returns
    -------
    pandas.DataFrame
        One row a number of dimensions: ``dimensions``, ``flagged`` (share beyond ``THRESHOLD``)
        and ``needed`` (the threshold that flags ``RATE`` of them). The mean, the covariance and
        the normality are taken as known.
    """
    d = np.asarray(dimensions)
    flagged, needed = stats.chi2.sf(THRESHOLD**2, d), np.sqrt(stats.chi2.isf(RATE, d))
    return pd.DataFrame({"dimensions": d, "flagged": flagged, "needed": needed})


def calibrated(run: xr.Dataset, *, alpha: float = 0.05, seed: int = 0) -> pd.DataFrame:
    """Shares of ordinary states that are flagged, by the published and a calibrated threshold.

    Parameters
    ----------
    run
        A Run with states.
    alpha
        Level of the intervals, one at a time.
    seed
        Prompts are divided at random into three parts: one gives mean and covariance, one the
        threshold, and the last is flagged.

    Returns
    -------
    pandas.DataFrame
        One row a rule (``published``, ``published threshold``, ``calibrated``): ``rule``,
        ``covariance``, ``dimensions`` (features), ``fitted`` (responses), ``n`` (responses
        flagged or not) and ``prompts``, ``threshold``, ``distance`` (median), ``flagged`` with
        ``low`` and ``high`` (Wilson, by prompt), and ``note``.

    Notes
    -----
    The published rule takes the sample covariance plus 1e-4 on its diagonal. With fewer
    responses than features nearly all of the distance is then of directions in which none of
    them varied. The others shrink the covariance (Ledoit & Wolf 2004). The calibrated threshold
    is the ⌈(m + 1)(1 − .05)⌉-th smallest of m held-out distances: a new state exceeds it with a
    chance of at most .05 (Vovk et al. 2005), whatever the states' distribution, as far as
    responses to one prompt are like those to others.
    """
    columns = ["rule", "covariance", "dimensions", "fitted", "n", "prompts", "threshold"]
    columns += ["distance", "flagged", "low", "high", "note"]
    hidden = run["hidden"].values.astype(float)
    prompt = np.unique(run["prompt_hash"].values, return_inverse=True)[1]
    prompt = prompt[run["item_of_response"].values]
    kept = np.isfinite(hidden).all(axis=1)
    hidden, prompt = hidden[kept], prompt[kept]
    known = np.unique(prompt)
    if len(known) < LEAST:
        note = f"states of {len(known)} prompts; {LEAST} are needed"
        return pd.DataFrame([{"rule": "calibrated", "note": note}]).reindex(columns=columns)
    order = np.random.default_rng([seed, 7]).permutation(known)
    fit, held, tried = (np.isin(prompt, part) for part in np.array_split(order, 3))
    plain, shrunk = _distances(hidden, fit, shrink=False), _distances(hidden, fit, shrink=True)
    rules = [
        ("published", "sample + 1e-4", plain, THRESHOLD),
        ("published threshold", "shrunk", shrunk, THRESHOLD),
        ("calibrated", "shrunk", shrunk, threshold(shrunk[held])),
    ]
    rows = []
    for rule, covariance, distance, limit in rules:
        flagged = (distance[tried] > limit).astype(float)
        found = proportions.wilson(*proportions.by_prompt(flagged, prompt[tried]), 1 - alpha)
        numbers = (float(found.estimate), float(found.low), float(found.high))
        sizes = (hidden.shape[1], int(fit.sum()), int(tried.sum()), len(np.unique(prompt[tried])))
        median = float(np.median(distance[tried]))
        rows.append((rule, covariance, *sizes, limit, median, *numbers, ""))
    return pd.DataFrame(rows, columns=columns)


def threshold(distances: np.ndarray, rate: float = RATE) -> float:
    """What at most ``rate`` of further distances exceed by chance; infinite for too few."""
    place = int(np.ceil((len(distances) + 1) * (1 - rate)))
    return float(np.sort(distances)[place - 1]) if place <= len(distances) else np.inf


def _distances(hidden: np.ndarray, fit: np.ndarray, *, shrink: bool) -> np.ndarray:
    centred = hidden - hidden[fit].mean(axis=0)
    own = centred[fit]
    if shrink:
        covariance, _ = ledoit_wolf(own, assume_centered=True)
    else:
        covariance = own.T @ own / (len(own) - 1) + ADDED * np.eye(own.shape[1])
    solved = np.linalg.solve(covariance, centred.T).T
    return np.sqrt(np.maximum((centred * solved).sum(axis=1), 0))
