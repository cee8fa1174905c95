"""Tensors on disk that say when they are no longer what was written.

A safetensors file whose metadata holds a SHA-256 of every tensor's name, type, shape and
bytes, and whatever other strings are given: one entry, since several have no fixed order.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from lib.atomic import as_others

SEAL, CHECKSUM = "seal", "sha256"


def save(path: Path, tensors: Mapping[str, np.ndarray], **strings: str) -> None:
    """Write tensors with their checksum, and strings."""
    seal = {CHECKSUM: _digest(tensors, strings), **strings}
    save_file(dict(tensors), path, {SEAL: json.dumps(seal, sort_keys=True)})
    as_others(path)


def load(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Tensors, and the strings that were saved with them.

    Raises
    ------
    OSError, SafetensorError
        When there is no such file, it is no safetensors, or it isn't as it was written.
    """
    with safe_open(path, framework="numpy") as file:
        seal = (file.metadata() or {}).get(SEAL)
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    try:
        strings = dict(json.loads(seal))
        whole = strings.pop(CHECKSUM) == _digest(tensors, strings)
    except (KeyError, TypeError, ValueError):
        whole = False
    if not whole:
        raise SafetensorError(f"{path.name} doesn't match its checksum")
    return tensors, strings


def _digest(tensors: Mapping[str, np.ndarray], strings: Mapping[str, str]) -> str:
    digest = hashlib.sha256(repr(sorted(strings.items())).encode())
    for name, array in sorted(tensors.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
