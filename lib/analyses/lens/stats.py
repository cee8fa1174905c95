"""The lens: a head's margin read after each layer, with the final norm and as published.

With m_l the margin of a comparison, score(better) − score(worse), read after l layers, and m_L
the reward's own::

    share(l)  = Σ sign(m_L) m_l / Σ |m_L|      of the final margin
    agree(l)  = share of comparisons with sign(m_l) = sign(m_L), m_l = 0 counted half
    first     = the first l with sign(m_L) m_l ≥ |m_L| / 2
    stays     = the first l from which on that holds at every depth, up to the end

Sums and shares are means over prompts of each prompt's mean. A comparison whose responses score
alike has neither sign nor depth, and is left out.

*As published* the state isn't put through the final norm, so that lens ends elsewhere than the
reward: its depths are of its own last margin, and its agreement is with the reward.

Source: reward-lens (lens without the norm; the first depth). Checked against: margins written
by hand (``tests/analyses/lens``).
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats as scipy_stats

from lib.effects import gaps, heads, prompts
from lib.errors import StoreError
from lib.stats import proportions, ratios, signed

ALPHA = 0.05
WITHIN = 1e-4  # of the head's standard deviation or the score, whichever is larger
ALIKE = 0.8  # of comparisons: a depth shown to agree with the end in more has settled
DRAWS = 2000
NO_MARGIN = "no comparison whose responses score differently"
FEW = "fewer than three such comparisons"


def ends(effects: xr.Dataset) -> float:
    """Largest distance of the lens' last point from the reward, in the head's spread.

    Raises
    ------
    StoreError
        In float32, where it is more than ``WITHIN``: such a lens isn't the model's.
    """
    score = effects["score"].values.astype(float)
    last = effects["lens"].values[:, -1].astype(float)
    size = np.maximum(np.maximum(np.abs(score), score.std(axis=0)), np.finfo(float).tiny)
    miss = float((np.abs(last - score) / size).max(initial=0.0))
    if effects.attrs["extraction"]["dtype"] == "float32" and not miss <= WITHIN:
        raise StoreError(
            f"a lens that ends at the reward, within {WITHIN:g}",
            f"{miss:.3g}",
            "Compute the effects again: python -m lib explain.",
        )
    return miss


def ordered(effects: xr.Dataset) -> list[tuple[int, str]]:
    """Places and names of heads, as a page shows them: the final score first."""
    names = effects["head"].values.tolist()
    return [(names.index(head), head) for head in heads(effects)]


def curves(effects: xr.Dataset, *, alpha: float = ALPHA) -> pd.DataFrame:
    """Margins by depth.

    Parameters
    ----------
    effects
        As in ``lib.effects``.
    alpha
        Intervals have level 1 - alpha, uncorrected.

    Returns
    -------
    pandas.DataFrame
        One row a head and depth: ``head``, ``depth`` (layers before it; 0 is the embedding),
        ``n`` (comparisons whose responses score differently), ``prompts``; ``share`` of the
        final margin with ``low`` and ``high`` (``lib.stats.ratios.share``), ``share_raw`` as
        published, of its own last margin, with ``raw_low`` and ``raw_high``; ``agree`` with
        ``agree_low`` and ``agree_high`` (``lib.stats.proportions.wilson``), ``agree_raw`` with
        the reward; ``rho`` (Spearman over comparisons of the margins with and without the
        norm), ``opposed`` (share of comparisons in which those have opposite signs) and
        ``note``.
    """
    lens, raw, prompt = gaps(effects, "lens"), gaps(effects, "lens_raw"), prompts(effects)
    depths = np.arange(lens.shape[1])
    found = []
    for k, head in ordered(effects):
        used = lens[:, -1, k] != 0
        own, other, unit = lens[used, :, k], raw[used, :, k], prompt[used]
        base = {"head": head, "depth": depths, "n": int(used.sum())}
        base["prompts"] = len(np.unique(unit))
        if not used.any():
            found.append(pd.DataFrame(base | {"note": NO_MARGIN}))
            continue
        share, raw_share = (_shares(each, unit, alpha) for each in (own, other))
        right = np.sign(own[:, -1:])
        agree = _rate((1 + np.sign(own) * right) / 2, unit, alpha)
        few = used.sum() < 3
        found.append(
            pd.DataFrame(
                base
                | dict(zip(("share", "low", "high"), share, strict=True))
                | dict(zip(("share_raw", "raw_low", "raw_high"), raw_share, strict=True))
                | {
                    "agree": agree.estimate,
                    "agree_low": agree.low,
                    "agree_high": agree.high,
                    "agree_raw": _rate((1 + np.sign(other) * right) / 2, unit, alpha).estimate,
                    "rho": np.nan if few else _rank(own, other),
                    "opposed": signed.per_prompt(own * other < 0, unit).mean(axis=0),
                    "note": FEW if few else "",
                }
            )
        )
    columns = ["head", "depth", "n", "prompts", "share", "low", "high"]
    columns += ["share_raw", "raw_low", "raw_high", "agree", "agree_low", "agree_high"]
    columns += ["agree_raw", "rho", "opposed", "note"]
    return pd.concat(found, ignore_index=True).reindex(columns=columns)


def _shares(margins: np.ndarray, prompt: np.ndarray, alpha: float) -> ratios.Ratio:
    """Share of the last margin at each depth, of margins (comparisons, depths)."""
    last = margins[:, -1:]
    toward = signed.per_prompt(margins * np.sign(last), prompt)
    size = signed.per_prompt(np.abs(last), prompt)
    found = ratios.share(toward, size, 1 - alpha)
    return found._replace(estimate=toward.mean(axis=0) / size.mean(axis=0))  # sizes aren't 0


def _rate(happened: np.ndarray, prompt: np.ndarray, alpha: float) -> proportions.Interval:
    totals, sizes = proportions.by_prompt(happened, prompt)
    return proportions.wilson(totals, sizes, 1 - alpha)


def _rank(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Spearman's correlation at each depth; NaN where one doesn't vary."""
    ranks = [scipy_stats.rankdata(each, axis=0) for each in (one, other)]
    left, right = (each - each.mean(axis=0) for each in ranks)
    size = np.sqrt((left**2).sum(axis=0) * (right**2).sum(axis=0))
    return np.where(size > 0, (left * right).sum(axis=0) / np.where(size > 0, size, 1), np.nan)


