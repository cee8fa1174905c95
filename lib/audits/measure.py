"""From a model's name to what its pages would leave: its check, its tables, others beside it.

Tables are made by the functions that the pages call, on the same runs, and named as the pages
name them, so that whatever reads those reads these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import xarray as xr

from lib import documents, hub, manipulated, paths, records, stats, summary, tables
from lib.analyses.exploits import stats as surfaces
from lib.analyses.labels import stats as names
from lib.analyses.model import stats as cards
from lib.check import lines as checks
from lib.check.lines import Checked, Row
from lib.data.asks import whole
from lib.errors import AuditError, ParameterError
from lib.extraction import load_run
from lib.models.files import EMBEDDED
from lib.stats import margins, relations
from lib.summary.compare.measure import (
    KEPT,
    SCORED,
    Compared,
    Scorer,
    Side,
    compare,
    side_of,
)
from lib.summary.tables import Tables

EXPLOITS = "stimuli/exploits"
NAMED = "stimuli/controlled"  # on which names of heads are tried
EXECUTED = "executed page"


@dataclass(frozen=True)
class Audited:
    """What is known of a model.

    Attributes
    ----------
    left
        Tables of its pages, or of what those compute.
    checked
        Its check; ``None`` where there is none.
    sources
        Of each dataset the attributes of its run (``lib.records.SOURCE``), with ``how`` it came.
    scores, differences
        As ``lib.summary.scores`` and ``lib.summary.compare`` give them, of it and others, which
        are one family; empty where there is no other.
    """

    left: Tables
    checked: Checked | None
    sources: Sequence[Mapping[str, Any]]
    scores: pd.DataFrame
    differences: pd.DataFrame

    @property
    def unsound(self) -> list[str]:
        """Lines of the check that are so wrong that no verdict holds."""
        return [] if self.checked is None else self.checked.unsound


def audit(
    model: str,
    datasets: Sequence[str],
    results: str | Path,
    *,
    against: Sequence[str] = (),
    quick: bool = False,
    source: str = "",
    limit: int = 0,
    seed: int = 0,
    device: str = "",
    dtype: str = "",
    date: str = "",
    yes: bool = False,
) -> Audited:
    """Check a model, score it where no run of it is kept, and leave its tables.

    Parameters
    ----------
    model
        An embedded model's name, a folder or a hub id, or a folder of kept runs.
    datasets
        Names; empty for those of its kept runs, and for one that has none the stimuli on which
        names and surfaces are tried. Surfaces are tried in any case.
    results
        Folder for the tables.
    against
        Models to compare it with; empty for the embedded ones whose runs are committed.
    quick
        The short form of the check.
    source, limit, seed, device, dtype, date, yes
        As for ``lib.summary.compare.measure.compare``.

    Raises
    ------
    AuditError
        When the model or a dataset can't be used.
    """
    side = side_of(model, False)
    wanted = _wanted(side, datasets)
    checked = _check(side, quick, seed, device, date)
    name = paths.public(side.name)
    folder = Path(results) / paths.slug(name)
    scorer = Scorer(side.given, device, dtype, date, yes)
    options = {"source": source, "limit": limit, "seed": seed}
    sources = []
    for dataset in wanted:
        if dataset in side.runs:
            run, how = load_run(side.runs[dataset]), side.how
        else:
            run, how = scorer.run(dataset, options), SCORED
        run = run.assign_attrs(model=name, dataset=paths.public(dataset))
        leave(run, folder / paths.slug(run.attrs["dataset"]), dataset, seed)
        sources.append({key: run.attrs[key] for key in records.SOURCE} | {"how": how})
        sources[-1]["scored"] = run.sizes["item"]
    tables.write(folder, heads=run["head_concept"].to_dataframe("concept").reset_index()[HEADS])
    if card := _card(side, scorer):
        tables.write(folder, card_scores=cards.scores(card))
    scorer.close()
    loading = options | {"device": device, "dtype": dtype, "date": date, "yes": yes}
    found = _beside(side, wanted, against, folder.with_name("beside"), loading)
    return Audited(summary.tables(results, name), checked, sources, *_named(found, name))


HEADS = ["head", "concept"]


def _wanted(side: Side, datasets: Sequence[str]) -> list[str]:
    wanted = list(dict.fromkeys(datasets)) or list(side.runs) or [NAMED]
    lacking = [name for name in wanted if side.how == KEPT and name not in side.runs]
    if lacking:
        raise ParameterError(
            f"datasets of the runs in {side.given}",
            ", ".join(lacking),
            f"Name some of these: {', '.join(side.runs)}.",
        )
    if EXPLOITS not in wanted and (side.how != KEPT or EXPLOITS in side.runs):
        wanted.append(EXPLOITS)
    return wanted


def _check(side: Side, quick: bool, seed: int, device: str, date: str) -> Checked | None:
    """The committed check, or one that is made now; none of kept runs, whose model isn't there."""
    if side.how == KEPT:
        return None
    kept = checks.committed(side.given)
    if kept.is_file():
        return checks.load(kept)
    from lib.check import check

    given = {"device": device or None, "date": date or None, "seed": seed, "quick": quick}
    found = check(side.given, **given, watch=lambda line: hub.under_way(f"{line} of {side.given}"))
    return _public(found, side.given)


