"""Attribution: what each component adds to the margin of the better over the worse response.

A component is the embedding, the attention or the MLP of one layer, or the constant. Its part
of a comparison's margin is what it adds to the better response's reward less what it adds to
the worse one's; parts sum to the margin (``sums``), with the final norm's scale held. *As
published* the norm is skipped: those parts sum to something else than the margin.

A component is said to add toward the better response, or toward the worse one, only where the
mean of its part over prompts is told from 0 by the exact sign-flip test, after Holm over all
components and heads of the page. That is what the component does with these labels; it isn't
said to cause the choice, which patching tests.

Whichever response a head prefers, a component *carries* a share of its margins: with part c and
margin m of each comparison, Σ c·m / Σ m², so that shares sum to 1. It has an interval and no
test, since a part of a sum goes with the sum by construction.

Source: direct logit attribution, published for reward models in reward-lens; the share is the
slope, through zero, of the part on the margin. Checked against:
parts written by hand (``tests/analyses/attribution``); the parts themselves against hooks
(``tests/mechanisms``).
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr

from lib.effects import CONSTANT, gaps, heads, prompts
from lib.errors import StoreError
from lib.stats import proportions, ratios, signed
from lib.stats.correlation import spearman
from lib.stats.permutation import holm

ALPHA = 0.05
WITHIN = 1e-4  # of the larger of a margin and its head's standard deviation
TOWARD_BETTER, TOWARD_WORSE = "toward better", "toward worse"
NOT_SHOWN, UNDEFINED = "not shown", "undefined"
SAME = "the same for both responses"
NORMED, RAW = "with the norm", "as published"
ONE_PROMPT = "a single prompt has no interval"
NO_MARGIN = "no comparison whose responses score differently"


def sums(effects: xr.Dataset) -> float:
    """Largest distance of a sum of parts from its margin or score, as ``WITHIN`` counts it.

    Raises
    ------
    StoreError
        In float32, where it is more than ``WITHIN``: such parts aren't of these rewards.
    """
    score = effects["score"].values.astype(float)
    total = effects["part"].values.astype(float).sum(axis=1)
    spread = score.std(axis=0)
    both = [(total, score), (gaps(effects, "part").sum(axis=1), gaps(effects, "score"))]
    tiny = np.finfo(float).tiny
    misses = [
        np.abs(found - right) / np.maximum(np.maximum(np.abs(right), spread), tiny)
        for found, right in both
    ]
    miss = float(max(each.max(initial=0.0) for each in misses))
    if effects.attrs["extraction"]["dtype"] == "float32" and not miss <= WITHIN:
        raise StoreError(
            f"parts that sum to the rewards, within {WITHIN:g} of a head's spread",
            f"{miss:.3g}",
            "Compute the effects again: python -m lib explain.",
        )
    return miss


def parts(effects: xr.Dataset, *, alpha: float = ALPHA) -> pd.DataFrame:
    """The mean part of each component in each head's margin.

    Parameters
    ----------
    effects
        As in ``lib.effects``.
    alpha
        Intervals have level 1 - alpha, uncorrected; verdicts are corrected at this level.

    Returns
    -------
    pandas.DataFrame
        One row a head and component, components in the order in which they write: ``head``,
        ``component``, ``prompts``, ``mean`` with ``low`` and ``high`` (rewards' units, t over
        prompts), ``same`` (share of prompts whose part has the mean's sign) with ``same_low``
        and ``same_high``, ``p`` (sign flip, exact), ``p_adjusted`` (Holm over all that vary,
        the constant apart), ``verdict`` (``toward better``, ``toward worse``, ``not shown``,
        ``undefined``), ``carries`` with ``carries_low`` and ``carries_high``
        (``lib.stats.ratios.share``), ``mean_raw`` and ``carries_raw`` as published, and
        ``note``.
    """
    effects = effects.sel(head=heads(effects))
    prompt, names = prompts(effects), effects["component"].values
    part, part_raw = (gaps(effects, name) for name in ("part", "part_raw"))
    own = signed.per_prompt(part, prompt)  # (prompts, components, heads)
    found = signed.signed(own, 1 - alpha)
    carried = carries(part, prompt, alpha)
    alike = ~own.any(axis=0)
    tested = np.where(alike | (names == CONSTANT)[:, None] | (len(own) < 2), np.nan, found.p)
    adjusted = holm(tested.ravel()).reshape(tested.shape)
    told = adjusted < alpha
    verdict = np.select(
        [np.isnan(tested), told & (found.mean > 0), told],
        [UNDEFINED, TOWARD_BETTER, TOWARD_WORSE],
        NOT_SHOWN,
    )
    note = np.where(alike, SAME, np.where(len(own) < 2, ONE_PROMPT, ""))
    agreeing = (1 + np.sign(own) * np.sign(found.mean)) / 2
    same = proportions.wilson(agreeing, np.ones(len(own)), 1 - alpha)
    steady = {"same": same.estimate, "same_low": same.low, "same_high": same.high}
    columns = {
        "mean": found.mean,
        "low": np.where(len(own) < 2, np.nan, found.low),
        "high": np.where(len(own) < 2, np.nan, found.high),
        **{name: np.where(alike, np.nan, values) for name, values in steady.items()},
        "p": tested,
        "p_adjusted": adjusted,
        "verdict": verdict,
        **dict(zip(("carries", "carries_low", "carries_high"), carried, strict=True)),
        "mean_raw": signed.per_prompt(part_raw, prompt).mean(axis=0),
        "carries_raw": carries(part_raw, prompt, alpha).estimate,
        "note": note,
    }
    return pd.DataFrame(
        {
            "head": np.repeat(effects["head"].values, len(names)),
            "component": np.tile(names, effects.sizes["head"]),
            "prompts": len(own),
            **{name: values.T.ravel() for name, values in columns.items()},
        }
    )


def carries(part: np.ndarray, prompt: np.ndarray, alpha: float = ALPHA) -> ratios.Ratio:
    """Share of the margins that each component carries, whichever way they go.

    ``part`` has shape (comparisons, components, …); NaN for a head without margins.
    """
    return ratios.slope(part, part.sum(axis=1)[:, None], prompt, 1 - alpha)


def totals(effects: xr.Dataset, *, alpha: float = ALPHA) -> pd.DataFrame:
    """How many components make a head's margin, and how much of them cancels.

    Returns
    -------
    pandas.DataFrame
        Two rows a head, ``form`` ``with the norm`` and ``as published``: ``head``, ``form``,
        ``prompts``, ``margin`` (mean over prompts of what the parts sum to) with ``low`` and
        ``high``, ``half`` (the fewest components that together make half of all carried
        shares' sizes) of ``components`` that vary, ``cancels`` (the sum of those sizes; 1
        where none is against the margin), ``cancels_pair`` (Σ|part| / |Σ part|, the median over
        comparisons), ``constant`` (its mean part in a response's reward; of a margin it is next
        to nothing), ``rho`` (median over comparisons of Spearman's correlation between the
        parts of the two forms, over components) and ``note``.
    """
    effects = effects.sel(head=heads(effects))
    prompt, rows = prompts(effects), []
    both = {NORMED: gaps(effects, "part"), RAW: gaps(effects, "part_raw")}
    constant = {
        form: effects[name].sel(component=CONSTANT).values.mean(axis=0)
        for form, name in ((NORMED, "part"), (RAW, "part_raw"))
    }
    for k, head in enumerate(effects["head"].values.tolist()):
        rho = _agreement(both[NORMED][..., k], both[RAW][..., k])
        for form, part in both.items():
            own = part[..., k]
            margin = ratios.mean(signed.per_prompt(own.sum(axis=1), prompt), 1 - alpha)
            sizes = np.sort(np.abs(carries(own, prompt).estimate))[::-1]
            row = {"head": head, "form": form, "prompts": len(np.unique(prompt))}
            row |= {"margin": float(margin.estimate), "low": float(margin.low)}
            row |= {"high": float(margin.high), "components": int(own.any(axis=0).sum())}
            row |= {"constant": float(constant[form][k]), "rho": rho, "note": ""}
            if not np.isfinite(sizes).all():
                rows.append(row | {"note": NO_MARGIN})
                continue
            row["half"] = int((sizes.cumsum() >= sizes.sum() / 2).argmax() + 1)
            row["cancels"] = sizes.sum()
            each = [_ratio(np.abs(one).sum(), abs(one.sum())) for one in own if one.any()]
            rows.append(row | {"cancels_pair": float(np.median(each))})
    columns = ["head", "form", "prompts", "margin", "low", "high", "half", "components"]
    columns += ["cancels", "cancels_pair", "constant", "rho", "note"]
    return pd.DataFrame(rows).reindex(columns=columns)


def _ratio(of: float, over: float) -> float:
    return of / over if over > 0 else np.inf


def _agreement(one: np.ndarray, other: np.ndarray) -> float:
    """Median over comparisons of Spearman's correlation over components."""
    each = [spearman(np.column_stack(pair))[0, 1] for pair in zip(one, other, strict=True)]
    known = [value for value in each if np.isfinite(value)]
    return float(np.median(known)) if known else np.nan
