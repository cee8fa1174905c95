"""Heads on the frozen embedded backbone: our own format, and that of the embedded models.

A folder with ``card.json`` (names, sources, training data, split, held-out scores) and
``heads.safetensors``, float32: ``weight`` (heads, features) and ``bias`` (heads,), and for
a gated model ``transform`` (heads, heads), ``gate.{i}.weight``, ``gate.{i}.bias``,
``gate.logit_scale`` and ``gate.temperature``. A single head is the final score too.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file

from lib import documents
from lib.errors import ModelError
from lib.models import backbone as backbones
from lib.models.base import Head, Readout
from lib.models.checkpoint import is_file, is_folder
from lib.models.gating import Gate, gated
from lib.models.names import LONGEST
from lib.models.prompt import PromptFormat

WEIGHTS = "heads.safetensors"
CARD = "card.json"
RULE = "rule"  # of the split: says in words how it was made
UNSEEN = (RULE, "held_out")
# Of what pages show. Every score has value, low, high and rows.
SCORE = dict[str, float]
TEXTS = ("kind", "trained_on", "score", "is_not")
LONGEST_TEXT = 2_000  # characters of one of these
HEAD_FIELDS = {
    **dict.fromkeys(TEXTS, str),
    "rows": int,
    "penalty": float,
    "cross_validated": SCORE,
    "held_out": SCORE,
}
GATE_FIELDS = {
    "held_out": SCORE,
    "held_out_without_debiasing": SCORE,
    "held_out_uniform": SCORE,
    "held_out_mixed_one_head": SCORE,
    "held_out_single_heads": dict,
}
REMEDY = "Train the heads again: python -m lib train smol-armo (or smol-mixed) --source FOLDER"


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
        """Score = h Wᵀ + b in float32; with a gate also final and coefficients.

        Without one a single score is the final one too.
        """
        score = np.asarray(hidden, np.float32) @ self.weight.T + self.bias
        if self.gate is None:
            return Readout(score, score[:, 0] if len(self.weight) == 1 else None)
        if gate_hidden is None:
            raise ModelError(
                f"the states that the gate of {self.name} reads", "none", "Give gate_hidden."
            )
        return gated(score, self.gate, self.transform, gate_hidden)

    @property
    def fingerprint(self) -> dict[str, str]:
        """See ``lib.models.base.RewardModel``."""
        digest = hashlib.sha256(repr(list(self.heads)).encode())
        for name, array in sorted(
            tensors(self.weight, self.bias, self.transform, self.gate).items()
        ):
            digest.update(f"{name} {array.shape}".encode() + array.tobytes())
        return {
            **backbones.fingerprint(self.backbone),
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
    """Is it a folder that holds this format?

    Raises
    ------
    ModelError
        When the system refuses to tell.
    """
    return is_folder(folder) and is_file(folder / CARD)


def load(
    name: str,
    folder: Path,
    *,
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
    date: str | None = None,
) -> FrozenHeads:
    """Load heads from a folder, on the embedded backbone.

    Raises
    ------
    ModelError
        For a missing, damaged or non-finite file, tensors that don't fit, or names that
        don't match their number.
    """
    parts = read(folder)
    backbone, tokenizer = backbones.load_embedded(device, dtype)
    check_features(folder, parts.weight, backbone.config.hidden_size)
    split = parts.card["split"]
    seen = {side: split[side] for side in split if side not in UNSEEN}
    return FrozenHeads(
        name=name,
        heads=parts.heads,
        backbone=backbone,
        format=PromptFormat(tokenizer, name, backbones.END_OF_TURN, date),
        weight=parts.weight,
        bias=parts.bias,
        trained_on=frozenset().union(*seen.values()),
        card=parts.card,
        transform=parts.transform,
        gate=parts.gate,
    )


@dataclass(frozen=True)
class Parts:
    """What a folder of heads holds, checked; the backbone isn't needed to read it.

    Attributes
    ----------
    card
        Plain JSON.
    heads
        One for each row of ``weight``.
    weight, bias
        Shapes (heads, features) and (heads,), float32.
    transform, gate
        Of a gated model: shape (heads, heads), and the network.
    """

    card: dict
    heads: list[Head]
    weight: np.ndarray
    bias: np.ndarray
    transform: np.ndarray | None
    gate: Gate | None


def read(folder: Path) -> Parts:
    """Card and tensors of a folder of heads.

    Raises
    ------
    ModelError
        As ``load``, except for what the backbone must tell.
    """
    card = _card(folder / CARD)
    heads = [
        Head(entry["name"], entry["source"], entry.get("concept", "")) for entry in card["heads"]
    ]
    found = _tensors(folder / WEIGHTS)
    return Parts(card, heads, *_fitted(folder / WEIGHTS, found, len(heads)))


def check_features(folder: Path, weight: np.ndarray, features: int) -> None:
    """Does the head matrix fit states of so many features?

    Raises
    ------
    ModelError
        When it doesn't.
    """
    if weight.shape[1] != features:
        raise ModelError(
            f"weights of {features} features in {folder / WEIGHTS}",
            f"{weight.shape[1]}",
            "Train the heads on the backbone that the card names.",
        )


def _card(path: Path) -> dict:
    wanted = {"error": ModelError, "remedy": REMEDY}
    card = documents.read_json(path, what="a card with heads and split", **wanted)
    try:
        _check_card(card)
        documents.check_fields(card, {"gate": dict}, what=f"the card at {path}", **wanted)
        for where, entry, fields in _scored(card):
            documents.check_fields(entry, fields, what=f"{where} of the card at {path}", **wanted)
            for key in fields.keys() & entry.keys():
                if fields[key] is SCORE and not {"value", "low", "high", "rows"} <= set(entry[key]):
                    raise ValueError(f"{where} with {key} without value, low, high and rows")
    except ValueError as error:
        raise ModelError(f"a card with heads and split at {path}", str(error), REMEDY) from None
    return card


def _scored(card: Mapping) -> Iterator[tuple[str, Mapping, Mapping]]:
    """What pages show of a card: where it is, an entry, and the types of its fields."""
    for i, entry in enumerate(card["heads"]):
        yield f"head {i}", entry, HEAD_FIELDS
    gate = card.get("gate", {})
    yield "the gate", gate, GATE_FIELDS
    alone = gate.get("held_out_single_heads", {})
    yield "the gate", alone, dict.fromkeys(alone, SCORE)


def _check_card(card) -> None:
    """A ``ValueError`` that says what in the card is malformed."""
    if not {"heads", "split"} <= set(card):
        raise ValueError("no heads or no split")
    heads, split = card["heads"], card["split"]
    if not isinstance(heads, list) or not heads:
        raise ValueError("heads that are no list, or an empty one")
    for i, entry in enumerate(heads):
        if not isinstance(entry, dict):
            raise ValueError(f"head {i} that is no object")
        parts = {part: entry.get(part) for part in ("name", "source")}
        if entry.get("concept", "") != "":  # it may claim none
            parts["concept"] = entry["concept"]
        for part, text in parts.items():
            if isinstance(text, str) and len(text) > LONGEST:
                raise ValueError(
                    f"head {i} with a {part} of {len(text)} characters, more than {LONGEST}: "
                    f"{text[:40]!r}…"
                )
            if not isinstance(text, str) or not text.strip() or not text.isprintable():
                raise ValueError(f"head {i} with {part} {text!r:.80}, no printable text")
        for part in TEXTS:
            if isinstance(entry.get(part), str) and len(entry[part]) > LONGEST_TEXT:
                raise ValueError(
                    f"head {i} with {part} of {len(entry[part])} characters, more than "
                    f"{LONGEST_TEXT:,}"
                )
    names = [entry["name"] for entry in heads]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"two heads named {twice[0]!r}")
    if not isinstance(split, dict):
        raise ValueError("a split that is no object")
    for side, prompts in split.items():
        texts = isinstance(prompts, list) and all(isinstance(prompt, str) for prompt in prompts)
        if side != RULE and not texts:
            raise ValueError(f"side {side!r} of the split that is no list of texts")


def _tensors(path: Path) -> dict[str, np.ndarray]:
    if not is_file(path):
        raise ModelError(f"head weights at {path}", "no such file", REMEDY)
    try:
        with np.errstate(over="ignore"):  # infinite in float32 is refused below
            found = {name: array.astype(np.float32) for name, array in load_file(path).items()}
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        # The last three: a type that numpy has no name for.
        raise ModelError(f"safetensors at {path}", str(error), REMEDY) from None
    for name, array in found.items():
        if not np.isfinite(array).all():
            raise ModelError(f"finite weights in {path}", f"NaN or infinity in {name}", REMEDY)
    return found


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
    numbers = [found[f"gate.{part}"] for part in ("logit_scale", "temperature")]
    if any(number.size != 1 for number in numbers) or not numbers[1].item() > 0:
        raise ModelError(
            f"a gate's logit_scale and its temperature above 0 in {path}",
            ", ".join(str(number.tolist()) for number in numbers),
            REMEDY,
        )
    scale, temperature = (number.item() for number in numbers)
    widths = [weight.shape[1], *(offset.size for _, offset in layers)]
    fits = all(
        matrix.shape == (widths[i + 1], widths[i]) and offset.ndim == 1
        for i, (matrix, offset) in enumerate(layers)
    )
    if not fits or widths[-1] != count or found["transform"].shape != (count, count):
        shapes = [array.shape for pair in layers for array in pair]
        raise ModelError(f"a gate over {count} heads in {path}", f"shapes {shapes}", REMEDY)
    return weight, bias, found["transform"], Gate(layers, scale, temperature)
