"""Gating and debiasing: how a gated model combines its heads, and what that is worth.

``identity``      does Σ r·(g Mᵀ) give the model's score?
``coefficients``  the heads' coefficients by subset, and how evenly the gate spreads
``rules``         win rate of the gate beside itself without M and beside fixed rules, chosen off
                  the test prompts
``with_length``   the same, and beside it what the longer response alone wins
``debiasing``     each head's correlation with the removed one, before and after M

A run holds the coefficients g Mᵀ of each item. M takes one head out of the others (row a of
the identity, less λ, with λ_a = 1), so the coefficient of every other head is its gate, and
that of the removed one is −Σ λ_k g_k: it is the head whose coefficient is never positive,
and λ follows by least squares over items. The gate of the removed head itself has no
effect on the score and can't be told from a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats as scipy_stats
from scipy.special import ndtri

from lib.run import Aligned, align
from lib.stats import permutation, probing, proportions
from lib.stats.correlation import spearman
from lib.stats.effects import attainable
from lib.stats.folds import grouped
from lib.stats.proportions import clustered
from lib.stats.winrates import ALL, GATE, LONGER, NO_GATE, POWER, by_subset

TOLERANCE = 1e-3
RAW = "undebiased gate"
UNIFORM, RAW_UNIFORM = "debiased uniform", "undebiased uniform"
BEST, RIDGE = "best single head", "ridge"
RULES = (GATE, RAW, "gate's mean", UNIFORM, RAW_UNIFORM, BEST, RIDGE)
NOTHING_REMOVED = "no head is taken out of the others"
ALPHAS = 10.0 ** np.arange(-4, 5)  # of the ridge, in units of the mean squared gap


@dataclass(frozen=True)
class Debiasing:
    """What a run tells of the debiasing matrix.

    Attributes
    ----------
    removed
        Position of the head that is taken out of the others; −1 when none is.
    lambdas
        Its multiple that is subtracted from each head, shape (heads,), 1 for itself; NaN
        where the coefficients don't determine it.
    note
        Why λ isn't known; empty when it is.
    """

    removed: int
    lambdas: np.ndarray
    note: str = ""

    def matrix(self) -> np.ndarray | None:
        """M, shape (heads, heads); ``None`` when λ isn't known."""
        if not np.isfinite(self.lambdas).all():
            return None
        matrix = np.eye(len(self.lambdas))
        if self.removed >= 0:
            matrix[self.removed] -= self.lambdas
        return matrix


def recover(run: xr.Dataset) -> Debiasing:
    """The removed head and λ, from the coefficients of a gated run."""
    gate = run["gate"].values.astype(float)
    gate = gate[np.isfinite(gate).all(axis=1)]
    heads = run.sizes["head"]
    unknown = np.full(heads, np.nan)
    if not len(gate):
        return Debiasing(-1, unknown, "the gate's coefficients are not numbers")
    negative = np.flatnonzero((gate.min(axis=0) < 0) & (gate.max(axis=0) <= 0))
    if (gate.min(axis=0) >= 0).all():
        return Debiasing(-1, np.zeros(heads))
    others = np.delete(gate, negative, axis=1)
    if len(negative) != 1 or (others < 0).any():
        return Debiasing(-1, unknown, "the coefficients are not those of one removed head")
    a = int(negative[0])
    lambdas = np.zeros(heads)
    lambdas[a] = 1.0
    active = np.flatnonzero((gate.max(axis=0) > 0) & (np.arange(heads) != a))
    size = np.linalg.svd(gate[:, active], compute_uv=False)
    if len(gate) < len(active) or size[-1] < 1e-4 * size[0]:
        return Debiasing(a, unknown, "the gate varies too little between prompts to tell λ")
    found, *_ = np.linalg.lstsq(gate[:, active], -gate[:, a], rcond=None)
    if np.abs(gate[:, active] @ found + gate[:, a]).max() > TOLERANCE:
        return Debiasing(a, unknown, "the removed head's coefficient is not one of the others'")
    lambdas[active] = found
    return Debiasing(a, lambdas)