def reached(margins: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First depth at half the last margin, and the first from which on it stays there.

    ``margins`` has shape (…, depths, columns), and its last is not 0; both results lack depths.
    """
    last = margins[..., -1:, :]
    there = margins * np.sign(last) >= np.abs(last) / 2
    first = there.argmax(axis=-2)
    stays = there.shape[-2] - np.flip(~there, axis=-2).argmax(axis=-2)
    return first, np.where(there.all(axis=-2), 0, stays)


def depths(effects: xr.Dataset, *, alpha: float = ALPHA, seed: int = 0) -> pd.DataFrame:
    """At which depth each head's margin is half there, and from which on it is settled.

    Parameters
    ----------
    alpha
        Intervals have level 1 - alpha; ``settled`` is claimed for all heads at once at this.
    seed
        Of resampling.

    Returns
    -------
    pandas.DataFrame
        One row a head: ``head``, ``layers``, ``n``, ``left_out`` (comparisons whose responses
        score alike), ``prompts``; medians over comparisons of ``first`` and ``stays`` with
        their intervals (``first_low`` …, ``stays_low`` …: percentiles of prompts drawn again),
        of ``first_raw`` as published; ``settled``, ``needed`` (the least share of so many
        prompts, of one comparison each, that would show a depth) and ``note``.

    Notes
    -----
    ``settled`` is the smallest depth such that there and at each later one the lower bound of
    ``agree`` is at least ``ALIKE``: one-sided, of level 1 - alpha / heads. Depths are tested from
    the end, and the first that isn't shown ends the search, so no correction over depths is
    needed (a fixed sequence; Maurer, Hothorn & Lehmacher 1995). It is ``layers`` where no
    depth before the end is shown.
    """
    lens, raw, prompt = gaps(effects, "lens"), gaps(effects, "lens_raw"), prompts(effects)
    layers = lens.shape[1] - 1
    generator = np.random.default_rng(seed)
    rows = []
    for k, head in ordered(effects):
        used = lens[:, -1, k] != 0
        row = {"head": head, "layers": layers, "n": int(used.sum())}
        row |= {"left_out": int((~used).sum()), "prompts": len(np.unique(prompt[used]))}
        rows.append(row | {"note": "" if used.any() else NO_MARGIN})
        if not used.any():
            continue
        own, unit = lens[used][:, :, [k]], np.unique(prompt[used], return_inverse=True)[1]
        first, stays = (each[:, 0] for each in reached(own))
        published = reached(raw[used][:, :, [k]])[0][:, 0]
        groups = unit.max() + 1
        drawn = generator.multinomial(groups, np.full(groups, 1 / groups), size=DRAWS)
        for name, values in (("first", first), ("stays", stays), ("first_raw", published)):
            middle, low, high = _median(values, unit, layers, drawn, alpha)
            rows[-1] |= {name: middle, f"{name}_low": low, f"{name}_high": high}
        level = alpha / effects.sizes["head"]
        rows[-1]["settled"] = settled(own[..., 0], unit, level)
        rows[-1]["needed"] = _needed(groups, level)
    columns = ["head", "layers", "n", "left_out", "prompts"]
    columns += [f"{n}{end}" for n in ("first", "stays") for end in ("", "_low", "_high")]
    columns += ["first_raw", "first_raw_low", "first_raw_high", "settled", "needed", "note"]
    return pd.DataFrame(rows).reindex(columns=columns)


def _median(
    values: np.ndarray, unit: np.ndarray, most: int, drawn: np.ndarray, alpha: float
) -> tuple[int, int, int]:
    """Lower median of whole numbers, with its percentile interval over prompts drawn again."""
    held = np.zeros((unit.max() + 1, most + 1))
    np.add.at(held, (unit, values), 1)
    below = held.cumsum(axis=1)
    counts = np.concatenate([below.sum(axis=0)[None], drawn @ below])
    middle = (counts >= counts[:, -1:] / 2).argmax(axis=1)
    # Ends that were drawn, and no number between two of them.
    low = np.quantile(middle[1:], alpha / 2, method="lower")
    high = np.quantile(middle[1:], 1 - alpha / 2, method="higher")
    return int(middle[0]), int(low), int(high)


def settled(margins: np.ndarray, prompt: np.ndarray, alpha: float = ALPHA) -> int:
    """Depth from which on the lens is shown to pick the end's response in ``ALIKE`` or more.

    As ``depths`` says; of one head's margins (comparisons, depths), whose last isn't 0.
    """
    agree = (1 + np.sign(margins) * np.sign(margins[:, -1:])) / 2
    shown = _rate(agree, prompt, 2 * alpha).low >= ALIKE
    shown[-1] = True  # the end is the end
    missed = np.flatnonzero(~shown)
    return int(missed[-1] + 1) if len(missed) else 0


def _needed(prompts: int, alpha: float) -> float:
    """Least share of prompts whose lower bound reaches ``ALIKE``; NaN where none does."""
    won = np.tri(prompts + 1, prompts, -1).T  # column k: k of them
    shown = proportions.wilson(won, np.ones(prompts), 1 - 2 * alpha).low >= ALIKE
    return float(np.argmax(shown) / prompts) if shown.any() else np.nan


def published(effects: xr.Dataset, curves: pd.DataFrame, *, alpha: float = ALPHA) -> pd.DataFrame:
    """How far the lens as published is from the reward, and from the lens that ends there.

    Parameters
    ----------
    curves
        As ``curves`` returns it.

    Returns
    -------
    pandas.DataFrame
        One row a head: ``head``, ``n``, ``prompts``; ``end_rho`` (Spearman of the published
        lens' last margin with the reward's), ``end_opposed`` (share of comparisons in which it
        picks the other response) with ``low`` and ``high``; of all depths before the end but
        the embedding the largest ``opposed``, with the ``depth`` where that is, and the median
        ``rho``; ``note``.
    """
    lens, raw, prompt = gaps(effects, "lens"), gaps(effects, "lens_raw"), prompts(effects)
    rows = []
    for k, head in ordered(effects):
        own = curves[curves["head"] == head]
        last, inner = own.iloc[-1], own.iloc[1:-1]
        row = {"head": head, "n": last["n"], "prompts": last["prompts"], "note": last["note"]}
        rows.append(row)
        if last["n"] == 0:
            continue
        used = lens[:, -1, k] != 0
        opposed = _rate(lens[used, -1, k] * raw[used, -1, k] < 0, prompt[used], alpha)
        row |= {"end_rho": last["rho"], "end_opposed": float(opposed.estimate)}
        row |= {"low": float(opposed.low), "high": float(opposed.high)}
        if len(inner):
            worst = inner.loc[inner["opposed"].idxmax()]
            row |= {"depth": int(worst["depth"]), "opposed": worst["opposed"]}
            row["rho"] = inner["rho"].median()
        rows[-1] = row
    columns = ["head", "n", "prompts", "end_rho", "end_opposed", "low", "high"]
    return pd.DataFrame(rows).reindex(columns=[*columns, "depth", "opposed", "rho", "note"])
