"""Lens and attribution: what each layer would say, and what each part adds to what is said.

With d the direction of a head w folded through the final norm's gain, s the norm's scale for
a response and x_c what component c wrote at its last token (``lib.models.anatomy``)::

    reward  = Σ_c s · d·x_c  +  constant
    lens(l) = w · norm(h_l) + b,   h_l = Σ of all that was written up to layer l
    raw(l)  = w · h_l + b          as published: the norm is skipped, so it ends elsewhere

The constant holds the head's bias, the norm's shift and the output projections' biases: none
of them says anything about a text. A projection's bias is scaled by s, so a constant differs a
little from response to response. Biases of queries, keys and values stay with attention.

The parts are asserted to sum: of every comparison the margin, of every response the score,
within 1e-4 of the larger of itself and the head's standard deviation. In float32 a miss is an
error; in lower precision the stream itself is rounded after each write, and the largest miss
is recorded (``sums_within``, in the head's standard deviations) and shown.

Where a model has one final score, it is read as one more direction: Σ_k c_k w_k, with the
coefficients c = g Mᵀ that the gate gave this prompt. The gate is held: parts say what each
component adds to the score at these coefficients, not what it did to them.

Source: the decomposition is that of direct logit attribution; published for reward models in
reward-lens (lens and attribution without the final norm). Checked against: tiny models of
every kind described, whose parts are found again by zeroing what enters the final norm
(``tests/mechanisms``).
"""

from __future__ import annotations

import numpy as np
import torch
import xarray as xr

from lib.effects import CONSTANT, FINAL
from lib.errors import ModelError
from lib.extraction import extract
from lib.models.anatomy import Anatomy, Norm, describe
from lib.run import align

WITHIN = 1e-4  # of the larger of a margin and its head's standard deviation
KEPT = ["item_of_response", "slot", "prompt_hash", "n_prompt_tokens", "n_response_tokens"]
KEPT += ["better", "worse", "criterion", "subset", "head_source", "head_concept"]


def trace(model, items, *, attention_heads: bool = False, **options) -> xr.Dataset:
    """Lens and parts of every response's rewards, from one pass that is stored like any.

    Parameters
    ----------
    model
        A ``lib.models.LinearHeads`` on a described backbone.
    items
        What ``load_items`` returned.
    attention_heads
        Also tell each layer's attention heads apart.
    options
        As for ``lib.extraction.extract``: ``store``, ``budget``, ``held_out``, …

    Returns
    -------
    xarray.Dataset
        Text-free, in rewards' own units:

        =================  ==============================  ================================
        ``part``           response, component, head       sums over components to ``score``
        ``part_raw``       response, component, head       as published, without the norm: sums
                                                           to the last of ``lens_raw``
        ``lens``           response, depth, head           depth 0 is the embedding alone;
                                                           the last equals ``score``
        ``lens_raw``       response, depth, head           as published
        ``score``          response, head                  what the model says
        ``attention_part``  response, attention,           on request: sums over a layer's
                           attention_head, head            heads to its attention's part
        =================  ==============================  ================================

        beside the variables that say what was compared, as in ``lib.run``. A gated model's
        final score stands as one more head. ``attrs["sums_within"]`` is the largest
        distance of a sum from its margin, in the larger of that margin and the head's
        standard deviation.

    Raises
    ------
    ModelError
        For a backbone that isn't described, or parts that don't sum in float32.
    """
    anatomy = describe(model.backbone)
    taps = ("writes", "attended") if attention_heads else ("writes",)
    run = extract(model, items, taps=taps, **options)
    return _traced(model, anatomy, run, attention_heads)


