"""Debiasing matrix and gate over heads (ArmoRM, stage 2), as published and as it should be.

The score of a response is Σ_k g_k (r M)_k: head scores r, debiased by M, weighted by a gate
g that reads the prompt alone. The gate learns from preferences by −log σ(s_c − s_r).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import torch
from scipy import stats

from lib.models.gating import Gate
from lib.training import bradley_terry

# The first step of the published grid is fine, the rest in twentieths.
LAMBDAS = np.concatenate([[0, 0.01, 0.025, 0.05, 0.075, 0.1, 0.125, 0.15], np.arange(4, 20) / 20])
CORRELATION = 0.03


@dataclass(frozen=True)
class Debiasing:
    """A debiasing matrix M, shape (heads, heads), and its λ, shape (heads,).

    M is the identity, less λ in the row of the head that is removed; that head's own λ is 1, so
    that it leaves the score. λ is NaN for a head that never fell to the threshold and was left
    alone.
    """

    matrix: np.ndarray
    lambdas: np.ndarray


def debias(scores: np.ndarray, against: int) -> Debiasing:
    """Subtract from each head the least multiple of one head that decorrelates the two.

    Parameters
    ----------
    scores
        Head scores of reference responses, shape (responses, heads).
    against
        The column to remove (verbosity, as published).

    Notes
    -----
    λ_i is the first of the grid 0, .01, .025, .05, .075, .1, .125, .15, .2, .25 … .95 with
    Spearman(r_i − λ r_a, r_a) ≤ .03 (Wang et al., 2024). The published code sets λ = 1 for
    a head that never gets there; here it keeps λ = 0 and is reported.
    """
    heads = scores.shape[1]
    target = stats.rankdata(scores[:, against])
    lambdas = np.full(heads, np.nan)
    for k in range(heads):
        if k == against:
            lambdas[k] = 1.0
            continue
        moved = scores[:, [k]] - scores[:, [against]] * LAMBDAS
        ranks = stats.rankdata(moved, axis=0)
        correlation = _correlation(ranks, target)
        low = np.flatnonzero(correlation <= CORRELATION)
        if len(low):
            lambdas[k] = LAMBDAS[low[0]]
    matrix = np.eye(heads)
    matrix[against] -= np.nan_to_num(lambdas)
    return Debiasing(matrix, lambdas)


def _correlation(columns: np.ndarray, target: np.ndarray) -> np.ndarray:
    columns = columns - columns.mean(axis=0)
    target = target - target.mean()
    scale = np.sqrt((columns**2).sum(axis=0) * (target**2).sum())
    with np.errstate(invalid="ignore"):
        return np.where(scale > 0, columns.T @ target / scale, 0.0)


def margin(coefficients: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Final score of the preferred response less the other's; ``scores`` (pairs, 2, heads)."""
    return ((scores[:, 0] - scores[:, 1]) * coefficients).sum(axis=1)


def correct(coefficients: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """1 where the final score ranks a pair as people did, ½ at a tie, else 0."""
    return bradley_terry.right(margin(coefficients, scores))


def train_gate(
    prompt_state: np.ndarray,
    chosen: np.ndarray,
    rejected: np.ndarray,
    matrix: np.ndarray,
    *,
    hidden: tuple[int, ...] = (1024, 1024, 1024),
    temperature: float = 10.0,
    steps: int = 2000,
    batch: int = 1024,
    rate: float = 1e-3,
    decay: float = 0.0,
    seed: int = 0,
    published_axis: bool = False,
) -> tuple[Gate, np.ndarray]:
    """Train the gate on preferences, the heads frozen.

    Parameters
    ----------
    prompt_state
        State at the prompt's end, shape (pairs, features).
    chosen, rejected
        Head scores of the two responses, shape (pairs, heads).
    matrix
        The debiasing matrix M.
    hidden
        Widths of the hidden layers.
    temperature, steps, batch, rate, decay, seed
        Of the softmax and of AdamW with a cosine schedule.
    published_axis
        Take the softmax over the chosen/rejected axis and leave M out, as the released
        training code does: every weight then gets the same gradient from both sides, so
        the gate can't learn. For comparison only.

    Returns
    -------
    Gate, numpy.ndarray
        The gate, and the loss at each step.
    """
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    sizes = [prompt_state.shape[1], *hidden, chosen.shape[1]]
    layers = [torch.nn.Linear(a, b) for a, b in itertools.pairwise(sizes)]
    scale = torch.nn.Parameter(torch.ones(1))
    x = torch.tensor(prompt_state, dtype=torch.float32)
    transform = np.eye(len(matrix)) if published_axis else matrix
    both = np.stack([chosen @ transform, rejected @ transform], axis=1)
    pair = torch.tensor(both, dtype=torch.float32)
    parameters = [scale, *(p for layer in layers for p in layer.parameters())]
    optimizer = torch.optim.AdamW(parameters, lr=rate, weight_decay=decay)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    losses = np.empty(steps)
    for step in range(steps):
        rows = torch.randint(len(x), (min(batch, len(x)),), generator=generator)
        out = x[rows]
        for layer in layers[:-1]:
            out = torch.relu(layer(out))
        out = layers[-1](out) / temperature
        if published_axis:
            both = out[:, None].expand(-1, 2, -1)
            weight = scale * torch.softmax(both, dim=1)
        else:
            weight = scale * torch.softmax(out, dim=-1)[:, None]
        score = (pair[rows] * weight).sum(dim=-1)
        loss = -torch.nn.functional.logsigmoid(score[:, 0] - score[:, 1]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses[step] = loss.item()
    arrays = [
        (layer.weight.detach().numpy().copy(), layer.bias.detach().numpy().copy())
        for layer in layers
    ]
    return Gate(arrays, scale.item(), temperature), losses
