"""What the token that is read takes from each token of a text, by attention's direct path.

A reward is read at a response's last token. In each layer that token's attention weighs the
values of all tokens; through the output projection, a write's own norm where there is one, and
the final norm, each weighted value adds a number to the reward. With α a weight, v a value,
W_O the slice of an attention head and d the head's direction, the norms' scales held::

    part(t) = Σ over layers and attention heads  scale · d · W_O (α_t v_t)

The last token's own part holds what attention takes from itself, its embedding and its MLPs.
With the constant (``lib.mechanisms.tracing``) the parts of all tokens are the reward.

It says where a number was read, and not why it was there: a value may hold what earlier layers
brought to that token from others.

Checked against: transformers' own attention weights and plain hooks, on every described kind of
tiny backbone (``tests/mechanisms``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from contextvars import ContextVar

import numpy as np
import torch
import xarray as xr
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from lib.effects import FINAL
from lib.errors import ModelError
from lib.mechanisms.patching import attending, weighed
from lib.mechanisms.tracing import WITHIN
from lib.models.anatomy import Anatomy, describe
from lib.run import texts

LISTENING = "listening"
OWN = ("embedding", "attention to itself", "MLPs")
PLACES = ("prompt", "response")

_heard: ContextVar[dict[int, tuple[torch.Tensor, torch.Tensor]]] = ContextVar("heard")


def _listening(module, query, key, value, attention_mask, scaling=None, softcap=None, **options):
    """Attention that keeps what the last token gave to each value, and the values."""
    weights, value = weighed(query, key, value, scaling, softcap, **options)
    _heard.get()[module.layer_idx] = weights[0, :, -1], value[0]
    return (weights.to(value.dtype) @ value).transpose(1, 2).contiguous(), None


ALL_ATTENTION_FUNCTIONS.register(LISTENING, _listening)
ALL_MASK_ATTENTION_FUNCTIONS.register(LISTENING, lambda *_, **__: None)


def token_parts(model, prompt: Sequence[Mapping[str, str]], response: str) -> xr.Dataset:
    """What each token of one text adds to its rewards.

    Parameters
    ----------
    model
        A ``lib.models.linear.LinearHeads`` on a described backbone.
    prompt, response
        A conversation and an answer, as in ``lib.data.items``.

    Returns
    -------
    xarray.Dataset
        In rewards' own units: ``part`` (token, head), ``own`` (what, head), which sums to the
        last token's part, ``constant`` (head) and ``score`` (head); ``text`` and ``place``
        (``prompt`` or ``response``) of each token. With a gate the final score stands as one
        more head, the gate held.

    Raises
    ------
    ModelError
        For a backbone that isn't described, or in float32 parts that don't sum to the reward
        within 1e-4 of the larger of it and its largest part.
    """
    anatomy = describe(model.backbone)
    item = model.format.encode(prompt, [response])
    ids = item.sequences[0]
    heard = _heard_of(model.backbone, anatomy, ids)
    part, own, constant = _parts(model, anatomy, heard)
    states = heard["states"]
    readout = model.read(states[-1:], states[[item.gate_at]] if model.gated else None)
    score, names = readout.score[0].astype(float), [head.name for head in model.heads]
    if model.gated:
        gate = readout.gate[0].astype(float)
        part, own, constant = (
            np.concatenate([each, each @ gate[:, None]], axis=-1) for each in (part, own, constant)
        )
        score, names = np.append(score, readout.final[0]), [*names, FINAL]
    miss = np.abs(part.sum(axis=0) + constant - score)
    allowed = WITHIN * np.maximum(np.abs(score), np.abs(part).max(axis=0))
    if next(model.backbone.parameters()).dtype == torch.float32 and (miss > allowed).any():
        raise ModelError(
            f"parts of tokens that sum to the rewards of {model.name}",
            f"a miss of {(miss / allowed).max():.3g} times what is allowed",
            "The backbone attends in a way that its description lacks; report it with the "
            "model's config.json.",
        )
    decode = model.format.tokenizer.decode
    return xr.Dataset(
        {
            "part": (("token", "head"), part),
            "own": (("what", "head"), own),
            "constant": (("head",), constant),
            "score": (("head",), score),
            "text": ("token", texts(decode([token]).replace("\0", "␀") for token in ids)),
            "place": ("token", texts(PLACES[t >= item.n_prompt] for t in range(len(ids)))),
        },
        {"head": texts(names), "what": texts(OWN)},
    )


def _heard_of(backbone: torch.nn.Module, anatomy: Anatomy, ids: np.ndarray) -> dict:
    """One run: states after the norm, the last token's writes, its weights and all values."""
    writes: dict[str, list[torch.Tensor]] = {"embedding": [], "attention": [], "mlp": []}

    def keep(name):
        def hook(module, args, output):
            made = output[0] if isinstance(output, tuple) else output
            writes[name].append(made[0, -1].double().cpu())

        return hook

    def entering(module, args, kwargs):
        made = args[0] if args else kwargs["hidden_states"]
        writes["embedding"].append(made[0, -1].double().cpu())

    held = _heard.set({})
    try:
        with (
            contextlib.ExitStack() as stack,
            attending(backbone, LISTENING),
            torch.inference_mode(),
        ):
            first = anatomy.layers[0].module
            hooks = [first.register_forward_pre_hook(entering, with_kwargs=True)]
            for layer in anatomy.layers:
                hooks.append(layer.attention.register_forward_hook(keep("attention")))
                hooks.append(layer.mlp.register_forward_hook(keep("mlp")))
            for hook in hooks:
                stack.callback(hook.remove)
            tokens = torch.as_tensor(ids, device=next(backbone.parameters()).device)[None]
            states = backbone(
                input_ids=tokens, attention_mask=None, use_cache=False
            ).last_hidden_state[0]
        found = {name: torch.stack(each) for name, each in writes.items()}
        return found | {"states": states.float().cpu().numpy(), "attended": _heard.get()}
    finally:
        _heard.reset(held)


