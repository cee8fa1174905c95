"""Heads on the frozen embedded backbone: our own format, and that of the embedded models.

A folder with ``card.json`` (names, sources, training data, split, held-out scores) and
``heads.safetensors``, float32: ``weight`` (heads, features) and ``bias`` (heads,), and for
a gated model ``transform`` (heads, heads), ``gate.{i}.weight``, ``gate.{i}.bias``,
``gate.logit_scale`` and ``gate.temperature``. A single head is the final score too.

A reward of an autoencoder's latents has the tensors of ``lib.models.sarm`` instead, its layer,
k and flag stand under ``sarm`` in the card; ``score_of_all.weight`` is a head on all
pre-activations and ``score_of_state.weight`` one on the state itself, for comparison.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired

import numpy as np
import torch
from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError
from safetensors import SafetensorError
from safetensors.numpy import load_file
from typing_extensions import TypedDict

from lib import documents
from lib.errors import ModelError
from lib.models import backbone as backbones
from lib.models import sarm, sparse
from lib.models.base import Head
from lib.models.cut import cut
from lib.models.files import CARD, is_file
from lib.models.gating import Gate
from lib.models.linear import LinearHeads
from lib.models.names import LONGEST
from lib.models.prompt import PromptFormat
from lib.models.sae import Reward

WEIGHTS = "heads.safetensors"
RULE = "rule"  # of the split: says in words how it was made
OF_ALL, OF_STATE = "score_of_all.weight", "score_of_state.weight"  # beside an autoencoder
UNSEEN = (RULE, "held_out")
LONGEST_TEXT = 2_000  # characters that a page shows of a head
REMEDY = (
    "Train the heads again: "
    "python -m lib train smol-armo (or smol-mixed, smol-sarm) --source FOLDER"
)


def _printable(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise PydanticCustomError("printable", "a printable text")
    return text


def _distinct(entries: list[Mapping]) -> list[Mapping]:
    names = [entry["name"] for entry in entries]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise PydanticCustomError("distinct", f"one head named {twice[0]!a}")
    return entries


Label = Annotated[str, Field(max_length=LONGEST), AfterValidator(_printable)]
Text = Annotated[str, Field(max_length=LONGEST_TEXT)]


class Score(TypedDict):
    """A held-out or cross-validated score with its interval."""

    value: float
    low: float
    high: float
    rows: float


class Entry(TypedDict):
    """Of a head: what every card says, and what pages show where it is said."""

    name: Label
    source: Label
    concept: NotRequired[Literal[""] | Label]
    kind: NotRequired[Text]
    trained_on: NotRequired[Text]
    score: NotRequired[Text]
    is_not: NotRequired[Text]
    rows: NotRequired[int]
    penalty: NotRequired[float]
    cross_validated: NotRequired[Score]
    held_out: NotRequired[Score]


class GateEntry(TypedDict, total=False):
    """Of the gate, what pages show."""

    held_out: Score
    held_out_without_debiasing: Score
    held_out_uniform: Score
    held_out_mixed_one_head: Score
    held_out_single_heads: dict[str, Score]


FIELDS = {
    "sarm": dict[str, Any],
    "heads": Annotated[list[Entry], Field(min_length=1), AfterValidator(_distinct)],
    "split": dict,
    "gate": GateEntry,
}


class FrozenHeads(LinearHeads):
    """Linear heads on the embedded backbone."""

    def own_scores(self, sequences: Sequence[np.ndarray]) -> np.ndarray:
        """See ``lib.models.base.RewardModel``."""
        self.folder = self.folder or backbones.dequantised()
        return super().own_scores(sequences)

    def _digested(self) -> Iterator[bytes]:
        yield repr(list(self.heads)).encode()
        found = tensors(self.weight, self.bias, self.transform, self.gate)
        for name, array in sorted(found.items()):
            yield f"{name} {array.shape}".encode() + array.tobytes()


class FrozenSparse(sparse.SparseHead, FrozenHeads):
    """A reward of an autoencoder's latents on the embedded backbone, cut at its layer."""

    _digested = sparse.SparseHead._digested

    def own_scores(self, sequences: Sequence[np.ndarray]) -> np.ndarray:
        """See ``lib.models.base.RewardModel``."""
        self.folder = self.folder or backbones.dequantised()
        return sparse.SparseHead.own_scores(self, sequences)


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
    if isinstance(parts, SparseParts):
        width, kind = parts.reward.sae.encoder, FrozenSparse
        given = {"card": parts.card, "heads": parts.heads, **sparse.fields(parts.reward)}
        cut(backbone, parts.layer)
    else:
        width, kind, given = parts.weight, FrozenHeads, vars(parts)
    check_features(folder, width, backbone.config.hidden_size)
    seen = [prompts for side, prompts in parts.card["split"].items() if side not in UNSEEN]
    format = PromptFormat(tokenizer, name, backbones.END_OF_TURN, date)
    trained_on = frozenset().union(*seen)
    return kind(name=name, backbone=backbone, format=format, trained_on=trained_on, **given)


