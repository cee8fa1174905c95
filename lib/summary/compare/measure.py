"""From names of models to what is compared: which runs, where each comes from, what they leave.

A model is a folder of kept runs (``run.json`` in it or below it), or a name as ``load_model``
takes it, whose runs are those that are committed, or are made now. Each run leaves the tables
that a validity page leaves, and what is compared is read from those.
"""

from __future__ import annotations

import gc
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from lib import documents, hub, manipulated, paths, stats, tables
from lib.analyses.lens import stats as lenses
from lib.analyses.lens.settling import settling
from lib.check import lines as checks
from lib.data import load_items
from lib.data.asks import whole
from lib.data.items import Items
from lib.errors import DataError, ParameterError, StoreError, unknown
from lib.extraction import extract, load_run
from lib.extraction.disk import JSON, LARGEST
from lib.extraction.stream import INDEX
from lib.mechanisms.disk import NAMES, load_effects
from lib.stats.margins import outcomes
from lib.stats.winrates import FINAL
from lib.summary.compare.agreement import agreement
from lib.summary.compare.contested import MOST, contested
from lib.summary.compare.lens import SETTLED, SETTLING, depths, profiles
from lib.summary.compare.stats import compare as compared
from lib.summary.compare.stats import scores
from lib.summary.tables import OUTCOMES, everything

COMMITTED, KEPT, SCORED = "committed run", "kept run", "scored now"
ALPHA = 0.05
PIECE = re.compile(r"part-\d{5,}")  # of a stream


@dataclass
class Side:
    """A model as it was named.

    Attributes
    ----------
    given
        What the user wrote.
    name
        By which it is told from the others.
    runs
        Dataset → folder of a run that is there.
    how
        Where those come from; ``SCORED`` for a model that is run where there is none.
    fingerprint
        Of what its last run was made by.
    effects
        Dataset → folder of its effects (``lib.effects``) that are there.
    """

    given: str
    name: str
    runs: Mapping[str, Path]
    how: str
    fingerprint: Mapping[str, str] = field(default_factory=dict)
    effects: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True)
class Compared:
    """Models compared.

    Attributes
    ----------
    sides
        The models.
    questions
        Name of what they were compared on → dataset and subset; a dataset that asks no one
        question is compared on by criterion, others have an empty subset.
    sources
        One row a model and dataset: ``model``, ``dataset``, ``how``, ``folder``, ``items`` (a
        fingerprint), ``dtype``, ``scored`` (items), ``comparisons``.
    scores, differences, agreement, contested, profiles, depths
        As ``lib.summary`` makes them; the last two of datasets whose effects are there.
    head
        By which models were compared; empty for the one score of each.
    alpha
        Of intervals, and of the family of differences.
    """

    sides: Sequence[Side]
    questions: Mapping[str, tuple[str, str]]
    sources: pd.DataFrame
    scores: pd.DataFrame
    differences: pd.DataFrame
    agreement: pd.DataFrame
    contested: pd.DataFrame
    profiles: pd.DataFrame
    depths: pd.DataFrame
    head: str
    alpha: float

    @property
    def warnings(self) -> list[str]:
        """Of models whose scores are known not to be their own."""
        found = {side.name: checks.unsound(side.given) for side in self.sides}
        return [checks.warning(name, lines) for name, lines in found.items() if lines]


