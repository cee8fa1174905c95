"""Labels: does each head measure what its name says?

``label_matrix``  A[head, criterion]: win rates on targeted comparisons, double-centred too
``label_check``   names that are shown to fit, one-to-one assignment, and a verdict on each name
``mtmm``          multitrait-multimethod: do heads of one concept agree more than others do?

Below them, on arrays with any leading axes of draws: ``moments`` (win rates and their
prompt-clustered covariance), ``verdicts`` on names, and ``names_p``.
Moments, contrasts and verdicts are in ``exchanges``, names shown to fit in ``fits``, ``mtmm`` in
``multitrait``, ``claims``, ``criteria`` and ``families`` in ``naming``.

A *criterion* is the concept of a comparison (``lib.data.concepts``), or the set's own word
where that table has none. A head *claims* the concept that its model declares, or, where a
model declares none for any head, what its name says. A head whose claim these comparisons can't
test, or that claims nothing, is a *rival*: another head's name may fit it better.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr
from scipy import optimize, stats

from lib.analyses.labels.exchanges import (
    BYSTANDER,
    FORMS,
    RIVAL,
    Family,
    Moments,
    Verdicts,
    accused,
    centred_contrasts,
    centred_family,
    holm_levels,
    moments,
    one_sided,
    swap_contrasts,
    swap_family,
    verdicts,
)
from lib.analyses.labels.fits import (
    BORDERLINE,
    FITS,
    NOT_SHOWN,
    beyond_half,
    fits_adjusted,
    fits_p,
    rivals_of,
)
from lib.analyses.labels.multitrait import DISCRIMINANT, MTMM, correlations, htmt, mtmm, sources
from lib.analyses.labels.naming import (
    EVERY,
    NOT_NUMBERS,
    claims,
    criteria,
    empty,
    families,
    without_numbers,
)
from lib.run import align
from lib.stats import proportions
from lib.stats.effects import attainable
from lib.stats.winrates import POWER

__all__ = [
    "BORDERLINE",
    "BYSTANDER",
    "DISCRIMINANT",
    "DOUBTED",
    "EVERY",
    "FAMILIES",
    "FITS",
    "FORMS",
    "GAP",
    "HEADS",
    "MATRIX",
    "MTMM",
    "NOT_CONTRADICTED",
    "NOT_SHOWN",
    "NOT_TESTED",
    "PAIRS",
    "RIVAL",
    "WRONG",
    "LabelCheck",
    "Moments",
    "accused",
    "assignment",
    "beyond_half",
    "centred_contrasts",
    "centred_family",
    "claims",
    "correlations",
    "criteria",
    "double_centred",
    "families",
    "fits_adjusted",
    "fits_p",
    "holm_levels",
    "htmt",
    "label_check",
    "label_matrix",
    "moments",
    "mtmm",
    "name_orders",
    "named",
    "names_p",
    "one_sided",
    "sources",
    "swap_contrasts",
    "swap_family",
    "verdicts",
]

GAP = 0.2  # the difference in win rate whose detection ``power`` is told for
FOUR_RATES = 2.0  # the largest sum of two win rates less that of two others
ENUMERATED = 7  # heads up to which all orders of names are tried
WRONG, DOUBTED, NOT_CONTRADICTED, NOT_TESTED = "wrong", "doubted", "not contradicted", "not tested"
MATRIX = ("head", "criterion", "n", "prompts", "missing", "win_rate", "low", "high", "centred")
MATRIX += ("claims", "claimed", "note")
FAMILIES = ("family", "heads", "tested", "right", "shown", "p", "smallest_p", "mde")
HEADS = (
    "head",
    "family",
    "source",
    "claims",
    "n",
    "prompts",
    "missing",
    "own",
    "low",
    "high",
    "own_centred",
    "best",
)
HEADS += ("best_centred", "assigned", "right", "fits", "fits_p", "nearest", "nearest_own")
HEADS += ("beaten_by", "p_adjusted", "label", "why", "note")
PAIRS = ("head", "other", "claims", "other_claims", "delta", "low", "high", "se", "p")
PAIRS += ("p_adjusted", "wrong", "power", "mde", "note")


@dataclass(frozen=True)
class LabelCheck:
    """What ``label_check`` found.

    Attributes
    ----------
    heads
        One row a head; see ``label_check``.
    pairs, centred
        One row an accusation that could be made: two names exchanged; one head beside a
        criterion that it doesn't claim.
    families
        One row a family of heads (``naming.families``) with a name to test: its ``heads``, of
        which ``tested`` have a claim that could be, ``right`` get their own concept and
        ``shown`` are shown to fit; ``p`` of the sum of win rates on own criteria, each less the
        head's mean, among all ways to deal the family's names to its tested heads and rivals;
        ``smallest_p`` that it can take; ``mde``: how much more than with names dealt at random
        the heads would have to win on their own criteria, on average, for p < alpha with power
        .8, NaN where p can't be that small or they can't win that much.
    tested, right
        Heads with a claim that could be tested; those whose assigned concept is their own.
    left_out
        Comparisons with a criterion that no tested head claims.
    note
        Why there is no test, or "".
    """

    heads: pd.DataFrame
    pairs: pd.DataFrame
    centred: pd.DataFrame
    families: pd.DataFrame
    tested: int
    right: int
    left_out: int
    note: str


# ---- Tables ----


def label_matrix(
    run: xr.Dataset, comparisons: pd.DataFrame | None = None, *, alpha: float = 0.05
) -> pd.DataFrame:
    """Win rate of every head on every criterion.

    Parameters
    ----------
    run
        A Run.
    comparisons
        As in ``items.comparisons``; the run's own by default.
    alpha
        The interval has level 1 − alpha, uncorrected.

    Returns
    -------
    pandas.DataFrame
        One row a head and criterion: ``head``, ``criterion``, ``n`` and ``prompts`` (with
        numbers), ``missing`` (comparisons without, left out for this head alone),
        ``win_rate`` (ties half), ``low`` and ``high`` (``lib.stats.proportions.wilson``),
        ``centred`` (win rate less its head's and its criterion's mean plus the overall mean,
        over heads with numbers), ``claims`` (what the head claims), ``claimed`` (is that this
        criterion?) and ``note``.
    """
    data = _Data(run, comparisons)
    if not len(data.names):
        rows = pd.DataFrame({"head": data.heads, "criterion": "none", "n": 0, "prompts": 0})
        rows[["win_rate", "low", "high", "centred"]] = np.nan
        rows = rows.assign(missing=0, claims=data.claims, claimed=False, note="no comparisons")
        return rows[list(MATRIX)]
    centred = data.centred
    rows = [
        {
            "head": data.heads[k],
            "criterion": name,
            **data.interval(k, c, alpha),
            "centred": centred[k, c],
            "claims": data.claims[k],
            "claimed": data.claims[k] == name,
        }
        for c, name in enumerate(data.names)
        for k in range(len(data.heads))
    ]
    table = pd.DataFrame(rows)
    lacking = [without_numbers(*row) for row in zip(table["n"], table["missing"], strict=True)]
    remarks = np.tile(data.remarks, len(data.names))
    return table.assign(note=np.where(remarks == "", lacking, remarks))[list(MATRIX)]


def label_check(
    run: xr.Dataset,
    comparisons: pd.DataFrame | None = None,
    *,
    alpha: float = 0.05,
    draws: int = 10_000,
    seed: int = 0,
) -> LabelCheck:
    """Are the heads' names shown to fit, in doubt, or wrong?

    Parameters
    ----------
    run
        A Run.
    comparisons
        As in ``items.comparisons``; the run's own by default.
    alpha
        Family-wise level of the accusations of both forms together; each form has half of it.
    draws, seed
        Of random orders of a family's names, where it has more than seven heads.

    Returns
    -------
    LabelCheck
        ``heads``: ``head``, ``family``, ``source`` (where its name is from), ``claims``, ``n``,
        ``prompts`` and ``missing`` (of the own
        criterion; as in ``label_matrix``), ``own`` (win rate there) with ``low`` and ``high``,
        ``own_centred``, ``best`` (claimed criterion where the centred win rate is highest) with
        ``best_centred``, ``assigned`` (the name it gets in the assignment of its family's names
        with the highest sum; heads that claim the same are one class; empty where rivals take
        them all), ``right``, ``fits`` with ``fits_p`` (``fits.fits_adjusted``), ``nearest``
        (head of the family that wins most there without being named for it) and
        ``nearest_own`` (its win rate),
        ``beaten_by`` (heads with other or no claims that win more on the own criterion),
        ``p_adjusted`` (smallest of its accusations), ``label`` (the one verdict), ``why`` and
        ``note``. A name is ``shown`` to fit where ``fits_p`` < alpha and the interval lies above
        one half, ``borderline`` where only the interval does, else ``not shown``.
        Labels: ``wrong`` (the head follows another criterion better than its own),
        ``doubted`` (one of two names doesn't fit, this may be the one, and the other isn't
        wrong), ``not contradicted``, ``not tested``.

        ``pairs``, form *swap*: heads ``head`` and ``other`` fit better with their names
        exchanged, Δ = A[i, j] + A[j, i] − A[i, i] − A[j, j]; a rival's own place is the mean of
        the other criteria, and it must win more on the other's criterion, too. ``centred``: a
        head fits a criterion b better than its own, Δ = A[h, b] − A[h, own], each less the mean
        of all heads (``other`` is empty). Both: what they claim (``other_claims``: the other
        criterion), ``delta``, ``low`` and ``high`` (each a one-sided bound at the level of the
        row's Holm step), ``se``, ``p`` (one-sided), ``p_adjusted`` (``accused``), ``wrong``
        (is the accusation made?), ``power`` (of the first Holm step for a head that wins
        ½ + ``GAP`` where it belongs and ½ elsewhere, with this many prompts), ``mde`` (the
        ``delta`` that this step finds with power .8 at this ``se``; NaN, for none, beyond what
        four win rates can make) and ``note``.

    Notes
    -----
    ``p`` of a family asks only whether its names fit better than random ones would; some wrong
    names may be among them. Names aren't dealt across families: that preference heads and length
    proxies differ would alone make ``p`` small.

    A head that measures nothing can be drawn into the pair of a head which measures its concept: a
    pair accuses neither of the two.
    """
    data = _Data(run, comparisons)
    able = data.usable & (data.remarks == "")
    tested = np.flatnonzero(able & data.testable)
    claimed = list(dict.fromkeys(data.claims[tested].tolist()))
    left_out = int((~np.isin(data.names[data.criterion], claimed)).sum()) if len(data.names) else 0
    if len(claimed) < 2:
        heads = _heads(data, tested, claimed, alpha)
        none = empty(PAIRS)
        groups = pd.DataFrame(columns=FAMILIES)
        return LabelCheck(heads, none, none, groups, len(tested), 0, left_out, _too_few(claimed))
    part = data.moments.among(np.asarray([data.names.tolist().index(name) for name in claimed]))
    own = np.where(able & part.known.all(axis=1), RIVAL, BYSTANDER)
    own[tested] = [claimed.index(name) for name in data.claims[tested]]
    found = verdicts(part, own, alpha)
    groups, given = _families(data.family, part, own, draws, seed, alpha)
    heads = _heads(data, tested, claimed, alpha, found, np.asarray([*claimed, ""])[given])
    columns = np.asarray([data.names.tolist().index(name) for name in claimed])
    named_for = np.where(own >= 0, columns[own], own)
    half = beyond_half(data.won, data.criterion, data.prompt, named_for)
    p = fits_adjusted(fits_p(part, own, data.family, half), own, data.family)
    heads = heads.assign(**_fits(heads, part, own, data.family, p, alpha))
    for count in ("right", "shown"):
        kept = heads["right"] if count == "right" else heads["fits"] == FITS
        groups[count] = [int(kept[heads["family"] == name].sum()) for name in groups["family"]]
    return LabelCheck(
        heads,
        _accusations(data, part, claimed, own, "swap", found.swap, alpha),
        _accusations(data, part, claimed, own, "centred", found.centred, alpha),
        groups[list(FAMILIES)],
        len(tested),
        int(heads["right"].sum()),
        left_out,
        "",
    )


def _families(family, part: Moments, own, draws, seed, alpha) -> tuple[pd.DataFrame, np.ndarray]:
    """Each family's p and size, and the column of the name that each head gets within it."""
    given, rows = np.full(len(own), part.rate.shape[-1]), []
    for name in dict.fromkeys(family[own >= 0]):
        members = (own >= RIVAL) & (family == name)
        rate, places = named(part.rate[members], own[members])
        given[members] = places[assignment(rate, places)]
        orders = name_orders(len(places), draws, seed)
        ways = math.prod(math.factorial(int(k)) for k in np.bincount(places))
        smallest = max(ways / math.factorial(len(places)), 1 / (1 + len(orders)))
        among = np.where(members, own, BYSTANDER)
        mde = _names_mde(part, among, rate, places, orders, alpha) if smallest < alpha else np.nan
        p = float(names_p(rate, places, orders))
        tested = int((among >= 0).sum())
        rows.append((name, int(members.sum()), tested, p, smallest, mde))
    columns = ["family", "heads", "tested", "p", "smallest_p", "mde"]
    return pd.DataFrame(rows, columns=columns), given


def _fits(heads, part: Moments, own, family, p, alpha) -> dict:
    """Which names are shown to fit, and what head of the family comes nearest."""
    above = heads["low"].to_numpy(float) > 0.5
    fits = np.select([(p < alpha) & above, above, own >= 0], [FITS, BORDERLINE, NOT_SHOWN], "")
    nearest, rate = np.full(len(own), "", object), np.full(len(own), np.nan)
    for head in np.flatnonzero(own >= 0):
        others = rivals_of(part, own, family, head)
        if len(others):
            most = others[part.rate[others, own[head]].argmax()]
            nearest[head], rate[head] = heads["head"][most], part.rate[most, own[head]]
    return {"fits": fits, "fits_p": p, "nearest": nearest, "nearest_own": rate}


def _names_mde(part: Moments, own, rate, places, orders, alpha) -> float:
    """Mean win rate on own criteria, above that of dealt names, that ``names_p`` would find."""
    heads = np.flatnonzero(own >= 0)
    dealt = rate[np.arange(len(places)), places[orders]].sum(axis=-1) / len(heads)
    weight = np.zeros(part.rate.shape)
    weight[heads] = (np.eye(weight.shape[1])[own[heads]] - 1 / weight.shape[1]) / len(heads)
    flat = weight.T.ravel()
    covariance = np.nan_to_num(part.covariance).reshape(len(flat), len(flat))
    se = np.sqrt(max(flat @ covariance @ flat, 0))
    above = np.quantile(dealt, 1 - alpha) - dealt.mean()
    return float(attainable(above + stats.norm.ppf(POWER) * se))


def _too_few(claimed: list[str]) -> str:
    if not claimed:
        return "no head claims a criterion of these comparisons"
    return f"all heads that could be tested claim {claimed[0]}: names can't be told apart"


class _Data:
    """A run's comparisons as wins by criterion and prompt; NaN where a head has no number."""

    def __init__(self, run: xr.Dataset, comparisons: pd.DataFrame | None):
        aligned = align(run, comparisons)
        gaps = aligned.gaps(run["score"].values)
        known = np.isfinite(gaps)
        self.heads = run["head"].values.astype(str)
        self.claims, self.family = claims(run), families(run)
        self.sources = run["head_source"].values.astype(str)
        self.usable = known.any(axis=0) | (len(gaps) == 0)
        with np.errstate(invalid="ignore"):
            self.won = np.where(known, (np.sign(gaps) + 1) / 2, np.nan)
        self.names, self.criterion = np.unique(criteria(run, aligned), return_inverse=True)
        self.prompt = aligned.prompt
        tied = ((gaps == 0) | ~known).all(axis=0) & known.any(axis=0)
        self.remarks = np.where(tied, "all comparisons tie", "")
        self.remarks = np.where(self.usable, self.remarks, NOT_NUMBERS)
        if len(self.names):
            self.moments = moments(self.won, self.criterion, self.prompt)

    @property
    def testable(self) -> np.ndarray:
        """Has each head two prompts with numbers on what it claims?"""
        if not len(self.names):
            return np.zeros(len(self.heads), bool)
        return (self.moments.known & (self.claims[:, None] == self.names)).any(axis=1)

    @property
    def centred(self) -> np.ndarray:
        out = np.full(self.moments.rate.shape, np.nan)
        out[self.usable] = double_centred(self.moments.rate[self.usable])
        return out

    def interval(self, head: int, criterion: int, alpha: float) -> dict:
        """Win rate of a head on a criterion, over what has numbers, and what hasn't."""
        there = self.criterion == criterion
        known = there & np.isfinite(self.won[:, head])
        missing = int(there.sum() - known.sum())
        if not known.any():
            rates = dict.fromkeys(("win_rate", "low", "high"), np.nan)
            return {"n": 0, "prompts": 0, "missing": missing} | rates
        totals, sizes = proportions.by_prompt(self.won[known, head], self.prompt[known])
        found = proportions.wilson(totals, sizes, 1 - alpha)
        rates = {"win_rate": found.estimate, "low": found.low, "high": found.high}
        return {"n": int(known.sum()), "prompts": len(sizes), "missing": missing} | rates


def _accusations(data, part: Moments, claimed, own, form: str, found: Family, alpha):
    names = np.asarray([*claimed, ""])
    if form == "swap":
        other, gained = data.heads[found.other], own[found.other]
        words = np.where(gained < 0, data.claims[found.other], names[gained])
    else:
        other, gained = np.full(len(found.head), ""), found.other
        words = names[gained]
    share = alpha / len(FORMS)
    level = share / max(len(found.p), 1)
    reach = stats.t.isf(holm_levels(found.p, share), found.df) * found.se if len(found.p) else 0
    return pd.DataFrame(
        {
            "head": data.heads[found.head],
            "other": other,
            "claims": names[own[found.head]],
            "other_claims": words,
            "delta": found.delta,
            "low": found.delta - reach,
            "high": found.delta + reach,
            "se": found.se,
            "p": found.p,
            "p_adjusted": found.adjusted,
            "wrong": found.adjusted < alpha,
            "power": _power(form, part, own, found, gained, level),
            "mde": attainable(
                (stats.t.isf(level, found.df) + stats.norm.ppf(POWER)) * found.se, FOUR_RATES
            ),
            "note": "",
        }
    )[list(PAIRS)]


def _power(form, part: Moments, own, found: Family, gained, level) -> np.ndarray:
    """To find ``GAP``: win rates of ½ + GAP where a head really belongs and ½ elsewhere.

    Heads independent, a prompt counting once. In a swap two heads differ on two criteria, or,
    where one is a rival, on one; the centred form sees one head.
    """
    won, other, each = 0.25 - GAP**2, 0.25, 1 / part.prompts.max(axis=0)
    lost = own[found.head]
    effect, variance = GAP, other * each[lost] + won * each[gained]
    if form == "swap":
        rest = (each.sum() - each[lost]) * 2 * other / max(len(each) - 1, 1) ** 2
        rival = gained < 0
        effect = np.where(rival, GAP, 2 * GAP)
        variance = (won + other) * (each[lost] + np.where(rival, 0, each[gained])) + rival * rest
    return stats.norm.sf(stats.t.isf(level, found.df) - effect / np.sqrt(variance))


def _heads(
    data, tested, claimed, alpha, found: Verdicts | None = None, assigned=None
) -> pd.DataFrame:
    table = pd.DataFrame({"head": data.heads, "claims": data.claims})
    table["family"], table["source"] = data.family, data.sources
    table["fits"], table["nearest"] = "", ""
    numbers = ("own", "low", "high", "own_centred", "best_centred", "beaten_by", "p_adjusted")
    numbers += ("fits_p", "nearest_own")
    table[list(numbers)] = np.nan
    table["n"], table["prompts"], table["missing"], table["right"] = 0, 0, 0, False
    table["best"], table["why"], table["label"] = "", "", NOT_TESTED
    table["assigned"] = "" if assigned is None else assigned
    table["note"] = [_why_not(data, k, claimed) for k in range(len(data.heads))]
    names = data.names.tolist()
    columns = [names.index(name) for name in claimed]
    centred = data.centred if len(names) else None
    for k in tested:
        c = names.index(data.claims[k])
        own = data.interval(k, c, alpha)
        table.loc[k, "own"] = own.pop("win_rate")
        table.loc[k, list(own)] = pd.Series(own)
        table.loc[k, "note"] = without_numbers(own["n"], own["missing"])
        others = (data.claims != data.claims[k]) & data.usable
        rate = data.moments.rate[:, c]
        table.loc[k, "beaten_by"] = int((rate[others] > rate[k]).sum())
        if found is None:
            continue
        there = centred[k, columns]
        table.loc[k, "own_centred"] = centred[k, c]
        table.loc[k, "best"], table.loc[k, "best_centred"] = (
            claimed[int(np.nanargmax(there))],
            np.nanmax(there),
        )
        table.loc[k, "right"] = assigned[k] == data.claims[k]
        table.loc[k, "p_adjusted"] = _smallest(found, k)
        table.loc[k, ["label", "why"]] = _verdict(data, claimed, found, k)
    return table[list(HEADS)]


def _smallest(found: Verdicts, head: int) -> float:
    touched = (found.swap.head == head) | (found.swap.other == head)
    p = [*found.swap.adjusted[touched], *found.centred.adjusted[found.centred.head == head]]
    return min(p, default=np.nan)


def _verdict(data, claimed, found: Verdicts, head: int) -> tuple[str, str]:
    """The one verdict on a name, and what it rests on."""
    if found.wrong[head]:
        return WRONG, f"follows {claimed[found.follows[head]]} better"
    if not found.doubted[head]:
        return NOT_CONTRADICTED, ""
    swap = found.swap
    partner = np.where(swap.head == head, swap.other, swap.head)
    open_ = ((swap.head == head) | (swap.other == head)) & ~found.wrong[partner]
    most = partner[open_][np.argmin(swap.p[open_])]
    return DOUBTED, f"fits better exchanged with {data.heads[most]}"


def _why_not(data, head: int, claimed: list[str]) -> str:
    claim = data.claims[head]
    if not data.usable[head]:
        return NOT_NUMBERS
    if not claim:
        return "claims none of the concepts"
    if data.remarks[head]:
        return str(data.remarks[head])
    if claim not in claimed or not data.testable[head]:
        if claim not in data.names.tolist():
            return f"no comparison with criterion {claim}"
        known = data.moments.prompts[head, data.names.tolist().index(claim)]
        return (
            f"{'one prompt' if known else NOT_NUMBERS + ' in comparisons'} with criterion {claim}"
        )
    return ""


# ---- Arrays ----


def double_centred(rate: np.ndarray) -> np.ndarray:
    """Less row and column means, plus the overall mean; last two axes. NaN counts in none."""
    known = np.isfinite(rate)

    def mean(axis):
        count = known.sum(axis=axis, keepdims=True)
        return np.where(known, rate, 0).sum(axis=axis, keepdims=True) / np.maximum(count, 1)

    return rate - mean(-1) - mean(-2) + mean((-1, -2))


def named(rate: np.ndarray, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Heads and rivals as ``assignment`` and ``names_p`` take them.

    Parameters
    ----------
    rate
        Shape (…, heads, criteria).
    own
        The column that each head claims or ``RIVAL``, shape (heads,).

    Returns
    -------
    rate, own
        Win rates less each head's mean, with a last column of zeros, and that column for rivals:
        having no name gains nothing.
    """
    mean = np.nanmean(rate, axis=-1, keepdims=True)
    none = np.zeros((*rate.shape[:-1], 1))
    centred = np.concatenate([np.nan_to_num(rate - mean), none], axis=-1)
    return centred, np.where(own < 0, rate.shape[-1], own)


def assignment(rate: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Whose name each head gets when the sum of win rates is highest.

    Parameters
    ----------
    rate
        Shape (heads, criteria).
    own
        The column that each head claims, shape (heads,); a concept may occur several times
        and is then given as often.

    Returns
    -------
    numpy.ndarray
        Positions of heads, a permutation: head h fits the name of head ``out[h]``. A head
        keeps its name where that costs nothing.
    """
    # Favour the names as they are by less than any difference of win rates.
    keeps = 1e-9 * (own[:, None] == own[None, :])
    return optimize.linear_sum_assignment(rate[:, own] + keeps, maximize=True)[1]


def name_orders(heads: int, draws: int, seed: int = 0) -> np.ndarray:
    """Orders of names, shape (orders, heads): all but the given one up to seven heads.

    Random ones above.
    """
    if heads <= ENUMERATED:
        return np.asarray(list(itertools.permutations(range(heads)))[1:], int).reshape(-1, heads)
    generator = np.random.default_rng(seed)
    return np.argsort(generator.random((draws, heads)), axis=1)


def names_p(rate: np.ndarray, own: np.ndarray, orders: np.ndarray) -> np.ndarray:
    """Share of name orders whose win rates on own criteria sum as high, the given one included.

    Parameters
    ----------
    rate
        Shape (…, heads, criteria).
    own
        Claimed columns, shape (heads,).
    orders
        From ``name_orders``.
    """
    heads = np.arange(len(own))
    observed = rate[..., heads, own].sum(axis=-1)
    among = np.zeros(observed.shape)
    step = max(1, 4_000_000 // max(1, observed.size * len(own)))
    for start in range(0, len(orders), step):
        dealt = own[orders[start : start + step]]
        sums = rate[..., heads, dealt].sum(axis=-1)
        among += (sums >= observed[..., None] - 1e-9).sum(axis=-1)
    return (1 + among) / (1 + len(orders))
