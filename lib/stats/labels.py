"""Labels: does each head measure what its name says?

``label_matrix``  A[head, criterion]: win rates on targeted comparisons, double-centred too
``label_check``   one-to-one assignment, p against random names, and wrong-label accusations
``mtmm``          multitrait-multimethod: do heads of one concept agree more than others do?

Below them, on arrays with any leading axes of draws: ``moments`` (win rates and their
prompt-clustered covariance), ``swap_contrasts``, ``centred_contrasts`` and ``names_p``.
Moments and contrasts are in ``lib.stats.exchanges``, ``mtmm`` in ``lib.stats.multitrait``,
``claims`` and ``criteria`` in ``lib.stats.naming``.

A *criterion* is the concept of a comparison (``lib.data.concepts``), or the set's own word
where that table has none. A head *claims* the concept that its model declares, or, where a
model declares none for any head, what its name says.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr
from scipy import optimize, stats

from lib.errors import DataError
from lib.extraction.run import align
from lib.stats import permutation, proportions
from lib.stats.exchanges import (
    Moments,
    centred_contrasts,
    centred_family,
    holm_levels,
    moments,
    one_sided,
    swap_contrasts,
    swap_family,
)
from lib.stats.multitrait import DISCRIMINANT, MTMM, correlations, htmt, mtmm, sources
from lib.stats.naming import claims, criteria, empty
from lib.stats.winrates import POWER

__all__ = [
    "DISCRIMINANT",
    "FORMS",
    "GAP",
    "HEADS",
    "MATRIX",
    "MTMM",
    "PAIRS",
    "LabelCheck",
    "Moments",
    "accused",
    "assignment",
    "centred_contrasts",
    "centred_family",
    "claims",
    "correlations",
    "criteria",
    "double_centred",
    "holm_levels",
    "htmt",
    "label_check",
    "label_matrix",
    "moments",
    "mtmm",
    "name_orders",
    "names_p",
    "one_sided",
    "sources",
    "swap_contrasts",
    "swap_family",
]

GAP = 0.2  # the difference in win rate whose detection ``power`` is told for
ENUMERATED = 7  # heads up to which all orders of names are tried
FORMS = ("swap", "centred")  # of accusation; a page makes both, so each has half of its level
NOT_NUMBERS = "scores that are not numbers"
MATRIX = ("head", "criterion", "n", "prompts", "win_rate", "low", "high", "centred")
MATRIX += ("claims", "claimed", "note")
HEADS = ("head", "claims", "n", "prompts", "own", "low", "high", "own_centred", "best")
HEADS += ("best_centred", "assigned", "right", "beaten_by", "p_adjusted", "label", "note")
PAIRS = ("head", "other", "claims", "other_claims", "delta", "low", "high", "se", "p")
PAIRS += ("p_adjusted", "wrong", "power", "mde", "note")


@dataclass(frozen=True)
class LabelCheck:
    """What ``label_check`` found.

    Attributes
    ----------
    heads
        One row a head; see ``label_check``.
    pairs
        One row a possible accusation.
    tested, right
        Heads with a claim that could be tested; those whose assigned concept is their own.
    p
        Of the sum of win rates on own criteria among all ways to deal the same names.
    smallest_p
        That p can take with these names.
    left_out
        Comparisons with a criterion that no tested head claims.
    note
        Why there is no test, or "".
    mde
        Of ``p``: how much more than with names dealt at random the heads would have to win on
        their own criteria, on average, for p < alpha with power .8. NaN without a test or where
        p can't be that small.
    """

    heads: pd.DataFrame
    pairs: pd.DataFrame
    tested: int
    right: int
    p: float
    smallest_p: float
    left_out: int
    note: str
    mde: float = np.nan


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
        One row a head and criterion: ``head``, ``criterion``, ``n``, ``prompts``,
        ``win_rate`` (ties half), ``low`` and ``high`` (``lib.stats.proportions.wilson``),
        ``centred`` (win rate less its head's and its criterion's mean plus the overall mean,
        over heads with numbers), ``claims`` (what the head claims), ``claimed`` (is that this
        criterion?) and ``note``.
    """
    data = _Data(run, comparisons)
    if not len(data.names):
        rows = pd.DataFrame({"head": data.heads, "criterion": "none", "n": 0, "prompts": 0})
        rows[["win_rate", "low", "high", "centred"]] = np.nan
        rows = rows.assign(claims=data.claims, claimed=False, note="no comparisons")
        return rows[list(MATRIX)]
    centred = np.full(data.moments.rate.shape, np.nan)
    centred[data.usable] = double_centred(data.moments.rate[data.usable])
    parts = []
    for c, name in enumerate(data.names):
        mask = data.criterion == c
        _, prompt = np.unique(data.prompt[mask], return_inverse=True)
        totals, sizes = proportions.by_cluster(data.won[mask], prompt)
        interval = proportions.wilson(totals, sizes, 1 - alpha)
        values = {"win_rate": interval.estimate, "low": interval.low, "high": interval.high}
        parts.append(
            pd.DataFrame(
                {
                    "head": data.heads,
                    "criterion": name,
                    "n": int(mask.sum()),
                    "prompts": len(sizes),
                    **{k: np.where(data.usable, v, np.nan) for k, v in values.items()},
                    "centred": centred[:, c],
                    "claims": data.claims,
                    "claimed": data.claims == name,
                    "note": np.where(data.usable, data.remarks, NOT_NUMBERS),
                }
            )
        )
    return pd.concat(parts, ignore_index=True)[list(MATRIX)]


