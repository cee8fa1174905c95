"""Head weights alone: the matrix W and the final norm's gain, without loading a backbone.

For pages about a run whose model is at hand in part: an embedded model, a folder, or a hub
id that lies in the hub's cache. Nothing is downloaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import safe_open

from lib import paths
from lib.errors import ModelError
from lib.models import EMBEDDED, HUB_ID, armorm, backbone, classifier, files, frozen
from lib.models.checkpoint import Checkpoint, is_folder, open_checkpoint

NORM = "norm.weight"


@dataclass(frozen=True)
class HeadWeights:
    """What could be read.

    Attributes
    ----------
    weight
        Shape (heads, features), float32; ``None`` when the model isn't at hand.
    gain
        Of the norm before the heads, shape (features,); ``None`` when it can't be read.
    note
        What is missing and why, or "".
    """

    weight: np.ndarray | None = None
    gain: np.ndarray | None = None
    note: str = ""


def head_weights(name: str) -> HeadWeights:
    """Weights of a model's heads, as far as they are at hand.

    Parameters
    ----------
    name
        As for ``load_model``.

    Raises
    ------
    ModelError
        For a model that is there but damaged.
    """
    folder = Path(name)
    if name in EMBEDDED:
        return _frozen(paths.embedded(name))
    if frozen.is_folder_of_heads(folder):
        return _frozen(folder)
    if not is_folder(folder):
        folder = _cached(name) if HUB_ID.fullmatch(name) else None
        if folder is None:
            return HeadWeights(note=f"the model {name} is not on this machine")
    return _released(open_checkpoint(folder, name))


def _frozen(folder: Path) -> HeadWeights:
    weight = frozen.read(folder).weight
    try:
        file = backbone._dequantised() / "model.safetensors"
    except ModelError as error:
        return HeadWeights(weight, note=f"the backbone's norm can't be read: {error}")
    with safe_open(file, framework="np") as tensors:
        gain = tensors.get_tensor(NORM).astype(np.float32)
    frozen.check_features(folder, weight, len(gain))
    return HeadWeights(weight, gain)


def _cached(name: str) -> Path | None:
    from huggingface_hub import try_to_load_from_cache

    kept = try_to_load_from_cache(name, files.CONFIG)
    return Path(kept).parent if isinstance(kept, str) else None


def _released(checkpoint: Checkpoint) -> HeadWeights:
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
