"""Geometry: does entanglement live in the head weights or in the backbone's states?

``geometry_as_published``  cosines of W, its singular values, its angles with the PCA of h
``identity``               is cov(stored scores) = W Σ Wᵀ, as everything below assumes?
``pairs``                  cosine in each gauge beside the correlation, a row for each two heads
``gauges``                 what the heads and what the backbone would entangle alone, by gauge
``location``               the place that is claimed, if any
``spectrum``               correlations as signed sums over the principal directions of h
``mantel``                 do cosines and correlations go together?

*Gauges.* cov(s) = W Σ Wᵀ doesn't change under h → A h, W → W A⁻¹, but every cosine of W and
every eigenvalue of Σ does. So "the heads are nearly orthogonal" speaks of a choice of
coordinates. Three are looked at: ``post-norm`` (states as the heads read them), ``gain
folded`` (the final norm's gain g moved into the heads: h/g and g·w) and ``whitened``
(Σ = 1: the cosines then *are* the correlations, and all of it is in the heads). A place is
claimed only where the first two agree.

Only states that the run kept are used. ``within`` takes deviations from the prompt's mean.
Pass ``weight=None`` where the weights aren't at hand: NaN and a note, no error.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr

from lib.errors import DataError
from lib.stats.correlation import spearman
from lib.stats.subspaces import (
    leading,
    mantel_test,
    nearest_orthonormal,
    random_heads,
    readings,
    shape_of,
)

KINDS = ("pooled", "within")
POST_NORM, FOLDED, WHITENED = "post-norm", "gain folded", "whitened"
TOLERANCE = 1e-5  # of the identity, which is computed in float32
EPS = 2.0**-24  # of a float32 sum, relative to the sum of the sizes of its terms
LITTLE = 0.2  # RMS correlation below which there is nothing to place
DOMINATES = 2.0  # how many times one reading must exceed the other
STATES_A_HEAD = 10
TESTED = 6  # heads that a Mantel test needs
COMPONENTS = (1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)
CHUNK = 4_000_000

NO_WEIGHTS = "the head weights are not at hand"
ONE_HEAD = "fewer than two heads that vary"
NO_STATES = "fewer than three states kept"
SINGLE = "no prompt with two kept responses"
FEW = "too few states kept to say"
ONE_GAUGE = "the final norm's gain isn't known, so there is one gauge only"
BROKEN = "stored scores are not these weights times these states"
CONSTANT = "a head that doesn't vary here"
COLLAPSED = "the weights are linearly dependent"


@dataclass(frozen=True)
class Parts:
    """What is left of a run to do geometry with.

    Attributes
    ----------
    weight
        Shape (heads, features), or ``None``.
    hidden
        States that were kept, as the run holds them, shape (n, features).
    groups
        By kind: what each state's mean is taken over, integers of shape (n,). Kinds that can't
        be had are missing.
    scores
        By kind: centred and divided by the root of the degrees of freedom, so that the inner
        products are covariances; shape (n, heads).
    names
        Of the heads.
    gain
        Shape (features,), or ``None``.
    rows
        Number of states.
    notes
        By kind, why it is missing; ``""`` as key for what concerns all.
    """

    weight: np.ndarray | None
    hidden: np.ndarray
    groups: dict[str, np.ndarray]
    scores: dict[str, np.ndarray]
    names: np.ndarray
    gain: np.ndarray | None
    rows: int
    notes: dict[str, str]

    def note(self, kind: str) -> str:
        """Why there is nothing of a kind, or ""."""
        return self.notes.get("", "") or self.notes.get(kind, "")

    def states(self, kind: str) -> np.ndarray:
        """States of a kind, as ``scores`` are: shape (n, features). Made anew at each call."""
        return _centred(self.hidden, self.groups[kind])

    def rounding(self) -> np.ndarray:
        """How far rounding to float32 may move a score of each head, shape (heads,)."""
        size = np.abs(self.weight).T
        step = max(1, CHUNK // self.hidden.shape[1])
        parts = (self.hidden[k : k + step] for k in range(0, self.rows, step))
        return EPS * np.max([(np.abs(part.astype(float)) @ size).max(axis=0) for part in parts], 0)


def prepare(run: xr.Dataset, weight: np.ndarray | None, gain: np.ndarray | None = None) -> Parts:
    """Heads that vary, and states that were kept.

    Raises
    ------
    DataError
        When weights or gain don't fit the run, or aren't finite.
    """
    hidden, score = run["hidden"].values, run["score"].values
    if weight is not None:
        weight = _fitting(weight, (score.shape[1], hidden.shape[1]), "head weights")
    if gain is not None:
        gain = _fitting(gain, (hidden.shape[1],), "a gain")
    kept = np.isfinite(hidden).all(axis=1)
    if not kept.all():
        hidden, score = hidden[kept], score[kept]
    score = score.astype(float)
    usable = np.isfinite(score).all(axis=0)
    if len(score):
        usable &= np.ptp(score, axis=0) > 0
    if weight is not None:
        usable &= (weight != 0).any(axis=1)
        weight = weight[usable]
    score = score[:, usable]
    names = run["head"].values[usable]
    hashes = run["prompt_hash"].values[run["item_of_response"].values[kept]]
    notes: dict[str, str] = {}
    if len(hidden) < 3:
        notes[""] = NO_STATES
    elif len(names) < 2:
        notes[""] = ONE_HEAD
    groups, scores = {}, {}
    if not notes:
        _, prompt = np.unique(hashes, return_inverse=True)
        one = np.zeros(len(prompt), int)
        for kind, group in (("pooled", one), ("within", prompt)):
            if _degrees(group) > 0:
                groups[kind], scores[kind] = group, _centred(score, group)
            else:
                notes[kind] = SINGLE
    return Parts(weight, hidden, groups, scores, names, gain, len(hidden), notes)


def _fitting(values: np.ndarray, shape: tuple[int, ...], what: str) -> np.ndarray:
    values = np.asarray(values, float)
    if values.shape != shape or not np.isfinite(values).all():
        found = f"{values.shape}" if values.shape != shape else "NaN or infinity"
        raise DataError(
            f"{what} of shape {shape}, finite", found, "Give those of the model that was run."
        )
    return values


def _degrees(group: np.ndarray) -> int:
    return len(group) - int(group.max()) - 1


def _centred(values: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Less each group's mean, divided by the root of the degrees of freedom, by columns."""
    order = np.argsort(group, kind="stable")
    size = np.bincount(group)
    start = np.cumsum(size) - size
    out = np.empty(values.shape)
    step = max(1, CHUNK // max(1, len(values)))
    for first in range(0, values.shape[1], step):
        part = values[:, first : first + step].astype(float)
        total = np.add.reduceat(part[order], start, axis=0)
        out[:, first : first + step] = part - (total / size[:, None])[group]
    out /= np.sqrt(_degrees(group))
    return out


def cosines(weight: np.ndarray) -> np.ndarray:
    """Cosines of the rows, shape (heads, heads)."""
    unit = weight / np.linalg.norm(weight, axis=1, keepdims=True)
    return unit @ unit.T


def correlations(factor: np.ndarray) -> np.ndarray:
    """Correlations from a factor X with covariance XᵀX; NaN cells where there is no variance."""
    covariance = factor.T @ factor
    variance = np.diagonal(covariance)
    flat = variance <= 1e-20 * max(variance.max(), np.finfo(float).tiny)
    sd = np.sqrt(np.where(flat, np.nan, variance))
    return covariance / np.outer(sd, sd)


def rms(matrix: np.ndarray) -> float:
    """Root mean square of the cells above the diagonal."""
    cells = matrix[np.triu_indices(len(matrix), 1)]
    return float(np.sqrt(np.mean(cells**2)))


def in_gauges(parts: Parts) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Weights, and what each feature of the states is multiplied by, by gauge but the whitened.

    Where the gain is 0 a feature reaches no head: it is 0 in both after folding.
    """
    given = {POST_NORM: (parts.weight, np.ones(parts.weight.shape[1]))}
    if parts.gain is not None:
        inverse = np.where(parts.gain == 0, 0.0, 1 / np.where(parts.gain == 0, 1.0, parts.gain))
        given[FOLDED] = (parts.weight * parts.gain, inverse)
    return given


def geometry_as_published(
    run: xr.Dataset,
    weight: np.ndarray | None,
    *,
    components: int = 50,
    draws: int = 100,
    seed: int = 0,
) -> pd.DataFrame:
    """The published measures, in the one gauge that the checkpoint happens to have.

    Parameters
    ----------
    weight
        Shape (heads, features).
    components
        Principal components of h to compare the heads' span with.
    draws, seed
        Random head matrices for comparison.

    Returns
    -------
    pandas.DataFrame
        ``measure``, ``value``, ``low`` and ``high`` (95% of random Gaussian head matrices of
        that shape against any fixed subspace; NaN where that makes no sense) and ``note``.
        Measures: ``rms_cosine`` (the "orthogonality gap"), ``mean_abs_cosine``,
        ``largest_cosine``, ``participation`` (Σσ)²/Σσ², ``entropy_rank`` exp(−Σ p log p)
        with p = σ²/Σσ², ``condition`` σ₁/σ_K, ``k90`` (singular values that hold 90% of
        Σσ²), ``angle_smallest``, ``angle_mean``, ``angle_largest`` (degrees), ``projection``
        (share of ‖W‖² inside those components), ``components`` (how many there were), and
        ``r2``, ``slope``, ``intercept`` of |Spearman| on |cosine|.

    Notes
    -----
    Singular values and angles are of the rows as given, not of unit rows. Angles checked
    against ``scipy.linalg.subspace_angles``. A random subspace is not at 45° to another: in
    many dimensions it is nearly orthogonal, which is what ``low`` and ``high`` show.
    """
    parts = prepare(run, weight)
    names = ["rms_cosine", "mean_abs_cosine", "largest_cosine", "participation", "entropy_rank"]
    names += ["condition", "k90", "angle_smallest", "angle_mean", "angle_largest", "projection"]
    names += ["components", "r2", "slope", "intercept"]
    empty = pd.DataFrame({"measure": names, "value": np.nan, "low": np.nan, "high": np.nan})
    note = NO_WEIGHTS if weight is None else parts.note("pooled")
    if note:
        return empty.assign(note=note)
    w = parts.weight
    directions, variance = leading(parts.states("pooled"), components)
    many = int((variance > 1e-12 * variance[0]).sum())
    values = shape_of(w[None], directions[:many])
    values = {name: value[0] for name, value in values.items()} | {"components": many}
    kept = np.isfinite(run["hidden"].values).all(axis=1)
    index = np.flatnonzero(np.isin(run["head"].values, parts.names))
    rho = np.abs(spearman(run["score"].values[kept][:, index]))
    upper = np.triu_indices(len(w), 1)
    values |= _regression(np.abs(cosines(w))[upper], rho[upper])
    generator = np.random.default_rng(seed)
    random: dict[str, list[np.ndarray]] = {}
    step = max(1, CHUNK // (len(w) * (many + len(w))))
    for first in range(0, draws, step):
        drawn = random_heads(generator, min(step, draws - first), w.shape, many)
        for name, value in shape_of(drawn, np.eye(many, drawn.shape[2])).items():
            random.setdefault(name, []).append(value)
    empty["value"] = [float(values[name]) for name in names]
    for column, level in (("low", 0.025), ("high", 0.975)):
        empty[column] = [
            np.quantile(np.concatenate(random[name]), level) if name in random else np.nan
            for name in names
        ]
    return empty.assign(note="")


def _regression(x: np.ndarray, y: np.ndarray) -> dict[str, float]:
    if len(x) < 3 or np.ptp(x) < 1e-6 or np.ptp(y) < 1e-6:
        return dict.fromkeys(("r2", "slope", "intercept"), np.nan)
    slope, intercept = np.polyfit(x, y, 1)
    return {"r2": np.corrcoef(x, y)[0, 1] ** 2, "slope": slope, "intercept": intercept}


def identity(run: xr.Dataset, weight: np.ndarray | None) -> pd.DataFrame:
    """Is the covariance of the stored scores that of weights and states?

    Returns
    -------
    pandas.DataFrame
        One row a kind: ``kind``, ``states``, ``dtype`` (of the extraction), ``error`` =
        max |cov(s)_ij − (WΣWᵀ)_ij| / (σ_i σ_j), ``verdict`` (``holds`` up to 1e-5, or up to
        what float32 can tell where that is more; ``fails``, ``undefined``) and ``note``.

    Notes
    -----
    One bound for all types: a model reads its scores in float32 from the very states that are
    stored, after these were rounded to a shorter type or not. What is left is the rounding of
    that product. It goes with the terms of the sum, not with how scores vary: where states share
    a large offset, a score's rounding of up to ε Σ|w_f h_f| is compared with σ, and twice that
    share, of the worst head and state, is allowed.
    """
    parts = prepare(run, weight)
    dtype = str(run.attrs["extraction"].get("dtype", "unknown"))
    rows = []
    for kind in KINDS:
        note = NO_WEIGHTS if weight is None else parts.note(kind)
        row = {"kind": kind, "states": parts.rows, "dtype": dtype}
        if note:
            rows.append(row | {"error": np.nan, "verdict": "undefined", "note": note})
            continue
        stored, made = parts.scores[kind], parts.states(kind) @ parts.weight.T
        sd = np.sqrt((stored**2).sum(axis=0))
        varies = sd > 0
        if not varies.any():
            rows.append(row | {"error": np.nan, "verdict": "undefined", "note": CONSTANT})
            continue
        gap = (stored.T @ stored - made.T @ made)[np.ix_(varies, varies)]
        error = np.abs(gap / np.outer(sd[varies], sd[varies])).max()
        allowed = max(TOLERANCE, 2 * (parts.rounding() / sd)[varies].max())
        verdict = "holds" if error <= allowed else "fails"
        note = "" if verdict == "holds" else BROKEN
        rows.append(row | {"error": error, "verdict": verdict, "note": note})
    return pd.DataFrame(rows)


def gauges(
    run: xr.Dataset, weight: np.ndarray | None, gain: np.ndarray | None = None
) -> pd.DataFrame:
    """What heads and backbone would each entangle alone, in every gauge.

    Parameters
    ----------
    weight
        Shape (heads, features).
    gain
        Of the final norm, shape (features,).

    Returns
    -------
    pandas.DataFrame
        One row a kind and gauge: ``kind``, ``gauge``, ``heads``, ``states``, ``rms_r`` (RMS
        correlation of the scores; the same in all), ``rms_heads`` (RMS cosine of W: what
        would be left if Σ were round), ``rms_backbone`` (RMS correlation that Σ gives the
        orthonormal heads nearest to W: what would be left if the heads were orthogonal),
        ``reading`` and ``note``. ``reading`` is ``heads`` or ``backbone`` where that number
        is at least twice the other, ``both`` in between, ``little`` where ``rms_r`` is below
        .2, ``heads by construction`` in the whitened gauge, ``undefined`` otherwise.
    """
    parts = prepare(run, weight, gain)
    rows = []
    for kind in KINDS:
        note = parts.note(kind)
        row = {"kind": kind, "heads": len(parts.names), "states": parts.rows}
        empty = dict.fromkeys(("rms_r", "rms_heads", "rms_backbone"), np.nan)
        if note:
            rows += [
                row | empty | {"gauge": gauge, "reading": "undefined", "note": note}
                for gauge in (POST_NORM, WHITENED)
            ]
            continue
        r = rms(correlations(parts.scores[kind]))
        if parts.weight is None:
            given = {"gauge": POST_NORM, "reading": "undefined", "note": NO_WEIGHTS}
            rows.append(row | empty | {"rms_r": r} | given)
        else:
            states = parts.states(kind)
            rows += [
                row | {"gauge": gauge} | _read(r, w, states, scale)
                for gauge, (w, scale) in in_gauges(parts).items()
            ]
            del states
        whole = {"rms_r": r, "rms_heads": r, "rms_backbone": 0.0}
        given = {"gauge": WHITENED, "reading": "heads by construction", "note": ""}
        rows.append(row | whole | given)
    columns = ["kind", "gauge", "heads", "states", "rms_r", "rms_heads", "rms_backbone", "reading"]
    return pd.DataFrame(rows)[[*columns, "note"]]


def _read(r: float, weight: np.ndarray, states: np.ndarray, scale: np.ndarray) -> dict:
    heads = rms(cosines(weight))
    backbone = rms(correlations(states @ (nearest_orthonormal(weight) * scale).T))
    sigma = np.linalg.svd(weight / np.linalg.norm(weight, axis=1, keepdims=True), compute_uv=False)
    note = ""
    if not np.isfinite(r + heads + backbone):
        reading, note = "undefined", CONSTANT
    elif len(states) < STATES_A_HEAD * len(weight):
        reading, note = "undefined", FEW
    elif r < LITTLE:
        reading = "little"
    else:
        more = np.asarray([heads >= DOMINATES * backbone, backbone >= DOMINATES * heads])
        reading = ("heads", "backbone")[more.argmax()] if more.any() else "both"
    if not note and sigma[-1] < 1e-8 * sigma[0]:
        note = COLLAPSED
    return {
        "rms_r": r,
        "rms_heads": heads,
        "rms_backbone": backbone,
        "reading": reading,
        "note": note,
    }


def location(gauges: pd.DataFrame, identity: pd.DataFrame) -> pd.DataFrame:
    """The place of the entanglement, claimed only where all gauges that could differ agree.

    Parameters
    ----------
    gauges, identity
        As the functions of those names return them.

    Returns
    -------
    pandas.DataFrame
        One row a kind: ``kind``, ``location`` (``heads``, ``backbone`` or ``none``) and
        ``note``, which says why there is none.
    """
    rows = []
    for kind in KINDS:
        given = gauges[(gauges["kind"] == kind) & (gauges["gauge"] != WHITENED)]
        readings = list(given["reading"])
        broken = identity[identity["kind"] == kind]["verdict"].ne("holds").any()
        place, note = "none", ""
        if "undefined" in readings:
            note = next(text for text in given["note"] if text)
        elif broken:
            note = BROKEN
        elif readings[0] == "little":
            note = "the heads are hardly correlated, so there is nothing to place"
        elif len(readings) < 2:
            note = ONE_GAUGE
        elif len(set(readings)) > 1:
            told = (f"{row.gauge}: {row.reading}" for row in given.itertuples())
            note = "the gauges disagree (" + ", ".join(told) + ")"
        elif readings[0] == "both":
            note = "heads and backbone both have a part, and neither is twice the other"
        else:
            place = readings[0]
        rows.append({"kind": kind, "location": place, "note": note})
    return pd.DataFrame(rows)


def pairs(
    run: xr.Dataset, weight: np.ndarray | None, gain: np.ndarray | None = None
) -> pd.DataFrame:
    """Cosines of two heads beside their correlation.

    Returns
    -------
    pandas.DataFrame
        One row a kind and pair of heads that vary: ``kind``, ``head``, ``other``, ``r``,
        ``cosine`` (post-norm), ``cosine_folded`` (NaN where the gain isn't known).
    """
    parts = prepare(run, weight, gain)
    i, j = np.triu_indices(len(parts.names), 1)
    columns = ["kind", "head", "other", "r", "cosine", "cosine_folded"]
    tables = []
    for kind in KINDS:
        if parts.note(kind):
            continue
        table = pd.DataFrame({"kind": kind, "head": parts.names[i], "other": parts.names[j]})
        table["r"] = correlations(parts.scores[kind])[i, j]
        found = in_gauges(parts) if parts.weight is not None else {}
        for column, gauge in (("cosine", POST_NORM), ("cosine_folded", FOLDED)):
            table[column] = cosines(found[gauge][0])[i, j] if gauge in found else np.nan
        tables.append(table[columns])
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=columns)


def spectrum(
    run: xr.Dataset, weight: np.ndarray | None, gain: np.ndarray | None = None
) -> pd.DataFrame:
    """Correlations built up over the principal directions of the states.

    r_ij = Σ_k λ_k (w_i·v_k)(w_j·v_k) / (σ_i σ_j): terms have both signs and cancel, so they
    are summed as they are and never given as shares.

    Returns
    -------
    pandas.DataFrame
        One row a kind, gauge, pair and number of components: ``kind``, ``gauge``, ``head``,
        ``other``, ``components`` (1, 2, 3, 5, 10, … and all), ``added`` (signed, by the
        directions since the row before), ``r`` (so far; the last is the correlation) and
        ``variance`` (share of the states' variance in these directions). No rows without
        weights.

    Notes
    -----
    σ_i² = w_iᵀΣw_i. In the whitened gauge all λ are 1 and the form says nothing.
    """
    parts = prepare(run, weight, gain)
    i, j = np.triu_indices(len(parts.names), 1)
    columns = ["kind", "gauge", "head", "other", "components", "added", "r", "variance"]
    tables = []
    for kind in KINDS:
        if weight is None or parts.note(kind):
            continue
        for gauge, (part, variance) in _spectra(parts, kind).items():
            with np.errstate(invalid="ignore"):
                part = part / np.linalg.norm(part, axis=1, keepdims=True)
            stops = np.asarray([*(k for k in COMPONENTS if k < len(variance)), len(variance)])
            so_far = (part[i] * part[j]).cumsum(axis=1)[:, stops - 1]
            added = np.diff(so_far, axis=1, prepend=0.0)
            share = variance.cumsum()[stops - 1] / variance.sum()
            many = len(stops)
            tables.append(
                pd.DataFrame(
                    {
                        "kind": kind,
                        "gauge": gauge,
                        "head": np.repeat(parts.names[i], many),
                        "other": np.repeat(parts.names[j], many),
                        "components": np.tile(stops, len(i)),
                        "added": added.ravel(),
                        "r": so_far.ravel(),
                        "variance": np.tile(share, len(i)),
                    }
                )
            )
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=columns)


def _spectra(parts: Parts, kind: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """(w_i·v_k)√λ_k, shape (heads, directions), and λ, largest first, in each gauge."""
    states = parts.states(kind)
    n, features = states.shape
    covariance = None
    if n >= features:
        covariance = states.T @ states
        del states
    found: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for gauge, (weight, scale) in in_gauges(parts).items():
        if found and (scale == 1).all():
            found[gauge] = found[POST_NORM]
        elif covariance is not None:
            scaled = covariance * scale
            scaled *= scale[:, None]
            variance, part = readings(scaled, weight, overwrite=True)
            found[gauge] = part * np.sqrt(variance), variance
        else:  # of inner products of states, which are fewer
            scaled = states * scale
            variance, part = readings(scaled @ scaled.T, weight @ scaled.T)
            some = variance > 1e-12 * variance[0] if variance[0] > 0 else variance > 0
            found[gauge] = part[:, some], variance[some]
    return found


def mantel(
    run: xr.Dataset, weight: np.ndarray | None, *, draws: int = 9999, seed: int = 0
) -> pd.DataFrame:
    """Correlation of cosines with score correlations, and heads permuted for comparison.

    Descriptive: the K(K − 1)/2 pairs share K heads, and s = Wh ties the two together.

    Parameters
    ----------
    draws, seed
        Of head permutations; all of them are taken where there are no more than ``draws``.

    Returns
    -------
    pandas.DataFrame
        One row: ``heads``, ``statistic`` (Pearson, over pairs), ``p`` (two-sided),
        ``smallest_p`` (that so many heads and draws can reach), ``mde`` (the size of statistic
        found at .05 with power .8; NaN, for none, beyond 1), ``note`` (``not tested`` below six
        heads).

    Notes
    -----
    Mantel (1967). With all permutations p is the share, the given order included, whose
    |statistic| is as large; with random ones (1 + count)/(1 + draws). ``mde`` is the 95th
    percentile of their |statistic| plus z.8 of their standard deviations: other heads with
    such a correlation are taken to vary as permuted ones do.
    """
    parts = prepare(run, weight)
    note = NO_WEIGHTS if weight is None else parts.note("pooled")
    names = ("statistic", "p", "smallest_p", "mde")
    row = {"heads": len(parts.names)} | dict.fromkeys(names, np.nan)
    if note:
        return pd.DataFrame([row | {"note": note}])
    one, other = cosines(parts.weight), correlations(parts.scores["pooled"])
    found = mantel_test(one, other, draws, seed)
    row["statistic"] = found[0]
    if row["heads"] < TESTED:
        return pd.DataFrame([row | {"note": f"not tested: fewer than {TESTED} heads"}])
    return pd.DataFrame([row | dict(zip(names, found, strict=True)) | {"note": ""}])
