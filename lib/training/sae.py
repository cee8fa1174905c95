"""A TopK sparse autoencoder with AuxK, learnt from token states (Gao et al. 2024).

``train`` minimises |x − x̂|² over what the states vary, plus 1/32 of the same for the latents
that have been silent for a while, which reconstruct what is left (AuxK). Columns of W_dec have
norm 1, and Adam's rate rises over the first steps and falls over the last fifth. Batches are
drawn without replacement from as many shards as fit in ``MEMORY``; their order, the weights at
the start and so, on a CPU, the result are the seed's alone. With a ``keep`` file a killed
training goes on where it last wrote, and ends with the same numbers.

``Trained`` is plain arrays (``lib.models.sae.SAE``); ``quality`` says how much of held-out
states it keeps.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from lib.atomic import replacing
from lib.errors import ParameterError, StoreError
from lib.models.sae import SAE
from lib.stats.proportions import by_prompt
from lib.training.token_states import TokenStates

MEMORY = 8 << 30  # bytes of states on the device at a time
SAMPLE = 1 << 15  # states that give mean and variance at the start
WATCHED = 1 << 13  # states that tell how training goes
EVERY = 20  # steps between two looks at who is silent, for which a device must be waited for
AUX, MOST = 1 / 32, 256  # weight of AuxK, and how many silent latents it takes
PARTS = ("encoder", "decoder", "pre_bias", "latent_bias")


@dataclass(frozen=True)
class Recipe:
    """How an autoencoder is trained: sizes, steps of so many states, rates, and the seed.

    A latent is silent that was kept for none of the last ``silent`` states.
    """

    latents: int
    k: int
    seed: int
    steps: int = 6000
    batch: int = 4096
    rate: float = 4e-4
    warm_up: int = 200
    silent: int = 200_000

    def check(self, features: int) -> None:
        """A ``ParameterError`` for sizes that don't fit."""
        if not 0 < self.k <= self.latents:
            found = f"k = {self.k}, {self.latents} latents"
            raise ParameterError("k from 1 to the number of latents", found, "Choose k smaller.")
        if min(self.steps, self.batch) < 1:
            found = f"{self.steps} steps of {self.batch}"
            raise ParameterError("steps and states a step from 1", found, "Train for a step.")


def train(
    states: TokenStates,
    recipe: Recipe,
    *,
    keep: str | Path | None = None,
    keep_every: int = 1000,
    device: str = "cpu",
    on_step: Callable[[int, Learner], None] = lambda step, learner: None,
) -> SAE:
    """Learn an autoencoder from states.

    Parameters
    ----------
    states
        Those to learn from alone: held-out ones aren't among them.
    recipe
        Sizes, rates and seed.
    keep
        A file for what is learnt so far, written every ``keep_every`` steps and gone on from.
    device
        ``"cpu"``, ``"cuda"``, ….
    on_step
        Called after each step.

    Raises
    ------
    ParameterError
        For sizes that don't fit.
    StoreError
        Where ``keep`` holds another training.
    """
    recipe.check(states.features)
    learner = Learner(states, recipe, device)
    done = learner.resume(Path(keep)) if keep else 0
    with _fast_products():
        for step, x in enumerate(batches(states, recipe, device, done), done + 1):
            learner.step(step, x)
            on_step(step, learner)
            if keep and (step % keep_every == 0 or step == recipe.steps):
                learner.write(Path(keep), step)
    return learner.sae()


