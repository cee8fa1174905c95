"""Multitrait-multimethod: do heads of one concept agree more than heads of others do?

``mtmm``  convergent and discriminant validity of claimed concepts, from gaps

On arrays with any leading axes of draws: ``correlations`` and ``htmt``.
"""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import xarray as xr

from lib.analyses.labels.naming import claims, empty, without_numbers
from lib.run import align
from lib.stats import proportions

DISCRIMINANT = 0.85
MTMM = ("concept", "other", "n", "prompts", "convergent", "convergent_low", "other_convergent")
MTMM += ("other_convergent_low", "hetero", "htmt", "htmt_high", "htmt2", "verdict", "note")


def correlations(products: np.ndarray) -> np.ndarray:
    """r_ij = Σ g_i g_j / √(Σ g_i² Σ g_j²) from sums of products, shape (…, heads, heads)."""
    spread = np.sqrt(np.diagonal(products, axis1=-2, axis2=-1))
    with np.errstate(invalid="ignore"):
        return products / (spread[..., :, None] * spread[..., None, :])


def htmt(r: np.ndarray, first, second, source=None):
    """Heterotrait-monotrait ratio of two traits.

    Parameters
    ----------
    r
        Correlations of all heads, shape (…, heads, heads).
    first, second
        Positions of the heads of each trait.
    source
        Of each head; pairs of one source are left out. Each its own by default.

    Returns
    -------
    dict
        ``hetero`` (mean |r| across traits), ``mono`` and ``mono_other`` (mean r within),
        ``htmt`` = hetero / √(mono · mono_other), ``htmt2`` (the same with geometric means of
        |r|), ``defined`` (is every r within a trait above 0?): arrays of the leading shape.
        Ratios are infinite where the denominator isn't above 0, and NaN without pairs.

    Notes
    -----
    Henseler, Ringle and Sarstedt (2015), with absolute heterotrait correlations; HTMT2 is
    Roemer, Schuberth and Henseler's (2021). Checked against the values of both for
    HolzingerSwineford1939.
    """
    source = np.arange(r.shape[-1]) if source is None else np.asarray(source)

    def chosen(pairs):
        kept = [(i, j) for i, j in pairs if source[i] != source[j]]
        i, j = np.asarray(kept, int).reshape(-1, 2).T
        return r[..., i, j]

    across = np.abs(chosen(itertools.product(first, second)))
    within = [chosen(itertools.combinations(trait, 2)) for trait in (first, second)]
    hetero, mono, other = (_mean(values) for values in (across, *within))
    with np.errstate(divide="ignore", invalid="ignore"):
        low = (mono > 0) & (other > 0)
        ratio = hetero / np.sqrt(np.where(low, mono * other, np.nan))
        logs = [_mean(np.log(np.abs(values))) for values in (across, *within)]
        ratio2 = np.exp(logs[0] - (logs[1] + logs[2]) / 2)
    known = np.isfinite(hetero) & np.isfinite(mono) & np.isfinite(other)
    return {
        "hetero": hetero,
        "mono": mono,
        "mono_other": other,
        "htmt": np.where(known & ~low, np.inf, ratio),
        "htmt2": ratio2,
        "defined": known & (within[0] > 0).all(axis=-1) & (within[1] > 0).all(axis=-1),
    }


def _mean(values: np.ndarray) -> np.ndarray:
    return values.mean(axis=-1) if values.shape[-1] else np.full(values.shape[:-1], np.nan)


def sources(heads: np.ndarray) -> np.ndarray:
    """Where each head's ratings come from: its name up to the first dash."""
    return np.asarray([str(name).split("-")[0] for name in heads], np.str_)


