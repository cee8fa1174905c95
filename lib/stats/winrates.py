"""Validity: does a head rank responses as the labels do?

``validity`` is what we stand behind, ``validity_as_published`` what audits print, and
``baselines`` what a head has to be compared with. One row a head (or baseline) and subset.
``outcomes`` keeps who won each comparison, so that models can be compared later. ``tied`` is
the share of ties, which a win rate hides.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats as scipy_stats

from lib.extraction.run import Aligned, align
from lib.stats import permutation, proportions

ALL = "all"
VERDICTS = ("strong", "tracks", "inverted", "chance", "inconclusive", "undefined")
STRONG = 0.65
CHANCE = (0.45, 0.55)
POWER = 0.8
HEAD, SCORE, FINAL = "head", "score", "final score"  # kinds of rule; the model's one score
GATED = "gated score"  # the one score of a model with a gate
LONGER, SHORTER = "longer response", "shorter response"  # baselines that read length alone
RATES = ["wins", "ties", "losses", "win_rate", "low", "high", "boot_low", "boot_high"]


def validity(
    run: xr.Dataset,
    comparisons: pd.DataFrame | None = None,
    *,
    alpha: float = 0.05,
    draws: int = 2000,
    seed: int = 0,
) -> pd.DataFrame:
    """Win rate of every head on every subset, with interval, exact p and verdict.

    Parameters
    ----------
    run
        A Run.
    comparisons
        As in ``items.comparisons``; the run's own by default.
    alpha
        Family-wise level; the interval has level 1 − alpha.
    draws, seed
        Of the bootstrap shown beside the interval.

    Returns
    -------
    pandas.DataFrame
        One row a head and subset, ``"all"`` included: ``head``, ``subset``, ``n``
        (comparisons), ``prompts``, ``wins``, ``ties``, ``losses``, ``win_rate`` =
        (wins + ties/2)/n, ``low`` and ``high`` (``lib.stats.proportions.wilson``),
        ``boot_low`` and ``boot_high``, ``d_z`` (mean gap / sd, ddof 1), ``p`` (exact
        sign-flip on prompts), ``p_adjusted`` (Holm), ``verdict``, ``mde`` and ``note``.

    Notes
    -----
    The family is every distinct head × subset question of the table with a defined p: the
    rows of a run's only subset repeat "all" and count once. Verdicts, in order:

    ============  ===============================================================
    undefined     all ties, a constant head or NaN scores; ``note`` says which
    strong        p_adjusted < alpha, win rate > ½, lower end ≥ .65
    tracks        p_adjusted < alpha, win rate > ½
    inverted      p_adjusted < alpha, win rate < ½
    chance        interval inside [.45, .55]
    inconclusive  none of these
    ============  ===============================================================

    ``mde``, the minimum detectable effect, is (z₁₋α/₂ₘ + z.₈)·SE for a family of m: the
    distance from ½ that would be found with power .8.
    """
    aligned = align(run, comparisons)
    scores = run["score"].values
    return _table(scores, list(run["head"].values), aligned, alpha, draws, seed)


def _table(scores, names, aligned: Aligned, alpha, draws, seed) -> pd.DataFrame:
    gaps = scores[aligned.better].astype(float) - scores[aligned.worse].astype(float)
    subsets = by_subset(aligned)
    parts = [
        _rows(gaps[mask], names, aligned.prompt[mask], subset, alpha, draws, seed)
        for subset, mask in subsets
    ]
    table = pd.concat(parts, ignore_index=True)
    # A subset of every row is the same question as "all".
    repeats = len(subsets) == 2 and bool(subsets[1][1].all())
    distinct = (table["subset"] == ALL) | (not repeats)
    table["p_adjusted"] = np.nan
    table.loc[distinct, "p_adjusted"] = permutation.holm(table.loc[distinct, "p"].to_numpy())
    if repeats:
        table.loc[~distinct, "p_adjusted"] = table.loc[distinct, "p_adjusted"].to_numpy()
    m = max(1, int(table.loc[distinct, "p"].notna().sum()))
    z = scipy_stats.norm.ppf(1 - alpha / (2 * m)) + scipy_stats.norm.ppf(POWER)
    table["mde"] = z * table.pop("se")
    table["verdict"] = verdicts(table, alpha)
    columns = ["head", "subset", "n", "prompts", *RATES, "d_z", "p", "p_adjusted", "verdict"]
    return table[[*columns, "mde", "note"]]


def by_subset(aligned: Aligned) -> list[tuple[str, np.ndarray]]:
    """Names and masks of "all" and of each subset, in order of appearance."""
    named = [(str(name), aligned.subset == name) for name in pd.unique(aligned.subset)]
    everything = np.ones(len(aligned), dtype=bool)
    return [(ALL, everything), *((name, mask) for name, mask in named if name != ALL)]


def _rows(gaps, names, prompt, subset, alpha, draws, seed) -> pd.DataFrame:
    n = len(gaps)
    if n == 0:
        empty = dict.fromkeys([*RATES, "d_z", "p", "se"], np.nan)
        row = {"subset": subset, "n": 0, "prompts": 0, **empty, "note": "no comparisons"}
        return pd.DataFrame([{"head": name, **row} for name in names])
    _, prompt = np.unique(prompt, return_inverse=True)
    sign = np.sign(gaps)
    lost = ~np.isfinite(gaps).all(axis=0)
    wins, losses = (sign > 0).sum(axis=0), (sign < 0).sum(axis=0)
    ties = (sign == 0).sum(axis=0)
    totals, sizes = proportions.by_cluster(np.nan_to_num((sign + 1) / 2), prompt)
    interval = proportions.wilson(totals, sizes, 1 - alpha)
    boot_low, boot_high = proportions.bootstrap(totals, sizes, draws, seed, 1 - alpha)
    p = permutation.sign_flip(2 * totals - sizes[:, None])
    undefined = lost | (ties == n)
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = gaps.std(axis=0, ddof=1) if n > 1 else np.full(len(names), np.nan)
        d_z = np.where(spread > 0, gaps.mean(axis=0) / spread, np.nan)
    table = pd.DataFrame(
        {
            "head": names,
            "subset": subset,
            "n": n,
            "prompts": len(sizes),
            "wins": wins,
            "ties": ties,
            "losses": losses,
            "win_rate": interval.estimate,
            "low": interval.low,
            "high": interval.high,
            "boot_low": boot_low,
            "boot_high": boot_high,
            "d_z": d_z,
            "p": np.where(undefined, np.nan, p),
            "se": np.where(np.isfinite(interval.se), interval.se, np.nan),
            "note": np.select(
                [lost, ties == n], ["scores that are not numbers", "all comparisons tie"], ""
            ),
        }
    )
    table[RATES] = table[RATES].astype(float)
    table.loc[lost, [*RATES, "d_z", "se"]] = np.nan
    return table


def distinct(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of a table by subset that say different things.

    A subset of all rows repeats "all", and is left out; one of some of them is kept.

    Parameters
    ----------
    table
        With columns ``subset`` and ``n``.
    """
    overall = table["subset"] == ALL
    if overall.all() or not overall.any() or table["subset"].nunique() > 2:
        return table
    repeats = table.loc[~overall, "n"].max() == table.loc[overall, "n"].max()
    return table[overall] if repeats else table


