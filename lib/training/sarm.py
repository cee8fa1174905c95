"""A reward made of sparse features, on any frozen backbone: SARM's recipe, from any comparisons.

The backbone is cut at a layer (``lib.models.cut``); ``lib.training.sae`` learns an autoencoder
from the states of all tokens of the texts that aren't held out; heads are linear
Bradley–Terry on the last token's state, as four readings of it::

    z        what the k largest latents are                     SARM with its flag on
    pre      all pre-activations                                SARM with its flag off
    dense    the state x itself
    rebuilt  x̂, what the autoencoder makes of it

and, at the backbone's end, on its last state (``last``). Penalty and scaling of each are chosen
on the choosing prompts, and the held-out ones are only scored. ``tune`` goes on as published,
autoencoder and head together, by Bradley–Terry plus λ times the reconstruction of all tokens.

``python -m lib train sarm`` writes a checkpoint of the released layout.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch

from lib import paths
from lib.atomic import replacing
from lib.data import load_items
from lib.data.items import Items
from lib.errors import DataError
from lib.models.armorm import TRAINING
from lib.models.cut import cut
from lib.models.frozen import FrozenHeads
from lib.models.prompt import RenderError
from lib.models.sae import SAE, Reward
from lib.models.sarm import save_sarm
from lib.stats.proportions import clustered
from lib.training import cards, sae, split, token_states
from lib.training.parts import RULE, Part, load_part, sides
from lib.training.sae import Recipe
from lib.training.token_states import TokenStates

CS = (1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
SCALINGS = ("each", "all")  # features are scaled to variance 1 each, or all by one number
READINGS = ("z", "pre", "dense", "rebuilt")
REC = 1.0  # λ
STEPS, FLAT, SMALLEST = 60, 1e-6, 1e-8  # of Newton: at most, slope at the end, share of a step
PART = 2048  # responses that are read at a time


def bare(model) -> FrozenHeads:
    """The backbone and format of a model, without its heads."""
    width = model.backbone.config.get_text_config().hidden_size
    return FrozenHeads(
        name=model.name,
        heads=[],
        backbone=model.backbone,
        format=model.format,
        weight=np.zeros((0, width), np.float32),
        bias=np.zeros(0, np.float32),
        card={},
    )


@dataclass(frozen=True)
class Data:
    """What is learnt from: comparisons of several sets at two depths, and token states.

    ``last`` and ``at`` have a ``Part`` a set, at the backbone's end and at the layer; ``seen``
    and ``held`` are the token states of items that aren't held out, and that are, with an
    integer for the opening of each held-out item in ``group``.
    """

    names: list[str]
    last: list[Part]
    at: list[Part]
    seen: TokenStates
    held: TokenStates
    group: np.ndarray
    layer: int

    @property
    def side(self) -> np.ndarray:
        """Of each comparison."""
        return np.concatenate([part.pairs(part.side) for part in self.at])

    @property
    def opening(self) -> np.ndarray:
        """An integer for the opening of each comparison, the same in all sets."""
        found = np.concatenate([part.pairs(part.opening) for part in self.at])
        return np.unique(found, return_inverse=True)[1]

    @property
    def which(self) -> np.ndarray:
        """The set of each comparison."""
        return np.repeat(self.names, [len(part.better) for part in self.at])

    def states(self, where: str) -> np.ndarray:
        """Of all responses, ``"at"`` or ``"last"``, float32."""
        return np.concatenate([part.hidden for part in getattr(self, where)]).astype(np.float32)

    @property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows of ``states``: preferred and other response of each comparison."""
        first = np.cumsum([0, *(len(part.hidden) for part in self.at)])[:-1]
        rows = [
            (part.better + start, part.worse + start)
            for part, start in zip(self.at, first, strict=True)
        ]
        return tuple(map(np.concatenate, zip(*rows, strict=True)))

    @property
    def response_side(self) -> np.ndarray:
        """Of each response."""
        return np.concatenate([part.side[part.owner] for part in self.at])


