"""What published audits claim, computed again from the figures that they give.

``head_names``       the names an audit used beside those of the model card
``rates``            published win rates with their intervals, exact p and verdicts
``rank_pairs``       published rank correlations under their true names
``probe_shares``     the variance share that a published probe accuracy stands for
``geometry_bounds``  what a published regression allows
``random_angles``    angles between random subspaces
``overlaps``         a mean over models with one of them left out
``looks``            accuracies where looks mislead, tested
``crossover``        heads that are right about one part of hh-rlhf, on the other part
``probes_again``     the published probe on runs at hand, beside what the kept variance predicts
``folds_again``      what its folds and components add to accuracies
``conflicts``        cosines of directions where there is no preference
``figures`` is what ``lib.data.published.figures`` returns. ``claims``
puts a verdict on each claim.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats as scipy_stats
from sklearn.model_selection import GroupKFold

from lib.analyses.disentanglement import stats
from lib.analyses.geometry.stats import shape_of
from lib.analyses.separability import stats as separability
from lib.run import align
from lib.stats import permutation, winrates
from lib.stats.correlation import spearman
from lib.stats.subspaces import principal

PARTS = ("hh-rlhf/harmless-base", "hh-rlhf/helpful-base")
TARGETED = "helpfulness, targeted"
FOLDS = 5  # of the published probe
RATES = ["subset", "called", "head", "n", "wins", "ties", "losses", "win_rate", "low", "high"]
RATES += ["p", "p_adjusted", "note", "mde", "verdict"]

Figures = Mapping[str, Any]


# ---- Names and rates ----


def head_names(figures: Figures) -> pd.DataFrame:
    """The audit's names beside the model card's, by position.

    Returns
    -------
    pandas.DataFrame
        ``position`` (from 1), ``called``, ``head`` (``source-label``), ``label_source``,
        ``label``, ``right`` (is the name used the label of the row?) and ``note``: the
        position at which the name used would be right, if any.
    """
    called, heads = figures["audit"]["names"], figures["armorm"]["heads"]
    table = pd.DataFrame(heads, columns=["label_source", "label"])
    table.insert(0, "position", range(1, len(heads) + 1))
    table.insert(1, "called", called)
    table.insert(2, "head", table["label_source"] + "-" + table["label"])
    table["right"] = table["called"] == table["label"]
    rows = table["position"].astype(str).groupby(table["label"]).agg(" and ".join)
    notes = "the label of row " + table["called"].map(rows)
    table["note"] = notes.where(~table["right"]).fillna("")
    return table


def true_names(figures: Figures) -> dict[str, str]:
    """The audit's name of each head → its true one."""
    table = head_names(figures)
    return dict(zip(table["called"], table["head"], strict=True))


