"""Add a model to the book: its pages for some datasets, and its scorecard.

``audit`` is ``make audit``. It loads model and data first, so that what is wrong with either
is said before anything is written; says how long scoring takes; adds an entry to
``audit.local.yml`` (``lib.book.plan``); and builds what is missing.

Where the files are
-------------------
``source`` is a folder that holds one folder for each dataset, named as the dataset is before
its first slash (``SOURCE/hh-rlhf``, ``SOURCE/xstest``), or the folder of one dataset itself.
The first is tried first. Without a source, files come from the hub. Stimuli and ``file:``
datasets need none.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Container, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lib import declared, hub, manipulated, paths
from lib.book import applies, pages, plan
from lib.errors import DataError, ParameterError
from lib.extraction.estimate import Estimate, announce, duration, estimate

MANIPULATED = "exploits"  # the page of manipulated responses
PATIENCE = 20 * 60.0  # seconds that patches may take without being asked for


def audit(
    model: str,
    datasets: Sequence[str],
    *,
    source: str = "",
    limit: int = 0,
    seed: int = 0,
    dtype: str = "",
    device: str = "",
    date: str = "",
    yes: bool = False,
    cores: int = 2,
) -> Path:
    """Add a model's pages and scorecard to the book, and build it.

    Parameters
    ----------
    model
        An embedded model's name, a folder, or a hub id.
    datasets
        Names as for ``load_items``, or ``file:PATH``.
    source
        See above; empty for the hub.
    limit, seed
        Items of each dataset, 0 for all, and the seed of that sample.
    dtype, device, date
        Of the model, as for ``load_model``; empty for float32 on a GPU where there is one.
    yes
        Start even if it takes hours, and make the pages that need patches however long they take.
    cores
        To build with.

    Returns
    -------
    Path
        The site's index.

    Raises
    ------
    AuditError
        When model or data can't be used, scoring takes hours and ``yes`` is false, or a
        page failed.
    """
    from lib.book.build import build

    if not datasets:
        raise ParameterError("at least one dataset", "none", "Name it: DATASETS=stimuli/controlled")
    if limit < 0:
        raise ParameterError("a limit of 0 (all) or more", str(limit), "Leave it out for all.")
    name = model_name(model)
    asked = {"limit": limit, "seed": seed, "dtype": dtype, "device": device, "date": date}
    options = {key: value for key, value in asked.items() if value}
    found = [located(dataset, source) for dataset in dict.fromkeys(datasets)]
    plan.check({"model": name, "datasets": [{**dataset, **options} for dataset in found]})
    committed = {run.dataset for run in plan.read().runs if run.model == name and run.committed}
    shape, estimates, patches, plain, several = _tried(model, found, options, committed)
    left_out = _too_long(patches) if not yes else []
    announce(estimates if left_out else [*estimates, *patches], yes)
    for what, why in plain.items():
        print(f"No pages on what makes the rewards, for {what}: {why}", file=sys.stderr)
    plan.add(entry(name, found, shape, options, plain, left_out, committed, several))
    return build(cores)


def _too_long(patches: Sequence[Estimate]) -> list[str]:
    """Pages that are left out, and said to be, since what they need takes too long."""
    seconds = sum(each.seconds for each in patches)
    if seconds <= PATIENCE:
        return []
    names = [name for name in declared.audited(declared.EACH) if applies.patches(name)]
    print(
        f"No page {', '.join(names)}: patches would take about {duration(seconds)} on this "
        "machine. Ask for them with --yes (make audit: YES=1), or use a GPU (device).",
        file=sys.stderr,
    )
    return names


def model_name(model: str) -> str:
    """A model as the book names it: a folder by its path from the checkout, others as given."""
    from lib.models import EMBEDDED

    is_folder = model not in EMBEDDED and Path(model).expanduser().is_dir()
    return plan.from_root(Path(model).expanduser()) if is_folder else model


def located(dataset: str, source: str = "") -> dict[str, str]:
    """A dataset's name with the folder of its files, as an entry of the plan.

    Raises
    ------
    DataError
        When the source isn't a folder.
    """
    if dataset.startswith("file:"):
        return {"name": f"file:{plan.from_root(Path(dataset[len('file:') :]).expanduser())}"}
    family = manipulated.split(dataset)[0].split("/")[0]
    if not source or family == "stimuli":
        return {"name": dataset}
    folder = Path(source).expanduser()
    if not folder.is_dir():
        raise DataError(
            f"a folder at {source}: that of {family}'s files, or one that holds it",
            "a file" if folder.exists() else "none",
            "Check SOURCE, or leave it out to load from the hub.",
        )
    inside = folder / family
    return {"name": dataset, "source": plan.from_root(inside if inside.is_dir() else folder)}


def entry(
    model: str,
    datasets: Sequence[dict[str, str]],
    shape: applies.Shape,
    options: dict[str, Any],
    plain: Container[str] = (),
    left_out: Container[str] = (),
    committed: Container[str] = (),
    several: Container[str] = (),
) -> dict[str, Any]:
    """The entry of ``audits`` for a model: every page that suits its shape and isn't left out.

    Datasets are as ``located`` returns them; each gets the options of loading and extraction,
    and those that aren't ``plain`` the pages that read effects. Runs that aren't ``committed``
    keep what their pages declare as ``taps``; ``several`` have three responses to some prompt.
    """
    there = {name for name in plan.notebooks() if name not in left_out}

    def suited(names):
        return [name for name in names if name in there and applies.suits(name, shape)]

    each = suited(declared.audited(declared.EACH))
    explaining = [name for name in each if applies.explains(name)]
    listed = []
    for dataset in datasets:
        stimuli = dataset["name"].startswith("stimuli/")
        own = suited(declared.audited(declared.STIMULI)) if stimuli else []
        own += explaining if dataset["name"] not in plain else []
        own += suited(declared.audited(declared.SEVERAL)) if dataset["name"] in several else []
        own += suited(declared.audited(dataset["name"]))
        if manipulated.split(dataset["name"])[1]:  # nobody chose between these responses
            own = suited([MANIPULATED])
        taps = [] if dataset["name"] in committed else _taps(own)
        listed.append({**dataset, **options, **({"taps": taps} if taps else {}), "pages": own})
    over_all = declared.audited(declared.OVER_ALL)
    once = [
        {"notebook": name, **({"datasets": "all"} if name in over_all else {})}
        for name in suited(declared.every())
        if name in over_all or name in declared.audited(declared.ONCE)
    ]
    each = [name for name in each if name not in explaining]
    return {"model": model, "datasets": listed, "pages": each, "once": once}


def _taps(names: Sequence[str]) -> list[str]:
    """What these pages want kept of a run beside scores."""
    wanted = (pages.declared(name).get("taps") for name in names)
    return sorted({tap for each in wanted if each for tap in each.default})


def _tried(
    model: str, datasets: Sequence[dict[str, str]], options: dict[str, Any], committed: set[str]
) -> tuple[applies.Shape, list[Estimate], list[Estimate], dict[str, str], set[str]]:
    """Load everything once: the model's shape, how long each dataset takes and how long its
    patches, why some, or the model, can't have their effects computed, and which datasets have
    three responses to some prompt.

    A committed run isn't extracted; its data is loaded only where there is a source of it.
    """
    from lib.extraction import is_stored
    from lib.models import load_model

    read = [each for each in datasets if each["name"] not in committed or "source" in each]
    loaded = {each["name"]: _loaded(each, options) for each in read}
    folder = Path(model).expanduser()
    place = str(folder.absolute()) if model_name(model) != model else model
    with hub.under_way(f"Loading {model}"):
        known = load_model(place, **{key: options.get(key) for key in plan.MACHINE})
    several = {
        name for name, items in loaded.items() if np.bincount(items.item_of_response).max() >= 3
    }
    ahead = [items for name, items in loaded.items() if name not in committed]
    ahead = [items for items in ahead if not is_stored(known, items)]
    shape, estimates = applies.of_model(known), [estimate(known, items) for items in ahead]
    patches: list[Estimate] = []
    plain = {model_name(model): shape.unexplained} if shape.unexplained else {}
    each_dataset = declared.audited(declared.EACH)
    if not plain and any(map(applies.explains, each_dataset)):
        done = {run.dataset: run for run in plan.read().runs if run.model == model_name(model)}
        for each in datasets:
            name, run = each["name"], done.get(each["name"])
            if manipulated.split(name)[1]:
                continue
            if run and (paths.ROOT / run.effects / "effects.json").is_file():
                continue
            try:
                traced, patched = _explaining(known, name, loaded, options)
            except DataError as error:
                plain[name] = str(error)
                continue
            estimates.append(traced)
            if any(map(applies.patches, each_dataset)):
                patches.append(patched)
    del known
    gc.collect()
    return shape, estimates, patches, plain, several


def _explaining(
    model, name: str, loaded: dict, options: dict[str, Any]
) -> tuple[Estimate, Estimate]:
    """How long effects take on a dataset, whose text may have been loaded: traces, patches."""
    from lib.mechanisms.estimate import parts

    if name not in loaded and not name.startswith("stimuli/"):
        raise DataError(f"the texts of {name}", "its committed run alone", "Name their source.")
    items = loaded[name] if name in loaded else _loaded({"name": name}, options)
    return parts(model, items, seed=options.get("seed", 0))


def _loaded(dataset: dict[str, str], options: dict[str, Any]):
    from lib.data import load_items

    name, source = dataset["name"], dataset.get("source", "")
    if name.startswith("file:"):
        name = f"file:{paths.ROOT / name.removeprefix('file:')}"
    try:
        with hub.under_way(f"Reading {name}"):
            sample = {key: options[key] for key in ("limit", "seed") if key in options}
            return load_items(name, source=str(paths.ROOT / source) if source else None, **sample)
    except DataError as error:
        family = name.split("/")[0]
        if not source or Path(source).name == family:
            raise
        raise DataError(
            f"the files of {name}: {error.needed}",
            f"{error.found}; and no folder {family} in {source}",
            f"SOURCE is the folder that holds them, or one with a folder {family} that does; "
            "leave it out to load from the hub.",
        ) from None