@dataclass(frozen=True)
class Parts:
    """What a folder of heads holds, checked, as ``FrozenHeads`` names it; needs no backbone."""

    card: dict
    heads: list[Head]
    weight: np.ndarray
    bias: np.ndarray
    transform: np.ndarray | None
    gate: Gate | None


@dataclass(frozen=True)
class SparseParts:
    """The same of a reward of an autoencoder's latents, with the layer that it reads.

    ``of_all`` are the weights of the head on all pre-activations, (latents,), and ``of_state``
    those of the head on the state, (features,), where they are there.
    """

    card: dict
    heads: list[Head]
    reward: Reward
    layer: int
    of_all: np.ndarray | None
    of_state: np.ndarray | None
    keys: tuple[str, ...]


def read(folder: Path) -> Parts | SparseParts:
    """Card and tensors of a folder of heads; errors as of ``load``."""
    card = _card(folder / CARD)
    heads = [
        Head(entry["name"], entry["source"], entry.get("concept", "")) for entry in card["heads"]
    ]
    found = _tensors(folder / WEIGHTS)
    if sarm.TENSORS["encoder"] in found:
        return _sparse(folder / WEIGHTS, card, heads, found)
    return Parts(card, heads, *_fitted(folder / WEIGHTS, found, len(heads)))


def _sparse(path: Path, card: dict, heads: list[Head], found: Mapping) -> SparseParts:
    keys = tuple(found)
    beside = [found.pop(key, None) for key in (OF_ALL, OF_STATE)]
    if set(found) != set(sarm.TENSORS.values()) or len(heads) != 1:
        needed = f"one head and the tensors {', '.join(sorted(sarm.TENSORS.values()))} in {path}"
        raise ModelError(needed, f"{len(heads)}, {', '.join(sorted(found))}", REMEDY)
    said = card.get("sarm", {})
    if type(said.get("topk")) is not bool or type(said.get("layer")) is not int:
        raise ModelError(f"topk and layer under sarm in the card beside {path}", "none", REMEDY)
    arrays = {name: found[key] for name, key in sarm.TENSORS.items()}
    reward = sarm.made(arrays, said.get("k"), said["topk"], str(path))
    sizes = (reward.sae.latents, reward.sae.features)
    for key, array, size in zip((OF_ALL, OF_STATE), beside, sizes, strict=True):
        if array is not None and array.shape != (1, size):
            raise ModelError(f"{key} of shape (1, {size}) in {path}", f"{array.shape}", REMEDY)
    of_all, of_state = (None if array is None else array[0] for array in beside)
    return SparseParts(card, heads, reward, said["layer"], of_all, of_state, keys)


def check_features(folder: Path, weight: np.ndarray, features: int) -> None:
    """Raise a ``ModelError`` where the head matrix doesn't fit states of so many features."""
    if weight.shape[1] != features:
        raise ModelError(
            f"weights of {features} features in {folder / WEIGHTS}",
            f"{weight.shape[1]}",
            "Train the heads on the backbone that the card names.",
        )


def _card(path: Path) -> dict:
    what = "a card with heads and split"
    card = documents.read_json(path, what=what, error=ModelError, remedy=REMEDY, fields=FIELDS)
    if not {"heads", "split"} <= set(card):
        raise ModelError(f"{what} at {path}", "no heads or no split", REMEDY)
    sides = dict.fromkeys(card["split"].keys() - {RULE}, list[str])
    what = f"the split of {what} at {path}"
    documents.check_fields(card["split"], sides, what=what, error=ModelError, remedy=REMEDY)
    return card


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
    gate = Gate(layers, scale, temperature)
    if not gate.fits(weight.shape[1], count, found["transform"]):
        shapes = [array.shape for pair in layers for array in pair]
        raise ModelError(f"a gate over {count} heads in {path}", f"shapes {shapes}", REMEDY)
    return weight, bias, found["transform"], gate
