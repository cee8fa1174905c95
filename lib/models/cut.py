"""A backbone cut at a layer, whose states are the residual stream there, normalised by token.

What a sparse autoencoder of SARM's layout reads: x = (h − mean)/(std + 1e-6) over the features
of each token, with h the stream as the source layer leaves it and no final norm. The layers
above are gone, and the module in the final norm's place makes x, so that packing, taps and
stores know of nothing new: the state that is read is x.

The released class takes ``Tensor.std``, which divides by the number of features less one; so
does this, and the biased one would move x by a factor of √(d/(d − 1)).
"""

from __future__ import annotations

import torch

from lib.errors import ModelError
from lib.models.anatomy import KINDS, PRE_NORM
from lib.models.standardise import Standardise


def names(backbone: torch.nn.Module) -> tuple[str, str]:
    """Where a kind of backbone keeps its layers and its final norm.

    A ``ModelError`` for one that has neither where it is looked for.
    """
    kind = KINDS.get(backbone.config.get_text_config().model_type, PRE_NORM)
    if not isinstance(getattr(backbone, kind.layers, None), torch.nn.ModuleList) or not hasattr(
        backbone, kind.norm
    ):
        raise ModelError(
            f"a decoder with its layers under {kind.layers} and its last norm under {kind.norm}",
            f"none in {type(backbone).__name__}",
            "Read a layer of a backbone of another kind.",
        )
    return kind.layers, kind.norm


def cut(backbone: torch.nn.Module, layers: int) -> torch.nn.Module:
    """Keep the first layers of a backbone and normalise what they leave; changes and returns it.

    A ``ModelError`` when it hasn't so many.
    """
    name, norm = names(backbone)
    found = getattr(backbone, name)
    if not 0 < layers <= len(found):
        raise ModelError(
            f"a layer from 1 to {len(found)} of {type(backbone).__name__}",
            f"{layers}",
            "Name one of them.",
        )
    setattr(backbone, name, found[:layers])
    shorten(backbone.config, layers)
    setattr(backbone, norm, Standardise().to(next(backbone.parameters()).device))
    return backbone.eval().requires_grad_(False)


def shorten(config, layers: int) -> None:
    """Let a configuration say so many layers."""
    text = config.get_text_config()
    if getattr(text, "layer_types", None):
        text.layer_types = list(text.layer_types)[:layers]
    text.num_hidden_layers = layers