def identity(run: xr.Dataset, tolerance: float = TOLERANCE) -> pd.DataFrame:
    """Is the model's score the sum of its undebiased rewards times their coefficients?

    Returns
    -------
    pandas.DataFrame
        One row: ``n`` (responses), ``largest`` and ``median`` of |Σ r·(g Mᵀ) − final|,
        ``tolerance``, ``holds`` and ``note``.
    """
    row = {"n": run.sizes["response"], "largest": np.nan, "median": np.nan}
    row |= {"tolerance": tolerance, "holds": False, "note": _missing(run)}
    if not row["note"]:
        rebuilt = (run["score"].values.astype(float) * _spread(run)).sum(axis=1)
        off = np.abs(rebuilt - run["final"].values)
        if np.isfinite(off).all():
            row |= {"largest": off.max(), "median": np.median(off), "holds": off.max() <= tolerance}
        else:
            row["note"] = "scores that are not numbers"
    return pd.DataFrame([row])


def _missing(run: xr.Dataset) -> str:
    return "" if "gate" in run and "final" in run else NO_GATE


def _spread(run: xr.Dataset) -> np.ndarray:
    """Coefficients of each response, shape (responses, heads)."""
    return run["gate"].values[run["item_of_response"].values].astype(float)


def coefficients(run: xr.Dataset, comparisons: pd.DataFrame | None = None) -> pd.DataFrame:
    """Coefficients of the heads in the score, over the prompts of each subset.

    Returns
    -------
    pandas.DataFrame
        One row a head and subset: ``head``, ``subset``, ``prompts``, ``mean``, ``sd``,
        ``low`` and ``high`` (the middle 80% of prompts), ``positive`` (share of prompts)
        and ``note``. Each prompt counts once.
    """
    rows = []
    for subset, gate in _by_subset(run, comparisons):
        for k, head in enumerate(run["head"].values):
            row = {"head": head, "subset": subset, "prompts": len(gate)}
            note = _missing(run) or _why_not(gate[:, k])
            if not note:
                low, high = np.quantile(gate[:, k], [0.1, 0.9])
                row |= {"mean": gate[:, k].mean(), "sd": gate[:, k].std(), "low": low}
                row |= {"high": high, "positive": (gate[:, k] > 0).mean()}
            rows.append(row | {"note": note})
    columns = ["head", "subset", "prompts", "mean", "sd", "low", "high", "positive", "note"]
    return pd.DataFrame(rows).reindex(columns=columns)


def entropy(run: xr.Dataset, comparisons: pd.DataFrame | None = None) -> pd.DataFrame:
    """How evenly the gate spreads over the heads, by subset.

    Returns
    -------
    pandas.DataFrame
        One row a subset: ``subset``, ``prompts``, ``heads`` (that the gate ever weighs),
        ``entropy`` (mean over prompts, nats), ``share`` of the largest possible,
        log(heads), ``effective`` heads (mean of exp(entropy)), ``between`` (entropy of the
        mean gate less the mean entropy: what the gate owes to the prompt, nats) and
        ``note``. The removed head is left out, since its gate can't be known.
    """
    rows = []
    removed = recover(run).removed if not _missing(run) else -1
    for subset, gate in _by_subset(run, comparisons):
        row = {"subset": subset, "prompts": len(gate)}
        note = _missing(run) or _why_not(gate)
        if not note:
            weight = gate[:, (np.arange(gate.shape[1]) != removed) & (gate.max(axis=0) > 0)]
            if (weight < 0).any() or (weight.sum(axis=1) <= 0).any():
                note = "the gate can't be told from the coefficients"
        if not note:
            share = weight / weight.sum(axis=1, keepdims=True)
            single = scipy_stats.entropy(share, axis=1)
            most = np.log(share.shape[1])
            row |= {
                "heads": share.shape[1],
                "entropy": single.mean(),
                "share": single.mean() / most if most > 0 else np.nan,
                "effective": np.exp(single).mean(),
                "between": scipy_stats.entropy(share.mean(axis=0)) - single.mean(),
            }
        rows.append(row | {"note": note})
    columns = ["subset", "prompts", "heads", "entropy", "share", "effective", "between", "note"]
    return pd.DataFrame(rows).reindex(columns=columns)