def rates(figures: Figures) -> pd.DataFrame:
    """Every published win rate of the audit whose number of pairs is known.

    Returns
    -------
    pandas.DataFrame
        ``subset`` (which evaluation), ``called``, ``head`` (true name), ``n``, ``wins`` (the
        nearest whole number), ``ties`` (0: none were published), ``losses``, ``win_rate``
        (as published), ``low`` and ``high`` (Wilson, 95%), ``p`` (exact binomial,
        two-sided), ``p_adjusted``, ``mde``, ``verdict`` (as ``lib.stats.winrates.verdicts``)
        and ``note`` (when no whole number of wins gives the published rate, and what was
        assumed).

    Notes
    -----
    Pairs count as independent, since no prompts were published. ``p_adjusted`` is p times the
    number of heads (Bonferroni): valid whatever the unpublished heads show, where Holm would
    need them. ``mde`` is as in ``lib.stats.winrates``.
    """
    audit = figures["audit"]
    bench, targeted = audit["rewardbench"], audit["helpfulness_targeted"]
    entries = [
        *(("hh-rlhf", name, audit["hh"]["n"], r) for name, r in audit["hh"]["rates"].items()),
        *(("RewardBench", name, bench["n"], r) for name, r in bench["rates"].items()),
        *((s, "safety", n, r) for s, (n, r) in bench["safety_by_subset"].items()),
        *(("TYPE A", k, audit["type_a"]["n"], r) for k, r in audit["type_a"]["rates"].items()),
        *(("TYPE B", name, n, r) for name, (r, n) in audit["type_b"].items() if n),
        *((TARGETED, name, targeted["n"], r) for name, r in targeted["rates"].items()),
    ]
    heads = true_names(figures)
    table = pd.DataFrame(entries, columns=["subset", "called", "n", "win_rate"])
    table["wins"] = (table["win_rate"] * table["n"]).round().astype(int)
    tests = list(map(scipy_stats.binomtest, table["wins"], table["n"]))
    table = table.assign(
        head=table["called"].map(heads),
        ties=0,
        losses=table["n"] - table["wins"],
        p=[test.pvalue for test in tests],
        note=[
            "; ".join(
                ["no whole number of wins gives this rate"] * (not reachable(row.win_rate, row.n))
                + [targeted["note"]] * (row.subset == TARGETED)
            )
            for row in table.itertuples()
        ],
    )
    intervals = [test.proportion_ci(method="wilson") for test in tests]
    table[["low", "high"]] = [[found.low, found.high] for found in intervals]
    table["p_adjusted"] = (len(heads) * table["p"]).clip(upper=1.0)
    alone = [((1, n),) for n in table["n"]]
    table["mde"] = permutation.departures(alone, table["n"], 0.05 / len(heads), winrates.POWER)
    table["verdict"] = winrates.verdicts(table)
    return table[RATES]


def reachable(rate: float, n: int, decimals: int = 3) -> bool:
    """Does some whole number of wins out of n round to this rate?"""
    half = 0.5 * 10**-decimals + 1e-12
    return math.floor((rate + half) * n) >= math.ceil((rate - half) * n)


def paired_p(first: int, second: int, n: int) -> tuple[float, float]:
    """Smallest and largest two-sided exact p of a paired comparison of two win counts.

    Two heads scored the same n pairs and won ``first`` and ``second`` of them. Of the pairs
    that one wins alone, x and y, only x − y is known. The exact test of McNemar (1947) is
    binomial on x of x + y. y lies between 0 and the smaller of ``second`` and n − ``first``
    (for first ≥ second), and p grows with y.
    """
    first, second = max(first, second), min(first, second)
    either = ((first - second + y, first - second + 2 * y) for y in (0, min(second, n - first)))
    low, high = (scipy_stats.binomtest(x, both).pvalue if both else 1.0 for x, both in either)
    return low, high


# ---- Correlations, probes, geometry ----


def rank_pairs(figures: Figures) -> pd.DataFrame:
    """Published rank correlations under both names.

    Returns
    -------
    pandas.DataFrame
        ``called``, ``other_called``, ``head``, ``other``, ``rho``, ``renamed`` (is the pair
        of labels another one than it was called, in either order?) and ``same_source`` (were
        both labels made by one source?).
    """
    names = head_names(figures).set_index("called")
    table = pd.DataFrame(figures["audit"]["spearman"], columns=["called", "other_called", "rho"])
    one, two = (names.loc[table[column]].reset_index() for column in ("called", "other_called"))
    table.insert(2, "head", one["head"])
    table.insert(3, "other", two["head"])
    swapped = (one["label"] == two["called"]) & (two["label"] == one["called"])
    table["renamed"] = ~(one["right"] & two["right"] | swapped)
    table["same_source"] = one["label_source"] == two["label_source"]
    return table


def share_of(accuracy: float) -> float:
    """The variance share R² that a median-split probe accuracy stands for.

    A head's score is linear in the state, s = w·h, so a probe on components of h can only
    miss what they drop. If s and its projection are jointly normal with correlation √R²,
    their signs about the median agree with probability 1 − arccos(√R²)/π (Sheppard, 1899);
    turned around, R² = cos²(π(1 − accuracy)), and 0 at one half or below.
    """
    return math.cos(math.pi * (1 - accuracy)) ** 2 if accuracy > 0.5 else 0.0


