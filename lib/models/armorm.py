"""ArmoRM and checkpoints of its layout, natively.

A head matrix W gives rewards r = W h, one for each objective; a gating network reads the
state x at the token that closes the prompt's last turn, and the score is
Σ g(x) · (r M), with M the debiasing matrix::

    g = logit_scale · softmax(MLP(x) / temperature)
    score = Σ r · (g Mᵀ)

Layout, as released: the backbone under ``model.*``, ``regression_layer.weight`` (heads,
features), ``reward_transform_matrix`` (heads, heads), ``gating.logit_scale`` (1,) and
``gating.layers.{i}.{weight,bias}``, with ReLU between the layers. Any size, number of
heads, backbone and chat template loads.

Formulae from the released model's description (Wang et al. 2024, "Interpretable
Preferences via Multi-Objective Reward Modeling and Mixture-of-Experts"); checked against
an independent NumPy computation in ``tests/models/test_armorm.py``.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lib import documents
from lib.errors import ModelError
from lib.models import backbone as backbones
from lib.models import checkpoint as checkpoints
from lib.models import files, names
from lib.models.base import Head, Readout
from lib.models.checkpoint import Checkpoint
from lib.models.gating import TEMPERATURE, Gate, gated
from lib.models.prompt import EXAMPLE, PromptFormat

WEIGHT = "regression_layer.weight"
TRANSFORM = "reward_transform_matrix"
LOGIT_SCALE = "gating.logit_scale"
TRAINING = "training.json"  # beside a checkpoint of our own training: its card and prompts
PREFIXES = ("regression_layer.", TRANSFORM, "gating.")


@dataclass
class ArmoRM:
    """A gated multi-objective reward model; implements ``lib.models.base.RewardModel``.

    Attributes
    ----------
    weight
        W, shape (heads, features).
    transform
        M, shape (heads, heads): debiased rewards are r M.
    gate
        The gating network.
    tree_limit
        See ``lib.models.checkpoint.tree_limit``.
    """

    name: str
    heads: Sequence[Head]
    backbone: torch.nn.Module
    format: PromptFormat
    weight: np.ndarray
    transform: np.ndarray
    gate: Gate
    card: dict
    trained_on: frozenset[str] = field(default_factory=frozenset)
    gated: bool = True

    @property
    def tree_limit(self) -> int:
        """Tokens of the longest sequence that may be packed as a tree."""
        return checkpoints.tree_limit(self.backbone)

    def read(self, hidden: np.ndarray, gate_hidden: np.ndarray | None = None) -> Readout:
        """Rewards r = h Wᵀ (not debiased), coefficients g Mᵀ, final Σ r · (g Mᵀ)."""
        if gate_hidden is None:
            raise ModelError(
                f"the states that the gate of {self.name} reads", "none", "Give gate_hidden."
            )
        score = np.asarray(hidden, np.float32) @ self.weight.T
        return gated(score, self.gate, self.transform, gate_hidden)

    def debias(self, score: np.ndarray) -> np.ndarray:
        """Rewards after the debiasing matrix, r M: shape (n, heads)."""
        return np.asarray(score, np.float32) @ self.transform

    @property
    def fingerprint(self) -> dict[str, str]:
        """See ``lib.models.base.RewardModel``."""
        digest = hashlib.sha256(repr(list(self.heads)).encode())
        digest.update(f"{self.gate.logit_scale} {self.gate.temperature}".encode())
        for array in (self.weight, self.transform, *sum(self.gate.layers, ())):
            digest.update(f"{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
        return {
            **backbones.fingerprint(self.backbone),
            **self.format.fingerprint,
            "heads": digest.hexdigest()[:16],
        }


def is_armorm(checkpoint: Checkpoint) -> bool:
    """Has the checkpoint any of the layout's head tensors?"""
    return any(key.startswith(PREFIXES) for key in checkpoint.files)