def tied(table: pd.DataFrame) -> pd.Series:
    """Share of the comparisons of each row of ``validity``'s table in which the head ties.

    Missing where there is no comparison, or scores are not numbers.
    """
    return table["ties"] / table["n"].where(table["n"] > 0)


def verdicts(table: pd.DataFrame, alpha: float = 0.05) -> np.ndarray:
    """The verdict of each row, from ``p_adjusted``, ``win_rate``, ``low`` and ``high``."""
    found = (table["p_adjusted"] < alpha).to_numpy()
    rate, low, high = (table[column].to_numpy() for column in ("win_rate", "low", "high"))
    return np.select(
        [
            table["p"].isna().to_numpy(),
            found & (rate > 0.5) & (low >= STRONG),
            found & (rate > 0.5),
            found & (rate < 0.5),
            (low >= CHANCE[0]) & (high <= CHANCE[1]),
        ],
        ["undefined", "strong", "tracks", "inverted", "chance"],
        "inconclusive",
    )


def outcomes(run: xr.Dataset, comparisons: pd.DataFrame | None = None) -> pd.DataFrame:
    """Who won each comparison, by every head and by the model's one score.

    Kept beside a page so that two models can be compared on the comparisons that both were
    audited on, without either being run again.

    Returns
    -------
    pandas.DataFrame
        One row a comparison and rule: ``model``, ``dataset``, ``item`` and ``prompt`` (the
        dataset's id and the prompt's hash, the same whatever the model), ``better`` and
        ``worse`` (places within the item), ``criterion``, ``subset``, ``kind`` (``head``, or
        ``score`` for the model's one score), ``rule`` (the head's name; ``final score``) and
        ``outcome`` (1 a win, ½ a tie, 0 a loss, NaN where a score is no number). All but
        places and outcome are categories.
    """
    aligned = align(run, comparisons)
    score = run["score"].values.astype(float)
    rules = [(HEAD, str(name)) for name in run["head"].values]
    if "final" in run:
        score = np.column_stack([score, run["final"].values])
        rules.append((SCORE, FINAL))
    gaps = score[aligned.better] - score[aligned.worse]
    owner = run["item_of_response"].values[aligned.better]
    slot = run["slot"].values
    shared = {
        "item": run["item"].values[owner],
        "prompt": run["prompt_hash"].values[owner],
        "better": slot[aligned.better],
        "worse": slot[aligned.worse],
        "criterion": aligned.criterion,
        "subset": aligned.subset,
    }
    n, k = gaps.shape
    table = pd.DataFrame({name: np.tile(values, k) for name, values in shared.items()})
    table.insert(0, "model", run.attrs["model"])
    table.insert(1, "dataset", run.attrs["dataset"])
    table["kind"] = np.repeat([kind for kind, _ in rules], n)
    table["rule"] = np.repeat([rule for _, rule in rules], n)
    finite = np.isfinite(gaps)
    won = np.where(finite, (np.sign(np.where(finite, gaps, 0)) + 1) / 2, np.nan)
    table["outcome"] = won.T.ravel()
    named = table.columns.difference(["better", "worse", "outcome"])
    return table.astype(dict.fromkeys(named, "category"))