def probe_shares(figures: Figures) -> pd.DataFrame:
    """Published probe accuracies: ``called``, ``head``, ``accuracy``, ``sd``, ``share`` with
    ``low`` and ``high`` (one sd of the accuracy either side).
    """
    table = pd.DataFrame.from_dict(
        figures["audit"]["probes"], orient="index", columns=["accuracy", "sd"]
    ).reset_index(names="called")
    table.insert(1, "head", table["called"].map(true_names(figures)))
    for column, sds in {"share": 0, "low": -1, "high": 1}.items():
        table[column] = (table["accuracy"] + sds * table["sd"]).map(share_of)
    return table


def largest_rms(slope: float, intercept: float, r2: float, gap: float) -> float:
    """Largest RMS correlation that a regression of correlations on cosines allows.

    Least squares of r on c with slope b, intercept a and R² passes through the means and
    splits the variance: mean(r) = a + b·m with m = mean(c), and var(r) = b² var(c)/R². With g
    the RMS of c, var(c) = g² − m², so

        mean(r²) = (a + b m)² + b² (g² − m²)/R²,   −g ≤ m ≤ g.

    In m this is a parabola that opens downwards (its coefficient is b²(1 − 1/R²) ≤ 0) with
    vertex m* = a R²/(b (1 − R²)); its maximum over the allowed m is at m* or at the nearer
    end. The argument holds for signed values and for absolute ones alike.
    """
    vertex = intercept * r2 / (slope * (1 - r2)) if r2 < 1 else math.copysign(gap, intercept)
    m = min(max(vertex, -gap), gap)
    return math.sqrt((intercept + slope * m) ** 2 + slope**2 * (gap**2 - m**2) / r2)


def smallest_gap(slope: float, intercept: float, r2: float, rms_r: float) -> float:
    """Smallest RMS cosine under which such a regression allows an RMS correlation.

    ``largest_rms`` grows with g, so it is turned around. While g ≤ |m*| the maximum is
    |a| + |b| g; beyond, it is a²/(1 − R²) + b² g²/R² (the parabola at its vertex).
    """
    a, b = abs(intercept), abs(slope)
    if rms_r <= a:
        return 0.0
    near = (rms_r - a) / b
    if r2 == 1 or near <= a * r2 / (b * (1 - r2)):
        return near
    return math.sqrt(r2 * (rms_r**2 - a**2 / (1 - r2))) / b


def geometry_bounds(figures: Figures) -> pd.DataFrame:
    """What the published regression allows, beside what was published.

    Returns
    -------
    pandas.DataFrame
        ``quantity``, ``value`` with ``low`` and ``high`` (over all roundings of the figures)
        and ``published``. ``largest RMS correlation`` at the published RMS cosine, beside
        the published mean |r|, which an RMS can't be below; ``smallest RMS cosine`` at that
        mean; ``mean cosine`` (m = (mean|r| − a)/b, if the regression is of absolute values:
        an RMS can't be below it either); beside the RMS cosine of the audit. Then the RMS
        cosine of the independent picture, with its reading error.
    """
    geometry, mean_r = figures["audit"]["geometry"], figures["audit"]["disentanglement"]["mean_abs"]
    given = (geometry["slope"], geometry["intercept"], geometry["r2"], geometry["gap"], mean_r)
    halves = (0.0005, 0.0005, 0.005, 0.0005, 0.0005)

    def over(function):
        corners = [
            function(*(v + s * h for v, s, h in zip(given, signs, halves, strict=True)))
            for signs in itertools.product((-1, 1), repeat=len(given))
        ]
        return {"value": function(*given), "low": min(corners), "high": max(corners)}

    picture, read = figures["cosines"]["rms"], figures["cosines"]["tolerance"]
    gap = geometry["gap"]
    return pd.DataFrame(
        [
            {"quantity": "largest RMS correlation", "published": mean_r}
            | over(lambda b, a, r2, g, _: largest_rms(b, a, r2, g)),
            {"quantity": "smallest RMS cosine", "published": gap}
            | over(lambda b, a, r2, _, r: smallest_gap(b, a, r2, r)),
            {"quantity": "mean cosine", "published": gap}
            | over(lambda b, a, r2, g, r: (r - a) / b),
            {"quantity": "RMS cosine of the picture", "published": gap}
            | {"value": picture, "low": picture - read, "high": picture + read},
        ]
    )[["quantity", "value", "low", "high", "published"]]