def prepare(model, sets: Mapping[str, Items], layer: int) -> Data:
    """States at both depths and of all tokens; cuts the model's backbone at the layer.

    Raises
    ------
    DataError
        Without comparisons on every side of the split.
    ModelError
        For a layer that the backbone doesn't have.
    """
    known = bare(model)
    last = [load_part(known, items) for items in sets.values()]
    cut(known.backbone, layer)
    at = [load_part(known, items) for items in sets.values()]
    sides_held = np.concatenate([part.pairs(part.side) for part in at])
    if set(sides_held) != set(split.SIDES):
        raise DataError(
            "comparisons on every side of the split",
            ", ".join(sorted(set(sides_held))),
            "Add some.",
        )
    encoded, held, opening, prints = [], [], [], []
    for items in sets.values():
        found = known.format.encode_many(items.prompts["prompt"], items.answers)
        prompts = items.prompts["prompt"]
        encoded += found
        held += [*(split.side(prompts) == "held_out")]
        opening += [split.opening(prompt) for prompt in prompts]
        prints.append(items.fingerprint)
    fits = [
        not isinstance(item, RenderError) and max(map(len, item.sequences)) <= _window(known)
        for item in encoded
    ]
    parts = []
    for side in (False, True):
        chosen = [
            i for i, (fit, out) in enumerate(zip(fits, held, strict=True)) if fit and out == side
        ]
        told = {**known.fingerprint, "items": prints, "side": side, "layer": layer}
        made = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]
        folder = paths.cache() / "token-states" / made
        parts.append(token_states.write(known.backbone, [encoded[i] for i in chosen], folder, made))
    group = np.unique([opening[i] for i in chosen], return_inverse=True)[1]
    return Data([*sets], last, at, *parts, group, layer)


def _window(model) -> float:
    return getattr(model.backbone.config, "max_position_embeddings", None) or float("inf")


@dataclass(frozen=True)
class Head:
    """A Bradley–Terry head on one reading, and what it does on the held-out comparisons.

    ``weight`` (columns,) is in units of one standard deviation of scores over the training
    responses; ``correct`` is 1, ½ or 0 for each held-out comparison; ``card`` has its penalty,
    losses and accuracies.
    """

    weight: np.ndarray
    correct: np.ndarray
    card: dict = field(repr=False)


def fit_head(values: np.ndarray, data: Data, device: str = "cpu") -> Head:
    """Choose scaling and penalty on the choosing prompts, and score the held-out ones.

    ``values`` has a row for each response, (responses, columns).
    """
    better, worse = data.pairs
    difference = values[better] - values[worse]
    train, choose = (data.side == name for name in split.SIDES[:2])
    tried = []
    for scaling in SCALINGS:
        weights = bradley_terry(difference[train], CS, scaling, device)
        losses = [float(np.logaddexp(0, -difference[choose] @ w).mean()) for w in weights]
        best = int(np.argmin(losses))
        tried.append((losses[best], scaling, CS[best], weights[best]))
    loss, scaling, c, weight = min(tried, key=lambda each: each[0])
    return scored(values, weight, data, {"scaling": scaling, "penalty": c, "loss_choose": loss})


def scored(values: np.ndarray, weight: np.ndarray, data: Data, card: Mapping) -> Head:
    """A head with its card: what it does on the held-out comparisons, of all sets and each."""
    spread = (values[data.response_side == "train"] @ weight).std() or 1.0
    weight = weight / spread
    better, worse = data.pairs
    out = data.side == "held_out"
    margin = (values[better[out]] - values[worse[out]]) @ weight
    correct = (margin > 0) + (margin == 0) / 2
    group, which = data.opening[out], data.which[out]
    by_set = {
        name: cards.accuracy(correct[which == name], group[which == name]) for name in data.names
    }
    held = {"held_out": cards.accuracy(correct, group), "held_out_by_set": by_set}
    rows = int((data.side == "train").sum())
    return Head(weight, correct, {**card, "rows": rows, **held})


