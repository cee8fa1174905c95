"""Verdicts on names, on arrays: another criterion fits a head better, or two names exchanged.

``moments`` gives win rates with their prompt-clustered covariance; ``verdicts`` the accusations
of both forms and what they say of each head; ``swap_contrasts`` and ``centred_contrasts`` what an
accusation rests on. All take any leading axes of draws.

``own`` says what each head claims: the column of its criterion, ``RIVAL`` for a head without a
claim that could be tested, ``BYSTANDER`` for one that counts in means alone.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from scipy import stats

from lib.stats import permutation, proportions

RIVAL, BYSTANDER = -1, -2
FORMS = ("swap", "centred")  # of accusation; a page makes both, so each has half of its level


@dataclass(frozen=True)
class Moments:
    """Win rates of heads by criterion, with what their contrasts' intervals need.

    Attributes
    ----------
    rate
        A, shape (…, heads, criteria); NaN for a head without numbers on a criterion.
    covariance
        Prompt-clustered sampling covariance: ``covariance[…, c, h, d, k]`` is that of A[h, c]
        and A[k, d]. NaN where a head has a single prompt on a criterion.
    prompts
        With numbers, shape (heads, criteria).
    """

    rate: np.ndarray
    covariance: np.ndarray
    prompts: np.ndarray

    @property
    def known(self) -> np.ndarray:
        """Has the head two prompts on the criterion? Shape (heads, criteria)."""
        return self.prompts > 1

    def among(self, columns: np.ndarray) -> Moments:
        """Those of some criteria."""
        covariance = self.covariance[..., columns, :, :, :][..., columns, :]
        return Moments(self.rate[..., columns], covariance, self.prompts[:, columns])


@dataclass(frozen=True)
class Family:
    """Accusations of one form: who, beside what, and how sure.

    Attributes
    ----------
    head, other
        Positions, shape (accusations,); ``other`` is a head in a swap, else a criterion.
    delta, se, df, p, adjusted
        Shape (…, accusations); ``adjusted`` as ``accused`` gives it.
    """

    head: np.ndarray
    other: np.ndarray
    delta: np.ndarray
    se: np.ndarray
    df: np.ndarray
    p: np.ndarray
    adjusted: np.ndarray


@dataclass(frozen=True)
class Verdicts:
    """What both forms say.

    Attributes
    ----------
    swap, centred
        The accusations.
    follows
        The criterion that a head is most surely shown to follow better than its own, or −1.
    doubted
        Is it one of two heads whose names don't both fit, and the other isn't known to be wrong?
        Both of shape (…, heads), −1 and false for heads without a claim.
    """

    swap: Family
    centred: Family
    follows: np.ndarray
    doubted: np.ndarray

    @property
    def wrong(self) -> np.ndarray:
        """Is a head accused by what it does itself?"""
        return self.follows >= 0


def moments(won: np.ndarray, criterion: np.ndarray, prompt: np.ndarray) -> Moments:
    """Win rates by head and criterion with their prompt-clustered covariance.

    Parameters
    ----------
    won
        1, ½ or 0 for each comparison and head, shape (…, comparisons, heads). NaN is left out
        for its head alone, in all draws.
    criterion
        Integers from 0 without gaps, shape (comparisons,).
    prompt
        Integers, shape (comparisons,). A prompt may have several criteria.

    Notes
    -----
    Each prompt's influence on A[h, c] is (its wins − its rows · A[h, c]) / n_hc, times
    √(G/(G − 1)) for the G prompts of the criterion; the covariance is the sum of products
    over prompts. With one comparison a prompt the variance is p(1 − p)/(n − 1).
    """
    order = np.lexsort((prompt, criterion))
    criterion, prompt, won = criterion[order], prompt[order], won[..., order, :]
    changed = (np.diff(criterion) != 0) | (np.diff(prompt) != 0)
    starts = np.concatenate([[0], np.flatnonzero(changed) + 1])
    owner, who = criterion[starts], prompt[starts]
    known = np.isfinite(won).all(axis=tuple(range(won.ndim - 2)))
    if not known.all():
        won = np.where(known, won, 0)
    size = np.add.reduceat(known.astype(float), starts, axis=0)
    totals = np.add.reduceat(won, starts, axis=-2)
    groups = np.bincount(owner)
    first = np.concatenate([[0], np.cumsum(groups)[:-1]])
    n, prompts = (np.add.reduceat(x, first, axis=0) for x in (size, (size > 0).astype(int)))
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.add.reduceat(totals, first, axis=-2) / n
        scale = np.sqrt(prompts / np.where(prompts > 1, prompts - 1, np.nan)) / n
    influence = (totals - size * rate[..., owner, :]) * scale[owner]
    covariance = _covariance(influence, who, first, groups)
    return Moments(np.swapaxes(rate, -1, -2), covariance, prompts.T)


def _covariance(influence, who, first, groups) -> np.ndarray:
    count, heads = len(groups), influence.shape[-1]
    out = np.zeros((*influence.shape[:-2], count, heads, count, heads))
    spans = [slice(f, f + g) for f, g in zip(first, groups, strict=True)]
    for c, d in itertools.combinations_with_replacement(range(count), 2):
        _, mine, theirs = np.intersect1d(who[spans[c]], who[spans[d]], return_indices=True)
        if len(mine):
            left = influence[..., spans[c], :][..., mine, :]
            right = influence[..., spans[d], :][..., theirs, :]
            block = np.swapaxes(left, -1, -2) @ right
            out[..., c, :, d, :] = block
            out[..., d, :, c, :] = np.swapaxes(block, -1, -2)
    return out


# ---- Verdicts ----


def verdicts(part: Moments, own: np.ndarray, alpha: float = 0.05) -> Verdicts:
    """The accusations of both forms and what they say of each head.

    Parameters
    ----------
    part
        Of the criteria that heads claim, and of all heads.
    own
        What each head claims, shape (heads,); see the module.
    alpha
        Family-wise level of the accusations of both forms together.

    Notes
    -----
    The centred form looks at what one head does, so it accuses that head. A swap says that two
    names don't both fit. It puts both heads in doubt, but for one whose partner is wrong by its
    own evidence: then the pair says no more of this one.
    """
    head, other = swap_family(own, part.known)
    swap = _family(head, other, swap_contrasts(part, own, head, other))
    head, other = centred_family(own, part.known)
    centred = _family(head, other, centred_contrasts(part, own, head, other))
    p = np.full((*part.rate.shape[:-2], *part.known.shape), np.inf)
    p[..., centred.head, centred.other] = np.where(centred.adjusted < alpha, centred.p, np.inf)
    follows = np.where(np.isfinite(p).any(axis=-1), p.argmin(axis=-1), -1)
    wrong = follows >= 0
    doubted = np.zeros(wrong.shape, bool)
    made = swap.adjusted < alpha
    for k, (one, two) in enumerate(zip(swap.head, swap.other, strict=True)):
        open_ = made[..., k] & ~wrong[..., one] & ~wrong[..., two]
        doubted[..., one] |= open_
        doubted[..., two] |= open_
    return Verdicts(swap, centred, follows, doubted & (own >= 0))


def _family(head, other, contrasts) -> Family:
    p = one_sided(*contrasts)
    return Family(head, other, *contrasts, p, accused(p))


def accused(p: np.ndarray) -> np.ndarray:
    """Adjusted p of one form's accusations: Holm within the form, Bonferroni over the forms.

    Two forms that are each held to alpha accuse falsely more often together; held to half of it
    each, they don't. ``p`` has the family on its last axis.
    """
    return np.minimum(len(FORMS) * permutation.holm(p), 1.0)


def swap_family(own: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of heads with different claims, then each such head with each rival.

    Both have numbers on what is compared: the criteria of ``own``, for a rival all of ``known``,
    shape (heads, criteria).
    """
    heads = np.flatnonzero(own >= 0)
    pairs = [
        (i, j)
        for i, j in itertools.combinations(heads, 2)
        if own[i] != own[j] and known[np.ix_([i, j], own[[i, j]])].all()
    ]
    rivals = np.flatnonzero((own == RIVAL) & known.all(axis=1))
    pairs += [(h, r) for h in heads if known[h].all() for r in rivals]
    first, second = np.asarray(pairs, int).reshape(-1, 2).T
    return first, second