def label_check(
    run: xr.Dataset,
    comparisons: pd.DataFrame | None = None,
    *,
    form: str = "swap",
    alpha: float = 0.05,
    draws: int = 10_000,
    seed: int = 0,
) -> LabelCheck:
    """Are the heads' names right, better than random, or wrong?

    Parameters
    ----------
    run
        A Run.
    comparisons
        As in ``items.comparisons``; the run's own by default.
    form
        Of the accusation. ``"swap"``: heads i and j fit better with their names exchanged,
        Δ = A[i, j] + A[j, i] − A[i, i] − A[j, j]. ``"centred"``: a head fits a criterion b
        better than its own, Δ = A[h, b] − A[h, own], each less the tested heads' mean.
    alpha
        Family-wise level of the accusations of both forms together; each has half of it. The
        family of a form is every pair of heads with different claims, or every head with every
        other claimed criterion.
    draws, seed
        Of random orders of the names, where there are more than seven tested heads.

    Returns
    -------
    LabelCheck
        ``heads``: ``head``, ``claims``, ``n`` and ``prompts`` (of the own criterion), ``own``
        (win rate there) with ``low`` and ``high``, ``own_centred``, ``best`` (claimed
        criterion where the centred win rate is highest) with ``best_centred``, ``assigned``
        (the one-to-one assignment with the highest sum; heads that claim the same are one
        class), ``right``, ``beaten_by`` (heads with other or no claims that win more on the
        own criterion), ``p_adjusted`` (smallest of its accusations), ``label`` (``wrong``,
        ``not contradicted``, ``not tested``) and ``note``.

        ``pairs``: ``head`` and ``other`` (empty in the centred form), what they claim
        (``other_claims``: the other criterion), ``delta``, ``low`` and ``high`` (each a
        one-sided bound at the level of the pair's Holm step), ``se``, ``p`` (one-sided),
        ``p_adjusted`` (``accused``), ``wrong``, ``power`` (of the first Holm step for a head that
        wins ½ + ``GAP`` where it belongs and ½ elsewhere, with this many prompts), ``mde`` (the
        ``delta`` that this step finds with power .8 at this ``se``) and ``note``.

    Raises
    ------
    DataError
        For an unknown form.

    Notes
    -----
    ``p`` asks only whether names fit better than random ones would; some wrong names may be
    among them. An accusation is at the level of its pair: a head that measures nothing can
    be drawn into that of a head which measures the other's concept.
    """
    if form not in FORMS:
        raise DataError(f"a form among {', '.join(FORMS)}", repr(form), "Choose one of them.")
    data = _Data(run, comparisons)
    able = data.usable & (data.remarks == "") & (data.claims != "")
    tested = np.flatnonzero(able & np.isin(data.claims, data.testable))
    claimed = list(dict.fromkeys(data.claims[tested].tolist()))
    left_out = int((~np.isin(data.names[data.criterion], claimed)).sum()) if len(data.names) else 0
    if len(claimed) < 2:
        heads = _heads(data, tested, claimed, empty(PAIRS), np.empty(0, np.str_), alpha)
        return LabelCheck(
            heads, empty(PAIRS), len(tested), 0, np.nan, np.nan, left_out, _too_few(claimed)
        )
    column = np.asarray([data.names.tolist().index(name) for name in claimed])
    own = np.asarray([claimed.index(name) for name in data.claims[tested]])
    moments = data.moments
    part = Moments(
        moments.rate[np.ix_(tested, column)],
        moments.covariance[np.ix_(column, tested, column, tested)],
        moments.prompts[column],
    )
    assigned = np.asarray(claimed)[own[assignment(part.rate, own)]]
    pairs = _pairs(data, part, tested, claimed, own, form, alpha)
    heads = _heads(data, tested, claimed, pairs, assigned, alpha)
    orders = name_orders(len(own), draws, seed)
    smallest = math.prod(math.factorial(int(k)) for k in np.bincount(own)) / math.factorial(
        len(own)
    )
    smallest = max(smallest, 1 / (1 + len(orders)))
    return LabelCheck(
        heads,
        pairs,
        len(tested),
        int((assigned == data.claims[tested]).sum()),
        float(names_p(part.rate, own, orders)),
        smallest,
        left_out,
        "",
        _names_mde(part, own, orders, alpha) if smallest < alpha else np.nan,
    )


