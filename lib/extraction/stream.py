"""Sets that don't fit in memory: extracted piece by piece, read lazily.

``extract_stream`` takes the pieces of ``lib.data.stream_items`` one at a time and keeps a
Run of each in a folder, so that memory depends on a piece's size and not on the set's. A
killed one goes on where it stopped. ``load_run`` opens the folder as a single Run: labels
and lengths in memory, scores and states on disk until they are asked for::

    folder/
        part-00000/      run.json, run.safetensors
        part-00000.json  what it was made from
        parts.json       written last: without it the folder isn't finished
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from safetensors import safe_open

from lib import documents
from lib import run as runs
from lib.atomic import replacing
from lib.data.items import Items
from lib.errors import DataError, StoreError
from lib.extraction import disk, lazy
from lib.extraction.job import NothingToScoreError

INDEX = "parts.json"
JOINED = ("extraction", "versions", "about")
PART = "part-{:05d}"
NOTE = {"items": int, "responses": int, "dropped": dict[str, int]}
OURS = re.compile(r"part-\d{5,}(\.json|\.states)?|parts\.json|\.stream\.lock|\.?part.*\.partial-.*")
ON_DISK = tuple(name for name, (_, kind, _) in runs.SCHEMA.items() if kind == "f")


def extract_stream(
    model, pieces: Iterable[Items], folder: str | Path, *, states: int | None = None, **options
) -> Path:
    """Score every response of a stream of items, in the memory that one piece needs.

    Parameters
    ----------
    model
        A ``lib.models.RewardModel``.
    pieces
        What ``stream_items`` gives.
    folder
        New, empty, or of the same stream unfinished.
    states
        Keep hidden states of a seeded sample of this many items a piece; ``None`` for all.
    options
        Of ``extract``, other than ``store``.

    Returns
    -------
    Path
        The folder, for ``load_run``.

    Raises
    ------
    StoreError
        When the folder holds something else, or parts of another stream or model.
    DataError
        When there is nothing to score.
    """
    from filelock import FileLock, Timeout

    folder = Path(folder)
    disk.check_states(states)
    _refuse_foreign(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"a folder to write at {folder}", str(error), "Name another folder."
        ) from None
    try:
        with FileLock(folder / ".stream.lock", timeout=0):
            for left in folder.glob("part*.partial-*"):  # of a killed process
                shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink()
            notes = [
                _part(model, items, folder, number, states, options)
                for number, items in enumerate(pieces)
            ]
            if (folder / f"{PART.format(len(notes))}.json").exists():
                raise StoreError(
                    f"parts of this stream alone in {folder}",
                    f"more than its {len(notes)}",
                    "Name another folder, or delete this one.",
                )
            if not any(note["items"] for note in notes):
                raise DataError("an item to score", "none in any piece", "Choose other data.")
            _write(folder / INDEX, {"format": disk.FORMAT, "parts": len(notes)})
    except Timeout:
        raise StoreError(
            f"a folder that no other process is writing ({folder})",
            "one in use",
            "Wait for the other process, or name another folder.",
        ) from None
    return folder


def _part(model, items: Items, folder: Path, number: int, states, options) -> dict[str, Any]:
    """Extract one piece, unless it is there; what it was made from and what came of it."""
    from lib import extraction
    from lib.models.identity import versions

    name = PART.format(number)
    # Other options change nothing of what is kept.
    matters = {"packing": "trees", "held_out": True, "taps": ()} | options
    made = {
        "given": items.fingerprint,
        "model": dict(model.fingerprint),
        "states": states,
        "versions": versions(),
        "options": {
            "packing": matters["packing"],
            "held_out": bool(matters["held_out"]),
            "taps": sorted(matters["taps"]),
        },
    }
    path, scratch = folder / f"{name}.json", folder / f"{name}.states"
    if path.exists():
        note = _note(path)
        if {key: note.get(key) for key in made} != made:
            differ = ", ".join(key for key in made if note.get(key) != made[key])
            raise StoreError(
                f"parts of this stream and model in {folder}",
                f"{name} with another {differ}",
                "Name another folder, or delete this one.",
            )
        if not note["items"] or (folder / name / disk.JSON).is_file():
            shutil.rmtree(scratch, ignore_errors=True)
            return note
    try:
        run = extraction.extract(model, items, store=scratch, **options)
        disk.save_run(run, folder / name, states=states, seed=number)
        scored, dropped = run.sizes["item"], run.attrs["dropped"]
        unscored = run.attrs["unscored"]
    except NothingToScoreError as nothing:
        scored, dropped, unscored = 0, nothing.dropped, nothing.unscored
    counted = {"dropped": dropped, "unscored": unscored, "responses": len(items.responses)}
    note = {**made, "items": scored, **counted}
    _write(path, note)
    shutil.rmtree(scratch, ignore_errors=True)
    return note


def _write(path: Path, document: dict) -> None:
    try:
        with replacing(path) as partial:
            partial.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")
    except OSError as error:
        raise StoreError(f"room to write {path}", str(error), "Free some disk.") from None


def _note(path: Path, fields: Mapping[str, Any] = NOTE) -> dict[str, Any]:
    told = {"error": StoreError, "remedy": "Delete it: the part is made again."}
    note = documents.read_json(
        path, what="a note of a part", limit=disk.LARGEST, fields=fields | runs.UNSCORED, **told
    )
    absent = [name for name in fields if name not in note]
    if absent:
        raise StoreError(f"{absent[0]} in the note of a part at {path}", "none", told["remedy"])
    return note


def _refuse_foreign(folder: Path) -> None:
    found = ""
    if folder.exists() and not folder.is_dir():
        found = "a file"
    elif folder.is_dir():
        others = [path.name for path in folder.iterdir() if not OURS.fullmatch(path.name)]
        found = ", ".join(sorted(others)[:3])
    if found:
        raise StoreError(
            f"a new folder, an empty one, or one of this stream, at {folder}",
            found,
            "Name another folder; nothing in this one was changed.",
        )


def is_stream(folder: str | Path) -> bool:
    """Does the folder hold a finished stream?"""
    return (Path(folder) / INDEX).is_file()


def load(folder: str | Path) -> xr.Dataset:
    """A finished stream as one Run whose scores and states are read when asked for.

    Every part's checksum is tested while it is opened, one part in memory at a time.

    Raises
    ------
    StoreError
        When a part is missing or damaged.
    """
    folder = Path(folder).resolve()  # what is read later is found from anywhere
    count = _note(folder / INDEX, {"parts": int})["parts"]
    small: dict[str, list[np.ndarray]] = {}
    pieces: dict[str, list[lazy.Piece]] = {}
    attrs: list[dict] = []
    dropped: Counter = Counter()
    unscored: list[dict[str, list[str]]] = []
    known = True  # do all parts name them?
    rows = items = 0
    for path, note in _parts(folder, count):
        dropped.update(note["dropped"])
        known &= "unscored" in note
        unscored.append(note.get("unscored", {}))
        if note["items"]:
            run = disk.load(path)
            _check_counts(note, run, path)
            attrs.append(run.attrs)
            # Rows of the whole set's responses, positions among the whole run's items.
            shift = {"response": rows, "better": rows, "worse": rows, "item_of_response": items}
            for name in run.variables:
                if name in ON_DISK:
                    pieces.setdefault(name, []).append(_piece(path, name, len(run[name])))
                else:
                    values = run[name].values
                    small.setdefault(name, []).append(
                        values + shift[name] if name in shift else values
                    )
            items += run.sizes["item"]
            like = run.isel(response=slice(0), item=slice(0)).copy(deep=True)
            del run  # before the next is in memory
        rows += note["responses"]
    left_out = {
        "dropped": dict(dropped),
        **({"unscored": runs.by_reason(unscored)} if known else {}),
    }
    return runs.check(_whole(small, pieces, like, attrs, left_out))


def _parts(folder: Path, count: int) -> Iterator[tuple[Path, dict[str, Any]]]:
    if count < 1:
        raise StoreError(f"a number of parts in {folder / INDEX}", f"{count!r}", "Extract again.")
    for number in range(count):
        yield folder / PART.format(number), _note(folder / f"{PART.format(number)}.json")


def _check_counts(note: Mapping[str, Any], run: xr.Dataset, path: Path) -> None:
    """The positions of what follows are counted by the note: it must be of this part."""
    last = int(run["response"].max())
    if note["items"] != run.sizes["item"] or note["responses"] <= last:
        raise StoreError(
            f"a note of the {run.sizes['item']} items in {path}, and of a response {last}",
            f"{note['items']} items, {note['responses']} responses",
            "Delete it: the part is made again.",
        )


def _piece(path: Path, name: str, rows: int) -> lazy.Piece:
    tensors = path / disk.TENSORS
    kept = None
    with safe_open(tensors, framework="numpy") as file:
        if f"{name}.rows" in file.keys():  # noqa: SIM118
            kept = file.get_tensor(f"{name}.rows")
    return lazy.Piece(tensors, name, rows, kept)


def _whole(small, pieces, like: xr.Dataset, attrs: list[dict], left_out: dict) -> xr.Dataset:
    variables: dict[str, Any] = {}
    for name, parts in small.items():
        dims = like[name].dims
        same = dims and dims[0] in ("head", "feature", "layer", "neuron")
        variables[name] = (dims, parts[0] if same else np.concatenate(parts))
    for name, parts in pieces.items():
        shape = (sum(piece.rows for piece in parts), *like[name].shape[1:])
        variables[name] = lazy.variable(like[name].dims, parts, shape)
    coords = {name: variables.pop(name) for name in list(variables) if name in like.coords}
    digest = hashlib.sha256("".join(a["items"] for a in attrs).encode()).hexdigest()[:16]
    about = {
        **attrs[0],
        **{key: runs.joined([a[key] for a in attrs]) for key in JOINED},
        "items": digest,
        **left_out,
        "missing": sorted({name for a in attrs for name in a["missing"]}),
    }
    return xr.Dataset(variables, coords, about)
