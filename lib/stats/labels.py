"""Labels: does each head measure what its name says?

``label_matrix``  A[head, criterion]: win rates on targeted comparisons, double-centred too
``label_check``   one-to-one assignment, p against random names, and wrong-label accusations
``mtmm``          multitrait-multimethod: do heads of one concept agree more than others do?

Below them, on arrays with any leading axes of draws: ``moments`` (win rates and their
prompt-clustered covariance), ``swap_contrasts``, ``centred_contrasts``, ``names_p``,
``correlations`` and ``htmt``.

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

from lib.data import concepts
from lib.errors import DataError
from lib.extraction.run import Aligned, align
from lib.stats import permutation, proportions

GAP = 0.2  # the difference in win rate whose detection ``power`` is told for
DISCRIMINANT = 0.85
ENUMERATED = 7  # heads up to which all orders of names are tried
FORMS = ("swap", "centred")
NOT_NUMBERS = "scores that are not numbers"
MATRIX = ("head", "criterion", "n", "prompts", "win_rate", "low", "high", "centred")
MATRIX += ("claims", "claimed", "note")
HEADS = ("head", "claims", "n", "prompts", "own", "low", "high", "own_centred", "best")
HEADS += ("best_centred", "assigned", "right", "beaten_by", "p_adjusted", "label", "note")
PAIRS = ("head", "other", "claims", "other_claims", "delta", "low", "high", "se", "p")
PAIRS += ("p_adjusted", "wrong", "power", "note")
MTMM = ("concept", "other", "n", "prompts", "convergent", "convergent_low", "other_convergent")
MTMM += ("other_convergent_low", "hetero", "htmt", "htmt_high", "htmt2", "verdict", "note")


@dataclass(frozen=True)
class Moments:
    """Win rates of heads by criterion, with what their contrasts' intervals need.

    Attributes
    ----------
    rate
        A, shape (…, heads, criteria).
    covariance
        Prompt-clustered sampling covariance: ``covariance[…, c, h, d, k]`` is that of A[h, c]
        and A[k, d]. NaN for a criterion with a single prompt.
    prompts
        Of each criterion, shape (criteria,).
    """

    rate: np.ndarray
    covariance: np.ndarray
    prompts: np.ndarray


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
    """

    heads: pd.DataFrame
    pairs: pd.DataFrame
    tested: int
    right: int
    p: float
    smallest_p: float
    left_out: int
    note: str


# ---- Tables ----


def claims(run: xr.Dataset) -> np.ndarray:
    """The concept that each head claims, or "": strings, shape (heads,).

    A model that declares concepts is taken at its word for all of its heads; the names are
    read (``lib.data.concepts.of_head``) only where it declares none at all.
    """
    declared = run["head_concept"].values
    if (declared != "").any():
        return declared.astype(np.str_)
    return np.asarray([concepts.of_head(str(name)) for name in run["head"].values], np.str_)


