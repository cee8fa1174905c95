"""Head weights alone: the matrix W and the final norm's gain, without loading a backbone.

``head_weights``    of heads that are linear on the state
``sparse_weights``  of a reward that reads a sparse autoencoder, with what lies beside it

For pages about a run whose model is at hand in part: an embedded model, a folder, or a hub
id that lies in the hub's cache. Nothing is downloaded.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors import safe_open

from lib import documents
from lib.errors import ModelError
from lib.models import armorm, backbone, classifier, files, frozen, sarm
from lib.models.checkpoint import Checkpoint, open_checkpoint
from lib.models.sae import Reward

NORM = "norm.weight"
STABILITY = "stability.csv"  # beside an autoencoder: its latents in those of other seeds


@dataclass(frozen=True)
class HeadWeights:
    """What could be read, and a note on what couldn't, and why.

    ``weight`` has shape (heads, features), float32; ``gain`` of the norm before the heads has
    shape (features,).
    """

    weight: np.ndarray | None = None
    gain: np.ndarray | None = None
    note: str = ""


def head_weights(name: str) -> HeadWeights:
    """Weights of a model's heads, as far as they are at hand; ``name`` as for ``load_model``.

    Raises
    ------
    ModelError
        For a model that is there but damaged.
    """
    folder = files.local(name)
    if folder is None:
        return HeadWeights(note=f"the model {name} is not on this machine")
    if name in files.EMBEDDED or files.is_folder_of_heads(folder):
        return _frozen(folder)
    return _released(open_checkpoint(folder, name))


def _frozen(folder: Path) -> HeadWeights:
    parts = frozen.read(folder)
    if isinstance(parts, frozen.SparseParts):
        return _sparse(parts.reward)
    weight = parts.weight
    try:
        file = backbone.dequantised() / "model.safetensors"
    except ModelError as error:
        return HeadWeights(weight, note=f"the backbone's norm can't be read: {error}")
    with safe_open(file, framework="np") as tensors:
        gain = tensors.get_tensor(NORM).astype(np.float32)
    frozen.check_features(folder, weight, len(gain))
    return HeadWeights(weight, gain)


def _sparse(reward: Reward) -> HeadWeights:
    """Of a reward that a sparse autoencoder's latents make: a head only where all are read."""
    if reward.topk:
        told = f"the {reward.sae.k} largest of {reward.sae.latents} latents, others for each text"
        return HeadWeights(note=f"no linear head: the reward reads {told}")
    direction, _ = reward.collapsed()
    return HeadWeights(direction[None].astype(np.float32), np.ones(len(direction), np.float32))


def _released(checkpoint: Checkpoint) -> HeadWeights:
    if sarm.SARM.fits(checkpoint):
        return _sparse(sarm.reward(checkpoint))
    keys = [armorm.WEIGHT, *(f"{key}.weight" for key in classifier.KEYS)]
    found = [key for key in keys if key in checkpoint.files]
    if not found:
        return HeadWeights(note=f"no head weights in the checkpoint of {checkpoint.name}")
    weight = checkpoint.array(found[0])
    norms = [key for key in (f"model.{NORM}", NORM) if key in checkpoint.files]
    if not norms:
        return HeadWeights(weight, note="no final norm in the checkpoint")
    gain = checkpoint.array(norms[0])
    # Gemma's norm multiplies by one plus its weight.
    if str(checkpoint.config.get("model_type", "")).startswith("gemma"):
        gain = 1 + gain
    return HeadWeights(weight, gain)


@dataclass(frozen=True)
class SparseWeights:
    """A sparse reward and what lies beside it, as far as it is there; a note where none is.

    ``of_all`` (latents,) is a head on all pre-activations, ``of_state`` (features,) one on the
    state; ``card`` says how good the autoencoder is, and ``stability`` has a row a latent.
    """

    reward: Reward | None = None
    of_all: np.ndarray | None = None
    of_state: np.ndarray | None = None
    card: Mapping[str, Any] = field(default_factory=dict)
    stability: pd.DataFrame | None = None
    note: str = ""


def sparse_weights(name: str) -> SparseWeights:
    """The sparse reward of a model, read without its backbone; ``name`` as for ``load_model``.

    Raises
    ------
    ModelError
        For a model that is there but damaged.
    """
    folder = files.local(name)
    if folder is None:
        return SparseWeights(note=f"the model {name} is not on this machine")
    if name in files.EMBEDDED or files.is_folder_of_heads(folder):
        parts = frozen.read(folder)
        if not isinstance(parts, frozen.SparseParts):
            return SparseWeights()
        beside = {"of_all": parts.of_all, "of_state": parts.of_state, "card": parts.card}
        return SparseWeights(parts.reward, **beside, stability=_stability(folder, parts.reward))
    checkpoint = open_checkpoint(folder, name)
    if not sarm.SARM.fits(checkpoint):
        return SparseWeights()
    card = {}
    if files.is_file(folder / armorm.TRAINING):
        what = f"{armorm.TRAINING} of {name}"
        card = documents.read_json(folder / armorm.TRAINING, what=what, error=ModelError)
    reward = sarm.reward(checkpoint)
    return SparseWeights(reward, card=card, stability=_stability(folder, reward))


def _stability(folder: Path, reward: Reward) -> pd.DataFrame | None:
    path = folder / STABILITY
    if not files.is_file(path):
        return None
    needed = f"a row of numbers for each of {reward.sae.latents} latents in {path}"
    remedy = "Train the model again."
    raw = documents.read_bytes(path, what=str(path), error=ModelError, remedy=remedy)
    try:
        table = pd.read_csv(io.BytesIO(raw)).astype(float)
    except (ValueError, pd.errors.ParserError) as error:
        raise ModelError(needed, str(error)[:200], remedy) from None
    if table.get("latent", pd.Series()).tolist() != list(range(reward.sae.latents)):
        raise ModelError(needed, f"{len(table)} rows", remedy)
    return table
