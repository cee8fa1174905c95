"""Where one head's margins come from, by component and by attention head.

A margin m is score(better) − score(worse). A component *makes* the share Σ c·m / Σ m² of the
margins, c its part of each (``lib.stats.ratios.slope``): whichever response the head
prefers, shares of all components sum to 1. With c what patches say that it carries, the mean
of noising and denoising, the same quotient is its share by patches; those needn't sum to 1.

It is *on the margin's side* in a comparison where c and m have one sign. Verdicts are those of
the patching page (``lib.analyses.patching.stats.verdicts``), over all heads of the model.

Checked against: parts written by hand (``tests/analyses/one_head``).
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr

from lib import effects as measured
from lib.effects import BOTH_ENDS, CONSTANT, DENOISING, EVERYTHING, NOISING
from lib.stats import proportions, ratios
from lib.stats.signed import per_prompt

LARGEST = 10
OTHERS = "all others"
# As the patching page calls its verdicts.
CONFIRMED, OPPOSES, CANCELLED = "confirmed", "opposes", "cancelled"
SHARES = ["makes", "low", "high"]
SIDES = ["side", "side_low", "side_high"]


def chosen(effects: xr.Dataset, head: str = "") -> str:
    """The head that a page is about: the named one, or the first as pages show them.

    Raises
    ------
    ParameterError
        For a name that isn't there, with those that are.
    """
    if not head:
        return measured.heads(effects)[0]
    measured.pick(effects, head=head)
    return head


def margin(effects: xr.Dataset, head: str) -> pd.DataFrame:
    """What there is to explain.

    Returns
    -------
    pandas.DataFrame
        One row: ``head``, ``n`` comparisons, ``prompts``, ``margin`` (mean over prompts) with
        ``low`` and ``high``, ``better`` (share of comparisons in which the better response
        scores higher, ties counted half) with ``better_low`` and ``better_high``.
    """
    prompt = measured.prompts(effects)
    values = measured.gaps(measured.pick(effects, head=head), "score")
    own = ratios.mean(per_prompt(values, prompt))
    rate = _rate((1 + np.sign(values)) / 2, prompt)
    row = {"head": head, "n": len(values), "prompts": len(np.unique(prompt))}
    row |= dict(zip(("margin", "low", "high"), map(float, own), strict=True))
    row |= {"better": float(rate.estimate), "better_low": float(rate.low)}
    return pd.DataFrame([row | {"better_high": float(rate.high)}])


def largest(
    effects: xr.Dataset, head: str, found: pd.DataFrame, *, count: int = LARGEST
) -> pd.DataFrame:
    """The components that make most of a head's margins.

    Parameters
    ----------
    effects
        As in ``lib.effects``.
    found
        Verdicts of all heads, as ``lib.analyses.patching.stats.verdicts`` returns them.
    count
        How many.

    Returns
    -------
    pandas.DataFrame
        One row a component, the largest in size first, and last ``all others`` together:
        ``component``; ``makes``, its share of the margins, with ``low`` and ``high``; ``side``,
        the share of comparisons in which it is on the margin's side, with ``side_low`` and
        ``side_high``; ``patches``, its share by patches, with ``patches_low`` and
        ``patches_high``; ``p_adjusted``, ``pulls`` and ``verdict`` of ``found``. NaN and empty
        for what isn't patched (the embedding) and for all others. Sums are over prompts.
    """
    one, prompt = measured.pick(effects, head=head), measured.prompts(effects)
    part = measured.gaps(one, "part")
    names = one["component"].values
    table = _shared(names, part, part.sum(axis=1), prompt)
    table = table.merge(_patched(one, head, found), on="component", how="left")
    table[["pulls", "verdict"]] = table[["pulls", "verdict"]].fillna("")
    size = table["makes"].abs().where(table["component"] != CONSTANT, -1.0)
    table = table.loc[size.sort_values(ascending=False, kind="stable").index]
    top, rest = table.head(count), table.iloc[count:]
    others = {"component": OTHERS, "makes": rest["makes"].sum(min_count=1)}
    last = pd.DataFrame([others | {"pulls": "", "verdict": ""}]).reindex(columns=table.columns)
    return pd.concat([top, last], ignore_index=True)


def _shared(
    names: np.ndarray, values: np.ndarray, margins: np.ndarray, prompt: np.ndarray
) -> pd.DataFrame:
    """Shares of margins and sides of values (comparisons, things)."""
    made = ratios.slope(values, margins[:, None], prompt)
    side = _rate((1 + np.sign(values) * np.sign(margins)[:, None]) / 2, prompt)
    return pd.DataFrame(
        {"component": names}
        | dict(zip(SHARES, made, strict=True))
        | dict(zip(SIDES, (side.estimate, side.low, side.high), strict=True))
    )


def _rate(happened: np.ndarray, prompt: np.ndarray) -> proportions.Interval:
    return proportions.wilson(*proportions.by_prompt(happened, prompt))


def _patched(one: xr.Dataset, head: str, found: pd.DataFrame) -> pd.DataFrame:
    """What patches say of each node: its share of the margins, and the verdict."""
    nodes = one["node"].values[one["node"].values != EVERYTHING]
    ways = [f"{mode}, {BOTH_ENDS}" for mode in (NOISING, DENOISING)]
    effect = one["effect"].sel(way=ways, node=nodes).values.astype(float)
    prompt = measured.prompts(one)[one["comparison_of_patched"].values]
    margins = one["margin"].values.astype(float)[:, None]
    share = ratios.slope(-effect.mean(axis=0), margins, prompt)
    names = ("patches", "patches_low", "patches_high")
    table = pd.DataFrame({"component": nodes} | dict(zip(names, share, strict=True)))
    own = found.loc[found["head"] == head, ["node", "p_adjusted", "pulls", "verdict"]]
    return table.merge(own.rename(columns={"node": "component"}), on="component", how="left")


def attention(effects: xr.Dataset, head: str, *, count: int = LARGEST) -> pd.DataFrame:
    """The attention heads that make most of a head's margins.

    Returns
    -------
    pandas.DataFrame
        As ``largest``, without patches; none where effects don't tell attention heads apart.
        Both layers and their attention heads count from 1.
    """
    if "attention_part" not in effects:
        return pd.DataFrame(columns=["component", *SHARES, *SIDES])
    one, prompt = measured.pick(effects, head=head), measured.prompts(effects)
    values = measured.gaps(one, "attention_part")
    layers, each = values.shape[1:]
    names = [f"layer {n + 1}, head {h + 1}" for n in range(layers) for h in range(each)]
    margins = measured.gaps(one, "part").sum(axis=1)
    table = _shared(np.asarray(names), values.reshape(len(values), -1), margins, prompt)
    order = table["makes"].abs().sort_values(ascending=False, kind="stable").index
    return table.loc[order].head(count).reset_index(drop=True)


def prompts(effects: xr.Dataset, head: str, names: list[str]) -> pd.DataFrame:
    """What components add to each prompt's margin.

    Returns
    -------
    pandas.DataFrame
        One row a component and prompt: ``component``, ``prompt`` (an integer) and ``part``: the
        mean over its comparisons of the part towards the response that the head prefers, in
        the mean size of the head's margins. Above 0 it is on the margin's side.
    """
    one, prompt = measured.pick(effects, head=head), measured.prompts(effects)
    part = measured.gaps(one, "part")
    margins = part.sum(axis=1)
    size = per_prompt(np.abs(margins), prompt).mean()
    own = part[:, one.indexes["component"].get_indexer(names)] * np.sign(margins)[:, None]
    values = per_prompt(own, prompt) / (size if size > 0 else np.nan)
    return pd.DataFrame(
        {
            "component": np.repeat(names, len(values)),
            "prompt": np.tile(np.unique(prompt), len(names)),
            "part": values.T.ravel(),
        }
    )
