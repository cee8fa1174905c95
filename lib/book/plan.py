"""What the book shows: ``audit.yml`` as runs to extract and pages to execute.

::

    audits:
      - model: smol-armo
        datasets:
          - name: hh-rlhf/harmless-base
            run: committed               # under book/runs, text-free
          - name: stimuli/controlled     # extracted when the book is built
            limit: 45
            pages: [labels]              # more pages of this dataset
        pages: [data, validity]          # notebooks, one page a dataset
        once:                            # notebooks, one page for the model
          - notebook: model
          - notebook: protocols
            datasets: all

Other keys of a dataset (``source``, ``limit``, ``seed``, ``order``) go to extraction. A
notebook under ``once`` gets the runs of its datasets: as ``runs`` when it declares that,
else as ``run`` of its only one; without any it uses its defaults. ``datasets: all`` names
every dataset of the audit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from lib import paths
from lib.book import pages
from lib.errors import ParameterError, unknown

COMMITTED = "committed"
LOADING = ("source", "limit", "seed", "order")


@dataclass(frozen=True)
class RunPlan:
    """A run that pages read.

    Attributes
    ----------
    model, dataset
        Names.
    folder
        Where the run lies, relative to the checkout.
    committed
        Is it part of the checkout? Others are extracted into the cache.
    options
        Loading options: source, limit, seed, order.
    """

    model: str
    dataset: str
    folder: str
    committed: bool
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def manifest(self) -> str:
        """The file that stands for the run in a graph of files."""
        return f"{self.folder}/run.json"


@dataclass(frozen=True)
class PagePlan:
    """A notebook to execute.

    Attributes
    ----------
    notebook
        Name under ``notebooks/``, without suffix.
    model
        The model's name.
    runs
        What it reads.
    once
        One page for the model, or one of the run's dataset?
    """

    notebook: str
    model: str
    runs: tuple[RunPlan, ...]
    once: bool = False

    @property
    def folder(self) -> str:
        """Of the executed page and its tables, relative to the checkout."""
        place = paths.slug(self.model)
        if not self.once:
            place += f"/{paths.slug(self.runs[0].dataset)}"
        return f"book/results/{place}"

    @property
    def output(self) -> str:
        """The executed notebook, relative to the checkout."""
        return f"{self.folder}/{self.notebook}.ipynb"

    @property
    def about(self) -> str:
        """What the page is about, for titles."""
        return self.model if self.once else self.runs[0].dataset

    @property
    def parameters(self) -> dict[str, Any]:
        """For papermill: those of these values that the notebook declares."""
        given: dict[str, Any] = {"model": self.model, "tables": self.folder}
        given["runs"] = [run.folder for run in self.runs]
        if len(self.runs) == 1:
            (run,) = self.runs
            given |= {"dataset": run.dataset, "run": run.folder, **run.options}
        known = pages.declared(self.notebook)
        return {name: value for name, value in given.items() if name in known}


@dataclass(frozen=True)
class Plan:
    """Everything in the book, in order."""

    runs: list[RunPlan]
    pages: list[PagePlan]


def read(path: Path | None = None) -> Plan:
    """Read ``audit.yml``.

    Raises
    ------
    ParameterError
        For unknown keys or notebooks, or a committed run that isn't there.
    """
    path = path or paths.AUDIT
    try:
        document = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise ParameterError(f"YAML at {path}", str(error), "Mend the file.") from None
    _only(document, {"audits"}, path.name)
    runs, planned = [], []
    for audit in document["audits"] or []:
        _only(audit, {"model", "pages", "once", "datasets"}, path.name)
        own = {}
        for dataset in audit["datasets"]:
            _only(dataset, {"name", "run", "pages", *LOADING}, path.name)
            own[dataset["name"]] = _run(audit["model"], dataset)
        runs += own.values()
        for dataset in audit["datasets"]:
            run = own[dataset["name"]]
            names = [*audit.get("pages", ()), *dataset.get("pages", ())]
            planned += [PagePlan(_known(name), audit["model"], (run,)) for name in names]
        planned += [_once(entry, audit["model"], own, path.name) for entry in audit.get("once", ())]
    return Plan(runs, planned)


def _once(entry: Any, model: str, own: Mapping[str, RunPlan], where: str) -> PagePlan:
    _only(entry, {"notebook", "datasets"}, where)
    names = entry.get("datasets", [])
    names = list(own) if names == "all" else names
    for name in names:
        if name not in own:
            raise unknown(f"dataset of {model} in {where}", name, own)
    notebook = _known(entry["notebook"])
    if len(names) > 1 and "runs" not in pages.declared(notebook):
        raise ParameterError(
            f"at most one dataset for {notebook} in {where}",
            str(len(names)),
            "Name the one it reads.",
        )
    return PagePlan(notebook, model, tuple(own[name] for name in names), once=True)


def _known(notebook: str) -> str:
    if notebook not in notebooks():
        raise unknown("notebook", notebook, notebooks())
    return notebook


def notebooks() -> list[str]:
    """Names of the notebooks there are."""
    return sorted(path.stem for path in paths.NOTEBOOKS.glob("*.ipynb"))


def _run(model: str, dataset: Mapping[str, Any]) -> RunPlan:
    name = dataset["name"]
    committed = dataset.get("run") == COMMITTED
    if "run" in dataset and not committed:
        raise ParameterError(
            f"run: {COMMITTED}, or no run", repr(dataset["run"]), "Mend audit.yml."
        )
    place = f"{paths.slug(model)}/{paths.slug(name)}"
    folder = f"book/runs/{place}" if committed else f".cache/runs/{place}"
    if committed and not (paths.ROOT / folder / "run.json").is_file():
        raise ParameterError(
            f"the committed run of {model} on {name} at {folder}",
            "none",
            f"Make it: python -m lib extract --model {model} --dataset {name} --out {folder}",
        )
    options = {key: dataset[key] for key in LOADING if key in dataset}
    return RunPlan(model, name, folder, committed, options)


def _only(mapping: Any, keys: set[str], where: str) -> None:
    if not isinstance(mapping, Mapping):
        raise ParameterError(
            f"keys {', '.join(sorted(keys))} in {where}", repr(mapping), "Mend it."
        )
    for key in mapping:
        if key not in keys:
            raise unknown(f"key of {where}", str(key), keys)