def _by_subset(run, comparisons):
    """Coefficients of the distinct prompts of "all" and of each subset."""
    aligned = align(run, comparisons)
    item = run["item_of_response"].values[aligned.better]
    heads = run.sizes["head"]
    none = np.full((run.sizes["item"], heads), np.nan)
    gate = run["gate"].values.astype(float) if "gate" in run else none
    for subset, mask in by_subset(aligned):
        _, first = np.unique(aligned.prompt[mask], return_index=True)
        yield subset, gate[item[mask][first]]


def _why_not(gate: np.ndarray) -> str:
    if not len(gate):
        return "no comparisons"
    return "" if np.isfinite(gate).all() else "coefficients that are not numbers"


def rules(
    run: xr.Dataset,
    comparisons: pd.DataFrame | None = None,
    *,
    folds: int = 5,
    alpha: float = 0.05,
    seed: int = 0,
) -> pd.DataFrame:
    """Win rate of the gate, and what it gains over itself without M and over fixed rules.

    ``undebiased gate`` is the gate without M, the removed head left out: its own gate isn't
    known. The others don't read the prompt: ``gate's mean`` gives every prompt the mean
    coefficients, the two ``uniform`` ones the same gate to every head that the gate weighs,
    through M or without it, ``best single head`` and ``ridge`` (fixed weights of all heads)
    are chosen on other prompts than those they are judged on, and so is the mean.

    Parameters
    ----------
    run, comparisons
        A gated Run; its own comparisons by default.
    folds, seed
        Folds of prompts for what is chosen.
    alpha
        Level of the intervals and of the family: all gains of the table.

    Returns
    -------
    pandas.DataFrame
        One row a rule and subset: ``rule``, ``subset``, ``n``, ``prompts``, ``win_rate``
        with ``low`` and ``high`` (Wilson, clustered by prompt), ``gain`` (gate less rule,
        paired) with ``gain_low`` and ``gain_high``, ``p``, ``p_adjusted`` (Holm over the
        distinct gains), ``mde`` (NaN, for none, beyond 1), ``raw_gain`` with ``raw_low`` and
        ``raw_high`` (the undebiased gate, less rule: in no test), ``chosen`` (heads chosen,
        most often first) and ``note`` (of rules that the run doesn't tell, too).
    """
    aligned = align(run, comparisons)
    missing = _missing(run)
    gaps = aligned.gaps(run["score"].values)
    subsets = by_subset(aligned)
    rows = []
    for subset, mask in subsets:
        prompt = aligned.prompt[mask]
        note = missing or _unfit(gaps[mask], prompt, folds) or _gate_unfit(run, aligned, mask)
        base = {"subset": subset, "n": int(mask.sum()), "prompts": len(np.unique(prompt))}
        if note:
            rows += [base | {"rule": rule, "note": note} for rule in RULES]
            continue
        spread = _spread(run)[aligned.better[mask]]
        margins, chosen, absent = _margins(run, gaps[mask], spread, prompt, folds, seed)
        margins[GATE] = aligned.gaps(run["final"].values)[mask]
        gate = probing.right(margins[GATE])
        raw = probing.right(margins[RAW]) if RAW in margins else None
        for rule in RULES:
            if rule in absent:
                rows.append(base | {"rule": rule, "note": absent[rule]})
                continue
            right = probing.right(margins[rule])
            cluster = np.unique(prompt, return_inverse=True)[1]
            interval = proportions.wilson(*proportions.by_cluster(right, cluster), 1 - alpha)
            row = base | {
                "rule": rule,
                "win_rate": float(interval.estimate),
                "low": float(interval.low),
                "high": float(interval.high),
                "chosen": chosen if rule == BEST else "",
                "note": "",
            }
            if rule != GATE:
                gain = clustered(gate - right, prompt, 1 - alpha)
                row |= {"gain": gain.estimate, "gain_low": gain.low, "gain_high": gain.high}
                row |= {"p": gain.p, "se": gain.se}
            if raw is not None and rule not in (GATE, RAW):
                rest = clustered(raw - right, prompt, 1 - alpha)
                row |= {"raw_gain": rest.estimate, "raw_low": rest.low, "raw_high": rest.high}
            rows.append(row)
    columns = ["rule", "subset", "n", "prompts", "win_rate", "low", "high", "gain", "gain_low"]
    columns += ["gain_high", "p", "se", "raw_gain", "raw_low", "raw_high", "chosen", "note"]
    table = pd.DataFrame(rows).reindex(columns=columns)
    table["chosen"] = table["chosen"].astype(object).fillna("")
    repeats = len(subsets) == 2 and bool(subsets[1][1].all())
    return _adjusted(table, repeats, alpha)


