"""Make ``smol-armo``: heads on the frozen embedded backbone, from real preference files.

``python -m lib train smol-armo --source FOLDER`` needs the folder that holds ``hh-rlhf``.
The weights and a card (data, split, cross-validated and held-out accuracy, what each head
is *not*) are written to the package. The same files give the same weights to 1e-4.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from lib import paths
from lib.data import Items, load_items
from lib.extraction import align, extract
from lib.models import backbone as backbones
from lib.models.base import Head
from lib.models.frozen import CARD, WEIGHTS, FrozenHeads
from lib.models.prompt import PromptFormat
from lib.stats.proportions import by_cluster, wilson
from lib.training import bradley_terry, split

NAME = "smol-armo"


@dataclass(frozen=True)
class Recipe:
    """How one head is trained.

    Attributes
    ----------
    head
        Name, source of the name, and concept.
    dataset
        What it is trained on.
    is_not
        One sentence for the card.
    """

    head: Head
    dataset: str
    is_not: str


RECIPES = (
    Recipe(
        Head("hh-helpful", "this project, after hh-rlhf's helpful-base", "helpfulness"),
        "hh-rlhf/helpful-base",
        "It is not a judge of correctness: it learned which of two dialogues crowd workers "
        "found more helpful, mostly from tone, length and refusal.",
    ),
    Recipe(
        Head("hh-harmless", "this project, after hh-rlhf's harmless-base", "safety"),
        "hh-rlhf/harmless-base",
        "It is not a detector of harm: it learned which of two replies to provocative "
        "prompts crowd workers found less harmful, mostly from evasion and refusal.",
    ),
)


def bare_backbone() -> FrozenHeads:
    """The embedded backbone without heads, for extracting states to train on."""
    backbone, tokenizer = backbones.load_embedded()
    return FrozenHeads(
        name=backbones.EMBEDDED,
        heads=[],
        backbone=backbone,
        format=PromptFormat(tokenizer, backbones.EMBEDDED, backbones.END_OF_TURN),
        weight=np.zeros((0, backbone.config.hidden_size), np.float32),
        bias=np.zeros(0, np.float32),
        trained_on=frozenset(),
        card={},
    )


def train(source: str | Path, out: str | Path | None = None) -> str:
    """Train all heads and write weights and card; returns a summary.

    Parameters
    ----------
    source
        Folder that holds ``hh-rlhf/…`` in its published layout.
    out
        Folder for the two files; the package's own by default.
    """
    out = Path(out) if out else paths.EMBEDDED
    model = bare_backbone()
    weights, biases, entries = [], [], []
    prompts: dict[str, set[str]] = {"train": set(), "held_out": set()}
    for recipe in RECIPES:
        items = load_items(recipe.dataset, source=Path(source) / recipe.dataset.split("/")[0])
        run = extract(model, items, progress=None)
        weight, bias, scores, sides = _fit(items, run)
        weights.append(weight)
        biases.append(bias)
        entries.append(_entry(recipe, items, scores))
        for side, hashes in sides.items():
            prompts[side] |= set(hashes)
    leaked = prompts["train"] & prompts["held_out"]
    if leaked:
        raise AssertionError(f"{len(leaked)} prompts on both sides of the split")
    card = {
        "name": NAME,
        "backbone": backbones.EMBEDDED,
        "recipe": f"linear Bradley–Terry on the frozen last-token state, C = {bradley_terry.C}",
        "command": f"python -m lib train {NAME} --source FOLDER",
        "heads": entries,
        "split": {
            "rule": f"by first user turn: a digest below {split.HELD_OUT_SHARE} is held out",
            **{side: sorted(hashes) for side, hashes in prompts.items()},
        },
    }
    _write(out, np.asarray(weights), np.asarray(biases), card)
    return "\n".join(
        f"{entry['name']}: cross-validated {_shown(entry['cross_validated'])}, "
        f"held out {_shown(entry['held_out'])}"
        for entry in entries
    )


def _fit(items: Items, run):
    """Weights and bias in units of one standard deviation of the training responses' score."""
    aligned = align(run)
    hidden = run["hidden"].values.astype(float)
    difference = hidden[aligned.better] - hidden[aligned.worse]
    group = split.groups(items)
    out = split.held_out(items.prompts["prompt"])
    owner = run["item_of_response"].values
    test = out[owner[aligned.better]]
    weight = bradley_terry.fit(difference[~test])
    train_scores = hidden[~out[owner]] @ weight
    weight, bias = weight / train_scores.std(), -train_scores.mean() / train_scores.std()
    scores = {
        "cross_validated": _interval(
            bradley_terry.cross_validate(difference[~test], group[~test]), group[~test]
        ),
        "held_out": _interval(bradley_terry.accuracy(weight, difference[test]), group[test]),
    }
    hashes = items.prompts["prompt_hash"].to_numpy()
    return weight, bias, scores, {"train": hashes[~out], "held_out": hashes[out]}


def _interval(correct: np.ndarray, group: np.ndarray) -> dict[str, float]:
    _, group = np.unique(group, return_inverse=True)
    found = wilson(*by_cluster(correct, group))
    return {
        "accuracy": round(float(found.estimate), 4),
        "low": round(float(found.low), 4),
        "high": round(float(found.high), 4),
        "pairs": len(correct),
    }


def _entry(recipe: Recipe, items: Items, scores: Mapping) -> dict:
    return {
        "name": recipe.head.name,
        "source": recipe.head.source,
        "concept": recipe.head.concept,
        "trained_on": recipe.dataset,
        "items": items.fingerprint,
        **scores,
        "is_not": recipe.is_not,
    }


def _shown(score: Mapping[str, float]) -> str:
    return f"{score['accuracy']:.3f} [{score['low']:.3f}, {score['high']:.3f}]"


def _write(out: Path, weight: np.ndarray, bias: np.ndarray, card: dict) -> None:
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(card, indent=1, ensure_ascii=False)
    # Thousands of hashes, a line each, would hide the card: wrap them instead.
    text = re.sub(r'(?<=[0-9a-f]{16}"),\n\s+(?=")', ", ", text)
    tensors = {"weight": weight.astype(np.float32), "bias": bias.astype(np.float32)}
    writers = {
        WEIGHTS: lambda path: save_file(tensors, path),
        CARD: lambda path: path.write_text(text + "\n"),
    }
    for name, write in writers.items():
        partial = out / f"{name}.partial-{os.getpid()}"
        write(partial)
        os.replace(partial, out / name)
