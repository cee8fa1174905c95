"""Neurons of MLPs: how important each is, the top ones, and runs in which some are silenced.

A *neuron* is one output of an MLP's activation function, before it meets the up projection.
With a_tj its activation at token t of a text (prompt and response), over some comparisons:

``activation``  mean over tokens, then over both texts of all comparisons, signed; as published
``change``      root mean square over tokens of a − a of the backbone before training
``gradient``    mean over comparisons of Σ_t a_tj · ∂margin/∂a_tj: what the margin would lose, to
                first order, with the neuron silenced (Molchanov et al., 2017)

The top share is exactly ⌈share · n⌉ neurons over all layers, ties in order of layer and place.

Checked against: sums by hand on a tiny model, and ``gradient`` against the change of the margin
when neurons of the last layer, in which it is linear up to the norm, are scaled a little
(``tests/training/tension``).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch

from lib.errors import ModelError
from lib.extraction.taps import Port, activations
from lib.training.tension import finetune
from lib.training.tension.finetune import Reward
from lib.training.tension.texts import Texts

MEASURES = ("activation", "change", "gradient")
TOKENS = 16_384  # of texts whose activations are held at once


def measure(reward: Reward, base: torch.nn.Module, texts: Texts, tokens: int = TOKENS) -> dict:
    """Each of ``MEASURES``, shape (layers, neurons), float64.

    Beside them ``activation of base``, and ``gap``: mean activation over the better texts less
    that over the worse ones.

    Raises
    ------
    ModelError
        For a backbone whose MLPs have no activation module.
    """
    finetune.quicken(base)
    sums: dict[str, torch.Tensor] = {}
    n_tokens = 0
    pairs = [
        range(2 * max(len(texts.sequences[a]), len(texts.sequences[b])))
        for a, b in zip(texts.better, texts.worse, strict=True)
    ]
    for some in finetune.batches(pairs, tokens):
        places = np.append(texts.better[some], texts.worse[some])
        ids, lengths = finetune.padded([texts.sequences[p] for p in places], reward.device)
        real = torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]
        with torch.no_grad(), finetune.quick(reward), _kept(base) as before:
            base(input_ids=ids, attention_mask=None, use_cache=False)
        own, slopes = _with_slopes(reward, ids, lengths)
        found = {name: [] for name in (*MEASURES, "activation of base", "gap")}
        for old, new, slope in zip(before, own, slopes, strict=True):
            old, new = (x.detach().float() * real[..., None] for x in (old, new))
            means = new.sum(1) / lengths[:, None]
            better, worse = means.chunk(2)
            found["activation"].append(means.sum(0))
            found["gap"].append((better - worse).sum(0))
            found["activation of base"].append((old.sum(1) / lengths[:, None]).sum(0))
            found["change"].append((new - old).pow(2).sum((0, 1)))
            found["gradient"].append((new * slope.float()).sum((0, 1)))
        for name, layers in found.items():
            here = torch.stack(layers).double()
            sums[name] = sums[name] + here if name in sums else here
        n_tokens += int(lengths.sum())
    n = len(texts)
    divide = {"activation": 2 * n, "activation of base": 2 * n, "gradient": n, "gap": n}
    means = {name: (sums[name] / by).cpu().numpy() for name, by in divide.items()}
    return means | {"change": (sums["change"] / n_tokens).sqrt().cpu().numpy()}


def _with_slopes(reward: Reward, ids, lengths):
    """Activations of each layer, and the slopes of the sum of all margins over them."""
    with torch.enable_grad(), finetune.quick(reward), _kept(reward.backbone) as own:
        entering = reward.backbone.get_input_embeddings()(ids).detach().requires_grad_(True)
        states = finetune.last_states(reward, ids, lengths, inputs_embeds=entering)
        better, worse = (states @ reward.weight[0]).chunk(2)
        slopes = torch.autograd.grad((better - worse).sum(), own)
    return own, slopes


@contextlib.contextmanager
def _kept(backbone: torch.nn.Module) -> Iterator[list[torch.Tensor]]:
    """Inside, what each layer's activation gives is kept in a list, in order of layers."""
    found: list[torch.Tensor] = []
    with contextlib.ExitStack() as stack:
        for port in activations(backbone):
            hook = port.module.register_forward_hook(lambda _, __, output: found.append(output))
            stack.callback(hook.remove)
        yield found


@contextlib.contextmanager
def silenced(
    backbone: torch.nn.Module, mask: np.ndarray, put: np.ndarray | None = None
) -> Iterator[None]:
    """Inside, neurons of a mask (layers, neurons) give zero, or what ``put`` says, at all tokens.

    To give zero is to add nothing, so it is the columns that write for them that are zero where
    the MLP has a ``down_proj``: no token costs more than without. What is put instead of a
    neuron meets the up projection as the neuron would.

    Raises
    ------
    ModelError
        For a mask of another shape.
    """
    ports = activations(backbone)
    if len(mask) != len(ports):
        raise ModelError(
            f"a mask of {len(ports)} layers", f"one of {len(mask)}", "Give one of this backbone."
        )
    writers = _writers(backbone, ports)
    device = next(backbone.parameters()).device
    with contextlib.ExitStack() as stack:
        for layer, (port, writer) in enumerate(zip(ports, writers, strict=True)):
            if not mask[layer].any():
                continue
            off = torch.from_numpy(mask[layer]).to(device)
            if put is None and writer is not None:
                stack.enter_context(_without(writer.weight, off))
                continue
            value = None if put is None else torch.from_numpy(put[layer]).to(device)
            hook = port.module.register_forward_hook(_replacing(off, value))
            stack.callback(hook.remove)
        yield


def _writers(backbone: torch.nn.Module, ports: list[Port]) -> list[torch.nn.Linear | None]:
    """The projection that writes what an MLP's neurons say, where there is one by its name."""
    owners = {id(child): owner for owner in backbone.modules() for child in owner.children()}
    found = [getattr(owners[id(port.module)], "down_proj", None) for port in ports]
    return [down if isinstance(down, torch.nn.Linear) else None for down in found]


@contextlib.contextmanager
def _without(weight: torch.nn.Parameter, off: torch.Tensor) -> Iterator[None]:
    """Inside, columns of a weight are zero."""
    kept = weight.data.clone()
    weight.data.mul_(~off)
    try:
        yield
    finally:
        weight.data.copy_(kept)


def _replacing(off: torch.Tensor, value: torch.Tensor | None):
    def hook(module, args, output):
        if value is None:
            return output * ~off
        return torch.where(off, value.to(output.dtype), output)

    return hook


def top(importance: np.ndarray, share: float) -> np.ndarray:
    """Mask of the ⌈share · n⌉ neurons of the largest importance (layers, neurons)."""
    flat = importance.ravel()
    mask = np.zeros(flat.size, bool)
    mask[np.argsort(-flat, kind="stable")[: math.ceil(share * flat.size)]] = True
    return mask.reshape(importance.shape)


def drawn(mask: np.ndarray, seed: int | Sequence[int], by_layer: bool = False) -> np.ndarray:
    """A random mask of the same size, in each layer or over all."""
    generator = np.random.default_rng(seed)
    if by_layer:
        return generator.permuted(mask, axis=1)
    return generator.permutation(mask.ravel()).reshape(mask.shape)