def bradley_terry(
    difference: np.ndarray, cs: Sequence[float], scaling: str, device: str = "cpu"
) -> list[np.ndarray]:
    """Weights for each penalty, (columns,): as ``lib.training.bradley_terry.fit``, on a device.

    Minimises Σ log(1 + exp(−w·d/s)) + |w|²/(2c), with s the root mean square of each column or
    of all; a penalty begins where the one before it ended. A column that is 0 throughout has
    weight 0. A CPU takes many small steps (L-BFGS), a GPU, which would wait between them, few large
    ones (Newton).
    """
    d = torch.from_numpy(np.ascontiguousarray(difference)).to(device, torch.float64)
    square = d.square().mean(dim=0)
    scale = square.sqrt() if scaling == "each" else square.mean().sqrt().expand(len(square))
    scale = torch.where(scale > 0, scale, 1.0)
    d = d / scale
    weight = torch.zeros(d.shape[1], dtype=torch.float64, device=device)
    found = {}
    for c in sorted(cs):
        weight = (newton if d.is_cuda else lbfgs)(d, weight, c)
        found[c] = (weight / scale).cpu().numpy()
    return [found[c] for c in cs]


def newton(d: torch.Tensor, start: torch.Tensor, c: float) -> torch.Tensor:
    """The weights of ``bradley_terry`` for one penalty, by Newton's steps from a start.

    Where there are more columns than rows, by margins f = d·w, as w = c dᵀ σ(−f) at the minimum
    (Rasmussen and Williams 2006, algorithm 3.1).
    """

    def loss(weight: torch.Tensor) -> torch.Tensor:
        margin = torch.nn.functional.softplus(-(d @ weight)).sum()
        return margin + weight.square().sum() / (2 * c)

    weight, wide = start, d.shape[1] > d.shape[0]
    products = c * (d @ d.T) if wide else None
    for _ in range(STEPS):
        wrong = torch.sigmoid(-(d @ weight))
        slope = weight / c - d.T @ wrong
        if slope.abs().max() < FLAT:
            break
        curve = (wrong * (1 - wrong)).clamp(min=1e-12)
        if wide:
            half = curve.sqrt()
            inner = half[:, None] * products * half
            inner.diagonal().add_(1)
            right = curve * (d @ weight) + wrong
            solved = torch.cholesky_solve(
                (half * (products @ right))[:, None], torch.linalg.cholesky(inner)
            )[:, 0]
            step = c * (d.T @ (right - half * solved)) - weight
        else:
            inner = d.T @ (curve[:, None] * d)
            inner.diagonal().add_(1 / c)
            step = -torch.cholesky_solve(slope[:, None], torch.linalg.cholesky(inner))[:, 0]
        before, share = loss(weight), 1.0
        while share > SMALLEST and loss(weight + share * step) > before:
            share /= 2
        if share <= SMALLEST:
            break
        weight = weight + share * step
    return weight


def lbfgs(d: torch.Tensor, start: torch.Tensor, c: float) -> torch.Tensor:
    """The same by L-BFGS."""
    weight = start.clone().requires_grad_()
    solver = torch.optim.LBFGS(
        [weight],
        max_iter=200,
        history_size=20,
        tolerance_grad=1e-6,
        tolerance_change=1e-10,
        line_search_fn="strong_wolfe",
    )

    def loss():
        solver.zero_grad()
        value = torch.nn.functional.softplus(-(d @ weight)).sum() + weight.square().sum() / (2 * c)
        value.backward()
        return value

    solver.step(loss)
    return weight.detach()


def readings(made: SAE, x: np.ndarray, device: str = "cpu") -> dict[str, np.ndarray]:
    """What heads read of last-token states x, by ``READINGS``; (responses, columns) each."""
    encoder, decoder, pre_bias, latent_bias = (
        torch.from_numpy(np.ascontiguousarray(each)).to(device)
        for each in (made.encoder, made.decoder.T, made.pre_bias, made.latent_bias)
    )
    found: dict[str, list[np.ndarray]] = {"z": [], "pre": [], "rebuilt": []}
    for part in torch.from_numpy(x).split(PART):
        pre = torch.addmm(latent_bias, part.to(device) - pre_bias, encoder.T)
        value, index = pre.topk(made.k, dim=1)
        z = torch.zeros_like(pre).scatter(1, index, value)
        for name, each in (("z", z), ("pre", pre), ("rebuilt", torch.addmm(pre_bias, z, decoder))):
            found[name].append(each.cpu().numpy())
    return {name: np.concatenate(each) for name, each in found.items()} | {"dense": x}


