"""States normalised token by token, as a module in the place of a backbone's final norm."""

from __future__ import annotations

import torch

from lib.models.sae import EPS


class Standardise(torch.nn.Module):
    """x = (h − mean)/(std + 1e-6) over the last axis, in float32."""

    def __init__(self):
        super().__init__()
        # Part of the state's digest: a backbone without it makes other states.
        self.register_buffer("unbiased", torch.ones((), dtype=torch.int64))

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Of states (…, features)."""
        states = states.float()
        centred = states - states.mean(dim=-1, keepdim=True)
        return centred / (states.std(dim=-1, keepdim=True) + EPS)