def mtmm(
    run: xr.Dataset,
    comparisons: pd.DataFrame | None = None,
    *,
    source: np.ndarray | None = None,
    alpha: float = 0.05,
    draws: int = 2000,
    seed: int = 0,
) -> pd.DataFrame:
    """Do heads of one concept from several sources agree, more than with other concepts?

    Parameters
    ----------
    run
        A Run.
    comparisons
        As in ``items.comparisons``; the run's own by default.
    source
        Of each head; ``sources`` of their names by default.
    alpha
        One-sided level of each bound, uncorrected.
    draws, seed
        Of the bootstrap over prompts.

    Returns
    -------
    pandas.DataFrame
        One row a pair of claimed concepts of which at least one has heads from two sources:
        ``concept``, ``other``, ``n``, ``prompts``; ``convergent`` (mean r of gaps within the
        concept) with its lower bound ``convergent_low``, the same for the ``other``;
        ``hetero`` (mean |r| across), ``htmt`` with its upper bound ``htmt_high``, ``htmt2``;
        ``verdict`` and ``note``. Verdicts: ``undefined`` (a concept with heads of one source
        only, a single prompt, or an r within a concept that isn't above 0), ``convergent and
        discriminant``
        (both lower bounds above 0, the upper bound of HTMT below .85), ``convergent``
        (both lower bounds above 0), else ``not shown``.

    Notes
    -----
    Correlations are of gaps, uncentred: which side of a pair is written first says nothing.
    Heads without numbers or whose gaps are all 0 are left out. A comparison in which a head of
    either concept has no number is left out of their row.
    """
    aligned = align(run, comparisons)
    gaps = aligned.gaps(run["score"].values)
    claim = claims(run)
    finite = np.isfinite(gaps)
    usable = ((gaps != 0) & finite).any(axis=0) & (claim != "")
    kept = np.flatnonzero(usable) if len(gaps) else np.empty(0, int)
    source = (sources(run["head"].values) if source is None else np.asarray(source))[kept]
    traits = {name: np.flatnonzero(claim[kept] == name) for name in dict.fromkeys(claim[kept])}
    several = {name: len(set(source[rows])) > 1 for name, rows in traits.items()}
    wanted = [(a, b) for a, b in itertools.combinations(traits, 2) if several[a] or several[b]]
    if not wanted:
        return empty(MTMM)
    gaps, finite = np.where(finite, gaps, 0)[:, kept], finite[:, kept]
    shared: dict[bytes, tuple] = {}
    rows = []
    for a, b in wanted:
        complete = finite[:, [*traits[a], *traits[b]]].all(axis=1)
        key = complete.tobytes()
        if key not in shared:
            products = _products(gaps[complete], aligned.prompt[complete])
            again = correlations(_resampled(products, draws, seed))
            shared[key] = correlations(products.sum(axis=0)), again, len(products)
        r, resampled, prompts = shared[key]
        found = htmt(r, traits[a], traits[b], source)
        again = htmt(resampled, traits[a], traits[b], source)
        low = [np.quantile(again[k], alpha) for k in ("mono", "mono_other")]
        high = np.quantile(again["htmt"], 1 - alpha, method="higher")
        single = [name for name in (a, b) if not several[name]]
        verdict, note = _convergence(found, low, high, single, prompts)
        n = int(complete.sum())
        note = "; ".join(filter(None, [note, without_numbers(n, len(complete) - n)]))
        defined = verdict != "undefined"
        rows.append(
            {
                "concept": a,
                "other": b,
                "n": n,
                "prompts": prompts,
                "convergent": float(found["mono"]),
                "convergent_low": low[0],
                "other_convergent": float(found["mono_other"]),
                "other_convergent_low": low[1],
                "hetero": float(found["hetero"]),
                "htmt": float(found["htmt"]) if defined else np.nan,
                "htmt_high": high if defined and np.isfinite(high) else np.nan,
                "htmt2": float(found["htmt2"]) if defined else np.nan,
                "verdict": verdict,
                "note": note,
            }
        )
    return pd.DataFrame(rows)[list(MTMM)]


def _convergence(found, low, high, single: list[str], prompts: int) -> tuple[str, str]:
    if single:
        return "undefined", f"{' and '.join(single)}: heads of one source only"
    if prompts < 2:
        return "undefined", "a single prompt"
    if not np.isfinite(found["hetero"]):
        return "undefined", "no pair across the concepts has different sources"
    if not found["defined"]:
        return "undefined", "heads of one concept don't correlate above 0"
    if min(low) <= 0:
        return "not shown", ""
    if high < DISCRIMINANT:
        return "convergent and discriminant", ""
    return "convergent", ""


def _products(gaps: np.ndarray, prompt: np.ndarray) -> np.ndarray:
    """Sums of products of gaps by prompt, shape (prompts, heads, heads)."""
    _, prompt = np.unique(prompt, return_inverse=True)
    scaled = gaps / np.sqrt(np.maximum((gaps**2).mean(axis=0), np.finfo(float).tiny))
    return proportions.by_cluster(scaled[:, :, None] * scaled[:, None, :], prompt)[0]


def _resampled(products: np.ndarray, draws: int, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    n, heads = products.shape[0], products.shape[1]
    flat = products.reshape(n, -1)
    out = np.empty((draws, flat.shape[1]))
    step = max(1, 4_000_000 // n)
    for start in range(0, draws, step):
        stop = min(draws, start + step)
        out[start:stop] = generator.multinomial(n, np.full(n, 1 / n), size=stop - start) @ flat
    return out.reshape(draws, heads, heads)
