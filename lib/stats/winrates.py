"""Validity: does a head rank responses as the labels do?

``validity`` is what we stand behind, ``validity_as_published`` what audits print, and
``baselines`` what a head has to be compared with. One row a head (or baseline) and subset.
``outcomes`` keeps who won each comparison, so that models can be compared later. ``tied`` is
the share of ties, which a win rate hides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike
from scipy import stats as scipy_stats

from lib.data import asks
from lib.run import Aligned, align
from lib.stats import permutation, proportions, relations

ALL = "all"
NAMED_ALL = f"{ALL} (subset)"  # a part of the comparisons that its data set calls "all"
VERDICTS = ("strong", "tracks", "inverted", "chance", "inconclusive", "undefined")
FOUND = VERDICTS[:3]
MEAN = "a mean over criteria of which each asks its own question"
STRONG = 0.65
CHANCE = (0.45, 0.55)
POWER = 0.8
ALIKE = 0.95  # share of comparisons on which a head that chooses as length does agrees with it
HEAD, SCORE, FINAL = "head", "score", "final score"  # kinds of rule; the model's one score
GATED = "gated score"  # the one score of a model with a gate
GATE, NO_GATE = "gate", "this model has no gate"
LONGER, SHORTER = "longer response", "shorter response"  # baselines that read length alone
AS_LENGTH, NO_MORE = "as the {}", "no more than the {}"  # how a head stands to LONGER or SHORTER
RATES = ["wins", "ties", "losses", "win_rate", "low", "high", "boot_low", "boot_high"]
LENGTH = ["agreement", "advantage", "p_length", "length"]


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
        sign-flip on prompts), ``p_adjusted`` (Holm), ``verdict``, ``mde``, ``note``,
        ``relation`` (how the head's name stands to what these labels ask,
        ``lib.stats.relations``), ``claimed`` and ``opposed`` (shares of the comparisons that
        ask what it claims, and its opposite) and, of each head beside the length of responses
        in tokens:

        ==============  ==========================================================
        ``agreement``   share of comparisons on which it chooses as the longer
                        response, or as the shorter if that is more (a tie of one of
                        the two counts half)
        ``advantage``   what it wins more than the longer or the shorter response,
                        whichever wins more; below ½: loses more, whichever loses more
        ``p_length``    of the advantage: exact sign-flip on prompts, paired; Holm
                        over the same family
        ``length``      ``as the longer response`` or ``as the shorter response`` where
                        they agree on .95 or more; ``no more than the …`` where an
                        advantage is asked for (strong, tracks, inverted) and none is
                        shown at alpha; else empty
        ==============  ==========================================================

    Notes
    -----
    The family is every distinct head × subset question of the table with a defined p: the
    rows of a run's only subset repeat "all" and count once. Of a dataset that asks no one
    question as a whole (``lib.data.asks.whole``) "all" is no question beside its criteria: it
    has rates, but no p, and its verdict is undefined. Verdicts, in order:

    ============  ===============================================================
    undefined     all ties, a constant head or NaN scores; ``note`` says which
    strong        p_adjusted < alpha, win rate > ½, lower end ≥ .65
    tracks        p_adjusted < alpha, win rate > ½
    inverted      p_adjusted < alpha, win rate < ½
    chance        interval inside [.45, .55], and mde ≤ .05
    inconclusive  none of these
    ============  ===============================================================

    ``mde``, the minimum detectable effect, is the smallest distance from ½ that the exact test
    finds with power .8 at level α/m, in a family of m, on the prompts that don't tie
    (``lib.stats.permutation.departures``); NaN, for none, where no p can be below α/m.
    """
    aligned = align(run, comparisons)
    length = run["n_response_tokens"].values.astype(float)
    longer = np.sign(aligned.gaps(length))
    scores = run["score"].values
    whole = asks.whole(run.attrs["dataset"])
    table = _table(scores, list(run["head"].values), aligned, longer, alpha, draws, seed, whole)
    asked = relations.table(run, aligned, dict(by_subset(aligned)))  # in the same order
    return table.assign(**{name: asked[name] for name in ("relation", "claimed", "opposed")})


def _table(scores, names, aligned: Aligned, longer, alpha, draws, seed, whole=True) -> pd.DataFrame:
    gaps = aligned.gaps(scores)
    subsets = by_subset(aligned)
    # A subset of every row is the same question as "all".
    repeats = len(subsets) == 2 and bool(subsets[1][1].all())
    parts = [
        _rows(gaps[mask], aligned.prompt[mask], longer[mask], alpha, draws, seed)
        for _, mask in subsets[: 1 if repeats else None]
    ]
    parts, tests = zip(*parts * (1 + repeats), strict=True)
    tests = [test for part in tests for test in part]
    rows = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    subset = np.repeat(np.asarray([name for name, _ in subsets], object), len(names))
    rows |= {"head": np.tile(np.asarray(names, object), len(subsets)), "subset": subset}
    overall = subset == ALL
    if not whole and len(subsets) > 2:
        rows["p"][overall] = rows["p_length"][overall] = np.nan
        rows["note"][overall] = MEAN
        tests = [() if mean else test for mean, test in zip(overall, tests, strict=True)]
    distinct = overall | (not repeats)
    m = max(1, int(np.isfinite(rows["p"][distinct]).sum()))
    for raw, adjusted in (("p", "p_adjusted"), ("p_length", "p_length")):
        found = np.full(len(subset), np.nan)
        found[distinct] = permutation.holm(rows[raw][distinct])
        found[~distinct] = found[distinct] if repeats else np.nan
        rows[adjusted] = found
    rows["mde"] = permutation.departures(tests, rows["n"], alpha / m, POWER)
    rows["verdict"] = verdicts(rows, alpha)
    rows["length"] = _beside(rows, alpha)
    columns = ["head", "subset", "n", "prompts", *RATES, "d_z", "p", "p_adjusted", "verdict"]
    return pd.DataFrame({name: rows[name] for name in [*columns, "mde", "note", *LENGTH]})


