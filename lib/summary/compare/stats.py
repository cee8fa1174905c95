"""Models side by side: the one score of each, and pairs of models on the same comparisons.

Only datasets that ask one question as a whole are compared on (``lib.data.asks.whole``).
``paired`` and ``judged`` are the same on arrays, for a page and for its calibration.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd

from lib.data.asks import whole
from lib.stats import permutation, proportions
from lib.stats.proportions import clustered
from lib.stats.winrates import ALL, FINAL, GATED, HEAD, LONGER, POWER, SCORE
from lib.summary.tables import NOT_RUN, OUTCOMES, Tables, together

SCORES = ("model", "dataset", "rule", "heads", "n", "win_rate", "low", "high", "longer", "best")
SCORES += ("best_rate", "best_low", "best_high", "note", "page")
DIFFERENCES = ("model", "other", "dataset", "n", "prompts", "n_model", "n_other", "rate")
DIFFERENCES += ("other_rate", "difference", "low", "high", "p", "p_adjusted", "mde", "disagree")
DIFFERENCES += ("verdict", "note")
KEY = ["item", "prompt", "better", "worse", "criterion", "subset"]
NO_SCORE = "several heads and no one score"
NOT_KEPT = "who won each comparison was not kept"
NOTHING_SHARED = "no comparison in common"
NO_NUMBERS = "scores that are not numbers"


def scores(given: Sequence[Tables]) -> pd.DataFrame:
    """The one score of every model on every whole dataset that any of them was audited on.

    Returns
    -------
    pandas.DataFrame
        One row a dataset and model: ``model``, ``dataset``; ``rule`` (``final score``, or the
        head of a model that has one; empty for several heads without a score) with ``n``,
        ``win_rate``, ``low`` and ``high`` on all comparisons; ``longer`` (what the longer
        response alone wins on the same comparisons); ``heads`` (how many); ``best``
        (the head with the highest win rate here, chosen on these comparisons and so
        flattered) with ``best_rate``, ``best_low``, ``best_high``; ``note`` (``"not run"``, or
        why there is no score) and ``page`` (address from the site's root).
    """
    rows = []
    for dataset in _datasets(given):
        for model in given:
            row = {"model": model.model, "dataset": dataset, "rule": "", "best": "", "page": ""}
            rows.append(row | (_score(model, dataset) or {"heads": 0, "n": 0, "note": NOT_RUN}))
    return pd.DataFrame(rows, columns=list(SCORES))


def _datasets(given: Sequence[Tables]) -> list[str]:
    """Whole ones with a validity table of any model, in the order of the first that has them."""
    found = dict.fromkeys(name for model in given for name, _ in model.each("validity"))
    return [name for name in found if whole(name)]


def _score(model: Tables, dataset: str) -> dict | None:
    validity = model.read("validity", dataset) if dataset in model.datasets else None
    if validity is None:
        return None
    overall = validity[validity["subset"] == ALL]
    row = {"heads": len(overall), "page": model.page(dataset), "note": ""}
    known = overall[overall["win_rate"].notna()]
    if len(known):
        best = known.loc[known["win_rate"].idxmax()]
        row |= {"best": best["head"]}
        row |= {f"best_{name}": best[part] for name, part in _RATE.items()}
    length = _baseline(model, dataset, LONGER)
    row |= {"longer": np.nan if length is None else length["win_rate"]}
    if len(overall) == 1:
        one = overall.iloc[0]
        row |= {"rule": one["head"]}
    else:
        kept = (_baseline(model, dataset, name) for name in (GATED, FINAL))
        one = next((row for row in kept if row is not None), None)
        row |= {"rule": "" if one is None else FINAL}
    if one is None:
        return row | {"n": int(overall["n"].max()), "note": NO_SCORE}
    row |= {part: one[part] for part in ("n", "win_rate", "low", "high")}
    return row | {"note": one["note"] or ""}


def _baseline(model: Tables, dataset: str, name: str) -> pd.Series | None:
    """A baseline's row on all comparisons of a dataset; ``None`` where it wasn't computed."""
    table = model.read("baselines", dataset)
    if table is None:
        return None
    own = table[(table["baseline"] == name) & (table["subset"] == ALL)]
    return own.iloc[0] if len(own) else None


_RATE = {"rate": "win_rate", "low": "low", "high": "high"}


def compare(given: Sequence[Tables], alpha: float = 0.05) -> pd.DataFrame:
    """Every two models on the comparisons that both were audited on, paired.

    A comparison is the same when its item, prompt, places, criterion and subset are. What one
    model trained on was held back from its audit and so is left out for both.

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
        (comparisons in common), ``prompts``, ``n_model`` and ``n_other`` (those that each was
        audited on), ``rate`` and ``other_rate`` (win rates on the common ones),
        ``difference`` (model less other) with ``low`` and ``high`` (t interval, prompts as
        clusters), ``p`` (exact two-sided sign-flip of each prompt's difference),
        ``p_adjusted`` (Holm over the table; ``verdict`` goes by it), ``mde`` (the smallest
        difference that this test finds with power .8 at α/m, on the prompts where the models
        differ; missing, for none),
        ``disagree`` (share of the common ones on which they don't choose alike; a tie of one is
        no choice of either response),
        ``verdict`` (``higher``, ``lower``, ``not told apart``; ``undefined`` where there is
        no p) and ``note``. A model's one score is compared; of a model with one head, that.
        Datasets that the gating page of either pools are also compared on together.
    """
    rows = []
    for one, other in combinations(given, 2):
        kept = {
            dataset: (kept_outcomes(one, dataset), kept_outcomes(other, dataset))
            for dataset in shared_datasets(one, other)
        }
        for pool in dict.fromkeys(tuple(each.pooled()) for each in (one, other)):
            if pool and all(name in kept for name in pool):
                sides = zip(*(kept[name] for name in pool), strict=True)
                kept[together(pool)] = tuple(map(_concatenated, sides))
        for dataset, pair in kept.items():
            row = {"model": one.model, "other": other.model, "dataset": dataset}
            sides = zip((one.model, other.model), pair, strict=True)
            notes = [f"{found} ({name})" for name, found in sides if isinstance(found, str)]
            why = {"n": 0, "note": "; ".join(notes)}
            rows.append(row | (why if notes else _pair(*pair, alpha)))
    return judged(pd.DataFrame(rows).reindex(columns=[*DIFFERENCES, "flips"]), alpha)


def judged(table: pd.DataFrame, alpha: float = 0.05) -> pd.DataFrame:
    """``p_adjusted``, ``mde`` and ``verdict`` of a family of differences.

    Parameters
    ----------
    table
        With ``p``, ``difference``, ``n`` and ``flips`` (what the test flips), a row a
        difference; ``flips`` is dropped.
    """
    table = table.copy()
    table["p_adjusted"] = permutation.holm(table["p"].to_numpy(float))
    family = max(1, int(table["p"].notna().sum()))
    flips = [test if isinstance(test, tuple) else () for test in table.pop("flips")]
    # a difference is the sum of halves over n, as a win rate's distance from one half is
    table["mde"] = permutation.departures(flips, table["n"].to_numpy(float), alpha / family, POWER)
    found = (table["p_adjusted"] < alpha).to_numpy()
    table["verdict"] = np.select(
        [table["p"].isna(), found & (table["difference"] > 0), found],
        ["undefined", "higher", "lower"],
        "not told apart",
    )
    return table


def shared_datasets(one: Tables, other: Tables) -> list[str]:
    """Whole datasets that both have a validity table of."""
    theirs = _datasets([other])
    return [dataset for dataset in _datasets([one]) if dataset in theirs]


def common(one: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """Comparisons of both: ``outcome`` and ``margin``, ``outcome_other`` and ``margin_other``."""
    return one.merge(other, on=KEY, suffixes=("", "_other"), validate="one_to_one")


def kept_outcomes(model: Tables, dataset: str) -> pd.DataFrame | str:
    """Outcomes and margins of the model's one score, a row a comparison; or why there are none."""
    return model.once((OUTCOMES, dataset), lambda: _outcomes(model, dataset))


def _outcomes(model: Tables, dataset: str) -> pd.DataFrame | str:
    table = model.read(OUTCOMES, dataset)
    if table is None:
        return NOT_KEPT
    own = table[table["kind"] == SCORE]
    if own.empty:
        heads = table[table["kind"] == HEAD]
        if heads["rule"].nunique() != 1:
            return NO_SCORE
        own = heads
    own = own.astype(dict.fromkeys(["item", "prompt", "criterion", "subset"], str))
    return own[[*KEY, "outcome", "margin"]].drop_duplicates(KEY)


def _concatenated(parts: Sequence[pd.DataFrame | str]) -> pd.DataFrame | str:
    """Outcomes of one model on several datasets; or why there are none on one of them."""
    missing = [part for part in parts if isinstance(part, str)]
    if missing:
        return missing[0]
    # an item's name need not be its own beyond its dataset
    return pd.concat(
        [part.assign(item=f"{k}: " + part["item"]) for k, part in enumerate(parts)],
        ignore_index=True,
    )


def _pair(one: pd.DataFrame, other: pd.DataFrame, alpha: float) -> dict:
    both = common(one, other)
    row = {"n": len(both), "n_model": len(one), "n_other": len(other)}
    if both.empty:
        return row | {"note": NOTHING_SHARED}
    mine, theirs = both["outcome"].to_numpy(float), both["outcome_other"].to_numpy(float)
    _, prompt = np.unique(both["prompt"].to_numpy(str), return_inverse=True)
    row |= {"prompts": int(prompt.max()) + 1}
    if not (np.isfinite(mine).all() and np.isfinite(theirs).all()):
        return row | {"note": NO_NUMBERS}
    return (
        row
        | {"rate": mine.mean(), "other_rate": theirs.mean()}
        | {"disagree": (mine != theirs).mean()}
        | paired(mine, theirs, prompt, alpha)
    )


def paired(mine: np.ndarray, theirs: np.ndarray, prompt: np.ndarray, alpha: float) -> dict:
    """The difference of two models' outcomes, its interval, p, and what the test flips.

    Parameters
    ----------
    mine, theirs
        1, ½ or 0 for each comparison, shape (comparisons,).
    prompt
        Integers from 0, shape (comparisons,).
    """
    gap = mine - theirs
    mean = clustered(gap, prompt, 1 - alpha)
    totals, _ = proportions.by_cluster(gap, prompt)
    net = 2 * totals[:, None]  # halves become whole
    return {
        "n": len(gap),
        "difference": mean.estimate,
        "low": mean.low,
        "high": mean.high,
        "flips": permutation.flips(net)[0],
        "p": float(permutation.sign_flip(net)[0]),
        "note": "",
    }
