"""Patching: what a margin loses when a node's output is taken from the other response.

``nodes``     every way to patch × node × head: mean over prompts, interval, share of the margin
``verdicts``  every node × head: is it confirmed to carry the margin, or does it oppose it?
``largest``   the ten largest components of each head, with what patches say of them

A node *carries* what the margin score(better) − score(worse) loses by its patch, the effect
with its sign turned. Prompts are the unit: comparisons of a prompt are averaged first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats as scipy_stats

from lib import effects as measured
from lib.effects import BOTH_ENDS, DENOISING, EVERYTHING, NOISING
from lib.errors import DataError
from lib.stats import ratios
from lib.stats.permutation import holm
from lib.stats.signed import flipped, per_prompt

CONFIRMED, OPPOSES, CANCELLED = "confirmed", "opposes", "cancelled"
NOT_SHOWN, UNDEFINED = "not shown", "undefined"
VERDICTS = (CONFIRMED, OPPOSES, CANCELLED, NOT_SHOWN, UNDEFINED)
ALPHA = 0.05
POWER = 0.8
AGAINST = -0.8  # correlation over prompts of two nodes of which one takes back the other
REST = 0.25  # of what one carries, that the two may leave
LARGEST = 10
FEW = "fewer than two prompts"
NOT_NUMBERS = "scores that are not numbers"
NO_MARGIN = "the head's mean margin is not told from 0"


def way_of(mode: str, alignment: str = BOTH_ENDS) -> str:
    """A way's name: ``"noising, both ends"``."""
    return f"{mode}, {alignment}"


def prompt_of_patched(effects: xr.Dataset) -> np.ndarray:
    """Of each patched comparison an integer for its prompt.

    Raises
    ------
    DataError
        Where none was patched.
    """
    if not effects.sizes["patched"]:
        raise DataError(
            "comparisons that were patched",
            f"none among the effects of {effects.attrs['model']} on {effects.attrs['dataset']}",
            "Compute the effects again, with some patched: python -m lib explain.",
        )
    return measured.prompts(effects)[effects["comparison_of_patched"].values]


def carried(effects: xr.Dataset, name: str) -> np.ndarray:
    """What each node carries in one way, by prompt: (prompts, nodes, heads)."""
    values = -effects["effect"].sel(way=name).values.astype(float)
    return per_prompt(values, prompt_of_patched(effects))


def margins(effects: xr.Dataset) -> np.ndarray:
    """Margins of the patched comparisons, by prompt: (prompts, heads)."""
    return per_prompt(effects["margin"].values, prompt_of_patched(effects))


def nodes(effects: xr.Dataset) -> pd.DataFrame:
    """What each node carries in each way to patch.

    Parameters
    ----------
    effects
        As ``lib.effects`` describes them.

    Returns
    -------
    pandas.DataFrame
        One row a way to patch, node and head: ``way`` with its ``mode``, ``alignment``,
        ``positions``, ``sides`` and ``gate``; ``prompts``; ``carried`` in rewards' units with
        ``low`` and ``high`` (Student's 95%, uncorrected); ``margin``, the mean it is a part of;
        ``share``, one over the other, with ``share_low`` and ``share_high`` (Fieller's; NaN
        where the mean margin isn't told from 0); ``same``, the share of prompts in which it has
        the sign of its mean; and ``note``.
    """
    margin = margins(effects)
    tables = []
    for name in effects["way"].values:
        values = carried(effects, name)
        found, share = ratios.mean(values), ratios.share(values, margin[:, None])
        table = _long(
            effects["node"].values,
            effects["head"].values,
            margin=np.broadcast_to(margin.mean(axis=0), found.estimate.shape),
            **_columns(found, "carried"),
            share=share.estimate,
            share_low=share.low,
            share_high=share.high,
            same=same(values),
        )
        told = {
            key: str(effects[key].sel(way=name).values)
            for key in ("mode", "alignment", "positions", "sides", "gate")
        }
        tables.append(by_head(effects, table).assign(way=name, **told))
    table = pd.concat(tables, ignore_index=True).assign(prompts=len(margin))
    table["note"] = np.select(
        [table["carried"].isna(), table["prompts"] < 2, table["share"].isna()],
        [NOT_NUMBERS, FEW, NO_MARGIN],
        "",
    )
    order = ["way", "mode", "alignment", "positions", "sides", "gate", "node", "head"]
    order += ["prompts", "margin", "carried", "low", "high", "share", "share_low", "share_high"]
    return table[[*order, "same", "note"]]


def _long(rows, heads, **values: np.ndarray) -> pd.DataFrame:
    """Arrays (nodes, heads) as columns; heads vary slowest."""
    named = {
        "node": np.tile(rows, len(heads)),
        "head": np.repeat(heads, len(rows)),
    }
    return pd.DataFrame(named | {name: np.asarray(x).T.ravel() for name, x in values.items()})