def _beside(rows, alpha) -> np.ndarray:
    """The column ``length``."""
    found = np.isin(rows["verdict"], FOUND)
    more = (rows["advantage"] > 0) & (rows["p_length"] < alpha)
    with_longer, over_longer = rows["alike"] == LONGER, rows["rival"] == LONGER
    return np.select(
        [rows["agreement"] >= ALIKE, found & ~more],
        [
            np.where(with_longer, AS_LENGTH.format(LONGER), AS_LENGTH.format(SHORTER)),
            np.where(over_longer, NO_MORE.format(LONGER), NO_MORE.format(SHORTER)),
        ],
        "",
    ).astype(object)


def by_subset(aligned: Aligned) -> list[tuple[str, np.ndarray]]:
    """Names and masks of "all" and of each subset, in order of appearance.

    A data set may call a subset "all" itself. Of all comparisons it is that row; of some of
    them it is ``all (subset)``.
    """
    names = list(map(str, pd.unique(aligned.subset)))
    shown = {name: name for name in names}
    if ALL in names and len(names) > 1:
        shown[ALL] = NAMED_ALL
        while shown[ALL] in names:
            shown[ALL] += " (subset)"
    everything = np.ones(len(aligned), dtype=bool)
    named = [(shown[name], aligned.subset == name) for name in names if shown[name] != ALL]
    return [(ALL, everything), *named]


def _rows(gaps, prompt, longer, alpha, draws, seed) -> tuple[dict, list[permutation.Flips]]:
    """Columns of a subset's rows, one a head, nothing adjusted, and what each test flips."""
    n, heads = gaps.shape
    if n == 0:
        row = dict.fromkeys([*RATES, "d_z", "p", *LENGTH[:-1]], np.nan)
        row |= {"n": 0, "prompts": 0, "alike": LONGER, "rival": LONGER, "note": "no comparisons"}
        columns = {name: np.full(heads, value, _kind(value)) for name, value in row.items()}
        return columns, [()] * heads
    _, prompt = np.unique(prompt, return_inverse=True)
    sign = np.sign(gaps)
    lost = ~np.isfinite(gaps).all(axis=0)
    wins, losses = (sign > 0).sum(axis=0), (sign < 0).sum(axis=0)
    ties = (sign == 0).sum(axis=0)
    won = np.nan_to_num((sign + 1) / 2)
    totals, sizes = proportions.by_cluster(won, prompt)
    interval = proportions.wilson(totals, sizes, 1 - alpha)
    boot_low, boot_high = proportions.bootstrap(totals, sizes, draws, seed, 1 - alpha)
    net = 2 * totals - sizes[:, None]
    tests = permutation.flips(net)
    p = permutation.sign_flip(net, tests)
    undefined = lost | (ties == n)
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = gaps.std(axis=0, ddof=1) if n > 1 else np.full(heads, np.nan)
        d_z = np.where(spread > 0, gaps.mean(axis=0) / spread, np.nan)
    rates = (wins, ties, losses, interval.estimate, interval.low, interval.high)
    known = dict(zip(RATES, (*rates, boot_low, boot_high), strict=True)) | {"d_z": d_z}
    length = _length(won, (longer + 1) / 2, interval.estimate, prompt)
    told = [lost, ties == n], ["scores that are not numbers", "all comparisons tie"]
    columns = {
        "n": np.full(heads, n),
        "prompts": np.full(heads, len(sizes)),
        **{name: np.where(lost, np.nan, values) for name, values in known.items()},
        "p": np.where(undefined, np.nan, p),
        **length,
        **{name: np.where(undefined, np.nan, length[name]) for name in LENGTH[:-1]},
        "note": np.select(*told, "").astype(object),
    }
    return columns, [() if gone else test for gone, test in zip(lost, tests, strict=True)]


def _kind(value) -> type:
    """Of the column that is to hold the value."""
    return object if isinstance(value, str) else type(value)