def random_angles(figures: Figures, *, draws: int = 20, seed: int = 0) -> pd.DataFrame:
    """Principal angles of a random subspace of the heads' size with another.

    Returns
    -------
    pandas.DataFrame
        ``against`` (dimensions of the other subspace: as many as heads, and the audit's
        principal components), ``smallest`` (mean over draws of the smallest angle),
        ``lowest`` (the smallest of all draws), ``mean``, ``largest`` (of all draws), degrees.

    Notes
    -----
    By symmetry the other subspace may be that of the first coordinates.
    """
    heads, features = figures["armorm"]["checkpoint"]["regression_layer"]
    others = (heads, figures["audit"]["pca"]["components"])
    return _random_angles(heads, features, others, draws, seed).copy()


@functools.lru_cache  # a page draws them for a table and for a claim
def _random_angles(
    heads: int, features: int, others: tuple[int, ...], draws: int, seed: int
) -> pd.DataFrame:
    generator = np.random.default_rng(seed)
    rows = []
    for against in others:
        basis = np.eye(against, features)
        drawn = [
            shape_of(generator.standard_normal((1, heads, features)), basis) for _ in range(draws)
        ]
        small = np.concatenate([one["angle_smallest"] for one in drawn])
        rows.append(
            {
                "against": against,
                "smallest": small.mean(),
                "lowest": small.min(),
                "mean": np.mean([one["angle_mean"] for one in drawn]),
                "largest": np.max([one["angle_largest"] for one in drawn]),
            }
        )
    return pd.DataFrame(rows)


# ---- Alignment tension ----


def overlaps(figures: Figures) -> pd.DataFrame:
    """Mean Jaccard overlaps with and without gpt2-large.

    Returns
    -------
    pandas.DataFrame
        ``sets``, ``published`` (over all models), ``recomputed`` and ``without`` (from the
        overlaps of single models, where they were published), ``published_without`` and
        ``implied``: what gpt2-large must have had, k·mean − (k − 1)·mean without, with
        ``low`` and ``high`` over both roundings.
    """
    tension = figures["tension"]
    models = pd.Series(tension["overlap_by_model"])
    k = len(models)
    table = pd.DataFrame({"published": tension["overlap"]})
    table["recomputed"] = pd.Series({"helpful_harmless": models.mean()})
    table["without"] = pd.Series({"helpful_harmless": models.drop("gpt2-large").mean()})
    table["published_without"] = pd.Series(tension["overlap_without_gpt2_large"])
    table["implied"] = k * table["published"] - (k - 1) * table["published_without"]
    half = k * 0.00005 + (k - 1) * 0.0005
    table["low"], table["high"] = table["implied"] - half, table["implied"] + half
    return table.rename(index=lambda sets: sets.replace("_", " and ")).reset_index(names="sets")


def top_share(importance: np.ndarray, share: float, *, capped: bool) -> np.ndarray:
    """Which neurons are in the top share, as a mask.

    ``capped`` takes exactly ⌈share·n⌉, ties broken by position. Otherwise, as published:
    values below 0 are set to 0, and all that are ``>=`` the quantile are taken; where no
    more than ``share`` of the values are positive that quantile is 0, and all are.
    """
    importance = np.asarray(importance, float)
    n = len(importance)
    if not capped:
        clamped = np.maximum(importance, 0)
        return clamped >= np.quantile(clamped, 1 - share)
    mask = np.zeros(n, bool)
    mask[np.argsort(-importance, kind="stable")[: math.ceil(round(share * n, 6))]] = True
    return mask


