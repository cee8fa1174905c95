"""From the representation to the head: what is lost on the way, and what more data would show.

``readout``         loss between the state and the head that claims the concept
``at_least``        is a loss shown though its size isn't measurable?
``learning_curve``  would more comparisons have helped the probe?

Probes and their folds are in ``lib.stats.probing``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy.optimize import brentq
from scipy.special import expit, ndtri

from lib.stats import permutation, probing, proportions
from lib.stats.effects import attainable
from lib.stats.questions import questions
from lib.stats.winrates import POWER

RECOVERED = 0.02  # a planted direction must be found to within this
SHARES = (0.25, 0.5, 0.75, 1.0)
VERDICTS = ("not read out", "read out", "not found", "not measurable", "undefined")
_READOUT = ["concept", "head", "n", "prompts", "probe", "probe_p", "probe_mde", "scores", "claimed"]
_READOUT += ["to_scores", "to_head", "loss", "low", "high", "p", "p_adjusted", "mde"]
_READOUT += ["planted", "recovered", "verdict"]


def readout(
    run: xr.Dataset,
    comparisons: pd.DataFrame | None = None,
    *,
    components: int = probing.COMPONENTS,
    folds: int = 5,
    repeats: int = 3,
    flips: int = 20,
    plants: int = 5,
    alpha: float = 0.05,
    seed: int = 0,
) -> pd.DataFrame:
    """What is lost between the state and the head that claims the concept.

    loss = [probe(h) − probe(scores)] + [probe(scores) − head], each a held-out accuracy on
    the same folds, with what length explains taken out of states and scores.

    Parameters
    ----------
    run, comparisons, components, folds, repeats, flips, seed
        As in ``probes``.
    plants
        Random directions that are planted to see what the probe can find here.
    alpha
        Level of the intervals and of the family: all losses of the table.

    Returns
    -------
    pandas.DataFrame
        One row a concept and head that claims it (one with an empty ``head`` where none
        does): ``concept``, ``head``, ``n``, ``prompts``, ``probe``, ``probe_p`` (as in
        ``probes``, Holm over concepts), ``probe_mde`` (likewise), ``scores``, ``claimed`` (the
        head), ``to_scores`` and ``to_head`` (the two parts), ``loss``, ``low``, ``high``,
        ``p``, ``p_adjusted``,
        ``mde``, ``planted`` and ``recovered`` (accuracy of planted directions and of the
        probe on them), ``verdict`` and ``note``.

    Notes
    -----
    Verdicts, in order:

    ==============  ================================================================
    undefined       no states, too few prompts, or no head claims it; ``note`` says
    not measurable  the probe falls more than .02 short of planted directions, at
                    the accuracy seen and this number of comparisons
    not found       the probe isn't above ½ (adjusted p ≥ alpha)
    not read out    loss above 0 (adjusted p < alpha)
    read out        no loss found; ``mde`` says how large one would have been
    ==============  ================================================================

    A planted direction u is random; a comparison prefers by u with probability
    σ(a u·Δh), with a set so that u itself ranks as well as the better of probe and head.
    """
    rows = []
    for question in questions(run, comparisons, folds):
        rows += _readout(run, question, components, folds, repeats, flips, plants, alpha, seed)
    table = pd.DataFrame(rows).reindex(columns=[*_READOUT, "spread", "se", "note"])
    for column in ("head", "note"):
        table[column] = table[column].astype(object).fillna("")
    table["p_adjusted"] = permutation.holm(table["p"].to_numpy(float))
    first = ~table["concept"].duplicated()
    adjusted = permutation.holm(table.loc[first, "probe_p"].to_numpy(float))
    table["probe_p"] = table["concept"].map(
        dict(zip(table.loc[first, "concept"], adjusted, strict=True))
    )
    count = max(1, int(table.loc[first, "probe_p"].notna().sum()))
    spread = table.pop("spread").to_numpy(float)
    table["probe_mde"] = attainable(probing.detectable(spread, flips, alpha / count, POWER), 0.5)
    m = max(1, int(table["p"].notna().sum()))
    z = ndtri(1 - alpha / (2 * m)) + ndtri(POWER)
    table["mde"] = attainable(z * table.pop("se"))
    table["verdict"] = np.select(
        [
            table["loss"].isna(),
            ~(table["planted"] - table["recovered"] <= RECOVERED),
            ~((table["probe_p"] < alpha) & (table["probe"] > 0.5)),
            (table["p_adjusted"] < alpha) & (table["loss"] > 0),
        ],
        ["undefined", "not measurable", "not found", "not read out"],
        "read out",
    )
    return table


def _readout(run, question, components, folds, repeats, flips, plants, alpha, seed) -> list[dict]:
    base = {"concept": question.concept, "n": len(question.item), "prompts": question.prompts}
    if question.note:
        return [base | {"note": question.note}]
    usable = np.isfinite(question.scores).all(axis=0)
    gaps = question.scores[:, usable]
    ones = np.ones((len(question.item), 1))
    state, scores, heads = [], [], []
    for repeat in range(repeats):
        options = {"length": question.length, "folds": folds, "seed": seed + repeat}
        prepared = probing.prepare(
            question.hidden, question.prompt, components=components, **options
        )
        labels = ones
        if repeat == 0:
            first = prepared
            labels = np.column_stack([ones, probing.flips(question.item, flips, seed)])
        right = probing.right(probing.cross_margins(prepared, labels)[0], labels)
        if repeat == 0:
            flipped = right[:, 1:].mean(axis=0)
            probe_p = probing.beyond(right[:, 0].mean(), flipped)
        state.append(right[:, 0])
        heads.append(probing.right(probing.held_out_residual(gaps, question.length, prepared)))
        if gaps.any():
            on_scores = probing.prepare(gaps, question.prompt, **options)
            scores.append(probing.right(probing.cross_margins(on_scores, ones)[0])[:, 0])
        else:
            scores.append(np.full(len(ones), 0.5))
    state, scores, heads = (np.mean(values, axis=0) for values in (state, scores, heads))
    claims = np.flatnonzero(run["head_concept"].values == question.concept)
    target = max([state.mean(), *(heads[:, usable[:k].sum()].mean() for k in claims if usable[k])])
    planted, recovered = _recovery(question, first, plants, target, seed)
    base |= {
        "probe": state.mean(),
        "probe_p": probe_p,
        "spread": probing.spread(flipped),
        "scores": scores.mean(),
        "to_scores": (state - scores).mean(),
        "planted": planted,
        "recovered": recovered,
        "note": "" if usable.all() else "heads whose scores are not numbers were left out",
    }
    rows = []
    for k in claims:
        name = run["head"].values[k]
        if not usable[k]:
            rows.append(base | {"head": name, "note": "scores that are not numbers"})
            continue
        head = heads[:, usable[:k].sum()]
        mean = proportions.clustered(state - head, question.prompt, 1 - alpha)
        rows.append(
            base
            | {
                "head": name,
                "claimed": head.mean(),
                "to_head": (scores - head).mean(),
                "loss": mean.estimate,
                "low": mean.low,
                "high": mean.high,
                "p": mean.p,
                "se": mean.se,
            }
        )
    return rows or [base | {"note": "no head claims it"}]


def _recovery(question, prepared, plants, target, seed) -> tuple[float, float]:
    """Mean accuracy of planted directions, and of probes that look for them."""
    if not plants:
        return np.nan, np.nan
    generator = np.random.default_rng([seed, 1])
    direction = generator.standard_normal((question.hidden.shape[1], plants))
    residual = question.hidden - question.length[:, None] * probing.slopes(
        question.hidden, question.length
    )
    margin = residual @ direction
    margin /= np.sqrt((margin**2).mean(axis=0))
    chance = np.column_stack([_preferring(column, target) for column in margin.T])
    labels = np.where(generator.random(margin.shape) < chance, 1.0, -1.0)
    found, _ = probing.cross_margins(prepared, labels)
    own, probe = probing.right(margin, labels), probing.right(found, labels)
    return float(own.mean()), float(probe.mean())


def _preferring(margin: np.ndarray, target: float) -> np.ndarray:
    """P(label +1) = σ(a·margin), with a such that the margin's sign is right ``target``."""
    target = float(np.clip(target, 0.6, 0.95))
    size = np.abs(margin)
    strength = brentq(lambda a: expit(a * size).mean() - target, 0, 1e6)
    return expit(strength * margin)


