"""Protocols: the same heads under different evaluations.

``protocol_matrix``      win rates of heads by protocol, with intervals
``variance_components``  how much of their spread is the heads', the protocols', or neither's
``leave_one_out``        the same with each protocol left out
``changing``             heads that go with the labels here and against them there
``longer``               what the longer response alone wins under each protocol
``sources``              what each protocol is made of

A protocol is one run, or each subset of a single run. A dataset in which each criterion varies a
thing of its own asks no one question, so it is no protocol (``left_out``).

On arrays: ``anova`` (components from a table of cells and the sampling noise in it) and ``noise``.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr
from scipy.stats import norm

from lib.data.asks import kind
from lib.errors import DataError
from lib.run import IDENTICAL, Aligned, align
from lib.stats import permutation, proportions
from lib.stats.winrates import LONGER, POWER

SCALES = ("logit", "win rate")
COMPONENTS = ("head", "protocol", "interaction")
ROUNDING = 1e-9  # components of tables without any noise are only nearly 0
GENERAL = 8  # protocols below which nothing is said about protocols in general
MATRIX = ("protocol", "kind", "head", "n", "prompts", "wins", "ties", "losses", "win_rate")
MATRIX += ("low", "high", "p", "p_adjusted", "mde", "logit", "note")
PARTS = ("scale", "component", "estimate", "low", "high", "share", "share_low", "share_high")
PARTS += ("found", "below", "mde", "naive", "naive_share", "sampling", "heads", "protocols", "note")
CHANGING = ("head", "best", "worst", "needs")
TARGETED = "targeted"


def protocol_matrix(runs: Sequence[xr.Dataset], *, alpha: float = 0.05) -> pd.DataFrame:
    """Win rate of every head under every protocol.

    Parameters
    ----------
    runs
        Of one model, one a protocol, those of ``left_out`` aside; the subsets of a single run
        otherwise.
    alpha
        The interval has level 1 − alpha, uncorrected.

    Returns
    -------
    pandas.DataFrame
        One row a protocol and head that all runs have: ``protocol``, ``kind`` (holistic,
        structured, targeted or ""), ``head``, ``n``, ``prompts``, ``wins``, ``ties``,
        ``losses``, ``win_rate`` (ties half), ``low`` and ``high``
        (``lib.stats.proportions.wilson``), ``p`` (exact sign-flip on prompts, against ½),
        ``p_adjusted`` (Holm over all cells with a p), ``mde`` (smallest distance from ½ that
        the exact test finds with power .8 at α/m; NaN for none), ``logit`` of
        (wins + ½)/(n + 1), ``note``.

    Raises
    ------
    DataError
        Without runs, when they are of several models, share no head, or one is given twice.
    """
    rows = []
    for cell in _cells(runs):
        with np.errstate(invalid="ignore"):  # a protocol may hold no comparison
            interval = proportions.wilson(cell.totals, cell.sizes, 1 - alpha)
        n = cell.sizes.sum()
        wins, ties = (cell.sign > 0).sum(axis=0), (cell.sign == 0).sum(axis=0)
        net = 2 * cell.totals - cell.sizes[:, None]
        tested = len(cell.sizes) > 1
        rates = {
            "p": np.where(cell.tied, np.nan, permutation.sign_flip(net)) if tested else np.nan,
            "wins": wins,
            "ties": ties,
            "losses": n - wins - ties,
            "win_rate": interval.estimate,
            "low": interval.low,
            "high": interval.high,
            "logit": _logit(cell.totals.sum(axis=0), n),
        }
        rows.append(
            pd.DataFrame(
                {
                    "protocol": cell.name,
                    "kind": cell.kind,
                    "head": cell.heads,
                    "n": int(n),
                    "prompts": len(cell.sizes),
                    **{k: np.where(cell.lost, np.nan, v) for k, v in rates.items()},
                    "flips": permutation.flips(np.where(cell.lost, 0, net)),
                    "note": _notes(cell),
                }
            )
        )
    table = pd.concat(rows, ignore_index=True)
    table["p_adjusted"] = permutation.holm(table["p"].to_numpy(float))
    m = max(1, int(table["p"].notna().sum()))
    table["mde"] = permutation.departures(list(table["flips"]), table["n"], alpha / m, POWER)
    return table[list(MATRIX)]


def changing(matrix: pd.DataFrame, alpha: float = 0.05) -> pd.DataFrame:
    """Heads shown above one half under one protocol and below it under another.

    Parameters
    ----------
    matrix
        With ``head``, ``protocol``, ``win_rate`` and ``p_adjusted``, all of its cells one family.

    Returns
    -------
    pandas.DataFrame
        One row such a head: ``head``; ``best`` and ``worst``, its highest and its lowest shown
        cell, as row numbers of ``matrix``; ``needs``, the protocols without any one of which it
        isn't shown to change sides. What is left keeps its correction, so that all that is said
        of sides is of one family.
    """
    rows = []
    for head, own in matrix.reset_index(drop=True).groupby("head", sort=False):
        own = own[own["p_adjusted"] < alpha]
        above, below = own[own["win_rate"] > 0.5], own[own["win_rate"] < 0.5]
        if len(above) and len(below):
            ends = own["win_rate"].agg(["idxmax", "idxmin"])
            needs = [side["protocol"].iloc[0] for side in (above, below) if len(side) == 1]
            rows.append((head, *ends, needs))
    return pd.DataFrame(rows, columns=list(CHANGING))


def longer(runs: Sequence[xr.Dataset], *, alpha: float = 0.05) -> pd.DataFrame:
    """Share of the comparisons of each protocol that the longer response wins.

    What any head has to be compared with: a protocol on which people chose the longer response
    can't tell a head from a count of tokens. It is no head, so no test is made of it and it is
    in no family.

    Parameters
    ----------
    runs, alpha
        As in ``protocol_matrix``.

    Returns
    -------
    pandas.DataFrame
        ``protocol_matrix``'s columns, one row a protocol, with ``longer response`` as ``head``
        and no ``p``, ``p_adjusted`` or ``mde``.
    """
    table = protocol_matrix([_length(run) for run in runs], alpha=alpha)
    table[["p", "p_adjusted", "mde"]] = np.nan
    return table


def _length(run: xr.Dataset) -> xr.Dataset:
    """The run with the tokens of a response as its one head."""
    tokens = run["n_response_tokens"].values.astype(float)[:, None]
    one = run.isel(head=[0]).assign_coords(head=[LONGER])
    return one.assign(score=(("response", "head"), tokens))


def variance_components(
    runs: Sequence[xr.Dataset], *, draws: int = 2000, seed: int = 0, alpha: float = 0.05
) -> pd.DataFrame:
    """Variance of win rates between heads, between protocols, and of their interaction.

    Parameters
    ----------
    runs
        As in ``protocol_matrix``.
    draws, seed
        Of the bootstrap over prompts.
    alpha
        The interval has level 1 − alpha.

    Returns
    -------
    pandas.DataFrame
        One row a scale (``logit``, ``win rate``) and component (``head``, ``protocol``,
        ``interaction``, ``total``): ``estimate`` (may be below 0) with ``low`` and ``high``,
        ``share`` of the total, signed as the estimate is (NaN when the total isn't above 0), with
        its bounds (NaN when the total's interval isn't above 0),
        ``found`` (is ``low`` above 0? An interaction only when it is on both scales), ``below``
        (is ``high`` below 0, on both scales?), ``mde``
        (the component that this would have been found of with power .8, to first order),
        ``naive`` and ``naive_share`` (sampling noise not taken out), ``sampling`` (what was
        taken out), ``heads``, ``protocols`` and ``note``.

    Notes
    -----
    Closed-form two-way analysis of variance of the cells y[h, p]. With one cell each there is
    no residual: what is left besides sampling noise is interaction. With V̄ the mean sampling
    variance of a cell and C̄ the mean sampling covariance of two heads under one protocol (they
    score the same prompts), σ²_int = MS_int − (V̄ − C̄), σ²_prot = (MS_prot − MS_int)/H − C̄ and
    σ²_head = (MS_head − MS_int)/P; prompts that protocols share add two more terms, see
    ``noise``. The bootstrap's tables hold that noise a second time, so it is taken out twice.
    σ²_head is the mean covariance, over heads, of two protocols' columns, and σ²_prot that of two
    heads' rows: below 0 where what wins more here wins less there. Estimates and shares keep
    their sign.

    Protocols are fixed: this is about the P at hand, and these heads; the interval is over
    prompts alone.
    """
    cells, kept, note = _complete(runs)
    shape = {"heads": int(kept.sum()), "protocols": len(cells)}
    if min(shape.values()) < 2:
        return _undefined(shape, "needs two heads and two protocols with at least two prompts each")
    data = _Totals(cells, kept)
    table = _components(data, data.resample(draws, seed), alpha)
    return table.assign(note=note, **shape)[list(PARTS)]


def leave_one_out(
    runs: Sequence[xr.Dataset], *, draws: int = 2000, seed: int = 0, alpha: float = 0.05
) -> pd.DataFrame:
    """``variance_components`` with each protocol left out in turn, of the same heads.

    Returns
    -------
    pandas.DataFrame
        ``without`` (the protocol left out), then the columns of ``variance_components``. No rows
        for fewer than three protocols or two heads.
    """
    cells, kept, note = _complete(runs)
    if len(cells) < 3 or kept.sum() < 2:
        return pd.DataFrame(columns=["without", *PARTS])
    data = _Totals(cells, kept)
    wins, n = data.resample(draws, seed)
    shape = {"heads": int(kept.sum()), "protocols": len(cells) - 1}
    tables = []
    for p, cell in enumerate(cells):
        rest = np.delete(wins, p, axis=2), np.delete(n, p, axis=1)
        found = _components(data.without(p), rest, alpha)
        tables.append(found.assign(without=cell.name, note=note, **shape))
    return pd.concat(tables, ignore_index=True)[["without", *PARTS]]


def left_out(runs: Sequence[xr.Dataset]) -> list[str]:
    """Datasets that are no protocol beside the others: their criteria are judged one by one."""
    names = [run.attrs["dataset"] for run in runs]
    targeted = [name for name in names if kind(name) == TARGETED]
    return [] if len(targeted) == len(names) else targeted


def sources(runs: Sequence[xr.Dataset]) -> pd.DataFrame:
    """What was compared: a row a run with ``dataset``, ``kind``, ``items``, ``comparisons``,
    ``prompts``, ``left_out`` (items) and ``fingerprint`` of the items.
    """
    return pd.DataFrame(
        [
            {
                "dataset": run.attrs["dataset"],
                "kind": kind(run.attrs["dataset"]),
                "items": run.sizes["item"],
                "comparisons": run.sizes["comparison"],
                "prompts": len(np.unique(run["prompt_hash"].values)),
                "left_out": sum(n for why, n in run.attrs["dropped"].items() if why != IDENTICAL),
                "fingerprint": run.attrs["items"],
            }
            for run in runs
        ]
    )


# ---- From runs to cells ----


@dataclass(frozen=True)
class _Cell:
    """One protocol: wins plus half the ties by prompt, shape (prompts, heads)."""

    name: str
    kind: str
    heads: np.ndarray
    sign: np.ndarray
    totals: np.ndarray
    sizes: np.ndarray
    prompts: np.ndarray  # hashes, shape (prompts,)
    lost: np.ndarray
    tied: np.ndarray


def _cells(runs: Sequence[xr.Dataset]) -> list[_Cell]:
    runs, aside = list(runs), left_out(runs)
    if not runs:
        raise DataError("at least one run", "none", "Name the folders of runs.")
    models = sorted({run.attrs["model"] for run in runs})
    if len(models) > 1:
        raise DataError("runs of one model", ", ".join(models), "Compare one model at a time.")
    shared = [h for h in runs[0]["head"].values if all(h in run["head"].values for run in runs)]
    if not shared:
        raise DataError("a head that all runs have", "none", "Extract them with the same heads.")
    names = [run.attrs["dataset"] for run in runs]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise DataError("each dataset once", f"{twice[0]} twice", "Leave one of the runs out.")
    runs = [run.sel(head=shared) for run in runs if run.attrs["dataset"] not in aside]
    if len(runs) > 1 and kind(runs[0].attrs["dataset"]) != TARGETED:
        return [_cell(run, align(run), run.attrs["dataset"]) for run in runs]
    return [cell for run in runs for cell in _subsets(run, alone=len(runs) == 1)]


def _subsets(run: xr.Dataset, alone: bool) -> list[_Cell]:
    """A protocol a subset, named with its dataset too where there are several runs."""
    aligned, name = align(run), run.attrs["dataset"]
    return [
        _cell(run, _part(aligned, aligned.subset == s), str(s) if alone else f"{name}: {s}")
        for s in dict.fromkeys(aligned.subset.tolist())
    ] or [_cell(run, aligned, name)]


def _part(aligned: Aligned, mask: np.ndarray) -> Aligned:
    fields = ("better", "worse", "prompt", "criterion", "subset")
    return Aligned(*(getattr(aligned, field)[mask] for field in fields))


def _cell(run: xr.Dataset, aligned: Aligned, name: str) -> _Cell:
    gaps = aligned.gaps(run["score"].values)
    sign = np.sign(np.nan_to_num(gaps))
    hashes = run["prompt_hash"].values[run["item_of_response"].values[aligned.better]]
    prompts, prompt = np.unique(hashes, return_inverse=True)
    totals, sizes = proportions.by_cluster((sign + 1) / 2, prompt)
    lost = ~np.isfinite(gaps).all(axis=0) | (len(gaps) == 0)
    tied = (sign == 0).all(axis=0) & ~lost
    heads = run["head"].values.astype(str)
    return _Cell(name, kind(run.attrs["dataset"]), heads, sign, totals, sizes, prompts, lost, tied)


def _notes(cell: _Cell) -> np.ndarray:
    if not len(cell.sizes):
        return np.full(len(cell.heads), "no comparisons")
    reasons = ["scores that are not numbers", "all comparisons tie"]
    return np.select([cell.lost, cell.tied], reasons, "")


# ---- Components ----


def _complete(runs: Sequence[xr.Dataset]) -> tuple[list[_Cell], np.ndarray, str]:
    """Protocols of two prompts or more, which heads have numbers under each, who was left out."""
    cells = _cells(runs)
    heads = cells[0].heads
    cells = [cell for cell in cells if len(cell.sizes) > 1]
    gone = [cell.lost | cell.tied for cell in cells]
    lost = np.any(gone, axis=0) if gone else np.ones(len(heads), bool)
    return cells, ~lost, f"left out: {', '.join(heads[lost])}" if lost.any() else ""


def _components(data: _Totals, resampled, alpha: float) -> pd.DataFrame:
    """Both scales; an interaction, and what is below 0, only where it is so on both."""
    table = pd.concat(
        [_on_scale(data, resampled, scale, alpha).assign(scale=scale) for scale in SCALES],
        ignore_index=True,
    )
    both = table["component"] == "interaction"
    table.loc[both, "found"] = bool(table.loc[both, "found"].all())
    table["below"] = table.groupby("component")["below"].transform("all")
    return table


class _Totals:
    """Cells in one universe of prompts.

    Attributes
    ----------
    wins, n
        Wins plus half the ties, shape (heads, protocols), and rows, shape (protocols,).
    """

    def __init__(self, cells: list[_Cell], kept: np.ndarray):
        self.totals = [cell.totals[:, kept] for cell in cells]
        self.sizes = [cell.sizes for cell in cells]
        names, where = np.unique(
            np.concatenate([cell.prompts for cell in cells]), return_inverse=True
        )
        self.where = np.split(where, np.cumsum([len(size) for size in self.sizes])[:-1])
        self.universe = len(names)
        self.wins = np.stack([total.sum(axis=0) for total in self.totals], axis=-1)
        self.n = np.asarray([size.sum() for size in self.sizes])

    def without(self, protocol: int) -> _Totals:
        """The same universe with one protocol left out."""
        rest = copy(self)
        for name in ("totals", "sizes", "where"):
            setattr(rest, name, [a for p, a in enumerate(getattr(self, name)) if p != protocol])
        rest.wins, rest.n = np.delete(self.wins, protocol, axis=1), np.delete(self.n, protocol)
        return rest

    def influence(self) -> list[np.ndarray]:
        """Of each prompt on each win rate: a (prompts, heads) array a protocol."""
        out = []
        for p, (total, size) in enumerate(zip(self.totals, self.sizes, strict=True)):
            count = len(size)
            rate = self.wins[:, p] / self.n[p]
            out.append((total - size[:, None] * rate) / self.n[p] * np.sqrt(count / (count - 1)))
        return out

    def resample(self, draws: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Wins (draws, heads, protocols) and rows (draws, protocols) of resampled prompts.

        Prompts are drawn within the set of protocols that they occur in, so that a shared
        prompt is drawn once for all of them and each protocol keeps its number of prompts.
        """
        member = np.zeros((self.universe, len(self.sizes)), bool)
        for p, rows in enumerate(self.where):
            member[rows, p] = True
        patterns, pattern = np.unique(member, axis=0, return_inverse=True)
        generator = np.random.default_rng(seed)
        wins = np.zeros((draws, *self.wins.shape))
        n = np.zeros((draws, len(self.n)))
        for k, protocols in enumerate(patterns):
            prompts = np.flatnonzero(pattern.ravel() == k)
            step = max(1, 4_000_000 // len(prompts))
            for start in range(0, draws, step):
                rows = slice(start, min(draws, start + step))
                many = rows.stop - rows.start
                weight = generator.multinomial(
                    len(prompts), np.full(len(prompts), 1 / len(prompts)), size=many
                )
                for p in np.flatnonzero(protocols):
                    place = np.full(self.universe, -1)
                    place[self.where[p]] = np.arange(len(self.where[p]))
                    inside = place[prompts]
                    wins[rows, :, p] += weight @ self.totals[p][inside]
                    n[rows, p] += weight @ self.sizes[p][inside]
        return wins, n


def _logit(wins, n):
    share = (wins + 0.5) / (n + 1)
    return np.log(share / (1 - share))


def _slope(wins, n):
    """Of the smoothed logit, by the win rate."""
    share = (wins + 0.5) / (n + 1)
    return n / (n + 1) / (share * (1 - share))


def _on_scale(data: _Totals, resampled, scale: str, alpha: float) -> pd.DataFrame:
    wins, n = resampled
    if scale == "logit":
        y, again = _logit(data.wins, data.n), _logit(wins, n[:, None, :])
        slope = _slope(data.wins, data.n)
    else:
        y, again = data.wins / data.n, wins / n[:, None, :]
        slope = np.ones_like(y)
    influence = [part * slope[:, p] for p, part in enumerate(data.influence())]
    removed = noise(influence, data.where, data.universe)
    raw = anova(y)
    estimate = raw - removed
    draws = anova(again) - 2 * removed
    tails = [alpha / 2, 1 - alpha / 2]
    low, high = np.quantile(_with_total(draws), tails, axis=0)
    whole, least = estimate.sum(), low[-1]
    shares = estimate / whole if whole > 0 else np.full(3, np.nan)
    bounds = np.full((2, 3), np.nan)
    if least > ROUNDING:  # else some draws divide by next to nothing
        bounds = np.quantile(draws / draws.sum(axis=-1, keepdims=True), tails, axis=0)
    return pd.DataFrame(
        {
            "component": [*COMPONENTS, "total"],
            "estimate": _with_total(estimate),
            "low": low,
            "high": high,
            "share": [*shares, 1.0 if whole > 0 else np.nan],
            "share_low": [*bounds[0], np.nan],
            "share_high": [*bounds[1], np.nan],
            "found": low > ROUNDING,
            "below": high < -ROUNDING,
            "mde": (norm.ppf(1 - alpha / 2) + norm.ppf(POWER)) * _with_total(draws).std(axis=0),
            "naive": _with_total(raw),
            "naive_share": [*_clipped(raw), 1.0],
            "sampling": _with_total(removed),
        }
    )


def anova(y: np.ndarray) -> np.ndarray:
    """Components of a table, sampling noise not taken out.

    Parameters
    ----------
    y
        Shape (…, heads, protocols).

    Returns
    -------
    numpy.ndarray
        (MS_head − MS_int)/P, (MS_prot − MS_int)/H and MS_int: shape (…, 3).

    Notes
    -----
    Two-way analysis of variance without replication (Searle, Casella and McCulloch 1992,
    ch. 4). Mean squares checked against ``statsmodels.stats.anova.anova_lm``.
    """
    heads, protocols = y.shape[-2:]
    mean = y.mean(axis=(-1, -2), keepdims=True)
    row, column = y.mean(axis=-1, keepdims=True), y.mean(axis=-2, keepdims=True)
    ms_head = protocols * ((row - mean) ** 2).sum(axis=(-1, -2)) / (heads - 1)
    ms_protocol = heads * ((column - mean) ** 2).sum(axis=(-1, -2)) / (protocols - 1)
    rest = ((y - row - column + mean) ** 2).sum(axis=(-1, -2))
    ms_rest = rest / ((heads - 1) * (protocols - 1))
    return np.stack(
        [(ms_head - ms_rest) / protocols, (ms_protocol - ms_rest) / heads, ms_rest], axis=-1
    )


def noise(influence: Sequence[np.ndarray], where: Sequence[np.ndarray], universe: int):
    """What sampling of prompts adds to each of ``anova``'s components, shape (3,).

    Parameters
    ----------
    influence
        Of each prompt on each head's cell: a (prompts, heads) array a protocol.
    where
        For each protocol, its prompts as integers below ``universe``.

    Notes
    -----
    V̄ is the mean variance of a cell, C̄ the mean covariance of two heads under one protocol,
    Ē that of one head under two and D̄ that of two heads under two protocols. Sampling adds
    Ē − D̄ to the heads' component, C̄ − D̄ to the protocols' and V̄ − C̄ − Ē + D̄ to the
    interaction; Ē and D̄ are 0 unless protocols share prompts. Means of covariances come
    from sums of squares of sums, so no covariance matrix is made.
    """
    heads, protocols = influence[0].shape[1], len(influence)
    across = np.zeros((universe, heads))
    own = same = 0.0
    for part, rows in zip(influence, where, strict=True):
        across[rows] += part
        own += (part**2).sum()
        same += (part.sum(axis=1) ** 2).sum()
    each, everything = (across**2).sum(), (across.sum(axis=1) ** 2).sum()
    cells, pairs_h, pairs_p = heads * protocols, heads - 1, protocols - 1
    v = own / cells
    c = (same - own) / (cells * pairs_h)
    e = (each - own) / (cells * pairs_p)
    d = (everything - same - each + own) / (cells * pairs_h * pairs_p)
    return np.asarray([e - d, c - d, v - c - e + d])


def _with_total(parts: np.ndarray) -> np.ndarray:
    return np.concatenate([parts, parts.sum(axis=-1, keepdims=True)], axis=-1)


def _clipped(parts: np.ndarray) -> np.ndarray:
    """Shares as published: what is below 0 counts as nothing."""
    above = np.maximum(parts, 0)
    with np.errstate(invalid="ignore"):
        return above / above.sum(axis=-1, keepdims=True)


def _undefined(shape: dict[str, int], note: str) -> pd.DataFrame:
    rows = [
        {
            "scale": scale,
            "component": component,
            "found": False,
            "below": False,
            "note": note,
            **shape,
        }
        for scale in SCALES
        for component in (*COMPONENTS, "total")
    ]
    table = pd.DataFrame(rows)
    for column in PARTS:
        if column not in table:
            table[column] = np.nan
    return table[list(PARTS)]
