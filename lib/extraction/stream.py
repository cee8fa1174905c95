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
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from lib import documents
from lib import run as runs
from lib.data.items import Items
from lib.errors import DataError, StoreError
from lib.extraction import disk, folders, lazy, scoring
from lib.extraction.job import NothingToScoreError

INDEX = "parts.json"
JOINED = ("extraction", "versions", "about")
LOCK = ".stream.lock"
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
    folder = Path(folder)
    disk.check_states(states)
    with folders.held(folder / LOCK, _refuse_foreign):
        for left in folder.glob("part*.partial-*"):  # of a killed process
            shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink()
        known = dict(model.fingerprint)
        notes = [
            _part(model, known, items, folder, number, states, options)
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
    return folder


def _part(
    model, known: dict, items: Items, folder: Path, number: int, states, options
) -> dict[str, Any]:
    """Extract one piece, unless it is there; what it was made from and what came of it."""
    from lib.models.identity import versions

    name = PART.format(number)
    # Other options change nothing of what is kept.
    matters = {"packing": "trees", "held_out": True, "taps": ()} | options
    made = {
        "given": items.fingerprint,
        "model": known,
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
        if differ := [key for key in made if note.get(key) != made[key]]:
            raise StoreError(
                f"parts of this stream and model in {folder}",
                f"{name} with another {', '.join(differ)}",
                "Name another folder, or delete this one.",
            )
        if not note["items"] or (folder / name / disk.JSON).is_file():
            shutil.rmtree(scratch, ignore_errors=True)
            return note
    try:
        run = scoring.extract(model, items, store=scratch, fingerprint=known, **options)
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
    folders.write(path, json.dumps(document, indent=1, sort_keys=True) + "\n")


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
    """An error for a folder that holds other things than parts of a stream."""
    others = [path.name for path in folder.iterdir() if not OURS.fullmatch(path.name)]
    if others:
        raise folders.foreign(
            f"a new folder, an empty one, or one of this stream, at {folder}",
            folders.listed(others),
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
    if count < 1:
        raise StoreError(f"a number of parts in {folder / INDEX}", f"{count!r}", "Extract again.")
    held: dict[str, list] = defaultdict(list)  # by variable, of each part: values, or a piece
    notes, attrs, dropped = [], [], Counter()
    rows = items = 0
    for path in (folder / PART.format(number) for number in range(count)):
        note = _note(path.with_suffix(".json"))
        notes.append(note)
        dropped.update(note["dropped"])
        if note["items"]:
            run = disk.load(path)
            _check_counts(note, run, path)
            attrs.append(run.attrs)
            # Rows of the whole set's responses, positions among the whole run's items.
            shift = {"response": rows, "better": rows, "worse": rows, "item_of_response": items}
            run = run.drop_vars([name for name in runs.RATINGS if name in run])
            for name in run.variables:
                if name in ON_DISK:
                    held[name].append(lazy.piece(path / disk.TENSORS, name, len(run[name])))
                else:
                    values = run[name].values
                    held[name].append(values + shift[name] if name in shift else values)
            items += run.sizes["item"]
            like = run.isel(response=slice(0), item=slice(0)).copy(deep=True)
            del run  # before the next is in memory
        rows += note["responses"]
    about = {
        **attrs[0],
        **{key: runs.joined([a[key] for a in attrs]) for key in JOINED},
        "items": hashlib.sha256("".join(a["items"] for a in attrs).encode()).hexdigest()[:16],
        "dropped": dict(dropped),
        "missing": sorted({name for a in attrs for name in a["missing"]}),
    }
    if all("unscored" in note for note in notes):  # else these would be a part of them
        about["unscored"] = runs.by_reason(note["unscored"] for note in notes)
    return runs.check(_whole(held, like, about))


def _check_counts(note: Mapping[str, Any], run: xr.Dataset, path: Path) -> None:
    """The positions of what follows are counted by the note: it must be of this part."""
    last = int(run["response"].max())
    if note["items"] != run.sizes["item"] or note["responses"] <= last:
        raise StoreError(
            f"a note of the {run.sizes['item']} items in {path}, and of a response {last}",
            f"{note['items']} items, {note['responses']} responses",
            "Delete it: the part is made again.",
        )


def _whole(held: Mapping[str, list], like: xr.Dataset, attrs: dict) -> xr.Dataset:
    variables = {}
    for name, parts in held.items():
        dims = like[name].dims
        if name in ON_DISK:
            variables[name] = lazy.variable(dims, parts, like[name].shape[1:])
        else:
            same = dims[0] in ("head", "feature", "layer", "neuron")
            variables[name] = (dims, parts[0] if same else np.concatenate(parts))
    coords = {name: variables.pop(name) for name in list(variables) if name in like.coords}
    return xr.Dataset(variables, coords, attrs)
