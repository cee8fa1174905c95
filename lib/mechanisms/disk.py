"""Effects on disk: a folder of ``effects.json`` and ``effects.safetensors``, without text.

Written and read as runs are (``lib.extraction.disk``): by rename, with a checksum of both.
What is large and read off a picture is kept in half precision (``HALF``: to one part in two
thousand), the rest as it is.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import xarray as xr
from safetensors import SafetensorError

from lib import documents
from lib.effects import ATTRS, COORDS, SCHEMA, check
from lib.errors import StoreError
from lib.extraction import disk
from lib.run import UNSCORED, texts

FORMAT = 1
NAMES = ("effects.json", "effects.safetensors")
WHAT = "effects"
HALF = ("part_raw", "lens_raw", "attention_part", "effect", "direct")
MAKE = "python -m lib explain MODEL DATASET --out FOLDER"


def check_target(folder: str | Path) -> Path:
    """Where ``save_effects`` would write; ask before a model runs for long.

    Raises
    ------
    StoreError
        When the path or one above it is a file, or the folder holds anything but effects.
    """
    return disk.target_of(folder, NAMES, WHAT)


def save_effects(effects: xr.Dataset, folder: str | Path) -> Path:
    """Write effects by rename: the folder is whole or not there.

    Raises
    ------
    StoreError
        When they break the schema, the folder holds something else, or the disk is full or
        can't be written; what was in the folder is then still there.
    """
    check(effects)
    target = check_target(folder)
    tensors, strings = {}, {}
    for name in [*COORDS, *SCHEMA]:
        if name not in effects.variables:
            continue
        values = effects[name].values
        if values.dtype.kind == "U":
            strings[name] = values.tolist()
        elif values.dtype.kind == "f":
            tensors[name] = np.ascontiguousarray(_halved(name, values))
        else:
            tensors[name] = np.ascontiguousarray(values, np.int32)
    sizes = {dim: size for dim, size in effects.sizes.items()}
    document = {"format": FORMAT, "sizes": sizes, "attrs": effects.attrs, "strings": strings}
    text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    try:
        disk.write(target, NAMES, text, tensors)
    except (OSError, SafetensorError) as error:
        raise StoreError(
            f"room to write effects in {folder}",
            str(error),
            "Free some disk, or name another folder; older effects there are untouched.",
        ) from None
    return Path(folder)


def _halved(name: str, values: np.ndarray) -> np.ndarray:
    if name in HALF and np.abs(values).max(initial=0.0) <= np.finfo(np.float16).max:
        return values.astype(np.float16)
    return values.astype(np.float32)


def load_effects(folder: str | Path) -> xr.Dataset:
    """Read what ``save_effects`` wrote.

    Raises
    ------
    StoreError
        When the folder holds no effects, damaged ones, or those of another format.
    """
    effects = disk.read(folder, NAMES, WHAT, FORMAT, _assemble, MAKE)
    told = {"what": f"the effects in {folder}", "error": StoreError, "remedy": disk.AGAIN}
    documents.check_fields(effects.attrs, ATTRS | UNSCORED, **told)
    return check(effects)


def _assemble(document: dict, tensors: dict[str, np.ndarray]) -> xr.Dataset:
    strings, sizes = document["strings"], document["sizes"]

    def read(name: str, kind: str, dims: tuple[str, ...]):
        shape = tuple(sizes[dim] for dim in dims)
        if kind == "U":
            return dims, texts(strings[name]).reshape(shape)
        return dims, tensors[name].astype(np.float32 if kind == "f" else np.int64).reshape(shape)

    variables = {
        name: read(name, kind, dims)
        for name, (dims, kind, _) in SCHEMA.items()
        if name in strings or name in tensors
    }
    coords = {name: read(name, kind, (name,)) for name, kind in COORDS.items()}
    return xr.Dataset(variables, coords, document["attrs"])