def verdicts(
    effects: xr.Dataset, alignment: str = BOTH_ENDS, *, alpha: float = ALPHA
) -> pd.DataFrame:
    """Which nodes are confirmed to carry a head's margin.

    Parameters
    ----------
    effects
        As ``lib.effects`` describes them, with noising and denoising in this alignment.
    alignment
        ``"both ends"``, or ``"left"`` to see what would have been said as published.
    alpha
        Level, over all nodes and heads.

    Returns
    -------
    pandas.DataFrame
        One row a node and head: ``margin`` with ``margin_low`` and ``margin_high``; ``carried``,
        the mean of what noising and denoising say, with ``low`` and ``high``; ``share`` of the
        mean margin with ``share_low`` and ``share_high``; ``same``, the share of prompts with
        the mean's sign; ``noising`` and ``denoising``, each alone, with ``…_low`` and
        ``…_high``; ``p`` (exact sign flip of what is carried) and ``p_adjusted`` (Holm over
        nodes and heads); ``mde``, the mean that would have been found with power .8, NaN for
        none; ``pulls``, ``"better"`` or ``"worse"``: the response that it moves the head's mean
        towards, where it is told from 0 at all; ``verdict``; ``undone_by``, the node that takes
        back what a cancelled one carries; ``note``.

    Notes
    -----
    *Confirmed*: the mean is told from 0 on the side of the head's mean margin, and noising and
    denoising are both on that side. *Opposes* is the same on the other side. Exchanging the two
    responses of a comparison makes noising of denoising and turns both signs, so it turns the
    sign of their mean: that test is exact where labels are exchanged at random, and neither
    mode's own is.

    A node that is told from 0 is *cancelled* where another one opposes it prompt by prompt
    (r ≤ ``AGAINST``) and the two leave less than ``REST`` of it on average. Where the head's
    mean margin isn't told from 0 there is no side to be on, so nothing is shown.
    """
    real = effects["node"].values != EVERYTHING
    there, back = (
        carried(effects, way_of(mode, alignment))[:, real] for mode in (NOISING, DENOISING)
    )
    margin = margins(effects)
    prompts, values = len(margin), (there + back) / 2
    found, first, second, own = (ratios.mean(x) for x in (values, there, back, margin))
    judged = judge(there, back, margin, alpha)
    p, by = judged.p, judged.by
    share = ratios.share(values, margin[:, None])
    names, shape = effects["node"].values[real], p.shape
    table = _long(
        names,
        effects["head"].values,
        prompts=np.full(shape, prompts),
        **_columns(own, "margin", "margin_", shape),
        **_columns(found, "carried"),
        share=share.estimate,
        share_low=share.low,
        share_high=share.high,
        same=same(values),
        **_columns(first, NOISING, f"{NOISING}_"),
        **_columns(second, DENOISING, f"{DENOISING}_"),
        p=p,
        p_adjusted=judged.p_adjusted,
        mde=detectable(values, alpha / max(1, np.isfinite(p).sum())),
        pulls=judged.pulls,
        verdict=judged.verdict,
        undone_by=np.where(by >= 0, names[by], ""),
        note=np.select(
            [np.isnan(p), np.full(shape, prompts < 2), np.broadcast_to(judged.side == 0, shape)],
            [NOT_NUMBERS, FEW, NO_MARGIN],
            "",
        ),
    )
    return by_head(effects, table)


class Judged(NamedTuple):
    """What ``judge`` finds: arrays (nodes, heads), but for ``side`` (heads,)."""

    p: np.ndarray
    p_adjusted: np.ndarray
    pulls: np.ndarray
    verdict: np.ndarray
    by: np.ndarray  # place of the node that takes back what a cancelled one carries, else −1
    side: np.ndarray  # the sign of the mean margin, 0 where it isn't told from 0


def judge(there: np.ndarray, back: np.ndarray, margin: np.ndarray, alpha: float = ALPHA) -> Judged:
    """The verdicts of ``verdicts``, from what nodes carry.

    Parameters
    ----------
    there, back
        By noising and by denoising, one a prompt: (prompts, nodes, heads).
    margin
        (prompts, heads).
    """
    values = (there + back) / 2
    own = ratios.mean(margin)
    p = np.where(np.isfinite(own.estimate), flipped(values), np.nan)
    adjusted = holm(p.ravel()).reshape(p.shape)
    side = np.where((own.low > 0) | (own.high < 0), np.sign(own.estimate), 0.0)
    on, first, second = (np.sign(x.mean(axis=0)) for x in (values, there, back))
    pulls = (adjusted < alpha) & (first == on) & (second == on)
    told = pulls & (side != 0)
    by = _undone(values, told)
    verdict = np.select(
        [np.isnan(p), by >= 0, told & (on == side), told],
        [UNDEFINED, CANCELLED, CONFIRMED, OPPOSES],
        NOT_SHOWN,
    )
    sides = np.select([pulls & (on > 0), pulls], ["better", "worse"], "")
    return Judged(p, adjusted, sides, verdict, by, side)