def jaccard(one: np.ndarray, other: np.ndarray) -> float:
    """|A ∩ B| / |A ∪ B| of two masks."""
    return float((one & other).sum() / (one | other).sum())


def clamped_overlap(figures: Figures, seed: int = 0) -> tuple[int, float]:
    """Size of a published "top share" where few activations are positive, and its Jaccard
    overlap with a set that has the right size.
    """
    neurons, share = figures["tension"]["gpt2_large"]["neurons"], figures["tension"]["top_share"]
    generator = np.random.default_rng(seed)
    mostly_negative = generator.standard_normal(neurons) + scipy_stats.norm.ppf(share / 2)
    everything = top_share(mostly_negative, share, capped=False)
    ordinary = top_share(generator.standard_normal(neurons), share, capped=True)
    return int(everything.sum()), jaccard(everything, ordinary)


def looks(figures: Figures) -> pd.DataFrame:
    """Accuracies on LLMBar's adversarial subsets, each and all together, against one half.

    Returns
    -------
    pandas.DataFrame
        ``model``, ``backbone``, ``subset`` (``winrates.ALL`` for all of them), ``n`` (pairs, from
        LLMBar), ``rate`` (percent, as published), ``wins`` (the nearest whole number), ``p``
        (exact binomial, two-sided) and ``p_adjusted`` (Holm over the backbones and subsets of a
        model; of all subsets together, over its backbones).

    Notes
    -----
    The rates are multiples of 1/(3n), as means over three seeds are. Seeds share their pairs, so
    a mean counts as one run of n pairs, and the test is on the careful side.
    """
    pairs = figures["llmbar"]["pairs"]
    rows = [
        (model, backbone, subset, n, accuracy[subset])
        for backbone, models in figures["tension"]["accuracy"].items()
        for model, accuracy in models.items()
        for subset, n in pairs.items()
    ]
    one = pd.DataFrame(rows, columns=["model", "backbone", "subset", "n", "rate"])
    one["wins"] = (one["rate"] / 100 * one["n"]).round().astype(int)
    together = one.groupby(["model", "backbone"], sort=False)[["n", "wins"]].sum().reset_index()
    together = together.assign(subset=winrates.ALL, rate=100 * together["wins"] / together["n"])
    tables = []
    for table in (one, together):
        p = [test.pvalue for test in map(scipy_stats.binomtest, table["wins"], table["n"])]
        table = table.assign(p=p)
        adjusted = table.groupby("model")["p"].transform(lambda p: permutation.holm(p.to_numpy()))
        tables.append(table.assign(p_adjusted=adjusted))
    columns = ["model", "backbone", "subset", "n", "rate", "wins", "p", "p_adjusted"]
    return pd.concat(tables, ignore_index=True)[columns]


# ---- Runs at hand ----


def crossover(runs: Sequence[xr.Dataset]) -> pd.DataFrame:
    """Win rates of the heads on both parts of hh-rlhf.

    Returns
    -------
    pandas.DataFrame
        ``head``, ``dataset``, ``n``, ``win_rate``, ``low``, ``high``, ``verdict``,
        ``length`` and ``note``; no row where a part's run is missing.
    """
    columns = ["head", "dataset", "n", "win_rate", "low", "high", "verdict", "length", "note"]
    found = {run.attrs["dataset"]: run for run in runs}
    if not all(part in found for part in PARTS):
        return pd.DataFrame(columns=columns)
    tables = []
    for part in PARTS:
        table = winrates.validity(found[part], draws=1)
        tables.append(table[table["subset"] == winrates.ALL].assign(dataset=part))
    return pd.concat(tables, ignore_index=True)[columns]


