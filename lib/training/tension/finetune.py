"""Bradley–Terry on all weights of a backbone and a head without bias.

loss = −log σ(score(chosen) − score(rejected) − margin), the mean over a batch (Bradley & Terry,
1952; the margin as in Touvron et al., 2023, zero by default). AdamW, learning rates up over the
first tenth of steps and then down to zero, gradients clipped to norm 1.

Texts are padded on the right and attention is causal, so nothing of the padding reaches a token
that is read. The same seed, machine and versions give the same weights on a CPU.

On a GPU texts go through ``light`` copies, bfloat16 throughout. Weights are kept, and learnt, in
float32: each step's gradients are of the copy, which is then written anew (mixed precision with
master weights, Micikevicius et al., 2018).
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
TRAINED = 16_384  # tokens, padding too, that are computed at once
SCORED = 32_768


@dataclass(frozen=True)
class Recipe:
    """How models are trained: the settings that a study keeps."""

    learning_rate: float = 2e-5
    head_rate: float = 1e-3
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

    @property
    def mixed(self) -> bool:
        """Are products computed in another number type than weights are kept in?"""
        parameter = next(self.backbone.parameters())
        return parameter.is_cuda and parameter.dtype == torch.float32


class Norm(torch.nn.Module):
    """Llama's root mean square norm, in one kernel."""

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """The states, each divided by its root mean square and times the weight."""
        shape, epsilon = self.weight.shape, self.variance_epsilon
        return torch.nn.functional.rms_norm(states, shape, self.weight, epsilon)


def quicken(backbone: torch.nn.Module) -> torch.nn.Module:
    """The same backbone, its norms in one kernel each."""
    for module in backbone.modules():
        if type(module).__name__ == "LlamaRMSNorm":
            module.__class__ = Norm
    return backbone


def fresh(backbone: torch.nn.Module, seed: int, heads: int = 1) -> Reward:
    """A copy of a backbone with new heads, drawn by a seed with the backbone's own width."""
    width = backbone.config.hidden_size
    generator = torch.Generator().manual_seed(seed)
    scale = getattr(backbone.config, "initializer_range", 0.02)
    weight = torch.randn(heads, width, generator=generator) * scale
    copied = quicken(copy.deepcopy(backbone)).requires_grad_(True)
    return Reward(copied, torch.nn.Parameter(weight.to(next(copied.parameters()).device)))


def light(reward: Reward, everywhere: bool = False) -> Reward:
    """A copy in bfloat16 on a GPU, and elsewhere, unless asked for, the model itself.

    Parameters alone: heads, and what positions are computed from, stay float32.
    """
    if reward.device.type != "cuda" and not everywhere:
        return reward
    backbone = copy.deepcopy(reward.backbone)
    for parameter in backbone.parameters():
        parameter.data = parameter.data.to(torch.bfloat16)
    return Reward(backbone, reward.weight)


