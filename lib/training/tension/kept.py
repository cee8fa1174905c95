"""What a study keeps: names, files and how they are read; needs no torch.

``study.json``           settings, weights and data by their fingerprints, names of what follows
``data.safetensors``     of each test set what was compared, without text: rows of ``better`` and
                         ``worse`` responses, codes of ``subset`` and of the prompt's ``opening``,
                         ``tokens`` of each response with its prompt; and the rows of the probe
``SEED-MODEL.safetensors``  of one model; its metadata say seconds, machine and command

Of every model: ``score SET``, rewards of each response of a test set, float32. Of those of the
three objectives also

``margin``       of the probe's comparisons with neurons silenced, (ways, comparisons), float16,
                 where a way is a set of neurons and what is put in their place
``random SIZE``  the same with random neurons, (draws, comparisons of ``few``), as many as a set
                 has; ``random by layer`` as many in each layer as the published set has
``activation``   of each neuron, (layers, neurons), float16
``mask``         the neurons of each of ``SETS``, packed bits, (sets, bytes)
``rmsd``         of the activations of better and worse texts
``like base``    Spearman of activations with the base's, over neurons
``right``        share of ``measured`` comparisons, which it was trained on, that it ranks right

The sets, all of one size but the last three: ``own`` (largest activation, as published), ``base's``
(in the backbone before training), ``raised`` (activation less the base's), ``changed``,
``gradient``; ``shared`` and the two others part the helpful and harmless models' own ones.

On a GPU, margins and scores are of a bfloat16 copy of the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file

from lib import documents

HELPFUL, HARMLESS, MIXED = "helpful", "harmless", "mixed"
OBJECTIVES = (HELPFUL, HARMLESS, MIXED)
SOURCES = {HELPFUL: "hh-rlhf/helpful-base", HARMLESS: "hh-rlhf/harmless-base"}
TESTS = ("xstest", "llmbar", "reward-bench-2", "rm-bench")
AVERAGE, IN_ORDER, TWO_HEADS, OWN_MARGIN = "average", "in order", "two heads", "own margins"
HELPS = (AVERAGE, IN_ORDER, TWO_HEADS, OWN_MARGIN)
MODELS = OBJECTIVES + HELPS
OWN, BASE, RAISED, CHANGED, GRADIENT = "own", "base's", "raised", "changed", "gradient"
SHARED, ONLY_HELPFUL, ONLY_HARMLESS = "shared", "helpful only", "harmless only"
SETS = (OWN, BASE, RAISED, CHANGED, GRADIENT, SHARED, ONLY_HELPFUL, ONLY_HARMLESS)
PUT = ("zero", "mean")
NONE = "none"
WAYS = (NONE, *(f"{name}, {put}" for name in SETS for put in PUT))
BY_LAYER = "by layer"
SIZES = (OWN, BY_LAYER, SHARED, ONLY_HELPFUL, ONLY_HARMLESS)
STUDY, DATA = "study.json", "data.safetensors"


@dataclass(frozen=True)
class Set:
    """A test set: which responses were compared, and what of them is known without text."""

    name: str
    better: np.ndarray
    worse: np.ndarray
    subset: np.ndarray  # of each comparison, by name
    opening: np.ndarray  # code of each comparison's prompt
    tokens: np.ndarray  # of each response, with its prompt


@dataclass(frozen=True)
class Study:
    """A study as it is kept: see the module's description for the arrays of a model."""

    document: dict
    sets: dict[str, Set]
    probe: list[tuple[str, np.ndarray]]  # sets and rows of theirs, in the order of margins
    few: np.ndarray  # rows of the probe
    models: dict[tuple[int, str], dict[str, np.ndarray]]
    metadata: dict[tuple[int, str], dict[str, str]]

    @property
    def seeds(self) -> list[int]:
        """Those of which a model is there."""
        return sorted({seed for seed, _ in self.models})


def path(folder: Path, seed: int, model: str) -> Path:
    """Where the arrays of a model are."""
    return folder / f"{seed}-{model.replace(' ', '-')}.safetensors"


def is_whole(arrays: Mapping[str, np.ndarray], model: str) -> bool:
    """Is nothing of a model missing?"""
    return bool(arrays) and (model in HELPS or all(f"random {size}" in arrays for size in SIZES))


def load_model(folder: Path, seed: int, model: str) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Arrays and metadata of a model; both empty where there is none."""
    file = path(folder, seed, model)
    if not file.exists():
        return {}, {}
    with safe_open(file, "numpy") as opened:
        metadata = opened.metadata() or {}
    return load_file(file), metadata


def load_study(folder: str | Path) -> Study:
    """A study with whatever models of it are done."""
    folder = Path(folder)
    document = documents.read_json(
        folder / STUDY, what="a study", fields={"seeds": int, "sets": dict[str, list[str]]}
    )
    data = load_file(folder / DATA)
    sets = {}
    for name, subsets in document["sets"].items():
        of = {
            key: data[f"{name} {key}"] for key in ("better", "worse", "subset", "opening", "tokens")
        }
        of["subset"] = np.asarray(subsets)[of["subset"]]
        sets[name] = Set(name, **of)
    found = {
        (seed, model): load_model(folder, seed, model)
        for seed in range(document["seeds"])
        for model in MODELS
    }
    found = {key: both for key, both in found.items() if both[0]}
    return Study(
        document,
        sets,
        [(name, data[f"{name} probe"]) for name in sets],
        data["few"],
        {key: arrays for key, (arrays, _) in found.items()},
        {key: metadata for key, (_, metadata) in found.items()},
    )
