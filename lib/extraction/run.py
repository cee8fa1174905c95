"""The Run: everything a page needs from one pass of a model over a dataset, without text.

An ``xarray.Dataset``. Every page, statistic and chart stands on this schema:

=====================  ====================  =======  ====================================
variable               dims                  dtype    content
=====================  ====================  =======  ====================================
``score``              response, head        float32  head scores
``final``              response              float32  the model's one score (if it has one)
``gate``               item, head            float32  coefficients in ``final`` (if gated)
``hidden``             response, feature     float32  state at the response's last token;
                                                      NaN rows where it was not kept
``gate_hidden``        item, feature         float32  state at the prompt's end; likewise
``layer_hidden``       response, layer,      float32  with the tap ``layers``: residual stream
                       feature                        at the last token, into the first layer
                                                      and out of each; likewise
``neuron_mean``        response, mlp,        float32  with the tap ``neurons``: activation in
                       neuron                         each layer's MLP, mean over the tokens
                                                      of prompt and response; likewise
``item_of_response``   response              int64    position along ``item``
``slot``               response              int64    place within the item
``prompt_hash``        item                  str      identifies the prompt
``n_prompt_tokens``    item                  int64    with the header that opens a response
``n_response_tokens``  response              int64    from there to the token that is read
``n_chars``            response              int64    characters of the response
``better``, ``worse``  comparison            int64    labels of ``response``
``criterion``          comparison            str      what the choice was made by
``subset``             comparison            str      part of the dataset
``head_source``        head                  str      where the head's name comes from
``head_concept``       head                  str      what it claims to measure, or ""
=====================  ====================  =======  ====================================

``head`` (names), ``item`` (the dataset's ids) and ``response`` (row numbers of the
``items.responses`` that were given to ``extract``) are labelled coordinates, so a run whose
items were filtered still matches ``items.comparisons``. ``attrs`` holds plain JSON:
``model``, ``dataset``, ``items`` (their fingerprint), ``fingerprint`` (of the model's parts),
``dropped`` (reason → count), ``unscored`` (reason → ids of those items that this model can't
score; missing from older runs), ``missing``, ``about``, ``extraction`` (dtype, device,
packing, attention, and where it happened why packing fell back and what memory had room for),
``versions``, ``template_example``.

On disk a run is a folder of ``run.json`` and ``run.safetensors``, which holds a checksum of
both; no pickle anywhere.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
from safetensors import SafetensorError

from lib.errors import DataError, ParameterError, StoreError
from lib.extraction import sealed

FORMAT = 2
TRAINED = "prompt that a head was trained on"  # a reason in ``dropped``
JSON, TENSORS = "run.json", "run.safetensors"

# name → (dims, dtype kind, required)
SCHEMA: dict[str, tuple[tuple[str, ...], str, bool]] = {
    "score": (("response", "head"), "f", True),
    "final": (("response",), "f", False),
    "gate": (("item", "head"), "f", False),
    "hidden": (("response", "feature"), "f", True),
    "gate_hidden": (("item", "feature"), "f", True),
    "layer_hidden": (("response", "layer", "feature"), "f", False),
    "neuron_mean": (("response", "mlp", "neuron"), "f", False),
    "item_of_response": (("response",), "i", True),
    "slot": (("response",), "i", True),
    "prompt_hash": (("item",), "U", True),
    "n_prompt_tokens": (("item",), "i", True),
    "n_response_tokens": (("response",), "i", True),
    "n_chars": (("response",), "i", True),
    "better": (("comparison",), "i", True),
    "worse": (("comparison",), "i", True),
    "criterion": (("comparison",), "U", True),
    "subset": (("comparison",), "U", True),
    "head_source": (("head",), "U", True),
    "head_concept": (("head",), "U", True),
}
# Large: a run may be saved with those of some items only.
STATES = ("hidden", "gate_hidden", "layer_hidden", "neuron_mean")
COORDS = {"head": "U", "item": "U", "response": "i"}
ATTRS = (
    "model",
    "dataset",
    "items",
    "fingerprint",
    "dropped",
    "missing",
    "about",
    "extraction",
    "versions",
    "template_example",
)


def check(run: xr.Dataset) -> xr.Dataset:
    """The run itself, when it follows the schema.

    Raises
    ------
    StoreError
        Naming the variable, dims or attribute that doesn't.
    """

    def wrong(needed, found):
        return StoreError(needed, found, "Extract the run again.")

    for name, (dims, kind, required) in SCHEMA.items():
        if name not in run:
            if required:
                raise wrong(f"variable {name!r} in a run", "none")
            continue
        if run[name].dims != dims or run[name].dtype.kind != kind:
            raise wrong(
                f"{name!r} with dims {dims} of kind {kind!r}",
                f"dims {run[name].dims} of kind {run[name].dtype.kind!r}",
            )
    for name in COORDS:
        if name not in run.coords:
            raise wrong(f"coordinate {name!r} in a run", "none")
    for name in ATTRS:
        if name not in run.attrs:
            raise wrong(f"attribute {name!r} of a run", "none")
    for side in ("better", "worse"):
        if not np.isin(run[side].values, run["response"].values).all():
            raise wrong(f"{side!r} among the run's responses", "others")
    return run


def comparisons(run: xr.Dataset) -> pd.DataFrame:
    """The run's comparisons as a table: item, better, worse, criterion, subset."""
    columns = ("better", "worse", "criterion", "subset")
    table = pd.DataFrame({column: run[column].values for column in columns})
    position = run.indexes["response"].get_indexer(table["better"])
    table.insert(0, "item", run["item"].values[run["item_of_response"].values[position]])
    return table


