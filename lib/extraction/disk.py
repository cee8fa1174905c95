"""A run on disk: a folder of ``run.json`` and ``run.safetensors``, no pickle anywhere.

The tensors' file holds a checksum of both. ``save_run`` writes by rename, ``load`` reads one,
``check_target`` tells beforehand whether it may be written.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import xarray as xr
from safetensors import SafetensorError

from lib import documents
from lib.errors import ParameterError, StoreError
from lib.extraction import folders, sealed
from lib.run import ATTRS, COORDS, SCHEMA, STATES, UNSCORED, check, texts

FORMAT = 2
JSON, TENSORS = "run.json", "run.safetensors"
AGAIN = "Delete the folder and make it again."
DAMAGED = (AttributeError, KeyError, IndexError, OSError, SafetensorError, TypeError, ValueError)
LARGEST = 1 << 30  # bytes of a run's labels: each item has some


def check_states(states: int | None) -> None:
    """Raise a ``ParameterError`` for a negative number of items whose states are kept."""
    if states is not None and states < 0:
        raise ParameterError(
            "a number of items whose hidden states are kept, 0 or more",
            f"states={states}",
            "Leave states out to keep all.",
        )


def check_target(folder: str | Path, states: int | None = None) -> Path:
    """Where ``save_run`` would write, symlinks resolved; ask before a model runs for hours.

    Raises
    ------
    StoreError
        When the path or one above it is a file, or the folder holds anything but a run.
    ParameterError
        When ``states`` is negative.
    """
    check_states(states)
    return target_of(folder, (JSON, TENSORS), "a run")


def target_of(folder: str | Path, names: tuple[str, str], what: str) -> Path:
    """Where ``write`` may put files of these names, symlinks resolved.

    Raises
    ------
    StoreError
        When the path or one above it is a file, or the folder holds anything else.
    """
    needed = f"a new folder, an empty one, or one with {what} alone, at {folder}"
    try:
        target = Path(folder).resolve()
        there = next(path for path in (target, *target.parents) if path.exists())
        if not there.is_dir():
            raise folders.foreign(needed, f"a file, {there}")
        others = [
            path.name
            for path in (there.iterdir() if there == target else ())
            if path.name not in names or path.is_symlink() or not path.is_file()
        ]
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of symlinks
        raise folders.foreign(needed, str(error)) from None
    if others:
        raise folders.foreign(needed, folders.listed(others))
    return target


def save_run(
    run: xr.Dataset, folder: str | Path, *, states: int | None = None, seed: int = 0
) -> Path:
    """Write a run, by rename: the folder is whole or not there.

    Parameters
    ----------
    run
        Follows the schema.
    folder
        Made when it isn't there; replaced when it is empty or holds a run and nothing else.
        A symlink stays, and what it points to is written.
    states, seed
        Keep hidden states, and what was tapped, of a seeded sample of this many items;
        ``None`` for all.

    Raises
    ------
    StoreError
        When the run breaks the schema, the folder holds something else, or the disk is full
        or can't be written; what was in the folder is then still there.
    ParameterError
        When ``states`` is negative.
    """
    check(run)
    target = check_target(folder, states)
    folder = Path(folder)
    tensors, strings = {}, {}
    kept = _kept(run, states, seed)
    for name in [*COORDS, *SCHEMA]:
        if name not in run.variables:
            continue
        values = run[name].values
        if values.dtype.kind == "U":
            strings[name] = values.tolist()
            continue
        if name in kept:
            tensors[f"{name}.rows"] = kept[name].astype(np.int32)
            values = values[kept[name]]
        kind = np.float32 if values.dtype.kind == "f" else np.int32
        tensors[name] = np.ascontiguousarray(values, kind)
    document = {"format": FORMAT, "sizes": dict(run.sizes), "attrs": run.attrs}
    document["strings"] = strings
    text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    try:
        write(target, (JSON, TENSORS), text, tensors)
    except (OSError, SafetensorError) as error:
        raise StoreError(
            f"room to write a run in {folder}",
            str(error),
            "Free some disk, or name another folder; an older run there is untouched.",
        ) from None
    return folder


def write(folder: Path, names: tuple[str, str], text: str, tensors: dict[str, np.ndarray]) -> None:
    """Put a text and tensors, sealed together, into a folder by rename, with all else gone."""
    json_name, tensors_name = names
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f"{folder.name}.partial-"))
    try:
        (partial / json_name).write_bytes(text.encode())
        sealed.save(partial / tensors_name, tensors, **{json_name: _sha256(text.encode())})
        os.chmod(partial, 0o755)
        if folder.exists():
            retired = partial.with_name(partial.name + ".old")
            os.replace(folder, retired)
            try:
                os.replace(partial, folder)
            except OSError:
                os.replace(retired, folder)
                raise
            # By name: what came into the folder since it was looked at is nobody's to delete.
            with contextlib.suppress(OSError):
                for name in names:
                    (retired / name).unlink(missing_ok=True)
                retired.rmdir()
        else:
            os.replace(partial, folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _kept(run: xr.Dataset, states: int | None, seed: int) -> dict[str, np.ndarray]:
    n = run.sizes["item"]
    items = np.arange(n)
    if states is not None and states < n:
        items = np.sort(np.random.default_rng(seed).permutation(n)[:states])
    chosen = {
        "item": items,
        "response": np.flatnonzero(np.isin(run["item_of_response"].values, items)),
    }
    kept = {}
    for name in STATES:
        if name in run:
            finite = np.isfinite(run[name].values)
            present = np.flatnonzero(finite.all(axis=tuple(range(1, finite.ndim))))
            kept[name] = np.intersect1d(chosen[SCHEMA[name][0][0]], present)
    return kept


def load(folder: str | Path) -> xr.Dataset:
    """Read a run that ``save_run`` wrote.

    Raises
    ------
    StoreError
        When the folder holds no run, a damaged one, or one of another format.
    """
    make = "python -m lib extract --model MODEL --dataset DATASET --out FOLDER"
    run = read(folder, (JSON, TENSORS), "a run", FORMAT, _assemble, make)
    told = {"what": f"the run in {folder}", "error": StoreError, "remedy": AGAIN}
    documents.check_fields(run.attrs, ATTRS | UNSCORED, **told)
    return check(run)


def read(
    folder: str | Path,
    names: tuple[str, str],
    what: str,
    version: int,
    assemble: Callable[[dict, dict[str, np.ndarray]], xr.Dataset],
    make: str,
) -> xr.Dataset:
    """What ``assemble`` makes of the document and the tensors that ``write`` wrote.

    Raises
    ------
    StoreError
        When they aren't there, are damaged, or of another format than ``version``.
    """
    folder = Path(folder)
    json_name, tensors_name = names
    if not all((folder / name).is_file() for name in names):
        raise StoreError(
            f"{what} ({json_name} and {tensors_name}) in {folder}", "none", f"Make one: {make}"
        )
    try:
        content = documents.read_bytes(
            folder / json_name, what=f"{what}'s labels", error=StoreError, limit=LARGEST
        )
        document = documents.parse_json(content)
        found = document.get("format") if isinstance(document, dict) else None
        if found != version:
            raise StoreError(
                f"{what} of format {version} in {folder}",
                f"format {found!r}",
                "Make it again with this version.",
            )
        tensors, strings = sealed.load(folder / tensors_name)
        if strings.get(json_name) != _sha256(content):
            raise ValueError(f"a {json_name} that doesn't match its checksum")
        return assemble(document, tensors)
    except DAMAGED as error:
        found = f"no {error}" if isinstance(error, KeyError) else f"{error}"
        whole = what.replace("a ", "a whole ", 1) if what.startswith("a ") else f"whole {what}"
        raise StoreError(f"{whole} in {folder}", found, AGAIN) from None


def _assemble(document: dict, tensors: dict[str, np.ndarray]) -> xr.Dataset:
    sizes, strings = document["sizes"], document["strings"]
    variables = {}
    for name, (dims, kind, _) in SCHEMA.items():
        shape = tuple(sizes[dim] for dim in dims) if all(d in sizes for d in dims) else ()
        if name in strings:
            variables[name] = (dims, texts(strings[name]).reshape(shape))
        elif f"{name}.rows" in tensors:
            values = np.full(shape, np.nan, np.float32)
            values[tensors[f"{name}.rows"]] = tensors[name]
            variables[name] = (dims, values)
        elif name in tensors:
            values = tensors[name]
            variables[name] = (dims, values.astype(np.int64) if kind == "i" else values)
    coords = {
        name: texts(strings[name]) if kind == "U" else tensors[name].astype(np.int64)
        for name, kind in COORDS.items()
    }
    return xr.Dataset(variables, coords, document["attrs"])
