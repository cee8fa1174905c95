"""Bradley–Terry on all weights of a backbone and a head without bias.

loss = −log σ(score(chosen) − score(rejected) − margin), the mean over a batch (Bradley & Terry,
1952; the margin as in Touvron et al., 2023, zero by default). AdamW, learning rate up over the
first tenth of steps and then down to zero, gradients clipped to norm 1.

Texts are padded on the right and attention is causal, so nothing of the padding reaches a token
that is read. The same seed, machine and versions give the same weights on a CPU.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from lib.errors import DataError
from lib.training.tension.texts import Texts

CLIP, WARM, DECAY = 1.0, 0.1, 0.01


@dataclass(frozen=True)
class Recipe:
    """How models are trained: the settings that a study keeps."""

    learning_rate: float = 2e-5
    batch: int = 32
    epochs: int = 2


@dataclass
class Reward:
    """A backbone with heads (heads, features), float32, without bias."""

    backbone: torch.nn.Module
    weight: torch.nn.Parameter

    @property
    def device(self) -> torch.device:
        """Where it is."""
        return self.weight.device


def fresh(backbone: torch.nn.Module, seed: int, heads: int = 1) -> Reward:
    """A copy of a backbone with new heads, drawn by a seed with the backbone's own width."""
    width = backbone.config.hidden_size
    generator = torch.Generator().manual_seed(seed)
    scale = getattr(backbone.config, "initializer_range", 0.02)
    weight = torch.randn(heads, width, generator=generator) * scale
    copied = copy.deepcopy(backbone).requires_grad_(True)
    return Reward(copied, torch.nn.Parameter(weight.to(next(copied.parameters()).device)))


