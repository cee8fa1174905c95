"""The gate over heads: a network that reads the prompt and weighs the debiased rewards.

    g = logit_scale · softmax(MLP(x) / temperature)
    score = Σ_k g_k (r M)_k = Σ_j r_j (g Mᵀ)_j

Source: Wang et al. (2024), "Interpretable Preferences via Multi-Objective Reward Modeling
and Mixture-of-Experts". The rewards r stay undebiased; M acts on the coefficients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from lib.models.base import Readout

# What the released class assumes where its configuration says nothing.
TEMPERATURE = 10.0


@dataclass(frozen=True)
class Gate:
    """The gating network.

    ``layers`` holds weight (out, in) and bias (out,) of each, float32, with ReLU between
    them; ``logit_scale`` is what the gate sums to, ``temperature`` divides the logits.
    """

    layers: Sequence[tuple[np.ndarray, np.ndarray]]
    logit_scale: float = 1.0
    temperature: float = TEMPERATURE

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Gate of states x, shape (n, features): shape (n, heads), float32."""
        x = np.asarray(x, np.float32)
        for i, (weight, bias) in enumerate(self.layers):
            x = (np.maximum(x, 0) if i else x) @ weight.T + bias
        logits = x / np.float32(self.temperature)
        exp = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.float32(self.logit_scale) * exp / exp.sum(axis=1, keepdims=True)

    def fits(self, features: int, heads: int, transform: np.ndarray) -> bool:
        """Do layers and debiasing matrix fit each other, states and heads of such numbers?"""
        widths = [features, *(bias.size for _, bias in self.layers)]
        shapes = [(matrix.shape, bias.shape) for matrix, bias in self.layers]
        chained = [((out, into), (out,)) for into, out in pairwise(widths)]
        return shapes == chained and widths[-1] == heads and transform.shape == (heads, heads)


def gated(score: np.ndarray, gate: Gate, transform: np.ndarray, gate_hidden: np.ndarray) -> Readout:
    """Rewards with their coefficients g Mᵀ and the final score Σ r · (g Mᵀ).

    Parameters
    ----------
    score
        Undebiased rewards r, shape (n, heads).
    gate, transform
        The network and M, (heads, heads).
    gate_hidden
        State at the prompt's end for each response, shape (n, features).
    """
    coefficients = gate(gate_hidden) @ transform.T
    return Readout(score, (score * coefficients).sum(axis=1), coefficients)
