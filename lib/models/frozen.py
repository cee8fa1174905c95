"""Heads on a frozen backbone: our own format, and that of ``smol-armo``.

A folder with ``card.json`` (names, sources, training data, split, held-out scores) and
``heads.safetensors`` (``weight`` (heads, features) and ``bias`` (heads,), float32).
"""

from __future__ import annotations

import hashlib
import json
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
from lib.models.prompt import PromptFormat

WEIGHTS = "heads.safetensors"
CARD = "card.json"


@dataclass
class FrozenHeads:
    """A reward model of linear heads; implements ``lib.models.base.RewardModel``."""

    name: str
    heads: Sequence[Head]
    backbone: torch.nn.Module
    format: PromptFormat
    weight: np.ndarray
    bias: np.ndarray
    trained_on: frozenset[str]
    card: dict
    gated: bool = False

    def read(self, hidden: np.ndarray, gate_hidden: np.ndarray | None = None) -> Readout:
        """Score = h Wᵀ + b, in float32."""
        return Readout(np.asarray(hidden, np.float32) @ self.weight.T + self.bias)

    @property
    def fingerprint(self) -> dict[str, str]:
        """Digests of ``backbone``, ``tokenizer``, ``template`` and ``heads``."""
        heads = self.weight.tobytes() + self.bias.tobytes() + repr(self.heads).encode()
        return {
            "backbone": backbones.fingerprint(self.backbone),
            **self.format.fingerprint,
            "heads": hashlib.sha256(heads).hexdigest()[:16],
        }


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
        For missing, damaged or non-finite weights, or names that don't match their number.
    """
    card = json.loads((folder / CARD).read_text())
    heads = [
        Head(entry["name"], entry["source"], entry.get("concept", "")) for entry in card["heads"]
    ]
    weight, bias = _weights(folder / WEIGHTS, heads)
    backbone, tokenizer = backbones.load_embedded(device, dtype)
    if weight.shape[1] != backbone.config.hidden_size:
        raise ModelError(
            f"weights of {backbone.config.hidden_size} features in {folder / WEIGHTS}",
            f"{weight.shape[1]}",
            "Train the heads on the backbone that the card names.",
        )
    return FrozenHeads(
        name=name,
        heads=heads,
        backbone=backbone,
        format=PromptFormat(tokenizer, name, backbones.END_OF_TURN),
        weight=weight,
        bias=bias,
        trained_on=frozenset(card["split"]["train"]),
        card=card,
    )


def _weights(path: Path, heads: Sequence[Head]) -> tuple[np.ndarray, np.ndarray]:
    remedy = "Train the heads again: python -m lib train smol-armo --source FOLDER"
    if not path.is_file():
        raise ModelError(f"head weights at {path}", "no such file", remedy)
    try:
        tensors = load_file(path)
    except SafetensorError as error:
        raise ModelError(f"safetensors at {path}", str(error), remedy) from None
    if set(tensors) != {"weight", "bias"}:
        raise ModelError(
            f"tensors weight and bias in {path}", ", ".join(sorted(tensors)) or "none", remedy
        )
    weight, bias = tensors["weight"], tensors["bias"]
    if weight.ndim != 2 or len(weight) != len(heads) or bias.shape != (len(heads),):
        raise ModelError(
            f"{len(heads)} rows of weights in {path}, one for each head of its card",
            f"weight {weight.shape}, bias {bias.shape}",
            "Give as many names as there are heads.",
        )
    if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
        raise ModelError(f"finite weights in {path}", "NaN or infinity", remedy)
    return weight.astype(np.float32), bias.astype(np.float32)
