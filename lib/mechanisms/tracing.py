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

import hashlib

import numpy as np
import torch
import xarray as xr

from lib.effects import CONSTANT, FINAL, SCHEMA
from lib.errors import ModelError
from lib.extraction import extract, taps
from lib.extraction.taps import Tap
from lib.models.anatomy import Anatomy, describe, linear
from lib.run import align

METHOD = 1  # one more when the same writes come out otherwise
WITHIN = 1e-4  # of the larger of a margin and its head's standard deviation
KEPT = ["item_of_response", "slot", "prompt_hash", "n_prompt_tokens", "n_response_tokens"]
KEPT += ["better", "worse", "criterion", "subset", "head_source", "head_concept"]


def trace(model, items, *, attention_heads: bool = False, **options) -> xr.Dataset:
    """Lens and parts of every response's rewards, from one pass that is stored like any.

    Parameters
    ----------
    model
        A ``lib.models.linear.LinearHeads`` on a described backbone.
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
    reader = Reader(anatomy, linear(model), model.bias)
    key = f"{METHOD} by {reader.digest}"
    wanted = [Tap("traced", taps.writes, taps.last, reader, f"traced {key}")]
    if attention_heads:
        heard = Tap("head_traced", taps.attended, taps.last, reader.heads, f"head_traced {key}")
        wanted.append(heard)
    run = extract(model, items, taps=wanted, **options)
    return _traced(model, anatomy, run)


class Reader:
    """What each write says to each head, told where the writes are: they needn't go further.

    Called with writes (responses, components, features) it gives (responses, rows, heads):
    ``part`` with the constant, ``part_raw`` with the bias, ``lens``, ``lens_raw``, and in a last
    row the final norm's scale. Sums are float64 where the device has it.
    """

    def __init__(self, anatomy: Anatomy, weight: np.ndarray, bias: np.ndarray | None):
        self.anatomy = anatomy
        raw = torch.from_numpy(weight).double()
        shift = anatomy.norm.shift.double().cpu()
        added = torch.zeros(len(raw)) if bias is None else torch.from_numpy(bias)
        fixed = torch.stack([_fixed(b, raw.shape[1]) for b in anatomy.biases])
        folded = anatomy.norm.folded(raw)
        self.maps = {"raw": raw, "folded": folded, "bias": added.double(), "shift": raw @ shift}
        # What projections add to every text is taken off their components, and is constant.
        self.maps["fixed"] = fixed @ folded.T

    @property
    def digest(self) -> str:
        """Of what it reads with besides the backbone: the heads."""
        parts = (self.maps[name].numpy().tobytes() for name in ("raw", "bias"))
        return hashlib.sha256(b"".join(parts)).hexdigest()[:16]

    def __call__(self, written: torch.Tensor) -> torch.Tensor:  # noqa: D102
        exact = _exact(written.device)
        maps = {name: x.to(written.device, exact) for name, x in self.maps.items()}
        stream = torch.zeros_like(written[:, 0], dtype=exact)
        raw, part, scales = [], [], []
        for place in range(written.shape[1]):  # one by one: as float64 all would be large
            added = written[:, place].to(exact)
            stream = stream + added
            raw.append(added @ maps["raw"].T)
            part.append(added @ maps["folded"].T)
            if place % 2 == 0:  # the embedding, then as each layer leaves the stream
                scales.append(self.anatomy.norm.scale(stream))
        raw, part = torch.stack(raw, dim=1), torch.stack(part, dim=1)
        scale = torch.stack(scales, dim=1)[..., None]
        ending, said = scale[:, -1:], maps["shift"] + maps["bias"]
        lens = scale * part.cumsum(dim=1)[:, ::2] + said
        lens_raw = raw.cumsum(dim=1)[:, ::2] + maps["bias"]
        constant = ending * maps["fixed"].sum(dim=0) + said
        part[:, 1:] -= maps["fixed"]
        rows = [ending * part, constant, raw, maps["bias"].expand_as(constant), lens, lens_raw]
        return torch.cat([*rows, ending.expand_as(constant)], dim=1).float()

    def rows(self) -> dict[str, slice]:
        """Where each variable lies."""
        components = len(self.anatomy.components) + 1
        depths = len(self.anatomy.layers) + 1
        sizes = {"part": components, "part_raw": components, "lens": depths, "lens_raw": depths}
        ends = np.cumsum([*sizes.values()])
        return {name: slice(end - sizes[name], end) for name, end in zip(sizes, ends, strict=True)}

    def heads(self, attended: torch.Tensor) -> torch.Tensor:
        """Of what attention heads gave (responses, layers, features), what each says, but for
        the final norm's scale: (responses, layers × attention heads, heads).
        """
        exact = _exact(attended.device)
        found = []
        for number, layer in enumerate(self.anatomy.layers):
            own = attended[:, number].to(exact)
            out = layer.out_weight().to(own)
            direction = self.maps["folded"].to(own)
            scale = 1.0
            if layer.posted is not None:  # through the write's own norm, its scale held too
                direction = layer.posted.folded(direction)
                scale = layer.posted.scale(own @ out.T)[:, None, None]
            read = (direction @ out).reshape(len(direction), self.anatomy.n_heads, -1)
            each = own.reshape(len(own), self.anatomy.n_heads, -1)
            found.append(scale * torch.einsum("nae,kae->nak", each, read))
        return torch.cat(found, dim=1).float()


def _exact(device: torch.device) -> torch.dtype:
    return torch.float32 if device.type == "mps" else torch.float64


def _fixed(bias: torch.Tensor | None, features: int) -> torch.Tensor:
    """An output projection's bias, zero where there is none."""
    if bias is None:
        return torch.zeros(features, dtype=torch.float64)
    return bias.detach().double().cpu()