def load(
    checkpoint: Checkpoint,
    *,
    dtype: torch.dtype,
    device_map: str | Mapping,
    heads: Sequence[str] | None = None,
    date: str | None = None,
) -> ArmoRM:
    """Load a checkpoint of this layout.

    Parameters
    ----------
    checkpoint
        Opened.
    dtype, device_map
        See ``lib.models.checkpoint.load_backbone``.
    date
        See ``lib.models.prompt.PromptFormat``.
    heads
        Names, where the user gives them.

    Raises
    ------
    ModelError
        For missing or unexpected head weights, weights that aren't finite, shapes that
        don't fit together or the configuration, a wrong number of names, or a template
        from which the gate's position can't be told.
    """
    name = checkpoint.name
    weight, transform, gate = _head(checkpoint)
    named = names.named(len(weight), model=name, given=heads, labels=checkpoint.labels, armorm=True)
    format = PromptFormat(checkpoints.load_tokenizer(checkpoint), name, date=date)
    _check_template(format)
    keys = {key for key in checkpoint.files if key.startswith(PREFIXES)}
    backbone = checkpoints.load_backbone(checkpoint, keys, dtype=dtype, device_map=device_map)
    _check_shapes(name, backbone.config.hidden_size, weight, transform, gate)
    known = names.recognise(name)
    return ArmoRM(
        name=name,
        heads=named,
        backbone=backbone,
        format=format,
        weight=weight,
        transform=transform,
        gate=gate,
        trained_on=_trained_on(checkpoint.folder),
        card=checkpoint.card
        | {
            "kind": "gated multi-objective reward model (ArmoRM's layout)",
            "names": named[0].source,
            "note": " ".join(filter(None, [known.note if known else "", checkpoint.note])),
            "gate": {
                "hidden": [len(bias) for _, bias in gate.layers[:-1]],
                "temperature": gate.temperature,
                "logit_scale": gate.logit_scale,
            },
        },
    )


def _trained_on(folder: Path) -> frozenset[str]:
    """Prompts that trained the heads, where the checkpoint says so."""
    path = folder / TRAINING
    if not path.is_file():
        return frozenset()
    kind = {"split": dict[str, Any]}
    split = documents.read_json(path, what="a card", error=ModelError, fields=kind).get("split", {})
    sides = dict.fromkeys(("train", "choose"), list[str])
    documents.check_fields(split, sides, what=f"the split of {path}", error=ModelError)
    return frozenset().union(*(split.get(side, ()) for side in sides))


def _head(checkpoint: Checkpoint) -> tuple[np.ndarray, np.ndarray, Gate]:
    """W, M and gate, checked against each other and the configuration."""
    name, config = checkpoint.name, checkpoint.config
    found = {key for key in checkpoint.files if key.startswith(PREFIXES)}
    numbers = [int(n) for key in found for n in re.findall(r"^gating\.layers\.(\d+)\.", key)]
    hidden = checkpoint.number("gating_n_hidden", 0)
    if hidden != int(hidden) or not 0 <= hidden <= len(checkpoint.files):
        raise ModelError(
            f"gating_n_hidden of {name} as a number of layers that its files can hold",
            f"{hidden}",
            "Check config.json against the checkpoint.",
        )
    depth = max([*numbers, int(hidden)]) + 1
    keys = {WEIGHT, TRANSFORM, LOGIT_SCALE} | {
        f"gating.layers.{i}.{part}" for i in range(depth) for part in ("weight", "bias")
    }
    for kind, wrong in (("missing", keys - found), ("unexpected", found - keys)):
        if wrong:
            raise ModelError(
                f"the head weights of ArmoRM's layout in the checkpoint of {name}",
                f"{kind}: {', '.join(sorted(wrong))}",
                "Download it again, with every shard; a variant of the layout needs a "
                "class of its own.",
            )
    layers = [
        tuple(checkpoint.array(f"gating.layers.{i}.{part}") for part in ("weight", "bias"))
        for i in range(depth)
    ]
    scale = checkpoint.array(LOGIT_SCALE)
    temperature = float(checkpoint.number("gating_temperature", TEMPERATURE))
    if scale.size != 1 or not 0 < temperature < np.inf:
        raise ModelError(
            f"one logit scale and a positive gating_temperature for {name}",
            f"{scale.size} and {temperature}",
            "Check config.json against the checkpoint.",
        )
    weight, transform = checkpoint.array(WEIGHT), checkpoint.array(TRANSFORM)
    if weight.ndim != 2 or any(matrix.ndim != 2 or bias.ndim != 1 for matrix, bias in layers):
        shapes = [array.shape for array in (weight, *sum(layers, ()))]
        raise ModelError(
            f"matrices of a head and a gate in the checkpoint of {name}",
            f"shapes {', '.join(map(str, shapes))}",
            "Check the checkpoint.",
        )
    gate = Gate(layers, float(scale.reshape(())), temperature)
    for key, held in (
        ("num_objectives", len(weight)),
        ("gating_n_hidden", depth - 1),
        ("gating_hidden_dim", len(layers[0][1]) if depth > 1 else None),
    ):
        if held is not None and config.get(key, held) != held:
            raise ModelError(
                f"{key} {documents.shown(config[key])} in the weights of {name}, as in config.json",
                f"{held}",
                "Check that config.json belongs to these weights.",
            )
    return weight, transform, gate


