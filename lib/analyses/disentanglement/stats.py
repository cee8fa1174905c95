"""Disentanglement: are the heads separate, or one judgement under many names?

``disentanglement_as_published``  Spearman of every two heads over all responses
``disentanglement``               between items, within items and pooled, with intervals
``clusters``                      which heads go together or are opposed, and whether that is stable
``sizes``                         mean |r| and the effective number of heads, with intervals
``factors``                       how many dimensions the heads have, by parallel analysis
``overview``                      one row a kind, from the tables above

*Kinds.* A score is what its prompt does to every response plus what the response does, so
two heads can correlate because both like the same prompts (``between``) or because both
prefer the same response to one prompt (``within``); ``pooled`` mixes the two. With G
prompts, n responses and n_g of prompt g,

    within  = Σ (s − s̄_g)(s − s̄_g)ᵀ / (n − G)
    between = (MS_between − within) / n₀,   n₀ = (n − Σ n_g²/n) / (G − 1)

(the analysis-of-variance estimators of covariance components; Searle, Casella and
McCulloch 1992, chapter 3). With pairs, ``within`` is the second moment of the gaps, halved.
Items that share a prompt are one here: the prompt is what was sampled.

A head that can't be correlated keeps its rows, with NaN and a note that names it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr

from lib.analyses.disentanglement.linkage import average_linkage, best_jaccard, linked
from lib.analyses.disentanglement.parallel import permuted_correlations
from lib.stats.correlation import KINDS, spearman, unusable

FACTOR_KINDS = ("pooled", "within")
THRESHOLD = 0.7
GENERAL = 2 / 3  # share of the first component from which minor factors can't be seen
PUBLISHED = "as published"
FLAT = 1e-9  # share of the pooled variance below which there is none
CHUNK = 4_000_000

PAIR_COLUMNS = ["kind", "head", "other", "r", "low", "high", "r_length", "note"]
CLUSTER_COLUMNS = ["kind", "head", "cluster", "size", "stability", "cophenetic", "position", "note"]
FACTOR_COLUMNS = ["kind", "component", "eigenvalue", "share", "threshold", "kept", "noise"]
SIZE_COLUMNS = ["kind", "mean_abs_r", "mean_low", "mean_high", "effective", "effective_low"]
SIZE_COLUMNS += ["effective_high", "note"]


@dataclass(frozen=True)
class Scores:
    """Standardised scores sorted by prompt, with log length as last column.

    Attributes
    ----------
    z
        Shape (responses, heads + 1), mean 0 and variance 1; zeros where ``reason`` is set.
    start, size
        First row and number of rows of each prompt.
    reason
        For each head "" or why it can't be correlated.
    """

    z: np.ndarray
    start: np.ndarray
    size: np.ndarray
    reason: list[str]

    @property
    def usable(self) -> np.ndarray:
        """Positions of heads that vary."""
        return np.flatnonzero([not reason for reason in self.reason])


def prepare(run: xr.Dataset) -> Scores:
    """The run's scores, ready for covariance components."""
    hashes = run["prompt_hash"].values[run["item_of_response"].values]
    _, prompt = np.unique(hashes, return_inverse=True)
    order = np.argsort(prompt, kind="stable")
    size = np.bincount(prompt)
    length = np.log(np.maximum(run["n_response_tokens"].values, 1))
    values = np.column_stack([run["score"].values.astype(float), length])[order]
    reason = [unusable(column) for column in values.T]
    dead = np.asarray([bool(text) for text in reason])
    values[:, dead] = 0.0
    values -= values.mean(axis=0)
    spread = values.std(axis=0, ddof=1) if len(values) > 1 else np.ones(values.shape[1])
    z = values / np.where(dead | (spread == 0), 1.0, spread)
    return Scores(z, np.cumsum(size) - size, size, reason[:-1])


