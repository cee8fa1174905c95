"""Is a run still what a model at hand makes of the items at hand? Found out by doing some again.

``verify`` tokenises all of a run's items and scores a few; ``stamp`` writes the identity of
the model that this was found of into the run, whose numbers stay as they are.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import xarray as xr

from lib.data.items import Items
from lib.errors import StoreError
from lib.extraction import attention, disk
from lib.extraction.forward import forward
from lib.models import identity
from lib.models.prompt import RenderError

TOLERANCE = 1e-4  # of a head's or a layer's standard deviation over the run, in float32
LAYERS = "layer_hidden"


def verify(
    run: xr.Dataset, model, items: Items, *, n: int = 8, seed: int = 0
) -> dict[str, int | float]:
    """Compare a run with what a model, in float32, makes of its items now.

    All of the run's items are tokenised, and ``n`` of them scored, a seeded sample of the
    shorter half; where the run keeps states of every layer for all responses, those are
    compared, too. The items are those that the run was made from, or more.

    Returns
    -------
    dict
        ``items`` (tokenised), ``responses`` (of those scored), ``largest`` (difference of a
        score, in standard deviations of its head).

    Raises
    ------
    StoreError
        When texts, heads, numbers of tokens or scores are others, naming which.
    """

    def differ(what: str, found: str) -> StoreError:
        of = f"{run.attrs['model']} on {run.attrs['dataset']}"
        return StoreError(f"{what} in the run of {of}", found, "Extract it again.")

    kept = items.select(items.prompts["item"].astype(str).isin(run["item"].values).to_numpy())
    if kept.fingerprint != run.attrs["items"]:
        raise differ("the items at hand", f"others (fingerprint {kept.fingerprint})")
    if [head.name for head in model.heads] != run["head"].values.tolist():
        raise differ(f"the heads of {model.name}", "others")
    owner = kept.item_of_response
    encoded = model.format.encode_many(kept.prompts["prompt"], kept.answers)
    if refused := [found for found in encoded if isinstance(found, RenderError)]:
        raise differ(
            f"items that the template of {model.name} renders", f"{len(refused)}: {refused[0]}"
        )
    prompt = np.asarray([item.n_prompt for item in encoded])
    whole = np.asarray([len(ids) for item in encoded for ids in item.sequences])
    tokens = {"n_prompt_tokens": prompt, "n_response_tokens": whole - prompt[owner]}
    for name, found in tokens.items():
        if (wrong := int((run[name].values != found).sum())) or len(found) != len(run[name]):
            raise differ(f"the {name} of {model.name}", f"{wrong} others")
    length = np.bincount(owner, whole)
    shorter = np.flatnonzero(length <= np.median(length))
    rng = np.random.default_rng(seed)
    sample = np.sort(rng.permutation(shorter)[:n])
    taps = ("layers",) if LAYERS in run and bool(run[LAYERS].notnull().all()) else ()
    scored = np.isin(owner, sample)
    # As the run was computed. Whether trees suit the model is asked of its scores below.
    packing = run.attrs["extraction"]["packing"]
    kernel = attention.BRANCHING if packing == "trees" else None
    states = forward(
        model.backbone, [encoded[i] for i in sample], packing=packing, kernel=kernel, taps=taps
    )
    gates = states.gate_hidden[np.searchsorted(sample, owner[scored])] if model.gated else None
    again = {"score": model.read(states.hidden, gates).score, **states.taps}
    compared = {"score": "head"} | ({LAYERS: "layer"} if taps else {})
    largest = dict.fromkeys(compared, 0.0)
    for name, each in compared.items():
        before = run[name]
        spread = before.std([dim for dim in before.dims if dim != each]).values
        spread[spread == 0] = 1.0  # of what doesn't vary the difference itself
        apart = np.abs(again[name] - before.values[scored])
        apart = np.moveaxis(apart, before.dims.index(each), -1) / spread
        if not (most := float(apart.max())) <= TOLERANCE:
            raise differ(
                f"{name} within {TOLERANCE:g} sd of a {each}", f"a difference of {most:.2g} sd"
            )
        largest[name] = most
    return {"items": len(kept), "responses": int(scored.sum()), "largest": largest["score"]}


def stamp(folder: str | Path, run: xr.Dataset, model, found: dict[str, int | float]) -> None:
    """Write into a run on disk which model ``verify`` found it to be of; its tensors stay."""
    verified = {
        "items": found["items"],
        "responses": found["responses"],
        "within": TOLERANCE,
        **identity.versions(),
    }
    attrs = {**run.attrs, "fingerprint": model.fingerprint, "verified": verified}
    disk.save_run(run.assign_attrs(attrs), folder)
