"""Separability: is a concept in the representation, and do the heads read it out?

``separability_as_published``
    what audits print: a median-split probe on 50 principal components of the states
``ceiling``
    why that number says little: scores are linear in the states, so w·h itself ranks
    perfectly, and the probe's accuracy follows from the share of the head's variance that
    the components keep
``probes``
    concept probes on human comparisons, with controls and a length-only baseline
``readout``
    what is lost between the representation and the head that claims the concept
``learning_curve``
    whether more comparisons would have helped the probe

Probes and their folds are in ``lib.stats.probing``. States of single layers aren't in a
run, so nothing is said by layer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats as scipy_stats
from scipy.optimize import brentq
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold

from lib.data import concepts
from lib.errors import DataError
from lib.extraction.run import align
from lib.stats import permutation, probing, proportions
from lib.stats.winrates import POWER

PUBLISHED = 50
SENSITIVITY = (10, 25, 50, 100, 200)
RECOVERED = 0.02  # a planted direction must be found to within this
TYPES = 4  # sign bits of the prompt state's leading components: 16 types of prompt
SHARES = (0.25, 0.5, 0.75, 1.0)
VERDICTS = ("not read out", "read out", "not found", "not measurable", "undefined")


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
            found = [_median_probe(projected[:, :size], above, *split) for split in splits]
            rows.append(row | {"accuracy": np.mean(found), "sd": np.std(found), "note": ""})
    return pd.DataFrame(rows)


def _median_probe(x, above, train, test) -> float:
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
        left, size, _ = np.linalg.svd(centred, full_matrices=False)
        left = left[:, size > 1e-6 * size[0]]
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
    vectors = np.linalg.eigh(centred.T @ centred)[1]
    return centred @ vectors[:, ::-1][:, :size]


# ---- Concepts that people judged ----


@dataclass(frozen=True)
class Question:
    """The comparisons of a run about one concept whose states were kept.

    Attributes
    ----------
    concept
        In the vocabulary of ``lib.data.concepts``; the criterion where it has none.
    hidden, scores
        Better minus worse, shapes (comparisons, features) and (comparisons, heads).
    length
        Difference of log token counts, shape (comparisons,).
    prompt, item
        Of each comparison: the group that folds keep together, and the run's item.
    types
        Kind of prompt, an integer; −1 where prompt states weren't kept.
    note
        Why nothing can be said; empty when something can.
    """

    concept: str
    hidden: np.ndarray
    scores: np.ndarray
    length: np.ndarray
    prompt: np.ndarray
    item: np.ndarray
    types: np.ndarray
    note: str

    @property
    def prompts(self) -> int:
        """How many prompts there are."""
        return len(np.unique(self.prompt))


def questions(
    run: xr.Dataset, comparisons: pd.DataFrame | None = None, folds: int = 5
) -> list[Question]:
    """The run's comparisons by concept, in order of appearance; one that says so without any."""
    aligned = align(run, comparisons)
    hidden, scores = run["hidden"].values, run["score"].values
    kept = np.isfinite(hidden[aligned.better]).all(axis=1)
    kept &= np.isfinite(hidden[aligned.worse]).all(axis=1)
    length = np.log(np.maximum(run["n_response_tokens"].values, 1))
    owner = run["item_of_response"].values
    kinds = _prompt_types(run["gate_hidden"].values)
    about = np.asarray(
        [
            _concept(run.attrs["dataset"], *pair)
            for pair in zip(aligned.criterion, aligned.subset, strict=True)
        ],
        dtype=object,
    )
    out = []
    for concept in dict.fromkeys(about) or ["every criterion"]:
        rows = np.flatnonzero((about == concept) & kept)
        better, worse = aligned.better[rows], aligned.worse[rows]
        difference = hidden[better].astype(float) - hidden[worse]
        prompts = len(np.unique(aligned.prompt[rows]))
        note = ""
        if not len(aligned):
            note = "no comparisons"
        elif not len(rows):
            note = "no states were kept"
        elif not difference.any():
            note = "the states do not differ between responses"
        elif prompts < folds:
            note = f"{folds} folds need as many prompts; there are {prompts}"
        out.append(
            Question(
                concept,
                difference,
                scores[better].astype(float) - scores[worse],
                length[better] - length[worse],
                aligned.prompt[rows],
                owner[better],
                kinds[owner[better]],
                note,
            )
        )
    return out


def _concept(dataset: str, criterion: str, subset: str) -> str:
    try:
        return concepts.of_comparison(dataset, str(criterion), str(subset)) or str(criterion)
    except DataError:
        return str(criterion)


