"""Reward models with named heads: ``load_model`` is the one way in.

``smol-armo``, the embedded reference model, and ``smol-mixed``, one preference head on the
same backbone, need nothing but this package. A folder or hub id names a released model
(ArmoRM's layout or SARM's, or a sequence classifier), or a folder of heads on the embedded
backbone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from lib import paths
from lib.errors import ModelError, unknown
from lib.models.base import Head, Readout, RewardModel
from lib.models.files import EMBEDDED, HUB_ID, is_folder, is_folder_of_heads

__all__ = ["EMBEDDED", "Head", "Readout", "RewardModel", "load_model"]

DEVICE = re.compile(r"cpu|mps|cuda(:[0-9]{1,3})?")
DTYPES = ("float32", "bfloat16", "float16")


def load_model(
    name: str,
    *,
    device: str | None = None,
    dtype: str | None = None,
    heads: Sequence[str] | None = None,
    revision: str | None = None,
    device_map: str | Mapping | None = None,
    date: str | None = None,
) -> RewardModel:
    """Load a reward model.

    Parameters
    ----------
    name
        An embedded model's name, a folder, or a hub id (``RLHFlow/ArmoRM-Llama3-8B-v0.1``).
    device
        ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"mps"``; by default a GPU when there is one.
    dtype
        ``"float32"``, ``"bfloat16"`` or ``"float16"``; float32 by default.
    heads
        Names for a released model's heads, in the order of its head matrix, where its own
        are missing or wrong; recorded as the user's word.
    revision
        Branch, tag or commit of a hub id.
    device_map
        Spreads a released model over several GPUs (``"auto"``, ``"balanced"``, or a
        mapping of module names, as in transformers), in place of ``device``.
    date
        What a chat template that writes today's date writes in its place, as
        ``"2024-07-26"``, which it is by default: else tokens would change from day to day.

    Raises
    ------
    ModelError
        For an unknown name, dtype, device or date, an option that doesn't apply, or weights that
        are missing, unexpected, damaged or not finite.
    """
    # Pages name models, compare their files and load none: those go without torch.
    from lib.models import frozen
    from lib.models.checkpoint import open_checkpoint

    name = str(name)
    if device is not None and device_map is not None:
        raise ModelError(
            "one of device and device_map", "both", "Leave out device to use several GPUs."
        )
    device, resolved = resolve(device, dtype)
    options = {"heads": heads, "revision": revision, "device_map": device_map}
    if is_frozen(name):
        _refuse(options, name)
        place = folder_of(name)
        return frozen.load(name, place, device=device, dtype=resolved, date=date or None)
    checkpoint = open_checkpoint(folder_of(name, revision), name)
    layout = layout_of(checkpoint)
    placed = device_map or {"": device}
    return layout.load(
        checkpoint, dtype=resolved, device_map=placed, heads=heads, date=date or None
    )


def is_frozen(name: str) -> bool:
    """Does it name heads on the embedded backbone? Others are released checkpoints."""
    return name in EMBEDDED or is_folder_of_heads(Path(name))


def folder_of(name: str, revision: str | None = None) -> Path:
    """Where a model's files lie, fetched from the hub if need be; raises as ``load_model``."""
    from lib.models.checkpoint import download

    if name in EMBEDDED:
        return paths.embedded(name)
    if is_folder(Path(name)):
        _refuse({"revision": revision}, name)
        return Path(name)
    if HUB_ID.fullmatch(name):
        return download(name, revision)
    raise unknown("model, or a folder or hub id of one", name, EMBEDDED, ModelError)


def layout_of(checkpoint):
    """The class, a ``lib.models.linear.Released``, that reads a released checkpoint."""
    from lib.models.armorm import ArmoRM
    from lib.models.classifier import Classifier
    from lib.models.sarm import SARM

    return next(layout for layout in (ArmoRM, SARM, Classifier) if layout.fits(checkpoint))


def _refuse(options: Mapping, name: str) -> None:
    given = [option for option, value in options.items() if value is not None]
    if given:
        raise ModelError(
            f"options that apply to {name}", ", ".join(given), "Leave them out for this model."
        )


def resolve(device: str | None, dtype: str | None):
    """A device and a dtype that go together, from names that may be ``None``.

    Raises
    ------
    ModelError
        For an unknown device or dtype, a device that this machine lacks, or a dtype that it
        doesn't compute in.
    """
    import torch

    if dtype not in (None, *DTYPES):
        raise unknown("dtype", dtype, DTYPES, ModelError)
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    device = str(device)
    if not DEVICE.fullmatch(device):
        raise unknown("device", device, ("cpu", "cuda", "cuda:0", "mps"), ModelError)
    kind, _, index = device.partition(":")
    if kind == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if int(index or 0) >= count:
            found = f"{count} (numbered from 0)" if count else "none"
            raise ModelError(f"a GPU for device {device!r}", found, "Use device='cpu'.")
    if kind == "mps" and not torch.backends.mps.is_available():
        raise ModelError("an Apple GPU for device 'mps'", "none", "Use device='cpu'.")
    if kind == "cpu" and dtype == "float16":
        raise ModelError(
            "a dtype that this CPU computes in", "float16", "Use 'float32' or 'bfloat16'."
        )
    return device, getattr(torch, dtype or "float32")