def same(values: np.ndarray) -> np.ndarray:
    """Share of prompts whose value has the sign of the mean, zeros counted half."""
    return (1 + np.sign(values) * np.sign(values.mean(axis=0))).mean(axis=0) / 2


def _columns(found: ratios.Ratio, name: str, before: str = "", shape=None) -> dict:
    """A mean and its interval's ends, as columns."""
    named = {name: found.estimate, f"{before}low": found.low, f"{before}high": found.high}
    return {key: np.broadcast_to(x, shape or x.shape) for key, x in named.items()}


def _undone(values: np.ndarray, found: np.ndarray) -> np.ndarray:
    """The node that takes back what each found node (prompts, nodes, heads) carries, else −1."""
    by = np.full(found.shape, -1)
    for head in range(found.shape[1]):
        (places,) = np.nonzero(found[:, head])
        own = values[:, places, head]
        if len(places) < 2:
            continue
        mean = own.mean(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            r = np.corrcoef(own, rowvar=False)
        rest = np.abs(mean[:, None] + mean) / np.abs(mean)[:, None]
        undone = (r <= AGAINST) & (rest <= REST)
        strongest = np.where(undone, r, np.inf).argmin(axis=1)
        by[places, head] = np.where(undone.any(axis=1), places[strongest], -1)
    return by


def detectable(values: np.ndarray, level: float) -> np.ndarray:
    """Mean that is found with power .8, by Student's t; NaN where the exact test finds none."""
    n = len(values)
    if n < 2 or 2.0 ** (1 - n) >= level:
        return np.full(values.shape[1:], np.nan)
    quantiles = scipy_stats.t.ppf([1 - level / 2, POWER], n - 1)
    return quantiles.sum() * values.std(axis=0, ddof=1) / np.sqrt(n)


def largest(effects: xr.Dataset, found: pd.DataFrame, *, count: int = LARGEST) -> pd.DataFrame:
    """The largest components of each head's mean margin, and what patches say of them.

    Parameters
    ----------
    effects
        As ``lib.effects`` describes them.
    found
        As ``verdicts`` returns it.
    count
        How many a head.

    Returns
    -------
    pandas.DataFrame
        One row a head and component, the largest in size first: ``part``, its mean part of the
        margin of the patched comparisons with ``low`` and ``high``; ``size``, the mean size of
        the head's margins, in which heads can be compared; ``share`` of the mean margin
        with ``share_low`` and ``share_high``; ``same``, the share of prompts with the mean's
        sign; ``direct``, what the margin loses when only its own write at the last token is
        exchanged; ``carried``, ``noising``, ``denoising``, ``p_adjusted``, ``pulls`` and
        ``verdict`` of ``found``, NaN and empty for what isn't patched (embedding, constant).
    """
    prompt = prompt_of_patched(effects)
    parts = per_prompt(measured.patched(effects, "part"), prompt)
    direct = per_prompt(-effects["direct"].values.astype(float), prompt).mean(axis=0)
    margin = margins(effects)
    own, share = ratios.mean(parts), ratios.share(parts, margin[:, None])
    table = _long(
        effects["component"].values,
        effects["head"].values,
        **_columns(own, "part"),
        size=np.broadcast_to(np.abs(margin).mean(axis=0), own.estimate.shape),
        share=share.estimate,
        share_low=share.low,
        share_high=share.high,
        same=same(parts),
        direct=direct,
    )
    patched = ["node", "head", "carried", "noising", "denoising", "p_adjusted", "pulls", "verdict"]
    table = table.merge(found[patched], on=["node", "head"], how="left")
    table[["pulls", "verdict"]] = table[["pulls", "verdict"]].fillna("")
    table = table.rename(columns={"node": "component"})
    table = table.loc[table["part"].abs().sort_values(ascending=False, kind="stable").index]
    return by_head(effects, table).groupby("head", sort=False).head(count).reset_index(drop=True)


def by_head(effects: xr.Dataset, table: pd.DataFrame) -> pd.DataFrame:
    """Rows head by head, the final score first as pages show heads; the rest in its order."""
    places = {name: place for place, name in enumerate(measured.heads(effects))}
    order = table["head"].map(places).argsort(kind="stable")
    return table.iloc[order].reset_index(drop=True)
