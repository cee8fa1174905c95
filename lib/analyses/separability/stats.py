"""Separability: is a concept in the representation, and do the heads read it out?

``separability_as_published``
    what audits print: a median-split probe on 50 principal components of the states
``ceiling``
    why that number says little: scores are linear in the states, so w·h itself ranks
    perfectly, and the probe's accuracy follows from the share of the head's variance that
    the components keep
``probes``
    concept probes on comparisons, with controls and a length-only baseline
``readout``
    what is lost between the representation and the head that claims the concept
``learning_curve``
    whether more comparisons would have helped the probe

The first three are here, ``readout`` and ``learning_curve`` in ``readout``; what is
asked of a run is in ``lib.stats.questions``, probes and their folds in ``lib.stats.probing``.
States of single layers aren't looked at, so nothing is said by layer.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr
from scipy import linalg
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold

from lib.analyses.separability.readout import RECOVERED, SHARES, VERDICTS, learning_curve, readout
from lib.stats import permutation, probing, proportions
from lib.stats.effects import attainable
from lib.stats.proportions import clustered
from lib.stats.questions import Question, questions
from lib.stats.subspaces import principal
from lib.stats.winrates import POWER

PUBLISHED = 50
SENSITIVITY = (10, 25, 50, 100, 200)

__all__ = [
    "PUBLISHED",
    "RECOVERED",
    "SHARES",
    "VERDICTS",
    "Question",
    "ceiling",
    "clustered",
    "learning_curve",
    "probes",
    "questions",
    "readout",
    "separability_as_published",
]


# ---- As published, and what it measures ----


def separability_as_published(
    run: xr.Dataset,
    *,
    components: tuple[int, ...] = SENSITIVITY,
    folds: int = 5,
    seed: int = 0,
) -> pd.DataFrame:
    """Median-split logistic probe on principal components of all states.

    Parameters
    ----------
    run
        A Run with states.
    components
        Numbers of components; 50 as published, the others for sensitivity.
    folds, seed
        Folds are drawn over rows, so both responses to a prompt may be on both sides, and
        the components are those of all rows, held-out ones included: as published.

    Returns
    -------
    pandas.DataFrame
        One row a head and number of components: ``head``, ``components``, ``n``
        (responses), ``accuracy``, ``sd`` (over folds) and ``note``. ``components`` is what
        was used where there are fewer than asked for.
    """
    hidden, score, note = _states(run)
    if not note and len(hidden) < 2 * folds:
        note = f"{len(hidden)} responses are too few for {folds} folds"
    asked = _sizes(components, hidden)
    rows = []
    if not note:
        projected = _scores(hidden, max(asked))
        splits = list(KFold(folds, shuffle=True, random_state=seed).split(projected))
    for k, head in enumerate(run["head"].values):
        why = note or _unusable(score[:, k])
        above = score[:, k] > np.median(score[:, k]) if not why else None
        for size in asked:
            row = {"head": head, "components": size, "n": len(hidden)}
            if why:
                rows.append(row | {"accuracy": np.nan, "sd": np.nan, "note": why})
                continue
            found = [median_probe(projected[:, :size], above, *split) for split in splits]
            rows.append(row | {"accuracy": np.mean(found), "sd": np.std(found), "note": ""})
    return pd.DataFrame(rows)


def median_probe(x, above, train, test) -> float:
    """Held-out accuracy of a logistic probe; of the one answer where only one was fitted."""
    if len(np.unique(above[train])) < 2:
        return float((above[test] == above[train][0]).mean())
    model = LogisticRegression(solver="newton-cholesky").fit(x[train], above[train])
    return float(model.score(x[test], above[test]))


def ceiling(run: xr.Dataset, *, components: tuple[int, ...] = SENSITIVITY) -> pd.DataFrame:
    """What the components keep of each head, and the probe accuracy that this predicts.

    Returns
    -------
    pandas.DataFrame
        One row a head and number of components: ``head``, ``components``, ``n``,
        ``ceiling`` (accuracy at the median split of the best linear function of the whole
        state, which is w·h itself), ``share`` (R² of the head on the components),
        ``predicted`` = 1 − arccos(√R²)/π and ``note``.

    Notes
    -----
    If s and its projection are jointly normal with correlation √R², their signs about the
    median agree with probability 1 − arccos(√R²)/π (Sheppard, 1899). A probe fitted on
    finite data comes a little below it.
    """
    hidden, score, note = _states(run)
    asked = _sizes(components, hidden)
    rows = []
    if not note:
        centred = hidden - hidden.mean(axis=0)
        directions, variance = principal(centred)
        some = variance > 1e-12 * variance[0]
        left = centred @ directions[some].T / np.sqrt(variance[some])
    for k, head in enumerate(run["head"].values):
        why = note or _unusable(score[:, k])
        row = {"head": head, "n": len(hidden)}
        if why:
            empty = {"ceiling": np.nan, "share": np.nan, "predicted": np.nan, "note": why}
            rows += [row | {"components": size} | empty for size in asked]
            continue
        centred_score = score[:, k] - score[:, k].mean()
        loading = left.T @ centred_score
        whole = left @ loading + score[:, k].mean()
        median = np.median(score[:, k])
        agrees = float(((whole > median) == (score[:, k] > median)).mean())
        kept = np.minimum(np.cumsum(loading**2) / (centred_score @ centred_score), 1.0)
        trivial = left.shape[1] >= len(hidden) - 1
        for size in asked:
            share = kept[min(size, len(kept)) - 1]
            rows.append(
                row
                | {
                    "components": size,
                    "ceiling": agrees,
                    "share": share,
                    "predicted": 1 - np.arccos(np.sqrt(share)) / np.pi,
                    "note": "fewer responses than features: any score is linear in them"
                    if trivial
                    else "",
                }
            )
    columns = ["head", "components", "n", "ceiling", "share", "predicted", "note"]
    return pd.DataFrame(rows)[columns]


def _states(run) -> tuple[np.ndarray, np.ndarray, str]:
    """States and scores of the responses whose states were kept; why there are none."""
    hidden = run["hidden"].values.astype(float)
    kept = np.isfinite(hidden).all(axis=1)
    hidden, score = hidden[kept], run["score"].values[kept].astype(float)
    if len(hidden) == 0:
        return hidden, score, "no states were kept"
    if not (np.ptp(hidden, axis=0) > 0).any():
        return hidden, score, "the states do not vary"
    return hidden, score, ""


def _unusable(score: np.ndarray) -> str:
    if not np.isfinite(score).all():
        return "scores that are not numbers"
    return "" if np.ptp(score) > 0 else "the score does not vary"


def _sizes(components, hidden) -> list[int]:
    most = max(1, min(hidden.shape[1], len(hidden) - 1))
    return sorted({min(size, most) for size in components})


def _scores(hidden: np.ndarray, size: int) -> np.ndarray:
    centred = hidden - hidden.mean(axis=0)
    features = hidden.shape[1]
    leading = [features - size, features - 1]
    vectors = linalg.eigh(centred.T @ centred, subset_by_index=leading)[1]
    return centred @ vectors[:, ::-1]


# ---- Concepts that comparisons were judged by ----


def probes(
    run: xr.Dataset,
    comparisons: pd.DataFrame | None = None,
    *,
    components: int = probing.COMPONENTS,
    folds: int = 5,
    repeats: int = 3,
    flips: int = 20,
    alpha: float = 0.05,
    seed: int = 0,
) -> pd.DataFrame:
    """Can a linear probe of the state rank comparisons as labelled, on prompts it never saw?

    Parameters
    ----------
    run, comparisons
        A Run with states; its own comparisons by default.
    components, folds
        Of the probe.
    repeats
        Divisions into folds; each comparison's result is its mean over them.
    flips
        Draws of each control.
    alpha
        Level of the intervals and of the family of concepts.
    seed
        Of folds and controls.

    Returns
    -------
    pandas.DataFrame
        One row a concept: ``concept``, ``n``, ``prompts``, ``accuracy`` with ``low`` and
        ``high`` (Wilson, clustered by prompt), ``p`` (one-sided, against the flipped
        control; NaN below two flips), ``p_adjusted`` (Holm over concepts) and ``mde`` (the
        accuracy above ½ that would be found with power .8), ``flipped``
        with ``flipped_low`` and ``flipped_high`` (mean and central 95% of the whole
        pipeline under a random sign an item), ``typed`` (mean with one random sign for each
        kind of prompt), ``length`` (the same probe on length
        alone) and ``note``.

    Notes
    -----
    The interval is over prompts with the probes as fitted; that another sample would have
    given other probes is not in it, so it decides nothing. Kinds of prompt are the signs of
    the four leading components of the prompt's state.
    """
    rows = []
    for question in questions(run, comparisons, folds):
        row = {"concept": question.concept, "n": len(question.item), "prompts": question.prompts}
        if question.note:
            rows.append(row | {"note": question.note})
            continue
        generator = np.random.default_rng(seed)
        signs = probing.flips(question.item, flips, seed)
        known = (question.types >= 0).all() and len(np.unique(question.types)) > 1
        typed = _by_type(question.types, flips, generator) if known else signs[:, :0]
        labels = np.column_stack([np.ones(len(question.item)), signs, typed])
        found, length = [], []
        for repeat in range(repeats):
            used = labels if repeat == 0 else labels[:, :1]
            right = _cross(question.hidden, question.prompt, used, components, folds, seed + repeat)
            if repeat == 0:
                controls = right[:, 1:].mean(axis=0)
            found.append(right[:, 0])
            alone = question.length[:, None]
            length.append(
                _cross(alone, question.prompt, labels[:, :1], 1, folds, seed + repeat)[:, 0]
                if alone.any()
                else np.full(len(alone), 0.5)
            )
        correct = np.mean(found, axis=0)
        interval = proportions.wilson(*proportions.by_prompt(correct, question.prompt), 1 - alpha)
        low, high = np.quantile(controls[:flips], [0.025, 0.975]) if flips else (np.nan, np.nan)
        rows.append(
            row
            | {
                "accuracy": float(interval.estimate),
                "low": float(interval.low),
                "high": float(interval.high),
                "p": probing.beyond(found[0].mean(), controls[:flips]),
                "spread": probing.spread(controls[:flips]),
                "flipped": controls[:flips].mean() if flips else np.nan,
                "flipped_low": low,
                "flipped_high": high,
                "typed": controls[flips:].mean() if known and flips else np.nan,
                "length": np.mean(length),
                "note": "" if known else "prompt states give no kinds of prompt",
            }
        )
    table = pd.DataFrame(rows).reindex(columns=[*_PROBES, "spread", "note"])
    table["p_adjusted"] = permutation.holm(table["p"].to_numpy(float))
    m = max(1, int(table["p"].notna().sum()))
    spread = table.pop("spread").to_numpy(float)
    table["mde"] = attainable(probing.detectable(spread, flips, alpha / m, POWER), 0.5)
    return table[[*_PROBES, "note"]]


_PROBES = [
    "concept",
    "n",
    "prompts",
    "accuracy",
    "low",
    "high",
    "p",
    "p_adjusted",
    "mde",
    "flipped",
]
_PROBES += ["flipped_low", "flipped_high", "typed", "length"]


def _by_type(types: np.ndarray, draws: int, generator: np.random.Generator) -> np.ndarray:
    """One random sign for each kind, about as many + as − comparisons; (comparisons, draws).

    Without the balance, a probe that finds the concept would win by the majority alone.
    """
    kinds, place, counts = np.unique(types, return_inverse=True, return_counts=True)
    signs = np.empty((len(kinds), draws))
    for draw in range(draws):
        total = 0.0
        for kind in generator.permutation(len(kinds)):
            chance = generator.choice([-1.0, 1.0])
            signs[kind, draw] = -np.sign(total) if total else chance
            total += signs[kind, draw] * counts[kind]
    return signs[place]


def _cross(difference, prompt, labels, components, folds, seed, length=None) -> np.ndarray:
    prepared = probing.prepare(
        difference, prompt, length=length, components=components, folds=folds, seed=seed
    )
    return probing.right(probing.cross_margins(prepared, labels)[0], labels)


# ---- From the representation to the head ----