def components(scores: Scores, weight: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """Covariances by kind, of the whole sample or of resamples of prompts.

    Parameters
    ----------
    weight
        How often each prompt is taken, shape (draws, prompts); once each by default.

    Returns
    -------
    dict
        For each kind a shape (draws, heads + 1, heads + 1); NaN where it isn't identified
        (one prompt, or no prompt with two responses).
    """
    z, size = scores.z, scores.size.astype(float)
    width = z.shape[1]
    i, j = np.triu_indices(width)  # products are symmetric
    if weight is None:
        weight = np.ones((1, len(size)))
    sums = np.add.reduceat(z, scores.start, axis=0)
    squares = np.add.reduceat(z[:, i] * z[:, j], scores.start, axis=0)
    means = sums[:, i] * sums[:, j] / size[:, None]
    n, many = weight @ size, weight.sum(axis=1)
    total = weight @ sums
    centre = total[:, i] * total[:, j] / n[:, None]
    raw, by_prompt = weight @ squares, weight @ means

    def over(numerator, degrees):
        return numerator / np.where(degrees > 0, degrees, np.nan)[:, None]

    def square(flat):
        out = np.empty((len(flat), width, width))
        out[:, i, j] = out[:, j, i] = flat
        return out

    within = over(raw - by_prompt, n - many)
    mean_size = (n - weight @ size**2 / n) / np.where(many > 1, many - 1, np.nan)
    return {
        "pooled": square(over(raw - centre, n - 1)),
        "between": square(over(over(by_prompt - centre, many - 1) - within, mean_size)),
        "within": square(within),
    }


def correlation(covariance: np.ndarray) -> np.ndarray:
    """Correlations of the heads (the last column, length, left out); NaN cells without variance."""
    return _correlation(covariance[..., :-1, :-1])


def partial_correlation(covariance: np.ndarray) -> np.ndarray:
    """Correlations of the heads given length: of C_ij − C_iL C_jL / C_LL.

    Where length doesn't vary there is nothing to take out, and they are the plain ones.
    """
    with_length, own = covariance[..., :-1, -1], covariance[..., -1, -1]
    varies = (own > FLAT)[..., None, None]
    shared = with_length[..., :, None] * with_length[..., None, :]
    shared = np.where(varies, shared / np.where(varies, own[..., None, None], 1.0), 0.0)
    return _correlation(covariance[..., :-1, :-1] - shared)


def _correlation(covariance: np.ndarray) -> np.ndarray:
    variance = np.diagonal(covariance, axis1=-2, axis2=-1)
    with np.errstate(invalid="ignore"):
        sd = np.sqrt(np.where(variance > FLAT, variance, np.nan))
    return covariance / (sd[..., :, None] * sd[..., None, :])


def disentanglement_as_published(run: xr.Dataset) -> pd.DataFrame:
    """Spearman over all responses of all prompts; a pair is flagged above .7.

    Returns
    -------
    pandas.DataFrame
        One row a pair: ``head``, ``other``, ``rho``, ``flagged``, ``note``.
    """
    scores = run["score"].values.astype(float)
    i, j, names = _pairs(run)
    rho = spearman(scores)[i, j]
    reason = [unusable(column) for column in scores.T]
    return pd.DataFrame(
        {
            "head": names[i],
            "other": names[j],
            "rho": rho,
            "flagged": np.abs(rho) > THRESHOLD,
            "note": _pair_notes(i, j, names, reason),
        }
    )


def disentanglement(run: xr.Dataset, *, draws: int = 1000, seed: int = 0) -> pd.DataFrame:
    """Correlation of every two heads: pooled, between and within items.

    Parameters
    ----------
    run
        A Run; all its responses are used.
    draws, seed
        Resamples of prompts for the percentile intervals.

    Returns
    -------
    pandas.DataFrame
        One row a kind and pair: ``kind``, ``head``, ``other``, ``r`` with ``low`` and
        ``high`` (95%), ``r_length`` (given log length in tokens, at the same level; NaN where
        length leaves a head no variance) and ``note``. No rows for a single head.

    Notes
    -----
    A between-item correlation is a ratio of estimated components and may fall outside ±1;
    it is then set to ±1 and the note says so. An interval needs nine draws in ten to be
    defined.
    """
    scores = prepare(run)
    i, j, names = _pairs(run)
    whole = components(scores)
    drawn = _resampled(scores, draws, seed, i, j)
    excuses = _pair_notes(i, j, names, scores.reason)
    tables = []
    for kind in KINDS:
        raw = correlation(whole[kind])[0][i, j]
        low, high = _quantiles(drawn[kind], (0.025, 0.975))
        given = partial_correlation(whole[kind])[0]
        notes = _notes(excuses, raw, low, kind)
        tables.append(
            pd.DataFrame(
                {
                    "kind": kind,
                    "head": names[i],
                    "other": names[j],
                    "r": np.clip(raw, -1, 1),
                    "low": np.where(np.isnan(raw), np.nan, np.clip(low, -1, 1)),
                    "high": np.where(np.isnan(raw), np.nan, np.clip(high, -1, 1)),
                    "r_length": np.clip(given[i, j], -1, 1),
                    "note": _with_length(notes, np.isnan(raw), np.diagonal(given), names, i, j),
                }
            )
        )
    return pd.concat(tables, ignore_index=True)[PAIR_COLUMNS]


def sizes(run: xr.Dataset, *, draws: int = 1000, seed: int = 0) -> pd.DataFrame:
    """How alike the heads are on the whole: mean |r|, and the effective number of heads.

    Parameters
    ----------
    draws, seed
        Resamples of prompts.

    Returns
    -------
    pandas.DataFrame
        One row a kind: ``kind``, ``mean_abs_r`` with ``mean_low`` and ``mean_high``,
        ``effective`` (``participation_ratio``) with ``effective_low`` and ``effective_high``
        (95%), and ``note``. Over the pairs that have a correlation; NaN without any.

    Notes
    -----
    A resample has the noise of the sample and its own, so sizes in resamples lie as far above
    the sample's as those above the truth. The intervals are therefore reflected at the
    estimate (2 · estimate − quantile), which takes that out: they may end below the estimate,
    and where all of it is noise they reach down to 0, or up to the number of heads. For the
    effective number what is resampled is the sum of squares, whose noise adds up exactly.
    """
    scores = prepare(run)
    i, j, _ = _pairs(run)
    whole = components(scores)
    drawn = _resampled(scores, draws, seed, i, j)
    rows = []
    for kind in KINDS:
        raw = correlation(whole[kind])[0][i, j]
        known = np.isfinite(raw)
        row = {"kind": kind, "note": "" if known.any() else "no two heads to compare"}
        if known.any():
            r, again = np.clip(raw[known], -1, 1), np.clip(drawn[kind][:, known], -1, 1)
            heads = (1 + np.sqrt(1 + 8 * len(r))) / 2
            row["mean_abs_r"], row["effective"] = np.abs(r).mean(), participation_ratio(r)
            low, high = _reflected(np.abs(r).mean(), np.abs(again).mean(axis=1))
            least, most = _reflected((r**2).sum(), (again**2).sum(axis=1))
            row["mean_low"], row["mean_high"] = max(low, 0.0), max(high, 0.0)
            row["effective_low"] = heads**2 / (heads + 2 * max(most, 0.0))
            row["effective_high"] = heads**2 / (heads + 2 * max(least, 0.0))
            if np.isnan(low):
                row["note"] = "no interval: too little variance in resamples"
        rows.append(row)
    return pd.DataFrame(rows).reindex(columns=SIZE_COLUMNS)


def _reflected(estimate: float, drawn: np.ndarray) -> tuple[float, float]:
    """95% interval; NaN where a tenth of the draws isn't defined."""
    low, high = (bound[0] for bound in _quantiles(drawn[:, None], (0.025, 0.975)))
    return 2 * estimate - high, 2 * estimate - low


def _resampled(scores: Scores, draws: int, seed: int, i, j) -> dict[str, np.ndarray]:
    """Correlations of the pairs in each resample, shape (draws, pairs), by kind."""
    parts: dict[str, list[np.ndarray]] = {kind: [] for kind in KINDS}
    for weight in _weights(len(scores.size), draws, seed):
        for kind, covariance in components(scores, weight).items():
            parts[kind].append(correlation(covariance)[:, i, j])
    return {kind: np.concatenate(part) for kind, part in parts.items()}


def _weights(prompts: int, draws: int, seed: int):
    """How often each prompt is taken in each draw, in chunks of draws."""
    generator = np.random.default_rng(seed)
    step = max(1, CHUNK // prompts)
    for first in range(0, draws, step):
        share = np.full(prompts, 1 / prompts)
        yield generator.multinomial(prompts, share, size=min(step, draws - first)).astype(float)


def _quantiles(drawn: np.ndarray, levels: tuple[float, float]) -> list[np.ndarray]:
    """Quantiles of each column over its defined draws; NaN where a tenth isn't defined."""
    ordered = np.sort(drawn, axis=0)  # NaN sorts last
    defined = np.isfinite(drawn).sum(axis=0)
    column = np.arange(drawn.shape[1])
    out = []
    for level in levels:
        place = level * np.maximum(defined - 1, 0)
        below = np.floor(place).astype(int)
        above = np.minimum(below + 1, np.maximum(defined - 1, 0))
        part = place - below
        value = ordered[below, column] * (1 - part) + ordered[above, column] * part
        out.append(np.where(defined >= 0.9 * len(drawn), value, np.nan))
    return out


def _pairs(run: xr.Dataset) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    names = run["head"].values.astype(object)
    i, j = np.triu_indices(len(names), 1)
    return i, j, names


def _pair_notes(i, j, names, reason) -> list[str]:
    told = [f"{name}: {text}" if text else "" for name, text in zip(names, reason, strict=True)]
    return ["; ".join(filter(None, (told[a], told[b]))) for a, b in zip(i, j, strict=True)]


def _notes(excuses, raw, low, kind) -> list[str]:
    level = {"pooled": "", "between": " between items", "within": " within items"}[kind]
    return np.select(
        [
            np.asarray([bool(text) for text in excuses], dtype=bool),
            np.isnan(raw),
            np.abs(raw) > 1 + 1e-9,
            np.isnan(low),
        ],
        [
            np.asarray(excuses, dtype=object),
            f"no variance{level}",
            "estimated beyond ±1, set to it",
            f"no interval: too little variance{level}",
        ],
        "",
    ).tolist()


def _with_length(notes, unknown, given, names, i, j) -> list[str]:
    """Notes of pairs, which name the heads that don't vary once length is taken out."""
    fixed = np.isnan(given)
    told = []
    for note, skip, *pair in zip(notes, unknown, i, j, strict=True):
        heads = " and ".join(names[k] for k in pair if fixed[k])
        why = f"no r given length, which leaves {heads} no variance" if heads and not skip else ""
        told.append("; ".join(filter(None, (note, why))))
    return told


def clusters(
    run: xr.Dataset, *, threshold: float = THRESHOLD, draws: int = 500, seed: int = 0
) -> pd.DataFrame:
    """Heads that go together or are opposed: average linkage on 1 − |r|, cut at 1 − ``threshold``.

    Parameters
    ----------
    threshold
        Mean |r| of two clusters from which they are one.
    draws, seed
        Resamples of prompts.

    Returns
    -------
    pandas.DataFrame
        One row a kind and head: ``cluster`` (from 1; 0 for a head without a correlation),
        ``size``, ``stability`` (mean over resamples of the Jaccard index with the most
        similar cluster found there; Hennig 2007), ``cophenetic`` (correlation of the tree's
        distances with the real ones, one number a kind), ``position`` (along the tree, for
        drawing) and ``note``.

    Notes
    -----
    ``cophenetic`` needs three heads. Checked against ``scipy.cluster.hierarchy``.
    """
    scores = prepare(run)
    names = run["head"].values
    matrices = {kind: correlation(c)[0] for kind, c in components(scores).items()}
    height = 1 - threshold + 1e-12
    found = {kind: linked(matrices[kind], height) for kind in KINDS}
    jaccard: dict[str, list[np.ndarray]] = {kind: [] for kind in KINDS}
    for weight in _weights(len(scores.size), draws, seed):
        for kind, covariance in components(scores, weight).items():
            used, label = found[kind][:2]
            if len(used):
                r = np.nan_to_num(correlation(covariance)[:, used][:, :, used])
                again = average_linkage(1 - np.abs(np.clip(r, -1, 1)), height)
                jaccard[kind].append(best_jaccard(label, again))
    tables = []
    for kind in KINDS:
        used, label, cophenetic, position = found[kind]
        many = len(names)
        cluster, size, stability = np.zeros(many, int), np.zeros(many, int), np.full(many, np.nan)
        place = np.arange(many) + many
        note = np.array([reason or f"no variance {kind}" for reason in scores.reason], object)
        if len(used):
            cluster[used], size[used] = label + 1, np.bincount(label)[label]
            stability[used] = np.concatenate(jaccard[kind]).mean(axis=0)[label]
            place[used], note[used] = position, ""
        cells = {"kind": kind, "head": names, "cluster": cluster, "size": size, "note": note}
        cells |= {"stability": stability, "cophenetic": cophenetic}
        cells["position"] = np.argsort(np.argsort(place))
        tables.append(pd.DataFrame(cells)[CLUSTER_COLUMNS])
    return pd.concat(tables, ignore_index=True)


def factors(
    run: xr.Dataset, *, draws: int = 500, seed: int = 0, level: float = 0.95
) -> pd.DataFrame:
    """Eigenvalues of the heads' correlations against those of unrelated heads.

    Horn's (1965) parallel analysis with a null that keeps what is not about heads: each
    head's prompts trade places as wholes, independently of the other heads and only with
    prompts of as many responses, and the responses of a prompt are rotated by a random
    step. So each head keeps its distribution and how alike its responses to one prompt
    are. (A null of independent rows, as is usual, takes that likeness for factors.)

    Parameters
    ----------
    draws, seed
        Of the null.
    level
        Quantile of the null's k-th eigenvalue that the k-th must exceed.

    Returns
    -------
    pandas.DataFrame
        ``kind`` (pooled, within), ``component`` (from 1), ``eigenvalue``, ``share`` (of
        the variance), ``threshold``, ``kept`` (it and all before it exceed theirs) and
        ``noise`` (mean |r| of unrelated heads). No rows with fewer than two heads that
        vary.

    Notes
    -----
    The eigenvalues sum to the number of heads, so a strong general factor pushes all others
    below any threshold: with it at .7 of the variance, five planted blocks can't be seen.
    """
    scores = prepare(run)
    z = scores.z[:, scores.usable]
    if z.shape[1] < 2:
        return pd.DataFrame(columns=FACTOR_COLUMNS)
    group = np.repeat(np.arange(len(scores.size)), scores.size)
    mean = np.add.reduceat(z, scores.start, axis=0) / scores.size[:, None]
    values = np.stack([z, z - mean[group]])
    scale = np.sqrt((values**2).sum(axis=1, keepdims=True))
    alive = scale > np.sqrt(FLAT * len(z))
    values = np.where(alive, values / np.where(alive, scale, 1.0), 0.0)
    null = permuted_correlations(values, scores.start, scores.size, draws, seed)
    tables = []
    for kind, own, r, some in zip(FACTOR_KINDS, values, null, alive[:, 0], strict=True):
        if some.sum() < 2:
            continue
        r = r[:, some][:, :, some]
        observed = np.linalg.eigvalsh(own[:, some].T @ own[:, some])[::-1]
        threshold = np.quantile(np.linalg.eigvalsh(r)[:, ::-1], level, axis=0)
        i, j = np.triu_indices(len(observed), 1)
        tables.append(
            pd.DataFrame(
                {
                    "kind": kind,
                    "component": np.arange(1, len(observed) + 1),
                    "eigenvalue": observed,
                    "share": observed / len(observed),
                    "threshold": threshold,
                    "kept": np.logical_and.accumulate(observed > threshold),
                    "noise": np.abs(r[:, i, j]).mean(),
                }
            )
        )
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=FACTOR_COLUMNS)


def participation_ratio(r: np.ndarray) -> float:
    """Effective number of heads, (Σλ)²/Σλ², from the correlations of pairs of K heads.

    Parameters
    ----------
    r
        Of the K(K − 1)/2 pairs. K²/(K + 2Σr²): K for unrelated heads, 1 for copies.
    """
    heads = (1 + np.sqrt(1 + 8 * len(r))) / 2
    return float(heads**2 / (heads + 2 * (np.asarray(r) ** 2).sum()))


def overview(
    published: pd.DataFrame,
    pairs: pd.DataFrame,
    groups: pd.DataFrame,
    found: pd.DataFrame,
    spread: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """One row a kind, the published one first.

    Parameters
    ----------
    published, pairs, groups, found
        From ``disentanglement_as_published``, ``disentanglement``, ``clusters``, ``factors``.
    spread
        From ``sizes``; without it there are no intervals.

    Returns
    -------
    pandas.DataFrame
        ``kind``, ``heads`` (with a correlation), ``mean_abs_r`` with ``mean_low`` and
        ``mean_high``, ``mean_abs_r_length``, ``noise`` (mean |r| that unrelated heads would
        show), ``flagged`` (pairs above .7), ``effective`` (number of heads by participation
        ratio) with ``effective_low`` and ``effective_high``, ``factors``, ``first`` (share of
        the first component), ``next`` and ``next_needed`` (share of the first component that
        isn't counted as a factor, and the share from which it would be), ``clusters``,
        ``cophenetic`` and ``note``. NaN where a kind has no such number.
    """
    given = {PUBLISHED: published.rename(columns={"rho": "r"})}
    given |= {kind: pairs[pairs["kind"] == kind] for kind in KINDS}
    rows = []
    for kind, table in given.items():
        known = table[table["r"].notna()]
        r = known["r"].to_numpy()
        some = len(r) > 0
        row = {"kind": kind, "heads": len({*known["head"], *known["other"]})}
        row["mean_abs_r"] = np.abs(r).mean() if some else np.nan
        length = known["r_length"].abs().mean() if some and "r_length" in known else np.nan
        row["mean_abs_r_length"] = length
        row["flagged"] = int((np.abs(r) > THRESHOLD).sum())
        row["effective"] = participation_ratio(r) if some else np.nan
        eigen, tree = found[found["kind"] == kind], groups[groups["kind"] == kind]
        row["noise"] = eigen["noise"].iloc[0] if len(eigen) else np.nan
        row["factors"] = float(eigen["kept"].sum()) if len(eigen) else np.nan
        row["first"] = eigen["share"].iloc[0] if len(eigen) else np.nan
        dropped = eigen[~eigen["kept"].astype(bool)].head(1)
        row["next"] = dropped["share"].iloc[0] if len(dropped) else np.nan
        row["next_needed"] = dropped["threshold"].iloc[0] / len(eigen) if len(dropped) else np.nan
        row["clusters"] = float(tree["cluster"].max()) if some and len(tree) else np.nan
        row["cophenetic"] = tree["cophenetic"].iloc[0] if some and len(tree) else np.nan
        row["note"] = _overview_note(row, some)
        rows.append(row)
    table = pd.DataFrame(rows)
    bounds = ["mean_low", "mean_high", "effective_low", "effective_high"]
    for bound in bounds:
        known = {} if spread is None else spread.set_index("kind")[bound].to_dict()
        table[bound] = table["kind"].map(known).astype(float)
    columns = ["kind", "heads", "mean_abs_r", *bounds[:2], "mean_abs_r_length", "noise", "flagged"]
    columns += ["effective", *bounds[2:], "factors", "first", "next", "next_needed", "clusters"]
    return table[[*columns, "cophenetic", "note"]]


def _overview_note(row: dict, some: bool) -> str:
    if not some:
        return "no two heads to compare"
    hidden = row["heads"] > 3 and row["first"] >= GENERAL
    return "minor factors can't be seen" if hidden else ""


def beyond(table: pd.DataFrame, threshold: float = THRESHOLD) -> pd.Series:
    """Does the whole interval, ``low`` to ``high``, lie beyond ±``threshold``?"""
    return (table["low"] > threshold) | (table["high"] < -threshold)
