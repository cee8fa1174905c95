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

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lib import documents
from lib.errors import ModelError
from lib.models import files
from lib.models.checkpoint import Checkpoint
from lib.models.gating import TEMPERATURE, Gate
from lib.models.linear import Released
from lib.models.prompt import EXAMPLE, PromptFormat

WEIGHT = "regression_layer.weight"
TRANSFORM = "reward_transform_matrix"
LOGIT_SCALE = "gating.logit_scale"
TRAINING = "training.json"  # beside a checkpoint of our own training: its card and prompts
PREFIXES = ("regression_layer.", TRANSFORM, "gating.")
LAYER = re.compile(r"gating\.layers\.\d+\.weight")
CHECK = "Check config.json against the checkpoint."


class ArmoRM(Released):
    """A gated multi-objective reward model: r M are its debiased rewards."""

    KIND = "gated multi-objective reward model (ArmoRM's layout)"

    @staticmethod
    def fits(checkpoint: Checkpoint) -> bool:
        """Has the checkpoint any of the layout's head tensors?"""
        return any(key.startswith(PREFIXES) for key in checkpoint.files)

    @staticmethod
    def head(checkpoint: Checkpoint, config, given: Sequence[str] | None) -> tuple[dict, set[str]]:
        """W, M and gate, checked against each other and the configuration."""
        weight, transform, gate = _head(checkpoint)
        keys = {key for key in checkpoint.files if key.startswith(PREFIXES)}
        trained_on = trained_prompts(checkpoint.folder)
        fields = {"weight": weight, "transform": transform, "gate": gate, "trained_on": trained_on}
        return fields, keys

    @staticmethod
    def check_format(format: PromptFormat) -> None:
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

    def completed(self, config) -> None:
        """Does the gate fit, and what is it?"""
        features = self.weight.shape[1]
        _check_shapes(self.name, features, self.weight, self.transform, self.gate)
        self.card["gate"] = {
            "hidden": [len(bias) for _, bias in self.gate.layers[:-1]],
            "temperature": self.gate.temperature,
            "logit_scale": self.gate.logit_scale,
        }

    def _digested(self) -> Iterator[bytes]:
        yield repr(list(self.heads)).encode()
        yield f"{self.gate.logit_scale} {self.gate.temperature}".encode()
        for array in (self.weight, self.transform, *sum(self.gate.layers, ())):
            yield f"{array.shape}".encode() + np.ascontiguousarray(array).tobytes()


def trained_prompts(folder: Path) -> frozenset[str]:
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
    depth = sum(bool(LAYER.fullmatch(key)) for key in found)
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
    temperature = config.get("gating_temperature", TEMPERATURE)
    number = type(temperature) in (int, float)
    if scale.size != 1 or not depth or not number or not 0 < temperature < np.inf:
        raise ModelError(
            f"layers, one logit scale and a positive number as gating_temperature for {name}",
            f"{depth} layers, {scale.size} and {documents.shown(temperature)}",
            CHECK,
        )
    weight, transform = checkpoint.array(WEIGHT), checkpoint.array(TRANSFORM)
    if weight.ndim != 2 or any(matrix.ndim != 2 or bias.ndim != 1 for matrix, bias in layers):
        shapes = [array.shape for array in (weight, *sum(layers, ()))]
        raise ModelError(
            f"matrices of a head and a gate in the checkpoint of {name}",
            f"shapes {', '.join(map(str, shapes))}",
            "Check the checkpoint.",
        )
    gate = Gate(layers, float(scale.reshape(())), float(temperature))
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
    fits = weight.shape == (len(weight), features)
    if not (fits and gate.fits(features, len(weight), transform)):
        shapes = [array.shape for array in (weight, transform, *sum(gate.layers, ()))]
        raise ModelError(
            f"a head, a debiasing matrix and a gate that fit {features} features in {name}",
            f"shapes {', '.join(map(str, shapes))}",
            "Check that the head belongs to this backbone.",
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
    """Write a checkpoint in the released layout, which ``load_model`` reads; returns its folder.

    Parameters
    ----------
    folder
        Made when it isn't there; shards that it holds are replaced.
    backbone
        A transformers base model (``AutoModel``); the head is written in its dtype.
    tokenizer
        With the chat template.
    weight, transform, gate
        W (heads, features), M (heads, heads) and the gating network.
    names
        Of the heads, kept as ``id2label``.
    max_shard_size
        Of one safetensors file.

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