def with_length(
    run: xr.Dataset,
    table: pd.DataFrame,
    comparisons: pd.DataFrame | None = None,
    *,
    alpha: float = 0.05,
) -> pd.DataFrame:
    """The table of ``rules`` with one more row a subset: the longer response alone.

    It reads no head and is outside the family: its rows have a gain with an interval, and no
    ``p``, ``p_adjusted`` or ``mde``; those of the other rules stay as they are.

    Parameters
    ----------
    run, comparisons, alpha
        As in ``rules``.
    table
        As ``rules`` returned it for these.

    Returns
    -------
    pandas.DataFrame
        The columns of ``rules``; the rows of a subset stand together.
    """
    aligned = align(run, comparisons)
    right = probing.right(aligned.gaps(run["n_response_tokens"].values))
    gate = None
    if "final" in run:
        gate = probing.right(aligned.gaps(run["final"].values))
    notes = table[table["rule"] == GATE].set_index("subset")["note"]
    rows = []
    for subset, mask in by_subset(aligned):
        prompt = aligned.prompt[mask]
        row = {"rule": LONGER, "subset": subset, "n": len(prompt), "chosen": ""}
        row |= {"prompts": len(np.unique(prompt)), "note": "" if mask.any() else "no comparisons"}
        if mask.any():
            interval = proportions.wilson(*proportions.by_prompt(right[mask], prompt), 1 - alpha)
            row |= {"win_rate": float(interval.estimate)}
            row |= {"low": float(interval.low), "high": float(interval.high)}
        if mask.any() and gate is not None and not notes[subset]:
            gain = clustered((gate - right)[mask], prompt, 1 - alpha)
            row |= {"gain": gain.estimate, "gain_low": gain.low, "gain_high": gain.high}
        rows.append(row)
    both = pd.concat([table, pd.DataFrame(rows).reindex(columns=table.columns)])
    order = {subset: k for k, subset in enumerate(dict.fromkeys(table["subset"]))}
    return both.sort_values(
        "subset", key=lambda names: names.map(order), kind="stable", ignore_index=True
    )


def _adjusted(table: pd.DataFrame, repeats: bool, alpha: float) -> pd.DataFrame:
    """Holm over distinct gains (a run's only subset repeats "all"), and what can be found."""
    distinct = (table["subset"] == ALL) | (not repeats)
    table["p_adjusted"] = np.nan
    adjusted = permutation.holm(table.loc[distinct, "p"].to_numpy(float))
    table.loc[distinct, "p_adjusted"] = adjusted
    if repeats:
        table.loc[~distinct, "p_adjusted"] = adjusted
    m = max(1, int(table.loc[distinct, "p"].notna().sum()))
    z = ndtri(1 - alpha / (2 * m)) + ndtri(POWER)
    table["mde"] = attainable(z * table.pop("se"))
    last = ["raw_gain", "raw_low", "raw_high", "chosen", "note"]
    return table[[*(c for c in table if c not in last), *last]]


def _unfit(gaps: np.ndarray, prompt: np.ndarray, folds: int) -> str:
    prompts = len(np.unique(prompt))
    if not np.isfinite(gaps).all():
        return "scores that are not numbers"
    if prompts < folds:
        return f"{folds} folds need as many prompts; there are {prompts}"
    return ""


def _gate_unfit(run: xr.Dataset, aligned: Aligned, mask: np.ndarray) -> str:
    """Why the gate can't be judged on some comparisons: its scores or coefficients."""
    final = run["final"].values.astype(float)
    ends = final[aligned.better[mask]], final[aligned.worse[mask]]
    if not np.isfinite(ends).all():
        return "scores that are not numbers"
    return _why_not(_spread(run)[aligned.better[mask]])