def compare(
    models: Sequence[str],
    datasets: Sequence[str],
    results: str | Path,
    *,
    head: str = "",
    every_head: bool = False,
    fresh: bool = False,
    most: int = MOST,
    unscored: Sequence[str] = (),
    source: str = "",
    limit: int = 0,
    seed: int = 0,
    device: str = "",
    dtype: str = "",
    date: str = "",
    yes: bool = False,
) -> Compared:
    """Compare models on datasets.

    Parameters
    ----------
    models
        Two or more: folders of kept runs, or names as for ``load_model``.
    datasets
        Their names; empty for those that every model has a run of.
    results
        Folder for the tables that pages read.
    head
        Compare by the heads of this name; by the one score of each model if empty.
    every_head
        Leave tables of all heads, as the page *compare* shows them.
    fresh
        Score models now, committed runs or not.
    most
        Contested items of a pair.
    unscored
        Models that are compared on those of the datasets alone of which they have a run.
    source, limit, seed
        Of datasets that are scored now, as for ``load_items``; ``source`` may hold a folder a set.
    device, dtype, date, yes
        Of models that score now; ``yes`` lets them take hours.

    Raises
    ------
    AuditError
        When a model, its runs or a dataset can't be used, or runs of one dataset differ in what
        their responses are.
    """
    sides = _sides(models, fresh)
    datasets = list(dict.fromkeys(datasets)) or _everywhere(sides)
    lengths: dict[str, pd.Series] = {}
    questions: dict[str, tuple[str, str]] = {}
    rows = []
    options = {"source": source, "limit": limit, "seed": seed}
    for side in sides:
        scorer = Scorer(side.given, device, dtype, date, yes)
        for dataset in datasets:
            if dataset in side.runs:
                run, how, folder = load_run(side.runs[dataset]), side.how, side.runs[dataset]
            elif side.given in unscored:
                continue
            elif side.how == KEPT:
                raise unknown(f"dataset of the runs in {side.given}", dataset, side.runs, DataError)
            else:
                run, how, folder = scorer.run(dataset, options), SCORED, ""
            side.fingerprint = run.attrs["fingerprint"]
            _same_responses(lengths, run, dataset, side.name)
            for name, subset, part in _asked(run, dataset):
                questions[name] = dataset, subset
                _leave(part.assign_attrs(model=side.name, dataset=name), results, head, every_head)
            if dataset in side.effects:
                _leave_lens(side, dataset, results, head)
            rows.append(_source(run, side, dataset, how, folder))
        scorer.close()
    left = everything(results, [side.name for side in sides])
    return Compared(
        sides,
        questions,
        pd.DataFrame(rows),
        scores(left),
        compared(left, ALPHA),
        agreement(left, seed=seed, alpha=ALPHA),
        contested(left, most),
        profiles(left, ALPHA),
        depths(left, ALPHA),
        head,
        ALPHA,
    )


def _sides(models: Sequence[str], fresh: bool) -> list[Side]:
    if len(models) < 2:
        raise ParameterError("two models or more to compare", f"{len(models)}", "Name another.")
    sides = [side_of(given, fresh) for given in models]
    shown = Counter(side.name for side in sides)
    for side in sides:  # two runs of one model are told apart by what the user called them
        side.name = side.name if shown[side.name] == 1 else side.given
    seen: Counter[str] = Counter()
    for side in sides:
        seen[side.name] += 1
        side.name += f" ({seen[side.name]})" * (seen[side.name] > 1)
    return sides


def side_of(given: str, fresh: bool) -> Side:
    """A model as it was named, with its kept runs; without those that are committed if fresh."""
    folder = Path(given).expanduser()
    found = _runs(folder) if folder.is_dir() else {}
    if found:
        names = {name for name, _ in found.values()}
        if len(names) > 1:
            raise StoreError(
                f"runs of one model in {given}",
                f"runs of {', '.join(sorted(names))}",
                "Name the folder of one.",
            )
        runs = {data: place for data, (_, place) in found.items()}
        return Side(given, names.pop(), runs, KEPT, effects=_effects(folder))
    kept = {} if fresh else _runs(paths.RUNS / paths.slug(given))
    runs = {data: place for data, (name, place) in kept.items() if name == given}
    effects = _effects(paths.BOOK / "effects" / paths.slug(given)) if runs else {}
    return Side(given, given, runs, COMMITTED if runs else SCORED, effects=effects)


