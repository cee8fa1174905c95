"""Is one model's ranking settled at an earlier part of its layers than another's?

Of the tables that lens pages keep. A comparison's *depth* is the layer from which on its margin
stays at half its final size or more (``lib.analyses.lens.stats.reached``), as a share of the
model's layers, so that models of other sizes can be set beside one another: 0 where the embedding
has it, 1 where the last layer makes it. Means are over prompts of each prompt's mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd

from lib.analyses.lens.orders import EARLIER, LATER, NEITHER
from lib.analyses.lens.settling import KEY
from lib.analyses.patching.stats import detectable
from lib.stats import ratios
from lib.stats.permutation import holm
from lib.stats.signed import per_prompt, signed
from lib.summary.compare.stats import NO_SCORE, NOTHING_SHARED
from lib.summary.tables import Tables

SETTLING, SETTLED = "lens_settling", "lens_depths"  # tables of lens pages
PROFILES = ("model", "dataset", "head", "layers", "n", "prompts", "depth", "low", "high")
PROFILES += ("settled", "note")
DEPTHS = ("model", "other", "dataset", "n", "prompts", "depth", "other_depth", "difference")
DEPTHS += ("low", "high", "p", "p_adjusted", "mde", "verdict", "note")
UNDEFINED = "undefined"
ONE_PROMPT = "a single prompt has no interval"


def profiles(given: Sequence[Tables], alpha: float = 0.05) -> pd.DataFrame:
    """At which part of its layers each model's ranking is settled, by dataset with a lens page.

    Returns
    -------
    pandas.DataFrame
        One row a dataset and model: ``model``, ``dataset``, ``head`` (its one score's),
        ``layers``, ``n`` (comparisons whose responses score differently), ``prompts``,
        ``depth`` (mean over prompts) with ``low`` and ``high`` (Student's, uncorrected);
        ``settled``, the part from which on the lens is shown to pick the reward's response, as
        the lens page judges it (1 where no depth before the end is shown), and ``note``.
    """
    rows = []
    for dataset in _datasets(given):
        for model in given:
            table = model.read(SETTLING, dataset) if dataset in model.datasets else None
            if table is None:
                continue
            row = {"model": model.model, "dataset": dataset, "n": len(table), "note": ""}
            if table.empty:
                rows.append(row | {"head": "", "note": NO_SCORE})
                continue
            found = ratios.mean(per_prompt(_part(table), table["prompt"].to_numpy(str)), 1 - alpha)
            row |= {"head": table["head"].iloc[0], "layers": int(table["layers"].iloc[0])}
            row |= {"prompts": table["prompt"].nunique(), "depth": float(found.estimate)}
            row |= {"low": float(found.low), "high": float(found.high)}
            rows.append(row | {"settled": _settled(model, dataset, row["head"])})
    return pd.DataFrame(rows).reindex(columns=list(PROFILES))


def _datasets(given: Sequence[Tables]) -> list[str]:
    return list(dict.fromkeys(name for model in given for name, _ in model.each(SETTLING)))


def _part(table: pd.DataFrame) -> np.ndarray:
    return (table["stays"] / table["layers"]).to_numpy(float)


def _settled(model: Tables, dataset: str, head: str) -> float:
    table = model.read(SETTLED, dataset)
    own = [] if table is None else table[table["head"] == head]
    return float(own["settled"].iloc[0] / own["layers"].iloc[0]) if len(own) else np.nan


def depths(given: Sequence[Tables], alpha: float = 0.05) -> pd.DataFrame:
    """Every two models on the comparisons that both have a lens of, paired.

    Parameters
    ----------
    given
        Tables of two models or more.
    alpha
        Level of the intervals, one by one, and of the family: all rows.

    Returns
    -------
    pandas.DataFrame
        One row a pair of models and dataset of both: ``model``, ``other``, ``dataset``, ``n``
        (comparisons in common that both tell apart), ``prompts``, ``depth`` and
        ``other_depth`` (means over prompts), ``difference`` (model less other) with ``low`` and
        ``high`` (t interval), ``p`` (exact two-sided sign flip of prompts), ``p_adjusted``
        (Holm over the table), ``mde`` (the difference that is found with power .8 at α/m, by
        Student's t; NaN for none), ``verdict`` (``later``, ``earlier``, ``not told apart``,
        ``undefined``) and ``note``.
    """
    rows = []
    for one, other in combinations(given, 2):
        theirs = dict(other.each(SETTLING))
        for dataset, table in one.each(SETTLING):
            if dataset in theirs:
                row = {"model": one.model, "other": other.model, "dataset": dataset}
                rows.append(row | _pair(table, theirs[dataset], alpha))
    return judged(pd.DataFrame(rows).reindex(columns=[*DEPTHS, "gaps"]), alpha)


def _pair(one: pd.DataFrame, other: pd.DataFrame, alpha: float) -> dict:
    if one.empty or other.empty:
        return {"n": 0, "note": NO_SCORE}
    sides = [
        table.astype(dict.fromkeys(["item", "prompt", "criterion", "subset"], str))
        .drop_duplicates(list(KEY))
        .assign(depth=_part)
        for table in (one, other)
    ]
    columns = [*KEY, "depth"]
    both = sides[0][columns].merge(sides[1][columns], on=list(KEY), suffixes=("", "_other"))
    if both.empty:
        return {"n": 0, "note": NOTHING_SHARED}
    return paired(
        both["depth"].to_numpy(), both["depth_other"].to_numpy(), both["prompt"].to_numpy(), alpha
    )


def paired(mine: np.ndarray, theirs: np.ndarray, prompt: np.ndarray, alpha: float) -> dict:
    """A row of ``depths``, before it is judged with the others; ``gaps`` is what its test flips.

    Parameters
    ----------
    mine, theirs
        Depths of each comparison, as a share of each model's layers.
    prompt
        Of each comparison.
    """
    own = per_prompt(np.stack([mine, theirs, mine - theirs], axis=1), prompt)
    row = {"n": len(mine), "prompts": len(own), "note": ""}
    row |= dict(zip(("depth", "other_depth", "difference"), own.mean(axis=0), strict=True))
    if len(own) < 2:
        return row | {"note": ONE_PROMPT}
    found = signed(own[:, 2], 1 - alpha)
    row |= {"low": float(found.low), "high": float(found.high), "p": float(found.p)}
    return row | {"gaps": own[:, 2]}


def judged(table: pd.DataFrame, alpha: float = 0.05) -> pd.DataFrame:
    """``p_adjusted``, ``mde`` and ``verdict`` of a family of rows of ``paired``."""
    table = table.copy()
    table["p_adjusted"] = holm(table["p"].to_numpy(float))
    level = alpha / max(1, int(table["p"].notna().sum()))
    gaps = table.pop("gaps")
    table["mde"] = [
        float(detectable(each, level)) if isinstance(each, np.ndarray) else np.nan for each in gaps
    ]
    told = table["p_adjusted"] < alpha
    table["verdict"] = np.select(
        [table["p"].isna(), told & (table["difference"] > 0), told],
        [UNDEFINED, LATER, EARLIER],
        NEITHER,
    )
    return table