def _public(found: Checked, model: str) -> Checked:
    """A check that doesn't say where on this machine its model lies."""
    name = paths.public(model)

    def told(text: str) -> str:
        return text.replace(model, name) if name != model else text

    rows = [
        Row(*(told(getattr(row, part)) for part in Row.__dataclass_fields__)) for row in found.rows
    ]
    return replace(found, model=name, rows=rows)


def surfaced(dataset: str) -> bool:
    """Is the better response of its comparisons the one with more of a surface?"""
    return dataset == EXPLOITS or bool(manipulated.split(dataset)[1])


def leave(run: xr.Dataset, place: Path, dataset: str, seed: int) -> None:
    """Write what the pages of a run leave, those that the report shows."""
    tables.write(
        place,
        validity=stats.validity(run),
        baselines=stats.baselines(run),
        outcomes=margins.outcomes(run),
        sample=relations.sample(run),
    )
    if surfaced(dataset):
        tables.write(
            place,
            exploits=surfaces.exploits(run),
            exploits_baselines=surfaces.baselines(run, seed=seed),
            exploits_dose=surfaces.dose(run),
        )
    if dataset == NAMED and len(set(run["head_concept"].values.tolist()) - {""}) > 1:
        tables.write(place, labels=names.label_check(run, seed=seed).heads)


def _card(side: Side, scorer: Scorer) -> Mapping[str, Any]:
    if scorer.model is not None:
        return scorer.model.card
    if side.given in EMBEDDED:
        return documents.read_json(paths.embedded(side.given) / "card.json", what="a card")
    return {}


def _beside(
    side: Side,
    datasets: Sequence[str],
    against: Sequence[str],
    results: Path,
    loading: Mapping[str, Any],
) -> Compared | None:
    """The model and others, on what it is judged by as a whole; none without another."""
    wanted = [name for name in datasets if whole(name)]  # as the page that compares models does
    others, unscored = list(against), []
    if not others:
        known = {name: side_of(name, False).runs for name in EMBEDDED if name != side.given}
        others = [name for name, runs in known.items() if set(wanted) & set(runs)]
        wanted = [data for data in wanted if any(data in known[name] for name in others)]
        unscored = others
    if not others or not wanted:
        return None
    return compare([side.given, *others], wanted, results, unscored=unscored, **loading)


def _named(found: Compared | None, name: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Scores and differences, with models and datasets by their public names."""
    if found is None:
        return pd.DataFrame(), pd.DataFrame()
    known = {side.name: paths.public(side.name) for side in found.sides}
    known |= {data: paths.public(data) for data in found.questions}
    known[found.sides[0].name] = name
    columns = ["model", "other", "dataset"]
    return tuple(
        table.replace({column: known for column in columns if column in table})
        for table in (found.scores, found.differences)
    )


def executed(results: str | Path, model: str) -> Audited:
    """What is known of a model from its executed pages, and from the one that compares models.

    Raises
    ------
    AuditError
        When there are none.
    """
    return _executed(results, model, *_compared(results))


def all_executed(results: str | Path) -> list[Audited]:
    """Of every model with executed validity pages."""
    beside = _compared(results)
    return [_executed(results, model, *beside) for model in summary.models(results)]


def _executed(
    results: str | Path, model: str, scores: pd.DataFrame, differences: pd.DataFrame
) -> Audited:
    left = summary.tables(results, model)
    places = map(left.datasets.get, left.datasets)
    sources = [source for place in places if (source := _recorded(place))]
    return Audited(left, _checked(left), sources, scores, differences)


def _compared(results: str | Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Tables of the page that compares models; empty where it has nothing to compare."""
    places = [
        paths.found(results) / f"compare_{name}.parquet" for name in ("scores", "differences")
    ]
    if not all(place.is_file() for place in places):
        return pd.DataFrame(), pd.DataFrame()
    scores, differences = map(pd.read_parquet, places)
    return scores, differences


def _recorded(folder: Path) -> dict[str, Any] | None:
    """Attributes of the run behind a dataset's validity page; none where no record has them."""
    try:
        runs = records.read(folder / "validity.ipynb").get("runs", [])
    except AuditError:
        return None
    return dict(runs[0]) | {"how": EXECUTED} if runs else None


def _checked(left: Tables) -> Checked | None:
    kept = checks.committed(left.model)
    if kept.is_file():
        return checks.load(kept)
    table = left.read("check")
    if table is None:
        return None
    rows = [Row(**row) for row in table[checks.COLUMNS].astype(str).to_dict("records")]
    return Checked(left.model, "", 0, False, {}, {}, "", rows)