def _runs(folder: Path) -> dict[str, tuple[str, Path]]:
    """Dataset → model and folder of each run in a folder or below it."""
    found: dict[str, tuple[str, Path]] = {}
    places = {path.parent for name in (JSON, INDEX) for path in folder.rglob(name)}
    parts = {place for place in places if (place.parent / INDEX).is_file()}
    for place in sorted(places - parts):
        model, dataset = _told(_document(place), "a run", "Extract it again.")
        if dataset in found:
            raise StoreError(
                f"one run of {dataset} in {folder}",
                f"{found[dataset][1].relative_to(folder)} and {place.relative_to(folder)}",
                "Name the folder of one of them.",
            )
        found[dataset] = model, place
    return found


def _document(place: Path) -> Path:
    """What tells of a run; of a stream's, its first part of which anything was scored."""
    if not (place / INDEX).is_file():
        return place / JSON
    parts = sorted(path.parent for path in place.glob(f"part-*/{JSON}"))
    scored = [part for part in parts if PIECE.fullmatch(part.name)]
    return (scored[0] if scored else place / "part-00000") / JSON


def _effects(folder: Path) -> dict[str, Path]:
    """Dataset → folder of the effects in a folder or below it."""
    found = {}
    for path in sorted(folder.rglob(NAMES[0])):
        _, dataset = _told(path, "effects", "Make them again.")
        found[dataset] = path.parent
    return found


def _told(path: Path, what: str, remedy: str) -> tuple[str, str]:
    """Model and dataset, as the document of a run or of effects tells them."""
    given = {"error": StoreError, "remedy": remedy}
    fields = {"attrs": dict[str, Any]}
    content = documents.read_json(path, what=what, limit=LARGEST, fields=fields, **given)
    attrs = content.get("attrs", {})
    names = ("model", "dataset")
    documents.check_fields(attrs, dict.fromkeys(names, str), what=f"{what} at {path}", **given)
    if lacking := [name for name in names if name not in attrs]:
        raise StoreError(f"{what} at {path}", f"no {lacking[0]} in attrs", remedy)
    return attrs["model"], attrs["dataset"]


def _everywhere(sides: Sequence[Side]) -> list[str]:
    """Datasets that every model has a run of."""
    first, *others = sides
    shared = [name for name in first.runs if all(name in side.runs for side in others)]
    if not shared:
        raise ParameterError(
            "datasets to compare on",
            "none that every model has a run of",
            "Name them: --datasets stimuli/controlled file:pairs.jsonl",
        )
    return shared


class Scorer:
    """A model that is loaded when a run of it is asked for."""

    def __init__(self, name: str, device: str, dtype: str, date: str, yes: bool):
        self.name, self.yes, self.model = name, yes, None
        self.options = {"device": device or None, "dtype": dtype or None, "date": date or None}

    def run(self, dataset: str, options: Mapping[str, Any]) -> xr.Dataset:
        """Score a dataset, or take its states from the cache."""
        from lib.extraction import estimate
        from lib.models import load_model

        with hub.under_way(f"Reading {dataset}"):
            items = read(dataset, **options)
        if self.model is None:
            with hub.under_way(f"Loading {self.name}"):
                self.model = load_model(self.name, **self.options)

        def before():
            estimate.announce([estimate.estimate(self.model, items)], self.yes)

        return extract(self.model, items, before=before)

    def close(self) -> None:
        """Give the model's memory back, which cycles hold: the next one needs it."""
        if self.model is not None:
            self.model = None
            gc.collect()


def read(dataset: str, source: str = "", limit: int = 0, seed: int = 0) -> Items:
    """A dataset's items, its source a folder of its own or one that holds a folder a set."""
    if dataset.startswith(("file:", "stimuli/")):
        source = ""
    family = manipulated.split(dataset)[0].split("/")[0]
    inside = Path(source).expanduser() / family if source else None
    place = str(inside) if inside and inside.is_dir() else source
    return load_items(dataset, source=place or None, limit=limit, seed=seed)