def watched(
    seen: TokenStates,
    held: TokenStates,
    recipe: Recipe,
    device: str,
    told: Callable[[str], None],
    times: int = 10,
) -> Callable[[int, Learner], None]:
    """An ``on_step`` that tells, some times, how much of a sample of states is explained.

    Both of states that are learnt from and of held-out ones, which nothing is chosen by.
    """
    samples = {
        name: torch.from_numpy(states.shard(0)["states"][:WATCHED]).float().to(device)
        for name, states in (("learnt from", seen), ("held out", held))
    }
    every = max(1, recipe.steps // times)

    def on_step(step: int, learner: Learner) -> None:
        if step % every and step != recipe.steps:
            return
        shares = ", ".join(f"{name} {learner.explains(x):.4f}" for name, x in samples.items())
        silent = int((learner.silence > recipe.silent).sum())
        told(
            f"seed {recipe.seed}: step {step} of {recipe.steps}, explained of states {shares}; "
            f"{silent} latents silent"
        )

    return on_step


@contextlib.contextmanager
def _fast_products() -> Iterator[None]:
    """On a GPU, products of matrices in TF32 inside."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def batches(
    states: TokenStates, recipe: Recipe, device: str, done: int = 0
) -> Iterator[torch.Tensor]:
    """The batches after the first ``done``, (batch, features), float32 on the device.

    What of a group of shards fills no batch is left out; it is drawn anew in each epoch.
    """
    number, held, pool = 0, (), None
    for group, order in _groups(states, recipe.seed):
        count = max(1, len(order) // recipe.batch)
        if number + count > done:
            if group != held:
                pool = None  # before the next is in memory
                held, pool = group, _loaded(states, group, device)
            order = order.to(device)
            for part in range(max(0, done - number), count):
                if number + part == recipe.steps:
                    return
                yield pool[order[part * recipe.batch : (part + 1) * recipe.batch]].float()
        number += count


def _groups(states: TokenStates, seed: int) -> Iterator[tuple[tuple[int, ...], torch.Tensor]]:
    """Shards that are in memory together and the order of their states, epoch after epoch."""
    epoch = 0
    while True:
        generator = torch.Generator().manual_seed(seed * 100_003 + epoch)
        shards = torch.randperm(len(states.tokens), generator=generator).tolist()
        group: list[int] = []
        for place, shard in enumerate(shards, 1):
            group.append(shard)
            size = sum(states.tokens[n] for n in group)
            if place == len(shards) or 2 * states.features * size >= MEMORY:
                yield tuple(sorted(group)), torch.randperm(size, generator=generator)
                group = []
        epoch += 1


def _loaded(states: TokenStates, group: tuple[int, ...], device: str) -> torch.Tensor:
    parts = [torch.from_numpy(states.shard(number)["states"]) for number in group]
    return torch.cat([part.to(device) for part in parts])


class Learner:
    """Weights, Adam's moments and who has been silent for how long.

    W_enc and W_decᵀ are both (latents, features).
    """

    def __init__(self, states: TokenStates, recipe: Recipe, device: str):
        self.recipe, self.device = recipe, device
        generator = torch.Generator().manual_seed(recipe.seed)
        sample = torch.from_numpy(states.shard(0)["states"][:SAMPLE]).float()
        mean = sample.mean(dim=0)
        self.variance = float((sample - mean).square().sum(dim=1).mean())
        directions = torch.randn(recipe.latents, states.features, generator=generator)
        directions /= directions.norm(dim=1, keepdim=True)
        made = {
            "encoder": directions.clone(),
            "decoder": directions,
            "pre_bias": mean,
            "latent_bias": torch.zeros(recipe.latents),
        }
        self.weights = {name: made[name].to(device).requires_grad_() for name in PARTS}
        self.silence = torch.zeros(recipe.latents, dtype=torch.int64, device=device)
        self._silent = self._count = None
        fused = {"fused": True} if self.silence.is_cuda else {}
        self.adam = torch.optim.Adam(self.weights.values(), lr=recipe.rate, **fused)

    def step(self, number: int, x: torch.Tensor) -> None:
        """Learn from a batch; steps count from 1."""
        for group in self.adam.param_groups:
            group["lr"] = self.recipe.rate * _schedule(number, self.recipe)
        if number % EVERY == 1 or self._count is None:
            self._silent = self.silence > self.recipe.silent
            self._count = int(self._silent.sum())
        pre, index, made = self.forward(x)
        error = x - made
        loss = error.square().sum(dim=1).mean() / self.variance
        if self._count:
            loss = loss + AUX * self._aux(pre, error.detach())
        self.adam.zero_grad()
        loss.backward()
        self.adam.step()
        with torch.no_grad():
            decoder = self.weights["decoder"]
            decoder /= decoder.norm(dim=1, keepdim=True)
            self.silence += len(x)
            self.silence[index.reshape(-1)] = 0

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Pre-activations, places of the k largest, and x̂.

        A CPU is faster over the latents that are kept alone, a GPU over all. Pre-activations
        have a gradient only in the second way, which AuxK asks for.
        """
        w = self.weights
        if not (x.is_cuda or self._count):
            value, index, pre = _Kept.apply(
                x - w["pre_bias"], w["encoder"], w["latent_bias"], self.recipe.k
            )
            rows = torch.nn.functional.embedding_bag(
                index, w["decoder"], per_sample_weights=value, mode="sum"
            )
            return pre, index, rows + w["pre_bias"]
        pre = torch.addmm(w["latent_bias"], x - w["pre_bias"], w["encoder"].T)
        value, index = pre.topk(self.recipe.k, dim=1, sorted=False)
        z = torch.zeros_like(pre).scatter(1, index, value)
        return pre, index, torch.addmm(w["pre_bias"], z, w["decoder"])

    def _aux(self, pre: torch.Tensor, error: torch.Tensor) -> torch.Tensor:
        """Squared error of the largest silent latents at what the others left."""
        many = min(MOST, self._count)
        value, index = pre.masked_fill(~self._silent, -torch.inf).topk(many, dim=1, sorted=False)
        z = torch.zeros_like(pre).scatter(1, index, value)
        left = (error - z @ self.weights["decoder"]).square().sum(dim=1).mean()
        return left / self.variance

    @torch.no_grad()
    def explains(self, x: torch.Tensor) -> float:
        """Share of the variance of some states that x̂ explains."""
        w = self.weights
        pre = torch.addmm(w["latent_bias"], x - w["pre_bias"], w["encoder"].T)
        value, index = pre.topk(self.recipe.k, dim=1)
        z = torch.zeros_like(pre).scatter(1, index, value)
        error = x - torch.addmm(w["pre_bias"], z, w["decoder"])
        return float(1 - error.square().sum() / (x - x.mean(dim=0)).square().sum())

    def sae(self) -> SAE:
        """What is learnt so far."""
        host = {name: w.detach().float().cpu().numpy() for name, w in self.weights.items()}
        return SAE(
            host["encoder"], host["decoder"].T, host["pre_bias"], host["latent_bias"], self.recipe.k
        )

    def write(self, path: Path, step: int) -> None:
        """Keep everything that going on needs, by rename."""
        tensors = {name: weight.detach() for name, weight in self.weights.items()}
        for name, weight in self.weights.items():
            moments = self.adam.state[weight]
            tensors |= {f"{name}.{key}": moments[key] for key in ("exp_avg", "exp_avg_sq")}
        tensors["silence"] = self.silence
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as partial:
            save_file(tensors, partial, {"step": str(step), "recipe": self._told})

    @property
    def _told(self) -> str:
        return json.dumps(asdict(self.recipe), sort_keys=True)

    def resume(self, path: Path) -> int:
        """Go on from a file; gives the steps that are done, 0 without it."""
        if not path.is_file():
            return 0
        with safe_open(path, framework="pt", device=self.device) as file:
            told = file.metadata() or {}
            found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if told.get("recipe") != self._told:
            raise StoreError(
                f"a training by this recipe in {path}", "another", "Name another folder."
            )
        step = int(told["step"])
        with torch.no_grad():
            for name, weight in self.weights.items():
                weight.copy_(found[name])
                self.adam.state[weight] = {
                    "step": torch.tensor(
                        float(step), device=self.device if weight.is_cuda else None
                    ),
                    **{key: found[f"{name}.{key}"] for key in ("exp_avg", "exp_avg_sq")},
                }
            self.silence.copy_(found["silence"])
        return step


class _Kept(torch.autograd.Function):
    """The k largest pre-activations, whose gradients touch no other latent."""

    @staticmethod
    def forward(ctx, x, encoder, bias, k: int):
        pre = torch.addmm(bias, x, encoder.T)
        value, index = pre.topk(k, dim=1, sorted=False)
        ctx.save_for_backward(x, encoder, index)
        ctx.mark_non_differentiable(index, pre)
        return value, index, pre

    @staticmethod
    def backward(ctx, of_value, _index, _pre):
        x, encoder, index = ctx.saved_tensors
        flat = index.reshape(-1)
        row = torch.arange(len(x)).repeat_interleave(index.shape[1])
        sparse = torch.sparse_coo_tensor(
            torch.stack([flat, row]),
            of_value.reshape(-1),
            (len(encoder), len(x)),
            check_invariants=False,
        )
        of_bias = torch.zeros(len(encoder)).index_add_(0, flat, of_value.reshape(-1))
        of_x = torch.nn.functional.embedding_bag(
            index, encoder, per_sample_weights=of_value, mode="sum"
        )
        return of_x, torch.sparse.mm(sparse, x), of_bias, None


def _schedule(step: int, recipe: Recipe) -> float:
    """Share of the rate: rises over the warm-up, falls to 0 over the last fifth."""
    left = (recipe.steps - step + 1) / max(1, recipe.steps / 5)
    return min(1.0, step / max(1, recipe.warm_up), left)


@dataclass(frozen=True)
class Quality:
    """How much of states an autoencoder keeps, by item; see ``quality``.

    ``error`` and ``spread`` are sums of squares by item or group (groups,), ``last_error`` and
    ``last_spread`` those of responses' last tokens.
    """

    tokens: int
    error: np.ndarray
    spread: np.ndarray
    last_error: np.ndarray
    last_spread: np.ndarray
    fired: np.ndarray  # how often each latent was kept, (latents,)
    negative: float  # share of kept latents that are below 0
    kept: float  # latents of a token that aren't 0

    def summary(self, draws: int = 2000, seed: int = 0) -> dict[str, object]:
        """Explained variance with intervals, L0, and shares of latents."""
        return {
            "tokens": self.tokens,
            "explained": explained(self.error, self.spread, draws, seed),
            "explained_last": explained(self.last_error, self.last_spread, draws, seed),
            "l0": round(self.kept, 4),
            "never_fired": round(float((self.fired == 0).mean()), 6),
            "negative": round(self.negative, 8),
        }


def explained(
    error: np.ndarray, spread: np.ndarray, draws: int = 2000, seed: int = 0
) -> dict[str, float]:
    """1 − Σ error / Σ spread, with a percentile interval over resampled items."""
    weight = np.random.default_rng(seed).multinomial(
        len(error), np.full(len(error), 1 / len(error)), size=draws
    )
    drawn = 1 - (weight @ error) / (weight @ spread)
    low, high = np.quantile(drawn, (0.025, 0.975))
    value = 1 - error.sum() / spread.sum()
    numbers = {"value": value, "low": low, "high": high}
    return {name: round(float(number), 5) for name, number in numbers.items()}


def quality(
    sae: SAE,
    states: TokenStates,
    group: np.ndarray | None = None,
    device: str = "cpu",
    step: int = 8192,
) -> Quality:
    """How much of held-out states an autoencoder keeps: centred, all tokens and last ones.

    Variance is counted from the mean of these states, of the last tokens from theirs. ``group``
    has an integer for each item, the same for those that are resampled together.
    """
    encoder, decoder = (
        torch.from_numpy(np.ascontiguousarray(a)).to(device) for a in (sae.encoder, sae.decoder.T)
    )
    pre_bias, latent_bias = (
        torch.from_numpy(a).to(device) for a in (sae.pre_bias, sae.latent_bias)
    )
    centre = [_mean(states, last) for last in (False, True)]
    fired = torch.zeros(sae.latents, dtype=torch.int64, device=device)
    rows, negative, nonzero, total = [], 0, 0, 0
    for shard in states.shards():
        for at in range(0, len(shard["states"]), step):
            x = torch.from_numpy(shard["states"][at : at + step]).to(device).float()
            value, index = ((x - pre_bias) @ encoder.T + latent_bias).topk(sae.k, dim=1)
            z = torch.zeros(len(x), sae.latents, device=device).scatter(1, index, value)
            error = (x - z @ decoder - pre_bias).square().sum(dim=1)
            fired += torch.bincount(index.reshape(-1), minlength=sae.latents)
            negative += int((value < 0).sum())
            nonzero += int((value != 0).sum())
            total += len(x)
            spread = [
                (x - torch.from_numpy(mean).to(device)).square().sum(dim=1).cpu().numpy()
                for mean in centre
            ]
            rows.append(
                (
                    shard["item"][at : at + step],
                    shard["last"][at : at + step] >= 0,
                    error.double().cpu().numpy(),
                    *spread,
                )
            )
    item, last, error, spread, last_spread = map(np.concatenate, zip(*rows, strict=True))
    item = item if group is None else group[item]
    by_item = by_prompt(np.column_stack([error, spread]), item)[0]
    ends = by_prompt(np.column_stack([error, last_spread])[last], item[last])[0]
    return Quality(
        total,
        *by_item.T,
        *ends.T,
        fired.cpu().numpy(),
        negative / (total * sae.k),
        nonzero / total,
    )


def _mean(states: TokenStates, last: bool) -> np.ndarray:
    total, count = np.zeros(states.features), 0
    for shard in states.shards():
        rows = shard["states"][shard["last"] >= 0] if last else shard["states"]
        total += rows.sum(axis=0, dtype=np.float64)
        count += len(rows)
    return (total / max(count, 1)).astype(np.float32)