def centred_family(own: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each head with a claim beside each criterion that it doesn't claim."""
    head, criterion = np.nonzero(known & (own >= 0)[:, None])
    kept = (own[head] != criterion) & known[head, own[head]]
    return head[kept], criterion[kept]


def swap_contrasts(part: Moments, own, first, second):
    """Δ of exchanged names for pairs of heads, its standard error and degrees of freedom.

    Returns
    -------
    delta, se, df
        Shapes (…, pairs).

    Notes
    -----
    Δ = (A[i, b] − A[j, b]) + (A[j, a] − A[i, a]), a and b what i and j claim: two means of
    differences, each of one set of comparisons. For a rival j, b is the mean of the criteria
    other than a, so that a head that wins everywhere takes no name; and j must win more on a
    itself. Of these two contrasts the less sure is given (an intersection–union test).
    """
    eye = np.eye(part.prompts.shape[1])
    heads = np.eye(len(own))
    toward = (heads[first] - heads[second])[:, None]
    lost, rival = eye[own[first]], own[second] < 0
    rest = (1 - lost) / max(len(eye) - 1, 1)
    out = contrasts(part, np.where(rival[:, None], rest, eye[own[second]]) - lost, toward)
    if rival.any():
        plain = contrasts(part, -lost[rival], toward[rival])
        weaker = one_sided(*plain) > one_sided(*(x[..., rival] for x in out))
        for values, other in zip(out, plain, strict=True):
            values[..., rival] = np.where(weaker, other, values[..., rival])
    return out


def centred_contrasts(part: Moments, own, head, criterion):
    """Δ of a head's centred win rate on a criterion and on its own; as ``swap_contrasts``.

    Centred by the mean of all heads with numbers there: exchanging others' names leaves it be.
    """
    eye = np.eye(part.prompts.shape[1])
    known = part.known.T
    mean = known / np.maximum(known.sum(axis=1, keepdims=True), 1)
    toward = np.eye(len(own))[head][:, None] - mean
    return contrasts(part, eye[criterion] - eye[own[head]], toward)


def contrasts(part: Moments, columns, toward):
    """Σ_c u_c Σ_k w_ck A[k, c], with u of shape (contrasts, criteria).

    w has shape (contrasts, 1 or criteria, heads). As in ``lib.stats.proportions`` a quarter of a
    prompt that is half +1 and half −1 is added to the variance of each criterion's mean, so
    that few unanimous prompts prove nothing; degrees of freedom are Welch's.
    """
    weight = np.broadcast_to(toward, (len(columns), columns.shape[1], toward.shape[-1]))
    rate, covariance = np.nan_to_num(part.rate), np.nan_to_num(part.covariance)
    mean = np.einsum("pch,...hc->...pc", weight, rate)
    whole = (columns[:, :, None] * weight).reshape(len(columns), -1)
    size = whole.shape[1]
    flat = covariance.reshape(*covariance.shape[:-4], size, size)
    sampled = ((whole @ flat) * whole).sum(axis=-1)
    within = np.moveaxis(np.diagonal(covariance, axis1=-4, axis2=-2), -1, -3)
    along = np.swapaxes(weight, 0, 1)  # criterion, contrast, head
    form = np.moveaxis(((along @ within) * along).sum(axis=-1), -2, -1)
    most = np.abs(weight) > np.abs(weight).max(axis=-1, keepdims=True) - 1e-9
    prompts = np.where(most & part.known.T, part.prompts.T, np.inf).min(axis=-1)
    prior = proportions.PSEUDO_CLUSTERS / prompts**2 * (1 + mean**2)
    variance = np.maximum(sampled + (columns**2 * prior).sum(axis=-1), 1e-12)
    each = columns**2 * (form + prior)
    df = each.sum(axis=-1) ** 2 / (each**2 / (prompts - 1)).sum(axis=-1)
    return (columns * mean).sum(axis=-1), np.sqrt(variance), df


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