def _same_responses(lengths: dict, run: xr.Dataset, dataset: str, name: str) -> None:
    """An error where a response that another model scored too has another length here."""
    owner = run["item_of_response"].values
    index = pd.MultiIndex.from_arrays(
        [run["item"].values[owner], run["prompt_hash"].values[owner], run["slot"].values]
    )
    mine = pd.Series(run["n_chars"].values, index=index)
    known = lengths.setdefault(dataset, mine)
    both = known.index.intersection(mine.index)
    differ = int((known[both] != mine[both]).sum())
    if differ:
        raise DataError(
            f"runs of the same responses of {dataset}",
            f"{differ} of {len(both)} responses of another length in that of {name}",
            "Score the models on the same files.",
        )
    lengths[dataset] = pd.concat([known, mine[~mine.index.isin(known.index)]])


def _asked(run: xr.Dataset, dataset: str) -> list[tuple[str, str, xr.Dataset]]:
    """Questions of a dataset: name, subset (empty for all of it), and the run's part of it."""
    subsets = run["subset"].values
    if not len(subsets):
        raise DataError(f"comparisons in {dataset}", "none", "Choose other data.")
    if whole(dataset) and not manipulated.split(dataset)[1]:
        return [(dataset, "", run)]
    return [
        (
            f"{dataset}: {subset}",
            str(subset),
            run.isel(comparison=np.flatnonzero(subsets == subset)),
        )
        for subset in dict.fromkeys(subsets.tolist())
    ]


def _leave(run: xr.Dataset, results: str | Path, head: str, every_head: bool) -> None:
    """Write what a validity page of the run would."""
    run = run if every_head and not head else _alone(run, head)
    place = Path(results) / paths.slug(run.attrs["model"]) / paths.slug(run.attrs["dataset"])
    made = {
        "validity": stats.validity(run, draws=1),
        "baselines": stats.baselines(run, directions=1),
        OUTCOMES: outcomes(run),
    }
    tables.write(place, **made)


def _leave_lens(side: Side, dataset: str, results: str | Path, head: str) -> None:
    """Write what a lens page of the model's effects would, where those are of what made its run."""
    effects = load_effects(side.effects[dataset])
    if effects.attrs["fingerprint"] != side.fingerprint:
        raise StoreError(
            f"effects of the model that made the run of {dataset}",
            f"those of another in {side.effects[dataset]}",
            "Make them again, or take them out of that folder: python -m lib explain.",
        )
    place = Path(results) / paths.slug(side.name) / paths.slug(dataset)
    lenses.ends(effects)
    tables.write(place, **{SETTLED: lenses.depths(effects), SETTLING: settling(effects, head)})


def _alone(run: xr.Dataset, head: str) -> xr.Dataset:
    """The run with what it is judged by as its only head; with two where nothing is."""
    names = run["head"].values.tolist()
    if head:
        if head not in names:
            raise unknown(f"head of {run.attrs['model']}", head, names)
        return run.isel(head=[names.index(head)]).drop_vars(["final", "gate"], errors="ignore")
    if "final" not in run:
        return run.isel(head=slice(2))
    alone = run.isel(head=[0]).drop_vars(["final", "gate"], errors="ignore")
    return alone.assign_coords(head=np.asarray([FINAL], np.str_)).assign(
        score=(("response", "head"), run["final"].values[:, None]),
        head_concept=("head", np.asarray([""], np.str_)),
    )


def _source(run: xr.Dataset, side: Side, dataset: str, how: str, folder: str | Path) -> dict:
    return {
        "model": side.name,
        "dataset": dataset,
        "how": how,
        "folder": str(folder),
        "items": run.attrs["items"],
        "dtype": run.attrs["extraction"].get("dtype", ""),
        "scored": run.sizes["item"],
        "comparisons": run.sizes["comparison"],
    }