def _names_mde(part: Moments, own: np.ndarray, orders: np.ndarray, alpha: float) -> float:
    """Mean win rate on own criteria, above that of dealt names, that ``names_p`` would find."""
    heads = np.arange(len(own))
    dealt = part.rate[heads, own[orders]].mean(axis=-1)
    covariance = part.covariance[own[:, None], heads[:, None], own, heads]
    se = np.sqrt(max(covariance.sum(), 0)) / len(own)
    above = np.quantile(dealt, 1 - alpha) - dealt.mean()
    return float(above + stats.norm.ppf(POWER) * se)


def _too_few(claimed: list[str]) -> str:
    if not claimed:
        return "no head claims a criterion of these comparisons"
    return f"all heads that could be tested claim {claimed[0]}: names can't be told apart"


class _Data:
    """A run's comparisons as wins by criterion and prompt."""

    def __init__(self, run: xr.Dataset, comparisons: pd.DataFrame | None):
        aligned = align(run, comparisons)
        scores = run["score"].values.astype(float)
        gaps = scores[aligned.better] - scores[aligned.worse]
        self.heads = run["head"].values.astype(str)
        self.claims = claims(run)
        self.usable = np.isfinite(gaps).all(axis=0)
        self.won = np.nan_to_num((np.sign(gaps) + 1) / 2)
        self.names, self.criterion = np.unique(criteria(run, aligned), return_inverse=True)
        self.prompt = aligned.prompt
        tied = (gaps == 0).all(axis=0) & (len(gaps) > 0)
        self.remarks = np.where(tied, "all comparisons tie", "")
        if len(self.names):
            self.moments = moments(self.won, self.criterion, self.prompt)
            rate = np.where(self.usable[:, None], self.moments.rate, np.nan)
            self.moments = Moments(rate, self.moments.covariance, self.moments.prompts)

    @property
    def testable(self) -> np.ndarray:
        """Criteria with at least two prompts."""
        return self.names[self.moments.prompts > 1] if len(self.names) else self.names


def _pairs(data, part: Moments, tested, claimed, own, form, alpha) -> pd.DataFrame:
    if form == "swap":
        first, second = swap_family(own)
        delta, se, df = swap_contrasts(part, own, first, second)
        other, other_claims = data.heads[tested][second], own[second]
    else:
        first, second = centred_family(own, len(claimed))
        delta, se, df = centred_contrasts(part, own, first, second)
        other, other_claims = np.full(len(first), ""), second
    p = one_sided(delta, se, df)
    adjusted = accused(p)
    share = alpha / len(FORMS)
    level = holm_levels(p, share)
    reach = stats.t.isf(level, df) * se
    power = _power(form, part.prompts, own[first], other_claims, df, share / len(p))
    names = np.asarray(claimed)
    return pd.DataFrame(
        {
            "head": data.heads[tested][first],
            "other": other,
            "claims": names[own[first]],
            "other_claims": names[other_claims],
            "delta": delta,
            "low": delta - reach,
            "high": delta + reach,
            "se": se,
            "p": p,
            "p_adjusted": adjusted,
            "wrong": adjusted < alpha,
            "power": power,
            "mde": (stats.t.isf(share / len(p), df) + stats.norm.ppf(POWER)) * se,
            "note": "",
        }
    )[list(PAIRS)]