def batches(sequences: Sequence[np.ndarray], tokens: int) -> Iterator[np.ndarray]:
    """Places of texts of like length, in batches of at most so many tokens with padding."""
    order = np.argsort([-len(ids) for ids in sequences], kind="stable")
    start = 0
    while start < len(order):
        size = max(1, tokens // len(sequences[order[start]]))
        yield order[start : start + size]
        start += size


def padded(sequences: Sequence[np.ndarray], device) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids (texts, longest), zero after each one's end, and their lengths."""
    lengths = np.asarray([len(ids) for ids in sequences])
    ids = np.zeros((len(sequences), lengths.max()), np.int64)
    for row, text in zip(ids, sequences, strict=True):
        row[: len(text)] = text
    return torch.from_numpy(ids).to(device), torch.from_numpy(lengths).to(device)


def quick(device: torch.device):
    """Inside, products are computed in bfloat16 on a GPU, and as they are on a CPU."""
    if device.type == "cuda":
        return torch.autocast("cuda", torch.bfloat16)
    return contextlib.nullcontext()


def last_states(reward: Reward, ids: torch.Tensor, lengths: torch.Tensor, **options):
    """States that heads read, (texts, features), float32."""
    given = options or {"input_ids": ids}
    states = reward.backbone(**given, attention_mask=None, use_cache=False).last_hidden_state
    return states[torch.arange(len(lengths), device=lengths.device), lengths - 1].float()


def train(
    base: torch.nn.Module,
    texts: Texts,
    recipe: Recipe,
    seed: int,
    *,
    head: np.ndarray | None = None,
    margin: np.ndarray | None = None,
    in_order: bool = False,
    tokens: int = 32_768,
) -> Reward:
    """A reward model from a backbone, which stays as it is.

    Parameters
    ----------
    base, texts, recipe
        The backbone, the comparisons to learn from, and how.
    seed
        Draws the heads and the order of the comparisons in each epoch.
    head
        Which head learns from each comparison, integers; one head by default.
    margin
        Asked of each comparison, in rewards' units; zero by default.
    in_order
        Take comparisons in their order in every epoch, as the published code does.
    tokens
        Of the texts that are computed at once.

    Raises
    ------
    DataError
        Where there are no comparisons, or a loss isn't a number.
    """
    if not len(texts):
        raise DataError("comparisons to train on", f"none in {texts.name}", "Give more items.")
    head = np.zeros(len(texts), int) if head is None else head
    reward = fresh(base, seed, int(head.max()) + 1)
    parameters = [*reward.backbone.parameters(), reward.weight]
    optimiser = torch.optim.AdamW(
        parameters, lr=recipe.learning_rate, weight_decay=DECAY, betas=(0.9, 0.999)
    )
    steps = recipe.epochs * -(-len(texts) // recipe.batch)
    warm = max(1, int(WARM * steps))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min((step + 1) / warm, (steps - step) / max(1, steps - warm))
    )
    generator = np.random.default_rng(seed)
    reward.backbone.train()
    for _ in range(recipe.epochs):
        order = np.arange(len(texts)) if in_order else generator.permutation(len(texts))
        for start in range(0, len(order), recipe.batch):
            rows = order[start : start + recipe.batch]
            _step(reward, texts, rows, head, margin, tokens)
            torch.nn.utils.clip_grad_norm_(parameters, CLIP)
            optimiser.step()
            schedule.step()
            optimiser.zero_grad()
    reward.backbone.eval().requires_grad_(False)
    reward.weight.requires_grad_(False)
    return reward


def _step(reward, texts, rows, head, margin, tokens) -> None:
    """Add the gradient of the mean loss of some comparisons, a few at a time."""
    longest = [
        max(len(texts.sequences[texts.better[row]]), len(texts.sequences[texts.worse[row]]))
        for row in rows
    ]
    for some in batches([range(2 * length) for length in longest], tokens):
        chosen = rows[some]
        places = np.append(texts.better[chosen], texts.worse[chosen])
        ids, lengths = padded([texts.sequences[place] for place in places], reward.device)
        with quick(reward.device):
            states = last_states(reward, ids, lengths)
        scores = states @ reward.weight.T
        of = torch.from_numpy(np.tile(head[chosen], 2)).to(reward.device)
        better, worse = scores.gather(1, of[:, None])[:, 0].chunk(2)
        gap = better - worse
        if margin is not None:
            gap = gap - torch.from_numpy(margin[chosen]).to(gap)
        loss = -torch.nn.functional.logsigmoid(gap).sum() / len(rows)
        if not torch.isfinite(loss):
            raise DataError(
                f"losses that are numbers on {texts.name}",
                f"{loss.item()}",
                "Take a lower learning rate, or leave out what gives scores that aren't numbers.",
            )
        loss.backward()


@torch.inference_mode()
def read(
    reward: Reward, sequences: Sequence[np.ndarray], at: np.ndarray | None = None, tokens=131_072
) -> np.ndarray:
    """States at each text's last token, or at the places ``at``: (texts, features), float32."""
    found = np.zeros((len(sequences), reward.weight.shape[1]), np.float32)
    for some in batches(sequences, tokens):
        ids, lengths = padded([sequences[place] for place in some], reward.device)
        if at is not None:
            lengths = torch.from_numpy(at[some] + 1).to(reward.device)
        with quick(reward.device):
            found[some] = last_states(reward, ids, lengths).cpu().numpy()
    return found


def scores(reward: Reward, sequences: Sequence[np.ndarray], **options) -> np.ndarray:
    """Scores of each text, (texts, heads), float32."""
    return read(reward, sequences, **options) @ reward.weight.detach().cpu().numpy().T


def average(first: Reward, second: Reward) -> Reward:
    """The model whose weights are the means of two models' weights (model soup)."""
    mixed = copy.deepcopy(first)
    with torch.no_grad():
        for one, other in zip(
            mixed.backbone.parameters(), second.backbone.parameters(), strict=True
        ):
            one.lerp_(other, 0.5)
        mixed.weight.lerp_(second.weight, 0.5)
    return mixed