def _check_shapes(
    name: str, features: int, weight: np.ndarray, transform: np.ndarray, gate: Gate
) -> None:
    count = len(weight)
    fits = weight.shape == (count, features) and transform.shape == (count, count)
    width = features
    for matrix, bias in gate.layers:
        fits = fits and matrix.shape == (len(bias), width) and bias.ndim == 1
        width = len(bias)
    if not (fits and width == count):
        shapes = [array.shape for array in (weight, transform, *sum(gate.layers, ()))]
        raise ModelError(
            f"a head, a debiasing matrix and a gate that fit {features} features in {name}",
            f"shapes {', '.join(map(str, shapes))}",
            "Check that the head belongs to this backbone.",
        )


def _check_template(format: PromptFormat) -> None:
    """The header that opens a response must not be written where no response follows.

    Otherwise it also ends every text that is scored, and the last header of the prompt is
    not the one that opens the response. Such a template writes the prompt alike with and
    without a header, goes on with the response itself, and closes it as the prompt, but
    not as a response that another turn follows.
    """
    answer = "0123456789"
    prompt, whole = format.render(EXAMPLE, header=False), format.render(EXAMPLE, answer)
    reply = {"role": "assistant", "content": answer}
    longer = format.render([*EXAMPLE, reply, *EXAMPLE], header=False)
    tail, onward = (text.rpartition(answer)[2] for text in (whole, longer))
    if (
        prompt == format.render(EXAMPLE)
        and whole.removeprefix(prompt).lstrip().startswith(answer)
        and prompt.endswith(tail)
        and not onward.startswith(tail)
    ):
        raise ModelError(
            f"a chat template of {format.name} that opens a response only when asked to "
            "(add_generation_prompt)",
            "one that always does, also after the response",
            "Give the tokenizer the template that the model was trained with.",
        )


def save_armorm(
    folder: str | Path,
    *,
    backbone: torch.nn.Module,
    tokenizer,
    weight: np.ndarray,
    transform: np.ndarray,
    gate: Gate,
    names: Sequence[str] | None = None,
    max_shard_size: str = "5GB",
) -> Path:
    """Write a checkpoint in the released layout, which ``load_model`` reads.

    Parameters
    ----------
    folder
        Made when it isn't there; shards that it holds are replaced.
    backbone
        A transformers base model (``AutoModel``), of any architecture; the head is written
        in its dtype.
    tokenizer
        With the chat template.
    weight, transform, gate
        W (heads, features), M (heads, heads) and the gating network.
    names
        Of the heads, kept as ``id2label``.
    max_shard_size
        Of one safetensors file.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    ModelError
        When the shapes don't fit together.
    """
    from huggingface_hub import save_torch_state_dict

    folder = Path(folder)
    config = backbone.config
    _check_shapes(str(folder), config.hidden_size, weight, transform, gate)
    dtype = next(backbone.parameters()).dtype
    head = {WEIGHT: weight, TRANSFORM: transform, LOGIT_SCALE: np.asarray([gate.logit_scale])}
    for i, (matrix, bias) in enumerate(gate.layers):
        head |= {f"gating.layers.{i}.weight": matrix, f"gating.layers.{i}.bias": bias}
    tensors = {f"model.{key}": tensor for key, tensor in backbone.state_dict().items()}
    tensors |= {key: torch.from_numpy(np.asarray(v)).to(dtype) for key, v in head.items()}
    folder.mkdir(parents=True, exist_ok=True)
    save_torch_state_dict(tensors, folder, max_shard_size=max_shard_size)
    tokenizer.save_pretrained(folder)
    architecture = type(backbone).__name__.removesuffix("Model")
    document = json.loads(config.to_json_string(use_diff=False)) | {
        "architectures": [f"{architecture}ForRewardModelWithGating"],
        "dtype": str(dtype).removeprefix("torch."),
        "num_objectives": len(weight),
        "gating_temperature": gate.temperature,
        "gating_n_hidden": len(gate.layers) - 1,
        "gating_hidden_dim": len(gate.layers[0][1]),
    }
    if names is not None:
        document["id2label"] = {str(i): name for i, name in enumerate(names)}
        document["label2id"] = {name: i for i, name in enumerate(names)}
    (folder / files.CONFIG).write_text(json.dumps(document, indent=2) + "\n")
    return folder
