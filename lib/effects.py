"""Effects: why a model's heads say what they say, measured, everything a page needs, without text.

An ``xarray.Dataset``. Of every *traced* response the parts that its rewards are made of, and
of some *patched* comparisons, one a prompt, what their margins become when a node's output is
taken from elsewhere. In rewards' own units; ``head`` names the model's heads and, where a gate
makes one score of them, ``FINAL`` after them, read at each prompt's own coefficients:

=====================  ===========================  ==========================================
variable               dims                         content
=====================  ===========================  ==========================================
``part``               response, component, head    what each component adds; sums to ``score``
``part_raw``           response, component, head    as published, without the final norm: sums
                                                    to the last of ``lens_raw``
``lens``               response, depth, head        reward read after so many layers; depth 0
                                                    is the embedding, the last is ``score``
``lens_raw``           response, depth, head        as published, without the final norm
``score``              response, head               what the model says
``attention_part``     response, attention,         on request: what each attention head adds;
                       attention_head, head         sums to its layer's attention
``margin``             patched, head                score(better) − score(worse)
``effect``             way, patched, node, head     what the patch adds to that margin
``direct``             patched, component, head     path patching: what ``component`` of the
                                                    better response, taken from the worse, adds
                                                    to the margin by its own write at the last
                                                    token, everything else held, the final norm
                                                    computed again
``comparison_of_patched``  patched                  position along ``comparison``
``mode``               way                          noising, denoising, zero, mean, resample
``alignment``          way                          both ends, or left (as published)
``positions``          way                          response, or all
``sides``              way                          both, or better alone (as published)
``gate``               way                          held, or recomputed
=====================  ===========================  ==========================================

and, as in ``lib.run``: ``item_of_response``, ``slot``, ``prompt_hash``, ``n_prompt_tokens``,
``n_response_tokens``, ``better``, ``worse``, ``criterion``, ``subset``, ``head_source``,
``head_concept``, with the coordinates ``item``, ``response`` and ``head``, so that ``align``
suits both. ``component`` is ``embedding``, ``attention 1``, ``mlp 1``, … and ``CONSTANT``;
``node`` is ``attention 1``, ``mlp 1``, … and ``EVERYTHING``. ``way`` is one of
``ways(gated)``, where the data can have it: ``resample`` needs two prompts.

``attrs`` are those of a Run (``ATTRS`` there), and ``seed``, ``command``, ``seconds``,
``sums_within`` (the largest distance of a sum of parts from its score or margin) and
``everything_within`` (that of a pair's margin from 0 where everything is patched), both as a
share of the larger of that margin and the head's standard deviation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from lib import run as runs
from lib.errors import StoreError, unknown

CONSTANT = "constant"
EVERYTHING = "everything"
FINAL = "final score"  # among the heads, where a gate makes one of them
NOISING, DENOISING, ZERO, MEAN, RESAMPLE = "noising", "denoising", "zero", "mean", "resample"
BOTH_ENDS, LEFT = "both ends", "left"
PUBLISHED = "zero, all (better)"  # how reward-lens patches by default

# name → (dims, dtype kind, required)
SCHEMA: dict[str, tuple[tuple[str, ...], str, bool]] = {
    "part": (("response", "component", "head"), "f", True),
    "part_raw": (("response", "component", "head"), "f", True),
    "lens": (("response", "depth", "head"), "f", True),
    "lens_raw": (("response", "depth", "head"), "f", True),
    "score": (("response", "head"), "f", True),
    "attention_part": (("response", "attention", "attention_head", "head"), "f", False),
    "margin": (("patched", "head"), "f", True),
    "effect": (("way", "patched", "node", "head"), "f", True),
    "direct": (("patched", "component", "head"), "f", True),
    "comparison_of_patched": (("patched",), "i", True),
    **{name: (("way",), "U", True) for name in ("mode", "alignment", "positions", "sides", "gate")},
    **{
        name: runs.SCHEMA[name]
        for name in (
            *("item_of_response", "slot", "prompt_hash", "n_prompt_tokens", "n_response_tokens"),
            *("better", "worse", "criterion", "subset", "head_source", "head_concept"),
        )
    },
}
COORDS = {**runs.COORDS, "component": "U", "node": "U", "way": "U"}
ATTRS: dict[str, Any] = runs.ATTRS | {
    "seed": int,
    "command": str,
    "seconds": float,
    "sums_within": float,
    "everything_within": float,
}


@dataclass(frozen=True)
class Way:
    """One way to patch; see ``lib.mechanisms.patching``."""

    name: str
    mode: str
    alignment: str = BOTH_ENDS
    positions: str = "response"
    sides: str = "both"
    gate: str = "held"


def ways(gated: bool) -> list[Way]:
    """Every way that is measured. With the gate recomputed only ``FINAL`` differs."""
    found = [
        Way(f"{mode}, {alignment}", mode, alignment)
        for mode in (NOISING, DENOISING)
        for alignment in (BOTH_ENDS, LEFT)
    ]
    found += [Way(f"{mode}, response", mode) for mode in (ZERO, MEAN, RESAMPLE)]
    published = {"mode": ZERO, "positions": "all", "sides": "better"}
    found.append(Way(PUBLISHED, **published))
    if gated:
        found.append(Way(f"{PUBLISHED}, gate recomputed", **published, gate="recomputed"))
    return found


def check(effects: xr.Dataset) -> xr.Dataset:
    """The effects themselves, when they follow the schema.

    Raises
    ------
    StoreError
        Naming the variable, dims, coordinate or attribute that doesn't.
    """

    def wrong(needed, found):
        return StoreError(needed, found, "Compute the effects again: python -m lib explain.")

    for name, (dims, kind, required) in SCHEMA.items():
        if name not in effects.variables:
            if required:
                raise wrong(f"variable {name!r} among effects", "none")
            continue
        if effects[name].dims != dims or effects[name].dtype.kind != kind:
            raise wrong(
                f"{name!r} with dims {dims} of kind {kind!r}",
                f"dims {effects[name].dims} of kind {effects[name].dtype.kind!r}",
            )
    for name in COORDS:
        if name not in effects.coords:
            raise wrong(f"coordinate {name!r} of effects", "none")
        if len(np.unique(effects[name].values)) < effects.sizes[name]:
            raise wrong(f"distinct labels of {name!r}", "one more than once")
    for name in ATTRS:
        if name not in effects.attrs:
            raise wrong(f"attribute {name!r} of effects", "none")
    for side in ("better", "worse"):
        if not np.isin(effects[side].values, effects["response"].values).all():
            raise wrong(f"{side!r} among the responses", "others")
    places = effects["comparison_of_patched"].values
    if not np.isin(places, np.arange(effects.sizes["comparison"])).all():
        raise wrong("patched comparisons among all", "others")
    for last, dim in ((CONSTANT, "component"), (EVERYTHING, "node")):
        if last not in effects[dim].values[-1:]:
            raise wrong(f"{last!r} as the last {dim}", "another")
    return effects


def gaps(effects: xr.Dataset, name: str) -> np.ndarray:
    """What the better response of each comparison has more than the worse.

    ``name`` is a variable whose first dim is ``response``; the result has comparisons there,
    in their order, and is float64.
    """
    if SCHEMA.get(name, ((),))[0][:1] != ("response",):
        known = [each for each, (dims, _, _) in SCHEMA.items() if dims[0] == "response"]
        raise StoreError(f"a variable of responses ({', '.join(known)})", name, "Name one.")
    return runs.align(effects).gaps(effects[name].values)


def prompts(effects: xr.Dataset) -> np.ndarray:
    """Of each comparison an integer for its prompt, the unit that was sampled."""
    return runs.align(effects).prompt


def patched(effects: xr.Dataset, name: str) -> np.ndarray:
    """``gaps`` of the patched comparisons alone, in their order."""
    return gaps(effects, name)[effects["comparison_of_patched"].values]


def pick(effects: xr.Dataset, **labels: str) -> xr.Dataset:
    """Effects of one layer, head or way alone: ``pick(effects, node="mlp 3", head="refusal")``.

    Raises
    ------
    ParameterError
        For a label that isn't there, with those that are and the nearest of them.
    """
    for dim, label in labels.items():
        known = effects[dim].values.tolist()
        if label not in known:
            raise unknown(f"{dim} of {effects.attrs['model']}", label, known)
    return effects.sel(labels)


def heads(effects: xr.Dataset) -> Sequence[str]:
    """Names of heads, the final score first where there is one: what a page shows first."""
    names = effects["head"].values.tolist()
    return [FINAL, *(n for n in names if n != FINAL)] if FINAL in names else names
