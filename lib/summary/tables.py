"""Where executed pages left their tables, and what is there."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd

from lib import declared, paths
from lib.data.asks import KINDS, kind
from lib.errors import DataError

NOT_RUN = "not run"
TOGETHER = " + "  # between data sets that are pooled
OUTCOMES = "outcomes"  # the table that names its model and dataset


@dataclass(frozen=True)
class Tables:
    """What the pages of one model left, as it was when each table was first read.

    Attributes
    ----------
    model
        Its name.
    folder
        Where its pages lie; the pages of a dataset lie in folders below.
    datasets
        Name → folder of every dataset with a table: whole preferences first, then
        benchmarks, then comparisons in which one thing varies. The name is the folder's
        where no table tells it.
    """

    model: str
    folder: Path
    datasets: Mapping[str, Path]
    _kept: dict[Hashable, Any] = field(default_factory=dict, repr=False, compare=False)

    def once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """What ``make`` gives, made once; a table as a copy that its reader may change."""
        if key not in self._kept:
            self._kept[key] = make()
        found = self._kept[key]
        return found.copy(deep=False) if isinstance(found, pd.DataFrame) else found

    def read(self, name: str, dataset: str = "") -> pd.DataFrame | None:
        """A table of a dataset's pages, or of the model's own; ``None`` when it isn't there.

        Raises
        ------
        DataError
            When the file isn't a table, or lacks a column that is read here.
        """
        folder = self.datasets[dataset] if dataset else self.folder
        path = folder / f"{name}.parquet"
        if not path.is_file():
            return None
        return self.once(path, lambda: _complete(_read(path), path))

    def each(self, name: str) -> Iterator[tuple[str, pd.DataFrame]]:
        """A table by its name, from every dataset that has it: dataset and table."""
        for dataset in self.datasets:
            table = self.read(name, dataset)
            if table is not None:
                yield dataset, table

    def baselines(self, name: str) -> Iterator[tuple[str, pd.DataFrame]]:
        """Rows of one baseline, from every dataset whose validity page has it."""
        for dataset, table in self.each("baselines"):
            own = table[table["baseline"] == name]
            if len(own):
                yield dataset, own

    def pooled(self) -> list[str]:
        """Datasets that the model's own gating page pools."""
        table = self.read("rules")
        named = [] if table is None else table["subset"].unique()
        found = [name for name in named if name in self.datasets]
        return found if len(found) > 1 else []

    def trained(self, dataset: str) -> set[str]:
        """Heads that the model's card says were trained on labels of the dataset's source."""
        card = self.read("card_scores")
        if card is None:
            return set()
        names = card["trained_on"].fillna("").str.split(" and ")
        own = names.map(lambda sources: bool({dataset, dataset.split("/")[0]} & set(sources)))
        return set(card.loc[own, "head"])

    def measured(self) -> set[str]:
        """Heads that the model's card says learned a measure of texts, from no one's labels."""
        card = self.read("card_scores")
        return set() if card is None else set(card.loc[card["kind"] == "measure", "head"])

    def page(self, dataset: str, notebook: str = "validity") -> str:
        """The address of a dataset's page, or of the model's own, from the site's root; empty when
        it wasn't executed or is elsewhere.
        """
        folder = self.datasets[dataset] if dataset else self.folder
        page = folder.resolve() / f"{notebook}.ipynb"
        root = paths.ROOT.resolve()
        if not page.is_file() or not page.is_relative_to(root):
            return ""
        return quote(page.relative_to(root).with_suffix(".html").as_posix())


def together(datasets: Sequence[str]) -> str:
    """Data sets that are pooled, as one name: ``a/b + c`` for ``a/b`` and ``a/c``."""
    stem, slash, _ = datasets[0].partition("/")
    return datasets[0] + "".join(
        TOGETHER + name.removeprefix(f"{stem}{slash}" if slash else "") for name in datasets[1:]
    )


def tables(results: str | Path, model: str) -> Tables:
    """What the pages of a model left under a results folder.

    Parameters
    ----------
    results
        Folder of executed pages, as given when absolute or there, else within the checkout.
    model
        The name that the pages were given.

    Raises
    ------
    DataError
        When there is none.
    """
    folder = paths.found(results) / paths.slug(model)
    found = {}
    for place in sorted({path.parent for path in folder.rglob("*.parquet")}):
        owner, dataset = _names(place) or (model, place.relative_to(folder).as_posix())
        if place != folder and owner == model:
            found[dataset] = place
    if not found and not any(folder.glob("*.parquet")):
        raise DataError(
            f"tables of {model!r} under {results}",
            "none",
            f"Execute its pages with tables={results}/{paths.slug(model)}/…, or run make book.",
        )
    order = sorted(found, key=lambda name: (KINDS.index(kind(name)), name))
    return Tables(model, folder, {name: found[name] for name in order})


def models(results: str | Path) -> list[str]:
    """Models whose validity pages are under a results folder, by name."""
    places = {path.parent for path in paths.found(results).rglob(f"{OUTCOMES}.parquet")}
    return sorted({names[0] for names in map(_names, places) if names})


def everything(results: str | Path, names: Sequence[str] = ()) -> list[Tables]:
    """The tables of these models, or of every model that there is.

    Raises
    ------
    DataError
        When a model has none, or none is named and there is no model.
    """
    names = list(names) or models(results)
    if not names:
        raise DataError(
            f"validity pages of a model under {results}",
            "none",
            "Execute them with tables=…, run make book, or name the models.",
        )
    return [tables(results, name) for name in names]


def _names(place: Path) -> tuple[str, str] | None:
    """Model and dataset of a folder, where a table tells them."""
    path = place / f"{OUTCOMES}.parquet"
    if not path.is_file():
        return None
    table = _read(path, ["model", "dataset"])
    return tuple(map(str, table.iloc[0])) if len(table) else None


def _read(path: Path, columns: list[str] | None = None) -> pd.DataFrame:
    try:
        return pd.read_parquet(path, columns=columns)
    except (OSError, ValueError) as error:
        raise DataError(
            f"a table at {path}", str(error), "Execute the page that wrote it again."
        ) from None


def _complete(table: pd.DataFrame, path: Path) -> pd.DataFrame:
    """The table, when it has the columns that a table of its name needs."""
    lacks = [
        column for column in _read_elsewhere().get(path.stem, "").split() if column not in table
    ]
    if lacks:
        raise DataError(
            f"a table with the column{'s' * (len(lacks) > 1)} {', '.join(lacks)} at {path}",
            ", ".join(map(str, table.columns)) or "no column",
            "Execute the page that wrote it again.",
        )
    return table


def _read_elsewhere() -> dict[str, str]:
    """Columns of tables that are read here; those of an older version may lack one."""
    return dict(kept for each in declared.every().values() for kept in each.keeps.items())
