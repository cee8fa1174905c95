"""The last layer's MLP, on those tokens alone whose states are read.

Of what the last layer makes, only the states at a few tokens of a row are read, and after
its attention no token asks for another's. So its MLP need not see the rest: a share of about
one in the number of layers is saved. A backbone without ``layers[-1].mlp``, or with one that
isn't called with states of shape (1, tokens, features), is computed in full; one whose MLP
mixes tokens is told by ``lib.extraction.parity``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np
import torch

from lib.extraction.attention import to_device


@contextlib.contextmanager
def reading(backbone: torch.nn.Module, tokens: np.ndarray) -> Iterator[None]:
    """Inside, states after the final norm are right at these tokens, and need not be elsewhere."""
    mlp = getattr(next(iter(getattr(backbone, "layers", ())[-1:]), None), "mlp", None)
    if not isinstance(mlp, torch.nn.Module):
        yield
        return
    cut: list[tuple[torch.Tensor, torch.Tensor]] = []

    def before(module, args):
        cut.clear()
        if not args or args[0].ndim != 3 or len(args[0]) != 1:
            return None
        at = to_device(tokens, args[0].device)
        cut.append((args[0], at))
        return (args[0][:, at], *args[1:])

    def after(module, args, output):
        if not cut:
            return None
        states, at = cut.pop()
        made, *more = output if isinstance(output, tuple) else (output,)
        whole = made.new_zeros(1, states.shape[1], made.shape[-1]).index_copy_(1, at, made)
        return (whole, *more) if isinstance(output, tuple) else whole

    hooks = [mlp.register_forward_pre_hook(before), mlp.register_forward_hook(after)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