def criteria(run: xr.Dataset, aligned: Aligned) -> np.ndarray:
    """What each comparison is about, shape (comparisons,): its concept, else its criterion."""
    found: dict[tuple[str, str], str] = {}
    for pair in set(zip(aligned.criterion.tolist(), aligned.subset.tolist(), strict=True)):
        try:
            found[pair] = concepts.of_comparison(run.attrs["dataset"], *pair) or pair[0]
        except DataError:
            found[pair] = pair[0]
    pairs = zip(aligned.criterion.tolist(), aligned.subset.tolist(), strict=True)
    return np.asarray([found[pair] for pair in pairs], np.str_)


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
        Family-wise level of the accusations. The family is every pair of heads with
        different claims, or every head with every other claimed criterion.
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
        ``p_adjusted``, ``wrong``, ``power`` (of the first Holm step for a head that wins
        ½ + ``GAP`` where it belongs and ½ elsewhere, with this many prompts) and ``note``.

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
        heads = _heads(data, tested, claimed, _empty(PAIRS), np.empty(0, np.str_), alpha)
        return LabelCheck(
            heads, _empty(PAIRS), len(tested), 0, np.nan, np.nan, left_out, _too_few(claimed)
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
    return LabelCheck(
        heads,
        pairs,
        len(tested),
        int((assigned == data.claims[tested]).sum()),
        float(names_p(part.rate, own, orders)),
        max(smallest, 1 / (1 + len(orders))),
        left_out,
        "",
    )


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
    adjusted = permutation.holm(p)
    level = holm_levels(p, alpha)
    reach = stats.t.isf(level, df) * se
    power = _power(form, part.prompts, own[first], other_claims, df, alpha / len(p))
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


def _empty(columns: tuple[str, ...]) -> pd.DataFrame:
    text = {"head", "criterion", "claims", "other", "other_claims", "concept", "verdict", "note"}
    kinds = {
        c: (object if c in text else bool if c in ("wrong", "claimed") else float) for c in columns
    }
    return pd.DataFrame({c: pd.Series(dtype=kind) for c, kind in kinds.items()})


# ---- Arrays ----


def moments(won: np.ndarray, criterion: np.ndarray, prompt: np.ndarray) -> Moments:
    """Win rates by head and criterion with their prompt-clustered covariance.

    Parameters
    ----------
    won
        1, ½ or 0 for each comparison and head, shape (…, comparisons, heads).
    criterion
        Integers from 0 without gaps, shape (comparisons,).
    prompt
        Integers, shape (comparisons,). A prompt may have several criteria.

    Notes
    -----
    Each prompt's influence on A[h, c] is (its wins − its rows · A[h, c]) / n_c, times
    √(G/(G − 1)) for the G prompts of the criterion; the covariance is the sum of products
    over prompts. With one comparison a prompt the variance is p(1 − p)/(n − 1).
    """
    order = np.lexsort((prompt, criterion))
    criterion, prompt, won = criterion[order], prompt[order], won[..., order, :]
    changed = (np.diff(criterion) != 0) | (np.diff(prompt) != 0)
    starts = np.concatenate([[0], np.flatnonzero(changed) + 1])
    size = np.diff([*starts, len(prompt)]).astype(float)
    totals = np.add.reduceat(won, starts, axis=-2)
    owner, who = criterion[starts], prompt[starts]
    n = np.bincount(criterion).astype(float)
    prompts = np.bincount(owner)
    first = np.concatenate([[0], np.cumsum(prompts)[:-1]])
    rate = np.add.reduceat(totals, first, axis=-2) / n[:, None]
    with np.errstate(divide="ignore"):
        scale = np.sqrt(prompts / np.where(prompts > 1, prompts - 1, np.nan)) / n
    influence = (totals - size[:, None] * rate[..., owner, :]) * scale[owner, None]
    covariance = _covariance(influence, who, first, prompts)
    return Moments(np.swapaxes(rate, -1, -2), covariance, prompts)


def _covariance(influence, who, first, prompts) -> np.ndarray:
    count, heads = len(prompts), influence.shape[-1]
    out = np.zeros((*influence.shape[:-2], count, heads, count, heads))
    spans = [slice(f, f + p) for f, p in zip(first, prompts, strict=True)]
    for c, d in itertools.combinations_with_replacement(range(count), 2):
        _, mine, theirs = np.intersect1d(who[spans[c]], who[spans[d]], return_indices=True)
        if len(mine):
            left = influence[..., spans[c], :][..., mine, :]
            right = influence[..., spans[d], :][..., theirs, :]
            block = np.swapaxes(left, -1, -2) @ right
            out[..., c, :, d, :] = block
            out[..., d, :, c, :] = np.swapaxes(block, -1, -2)
    return out


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


def swap_family(own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions i < j of all pairs of heads with different claims."""
    first, second = np.triu_indices(len(own), 1)
    differ = own[first] != own[second]
    return first[differ], second[differ]


def centred_family(own: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Each head with each criterion that it doesn't claim."""
    head, criterion = np.divmod(np.arange(len(own) * count), count)
    differ = own[head] != criterion
    return head[differ], criterion[differ]


def swap_contrasts(part: Moments, own, first, second):
    """Δ of exchanged names for pairs of heads, its standard error and degrees of freedom.

    Returns
    -------
    delta, se, df
        Shapes (…, pairs).

    Notes
    -----
    Δ = (A[i, b] − A[j, b]) + (A[j, a] − A[i, a]), a and b what i and j claim: two means of
    differences, each of one set of comparisons. As in ``lib.stats.proportions`` a quarter of
    a prompt that is half +1 and half −1 is added to each variance, so that few unanimous
    prompts prove nothing; degrees of freedom are Welch's.
    """
    eye = np.eye(len(own))
    toward = eye[first] - eye[second]
    return _contrasts(part, toward, own[second], own[first])


def centred_contrasts(part: Moments, own, head, criterion):
    """Δ of a head's centred win rate on a criterion and on its own; as ``swap_contrasts``."""
    toward = np.eye(len(own))[head] - 1 / len(own)
    return _contrasts(part, toward, criterion, own[head])


def _contrasts(part: Moments, weight, gained, lost):
    """Σ_k w_k (A[k, gained] − A[k, lost]), weights of shape (contrasts, heads)."""
    gain = (weight * np.swapaxes(part.rate, -1, -2)[..., gained, :]).sum(axis=-1)
    loss = (weight * np.swapaxes(part.rate, -1, -2)[..., lost, :]).sum(axis=-1)
    cov = np.moveaxis(part.covariance, -3, -2)  # (…, criterion, criterion, head, head)

    def form(c, d):
        return np.einsum("ph,...phk,pk->...p", weight, cov[..., c, d, :, :], weight)

    prior = proportions.PSEUDO_CLUSTERS / part.prompts.astype(float) ** 2
    gains = form(gained, gained) + prior[gained] * (1 + gain**2)
    losses = form(lost, lost) + prior[lost] * (1 + loss**2)
    variance = np.maximum(gains + losses - 2 * form(gained, lost), 1e-12)
    free = part.prompts - 1.0
    df = (gains + losses) ** 2 / (gains**2 / free[gained] + losses**2 / free[lost])
    return gain - loss, np.sqrt(variance), df


def one_sided(delta: np.ndarray, se: np.ndarray, df: np.ndarray) -> np.ndarray:
    """P(T ≥ Δ/SE): small when Δ is above 0."""
    return stats.t.sf(delta / se, df)


def holm_levels(p: np.ndarray, alpha: float) -> np.ndarray:
    """The level at which Holm's procedure tests each p; where it stops, that step's.

    ``p`` lies below its level exactly where its Holm-adjusted p lies below ``alpha``.
    """
    rank = np.argsort(np.argsort(p))
    stop = int((permutation.holm(p) < alpha).sum())
    return alpha / (len(p) - np.minimum(rank, min(stop, len(p) - 1)))


# ---- Several heads of one concept ----


def correlations(products: np.ndarray) -> np.ndarray:
    """r_ij = Σ g_i g_j / √(Σ g_i² Σ g_j²) from sums of products, shape (…, heads, heads)."""
    spread = np.sqrt(np.diagonal(products, axis1=-2, axis2=-1))
    return products / (spread[..., :, None] * spread[..., None, :])


def htmt(r: np.ndarray, first, second, source=None):
    """Heterotrait-monotrait ratio of two traits.

    Parameters
    ----------
    r
        Correlations of all heads, shape (…, heads, heads).
    first, second
        Positions of the heads of each trait.
    source
        Of each head; pairs of one source are left out. Each its own by default.

    Returns
    -------
    dict
        ``hetero`` (mean |r| across traits), ``mono`` and ``mono_other`` (mean r within),
        ``htmt`` = hetero / √(mono · mono_other), ``htmt2`` (the same with geometric means of
        |r|), ``defined`` (is every r within a trait above 0?): arrays of the leading shape.
        Ratios are infinite where the denominator isn't above 0, and NaN without pairs.

    Notes
    -----
    Henseler, Ringle and Sarstedt (2015), with absolute heterotrait correlations; HTMT2 is
    Roemer, Schuberth and Henseler's (2021). Checked against the values of both for
    HolzingerSwineford1939.
    """
    source = np.arange(r.shape[-1]) if source is None else np.asarray(source)

    def chosen(pairs):
        kept = [(i, j) for i, j in pairs if source[i] != source[j]]
        i, j = np.asarray(kept, int).reshape(-1, 2).T
        return r[..., i, j]

    across = np.abs(chosen(itertools.product(first, second)))
    within = [chosen(itertools.combinations(trait, 2)) for trait in (first, second)]
    hetero, mono, other = (_mean(values) for values in (across, *within))
    with np.errstate(divide="ignore", invalid="ignore"):
        low = (mono > 0) & (other > 0)
        ratio = hetero / np.sqrt(np.where(low, mono * other, np.nan))
        logs = [_mean(np.log(np.abs(values))) for values in (across, *within)]
        ratio2 = np.exp(logs[0] - (logs[1] + logs[2]) / 2)
    known = np.isfinite(hetero) & np.isfinite(mono) & np.isfinite(other)
    return {
        "hetero": hetero,
        "mono": mono,
        "mono_other": other,
        "htmt": np.where(known & ~low, np.inf, ratio),
        "htmt2": ratio2,
        "defined": known & (within[0] > 0).all(axis=-1) & (within[1] > 0).all(axis=-1),
    }


def _mean(values: np.ndarray) -> np.ndarray:
    return values.mean(axis=-1) if values.shape[-1] else np.full(values.shape[:-1], np.nan)


def sources(heads: np.ndarray) -> np.ndarray:
    """Where each head's ratings come from: its name up to the first dash."""
    return np.asarray([str(name).split("-")[0] for name in heads], np.str_)


def mtmm(
    run: xr.Dataset,
    comparisons: pd.DataFrame | None = None,
    *,
    source: np.ndarray | None = None,
    alpha: float = 0.05,
    draws: int = 2000,
    seed: int = 0,
) -> pd.DataFrame:
    """Do heads of one concept from several sources agree, more than with other concepts?

    Parameters
    ----------
    run
        A Run.
    comparisons
        As in ``items.comparisons``; the run's own by default.
    source
        Of each head; ``sources`` of their names by default.
    alpha
        One-sided level of each bound, uncorrected.
    draws, seed
        Of the bootstrap over prompts.

    Returns
    -------
    pandas.DataFrame
        One row a pair of claimed concepts of which at least one has heads from two sources:
        ``concept``, ``other``, ``n``, ``prompts``; ``convergent`` (mean r of gaps within the
        concept) with its lower bound ``convergent_low``, the same for the ``other``;
        ``hetero`` (mean |r| across), ``htmt`` with its upper bound ``htmt_high``, ``htmt2``;
        ``verdict`` and ``note``. Verdicts: ``undefined`` (a concept with heads of one source
        only, a single prompt, or an r within a concept that isn't above 0), ``convergent and
        discriminant``
        (both lower bounds above 0, the upper bound of HTMT below .85), ``convergent``
        (both lower bounds above 0), else ``not shown``.

    Notes
    -----
    Correlations are of gaps, uncentred: which side of a pair is written first says nothing.
    Heads without numbers or whose gaps are all 0 are left out.
    """
    aligned = align(run, comparisons)
    scores = run["score"].values.astype(float)
    gaps = scores[aligned.better] - scores[aligned.worse]
    claim = claims(run)
    with np.errstate(invalid="ignore"):
        usable = np.isfinite(gaps).all(axis=0) & (gaps != 0).any(axis=0) & (claim != "")
    kept = np.flatnonzero(usable) if len(gaps) else np.empty(0, int)
    source = (sources(run["head"].values) if source is None else np.asarray(source))[kept]
    traits = {name: np.flatnonzero(claim[kept] == name) for name in dict.fromkeys(claim[kept])}
    several = {name: len(set(source[rows])) > 1 for name, rows in traits.items()}
    wanted = [(a, b) for a, b in itertools.combinations(traits, 2) if several[a] or several[b]]
    if not wanted:
        return _empty(MTMM)
    products = _products(gaps[:, kept], aligned.prompt)
    r = correlations(products.sum(axis=0))
    resampled = correlations(_resampled(products, draws, seed))
    counts = {"n": len(gaps), "prompts": len(products)}
    rows = []
    for a, b in wanted:
        found = htmt(r, traits[a], traits[b], source)
        again = htmt(resampled, traits[a], traits[b], source)
        low = [np.quantile(again[k], alpha) for k in ("mono", "mono_other")]
        high = np.quantile(again["htmt"], 1 - alpha, method="higher")
        single = [name for name in (a, b) if not several[name]]
        verdict, note = _convergence(found, low, high, single, len(products))
        defined = verdict != "undefined"
        rows.append(
            {
                "concept": a,
                "other": b,
                **counts,
                "convergent": float(found["mono"]),
                "convergent_low": low[0],
                "other_convergent": float(found["mono_other"]),
                "other_convergent_low": low[1],
                "hetero": float(found["hetero"]),
                "htmt": float(found["htmt"]) if defined else np.nan,
                "htmt_high": high if defined and np.isfinite(high) else np.nan,
                "htmt2": float(found["htmt2"]) if defined else np.nan,
                "verdict": verdict,
                "note": note,
            }
        )
    return pd.DataFrame(rows)[list(MTMM)]


def _convergence(found, low, high, single: list[str], prompts: int) -> tuple[str, str]:
    if single:
        return "undefined", f"{' and '.join(single)}: heads of one source only"
    if prompts < 2:
        return "undefined", "a single prompt"
    if not np.isfinite(found["hetero"]):
        return "undefined", "no pair across the concepts has different sources"
    if not found["defined"]:
        return "undefined", "heads of one concept don't correlate above 0"
    if min(low) <= 0:
        return "not shown", ""
    if high < DISCRIMINANT:
        return "convergent and discriminant", ""
    return "convergent", ""


def _products(gaps: np.ndarray, prompt: np.ndarray) -> np.ndarray:
    """Sums of products of gaps by prompt, shape (prompts, heads, heads)."""
    _, prompt = np.unique(prompt, return_inverse=True)
    scaled = gaps / np.sqrt((gaps**2).mean(axis=0))
    return proportions.by_cluster(scaled[:, :, None] * scaled[:, None, :], prompt)[0]


def _resampled(products: np.ndarray, draws: int, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    n, heads = products.shape[0], products.shape[1]
    flat = products.reshape(n, -1)
    out = np.empty((draws, flat.shape[1]))
    step = max(1, 4_000_000 // n)
    for start in range(0, draws, step):
        stop = min(draws, start + step)
        out[start:stop] = generator.multinomial(n, np.full(n, 1 / n), size=stop - start) @ flat
    return out.reshape(draws, heads, heads)