def _prompt_types(states: np.ndarray) -> np.ndarray:
    """Kind of each item's prompt: the signs of its state's leading components."""
    kinds = np.full(len(states), -1)
    kept = np.isfinite(states).all(axis=1)
    centred = states[kept].astype(float)
    centred -= centred.mean(axis=0) if len(centred) else 0
    if not centred.any():
        return kinds
    bits = min(TYPES, *centred.shape)
    axes = np.linalg.svd(centred, full_matrices=False)[2][:bits]
    kinds[kept] = (centred @ axes.T > 0) @ (1 << np.arange(bits))
    return kinds


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
    """Can a linear probe of the state rank what people judged, on prompts it never saw?

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
        control; NaN below two flips) and ``p_adjusted`` (Holm over concepts), ``flipped``
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
        signs = _flips(question.item, flips, seed)
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
        interval = proportions.wilson(*_by_prompt(correct, question.prompt), 1 - alpha)
        low, high = np.quantile(controls[:flips], [0.025, 0.975]) if flips else (np.nan, np.nan)
        rows.append(
            row
            | {
                "accuracy": float(interval.estimate),
                "low": float(interval.low),
                "high": float(interval.high),
                "p": _beyond(found[0].mean(), controls[:flips]),
                "flipped": controls[:flips].mean() if flips else np.nan,
                "flipped_low": low,
                "flipped_high": high,
                "typed": controls[flips:].mean() if known and flips else np.nan,
                "length": np.mean(length),
                "note": "" if known else "prompt states give no kinds of prompt",
            }
        )
    table = pd.DataFrame(rows).reindex(columns=[*_PROBES, "note"])
    table["p_adjusted"] = permutation.holm(table["p"].to_numpy(float))
    return table


_PROBES = ["concept", "n", "prompts", "accuracy", "low", "high", "p", "p_adjusted", "flipped"]
_PROBES += ["flipped_low", "flipped_high", "typed", "length"]


def _flips(item: np.ndarray, draws: int, seed: int) -> np.ndarray:
    """A random sign for each item, shape (comparisons, draws)."""
    single = np.unique(item, return_inverse=True)[1]
    drawn = np.random.default_rng([seed, 2]).random((single.max() + 1, draws))
    return np.where(drawn < 0.5, -1.0, 1.0)[single]


def _beyond(found: float, flipped: np.ndarray) -> float:
    """One-sided p of an accuracy among those of the same pipeline under flipped signs.

    Held-out accuracies of one fold are not independent: what one fold lacks, the others
    have. Under no concept they vary more than a binomial, which would be found above ½ in
    up to 7% of null worlds where 2.5% are meant. Flipped draws vary alike: if no concept is
    there, found and F flipped accuracies are exchangeable, and about normal, so
    (found − mean)/(sd·√(1 + 1/F)) is t on F − 1 degrees of freedom. One-sided, since a probe
    that is wrong on held-out prompts has found nothing.
    """
    draws = len(flipped)
    if draws < 2:
        return np.nan
    spread = flipped.std(ddof=1) * np.sqrt(1 + 1 / draws)
    if spread == 0:
        return 0.0 if found > flipped.mean() else 1.0
    return float(scipy_stats.t.sf((found - flipped.mean()) / spread, draws - 1))


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


def _by_prompt(values: np.ndarray, prompt: np.ndarray):
    return proportions.by_cluster(values, np.unique(prompt, return_inverse=True)[1])


@dataclass(frozen=True)
class Mean:
    """A mean with its cluster-robust standard error, t interval and two-sided p."""

    estimate: float
    low: float
    high: float
    se: float
    p: float


def clustered(values: np.ndarray, cluster: np.ndarray, level: float = 0.95) -> Mean:
    """Mean of rows that come in clusters.

    Var = G/(G−1) Σ_c (Σ_{i∈c} (v_i − v̄))²/n², t on G − 1 degrees of freedom; checked against
    ``statsmodels`` OLS with clustered covariance, up to its small-sample factor.
    """
    mean = float(values.mean())
    totals, _ = _by_prompt(values - mean, cluster)
    groups = len(totals)
    if groups < 2:
        return Mean(mean, -np.inf, np.inf, np.inf, np.nan)
    se = float(np.sqrt(groups / (groups - 1) * (totals**2).sum()) / len(values))
    half = scipy_stats.t.ppf((1 + level) / 2, groups - 1) * se
    if se > 0:
        p = float(2 * scipy_stats.t.sf(abs(mean) / se, groups - 1))
    else:
        p = 1.0 if mean == 0 else 0.0
    return Mean(mean, mean - half, mean + half, se, p)


# ---- From the representation to the head ----


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
        ``probes``, Holm over concepts), ``scores``, ``claimed`` (the head), ``to_scores`` and
        ``to_head`` (the two parts), ``loss``, ``low``, ``high``, ``p``, ``p_adjusted``,
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
    table = pd.DataFrame(rows).reindex(columns=[*_READOUT, "se", "note"])
    for column in ("head", "note"):
        table[column] = table[column].astype(object).fillna("")
    table["p_adjusted"] = permutation.holm(table["p"].to_numpy(float))
    first = ~table["concept"].duplicated()
    adjusted = permutation.holm(table.loc[first, "probe_p"].to_numpy(float))
    table["probe_p"] = table["concept"].map(
        dict(zip(table.loc[first, "concept"], adjusted, strict=True))
    )
    m = max(1, int(table["p"].notna().sum()))
    z = scipy_stats.norm.ppf(1 - alpha / (2 * m)) + scipy_stats.norm.ppf(POWER)
    table["mde"] = z * table.pop("se")
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


_READOUT = ["concept", "head", "n", "prompts", "probe", "probe_p", "scores", "claimed"]
_READOUT += ["to_scores", "to_head", "loss", "low", "high", "p", "p_adjusted", "mde"]
_READOUT += ["planted", "recovered", "verdict"]


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
            labels = np.column_stack([ones, _flips(question.item, flips, seed)])
        right = probing.right(probing.cross_margins(prepared, labels)[0], labels)
        if repeat == 0:
            probe_p = _beyond(right[:, 0].mean(), right[:, 1:].mean(axis=0))
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
        mean = clustered(state - head, question.prompt, 1 - alpha)
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
            interval = proportions.wilson(*_by_prompt(right, question.prompt))
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
