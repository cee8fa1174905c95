"""Where a backbone's layers write into the residual stream, and which norm ends it.

One entry a kind of backbone, by ``config.model_type``::

    stream ← embedding
    stream ← stream + attention(norm(stream))        in each layer
    stream ← stream + MLP(norm(stream))
    state  = final norm(stream)

What is called a *write* is what is added: with Gemma 2 and 3 after a norm of its own, with
the others as the projection leaves it. The embedding is the stream as it enters the first
layer, scaled (Gemma) and with its positions (GPT-2). A kind that isn't described is refused
by name: a wrong place to listen at gives parts that look like parts.

Every entry is checked on a tiny model (``tests/mechanisms``): the writes add up to the
stream that the final norm is given, and the norm written here gives the model's own states.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from lib.errors import ModelError
from lib.models.sae import EPS
from lib.models.standardise import Standardise


@dataclass(frozen=True)
class Norm:
    """A norm as a linear map, once its scale is held: x ↦ scale · gain ⊙ (x − mean) + shift.

    ``gain`` and ``shift`` have shape (features,), float32; the mean is taken off only where
    it is ``centred`` (LayerNorm), and ``eps`` enters the scale.
    """

    gain: torch.Tensor
    shift: torch.Tensor
    eps: float
    centred: bool

    @classmethod
    def of(cls, module: torch.nn.Module, kind: str, features: int) -> Norm:
        """Of a norm of one of the kinds ``"rms"``, ``"rms, from 1"`` (Gemma) and ``"layer"``.

        What stands in its place where a backbone is cut says its kind itself.
        """
        if isinstance(module, Standardise):
            return Standardised(torch.ones(features), torch.zeros(features), EPS, True)
        weight = module.weight.detach().float()
        eps = getattr(module, "variance_epsilon", None) or module.eps
        shift = torch.zeros_like(weight)
        if kind == "layer":
            return cls(weight, module.bias.detach().float(), eps, True)
        return cls(weight + 1 if kind == "rms, from 1" else weight, shift, eps, False)

    def scale(self, x: torch.Tensor) -> torch.Tensor:
        """1/√(mean square + eps) of states (…, features), of centred ones where it centres.

        Float32, or float64 for such states.
        """
        return torch.rsqrt(self._centred(x).pow(2).mean(dim=-1) + self.eps)

    def _centred(self, x: torch.Tensor) -> torch.Tensor:
        x = x.to(torch.promote_types(x.dtype, torch.float32))
        return x - x.mean(dim=-1, keepdim=True) if self.centred else x

    def folded(self, directions: torch.Tensor) -> torch.Tensor:
        """Directions (…, features) that read an unscaled stream as they would the normed state.

        d · norm(x) = scale(x) · folded(d) · x + d · shift.
        """
        folded = directions * self.gain.to(directions.device)
        return folded - folded.mean(dim=-1, keepdim=True) if self.centred else folded

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """The norm of states, float32: shape as given."""
        return self._centred(x) * self.scale(x)[..., None] * self.gain.to(x.device) + self.shift.to(
            x.device
        )


class Standardised(Norm):
    """That of ``lib.models.cut``: 1/(standard deviation + eps), which divides by features − 1."""

    def scale(self, x: torch.Tensor) -> torch.Tensor:
        """As ``Norm.scale``."""
        centred = self._centred(x)
        square = centred.pow(2).sum(dim=-1) / (centred.shape[-1] - 1)
        return 1 / (square.sqrt() + self.eps)


@dataclass(frozen=True)
class Kind:
    """Names of modules: of a layer where not said otherwise."""

    attention: str = "self_attn"  # gives attention's write
    mlp: str = "mlp"  # gives the MLP's
    out: str = "self_attn.o_proj"  # takes the attention heads' outputs side by side
    down: str = "mlp.down_proj"
    layers: str = "layers"  # of the backbone
    norm: str = "norm"  # of the backbone
    norms: str = "rms"  # see ``Norm.of``
    posted: bool = False  # do writes go through a norm of their own?


PRE_NORM = Kind()
POST_NORM = Kind(
    "post_attention_layernorm",
    "post_feedforward_layernorm",
    norms="rms, from 1",
    posted=True,
)
KINDS = {
    "llama": PRE_NORM,
    "mistral": PRE_NORM,
    "qwen2": PRE_NORM,
    "qwen3": PRE_NORM,
    "gemma": Kind(norms="rms, from 1"),
    "gemma2": POST_NORM,
    "gemma3_text": POST_NORM,
    "gpt2": Kind("attn", "mlp", "attn.c_proj", "mlp.c_proj", "h", "ln_f", "layer"),
}


@dataclass(frozen=True)
class Layer:
    """One layer's modules: those that write, and the projections that they end with."""

    module: torch.nn.Module
    attention: torch.nn.Module
    mlp: torch.nn.Module
    out: torch.nn.Module
    down: torch.nn.Module
    posted: Norm | None = None  # what attention's write goes through

    def out_weight(self) -> torch.Tensor:
        """W_O, shape (features, attention heads × features of one), float32."""
        return _weight(self.out)