def crossed(table: pd.DataFrame) -> pd.DataFrame:
    """For each part, the head that follows people best there: ``head``, ``part``, ``own``
    (its win rate) with ``own_low`` and ``own_high``, ``length`` (what it owes to that),
    ``dataset`` (the other part), ``other`` (on that) with ``low`` and ``high``. From ``crossover``.
    """
    follows = table[table["verdict"].isin(["strong", "tracks"])].sort_values(
        "win_rate", ascending=False, kind="stable"
    )
    names = {"dataset": "part", "win_rate": "own", "low": "own_low", "high": "own_high"}
    best = follows.drop_duplicates("dataset").rename(columns=names)
    told = best[["head", *names.values(), "length"]]
    both = told.merge(table.drop(columns="length"), on="head")
    found = both[both["part"] != both["dataset"]].rename(columns={"win_rate": "other"})
    order = list(dict.fromkeys(table["dataset"]))
    found = found.sort_values("part", key=lambda parts: parts.map(order.index), kind="stable")
    columns = ["head", *names.values(), "length", "dataset", "other", "low", "high"]
    return found[columns].reset_index(drop=True)


def probed(runs: Sequence[xr.Dataset], components: int, seed: int) -> list[pd.DataFrame]:
    """The published probe on each run, what ``probes_again`` and ``folds_again`` begin with."""
    return [
        separability.separability_as_published(
            run, components=(components,), folds=FOLDS, seed=seed
        )
        for run in runs
    ]


def probes_again(
    runs: Sequence[xr.Dataset],
    *,
    components: int = 50,
    seed: int = 0,
    found: Sequence[pd.DataFrame] | None = None,
) -> pd.DataFrame:
    """The published probe on heads of the runs, beside what the kept variance predicts.

    Parameters
    ----------
    found
        From ``probed`` with the same options; computed by default.

    Returns
    -------
    pandas.DataFrame
        ``dataset``, ``head``, ``components``, ``accuracy``, ``share`` (R² of the head on the
        components) and ``predicted`` accuracy; rows without numbers left out.
    """
    columns = ["dataset", "head", "components", "accuracy", "share", "predicted"]
    tables = []
    found = probed(runs, components, seed) if found is None else found
    for run, probe in zip(runs, found, strict=True):
        kept = separability.ceiling(run, components=(components,))
        both = probe.merge(kept, on=["head", "components"], suffixes=("", "_kept"))
        both = both.dropna(subset=["accuracy", "share"]).assign(dataset=run.attrs["dataset"])
        tables += [both[columns]] * bool(len(both))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=columns)


def folds_again(
    runs: Sequence[xr.Dataset],
    *,
    components: int = 50,
    seed: int = 0,
    found: Sequence[pd.DataFrame] | None = None,
) -> pd.DataFrame:
    """The published probe's accuracy, and the same probe's on prompts that it never saw.

    Published folds are over rows and the components those of all rows. Held out, folds keep
    the responses to a prompt together, and components are those of the fitting rows.

    Parameters
    ----------
    found
        As in ``probes_again``.

    Returns
    -------
    pandas.DataFrame
        ``dataset``, ``head``, ``accuracy``, ``held_out``; rows without numbers left out.
    """
    columns = ["dataset", "head", "accuracy", "held_out"]
    tables = []
    found = probed(runs, components, seed) if found is None else found
    for run, table in zip(runs, found, strict=True):
        hidden = run["hidden"].values.astype(float)
        kept = np.isfinite(hidden).all(axis=1)
        prompt = run["prompt_hash"].values[run["item_of_response"].values][kept]
        if len(np.unique(prompt)) < FOLDS:
            continue
        usable = table["accuracy"].notna().to_numpy()
        if usable.any():
            score = run["score"].values[kept][:, usable].astype(float)
            above = score > np.median(score, axis=0)
            held_out = _held_out(hidden[kept], above, prompt, components, seed)
            table = table[usable].assign(held_out=held_out, dataset=run.attrs["dataset"])
            tables.append(table[columns])
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=columns)


def _held_out(hidden, above, prompt, components, seed) -> np.ndarray:
    """Accuracy of every head's probe over folds by prompt, shape (heads,)."""
    right = np.zeros(above.shape[1])
    splitter = GroupKFold(FOLDS, shuffle=True, random_state=seed)
    for fit, judge in splitter.split(hidden, groups=prompt):
        middle = hidden[fit].mean(axis=0)
        x = (hidden - middle) @ principal(hidden[fit] - middle)[0][:components].T
        right += [separability.median_probe(x, label, fit, judge) for label in above.T]
    return right / FOLDS