def _parts(model, anatomy: Anatomy, heard: dict) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Parts of tokens, the last one's own, and the constant: (tokens, k), (3, k), (k,)."""
    stream = sum(heard[name].sum(dim=0) for name in ("embedding", "attention", "mlp"))
    weight = torch.from_numpy(model.weight).double()
    direction = anatomy.norm.scale(stream) * anatomy.norm.folded(weight)  # (k, features)
    fixed = [None if b is None else b.detach().double().cpu() for b in anatomy.biases]
    tokens = 0.0
    for number, layer in enumerate(anatomy.layers):
        given, values = (x.double().cpu() for x in heard["attended"][number])
        each = given[..., None] * values  # (attention heads, tokens, width)
        out, read = layer.out_weight().double().cpu(), direction
        if layer.posted is not None:  # through the write's own norm, its scale held too
            whole = out @ each.sum(dim=1).flatten()
            read = layer.posted.scale(whole) * layer.posted.folded(direction)
        read = (read @ out).reshape(len(weight), len(each), -1)
        tokens = tokens + torch.einsum("atw,kaw->tk", each, read)
    mlps = heard["mlp"].sum(dim=0) - _added(fixed[1::2])
    own = torch.stack([heard["embedding"][0] @ direction.T, tokens[-1], mlps @ direction.T])
    tokens[-1] = own.sum(dim=0)
    constant = weight @ anatomy.norm.shift.double().cpu()
    constant = constant + direction @ (_added(fixed) + torch.zeros(direction.shape[1]).double())
    if model.bias is not None:
        constant = constant + torch.from_numpy(model.bias).double()
    return tokens.numpy(), own.numpy(), constant.numpy()


def _added(biases: Sequence[torch.Tensor | None]) -> torch.Tensor | float:
    """Their sum; 0 where there is none."""
    return sum((bias for bias in biases if bias is not None), 0.0)
