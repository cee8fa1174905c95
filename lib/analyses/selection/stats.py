"""Best-of-n: the expected gold of what each rule picks from n of an item's responses, exactly.

``candidates``  the responses of a run that have a gold value, item by item
``picked``      expected gold and length of a pick from n candidates, by order statistics
``selection``   by rule, subset and n: gold, regret, length, and whether picks beat random ones

A *rule* is a head, the model's one score, the longest or shortest response, or the gold itself.
*Gold* is a rating, or 1 for responses that the data set marks as better and 0 for the others. Of
an item with k responses a rule picks, from a random subset of n, the one that it scores highest;
ties are broken at random.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import comb

import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats as scipy_stats

from lib.data import asks
from lib.errors import unknown
from lib.run import comparisons
from lib.stats import permutation, proportions
from lib.stats.correlation import NOT_NUMBERS
from lib.stats.proportions import clustered
from lib.stats.ratios import share
from lib.stats.signed import flipped, per_prompt
from lib.stats.winrates import ALL, HEAD, NAMED_ALL, POWER, SCORE, one_score

CURVE_COLUMNS = ["rule", "kind", "subset", "n", "items", "gold", "low", "high", "regret", "length"]
CURVE_COLUMNS += ["note"]
PICK_COLUMNS = ["rule", "kind", "subset", "n", "items", "prompts", "gold", "low", "high", "gain"]
PICK_COLUMNS += ["gain_low", "gain_high", "p", "p_adjusted", "mde", "verdict", "regret"]
PICK_COLUMNS += ["regret_low", "regret_high", "share", "share_low", "share_high", "longer"]
PICK_COLUMNS += ["longer_low", "longer_high", "rival", "beside", "beside_low", "beside_high"]
PICK_COLUMNS += ["beside_p", "note"]

LONGEST, SHORTEST, RANDOM, GOLD = "longest", "shortest", "random", "gold itself"
BASELINE = "baseline"  # a kind of rule
BETTER, WORSE, NOT_TOLD = "better than random", "worse than random", "not told from random"
UNDEFINED = "undefined"
FEWEST = 3  # responses of an item
MARKED = "marked as better"  # gold of comparisons
STEPS = 64  # of the range of gold, where whole ones don't do
AT_ONCE = 2_000_000  # cells of an array

TOO_FEW = f"fewer than {FEWEST} responses with a gold value"
FEWER = "fewer responses than most items"
MIXED = "responses that are marked as better here and as worse there"
NONE = f"no item has {FEWEST} responses or as many as are asked for, with a gold value"
EQUAL = "all responses have the same gold"


@dataclass(frozen=True)
class Candidates:
    """Responses of a run that have a gold value, sorted by item.

    Attributes
    ----------
    rules, kinds
        Of each column of ``score``.
    score
        Shape (responses, rules).
    gold, length
        Shape (responses,); length in tokens.
    item
        Integers from 0, ascending, shape (responses,).
    prompt, subset
        Of each item: integers, strings.
    most
        Responses of which n are drawn, at most; every item has as many.
    name
        What gold is.
    left_out
        Items that aren't here, by reason.
    note
        Why there are none; empty where there are some.
    """

    rules: list[str]
    kinds: list[str]
    score: np.ndarray
    gold: np.ndarray
    length: np.ndarray
    item: np.ndarray
    prompt: np.ndarray
    subset: np.ndarray
    most: int
    name: str
    left_out: Mapping[str, int]
    note: str = ""


def candidates(run: xr.Dataset, gold: str = "", most: int = 0) -> Candidates:
    """The responses of a run that have a gold value, of items with enough of them.

    Parameters
    ----------
    run
        A Run.
    gold
        Name of the rating to take; by default the one that speaks for the dataset
        (``lib.data.asks.rated``), its only one, the one that comparisons are made by, or, where
        there is none, what comparisons mark as better.
    most
        Draw up to so many responses of an item; as many as most items have by default. Items
        with fewer are left out, so that the same items are behind each n.

    Raises
    ------
    ParameterError
        For a rating that the run lacks.
    """
    name = _named(run, gold)
    values, mixed = _marks(run) if name == MARKED else (_rating(run, name), set())
    owner = run["item_of_response"].values
    values = np.where(np.isin(owner, list(mixed)), np.nan, values)
    many = np.bincount(owner[np.isfinite(values)], minlength=run.sizes["item"])
    enough = many[many >= FEWEST]
    if not most:
        sizes, counts = np.unique(enough, return_counts=True)
        most = int(sizes[counts == counts.max(initial=0)].max(initial=0))
    left_out = {
        MIXED: len(mixed),
        TOO_FEW: int((many < FEWEST).sum()) - len(mixed),
        FEWER: int(((many >= FEWEST) & (many < most)).sum()),
    }
    kept = np.flatnonzero(np.isfinite(values) & (many >= max(most, FEWEST))[owner])
    kept = kept[np.argsort(owner[kept], kind="stable")]
    items, item = np.unique(owner[kept], return_inverse=True)
    length = run["n_response_tokens"].values.astype(float)[kept]
    scores = {
        (str(head), HEAD): run["score"].values[kept, k] for k, head in enumerate(run["head"].values)
    }
    if one := one_score(run):
        scores[one, SCORE] = run["final"].values[kept]
    scores |= {(LONGEST, BASELINE): length, (SHORTEST, BASELINE): -length}
    scores |= {(RANDOM, BASELINE): np.zeros(len(kept)), (GOLD, BASELINE): values[kept]}
    _, prompt = np.unique(run["prompt_hash"].values[items], return_inverse=True)
    return Candidates(
        [rule for rule, _ in scores],
        [kind for _, kind in scores],
        np.column_stack(list(scores.values())).astype(float),
        values[kept],
        length,
        item,
        prompt,
        _subsets(run)[items],
        most,
        name,
        {reason: count for reason, count in left_out.items() if count},
        "" if len(kept) else f"{NONE} ({name})",
    )


def _named(run: xr.Dataset, gold: str) -> str:
    known = run["attribute_name"].values.tolist() if "attribute_name" in run else []
    if gold and gold not in known:
        raise unknown(f"rating of {run.attrs['dataset']}", gold, known)
    if gold:
        return gold
    criteria = set(run["criterion"].values.tolist())
    wanted = [asks.rated(run.attrs["dataset"]), *(known if len(known) == 1 else ())]
    wanted += criteria if len(criteria) == 1 else ()
    return next((name for name in wanted if name in known), MARKED)


def _rating(run: xr.Dataset, name: str) -> np.ndarray:
    place = run["attribute_name"].values.tolist().index(name)
    return run["rating"].values[:, place].astype(float)


def _marks(run: xr.Dataset) -> tuple[np.ndarray, set[int]]:
    """1 for responses that are better in all of their comparisons, 0 for worse in all; the items
    that have others.
    """
    index = run.indexes["response"]
    better, worse = (index.get_indexer(run[side].values) for side in ("better", "worse"))
    size = run.sizes["response"]
    wins, losses = np.bincount(better, minlength=size), np.bincount(worse, minlength=size)
    gold = np.where(wins > 0, 1.0, np.where(losses > 0, 0.0, np.nan))
    mixed = run["item_of_response"].values[(wins > 0) & (losses > 0)]
    return gold, set(mixed.tolist())


def _subsets(run: xr.Dataset) -> np.ndarray:
    """Of each item: the subset of its first comparison; ``all`` without one."""
    table = comparisons(run).drop_duplicates("item").set_index("item")["subset"]
    return table.reindex(run["item"].values).fillna(ALL).to_numpy(str)


def picked(score: np.ndarray, values: np.ndarray, most: int) -> np.ndarray:
    """Expected value of what a rule picks from n random responses of an item, n = 1…most.

    Parameters
    ----------
    score
        Of k responses of each item, shape (items, k, rules).
    values
        Shape (items, k).
    most
        At most k.

    Returns
    -------
    numpy.ndarray
        Shape (items, most, rules).

    Notes
    -----
    Of the C(k, n) subsets, those whose highest score is that of a response with b responses
    below it and t that tie with it, itself included, are C(b + t, n) − C(b, n); each of the t is
    picked in as many. So it is picked with probability

        (C(b + t, n) − C(b, n)) / (t C(k, n)).

    Checked against enumeration of all subsets, and for ranks 1…k as both score and value against
    the expected maximum n(k + 1)/(n + 1).
    """
    k = score.shape[1]
    below = scipy_stats.rankdata(score, method="min", axis=1).astype(int) - 1
    upto = scipy_stats.rankdata(score, method="max", axis=1).astype(int)
    out = np.empty((len(score), most, score.shape[2]))
    for n in range(1, most + 1):
        ways = np.asarray([comb(m, n) / comb(k, n) for m in range(k + 1)])
        chance = (ways[upto] - ways[below]) / (upto - below)
        out[:, n - 1] = (chance * values[:, :, None]).sum(axis=1)
    return out


def expected(found: Candidates, values: np.ndarray) -> np.ndarray:
    """``picked`` of all items, whatever their numbers of responses: (items, n, rules).

    NaN for rules with a score that is no number.
    """
    finite = np.isfinite(found.score).all(axis=0)
    sizes = np.bincount(found.item)
    starts = np.cumsum(sizes) - sizes
    out = np.empty((len(sizes), found.most, len(found.rules)))
    for size in np.unique(sizes):
        some = np.flatnonzero(sizes == size)
        step = max(1, AT_ONCE // (size * len(found.rules)))
        for first in range(0, len(some), step):
            part = some[first : first + step]
            rows = starts[part][:, None] + np.arange(size)
            out[part] = picked(np.where(finite, found.score[rows], 0), values[rows], found.most)
    out[:, :, ~finite] = np.nan
    return out


@dataclass(frozen=True)
class Selection:
    """What rules pick: ``curve`` by n, ``picks`` of the most candidates, with tests."""

    curve: pd.DataFrame
    picks: pd.DataFrame


def selection(found: Candidates, alpha: float = 0.05, by_n: bool = True) -> Selection:
    """Expected gold of each rule's pick, by subset and number of candidates.

    Parameters
    ----------
    found
        ``candidates`` of a run.
    alpha
        Level of the intervals, one by one, and of each family of tests.
    by_n
        Make the curve too.

    Returns
    -------
    Selection
        ``curve``: one row a rule, subset and n: ``gold`` (expected, of the pick) with ``low`` and
        ``high`` (Wilson's interval where gold is a mark, else t; prompts as clusters), ``regret``
        (the gold's own pick less that), ``length`` (expected tokens).

        ``picks``: of the largest n, one row a rule and subset: ``gain`` (gold less that of a
        random pick) with its interval, ``p`` (``lottery``), ``p_adjusted`` (Holm), ``mde`` (the
        gain that would be found with power .8 at α/m; missing, for none, where the gold's own
        isn't that large), ``verdict``; ``regret`` with its interval; ``share`` (gain over the
        gold's own gain, with its interval; Fieller's of ratings); ``longer`` (expected length of
        the pick over the item's mean, less 1, with a t interval); ``rival`` (longest or shortest,
        whichever picks more gold), ``beside`` (gold less the rival's) with a t interval and
        ``beside_p`` (exact sign flip over prompts; Holm).

    Notes
    -----
    Heads and the one score make up the family, with every distinct subset; baselines have no
    test and no verdict.
    """
    if found.note:
        return Selection(*(pd.DataFrame(columns=names) for names in (CURVE_COLUMNS, PICK_COLUMNS)))
    gold, length = expected(found, found.gold), expected(found, found.length)
    curves, tables, nulls = [], [], {}
    for name, own in _parts(found.subset):
        part = _Part(found, gold[own], length[own], found.prompt[own], name, 1 - alpha)
        nulls[name] = lottery(found, own)
        curves += [part.curve()] * by_n
        tables.append(part.picks(nulls[name]))
    curve = pd.concat(curves or [pd.DataFrame(columns=CURVE_COLUMNS)], ignore_index=True)
    picks = pd.concat(tables, ignore_index=True)
    told = picks["p"].notna()
    picks["p_adjusted"] = permutation.holm(picks["p"].to_numpy(float))
    picks["beside_p"] = permutation.holm(picks["beside_p"].to_numpy(float))
    level = alpha / max(1, int(told.sum()))
    needed = {name: null.needed(level) for name, null in nulls.items()}
    power = scipy_stats.t.ppf(POWER, np.maximum(picks["prompts"] - 1, 1))
    mde = picks["subset"].map(needed) / picks["items"] + power * picks.pop("se")
    picks["mde"] = mde.where(told & (mde <= picks["most_gain"]))
    sure = picks["p_adjusted"] < alpha
    kinds = [picks["kind"] == BASELINE, ~told, sure & (picks["gain"] > 0), sure]
    verdicts = np.select(kinds, ["", UNDEFINED, BETTER, WORSE], NOT_TOLD)
    picks["verdict"] = [verdict or None for verdict in verdicts.tolist()]
    return Selection(curve[CURVE_COLUMNS], picks[PICK_COLUMNS])


def _parts(subset: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """All items, then those of each subset where there are several."""
    names = list(dict.fromkeys(subset.tolist()))
    several = names if len(names) > 1 else []
    shown = {name: NAMED_ALL if name == ALL else name for name in several}
    every = (ALL, np.ones(len(subset), bool))
    return [every, *((told, subset == name) for name, told in shown.items())]


@dataclass(frozen=True)
class Lottery:
    """What random picks have together: their sum's distribution.

    Attributes
    ----------
    value
        Sums less their mean, ascending.
    upper, lower
        P(sum ≥ value), P(sum ≤ value).
    """

    value: np.ndarray
    upper: np.ndarray
    lower: np.ndarray

    def p(self, total: float) -> float:
        """Two-sided p of a sum less its mean: twice the smaller tail."""
        slack = 1e-9 * max(1.0, float(np.abs(self.value).max()))
        above = np.searchsorted(self.value, total - slack)
        below = np.searchsorted(self.value, total + slack, side="right") - 1
        upper = self.upper[above] if above < len(self.upper) else 0.0
        lower = self.lower[below] if below >= 0 else 0.0
        return float(min(1.0, 2 * min(upper, lower)))

    def needed(self, level: float) -> float:
        """The smallest sum above its mean whose p is below a level; infinite for none."""
        enough = self.value[(2 * self.upper < level) & (self.value > 0)]
        return float(enough[0]) if len(enough) else np.inf


def lottery(found: Candidates, items: np.ndarray) -> Lottery:
    """The null distribution: in each item every response is as likely to be picked.

    Parameters
    ----------
    items
        Which of the candidates' items, a mask.

    Notes
    -----
    A pick's gold is one of the item's k, each with 1/k, independently over prompts; items of one
    prompt are picked from by the same quantile, which is the most that they can vary together. The
    sum's distribution follows by the discrete Fourier transform of the product of the prompts'
    characteristic functions, on a grid that holds all marks and whole ratings exactly and moves
    others by at most 1/128 of the range. Of what is picked from more than n responses, or among
    ties, gold is a mean and varies less, so there the test is conservative. Checked against
    enumeration, and against ``scipy.stats.binomtest`` where one of k is right.
    """
    sizes = np.bincount(found.item)
    starts = np.cumsum(sizes) - sizes
    span = np.ptp(found.gold) or 1.0
    grid = (found.gold - found.gold.min()) / span
    steps = next((m for m in range(1, STEPS + 1) if _whole(grid * m)), STEPS)
    grid = np.rint(grid * steps).astype(int)
    ways: dict[tuple, int] = {}
    chosen = np.flatnonzero(items)
    for own in np.split(
        chosen[np.argsort(found.prompt[chosen], kind="stable")], _edges(found, chosen)
    ):
        golds = [np.sort(grid[starts[i] : starts[i] + sizes[i]]) for i in own]
        cuts = np.unique(
            np.concatenate([np.arange(1, len(g) + 1) / len(g) for g in golds]).round(12)
        )
        middle = (cuts + np.append(0, cuts[:-1])) / 2
        total = sum(g[(middle * len(g)).astype(int)] for g in golds)
        low = int(total.min())
        key = tuple(zip((total - low).tolist(), np.diff(cuts, prepend=0).tolist(), strict=True))
        ways[key] = ways.get(key, 0) + 1
    # a window that holds all but 1e-15 of the sum (Hoeffding 1963), and all of a short one
    range_ = sum(max(at for at, _ in key) * many for key, many in ways.items())
    square = sum(max(at for at, _ in key) ** 2 * many for key, many in ways.items())
    window = 1 << int(np.ceil(np.log2(min(range_ + 1, 9 * np.sqrt(square) + 2))))
    turn = -2j * np.pi * np.arange(window // 2 + 1) / window
    product = np.ones(window // 2 + 1, complex)
    mean = 0.0
    for key, many in ways.items():
        product *= sum(share * np.exp(turn * at) for at, share in key) ** many
        mean += many * sum(share * at for at, share in key)
    mass = np.clip(np.fft.irfft(product, window), 0, None)
    first = max(0, int(np.floor(mean)) - window // 2) if range_ >= window else 0
    mass = np.roll(mass, -(first % window))
    value = (first + np.arange(window) - mean) * span / steps
    return Lottery(value, mass[::-1].cumsum()[::-1], mass.cumsum())


def _whole(values: np.ndarray) -> bool:
    return bool(np.abs(values - np.rint(values)).max() < 1e-6)


def _edges(found: Candidates, chosen: np.ndarray) -> np.ndarray:
    """Where prompts begin among items in the order of their prompts."""
    return np.flatnonzero(np.diff(np.sort(found.prompt[chosen]))) + 1


@dataclass(frozen=True)
class _Part:
    """Expected gold and length of some items: (items, n, rules)."""

    found: Candidates
    gold: np.ndarray
    length: np.ndarray
    prompt: np.ndarray
    subset: str
    level: float

    def _each(self):
        """Position of each rule, with what its rows begin with."""
        finite = np.isfinite(self.found.score).all(axis=0)
        for k, (rule, kind) in enumerate(zip(self.found.rules, self.found.kinds, strict=True)):
            row = {"rule": rule, "kind": kind, "subset": self.subset, "items": len(self.gold)}
            yield k, row | {"note": "" if finite[k] else NOT_NUMBERS}

    def _base(self, rule: str) -> int:
        """Position of a baseline; a head may be called the same."""
        pairs = zip(self.found.rules, self.found.kinds, strict=True)
        return list(pairs).index((rule, BASELINE))

    def _own(self, values: np.ndarray) -> tuple[float, float, float]:
        """Mean gold with its interval; a point where nothing varies by design."""
        mean = float(values.mean())
        if self.found.name != MARKED:
            return _mean(values, self.prompt, self.level)
        own = proportions.wilson(*proportions.by_prompt(values, self.prompt), self.level)
        return mean, float(own.low), float(own.high)

    def curve(self) -> pd.DataFrame:
        """Expected gold by n."""
        best, rows = self.gold[:, :, self._base(GOLD)], []
        for k, row in self._each():
            for n in range(self.found.most):
                told = {"n": n + 1}
                if not row["note"]:
                    values = self.gold[:, n, k]
                    told["gold"] = mean = float(values.mean())
                    fixed = n == 0 or (row["rule"] in (RANDOM, GOLD) and row["kind"] == BASELINE)
                    told["low"], told["high"] = (mean, mean) if fixed else self._own(values)[1:]
                    told["regret"] = float(np.maximum(best[:, n] - values, 0).mean())
                    told["length"] = float(self.length[:, n, k].mean())
                rows.append(row | told)
        return pd.DataFrame(rows).reindex(columns=CURVE_COLUMNS)

    def picks(self, null: Lottery) -> pd.DataFrame:
        """The most candidates, with tests."""
        best, random = self.gold[:, -1, self._base(GOLD)], self.gold[:, 0, self._base(RANDOM)]
        ends = [self._base(LONGEST), self._base(SHORTEST)]
        rival = ends[int(np.argmax(self.gold[:, -1, ends].mean(axis=0)))]
        rows = []
        for k, row in self._each():
            row |= {"n": self.found.most, "prompts": len(np.unique(self.prompt))}
            if not row["note"]:
                row |= self._gold(self.gold[:, -1, k], random, best, row)
                ratio = self.length[:, -1, k] / self.length[:, 0, k] - 1
                row |= _named_interval("longer", *_mean(ratio, self.prompt, self.level))
                if row["kind"] != BASELINE:
                    row |= self._tests(self.gold[:, -1, k], random, best, rival, null)
            rows.append(row)
        return pd.DataFrame(rows).reindex(columns=[*PICK_COLUMNS, "se", "most_gain"])

    def _gold(self, values, random, best, row: Mapping) -> dict:
        """Gold, gain, regret and share, with intervals."""
        base, top = float(random.mean()), float(best.mean())
        if row["kind"] == BASELINE and row["rule"] in (RANDOM, GOLD):
            mean = low = high = float(values.mean())
        else:
            mean, low, high = self._own(values)
        told = {"gold": mean, "low": low, "high": high}
        if self.found.name == MARKED:  # what random and the best pick have is the design's
            told |= _named_interval("gain", mean - base, low - base, high - base)
            told |= _named_interval("regret", max(top - mean, 0.0), top - high, top - low)
            room = top - base if top > base else np.nan
            part = ((each - base) / room for each in (mean, low, high))
        else:
            told |= _named_interval("gain", *_mean(values - random, self.prompt, self.level))
            told |= _named_interval(
                "regret", *_mean(np.maximum(best - values, 0), self.prompt, self.level)
            )
            both = (per_prompt(each - random, self.prompt) for each in (values, best))
            none = (np.nan,) * 3
            part = map(float, share(*both, self.level) if (best > random).any() else none)
        return told | _named_interval("share", *part)

    def _tests(self, values, random, best, rival: int, null: Lottery) -> dict:
        beside = values - self.gold[:, -1, rival]
        told = {"rival": self.found.rules[rival], "most_gain": float((best - random).mean())}
        told |= _named_interval("beside", *_mean(beside, self.prompt, self.level))
        if not (best > random).any():
            return told | {"note": EQUAL}
        totals, _ = proportions.by_prompt(beside, self.prompt)
        told["beside_p"] = float(flipped(totals))
        told["p"] = null.p(float((values - random).sum()))
        return told | {"se": clustered(values - random, self.prompt, self.level).se}


def _mean(values: np.ndarray, prompt: np.ndarray, level: float) -> tuple[float, float, float]:
    mean = clustered(values, prompt, level)
    return mean.estimate, mean.low, mean.high


def _named_interval(name: str, value: float, low: float, high: float) -> dict[str, float]:
    return {name: value, f"{name}_low": low, f"{name}_high": high}
