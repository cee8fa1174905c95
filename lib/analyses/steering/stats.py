"""Steering: the reward with one latent changed, on what was aimed at and on everything else.

``change``       what changing a latent adds to the reward, exactly
``targets``      by criterion: a latent chosen on half of the prompts, judged on the other half
``corrections``  as published: suppress one feature, correct one preference

Changing a latent after it was read changes nothing below it, so all of this is arithmetic on
the latents of a run.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from lib.stats import latents, permutation, proportions
from lib.stats.latents import Sparse

CORRECTS, HARMS, NOT_SHOWN, UNDEFINED = "corrects", "harms", "not shown", "undefined"
HELPS = "helps"
ALL = "all"
NEAR = 12  # latents of the nearest firing rates
LEAST = 4  # prompts of a criterion in each half
STEPS, MOST = 24, 64.0  # of a search for a size, and the largest share of a direction
LEVEL = 0.95

TARGETS = ["criterion", "latent", "n", "prompts", "before", "after", "change", "low", "high", "p"]
TARGETS += ["p_adjusted", "verdict", "size", "side", "side_low", "side_high", "side_p_adjusted"]
TARGETS += ["side_verdict", "random", "random_low", "random_high", "dense", "dense_side", "note"]
CORRECTIONS = ["criterion", "wrong", "correctable", "low", "high", "without_harm", "broken"]
CORRECTIONS += ["mended", "random", "note"]


def change(found: Sparse, latent: int, *, times: float = 1.0, plus: float = 0.0) -> np.ndarray:
    """What the reward gains where a latent is multiplied, then added to: w z (times − 1) + w plus.

    Returns
    -------
    numpy.ndarray
        Shape (responses,). Adding moves all responses alike, and so no comparison.
    """
    weight = float(found.reward.weight[latent])
    return weight * (found.value[:, latent].astype(float) * (times - 1) + plus)


def targets(found: Sparse, *, alpha: float = 0.05) -> pd.DataFrame:
    """A latent for each criterion, whose suppression mends most there; judged on other prompts.

    Half of a criterion's prompts choose the latent, the other half judge it, and all comparisons
    of other criteria show what else it moves.

    Parameters
    ----------
    found
        Responses read by the reward.
    alpha
        Family-wise level over criteria, of the targets and of the side effects each.

    Returns
    -------
    pandas.DataFrame
        A row a criterion: ``latent``; ``n`` comparisons and ``prompts`` that judge; accuracy
        ``before`` and ``after`` (ties half), their difference ``change`` with a t interval,
        prompts as clusters, ``p`` (exact sign flips over prompts) and ``p_adjusted`` (Holm),
        ``verdict`` (``corrects``, ``harms``, ``not shown``, ``undefined``); ``size``, the mean
        |Δr| on the judging responses in standard deviations of the score; ``side``, the change
        of accuracy over all other criteria, with its interval, ``side_p_adjusted`` and
        ``side_verdict`` (``helps``, ``harms``, ``not shown``); ``random``, the mean change where
        one of the 12 latents of the nearest firing rates is suppressed instead, with the least
        and the most; ``dense`` and ``dense_side``, the changes where the state is moved along
        one direction, the criterion's mean difference on the choosing prompts, its sign chosen
        there, by as much as makes |Δr| equal there; ``note``.
    """
    if found.note:
        return pd.DataFrame([{"note": found.note}]).reindex(columns=TARGETS)
    rate = latents.rates(found)[found.used]
    rows = [_target(found, criterion, rate) for criterion in np.unique(found.criterion)]
    table = pd.DataFrame(rows).reindex(columns=TARGETS)
    _judge(table, "p", "p_adjusted", "change", "verdict", (CORRECTS, HARMS), alpha)
    table["side_p"] = [row.get("side_p", math.nan) for row in rows]
    _judge(table, "side_p", "side_p_adjusted", "side", "side_verdict", (HELPS, HARMS), alpha)
    return table[TARGETS]


def _judge(table, p: str, adjusted: str, value: str, verdict: str, names, alpha: float) -> None:
    known = table[p].to_numpy(float)
    table[adjusted] = permutation.holm(known)
    shown = table[adjusted] < alpha
    kinds = [np.isnan(known), shown & (table[value] > 0), shown]
    table[verdict] = np.select(kinds, [UNDEFINED, *names], NOT_SHOWN)


def _target(found: Sparse, criterion: str, rate: np.ndarray) -> dict[str, Any]:
    own = found.criterion == criterion
    even = found.prompt % 2 == 0
    choose, judge, rest = (np.flatnonzero(m) for m in (own & even, own & ~even, ~own))
    row: dict[str, Any] = {"criterion": criterion, "n": len(judge)}
    row["prompts"] = len(np.unique(found.prompt[judge]))
    if min(row["prompts"], len(np.unique(found.prompt[choose]))) < LEAST:
        return row | {"note": f"fewer than {LEAST} prompts in a half"}
    before = _right(found.margin)
    row["before"] = before[judge].mean()
    gained = _right(found.margin[choose, None] - found.gaps[choose]) - before[choose, None]
    net = gained.sum(axis=0)
    if not (len(net) and net.max() > 0):
        return row | {"note": "no latent's suppression mends more than it breaks"}
    size = np.abs(found.parts).mean(axis=0)
    best = min(np.flatnonzero(net == net.max()), key=lambda i: (size[i], i))
    after = _right(found.margin - found.gaps[:, best])
    told = _changed(after - before, judge, found.prompt)
    side = _changed(after - before, rest, found.prompt) if len(rest) else {}
    near = np.argsort(np.abs(rate - rate[best]), kind="stable")
    near = near[near != best][:NEAR]
    others = _right(found.margin[judge, None] - found.gaps[judge][:, near]) - before[judge, None]
    others = others.mean(axis=0)
    responses = np.unique([found.better[judge], found.worse[judge]])
    spread = found.parts.sum(axis=1).std()
    row |= {
        "latent": int(found.used[best]),
        "after": after[judge].mean(),
        "size": np.abs(found.parts[responses, best]).mean() / spread if spread > 0 else math.nan,
        "note": "",
        **told,
        **{f"side_{name}" if name != "change" else "side": value for name, value in side.items()},
    }
    if len(others):
        row |= {"random": others.mean(), "random_low": others.min(), "random_high": others.max()}
    moved, note = _dense(found, choose, best)
    if note:
        return row | {"note": note}
    gained = _right(moved[found.better] - moved[found.worse]) - before
    row["dense"] = gained[judge].mean()
    return row | ({"dense_side": gained[rest].mean()} if len(rest) else {})


def _right(margin: np.ndarray) -> np.ndarray:
    """1, ½ for a tie, 0; what differs by rounding alone is one."""
    return (1 + np.sign(np.where(np.abs(margin) < 1e-9, 0, margin))) / 2


def _changed(gained: np.ndarray, rows: np.ndarray, prompt: np.ndarray) -> dict[str, float]:
    group = np.unique(prompt[rows], return_inverse=True)[1]
    mean = proportions.clustered(gained[rows], group, LEVEL)
    net = proportions.by_prompt(2 * gained[rows], group)[0]
    p = permutation.sign_flip(np.rint(net).astype(int)[:, None])[0]
    bounds = {"low": mean.low, "high": mean.high} if np.isfinite(mean.low) else {}
    return {"change": mean.estimate, **bounds, "p": float(p)}


def _dense(found: Sparse, choose: np.ndarray, best: int) -> tuple[np.ndarray, str]:
    """Scores of all responses whose states are moved along one direction, as ``targets`` says."""
    difference = found.x[found.better[choose]].astype(float) - found.x[found.worse[choose]]
    direction = difference.mean(axis=0)
    length = np.linalg.norm(direction)
    rows = np.unique([found.better[choose], found.worse[choose]])
    wanted = np.abs(found.parts[rows, best]).mean()
    if not length > 0 or not wanted > 0:
        return np.zeros(0), "there is no direction to move states along"
    direction /= length
    along = (found.x - found.x.mean(axis=0)).astype(float) @ direction
    written = found.reward.sae.encoder.astype(float) @ direction

    def scores(rows: np.ndarray, share: float) -> np.ndarray:
        pre = found.pre[rows] - (share * along[rows, None] * written).astype(np.float32)
        if found.reward.topk:
            kept = found.reward.sae.top(pre)
            return kept.parts(found.reward.weight.astype(float)).sum(axis=1)
        return pre @ found.reward.weight.astype(float)

    none = scores(rows, 0.0)
    moved = []
    for sign in (1, -1):
        share = _share(lambda s: np.abs(scores(rows, sign * s) - none).mean(), wanted)  # noqa: B023
        if share:
            moved.append(sign * share)
    if not moved:
        return np.zeros(0), "no share of the dense direction moves the reward as much"
    place = np.cumsum(np.isin(np.arange(len(found.x)), rows)) - 1
    better, worse = place[found.better[choose]], place[found.worse[choose]]

    def net(share: float) -> float:
        told = scores(rows, share)
        return _right(told[better] - told[worse]).sum()

    return scores(np.arange(len(found.x)), max(moved, key=net)), ""


def _share(moves, wanted: float) -> float:
    """The share of a direction that moves the reward by what is wanted; 0 where none does."""
    high = 1.0
    while moves(high) < wanted:
        high *= 2
        if high > MOST:
            return 0.0
    low = 0.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if moves(middle) < wanted else (low, middle)
    return high


def corrections(found: Sparse) -> pd.DataFrame:
    """As published: for each comparison that is ranked wrongly, a latent that corrects it.

    Returns
    -------
    pandas.DataFrame
        For all comparisons and for each criterion: how many are ranked ``wrong``; the share of
        them that suppressing some latent corrects (``correctable``) with Wilson's interval,
        prompts as clusters; of those, the share that some latent corrects without turning more
        comparisons wrong than right among all others (``without_harm``), and the median numbers
        of the others that are ``broken`` and ``mended`` by the one that harms least; ``random``,
        the share that is corrected by a latent of a firing rate next to that one's, on average over
        12.

    Notes
    -----
    Each latent is chosen by the comparison that it corrects, among all: this says how far a
    published example goes, and nothing of what a steered reward does to other texts.
    """
    if found.note:
        return pd.DataFrame([{"note": found.note}]).reindex(columns=CORRECTIONS)
    before = _right(found.margin)
    after = _right(found.margin[:, None] - found.gaps)
    gained = after - before[:, None]
    broken, mended = (gained < 0).sum(axis=0), (gained > 0).sum(axis=0)
    harm = broken - mended
    rate = latents.rates(found)[found.used]
    near = _nearest(rate)
    rows = []
    for j in np.flatnonzero(before == 0):
        able = np.flatnonzero(after[j] == 1)
        row = {"criterion": found.criterion[j], "prompt": found.prompt[j], "able": len(able) > 0}
        if len(able):
            best = able[np.argmin(harm[able])]
            # The comparison itself is among those that are mended.
            row |= {"broken": broken[best], "mended": mended[best] - 1}
            row |= {"random": (after[j, near[best]] == 1).mean() if near.shape[1] else math.nan}
        rows.append(row)
    table = pd.DataFrame(
        rows, columns=["criterion", "prompt", "able", "broken", "mended", "random"]
    )
    kinds = {ALL: table} | dict(list(table.groupby("criterion", sort=True)))
    return pd.DataFrame([_correctable(name, part) for name, part in kinds.items()]).reindex(
        columns=CORRECTIONS
    )


def _nearest(rate: np.ndarray) -> np.ndarray:
    """For each latent the ``NEAR`` others of the nearest firing rates, (latents, NEAR or fewer)."""
    order = np.argsort(rate, kind="stable")
    many = min(NEAR, len(rate) - 1)
    found = np.empty((len(rate), max(many, 0)), int)
    for place, latent in enumerate(order):
        start = min(max(0, place - many // 2), max(0, len(rate) - many - 1))
        window = order[start : start + many + 1]
        found[latent] = window[window != latent][:many]
    return found


def _correctable(name: str, table: pd.DataFrame) -> dict[str, Any]:
    row: dict[str, Any] = {"criterion": name, "wrong": len(table)}
    if table.empty:
        return row | {"note": "no comparison is ranked wrongly"}
    group = np.unique(table["prompt"], return_inverse=True)[1]
    able = table["able"].to_numpy(float)[:, None]
    told = proportions.wilson(*proportions.by_cluster(able, group), LEVEL)
    row |= {"correctable": float(told.estimate[0]), "note": ""}
    row |= {"low": float(told.low[0]), "high": float(told.high[0])}
    able = table[table["able"].astype(bool)]
    if len(able):
        row |= {
            "without_harm": (able["broken"] <= able["mended"]).mean(),
            "broken": able["broken"].median(),
            "mended": able["mended"].median(),
            "random": able["random"].mean(),
        }
    return row
