"""ArmoRM's two stages on any backbone, from any rated datasets and any preference set.

Stage 1 fits one ridge head for each rated attribute on the rows that have it
(``lib.training.ridge``); stage 2 takes one attribute out of the others and trains a gate on
preferences (``lib.training.gate``). Prompts are split once for both stages
(``lib.training.split``); hold-out prompts are only scored.

As published, with two faults mended: the softmax runs over heads (``published_axis=True``
puts it back over chosen and rejected, where the gate can't learn), and the debiasing matrix
acts in training too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lib.atomic import replacing
from lib.data import load_items
from lib.errors import DataError, unknown
from lib.models.armorm import TRAINING, save_armorm
from lib.models.gating import Gate
from lib.stats.proportions import by_cluster, wilson
from lib.training import gate as gates
from lib.training import ridge
from lib.training.parts import Part, comparisons, load_part, sides


@dataclass(frozen=True)
class Trained:
    """What the two stages give: W (heads, features), M (heads, heads), the gate, and a card.

    The card says rows, penalties, held-out R², λ, held-out accuracy and the prompts of each
    side.
    """

    names: list[str]
    weight: np.ndarray
    transform: np.ndarray
    gate: Gate
    card: dict


def train(
    model,
    ratings: Mapping[str, str | None],
    preferences: Mapping[str, str | None],
    *,
    remove: str | None = None,
    limit: int = 0,
    seed: int = 0,
    published_axis: bool = False,
    **options,
) -> Trained:
    """Train heads, debiasing matrix and gate on the model's frozen states.

    Parameters
    ----------
    model
        A ``RewardModel`` whose backbone and prompt format are used; its heads are not.
    ratings, preferences
        Dataset names with the source folder of each, or ``None`` for the hub.
    remove
        The attribute taken out of the others; without it M is the identity.
    limit, seed
        Items of each dataset, and the seed of their sample and of the gate.
    published_axis, options
        For ``lib.training.gate.train_gate``.

    Raises
    ------
    DataError
        Without rated responses or comparisons, for an attribute that has too few ratings, or
        for one to remove that no dataset rates.
    """
    rated = [_part(model, name, source, limit, seed) for name, source in ratings.items()]
    names = sorted({name for part in rated for name in part.rated})
    if not names:
        raise DataError(
            "ratings in " + ", ".join(ratings), "none", "Name a dataset whose responses are rated."
        )
    if remove is not None and remove not in names:
        raise unknown("rated attribute", remove, names, DataError)
    hidden = np.concatenate([part.hidden for part in rated])
    side = np.concatenate([part.side[part.owner] for part in rated])
    labels = np.concatenate([part.matrix(names) for part in rated])
    train, choose = side == "train", side == "choose"
    for name, rating in zip(names, labels.T, strict=True):
        if not ridge.enough(rating, train, choose):
            raise DataError(
                f"two ratings or more of {name} to train on, which differ, and two to choose a "
                "penalty on",
                f"{np.isfinite(rating[train]).sum()} and {np.isfinite(rating[choose]).sum()}, of "
                f"{len(np.unique(rating[np.isfinite(rating)]))} different values",
                "Take more items, or a dataset without this attribute.",
            )
    heads = ridge.fit(hidden, labels, train, choose)
    reference = hidden[side == "train"] @ heads.weight.T
    if remove is None:
        debiasing = gates.Debiasing(np.eye(len(names)), np.zeros(len(names)))
    else:
        debiasing = gates.debias(reference, names.index(remove))
    pairs = [_part(model, name, source, limit, seed) for name, source in preferences.items()]
    if not sum(len(part.better) for part in pairs):
        raise DataError("comparisons to train the gate on", "none", "Name a preference dataset.")
    states, both, pair_side, group = comparisons(pairs)
    scores = both @ heads.weight.T
    fit = pair_side == "train"
    network, losses = gates.train_gate(
        states[fit],
        scores[fit, 0],
        scores[fit, 1],
        debiasing.matrix,
        seed=seed,
        published_axis=published_axis,
        **options,
    )
    out = pair_side == "held_out"
    card = {
        "ratings": list(ratings),
        "preferences": list(preferences),
        "published_axis": published_axis,
        "heads": [
            {
                "name": name,
                "rows": int(heads.rows[k]),
                "penalty": float(heads.alpha[k]),
                "r2_choose": round(float(heads.r2[k]), 4),
                "r2_held_out": _r2(hidden, labels[:, k], side == "held_out", heads, k),
                "lambda": None if np.isnan(debiasing.lambdas[k]) else float(debiasing.lambdas[k]),
            }
            for k, name in enumerate(names)
        ],
        "gate_loss": [round(float(losses[0]), 4), round(float(losses[-1]), 4)],
        "held_out": _accuracy(network, debiasing.matrix, states[out], scores[out], group[out]),
        "split": sides([*rated, *pairs]),
    }
    return Trained(names, heads.weight, debiasing.matrix, network, card)


def save(trained: Trained, model, folder: str | Path) -> Path:
    """Write a checkpoint in ArmoRM's layout, which ``load_model`` reads, with its card.

    The heads' intercepts are left out, as in the released layout: they move every response
    alike.
    """
    folder = save_armorm(
        folder,
        backbone=model.backbone,
        tokenizer=model.format.tokenizer,
        weight=trained.weight.astype(np.float32),
        transform=trained.transform.astype(np.float32),
        gate=trained.gate,
        names=trained.names,
    )
    with replacing(folder / TRAINING) as partial:
        partial.write_text(json.dumps(trained.card, indent=1, ensure_ascii=False) + "\n")
    return folder


def _part(model, name: str, source: str | None, limit: int, seed: int) -> Part:
    return load_part(model, load_items(name, source=source, limit=limit, seed=seed))


def _r2(hidden, label, out, heads, k) -> float | None:
    rows = out & np.isfinite(label)
    if rows.sum() < 2 or np.ptp(label[rows]) == 0:
        return None
    predicted = hidden[rows] @ heads.weight[k] + heads.bias[k]
    return round(float(1 - ((label[rows] - predicted) ** 2).mean() / label[rows].var()), 4)


def _accuracy(network: Gate, matrix, states, scores, group) -> dict[str, float]:
    if not len(states):
        return {"pairs": 0}
    correct = gates.correct(network(states) @ matrix.T, scores)
    found = wilson(*by_cluster(correct, np.unique(group, return_inverse=True)[1]))
    numbers = {"accuracy": found.estimate, "low": found.low, "high": found.high}
    return {key: round(float(value), 4) for key, value in numbers.items()} | {"pairs": len(states)}