@dataclass(frozen=True)
class Aligned:
    """Comparisons as positions along a run.

    Attributes
    ----------
    better, worse
        Positions along ``response``, shape (comparisons,).
    prompt
        An integer for the prompt of each comparison, the unit that was sampled; items that
        share a prompt text share it. From 0, without gaps.
    criterion, subset
        Strings, shape (comparisons,).
    """

    better: np.ndarray
    worse: np.ndarray
    prompt: np.ndarray
    criterion: np.ndarray
    subset: np.ndarray

    def __len__(self) -> int:
        return len(self.better)


def align(run: xr.Dataset, table: pd.DataFrame | None = None) -> Aligned:
    """Comparisons of a table that the run has scores for.

    Parameters
    ----------
    run
        Follows the schema.
    table
        With columns better and worse (labels of ``response``), criterion and subset, as in
        ``items.comparisons``; the run's own by default. Comparisons of items that the run
        left out are left out.

    Raises
    ------
    DataError
        When the table belongs to other items, or the run holds none of its items.
    """
    if table is None:
        table = comparisons(run)
    index = run.indexes["response"]
    better, worse = index.get_indexer(table["better"]), index.get_indexer(table["worse"])
    given = len(table)
    known = (better >= 0) & (worse >= 0)
    better, worse, table = better[known], worse[known], table[known]
    owner = run["item_of_response"].values
    foreign = owner[better] != owner[worse]
    if "item" in table:
        foreign |= run["item"].values[owner[better]] != table["item"].astype(str).to_numpy()
    if foreign.any() or (given and not known.any()):
        raise DataError(
            f"comparisons of the items that the run of {run.attrs['dataset']} holds",
            f"{int(foreign.sum()) or given} of other items",
            "Give the comparisons of the items that were extracted, or none.",
        )
    _, prompt = np.unique(run["prompt_hash"].values[owner[better]], return_inverse=True)
    return Aligned(
        better,
        worse,
        prompt,
        table["criterion"].to_numpy(np.str_),
        table["subset"].to_numpy(np.str_),
    )


def pool(runs: Sequence[xr.Dataset]) -> xr.Dataset:
    """Several runs of one model as one, for questions across datasets.

    Parameters
    ----------
    runs
        Of one model and of different datasets, at least one.

    Returns
    -------
    xarray.Dataset
        A Run. Items are named ``dataset: item``. A run with a single subset has its dataset
        for one, others have ``dataset/subset``, so that each part keeps its rows; items of
        several datasets that share a prompt share its hash, so they are one prompt still.
        Variables that not all runs have are left out. A single run is given back as it is.

    Raises
    ------
    DataError
        Without runs, for runs of different models or heads, or when a dataset is given twice.
    """
    runs = list(runs)
    if not runs:
        raise DataError("at least one run", "none", "Name the folders of runs.")
    if len(runs) == 1:
        return runs[0]
    _poolable(runs)
    shared = {name for name in SCHEMA if all(name in run for run in runs)}
    parts, item, response = [], 0, 0
    for run in runs:
        dataset = run.attrs["dataset"]
        part = run[sorted(shared)].assign_coords(
            item=np.asarray([f"{dataset}: {name}" for name in run["item"].values], np.str_),
            response=run["response"].values + response,
        )
        subsets = run["subset"].values
        several = len(np.unique(subsets)) > 1
        named = [f"{dataset}/{subset}" if several else dataset for subset in subsets]
        part["subset"] = ("comparison", np.asarray(named, np.str_))
        for name, shift in (("better", response), ("worse", response), ("item_of_response", item)):
            part[name] = part[name] + shift
        parts.append(part)
        item += run.sizes["item"]
        response += int(run["response"].values.max(initial=-1)) + 1
    variables = {
        name: (dims, np.concatenate([part[name].values for part in parts]))
        if dims[0] != "head"
        else (dims, parts[0][name].values)
        for name, (dims, _, _) in SCHEMA.items()
        if name in shared
    }
    coords = {
        name: np.concatenate([p[name].values for p in parts]) for name in ("item", "response")
    }
    coords["head"] = runs[0]["head"].values
    return check(xr.Dataset(variables, coords, _pooled_attrs(runs)))