def tune(
    made: SAE,
    weight: np.ndarray,
    data: Data,
    *,
    seed: int,
    rec: float = REC,
    steps: int = 300,
    batch: int = 512,
    tokens: int = 4096,
    rate: float = 5e-5,
    device: str = "cpu",
) -> tuple[SAE, np.ndarray, dict]:
    """Autoencoder and head together: Bradley–Terry on w·z plus λ · mse(x̂, x)/mean(x²).

    Stops where the loss on the choosing comparisons is least, which may be at the start.
    """
    host = {
        "encoder": made.encoder,
        "decoder": np.ascontiguousarray(made.decoder.T),
        "pre_bias": made.pre_bias,
        "latent_bias": made.latent_bias,
        "weight": weight.astype(np.float32),
    }
    w = {name: torch.from_numpy(a.copy()).to(device).requires_grad_() for name, a in host.items()}
    adam = torch.optim.Adam(w.values(), lr=rate)
    x = torch.from_numpy(data.states("at")).to(device)
    pairs = [torch.from_numpy(rows).to(device) for rows in data.pairs]
    train, choose = (torch.from_numpy(np.flatnonzero(data.side == s)) for s in split.SIDES[:2])

    def sparse(states):
        value, index = ((states - w["pre_bias"]) @ w["encoder"].T + w["latent_bias"]).topk(made.k)
        return torch.zeros(len(states), made.latents, device=device).scatter(1, index, value)

    def preferred(rows):
        margin = (sparse(x[pairs[0][rows]]) - sparse(x[pairs[1][rows]])) @ w["weight"]
        return torch.nn.functional.softplus(-margin).mean()

    def kept():
        with torch.no_grad():
            return float(preferred(choose.to(device))), {
                k: v.detach().clone() for k, v in w.items()
            }

    best, at = kept(), 0
    generator = torch.Generator().manual_seed(seed)
    recipe = Recipe(made.latents, made.k, seed, steps=steps, batch=tokens)
    for step, states in enumerate(sae.batches(data.seen, recipe, device), 1):
        rows = train[torch.randperm(len(train), generator=generator)[:batch]].to(device)
        rebuilt = sparse(states) @ w["decoder"] + w["pre_bias"]
        error = ((rebuilt - states).square().mean(dim=1) / states.square().mean(dim=1)).mean()
        adam.zero_grad()
        (preferred(rows) + rec * error).backward()
        adam.step()
        if step % 20 == 0 and (found := kept())[0] < best[0]:
            best, at = found, step
    a = {name: tensor.float().cpu().numpy() for name, tensor in best[1].items()}
    tuned = SAE(a["encoder"], a["decoder"].T, a["pre_bias"], a["latent_bias"], made.k)
    return tuned, a["weight"], {"rec": rec, "steps": at, "loss_choose": best[0]}


def recovered(rebuilt: np.ndarray, dense: Head, data: Data) -> dict:
    """What a dense head says of x̂ in place of x, on held-out responses and comparisons."""
    out = data.response_side == "held_out"
    scores = data.states("at") @ dense.weight, rebuilt @ dense.weight
    better, worse = (rows[data.side == "held_out"] for rows in data.pairs)
    margin = scores[1][better] - scores[1][worse]
    correct = (margin > 0) + (margin == 0) / 2
    return {
        "correlation": round(float(np.corrcoef(scores[0][out], scores[1][out])[0, 1]), 4),
        "less_dense": less(correct, dense.correct, data),
    }


def less(correct: np.ndarray, other: np.ndarray, data: Data) -> dict[str, float]:
    """Accuracy less another's on the same held-out comparisons, paired, by opening."""
    found = clustered(correct - other, data.opening[data.side == "held_out"])
    return cards.rounded(found.estimate, found.low, found.high, len(correct))


@dataclass(frozen=True)
class Trained:
    """An autoencoder with its heads by reading, and what is known of them."""

    sae: SAE
    heads: dict[str, Head]
    quality: sae.Quality
    card: dict


