"""``python -m lib extract``, for the shell and for the steps of a build."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from lib import hub
from lib.errors import ModelError, ParameterError

SHARED = "Start it without the launcher, which shares the work by itself."


def score(
    model: str,
    dataset: str,
    *,
    out: str = "",
    part: tuple[int, int] | None = None,
    stream: int = 0,
    store: str | None = None,
    gather: Sequence[str] = (),
    states: int | None = None,
    taps: Sequence[str] = (),
    all_prompts: bool = False,
    device: str = "",
    dtype: str = "",
    date: str = "",
    yes: bool = False,
    **loading,
) -> None:
    """Run a model once over a dataset and keep the run in ``out``, or compute a part of its states.

    Parameters are the flags of the command. ``loading`` goes to ``load_items``. Under a
    launcher each process computes a part and the first gathers them.

    Raises
    ------
    AuditError
        For flags that exclude each other, a model or data that can't be used, or hours that
        weren't asked for with ``yes``.
    """
    from lib.data import load_items
    from lib.extraction import check_target, extract, extract_part, save_run
    from lib.extraction.workers import world
    from lib.models import identity

    place = world()
    if not out and not part:
        raise ParameterError("--out FOLDER for the run", "none", "Or compute one --part I/N.")
    if place is not None and (stream or part):
        found = f"{place.size} processes of a launcher"
        raise ParameterError("--stream or --part in one process", found, SHARED)
    if part and (out or gather):
        remedy = "Gather the parts when all are there."
        raise ParameterError("--part by itself", "--out or --gather", remedy)
    machine = {"dtype": dtype or None, "date": date or None}
    kept = {"held_out": not all_prompts, "taps": tuple(taps)}
    if stream:
        given = {"part": part, "gather": gather, "store": store, "limit": loading.get("limit")}
        wrong = [f"--{name}" for name, value in given.items() if value]
        if wrong:
            raise ParameterError("--stream by itself", ", ".join(wrong), "Leave those out.")
        _stream(_loaded(model, device, machine), dataset, stream, out, states, kept, loading)
        return
    if out:
        check_target(out, states)
    with hub.under_way(f"Reading {dataset}"):
        items = load_items(dataset, **loading)
    try:  # of its files as they are before it is loaded
        note = identity.place(model, dtype=dtype, date=date)
    except ModelError:  # of the hub, not fetched yet; or no model, which loading says
        note = None
    loaded = _loaded(model, device or (place.device if place else ""), machine)
    kept["store"] = store
    if place is None:
        kept["before"] = lambda: _announce(loaded, items, not all_prompts, part, yes)
    if part:
        print(f"states in {extract_part(loaded, items, *part, **kept)}")
        return
    if place is not None:
        with place.together():
            extract_part(loaded, items, place.rank, place.size, **kept)
        if place.rank:
            return
    run = extract(loaded, items, gather=gather, **kept)
    save_run(run, out, states=states, seed=loading.get("seed", 0))
    if note is not None:
        identity.remember(note, run.attrs["fingerprint"])
    _print(run, out)


def _stream(model, dataset: str, size: int, out: str, states, kept: dict, loading: dict) -> None:
    """Score with so many items in memory at a time."""
    from lib.data import stream_items
    from lib.extraction import extract_stream, load_run

    read = {name: loading[name] for name in ("split", "source", "ties") if name in loading}
    pieces = stream_items(dataset, size=size, **read)
    folder = extract_stream(model, pieces, out, states=states, **kept)
    _print(load_run(folder), folder)


def _loaded(model: str, device: str, machine: dict):
    from lib.models import load_model

    with hub.under_way(f"Loading {model}"):
        return load_model(model, device=device or None, **machine)


def _announce(model, items, held_out: bool, part: tuple[int, int] | None, yes: bool) -> None:
    from lib.extraction import estimate

    measured = estimate.estimate(model, items, held_out=held_out)
    if part:  # about an equal share of the tokens
        measured = replace(measured, tokens=measured.tokens // part[1])
    estimate.announce([measured], yes)


def _print(run, folder: str | Path) -> None:
    left_out = ", ".join(f"{n} {why}" for why, n in run.attrs["dropped"].items()) or "none"
    print(f"{run.sizes['item']} items scored; left out: {left_out}; run in {folder}")