def _power(form, prompts, lost, gained, df, level) -> np.ndarray:
    """To find ``GAP``: win rates of ½ + GAP where a head really belongs and ½ elsewhere.

    Heads independent, a prompt counting once. In a swap two heads differ on two criteria; the
    centred form sees one head.
    """
    won, other = 0.25 - GAP**2, 0.25
    if form == "swap":
        effect, variance = 2 * GAP, (won + other) * (1 / prompts[lost] + 1 / prompts[gained])
    else:
        effect, variance = GAP, other / prompts[lost] + won / prompts[gained]
    return stats.norm.sf(stats.t.isf(level, df) - effect / np.sqrt(variance))


def _heads(data, tested, claimed, pairs, assigned, alpha) -> pd.DataFrame:
    table = pd.DataFrame({"head": data.heads, "claims": data.claims})
    numbers = ("own", "low", "high", "own_centred", "best_centred", "beaten_by", "p_adjusted")
    table[list(numbers)] = np.nan
    table["n"], table["prompts"], table["right"] = 0, 0, False
    table["best"], table["assigned"], table["label"] = "", "", "not tested"
    table["note"] = [_why(data, k, claimed) for k in range(len(data.heads))]
    names = data.names.tolist()
    for k in tested:
        c = names.index(data.claims[k])
        mask = data.criterion == c
        _, prompt = np.unique(data.prompt[mask], return_inverse=True)
        totals, sizes = proportions.by_cluster(data.won[mask, k], prompt)
        interval = proportions.wilson(totals, sizes, 1 - alpha)
        others = (data.claims != data.claims[k]) & data.usable
        table.loc[k, ["own", "low", "high"]] = interval.estimate, interval.low, interval.high
        table.loc[k, ["n", "prompts"]] = int(mask.sum()), len(sizes)
        rate = data.moments.rate[:, c]
        table.loc[k, "beaten_by"] = int((rate[others] > rate[k]).sum())
    if len(claimed) < 2:
        return table[list(HEADS)]
    columns = [names.index(name) for name in claimed]
    centred = double_centred(data.moments.rate[np.ix_(tested, columns)])
    for position, k in enumerate(tested):
        best = int(np.argmax(centred[position]))
        touched = (pairs["head"] == data.heads[k]) | (pairs["other"] == data.heads[k])
        p = pairs.loc[touched, "p_adjusted"].min()
        wrong = bool(pairs.loc[touched, "wrong"].any())
        table.loc[k, ["best", "assigned"]] = claimed[best], assigned[position]
        table.loc[k, "own_centred"] = centred[position, claimed.index(data.claims[k])]
        table.loc[k, "best_centred"] = centred[position, best]
        table.loc[k, "right"] = assigned[position] == data.claims[k]
        table.loc[k, "p_adjusted"] = p
        table.loc[k, "label"] = "wrong" if wrong else "not contradicted"
    return table[list(HEADS)]


def _why(data, head: int, claimed: list[str]) -> str:
    claim = data.claims[head]
    if not data.usable[head]:
        return NOT_NUMBERS
    if not claim:
        return "claims none of the concepts"
    if data.remarks[head]:
        return str(data.remarks[head])
    if claim not in claimed:
        few = claim in data.names.tolist()
        return f"{'one prompt' if few else 'no comparison'} with criterion {claim}"
    return ""


# ---- Arrays ----


def double_centred(rate: np.ndarray) -> np.ndarray:
    """Less row and column means, plus the overall mean; last two axes."""
    rows, columns = rate.mean(axis=-1, keepdims=True), rate.mean(axis=-2, keepdims=True)
    return rate - rows - columns + rate.mean(axis=(-1, -2), keepdims=True)


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


def accused(p: np.ndarray) -> np.ndarray:
    """Adjusted p of one form's accusations: Holm within the form, Bonferroni over the forms.

    Two forms that are each held to alpha accuse falsely more often together; held to half of it
    each, they don't. ``p`` has the family on its last axis.
    """
    return np.minimum(len(FORMS) * permutation.holm(p), 1.0)


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
