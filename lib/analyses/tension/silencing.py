"""What silencing sets of neurons does to rankings and to margins, beside random neurons.

Columns of ``SILENCED``: ``model``; ``task``; ``set``; ``put``, zero or the mean activation;
``neurons``, how many on average; ``n``, ``seeds``; ``accuracy`` with them silenced; ``change``
from that of the whole model, ``low``, ``high``. Then against random neurons as many (for ``own``
also as many in each layer, ``by layer``), which were tried on ``few`` of the comparisons;
``random``, the mean change with these; ``more``, change less that, ``more_low``, ``more_high``,
``p`` and ``p_adjusted`` (Holm, over the rows of a study that have one); ``beaten``, share of
random sets that cost as much or more, all seeds together; ``verdict``, is accuracy ``lower`` or
``higher`` than with random neurons silenced, ``not told apart``, or ``not measured``, without any?

Columns of ``SHRINKAGE``: ``model``, ``task``, ``set``; ``n``, comparisons right before and
after, a seed; ``margin``, mean before, and ``left``, the share of it after, with ``low`` and
``high`` (Fieller, over seeds); ``smaller``, share of margins that are smaller after.

Columns of ``MARGINS``: ``model``, ``task``, ``set`` (``none`` for the whole model); ``low``,
``median`` and ``high``, of all seeds' margins their tenth, fiftieth and ninetieth percentile.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from lib.analyses.tension import crossed
from lib.analyses.tension.tasks import margins_of, probed, ranked, seeds_of
from lib.stats import permutation, ratios
from lib.training.tension.kept import (
    BY_LAYER,
    MIXED,
    NONE,
    OBJECTIVES,
    ONLY_HARMLESS,
    ONLY_HELPFUL,
    OWN,
    PUT,
    SETS,
    SHARED,
    SOURCES,
    WAYS,
    Study,
)

SILENCED = (
    *("model", "task", "set", "put", "neurons", "n", "seeds", "accuracy", "change", "low", "high"),
    *("few", "random", "more", "more_low", "more_high", "p", "p_adjusted", "beaten", "verdict"),
)
SHRINKAGE = ("model", "task", "set", "n", "margin", "left", "low", "high", "smaller")
MARGINS = ("model", "task", "set", "low", "median", "high")
LOWER, HIGHER, ALIKE, NOT_MEASURED = "lower", "higher", "not told apart", "not measured"
VERDICTS = (LOWER, HIGHER, ALIKE, NOT_MEASURED)


def _measured(study: Study) -> Iterator[tuple[str, list, np.ndarray]]:
    """Of each objective whose sets were silenced: what its seeds left, and their margins, shape
    (seeds, ways, places).
    """
    for model in OBJECTIVES:
        arrays = [study.models[seed, model] for seed in seeds_of(study, model, "margin")]
        if arrays:
            yield model, arrays, np.stack([of["margin"] for of in arrays]).astype(float)


def silenced(study: Study) -> pd.DataFrame:
    """What silencing a set of neurons costs, and whether random neurons cost as much.

    Returns
    -------
    DataFrame
        Columns ``SILENCED``, a row a model, task, set and what was put in its place.
    """
    rows = []
    for model, arrays, margins in _measured(study):
        sizes = _sizes(study, arrays)
        for task, places, prompt in probed(study):
            before = ranked(margins[:, 0, places])
            for name, put in [(name, put) for name in SETS for put in PUT]:
                after = ranked(margins[:, WAYS.index(f"{name}, {put}"), places])
                change = crossed.mean(crossed.by_prompt(after - before, prompt))
                row = {
                    "model": model,
                    "task": task,
                    "set": name,
                    "put": put,
                    "neurons": sizes[SETS.index(name)],
                    "n": len(places),
                    "seeds": len(arrays),
                    "accuracy": after.mean(),
                    "change": change.estimate,
                    "low": change.low,
                    "high": change.high,
                }
                drawn = {OWN: [OWN, BY_LAYER]}.get(name, [_like(name)])
                if put != PUT[0]:
                    drawn = []
                found = [_beside(study, model, name, like, places, prompt) for like in drawn]
                for like, beside in zip(drawn, found, strict=True):
                    label = f"{name}, {like}" if like == BY_LAYER else name
                    rows.append(row | {"set": label} | beside)
                if not drawn:
                    rows.append(row | {"verdict": NOT_MEASURED})
    table = pd.DataFrame(rows, columns=SILENCED)
    tested = table["p"].notna()
    table["p_adjusted"] = np.nan
    table.loc[tested, "p_adjusted"] = permutation.holm(table.loc[tested, "p"].to_numpy(float))
    shown = table["p_adjusted"] <= 0.05
    table.loc[table["p"].notna(), "verdict"] = ALIKE
    table.loc[shown & (table["more"] < 0), "verdict"] = LOWER
    table.loc[shown & (table["more"] > 0), "verdict"] = HIGHER
    table["verdict"] = table["verdict"].fillna(NOT_MEASURED)
    return table


def _sizes(study: Study, arrays) -> np.ndarray:
    """How many neurons each set has, on average over seeds."""
    n = int(np.prod(study.document["shape"]))
    return np.stack(
        [np.unpackbits(of["mask"], axis=-1, count=n).sum(axis=1) for of in arrays]
    ).mean(axis=0)


def _like(name: str) -> str:
    """Which random sets are as many as a set's neurons."""
    return name if name in (SHARED, ONLY_HELPFUL, ONLY_HARMLESS) else OWN


