"""What a run holds: rows read and left out, response lengths, what length alone would win."""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr

from lib.run import IDENTICAL, TRAINED, align
from lib.stats import winrates


def counts(run: xr.Dataset) -> pd.DataFrame:
    """Items by step: read, each reason to leave some out, scored.

    Returns
    -------
    pandas.DataFrame
        ``step`` (``read``, ``dropped``, ``usable``, ``held back``, ``scored``), ``reason``
        and ``items``. Items whose prompt trained a head are usable, but held back. Where
        comparisons of scored items were left out, a last row (``not compared``) counts those.
    """
    dropped = dict(run.attrs["dropped"])
    held_back, identical = dropped.pop(TRAINED, 0), dropped.pop(IDENTICAL, 0)
    scored = run.sizes["item"]
    usable = scored + held_back
    rows = [("read", "", usable + sum(dropped.values()))]
    rows += [("dropped", reason, count) for reason, count in sorted(dropped.items())]
    rows += [("usable", "", usable)]
    if held_back:
        rows += [("held back", TRAINED, held_back)]
    rows += [("scored", "", scored)]
    if identical:
        rows += [("not compared", IDENTICAL, identical)]
    return pd.DataFrame(rows, columns=["step", "reason", "items"])


def unscored(run: xr.Dataset) -> pd.DataFrame:
    """Items that the model couldn't score, such as those longer than its context.

    Returns
    -------
    pandas.DataFrame
        ``reason`` and ``item``, the dataset's id; a row an item, in the order of the data.
    """
    rows = [(why, item) for why, ids in run.attrs.get("unscored", {}).items() for item in ids]
    return pd.DataFrame(rows, columns=["reason", "item"])


def lengths(run: xr.Dataset, bins: int = 30) -> pd.DataFrame:
    """Distribution of response lengths, preferred and other, in logarithmic bins.

    Returns
    -------
    pandas.DataFrame
        ``side`` (``better``, ``worse``), ``low`` and ``high`` (tokens, half-open) and
        ``share`` of that side's responses; a response counts once for each comparison. Without
        comparisons the bins are those of all responses, and every share is 0.
    """
    aligned = align(run)
    tokens = run["n_response_tokens"].values
    used = tokens[np.concatenate([aligned.better, aligned.worse])] if len(aligned) else tokens
    edges = np.unique(np.geomspace(max(1, used.min()), used.max() + 1, bins + 1).round())
    parts = []
    for side, rows in (("better", aligned.better), ("worse", aligned.worse)):
        count, _ = np.histogram(tokens[rows], edges)
        share = count / max(1, len(rows))
        parts.append(
            pd.DataFrame({"side": side, "low": edges[:-1], "high": edges[1:], "share": share})
        )
    return pd.concat(parts, ignore_index=True)


def length_summary(run: xr.Dataset) -> pd.DataFrame:
    """What a reward that only counts tokens would win, with medians.

    Returns
    -------
    pandas.DataFrame
        One row a subset, ``all`` included: ``subset``, ``n``, ``longer_wins`` (ties half)
        with ``low`` and ``high``, and medians ``prompt_tokens``, ``better_tokens``,
        ``worse_tokens``.
    """
    aligned = align(run)
    table = winrates.baselines(run)
    table = table[table["baseline"] == "longer response"].set_index("subset")
    tokens, prompt = run["n_response_tokens"].values, run["n_prompt_tokens"].values
    owner = run["item_of_response"].values
    rows = []
    for subset, mask in winrates.by_subset(aligned):
        found = table.loc[subset]
        rows.append(
            {
                "subset": subset,
                "n": int(mask.sum()),
                "longer_wins": found["win_rate"],
                "low": found["low"],
                "high": found["high"],
                "prompt_tokens": _median(prompt[owner[aligned.better[mask]]]),
                "better_tokens": _median(tokens[aligned.better[mask]]),
                "worse_tokens": _median(tokens[aligned.worse[mask]]),
            }
        )
    return pd.DataFrame(rows)


def _median(values: np.ndarray) -> float:
    return float(np.median(values)) if len(values) else np.nan