def validity_as_published(run: xr.Dataset, comparisons: pd.DataFrame | None = None) -> pd.DataFrame:
    """The published rule: a head is valid when it wins .65 and a Wilcoxon test agrees.

    Returns
    -------
    pandas.DataFrame
        One row a head and subset: ``head``, ``subset``, ``n``, ``accuracy`` (share of gaps
        above 0, so a tie loses), ``cohens_d`` (mean gap / sd, ddof 0), ``p`` (one-sided
        Wilcoxon signed-rank test of the gaps, zero gaps left out), ``valid``.

    Notes
    -----
    No correction over heads, no interval, no look at the other direction. The test asks
    about the gaps' symmetry and not about the win rate: skewed gaps reject at a win rate
    of ½.
    """
    aligned = align(run, comparisons)
    scores = run["score"].values.astype(float)
    gaps = scores[aligned.better] - scores[aligned.worse]
    rows = []
    for subset, mask in by_subset(aligned):
        for head, gap in zip(run["head"].values, gaps[mask].T, strict=True):
            nonzero = gap[gap != 0]
            finite = np.isfinite(gap).all()
            usable = len(nonzero) > 0 and finite
            test = scipy_stats.wilcoxon(nonzero, alternative="greater") if usable else None
            spread = gap.std() if len(gap) and finite else 0.0
            rows.append(
                {
                    "head": head,
                    "subset": subset,
                    "n": len(gap),
                    "accuracy": (gap > 0).mean() if len(gap) and finite else np.nan,
                    "cohens_d": gap.mean() / spread if spread > 0 else np.nan,
                    "p": test.pvalue if test else np.nan,
                }
            )
    table = pd.DataFrame(rows)
    table["valid"] = (table["accuracy"] >= STRONG) & (table["p"] < 0.05)
    return table


