"""Dose and response: what happens to a reward as a concept is added to the state?

The last layer's state enters the final norm, and heads read what leaves it. The norm bounds how
far a reward can be driven, and may turn a rising reward round. Computed from the states that
heads read: divided by the norm's gain they are the stream over its root mean square, which is
all that an RMSNorm lets through. So nothing is run again, and earlier layers aren't spoken of:
what is added there would go through the layers above.

``dose``    rewards along the doses
``slopes``  slope at dose 0, and whether rewards keep their direction
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr

from lib.analyses.concepts.pairs import Pairs, halves, pairs
from lib.stats import signed

DOSES = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
SPLITS = 10
TOLERANCE = 0.05  # of a root mean square of 1
NO_WEIGHTS = "no head weights, or no gain of the final norm"
NOT_RMS = "the states over the gain have no root mean square of 1: no RMSNorm of this gain"


def scaled(run: xr.Dataset, gain: np.ndarray | None) -> tuple[np.ndarray | None, str]:
    """The stream over its root mean square at the last layer, or why it can't be had.

    Features with a gain of 0 reach no head; they are 0.
    """
    if gain is None:
        return None, NO_WEIGHTS
    hidden = run["hidden"].values.astype(float)
    some = np.abs(gain) > 0
    states = np.divide(hidden, gain, out=np.zeros_like(hidden), where=some)
    size = np.sqrt((states[np.isfinite(states).all(axis=1)] ** 2).sum(axis=1) / max(1, some.sum()))
    if not len(size) or np.abs(size - 1).max() > TOLERANCE:
        return None, NOT_RMS if len(size) else "no states were kept"
    return states, ""


def dose(
    run: xr.Dataset,
    weight: np.ndarray | None,
    gain: np.ndarray | None,
    *,
    doses: tuple[float, ...] = DOSES,
    alpha: float = 0.05,
    seed: int = 0,
) -> pd.DataFrame:
    """Rewards as a concept's direction is added to the response that has less of it.

    Parameters
    ----------
    run
        A Run with states.
    weight, gain
        Of the heads, shape (heads, features), and of the final norm, shape (features,).
    doses
        Multiples of the concept's mean difference, from pairs of other prompts; from 0, rising.
    alpha
        The intervals have level 1 − alpha, one at a time.
    seed
        Of the halves.

    Returns
    -------
    pandas.DataFrame
        One row a concept, head and dose: ``concept``, ``head``, ``dose``, ``n`` (prompts),
        ``change`` of the reward in standard deviations of the head's scores, mean over prompts,
        with ``low`` and ``high`` (t). Empty where it can't be computed.

    Notes
    -----
    With u the stream over its root mean square, v the mean difference of u and f = gain ⊙ w, the
    reward at dose a is f · (u + a v)/rms(u + a v), bias aside.
    """
    rows = []
    for asked, curves, _ in _curves(run, weight, gain, doses, seed):
        found = signed.signed(curves, 1 - alpha)
        for k, head in enumerate(run["head"].values):
            numbers = zip(doses, found.mean[:, k], found.low[:, k], found.high[:, k], strict=True)
            rows += [(asked.concept, head, d, len(asked), *three) for d, *three in numbers]
    columns = ["concept", "head", "dose", "n", "change", "low", "high"]
    return pd.DataFrame(rows, columns=columns)


def slopes(
    run: xr.Dataset,
    weight: np.ndarray | None,
    gain: np.ndarray | None,
    *,
    doses: tuple[float, ...] = DOSES,
    alpha: float = 0.05,
    seed: int = 0,
) -> pd.DataFrame:
    """Slopes at dose 0, and whether rewards go one way along the doses; parameters as ``dose``.

    Returns
    -------
    pandas.DataFrame
        One row a concept and head: ``concept``, ``head``, ``n``, ``slope`` (standard deviations
        of the head a dose) with ``low`` and ``high`` (t over prompts, one at a time, the
        directions as they are), ``at_one`` (change at dose 1), ``largest`` (dose of those given
        at which the mean change is largest), ``monotone`` (share of prompts whose reward moves
        the slope's way at every step) and ``note``.

    Notes
    -----
    The slope is f · v − (f · u)(u · v)/features. No verdict is given: at dose 1 it restates the
    gap between the pairs, which ``directions.alignment`` tests.
    """
    columns = ["concept", "head", "n", "slope", "low", "high", "at_one", "largest"]
    columns += ["monotone", "note"]
    tables = []
    for asked, curves, slope in _curves(run, weight, gain, doses, seed):
        found = signed.signed(slope, 1 - alpha)
        mean, way = curves.mean(axis=0), np.sign(found.mean)
        steps = np.diff(curves, axis=1) * way > 0
        at_one = mean[doses.index(1.0)] if 1.0 in doses else np.full(len(way), np.nan)
        tables.append(
            pd.DataFrame(
                {
                    "concept": asked.concept,
                    "head": run["head"].values,
                    "n": len(asked),
                    "slope": found.mean,
                    "low": found.low,
                    "high": found.high,
                    "at_one": at_one,
                    "largest": np.asarray(doses)[(mean * way).argmax(axis=0)],
                    "monotone": steps.all(axis=1).mean(axis=0),
                    "note": "",
                }
            )
        )
    if tables:
        return pd.concat(tables, ignore_index=True)[columns]
    note = NO_WEIGHTS if weight is None else scaled(run, gain)[1] or "too few pairs"
    return pd.DataFrame([{"concept": "every concept", "note": note}]).reindex(columns=columns)


def _curves(run, weight, gain, doses, seed):
    """Of each concept: pairs, changes (prompts, doses, heads) and slopes (prompts, heads)."""
    states, _ = scaled(run, gain)
    if states is None or weight is None:
        return
    folded = weight * gain
    sd = run["score"].values.astype(float).std(axis=0)
    folded = folded / np.where(sd > 0, sd, np.nan)[:, None]
    for number, asked in enumerate(pairs(run, states)):
        if asked.note:
            continue
        curves = np.zeros((len(asked), len(doses), len(folded)))
        slope, size = np.zeros((len(asked), len(folded))), np.zeros(len(asked))
        for fit, tried in halves(len(asked), SPLITS, seed + number):
            change, first = _along(asked, fit, tried, folded, np.asarray(doses))
            curves[tried] += change
            slope[tried] += first
            size[tried] += 1
        yield asked, curves / size[:, None, None], slope / size[:, None]


def _along(asked: Pairs, fit, tried, folded, doses) -> tuple[np.ndarray, np.ndarray]:
    direction, base = asked.difference[fit].mean(axis=0), asked.low[tried]
    moved = base[:, None] + doses[:, None] * direction
    normed = moved / np.sqrt((moved**2).mean(axis=2, keepdims=True))
    rewards = normed @ folded.T
    size = np.sqrt((base**2).mean(axis=1, keepdims=True))
    unit = base / size
    pulled = (unit @ folded.T) * (unit @ direction)[:, None] / len(direction)
    return rewards - rewards[:, :1], (folded @ direction - pulled) / size