def _traced(model, anatomy: Anatomy, run: xr.Dataset, attention_heads: bool) -> xr.Dataset:
    norm, names = anatomy.norm, [*run["head"].values]
    shift = norm.shift.cpu().numpy().astype(np.float64)
    weight = model.weight.astype(np.float64)
    bias = np.zeros(len(weight)) if model.bias is None else model.bias.astype(np.float64)
    folded = norm.folded(torch.from_numpy(weight)).numpy()
    written = run["write"].values.astype(np.float64)
    stream = written.cumsum(axis=1)[:, ::2]  # the embedding, then as each layer leaves it
    scale = _scale(norm, stream)
    ending = scale[:, -1]
    fixed = _fixed(anatomy, written.shape[-1])
    part = np.einsum("n,ncd,kd->nck", ending, written, folded, optimize=True)
    # What projections add to every text is taken off their components, and is constant.
    part[:, 1:] -= np.einsum("n,cd,kd->nck", ending, fixed, folded, optimize=True)
    constant = bias + weight @ shift + ending[:, None] * (folded @ fixed.sum(axis=0))
    part = np.concatenate([part, constant[:, None]], axis=1)
    lens = scale[..., None] * (stream @ folded.T) + weight @ shift + bias
    raw = stream @ weight.T + bias
    part_raw = np.concatenate(
        [written @ weight.T, np.broadcast_to(bias, (len(written), 1, len(bias)))], axis=1
    )
    score = run["score"].values.astype(np.float64)
    variables = {"part": part, "part_raw": part_raw, "lens": lens, "lens_raw": raw}
    variables["score"] = score
    if attention_heads:
        variables["attention_part"] = _by_head(anatomy, run, written, folded, ending)
    if model.gated:  # one more reading, at each prompt's own coefficients
        names.append(FINAL)
        coefficients = run["gate"].values[run["item_of_response"].values].astype(np.float64)
        for name, values in variables.items():
            final = np.einsum("n...k,nk->n...", values, coefficients)
            variables[name] = np.concatenate([values, final[..., None]], axis=-1)
        variables["score"][:, -1] = run["final"].values
    dims = {
        "part": ("response", "component", "head"),
        "part_raw": ("response", "component", "head"),
        "lens": ("response", "depth", "head"),
        "lens_raw": ("response", "depth", "head"),
        "score": ("response", "head"),
        "attention_part": ("response", "attention", "attention_head", "head"),
    }
    kept = run.drop_dims("head")[[n for n in KEPT if n in run and "head" not in run[n].dims]]
    traced = kept.assign(
        {name: (dims[name], values.astype(np.float32)) for name, values in variables.items()}
    ).assign_coords(head=names, component=[*anatomy.components, CONSTANT])
    traced.attrs = {**run.attrs, "sums_within": _miss(part, variables, run)}
    exact = run.attrs["extraction"]["dtype"] == "float32"
    if exact and not traced.attrs["sums_within"] <= WITHIN:
        raise ModelError(
            f"parts that sum to the rewards of {model.name} within {WITHIN:g}",
            f"a miss of {traced.attrs['sums_within']:.3g} head standard deviations",
            "The backbone adds to its stream in a way that its description lacks; "
            "report it with the model's config.json.",
        )
    return traced


def _scale(norm: Norm, stream: np.ndarray) -> np.ndarray:
    """The norm's scale of float64 states, over their last axis."""
    return norm.scale(torch.from_numpy(stream)).numpy()


def _fixed(anatomy: Anatomy, features: int) -> np.ndarray:
    """The output projections' biases, (components − 1, features), zero where there is none."""
    zero = np.zeros(features)
    return np.stack(
        [zero if b is None else b.detach().cpu().numpy().astype(np.float64) for b in anatomy.biases]
    )


def _by_head(anatomy, run, written, folded, ending) -> np.ndarray:
    """Parts of each attention head, (responses, layers, attention heads, heads)."""
    attended = run["attended"].values.astype(np.float64)
    found = []
    for number, layer in enumerate(anatomy.layers):
        out = layer.out_weight().cpu().numpy().astype(np.float64)
        direction = folded
        scale = ending
        if layer.posted is not None:  # through the write's own norm, its scale held too
            direction = layer.posted.folded(torch.from_numpy(folded)).numpy()
            scale = ending * _scale(layer.posted, attended[:, number] @ out.T)
        read = (direction @ out).reshape(len(folded), anatomy.n_heads, -1)
        each = attended[:, number].reshape(len(attended), anatomy.n_heads, -1)
        found.append(np.einsum("n,nae,kae->nak", scale, each, read, optimize=True))
    return np.stack(found, axis=1)


def _miss(part: np.ndarray, variables: dict, run: xr.Dataset) -> float:
    """The largest distance of a sum from its score or margin, as ``WITHIN`` counts it."""
    score, total = variables["score"], variables["part"].sum(axis=1)
    spread = score.std(axis=0)
    gaps = align(run).gaps
    pairs = [(total, score), (gaps(total), gaps(score))]
    misses = [
        np.abs(found - right) / np.maximum(np.maximum(np.abs(right), spread), np.finfo(float).tiny)
        for found, right in pairs
    ]
    return float(max(miss.max(initial=0.0) for miss in misses))