def _poolable(runs: Sequence[xr.Dataset]) -> None:
    one = runs[0]
    names = [run.attrs["dataset"] for run in runs]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise DataError("each dataset once", f"{twice[0]} twice", "Leave one of the runs out.")
    for run in runs[1:]:
        for what in ("model", "fingerprint"):
            if run.attrs[what] != one.attrs[what]:
                raise DataError(
                    f"runs of one model ({what} {one.attrs[what]})",
                    f"{run.attrs[what]} in the run of {run.attrs['dataset']}",
                    "Pool one model's runs at a time; extract older ones again.",
                )
        same = run["head"].values.tolist() == one["head"].values.tolist()
        if not same or run.sizes["feature"] != one.sizes["feature"]:
            raise DataError(
                "runs with the same heads and features",
                f"others in the run of {run.attrs['dataset']}",
                "Extract them with the same model.",
            )


def _pooled_attrs(runs: Sequence[xr.Dataset]) -> dict:
    each = [run.attrs for run in runs]
    names = [attrs["dataset"] for attrs in each]
    # Concepts of comparisons go by the family that a dataset's name begins with.
    one_family = len({name.split("/")[0] for name in names}) == 1
    dropped: dict[str, int] = {}
    for attrs in each:
        for reason, count in attrs["dropped"].items():
            dropped[reason] = dropped.get(reason, 0) + count
    unscored: dict[str, list[str]] = {}
    for attrs in each:
        for reason, ids in attrs.get("unscored", {}).items():
            unscored.setdefault(reason, []).extend(f"{attrs['dataset']}: {i}" for i in ids)
    return {
        "model": each[0]["model"],
        "dataset": ("" if one_family else "pooled: ") + " + ".join(names),
        "items": "+".join(attrs["items"] for attrs in each),
        "fingerprint": each[0]["fingerprint"],
        "dropped": dropped,
        "unscored": unscored,
        "missing": [f"{a['dataset']}: {name}" for a in each for name in a["missing"]],
        "about": joined([attrs["about"] for attrs in each]),
        "extraction": joined([attrs["extraction"] for attrs in each]),
        "versions": joined([attrs["versions"] for attrs in each]),
        "template_example": each[0]["template_example"],
    }


def joined(mappings: Sequence[dict]) -> dict:
    """One mapping; where values differ, all of them as text."""
    found = {}
    for key in dict.fromkeys(key for mapping in mappings for key in mapping):
        values = [mapping[key] for mapping in mappings if key in mapping]
        same = all(value == values[0] for value in values)
        found[key] = values[0] if same else "; ".join(dict.fromkeys(map(str, values)))
    return found


def check_states(states: int | None) -> None:
    """Raise a ``ParameterError`` for a negative number of items whose states are kept."""
    if states is not None and states < 0:
        raise ParameterError(
            "a number of items whose hidden states are kept, 0 or more",
            f"states={states}",
            "Leave states out to keep all.",
        )


def check_target(folder: str | Path, states: int | None = None) -> Path:
    """Where ``save_run`` would write, if it may; ask before a model runs for hours.

    Parameters
    ----------
    folder, states
        As for ``save_run``.

    Returns
    -------
    Path
        The folder with symlinks resolved.

    Raises
    ------
    StoreError
        When the path or one above it is a file, or the folder holds anything but a run.
    ParameterError
        When ``states`` is negative.
    """
    check_states(states)

    def refused(found):
        return StoreError(
            f"a new folder, an empty one, or one with a run alone, at {folder}",
            found,
            "Name another folder; nothing in this one was changed.",
        )

    try:
        target = Path(folder).resolve()
        there = next(path for path in (target, *target.parents) if path.exists())
        if not there.is_dir():
            raise refused(f"a file, {there}")
        others = _others(target) if there == target else []
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of symlinks
        raise refused(str(error)) from None
    if others:
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        raise refused(f"{', '.join(others[:3])}{more}")
    return target


