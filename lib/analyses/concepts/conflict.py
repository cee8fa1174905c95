"""Do the directions of two criteria go together, or against each other?

Published as a cosine of mean preference directions with thresholds. A cosine depends on the
coordinates of the states (h → Ah turns any into any other and changes no score); whitened by a
covariance of pairs it depends on them less. A claim needs both to say the same.
"""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import stdtr, stdtrit
from sklearn.covariance import ledoit_wolf_shrinkage

from lib.analyses.concepts.cosines import jackknife, left_out, squared_length
from lib.analyses.concepts.pairs import Pairs, pairs
from lib.stats import permutation

FORMS = ("raw", "whitened")
VERDICTS = ("together", "in conflict", "not shown", "undefined")
# As published: aligned above, orthogonal within, in conflict below; between these the sign
# decides, so that only the second counts.
PUBLISHED = (0.5, 0.2, -0.3)
_COLUMNS = ["one", "other", "form", "n_one", "n_other", "published", "label", "cosine", "low"]
_COLUMNS += ["high", "p", "p_adjusted", "verdict", "note"]


def conflict(run: xr.Dataset, *, alpha: float = 0.05) -> pd.DataFrame:
    """Cosines between mean preference directions, raw and whitened.

    Parameters
    ----------
    run
        A Run with states, of two criteria or more.
    alpha
        Level of intervals and tests.

    Returns
    -------
    pandas.DataFrame
        Two rows a pair of criteria: ``one``, ``other``, ``form`` (of ``FORMS``), ``n_one`` and
        ``n_other`` (prompts), ``published`` (cosine of the two means) with its ``label`` by the
        published thresholds, ``cosine`` (free of the bias of finite samples) with ``low`` and
        ``high`` (jackknife over prompts), ``p`` that the directions are orthogonal and
        ``p_adjusted`` (Holm over the pairs of a form), ``verdict`` of the pair (of
        ``VERDICTS``: both forms must be significant and of one sign) and ``note``.

    Notes
    -----
    T is the mean inner product of a difference of one criterion with one of the other, over
    different prompts, and T/√(U V) the cosine, with U and V as in ``cosines.squared_length``. Its
    test is t = T/se with se² = var(d_i · ē)/n + var(e_j · d̄)/m, on min(n, m) − 1 degrees of
    freedom. Whitened inner products are d Σ⁻¹ e, with the covariance Σ of all *other* criteria's
    differences about their means, shrunk by Ledoit & Wolf (2004): of the pairs' own differences
    it would fit their noise, and every whitened cosine would look significant. So whitening needs
    a third criterion, and takes it to scatter alike.
    """
    asked = pairs(run)
    rows = []
    for form, (one, other) in itertools.product(FORMS, itertools.combinations(asked, 2)):
        row = {"one": one.concept, "other": other.concept, "form": form}
        row |= {"n_one": len(one), "n_other": len(other)}
        row["note"] = next((each.note for each in (one, other) if each.note), "")
        around = _others(asked, one, other) if form == "whitened" else None
        if not row["note"] and form == "whitened" and around is None:
            row["note"] = "no third criterion to take the covariance of"
        if not row["note"]:
            row |= _between(one, other, around, alpha)
        rows.append(row)
    table = pd.DataFrame(rows).reindex(columns=_COLUMNS)
    if table.empty:
        return table
    for form in FORMS:
        own = table["form"] == form
        table.loc[own, "p_adjusted"] = permutation.holm(table.loc[own, "p"].to_numpy(float))
    raw, white = (table[table["form"] == form].reset_index(drop=True) for form in FORMS)
    told = (raw["p_adjusted"] < alpha) & (white["p_adjusted"] < alpha)
    same = np.sign(raw["published"]) == np.sign(white["published"])
    kinds = [raw["p"].isna() | white["p"].isna(), told & same & (raw["published"] > 0), told & same]
    verdict = np.select(kinds, ["undefined", "together", "in conflict"], "not shown")
    return table.assign(verdict=np.tile(verdict, 2))


def label(cosine: float) -> str:
    """The published word for a cosine: ``orthogonal`` within ±.2, else by its sign."""
    if not np.isfinite(cosine):
        return ""
    if abs(cosine) < PUBLISHED[1]:
        return "orthogonal"
    return "aligned" if cosine > 0 else "in conflict"


def _others(asked: list[Pairs], one: Pairs, other: Pairs) -> np.ndarray | None:
    """Centred differences of all other criteria, of prompts that neither of these has."""
    found = []
    for each in asked:
        if each.note or each.concept in (one.concept, other.concept):
            continue
        own = each.difference[~np.isin(each.prompt, [*one.prompt, *other.prompt])]
        if len(own) > 1:
            found.append(own - own.mean(axis=0))
    return np.concatenate(found) if found else None


def _products(*sides: np.ndarray, around: np.ndarray | None) -> list[np.ndarray]:
    """Inner products of rows of two sides, of the first's own and of the second's.

    Or those by Σ⁻¹ up to a factor, Σ the covariance of the centred rows ``around``. Shrunk:
    Σ = (1 − s) XᵀX/n + s μ I, so Σ⁻¹ ∝ I − Xᵀ (c I + X Xᵀ)⁻¹ X, c = n s μ/(1 − s).
    """
    asked = ((0, 1), (0, 0), (1, 1))
    plain = [sides[i] @ sides[j].T for i, j in asked]
    if around is None:
        return plain
    n, features = around.shape
    shrunk = ledoit_wolf_shrinkage(around, assume_centered=True)
    inner = around @ around.T
    floor = shrunk * np.trace(inner) / features / max(1 - shrunk, 1e-12)
    middle = [np.linalg.solve(inner + floor * np.eye(n), around @ side.T) for side in sides]
    along = [side @ around.T for side in sides]
    return [own - along[i] @ middle[j] for own, (i, j) in zip(plain, asked, strict=True)]


def _between(one: Pairs, other: Pairs, around: np.ndarray | None, alpha: float) -> dict:
    a, b = one.difference, other.difference
    across, own, others = _products(a, b, around=around)
    published = float(across.mean() / np.sqrt(own.mean() * others.mean()))
    apart = one.prompt[:, None] != other.prompt
    if not (apart.any(axis=1).all() and apart.any(axis=0).all()):
        return {"note": "no pairs of different prompts"}
    products = np.where(apart, across, 0.0)
    sums = products.sum(), products.sum(axis=1), products.sum(axis=0)
    counts = apart.sum(), apart.sum(axis=1), apart.sum(axis=0)
    total, of_a, of_b = (s / c for s, c in zip(sums, counts, strict=True))
    se = np.sqrt(of_a.var(ddof=1) / len(a) + of_b.var(ddof=1) / len(b))
    p = 2 * stdtr(min(len(a), len(b)) - 1, -abs(total) / se) if se > 0 else np.nan
    u, v = squared_length(own), squared_length(others)
    cosine = total / np.sqrt(u * v)
    without_a = (sums[0] - sums[1]) / (counts[0] - counts[1]) / np.sqrt(left_out(own) * v)
    without_b = (sums[0] - sums[2]) / (counts[0] - counts[2]) / np.sqrt(u * left_out(others))
    spread = np.hypot(jackknife(without_a), jackknife(without_b))  # of two samples: they add up
    cosine = cosine if np.isfinite(spread) else np.nan
    half = stdtrit(min(len(a), len(b)) - 1, 1 - alpha / 2) * spread
    low, high = np.clip([cosine - half, cosine + half], -1, 1)
    told = {"published": published, "label": label(published), "cosine": cosine}
    return told | {"low": low, "high": high, "p": float(p)}