def _length(won, longer, rate, prompt) -> dict:
    """Heads beside a reader of length: columns of ``_rows``, p not adjusted.

    Parameters
    ----------
    won, longer
        1, ½ or 0: by each head, shape (comparisons, heads), and by the longer response.
    """
    with_longer = 1 - np.abs(won - longer[:, None]).mean(axis=0)
    with_shorter = 1 - np.abs(won - (1 - longer[:, None])).mean(axis=0)
    strong = longer.mean() >= 0.5
    wins = rate >= 0.5
    own = np.where(wins, won, 1 - won)
    more = own - (longer if strong else 1 - longer)[:, None]
    totals, _ = proportions.by_cluster(2 * more, prompt)
    return {
        "alike": np.where(with_longer >= with_shorter, LONGER, SHORTER),  # what it chooses as
        "rival": np.where(wins == strong, LONGER, SHORTER),  # what it has its advantage over
        "agreement": np.maximum(with_longer, with_shorter),
        "advantage": more.mean(axis=0),
        "p_length": permutation.sign_flip(totals),
    }


def distinct(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of a table by subset that say different things.

    A subset of all rows repeats "all", and is left out; one of some of them is kept. A mean over
    criteria that ask different things is left out.

    Parameters
    ----------
    table
        With columns ``subset`` and ``n``.
    """
    if "note" in table:
        table = table[table["note"] != MEAN]
    overall = table["subset"] == ALL
    if overall.all() or not overall.any() or table["subset"].nunique() > 2:
        return table
    repeats = table.loc[~overall, "n"].max() == table.loc[overall, "n"].max()
    return table[overall] if repeats else table


def judged(table: pd.DataFrame) -> pd.DataFrame:
    """The rows by which heads are judged first: "all", or each criterion of a targeted dataset."""
    overall = table["subset"] == ALL
    mean = overall & (table["note"] == MEAN)
    return table[~overall] if mean.any() else table[overall]


def tied(table: pd.DataFrame) -> pd.Series:
    """Share of the comparisons of each row of ``validity``'s table in which the head ties.

    Missing where there is no comparison, or scores are not numbers.
    """
    return table["ties"] / table["n"].where(table["n"] > 0)


def verdicts(table: Mapping[str, ArrayLike], alpha: float = 0.05) -> np.ndarray:
    """The verdict of each row: from ``p``, ``p_adjusted``, ``win_rate``, its interval, ``mde``."""
    numbers = ("p", "p_adjusted", "win_rate", "low", "high", "mde")
    p, adjusted, rate, low, high, mde = (np.asarray(table[name], float) for name in numbers)
    found = adjusted < alpha
    return np.select(
        [
            np.isnan(p),
            found & (rate > 0.5) & (low >= STRONG),
            found & (rate > 0.5),
            found & (rate < 0.5),
            # an interval of ties alone is short: the test must be able to tell the band's ends
            (low >= CHANCE[0]) & (high <= CHANCE[1]) & (mde <= CHANCE[1] - 0.5),
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
    rules = [
        (HEAD, str(name), run["score"].values[:, k]) for k, name in enumerate(run["head"].values)
    ]
    if "final" in run:
        rules.append((SCORE, FINAL, run["final"].values))
    n, k = len(aligned), len(rules)
    owner = run["item_of_response"].values[aligned.better]
    slot = run["slot"].values
    won = np.empty((k, n))
    for row, (_, _, score) in zip(won, rules, strict=True):
        with np.errstate(invalid="ignore"):
            gap = aligned.gaps(score)
        row[:] = np.where(np.isfinite(gap), (np.sign(gap) + 1) / 2, np.nan)
    columns = {
        "model": _spread([run.attrs["model"]], np.repeat, n * k),
        "dataset": _spread([run.attrs["dataset"]], np.repeat, n * k),
        "item": _spread(run["item"].values[owner], np.tile, k),
        "prompt": _spread(run["prompt_hash"].values[owner], np.tile, k),
        "better": np.tile(slot[aligned.better], k),
        "worse": np.tile(slot[aligned.worse], k),
        "criterion": _spread(aligned.criterion, np.tile, k),
        "subset": _spread(aligned.subset, np.tile, k),
        "kind": _spread([kind for kind, _, _ in rules], np.repeat, n),
        "rule": _spread([rule for _, rule, _ in rules], np.repeat, n),
        "outcome": won.ravel(),
    }
    return pd.DataFrame(columns, copy=False)


def _spread(values: Sequence[str] | np.ndarray, how: Callable, times: int) -> pd.Categorical:
    """Texts tiled or repeated as categories, of which only the codes are."""
    given = pd.Categorical(pd.Series(values))
    return pd.Categorical.from_codes(how(given.codes, times), dtype=given.dtype)


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
    gaps = aligned.gaps(run["score"].values)
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
        np.sign(aligned.gaps(length)),
        alpha,
        draws=1,
        seed=seed,
    )
    table = table.rename(columns={"head": "baseline"})
    table = table[["baseline", "subset", "n", "win_rate", "low", "high", "note"]]
    random = _random_directions(run["hidden"].values, aligned, directions, seed)
    table = pd.concat([table, random], ignore_index=True)
    if not asks.whole(run.attrs["dataset"]) and table["subset"].nunique() > 2:
        table.loc[table["subset"] == ALL, "note"] = MEAN
    return table


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