@dataclass(frozen=True)
class Anatomy:
    """A described backbone.

    ``components`` names its writes in the order in which they are made, and ``constants`` has
    the projections' biases that enter the stream, summed over layers, shape (features,): they
    are the same for every text, and no part of what attention or an MLP says.
    """

    layers: Sequence[Layer]
    final: torch.nn.Module
    norm: Norm
    n_heads: int  # of attention, in each layer
    biases: Sequence[torch.Tensor | None] = field(repr=False)  # of the writes but the first

    @property
    def components(self) -> list[str]:
        """``embedding``, then ``attention 1``, ``mlp 1``, … to the last layer."""
        numbers = range(1, len(self.layers) + 1)
        return ["embedding", *(f"{part} {n}" for n in numbers for part in ("attention", "mlp"))]


def linear(model) -> np.ndarray:
    """The head matrix of a model whose scores are linear in its states, (heads, features).

    A ``ModelError`` for one that reads the largest of many latents.
    """
    if model.weight is None:
        raise ModelError(
            f"heads of {model.name} that are linear in its states",
            "a reward of the k largest latents, which are others for each text",
            "Leave out what parts of the backbone give to it.",
        )
    return model.weight


def describe(backbone: torch.nn.Module) -> Anatomy:
    """Where to listen in a backbone.

    Raises
    ------
    ModelError
        For a kind that isn't described here, modules that aren't where its kind has them, or a
        bias before a norm of the write's own, which is no constant.
    """
    name = backbone.config.get_text_config().model_type
    kind = KINDS.get(name)
    if kind is None:
        raise ModelError(
            f"a backbone whose writes are described: {', '.join(KINDS)}",
            f"{name}",
            "Describe it in lib/models/anatomy.py: which modules of a layer write into the "
            "residual stream, which norm ends it, and whether that norm centres.",
        )
    try:
        final = backbone.get_submodule(kind.norm)
        layers = [_layer(layer, kind) for layer in backbone.get_submodule(kind.layers)]
        norm = Norm.of(final, kind.norms, backbone.config.get_text_config().hidden_size)
    except AttributeError as error:
        raise ModelError(
            f"the modules of a {name} backbone", str(error), "Check its config.json's model_type."
        ) from None
    biases = [getattr(part, "bias", None) for each in layers for part in (each.out, each.down)]
    if kind.posted and any(bias is not None for bias in biases):
        raise ModelError(
            f"projections of a {name} backbone without biases",
            "a bias before a norm of the write's own",
            "Its share of a reward changes with the text, so parts can't be told: leave out "
            "attribution for this model.",
        )
    n_heads = backbone.config.get_text_config().num_attention_heads
    return Anatomy(layers, final, norm, n_heads, biases)


def _layer(module: torch.nn.Module, kind: Kind) -> Layer:
    names = (kind.attention, kind.mlp, kind.out, kind.down)
    parts = [module.get_submodule(name) for name in names]
    return Layer(module, *parts, Norm.of(parts[0], kind.norms, 0) if kind.posted else None)


def _weight(projection: torch.nn.Module) -> torch.Tensor:
    """(out, in): a ``Conv1D`` of GPT-2 keeps it the other way."""
    weight = projection.weight.detach().float()
    return weight if isinstance(projection, torch.nn.Linear) else weight.T