def levels(runs: Sequence[xr.Dataset]) -> pd.DataFrame:
    """Correlations of every two heads as published, within items and apart.

    Returns
    -------
    pandas.DataFrame
        ``dataset``, ``rho`` (mean |Spearman| over all responses), ``within`` (mean |r| within
        items) and ``largest`` (difference of one pair).
    """
    rows = []
    for run in runs:
        upper = np.triu_indices(run.sizes["head"], 1)
        rho = spearman(run["score"].values)[upper]
        parts = stats.components(stats.prepare(run))
        within = stats.correlation(parts["within"])[0][upper]
        both = np.isfinite(rho) & np.isfinite(within)
        if both.any():
            rho, within = rho[both], within[both]
            rows.append(
                {
                    "dataset": run.attrs["dataset"],
                    "rho": np.abs(rho).mean(),
                    "within": np.abs(within).mean(),
                    "largest": np.abs(rho - within).max(),
                }
            )
    columns = ["dataset", "rho", "within", "largest"]
    return pd.DataFrame(rows, columns=columns)


def conflicts(
    figures: Figures, runs: Sequence[xr.Dataset], *, draws: int = 2_000, seed: int = 0
) -> pd.DataFrame:
    """Cosines of directions of pairs whose better and worse response were exchanged at random.

    Each draw takes as many pairs as a published concept has for each of two directions, from
    prompts of a run, and exchanges each with probability one half: no preference is left.

    Returns
    -------
    pandas.DataFrame
        ``dataset`` and ``share`` of the cosines that are called aligned or in conflict; runs
        without states of enough pairs left out.
    """
    given = figures["reward_lens"]["conflict"]
    size, generator, rows = given["pairs"], np.random.default_rng(seed), []
    for run in runs:
        aligned, hidden = align(run), run["hidden"].values.astype(float)
        difference = hidden[aligned.better] - hidden[aligned.worse]
        usable = np.isfinite(difference).all(axis=1) & difference.any(axis=1)
        first = np.unique(aligned.prompt[usable], return_index=True)[1]  # one pair a prompt
        difference = difference[usable][first]
        if len(difference) < 4 * size:
            continue
        chosen = np.stack(
            [generator.choice(len(difference), 2 * size, replace=False) for _ in range(draws)]
        )
        exchanged = difference[chosen] * generator.choice([-1.0, 1.0], (*chosen.shape, 1))
        one, other = exchanged[:, :size].mean(axis=1), exchanged[:, size:].mean(axis=1)
        length = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
        cosine = (one * other).sum(axis=1)[length > 0] / length[length > 0]
        share = (np.abs(cosine) >= given["orthogonal"]).mean()
        rows.append({"dataset": run.attrs["dataset"], "share": share})
    return pd.DataFrame(rows, columns=["dataset", "share"])


def lengths(figures: Figures, runs: Sequence[xr.Dataset]) -> pd.DataFrame:
    """What truncation and alignment from the left would do to the runs' responses.

    Returns
    -------
    pandas.DataFrame
        ``dataset``, ``cut`` (share of responses that end beyond the published truncation, in
        this model's tokens), ``better_longer`` and ``worse_longer`` (shares of comparisons in
        which that response is the longer one: patched into, its last token is never reached).
    """
    most = figures["audit"]["prompts"]["tokens"]
    rows = []
    for run in runs:
        tokens = run["n_response_tokens"].values
        whole = run["n_prompt_tokens"].values[run["item_of_response"].values] + tokens
        aligned = align(run)
        better, worse = tokens[aligned.better], tokens[aligned.worse]
        if len(tokens) and len(better):
            rows.append(
                {
                    "dataset": run.attrs["dataset"],
                    "cut": (whole > most).mean(),
                    "better_longer": (better > worse).mean(),
                    "worse_longer": (worse > better).mean(),
                }
            )
    return pd.DataFrame(rows, columns=["dataset", "cut", "better_longer", "worse_longer"])