def _margins(run, gaps, spread, prompt, folds, seed):
    """Margins of the rules, each chosen without the prompts that it is judged on.

    Then the best heads, and why some rules have no margins.
    """
    names = run["head"].values
    known = recover(run)
    matrix = known.matrix()
    weighed = (run["gate"].values > 0).any(axis=0)  # whatever is no number weighs nothing
    fixed = weighed / weighed.sum() if weighed.any() else np.full(len(names), 1 / len(names))
    margins, absent = {RAW_UNIFORM: gaps @ fixed}, {}
    if known.removed < 0:
        absent = dict.fromkeys((RAW, UNIFORM), known.note or NOTHING_REMOVED)
    else:
        kept = np.arange(len(names)) != known.removed
        margins[RAW] = (gaps * spread * kept).sum(axis=1)
        if matrix is None:
            absent[UNIFORM] = known.note
        else:
            margins[UNIFORM] = gaps @ (fixed @ matrix.T)
    margins |= {rule: np.empty(len(gaps)) for rule in ("gate's mean", BEST, RIDGE)}
    picked = []
    for train, test in grouped(prompt, folds, seed):
        margins["gate's mean"][test] = gaps[test] @ spread[train].mean(axis=0)
        best = int(probing.right(gaps[train]).mean(axis=0).argmax())
        margins[BEST][test] = gaps[test, best]
        margins[RIDGE][test] = gaps[test] @ _ridge(gaps[train], prompt[train], seed)
        picked.append(str(names[best]))
    counted = pd.Series(picked).value_counts()
    return margins, ", ".join(counted.index), absent


def _ridge(gaps: np.ndarray, prompt: np.ndarray, seed: int) -> np.ndarray:
    """Weights that make every gap 1 by least squares; the penalty by inner grouped folds."""
    groups = len(np.unique(prompt))
    losses = np.zeros(len(ALPHAS))
    if groups > 1:
        for train, test in grouped(prompt, min(3, groups), seed):
            weights = _solved(gaps[train], ALPHAS)
            losses += [((1 - gaps[test] @ weight) ** 2).sum() for weight in weights]
    return _solved(gaps, [ALPHAS[losses.argmin()]])[0]


def _solved(gaps: np.ndarray, alphas: Sequence[float]) -> list[np.ndarray]:
    """The weights by penalty."""
    heads = gaps.shape[1]
    if not gaps.any():
        return [np.zeros(heads)] * len(alphas)
    unit = max(float((gaps**2).mean()), 1e-300)
    gram, total, eye = gaps.T @ gaps, gaps.sum(axis=0), np.eye(heads)
    return [np.linalg.solve(gram + alpha * unit * eye, total) for alpha in alphas]


def debiasing(run: xr.Dataset) -> pd.DataFrame:
    """Each head's correlation with the removed head and with length, before and after M.

    Returns
    -------
    pandas.DataFrame
        One row a head: ``head``, ``removed``, ``lambda``, ``before`` and ``after``
        (Spearman of r and of r M with the removed head's r), ``length_before`` and
        ``length_after`` (with the response's tokens) and ``note``; over responses. The
        removed head's own column of r M is 0, so it has no ``after``.
    """
    names = run["head"].values
    columns = ["head", "removed", "lambda", "before", "after"]
    columns += ["length_before", "length_after", "note"]
    known = recover(run) if not _missing(run) else None
    note = _missing(run) or known.note
    if not note and known.removed < 0:
        note = NOTHING_REMOVED
    score = run["score"].values.astype(float)
    if not note and not np.isfinite(score).all():
        note = "scores that are not numbers"
    if note:
        return pd.DataFrame({"head": names, "removed": "", "note": note}).reindex(columns=columns)
    moved = score @ known.matrix()
    moved[:, known.removed] = 0.0
    tokens = run["n_response_tokens"].values
    rho = spearman(np.column_stack([score, moved, score[:, known.removed], tokens]))
    before, after = np.split(rho[:-2, -2:], 2)
    return pd.DataFrame(
        {
            "head": names,
            "removed": names[known.removed],
            "lambda": known.lambdas,
            "before": before[:, 0],
            "after": after[:, 0],
            "length_before": before[:, 1],
            "length_after": after[:, 1],
            "note": "",
        }
    )[columns]