def baselines(
    run: xr.Dataset,
    comparisons: pd.DataFrame | None = None,
    *,
    directions: int = 200,
    seed: int = 0,
    alpha: float = 0.05,
) -> pd.DataFrame:
    """Win rates of what any head should be compared with.

    ``longer response`` and ``shorter response`` (in tokens), ``first component of the
    heads`` (of the standardised scores, signed to agree with most heads), the model's one
    score (``one_score``), and ``random direction``: the mean win rate of ``directions``
    random unit vectors in the hidden state, with their central 95% as low and high. A model
    of one head has no first component, since that is the head.

    Returns
    -------
    pandas.DataFrame
        ``baseline``, ``subset``, ``n``, ``win_rate``, ``low``, ``high``, ``note``. The
        random directions use the comparisons whose states were kept; ``n`` says how many.
    """
    aligned = align(run, comparisons)
    length = run["n_response_tokens"].values.astype(float)
    columns = {LONGER: length, SHORTER: -length}
    component = first_component(run["score"].values) if run.sizes["head"] > 1 else None
    if component is not None:
        columns["first component of the heads"] = component
    name = one_score(run)
    if name:
        columns[name] = run["final"].values
    table = _table(
        np.column_stack(list(columns.values())),
        list(columns),
        aligned,
        alpha,
        draws=1,
        seed=seed,
    )
    table = table.rename(columns={"head": "baseline"})
    table = table[["baseline", "subset", "n", "win_rate", "low", "high", "note"]]
    random = _random_directions(run["hidden"].values, aligned, directions, seed)
    return pd.concat([table, random], ignore_index=True)


def one_score(run: xr.Dataset) -> str:
    """Name of the model's one score beside its heads; empty where it has none of its own.

    ``gated score`` of a model with a gate, else ``final score``; of one head without a gate
    that score is the head.
    """
    if "final" not in run:
        return ""
    if "gate" in run:
        return GATED
    return FINAL if run.sizes["head"] > 1 else ""


def first_component(scores: np.ndarray) -> np.ndarray | None:
    """First principal component of the standardised head scores, shape (responses,).

    Its sign makes the mean loading positive. ``None`` when no head varies.
    """
    scores = scores.astype(float)
    usable = np.isfinite(scores).all(axis=0)
    usable[usable] = scores[:, usable].std(axis=0) > 0
    if not usable.any():
        return None
    z = scores[:, usable]
    z = (z - z.mean(axis=0)) / z.std(axis=0)
    loading = np.linalg.eigh(z.T @ z)[1][:, -1]
    return z @ loading * (1 if loading.sum() >= 0 else -1)


def _random_directions(hidden, aligned: Aligned, directions: int, seed: int) -> pd.DataFrame:
    generator = np.random.default_rng(seed)
    vectors = generator.standard_normal((hidden.shape[1], directions))
    gap = (hidden[aligned.better] - hidden[aligned.worse]).astype(float)
    kept = np.isfinite(gap).all(axis=1)
    rows = []
    for subset, mask in by_subset(aligned):
        sign = np.sign(gap[mask & kept] @ vectors)
        row = {"baseline": "random direction", "subset": subset, "n": len(sign), "note": ""}
        if len(sign):
            rate = ((sign + 1) / 2).mean(axis=0)
            low, high = np.quantile(rate, [0.025, 0.975])
            row |= {"win_rate": rate.mean(), "low": low, "high": high}
        else:
            row |= {"win_rate": np.nan, "low": np.nan, "high": np.nan, "note": "no states kept"}
        rows.append(row)
    return pd.DataFrame(rows)
