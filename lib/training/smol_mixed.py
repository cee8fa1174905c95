"""Make ``smol-mixed``: one preference head for both parts of hh-rlhf, on the embedded backbone.

``python -m lib train smol-mixed --source FOLDER`` needs the folder that holds ``hh-rlhf`` in
its published layout. The head is linear Bradley–Terry on the frozen last-token state
(``lib.training.cards.fit_preference``), trained on the comparisons of helpful-base and
harmless-base together: what a gate over separate heads, as ``smol-armo`` has, should beat.

Prompts are split as for ``smol-armo`` (``lib.training.split``), so the two models hold out
the same ones. The penalty is chosen on the choosing prompts of both parts, and the held-out
prompts are only scored, once: pooled, and each part by itself. An opening that occurs in
both parts is one cluster and one fold.

The head is in units of one standard deviation over the training responses, and it is the
model's final score. The same files give the same weights to 1e-4 on one kind of device.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from lib.data import load_items
from lib.models import backbone as backbones
from lib.models.base import Head
from lib.models.frozen import tensors
from lib.training import bradley_terry, cards
from lib.training.parts import RULE, Part, bare_backbone, load_part, sides

NAME = "smol-mixed"
FAMILY = "hh-rlhf"
SETS = (f"{FAMILY}/helpful-base", f"{FAMILY}/harmless-base")
# It claims overall preference: no concept that a comparison could test.
HEAD = Head(
    "preference", "this project: choices of hh-rlhf's helpful-base and harmless-base, mixed"
)
IS_NOT = (
    "Not a measure of one quality: it learned from choices made by helpfulness on some prompts "
    "and by harmlessness on others without being told which, so where the two pull apart it "
    "follows a compromise."
)


def train(source: str | Path, out: str | Path | None = None, *, model=None, limit: int = 0) -> str:
    """Train the head and write weights and card; returns a summary.

    Arguments as in ``lib.training.smol_armo.train``; the default backbone is on a GPU when
    there is one.

    Raises
    ------
    ParameterError
        For a limit without ``out``.
    DataError
        When the source lacks a part, or a side of the split has no comparison.
    """
    out = cards.folder(NAME, out, limit)
    model = model or bare_backbone()
    folder = Path(source) / FAMILY
    parts = {name: load_part(model, load_items(name, source=folder, limit=limit)) for name in SETS}
    weight, bias, found = fit(parts)
    card = {
        "name": NAME,
        "backbone": backbones.EMBEDDED,
        "device": next(model.backbone.parameters()).device.type,
        "recipe": "one Bradley–Terry head on two sets mixed: see lib/training/smol_mixed.py",
        "command": cards.command(NAME, limit),
        "unit": cards.UNIT,
        "heads": [
            {
                "name": HEAD.name,
                "source": HEAD.source,
                "concept": HEAD.concept,
                "kind": "preference",
                "trained_on": " and ".join(SETS),
                **found,
                "is_not": IS_NOT,
            }
        ],
        "split": {"rule": RULE, **sides(list(parts.values()))},
    }
    cards.write(out, tensors(weight, bias, None, None), card)
    told = [f"pooled {cards.shown(found['held_out'])}"]
    told += [f"{name} {cards.shown(held)}" for name, held in found["held_out_by_set"].items()]
    return (
        f"{HEAD.name}: accuracy cross-validated {cards.shown(found['cross_validated'])}, "
        f"held out {', '.join(told)}"
    )


def fit(parts: Mapping[str, Part]) -> tuple[np.ndarray, np.ndarray, dict]:
    """Weight (1, features) and bias (1,) of the head, and what the card says of it.

    ``parts`` are by name of the dataset. Errors as of ``lib.training.cards.fit_preference``.
    """
    difference = np.concatenate([part.difference for part in parts.values()])
    side = np.concatenate([part.pairs(part.side) for part in parts.values()])
    opening = np.concatenate([part.pairs(part.opening) for part in parts.values()])
    which = np.repeat(list(parts), [len(part.better) for part in parts.values()])
    group = np.unique(opening, return_inverse=True)[1]
    weight, found = cards.fit_preference(difference, side, group)
    correct, out = bradley_terry.accuracy(weight, difference), side == "held_out"
    found |= {"rows_by_set": {}, "held_out_by_set": {}}
    for name in parts:
        rows = out & (which == name)
        found["rows_by_set"][name] = int(((side == "train") & (which == name)).sum())
        found["held_out_by_set"][name] = cards.accuracy(correct[rows], group[rows])
    states = [part.on("train") for part in parts.values()]
    return *cards.standardise(weight[None], np.zeros(1), np.concatenate(states)), found