def beyond(row: Any) -> Any:
    """Is the concept in the state with length taken out? Of one readout or each in a table."""
    return (row.probe_p < 0.05) & (row.probe > 0.5)


def at_least(row: Any) -> Any:
    """Is a loss shown though its size isn't measurable? Of one readout or each in a table.

    A probe that falls short finds too small a loss, so what it finds is a lower bound.
    """
    lost = (row.p_adjusted < 0.05) & (row.loss > 0)
    return (row.verdict == "not measurable") & lost & beyond(row)


def learning_curve(
    run: xr.Dataset,
    comparisons: pd.DataFrame | None = None,
    *,
    shares: tuple[float, ...] = SHARES,
    components: int = probing.COMPONENTS,
    folds: int = 5,
    seed: int = 0,
) -> pd.DataFrame:
    """Held-out accuracy of the probe when it learns from a share of the training prompts.

    Returns
    -------
    pandas.DataFrame
        One row a concept and share: ``concept``, ``share``, ``n`` (mean training
        comparisons), ``accuracy``, ``low``, ``high`` and ``note``. The held-out comparisons
        are the same for every share.
    """
    rows = []
    for question in questions(run, comparisons, folds):
        if question.note:
            rows.append({"concept": question.concept, "note": question.note})
            continue
        ones = np.ones((len(question.item), 1))
        prepared = probing.prepare(
            question.hidden, question.prompt, components=components, folds=folds, seed=seed
        )
        _, chosen = probing.cross_margins(prepared, ones)
        order = np.random.default_rng(seed).permutation(question.prompt.max() + 1)
        for share in shares:
            right, sizes = np.empty(len(ones)), []
            for fold, c in zip(prepared, chosen[:, 0], strict=True):
                train, test = fold.outer.fit_rows, fold.outer.test_rows
                rank = order[question.prompt[train]]
                used = train[rank <= np.quantile(rank, share)]
                split = probing.split(question.hidden, None, used, test, components)
                weight = probing.fit(split.z_fit, ones[used], np.asarray([c]))
                right[test] = probing.right(split.z_test @ weight)[:, 0]
                sizes.append(len(used))
            interval = proportions.wilson(*proportions.by_prompt(right, question.prompt))
            rows.append(
                {
                    "concept": question.concept,
                    "share": share,
                    "n": np.mean(sizes),
                    "accuracy": float(interval.estimate),
                    "low": float(interval.low),
                    "high": float(interval.high),
                    "note": "",
                }
            )
    return pd.DataFrame(rows).reindex(
        columns=["concept", "share", "n", "accuracy", "low", "high", "note"]
    )
