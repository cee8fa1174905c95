"""What the book shows: ``audit.yml`` as runs to extract and pages to execute.

::

    audits:
      - model: smol-armo
        pages: [data, validity]          # notebooks, one page a dataset
        datasets:
          - name: hh-rlhf/harmless-base
            run: committed               # under book/runs, text-free
          - name: stimuli/controlled     # extracted when the book is built
            limit: 45

Other keys of a dataset (``source``, ``limit``, ``seed``, ``order``) go to extraction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from lib import paths
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
    """A notebook to execute on a run.

    Attributes
    ----------
    notebook
        Name under ``notebooks/``, without suffix.
    run
        What it reads.
    """

    notebook: str
    run: RunPlan

    @property
    def folder(self) -> str:
        """Of the executed page and its tables, relative to the checkout."""
        place = f"{paths.slug(self.run.model)}/{paths.slug(self.run.dataset)}"
        return f"book/results/{place}"

    @property
    def output(self) -> str:
        """The executed notebook, relative to the checkout."""
        return f"{self.folder}/{self.notebook}.ipynb"

    @property
    def parameters(self) -> dict[str, Any]:
        """For papermill."""
        return {
            "model": self.run.model,
            "dataset": self.run.dataset,
            "run": self.run.folder,
            "tables": self.folder,
            **self.run.options,
        }


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
    runs, pages = [], []
    for audit in document["audits"] or []:
        _only(audit, {"model", "pages", "datasets"}, path.name)
        for notebook in audit["pages"]:
            if not (paths.NOTEBOOKS / f"{notebook}.ipynb").is_file():
                raise unknown("notebook", notebook, notebooks())
        for dataset in audit["datasets"]:
            _only(dataset, {"name", "run", *LOADING}, path.name)
            run = _run(audit["model"], dataset)
            runs.append(run)
            pages += [PagePlan(notebook, run) for notebook in audit["pages"]]
    return Plan(runs, pages)


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