def _beside(study: Study, model: str, name: str, like: str, places, prompt) -> dict:
    """What silencing a set costs, less what random ones cost on the fewer prompts of theirs.

    A comparison's value is its change, less, where random sets were tried on it, their mean
    change times how many comparisons there are for each of these: the mean is the difference of
    both means, and the interval counts that they share prompts.
    """
    key = f"random {like}"
    seeds = seeds_of(study, model, key)
    few = np.flatnonzero(np.isin(study.few, places))
    if not seeds or not len(few):
        return {}
    arrays = [study.models[seed, model] for seed in seeds]
    where = np.searchsorted(places, study.few[few])
    margins = np.stack([of["margin"][:, places] for of in arrays]).astype(float)
    before = ranked(margins[:, 0])
    after = ranked(margins[:, WAYS.index(f"{name}, {PUT[0]}")])
    drawn = np.stack([ranked(of[key][:, few].astype(float)) for of in arrays])
    random = drawn.mean(axis=1) - before[:, where]
    values = after - before
    values[:, where] -= random * len(places) / len(few)
    more = crossed.mean(crossed.by_prompt(values, prompt))
    # Random sets of each seed are set beside their own seed's, on the same prompts.
    own = after[:, where].mean(axis=1)[:, None]
    return {
        "few": len(few),
        "random": random.mean(),
        "more": more.estimate,
        "more_low": more.low,
        "more_high": more.high,
        "p": more.p,
        "beaten": (drawn.mean(axis=2) <= own).mean(),
    }


def shrinkage(study: Study) -> pd.DataFrame:
    """How far margins shrink on comparisons that stay right: when silenced, and when mixed.

    Returns
    -------
    DataFrame
        Columns ``SHRINKAGE``, a row a model, task and set.
    """
    rows = []
    for model, _, margins in _measured(study):
        for task, places, _ in probed(study):
            if task not in SOURCES.values():
                continue
            for name in SETS:
                after = margins[:, WAYS.index(f"{name}, zero"), places]
                rows.append(_shrunk(model, task, name, margins[:, 0, places], after))
    for side, task in SOURCES.items():
        seeds = [s for s in seeds_of(study, side) if (s, MIXED) in study.models]
        if task in study.sets and seeds:
            one, mixed = (
                np.stack([margins_of(study, seed, model, task) for seed in seeds])
                for model in (side, MIXED)
            )
            rows.append(_shrunk(side, task, "mixed in its place", one, mixed))
    return pd.DataFrame(rows, columns=SHRINKAGE)


def _shrunk(model: str, task: str, name: str, before: np.ndarray, after: np.ndarray) -> dict:
    both = (before > 0) & (after > 0)
    n = both.sum(axis=1)
    row = {"model": model, "task": task, "set": name, "n": float(n.mean())}
    if not n.all():
        return row
    first, second = (
        np.asarray([x[b].mean() for x, b in zip(margins, both, strict=True)])
        for margins in (before, after)
    )
    found = ratios.share(second, first)
    return row | {
        "margin": first.mean(),
        "left": second.mean() / first.mean(),
        "low": float(found.low),
        "high": float(found.high),
        "smaller": float((after < before)[both].mean()),
    }


def margins(study: Study) -> pd.DataFrame:
    """How margins are spread, before and after sets are silenced.

    Returns
    -------
    DataFrame
        Columns ``MARGINS``, a row a model, task and set.
    """
    rows = []
    for model, _, found in _measured(study):
        for task, places, _ in probed(study):
            if task not in SOURCES.values():
                continue
            for name in (NONE, *SETS):
                way = WAYS.index(NONE if name == NONE else f"{name}, {PUT[0]}")
                ends = np.quantile(found[:, way, places], [0.1, 0.5, 0.9])
                row = {"model": model, "task": task, "set": name}
                rows.append(row | dict(zip(("low", "median", "high"), ends, strict=True)))
    return pd.DataFrame(rows, columns=MARGINS)