def batches(sequences: Sequence[np.ndarray], tokens: int) -> Iterator[np.ndarray]:
    """Places of texts of like length, in batches of at most so many tokens with padding."""
    lengths = np.asarray([len(ids) for ids in sequences])
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < len(order):
        size = max(1, tokens // int(lengths[order[start]]))
        yield order[start : start + size]
        start += size


def padded(sequences: Sequence[np.ndarray], device) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids (texts, longest), zero after each one's end, and their lengths."""
    lengths = np.asarray([len(ids) for ids in sequences])
    ids = np.zeros((len(sequences), lengths.max()), np.int64)
    for row, text in zip(ids, sequences, strict=True):
        row[: len(text)] = text
    return torch.from_numpy(ids).to(device), torch.from_numpy(lengths).to(device)


def quick(reward: Reward):
    """Inside, products are computed in bfloat16 on a GPU, and as they are on a CPU."""
    if reward.mixed:
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
    tokens: int = TRAINED,
    half: bool = False,
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
    half
        Send texts through a bfloat16 copy on a CPU too.

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
    through = light(reward, half)
    copied = [*through.backbone.parameters()] if through is not reward else []
    optimiser = torch.optim.AdamW(
        [
            {"params": parameters[:-1], "lr": recipe.learning_rate},
            {"params": parameters[-1:], "lr": recipe.head_rate},
        ],
        weight_decay=DECAY,
        betas=(0.9, 0.999),
        fused=reward.device.type == "cuda",
    )
    steps = recipe.epochs * -(-len(texts) // recipe.batch)
    warm = max(1, int(WARM * steps))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min((step + 1) / warm, (steps - step) / max(1, steps - warm))
    )
    generator = np.random.default_rng(seed)
    through.backbone.train()
    for _ in range(recipe.epochs):
        order = np.arange(len(texts)) if in_order else generator.permutation(len(texts))
        losses = []
        for start in range(0, len(order), recipe.batch):
            rows = order[start : start + recipe.batch]
            losses += _step(through, texts, rows, head, margin, tokens)
            for kept, other in zip(parameters, copied, strict=False):  # the head has no copy
                kept.grad, other.grad = other.grad.float(), None
            torch.nn.utils.clip_grad_norm_(parameters, CLIP)
            optimiser.step()
            schedule.step()
            optimiser.zero_grad()
            if copied:
                with torch.no_grad():
                    torch._foreach_copy_(copied, parameters[:-1])
        _check(torch.stack(losses), texts)  # once an epoch: each look waits for the device
    reward.backbone.eval().requires_grad_(False)
    through.backbone.requires_grad_(False)
    reward.weight.requires_grad_(False)
    return reward


def _check(losses: torch.Tensor, texts: Texts) -> None:
    if not torch.isfinite(losses).all():
        raise DataError(
            f"losses that are numbers on {texts.name}",
            f"{(~torch.isfinite(losses)).sum().item()} of {len(losses)} that aren't",
            "Take a lower learning rate, or leave out what gives scores that aren't numbers.",
        )


def _step(reward, texts, rows, head, margin, tokens) -> list[torch.Tensor]:
    """Add the gradient of the mean loss of some comparisons, a few at a time; their losses."""
    longest = [
        max(len(texts.sequences[texts.better[row]]), len(texts.sequences[texts.worse[row]]))
        for row in rows
    ]
    losses = []
    for some in batches([range(2 * length) for length in longest], tokens):
        chosen = rows[some]
        places = np.append(texts.better[chosen], texts.worse[chosen])
        ids, lengths = padded([texts.sequences[place] for place in places], reward.device)
        with quick(reward):
            states = last_states(reward, ids, lengths)
        scores = states @ reward.weight.T
        of = torch.from_numpy(np.tile(head[chosen], 2)).to(reward.device)
        better, worse = scores.gather(1, of[:, None])[:, 0].chunk(2)
        gap = better - worse
        if margin is not None:
            gap = gap - torch.from_numpy(margin[chosen]).to(gap)
        loss = -torch.nn.functional.logsigmoid(gap).sum() / len(rows)
        loss.backward()
        losses.append(loss.detach())
    return losses


class Plan:
    """Texts in batches of like length, on a device: made once, read as often as one likes.

    Parameters
    ----------
    sequences, device
        What is read, and where.
    at
        Position that is read in each text; its last token by default.
    tokens
        That are computed at once, padding too.
    """

    def __init__(
        self,
        sequences: Sequence[np.ndarray],
        device: torch.device,
        at: np.ndarray | None = None,
        tokens: int = SCORED,
    ):
        self.places, self._batches = [], []
        for some in batches(sequences, tokens):
            ids, lengths = padded([sequences[place] for place in some], device)
            if at is not None:
                lengths = torch.from_numpy(np.asarray(at)[some] + 1).to(device)
            self.places.append(some)
            self._batches.append((ids, lengths))

    @torch.inference_mode()
    def states(self, reward: Reward) -> torch.Tensor:
        """States that are read, (texts, features), float32, on the device, in the texts' order."""
        found = []
        with quick(reward):
            for ids, lengths in self._batches:
                found.append(last_states(reward, ids, lengths))
        order = torch.from_numpy(np.argsort(np.concatenate(self.places))).to(reward.device)
        return torch.cat(found)[order]

    @torch.inference_mode()
    def scores(self, reward: Reward) -> np.ndarray:
        """Scores of each text, (texts, heads), float32."""
        return (self.states(reward) @ reward.weight.T).cpu().numpy()


def scores(reward: Reward, sequences: Sequence[np.ndarray]) -> np.ndarray:
    """Scores of each text, (texts, heads), float32."""
    return Plan(sequences, reward.device).scores(reward)


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
