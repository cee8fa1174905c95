"""Heads on the frozen embedded backbone: our own format, and that of ``smol-armo``.

A folder with ``card.json`` (names, sources, training data, split, held-out scores) and
``heads.safetensors``, float32: ``weight`` (heads, features) and ``bias`` (heads,), and for
a gated model ``transform`` (heads, heads), ``gate.{i}.weight``, ``gate.{i}.bias``,
``gate.logit_scale`` and ``gate.temperature``.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file

from lib import paths
from lib.errors import ModelError
from lib.models import backbone as backbones
from lib.models.base import Head, Readout
from lib.models.gating import Gate, gated
from lib.models.prompt import PromptFormat

WEIGHTS = "heads.safetensors"
CARD = "card.json"
REMEDY = "Train the heads again: python -m lib train smol-armo --source FOLDER"


@dataclass
class FrozenHeads:
    """Linear heads, with or without a gate; implements ``lib.models.base.RewardModel``."""

    name: str
    heads: Sequence[Head]
    backbone: torch.nn.Module
    format: PromptFormat
    weight: np.ndarray
    bias: np.ndarray
    trained_on: frozenset[str]
    card: dict
    transform: np.ndarray | None = None
    gate: Gate | None = None
    tree_limit: int = sys.maxsize

    @property
    def gated(self) -> bool:
        """Has the model a gate?"""
        return self.gate is not None

    def read(self, hidden: np.ndarray, gate_hidden: np.ndarray | None = None) -> Readout:
        """Score = h Wᵀ + b in float32; with a gate also final and coefficients."""
        score = np.asarray(hidden, np.float32) @ self.weight.T + self.bias
        if self.gate is None:
            return Readout(score)
        if gate_hidden is None:
            raise ModelError(
                f"the states that the gate of {self.name} reads", "none", "Give gate_hidden."
            )
        return gated(score, self.gate, self.transform, gate_hidden)

    @property
    def fingerprint(self) -> dict[str, str]:
        """Digests of ``backbone``, ``tokenizer``, ``template`` and ``heads``."""
        digest = hashlib.sha256(repr(list(self.heads)).encode())
        for name, array in sorted(
            tensors(self.weight, self.bias, self.transform, self.gate).items()
        ):
            digest.update(f"{name} {array.shape}".encode() + array.tobytes())
        return {
            "backbone": backbones.fingerprint(self.backbone),
            **self.format.fingerprint,
            "heads": digest.hexdigest()[:16],
        }


def tensors(
    weight: np.ndarray, bias: np.ndarray, transform: np.ndarray | None, gate: Gate | None
) -> dict[str, np.ndarray]:
    """The tensors of ``heads.safetensors``, float32, by name."""
    found = {"weight": weight, "bias": bias}
    if gate is not None:
        found |= {"transform": transform}
        for i, (matrix, offset) in enumerate(gate.layers):
            found |= {f"gate.{i}.weight": matrix, f"gate.{i}.bias": offset}
        found |= {
            "gate.logit_scale": np.asarray([gate.logit_scale]),
            "gate.temperature": np.asarray([gate.temperature]),
        }
    return {name: np.ascontiguousarray(array, np.float32) for name, array in found.items()}


def is_folder_of_heads(folder: Path) -> bool:
    """Does the folder hold this format?"""
    return (folder / CARD).is_file()


def load(
    name: str, folder: Path = paths.EMBEDDED, *, device: str = "cpu", dtype=torch.float32
) -> FrozenHeads:
    """Load heads from a folder, on the embedded backbone.

    Raises
    ------
    ModelError
        For a missing, damaged or non-finite file, tensors that don't fit, or names that
        don't match their number.
    """
    card = _card(folder / CARD)
    heads = [
        Head(entry["name"], entry["source"], entry.get("concept", "")) for entry in card["heads"]
    ]
    found = _tensors(folder / WEIGHTS)
    weight, bias, transform, gate = _fitted(folder / WEIGHTS, found, len(heads))
    backbone, tokenizer = backbones.load_embedded(device, dtype)
    if weight.shape[1] != backbone.config.hidden_size:
        raise ModelError(
            f"weights of {backbone.config.hidden_size} features in {folder / WEIGHTS}",
            f"{weight.shape[1]}",
            "Train the heads on the backbone that the card names.",
        )
    seen = {side: card["split"][side] for side in card["split"] if side not in ("rule", "held_out")}
    return FrozenHeads(
        name=name,
        heads=heads,
        backbone=backbone,
        format=PromptFormat(tokenizer, name, backbones.END_OF_TURN),
        weight=weight,
        bias=bias,
        trained_on=frozenset().union(*seen.values()),
        card=card,
        transform=transform,
        gate=gate,
    )


def _card(path: Path) -> dict:
    try:
        card = json.loads(path.read_text())
        if not {"heads", "split"} <= set(card):
            raise ValueError("no heads or no split")
    except (OSError, ValueError, TypeError) as error:
        raise ModelError(f"a card with heads and split at {path}", str(error), REMEDY) from None
    return card


def _tensors(path: Path) -> dict[str, np.ndarray]:
    if not path.is_file():
        raise ModelError(f"head weights at {path}", "no such file", REMEDY)
    try:
        found = load_file(path)
    except SafetensorError as error:
        raise ModelError(f"safetensors at {path}", str(error), REMEDY) from None
    for name, array in found.items():
        if not np.isfinite(array).all():
            raise ModelError(f"finite weights in {path}", f"NaN or infinity in {name}", REMEDY)
    return {name: array.astype(np.float32) for name, array in found.items()}


def _fitted(path: Path, found: dict[str, np.ndarray], count: int):
    """Weight, bias, transform and gate, when the tensors are those of this format."""
    depth = sum(name.endswith(".weight") for name in found)
    needed = {"weight", "bias"}
    if depth:
        needed |= {"transform", "gate.logit_scale", "gate.temperature"}
        needed |= {f"gate.{i}.{part}" for i in range(depth) for part in ("weight", "bias")}
    if set(found) != needed:
        raise ModelError(
            f"tensors {', '.join(sorted(needed))} in {path}",
            ", ".join(sorted(found)) or "none",
            REMEDY,
        )
    weight, bias = found["weight"], found["bias"]
    if weight.ndim != 2 or len(weight) != count or bias.shape != (count,):
        raise ModelError(
            f"{count} rows of weights in {path}, one for each head of its card",
            f"weight {weight.shape}, bias {bias.shape}",
            "Give as many names as there are heads.",
        )
    if not depth:
        return weight, bias, None, None
    layers = [(found[f"gate.{i}.weight"], found[f"gate.{i}.bias"]) for i in range(depth)]
    scale, temperature = (
        float(found[f"gate.{part}"].reshape(-1)[0]) for part in ("logit_scale", "temperature")
    )
    widths = [weight.shape[1], *(len(offset) for _, offset in layers)]
    fits = all(matrix.shape == (widths[i + 1], widths[i]) for i, (matrix, _) in enumerate(layers))
    if not fits or widths[-1] != count or found["transform"].shape != (count, count):
        shapes = [array.shape for pair in layers for array in pair]
        raise ModelError(f"a gate over {count} heads in {path}", f"shapes {shapes}", REMEDY)
    return weight, bias, found["transform"], Gate(layers, scale, temperature)
