"""Reward models with named heads: ``load_model`` is the one way in.

``smol-armo``, the embedded reference model, needs nothing but this package; a path names
a folder of heads on the same backbone.
"""

from __future__ import annotations

from pathlib import Path

from lib.errors import ModelError, unknown
from lib.models import frozen
from lib.models.base import Head, Readout, RewardModel

__all__ = ["EMBEDDED", "Head", "Readout", "RewardModel", "load_model"]

EMBEDDED = ("smol-armo",)


def load_model(
    name: str, *, device: str | None = None, dtype: str | None = None
) -> RewardModel:
    """Load a reward model.

    Parameters
    ----------
    name
        An embedded model's name, or a folder.
    device
        ``"cpu"``, ``"cuda"``, …; by default a GPU when there is one.
    dtype
        ``"float32"``, ``"bfloat16"`` or ``"float16"``; float32 by default.

    Raises
    ------
    ModelError
        For an unknown name, dtype or device, or weights that are missing or damaged.
    """
    device, resolved = resolve(device, dtype)
    if name in EMBEDDED:
        return frozen.load(name, device=device, dtype=resolved)
    if Path(name).is_dir() and frozen.is_folder_of_heads(Path(name)):
        return frozen.load(name, Path(name), device=device, dtype=resolved)
    raise unknown("model, or a folder that holds one", name, EMBEDDED, ModelError)


def resolve(device: str | None, dtype: str | None):
    """A device and a dtype that go together, from names that may be ``None``."""
    import torch

    dtypes = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
    if dtype is not None and dtype not in dtypes:
        raise unknown("dtype", dtype, dtypes, ModelError)
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        kind = torch.device(device).type
    except RuntimeError:
        raise unknown("device", device, ("cpu", "cuda", "cuda:0", "mps"), ModelError) from None
    if kind == "cuda" and not torch.cuda.is_available():
        raise ModelError("a GPU for device 'cuda'", "none", "Use device='cpu'.")
    if kind == "cpu" and dtype == "float16":
        raise ModelError(
            "a dtype that this CPU computes in", "float16", "Use 'float32' or 'bfloat16'."
        )
    return device, dtypes[dtype or "float32"]
