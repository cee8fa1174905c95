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
``write``              response, component,  float32  with the tap ``writes``: what each part
                       feature                        adds to the residual stream; likewise
``attended``           response, attention,  float32  with the tap ``attended``: outputs of the
                       attended_feature               attention heads, side by side; likewise
``traced``             response, traced_row, float32  of ``lib.mechanisms.tracing``: what its
                       head                           tap makes of the writes; likewise
``head_traced``        response, layer_head, float32  likewise, of the attention heads
                       head
``item_of_response``   response              int64    position along ``item``
``slot``               response              int64    place within the item
``prompt_hash``        item                  str      identifies the prompt
``n_prompt_tokens``    item                  int64    with the header that opens a response
``n_response_tokens``  response              int64    from there to the token that is read
``n_chars``            response              int64    characters of the response
``better``, ``worse``  comparison            int64    labels of ``response``
``criterion``          comparison            str      what the choice was made by
``subset``             comparison            str      part of the dataset
``rating``             response, attribute   float32  of data whose responses are rated, what
                                                      they got; NaN for none
``attribute_name``     attribute             str      what was rated
``head_source``        head                  str      where the head's name comes from
``head_concept``       head                  str      what it claims to measure, or ""
=====================  ====================  =======  ====================================

``head`` (names), ``item`` (the dataset's ids) and ``response`` (row numbers of the
``items.responses`` that were given to ``extract``) are labelled coordinates, so a run whose
items were filtered still matches ``items.comparisons``. ``attrs`` holds plain JSON:
``model``, ``dataset``, ``items`` (their fingerprint), ``fingerprint`` (of the model's parts),
``dropped`` (reason → count), ``unscored`` (reason → ids of those items that this model can't
score; missing from older runs), ``missing``, ``about``, ``extraction`` (dtype, device,
packing, attention, which token is read, and where it happened why packing or attention fell
back and what memory had room for), ``versions``, ``template_example``, and of a run whose
fingerprint was found out afterwards ``verified`` (how many items were tokenised again and
responses scored, how near, with which versions).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from lib.documents import first_repeated
from lib.errors import DataError, StoreError

TRAINED = "prompt that a head was trained on"  # a reason in ``dropped``
IDENTICAL = "comparisons of identical tokens"  # one that counts no items

# name → (dims, dtype kind, required)
SCHEMA: dict[str, tuple[tuple[str, ...], str, bool]] = {
    "score": (("response", "head"), "f", True),
    "final": (("response",), "f", False),
    "gate": (("item", "head"), "f", False),
    "hidden": (("response", "feature"), "f", True),
    "gate_hidden": (("item", "feature"), "f", True),
    "layer_hidden": (("response", "layer", "feature"), "f", False),
    "neuron_mean": (("response", "mlp", "neuron"), "f", False),
    "write": (("response", "component", "feature"), "f", False),
    "attended": (("response", "attention", "attended_feature"), "f", False),
    "traced": (("response", "traced_row", "head"), "f", False),
    "head_traced": (("response", "layer_head", "head"), "f", False),
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
    "rating": (("response", "attribute"), "f", False),
    "attribute_name": (("attribute",), "U", False),
    "head_source": (("head",), "U", True),
    "head_concept": (("head",), "U", True),
}
# Large: a run may be saved with those of some items only.
STATES = ("hidden", "gate_hidden", "layer_hidden", "neuron_mean", "write", "attended")
STATES += ("traced", "head_traced")
RATINGS = ("rating", "attribute_name")  # of one data set: neither pooled nor streamed
COORDS = {"head": "U", "item": "U", "response": "i"}
# name → type, as it is on disk
ATTRS: dict[str, Any] = {
    "model": str,
    "dataset": str,
    "items": str,
    "fingerprint": dict[str, str],
    "dropped": dict[str, int],
    "missing": list[str],
    "about": dict[str, str],
    "extraction": dict[str, Any],
    "versions": dict[str, str],
    "template_example": str,
}
UNSCORED = {"unscored": dict[str, list[str]]}  # missing from older runs


def check(run: xr.Dataset) -> xr.Dataset:
    """The run itself, when it follows the schema.

    Raises
    ------
    StoreError
        Naming the variable, dims or attribute that doesn't, or the head or item that is
        there twice.
    """

    def wrong(needed, found):
        return StoreError(needed, found, "Extract the run again.")

    held = run.variables  # a DataArray of each takes longer than all that is asked of it
    for name, (dims, kind, required) in SCHEMA.items():
        if name not in held:
            if required:
                raise wrong(f"variable {name!r} in a run", "none")
            continue
        variable = held[name]
        if variable.dims != dims or variable.dtype.kind != kind:
            raise wrong(
                f"{name!r} with dims {dims} of kind {kind!r}",
                f"dims {variable.dims} of kind {variable.dtype.kind!r}",
            )
    for name in COORDS:
        if name not in run.coords:
            raise wrong(f"coordinate {name!r} in a run", "none")
    for name, what in (("head", "names of heads"), ("item", "ids of items")):
        twice = first_repeated(map(str, np.ravel(held[name].values).tolist()))
        if twice is not None:
            raise wrong(f"distinct {what} in a run", f"{twice[:80]!r} more than once")
    for name in ATTRS:
        if name not in run.attrs:
            raise wrong(f"attribute {name!r} of a run", "none")
    for side in ("better", "worse"):
        if not np.isin(held[side].values, held["response"].values).all():
            raise wrong(f"{side!r} among the run's responses", "others")
    return run


def texts(values: Iterable) -> np.ndarray:
    """Names as a run holds them, at a fixed width.

    Raises
    ------
    StoreError
        For a NUL: there one at the end is none, so two names would be the same.
    """
    values = list(map(str, values))
    bad = next((value for value in values if "\0" in value), None)
    if bad is not None:
        raise StoreError("names without a NUL in a run", f"{bad[:80]!r}", "Rename it.")
    return np.asarray(values, np.str_)


def comparisons(run: xr.Dataset) -> pd.DataFrame:
    """The run's comparisons as a table: item, better, worse, criterion, subset."""
    better = run["better"].values
    position = run.indexes["response"].get_indexer(better)
    columns = {"item": run["item"].values[run["item_of_response"].values[position]]}
    columns |= {name: run[name].values for name in ("better", "worse", "criterion", "subset")}
    return pd.DataFrame(columns)


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

    def gaps(self, values: np.ndarray) -> np.ndarray:
        """What the better response has more than the worse, of one value or more a response."""
        return values[self.better].astype(float) - values[self.worse].astype(float)


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
    given = run if table is None else table
    index = run.indexes["response"]
    better, worse = (index.get_indexer(given[side].to_numpy()) for side in ("better", "worse"))
    known = (better >= 0) & (worse >= 0)
    better, worse = better[known], worse[known]
    owner = run["item_of_response"].values
    foreign = owner[better] != owner[worse]
    if table is not None and "item" in table:
        foreign |= run["item"].values[owner[better]] != table["item"][known].astype(str).to_numpy()
    if foreign.any() or (len(known) and not known.any()):
        raise DataError(
            f"comparisons of the items that the run of {run.attrs['dataset']} holds",
            f"{int(foreign.sum()) or len(known)} of other items",
            "Give the comparisons of the items that were extracted, or none.",
        )
    _, prompt = np.unique(run["prompt_hash"].values[owner[better]], return_inverse=True)
    return Aligned(
        better,
        worse,
        prompt,
        given["criterion"].to_numpy()[known].astype(np.str_),
        given["subset"].to_numpy()[known].astype(np.str_),
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
        Variables that not all runs have are left out, and ratings. A single run is given back as
        it is.

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
    shared = {name for name in SCHEMA if all(name in run for run in runs)} - {*RATINGS}
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


def by_reason(parts: Iterable[Mapping[str, Iterable[str]]]) -> dict[str, list[str]]:
    """Ids of all parts' items under the reasons why those can't be scored."""
    found: dict[str, list[str]] = {}
    for part in parts:
        for reason, ids in part.items():
            found.setdefault(reason, []).extend(ids)
    return found


def _pooled_attrs(runs: Sequence[xr.Dataset]) -> dict:
    each = [run.attrs for run in runs]
    names = [attrs["dataset"] for attrs in each]
    # Concepts of comparisons go by the family that a dataset's name begins with.
    one_family = len({name.split("/")[0] for name in names}) == 1
    dropped: dict[str, int] = {}
    for attrs in each:
        for reason, count in attrs["dropped"].items():
            dropped[reason] = dropped.get(reason, 0) + count
    unscored = by_reason(
        {reason: [f"{attrs['dataset']}: {i}" for i in ids]}
        for attrs in each
        for reason, ids in attrs.get("unscored", {}).items()
    )
    known = all("unscored" in attrs for attrs in each)  # else these would be a part of them
    return {
        "model": each[0]["model"],
        "dataset": ("" if one_family else "pooled: ") + " + ".join(names),
        "items": "+".join(attrs["items"] for attrs in each),
        "fingerprint": each[0]["fingerprint"],
        "dropped": dropped,
        **({"unscored": unscored} if known else {}),
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