def train(
    data: Data,
    recipe: Recipe,
    *,
    keep: Path | None = None,
    device: str = "cpu",
    dense: Head | None = None,
    half: bool = False,
    told: Callable[[str], None] = lambda line: None,
) -> Trained:
    """Learn one autoencoder and its heads.

    ``dense`` is a head on x that is there already; with ``half`` the autoencoder is rounded to
    half precision before anything is read of it; ``told`` is given a line now and then on how
    much is explained.
    """
    on_step = sae.watched(data.seen, data.held, recipe, device, told)
    made = sae.train(data.seen, recipe, keep=keep, device=device, on_step=on_step)
    if half:
        made = halved(made)
    return read(made, data, recipe, device, dense)


def halved(made: SAE) -> SAE:
    """Every weight as half precision has it."""
    names = ("encoder", "decoder", "pre_bias", "latent_bias")
    return replace(
        made,
        **{name: getattr(made, name).astype(np.float16).astype(np.float32) for name in names},
    )


def read(
    made: SAE, data: Data, recipe: Recipe, device: str = "cpu", dense: Head | None = None
) -> Trained:
    """Heads on an autoencoder that is there, and how good both are; as for ``train``."""
    found = sae.quality(made, data.held, data.group, device)
    read = readings(made, data.states("at"), device)
    heads = {
        name: dense if name == "dense" and dense else fit_head(read[name], data, device)
        for name in READINGS
    }
    card = {
        "layer": data.layer,
        "latents": made.latents,
        "k": made.k,
        "seed": recipe.seed,
        "training": {
            name: getattr(recipe, name) for name in ("steps", "batch", "rate", "warm_up", "silent")
        },
        "tokens": len(data.seen),
        "quality": found.summary(),
        "heads": {name: head.card for name, head in heads.items()},
        "less_dense": {
            name: less(heads[name].correct, heads["dense"].correct, data)
            for name in READINGS
            if name != "dense"
        },
        "dense_on_rebuilt": recovered(read["rebuilt"], heads["dense"], data),
    }
    return Trained(made, heads, found, card)


def last_head(data: Data, device: str = "cpu") -> Head:
    """The dense head on the backbone's last state."""
    return fit_head(data.states("last"), data, device)


def load_sets(names: Mapping[str, str | None], limit: int, seed: int = 0) -> dict[str, Items]:
    """Datasets by name, with the source folder of each, or ``None`` for the hub."""
    return {
        name: load_items(name, source=source, limit=limit, seed=seed)
        for name, source in names.items()
    }


def split_card(data: Data) -> dict:
    """The prompts of each side, for a card."""
    return {"rule": RULE, **sides(data.at)}


def make(
    model,
    sets: Mapping[str, Items],
    folder: str | Path,
    recipe: Recipe,
    *,
    layer: int = 0,
    topk: bool = True,
    device: str = "cpu",
    told: Callable[[str], None] = lambda line: None,
) -> Trained:
    """Train an autoencoder and a head, and write a checkpoint of the released layout.

    Parameters
    ----------
    model
        Whose backbone and format are used; the layers above are gone after.
    sets
        What it learns from, by name.
    folder
        Of the checkpoint, with a card beside it (``training.json``). A training that was killed
        goes on from what lies there.
    layer
        That the autoencoder reads; half of them by default, as published.
    topk
        Does the reward read the k largest latents alone?
    told
        Is given a line now and then, on how much the autoencoder explains.

    Raises
    ------
    ModelError
        For a layer that the backbone doesn't have.
    DataError
        Without comparisons on every side of the split.
    """
    folder = Path(folder)
    count = model.backbone.config.get_text_config().num_hidden_layers
    data = prepare(model, sets, layer or max(1, count // 2))
    keep = folder / "autoencoder.partial.safetensors"
    trained = train(data, recipe, keep=keep, device=device, told=told)
    head = trained.heads["z" if topk else "pre"]
    save_sarm(
        folder,
        backbone=model.backbone,
        tokenizer=model.format.tokenizer,
        reward=Reward(trained.sae, head.weight.astype(np.float32), topk),
    )
    card = {"sets": list(sets), "topk": topk, **trained.card, "split": split_card(data)}
    with replacing(folder / TRAINING) as partial:
        partial.write_text(json.dumps(card, indent=1, ensure_ascii=False) + "\n")
    keep.unlink(missing_ok=True)
    return trained