def _traced(model, anatomy: Anatomy, run: xr.Dataset) -> xr.Dataset:
    names, found = [*run["head"].values], run["traced"].values.astype(np.float64)
    rows = Reader(anatomy, linear(model), model.bias).rows()
    variables = {name: found[:, where] for name, where in rows.items()}
    variables["score"] = run["score"].values.astype(np.float64)
    if "head_traced" in run:
        shape = (len(found), len(anatomy.layers), anatomy.n_heads, len(names))
        each = run["head_traced"].values.astype(np.float64).reshape(shape)
        variables["attention_part"] = found[:, -1, 0][:, None, None, None] * each
    miss = _miss(variables, run)
    if model.gated:  # one more reading, at each prompt's own coefficients
        names.append(FINAL)
        coefficients = run["gate"].values[run["item_of_response"].values].astype(np.float64)
        for name, values in variables.items():
            final = np.einsum("n...k,nk->n...", values, coefficients)
            variables[name] = np.concatenate([values, final[..., None]], axis=-1)
        variables["score"][:, -1] = run["final"].values
        miss = max(miss, _miss(variables, run))
    dims = {name: SCHEMA[name][0] for name in variables}
    kept = run.drop_dims("head")[[n for n in KEPT if n in run and "head" not in run[n].dims]]
    traced = kept.assign(
        {name: (dims[name], values.astype(np.float32)) for name, values in variables.items()}
    ).assign_coords(head=names, component=[*anatomy.components, CONSTANT])
    traced.attrs = {**run.attrs, "sums_within": miss}
    exact = run.attrs["extraction"]["dtype"] == "float32"
    if exact and not traced.attrs["sums_within"] <= WITHIN:
        raise ModelError(
            f"parts that sum to the rewards of {model.name} within {WITHIN:g}",
            f"a miss of {traced.attrs['sums_within']:.3g} head standard deviations",
            "The backbone adds to its stream in a way that its description lacks; "
            "report it with the model's config.json.",
        )
    return traced


def _miss(variables: dict, run: xr.Dataset) -> float:
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