def _others(folder: Path) -> list[str]:
    """Names in the folder that are no part of a run."""
    return sorted(
        path.name
        for path in folder.iterdir()
        if path.name not in (JSON, TENSORS) or path.is_symlink() or not path.is_file()
    )


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
    states
        Keep hidden states, and what was tapped, of a seeded sample of this many items;
        ``None`` for all.
    seed
        Of that sample.

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
        elif name in STATES:
            rows = kept[name]
            tensors[f"{name}.rows"] = rows.astype(np.int32)
            tensors[name] = np.ascontiguousarray(values[rows], np.float32)
        elif values.dtype.kind == "f":
            tensors[name] = np.ascontiguousarray(values, np.float32)
        else:
            tensors[name] = np.ascontiguousarray(values, np.int32)
    document = {
        "format": FORMAT,
        "sizes": dict(run.sizes),
        "attrs": run.attrs,
        "strings": strings,
    }
    text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    try:
        _write(target, text, tensors)
    except (OSError, SafetensorError) as error:
        raise StoreError(
            f"room to write a run in {folder}",
            str(error),
            "Free some disk, or name another folder; an older run there is untouched.",
        ) from None
    return folder


def _write(folder: Path, text: str, tensors: dict[str, np.ndarray]) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f"{folder.name}.partial-"))
    try:
        (partial / JSON).write_bytes(text.encode())
        sealed.save(partial / TENSORS, tensors, **{JSON: _sha256(text.encode())})
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
                for name in (JSON, TENSORS):
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


def load_run(folder: str | Path) -> xr.Dataset:
    """Read a run that ``save_run`` or ``extract_stream`` wrote.

    Raises
    ------
    StoreError
        When the folder holds no run, a damaged one, or one of another format.
    """
    from lib.extraction import stream

    folder = Path(folder)
    if stream.is_stream(folder):
        return stream.load(folder)
    if not (folder / JSON).is_file() or not (folder / TENSORS).is_file():
        raise StoreError(
            f"a run ({JSON} and {TENSORS}) in {folder}",
            "none",
            "Make one: python -m lib extract --model MODEL --dataset DATASET --out FOLDER",
        )
    try:
        content = (folder / JSON).read_bytes()
        document = json.loads(content)
    except (OSError, ValueError) as error:
        raise _damaged(folder, error) from None
    found = document.get("format") if isinstance(document, dict) else None
    if found != FORMAT:
        raise StoreError(
            f"a run of format {FORMAT} in {folder}",
            f"format {found!r}",
            "Extract it again with this version.",
        )
    try:
        tensors, strings = sealed.load(folder / TENSORS)
    except (OSError, SafetensorError) as error:
        raise _damaged(folder, error) from None
    if strings.get(JSON) != _sha256(content):
        raise _damaged(folder, f"a {JSON} that doesn't match its checksum")
    try:
        run = _assemble(document, tensors)
    except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
        raise _damaged(folder, error) from None
    return check(run)


def _damaged(folder: Path, error: Exception | str) -> StoreError:
    found = f"no {error}" if isinstance(error, KeyError) else f"{error}"
    return StoreError(f"a whole run in {folder}", found, "Delete the folder and extract again.")


def _assemble(document: dict, tensors: dict[str, np.ndarray]) -> xr.Dataset:
    sizes, strings = document["sizes"], document["strings"]
    variables = {}
    for name, (dims, kind, _) in SCHEMA.items():
        shape = tuple(sizes[dim] for dim in dims) if all(d in sizes for d in dims) else ()
        if name in strings:
            variables[name] = (dims, np.asarray(strings[name], dtype=np.str_).reshape(shape))
        elif f"{name}.rows" in tensors:
            values = np.full(shape, np.nan, np.float32)
            values[tensors[f"{name}.rows"]] = tensors[name]
            variables[name] = (dims, values)
        elif name in tensors:
            values = tensors[name]
            variables[name] = (dims, values.astype(np.int64) if kind == "i" else values)
    coords = {
        name: np.asarray(strings[name], np.str_) if kind == "U" else tensors[name].astype(np.int64)
        for name, kind in COORDS.items()
    }
    return xr.Dataset(variables, coords, document["attrs"])
