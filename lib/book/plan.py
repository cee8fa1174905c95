"""What the book shows: ``audit.yml`` as runs to extract and pages to execute.

::

    audits:
      - model: smol-armo
        datasets:
          - name: hh-rlhf/harmless-base
            run: committed               # under book/runs, text-free
            effects: committed           # under book/effects, text-free
          - name: stimuli/controlled     # extracted when the book is built
            limit: 45
            pages: [labels]              # more pages of this dataset
        pages: [data, validity]          # notebooks, one page a dataset
        once:                            # notebooks, one page for the model
          - notebook: model
          - notebook: protocols
            datasets: all
    pages:                               # notebooks, one page for the book
      - notebook: published
        model: smol-armo
        datasets: [hh-rlhf/harmless-base]
      - notebook: compare

Other keys of a dataset go to extraction: ``source``, ``limit``, ``seed``, ``order``, which
the pages get too, and ``dtype``, ``device``, ``date`` and ``taps``. A page for the model gets
all but taps of these as well, as the first of the model's datasets has them that has any. A
notebook under ``once`` or ``pages`` gets the runs of its datasets: as ``runs`` when it declares
that, else as ``run`` of its only one; without any it uses its defaults. ``datasets: all`` names
every dataset of the audit.

A dataset of manipulated responses (``lib.manipulated``: ``file:answers.jsonl#length``) has its own
``pages`` alone: what nobody chose between is none of a model's protocols.

A notebook that declares ``explained`` gets the committed effects of its runs. One that declares
``effects`` gets those of its dataset: the committed ones, or such as
the build computes from the same options, with comparisons patched where a notebook of that
dataset declares ``patched``.

A notebook that declares ``results`` reads what other pages wrote, and is executed after
them: after the pages of its model when it declares ``model``, after those of all models
otherwise, always without those that declare ``results`` themselves. The pages of ``CLOSING``
come after every other. One that declares ``measurements`` reads the files of ``MEASUREMENTS``,
one that declares ``study`` those of ``STUDY``.

``audit.local.yml`` has the same form and isn't committed. What it says is added: a model of
its own, or to a model of ``audit.yml`` more datasets and pages. Where both name a dataset or
a notebook each key of the local entry counts, and the pages of both are made. A committed
run stays as it is: a local entry may add pages to it and name its ``source``, no more.

``page_minutes`` is how long a page may run: a number, ``MINUTES`` when it isn't given.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock

from lib import manipulated, paths
from lib.atomic import replacing
from lib.book import inputs, pages
from lib.book.document import EXTRACTING, LOADING, MACHINE, MINUTES, checked, load, once_each
from lib.book.merging import explicit, merged
from lib.check.lines import committed
from lib.errors import ParameterError, unknown
from lib.parameters import Parameter

RESULTS = "book/results"
EXTRACTED = ".cache/runs"
EXPLAINED = ".cache/effects"
MEASUREMENTS = "bench/results"
STUDY = "book/tension/smollm2-135m"
LAST = "status"  # the notebook that shows all other pages
CLOSING = ("changes", LAST)  # those that read what every page before them left
CHECK = "check"  # that which every other page of a model heeds


@dataclass(frozen=True)
class RunPlan:
    """A run that pages read; paths are relative to the checkout."""

    model: str
    dataset: str
    folder: str
    committed: bool  # others are extracted into the checkout's .cache
    options: Mapping[str, Any] = field(default_factory=dict)  # of loading and extraction
    parts: int = 1  # in how many pieces it is computed, each a job of its own
    explained: bool = False  # are its effects committed? Others go into the checkout's .cache

    @property
    def effects(self) -> str:
        """Folder of the effects of its model on its dataset."""
        return (
            f"{'book/effects' if self.explained else EXPLAINED}/{_place(self.model, self.dataset)}"
        )

    @property
    def inputs(self) -> list[str]:
        """Files of the user's that the run is made from: a folder's weights, data files."""
        found = inputs.weights(paths.ROOT / self.model)
        if self.dataset.startswith("file:"):
            own, _ = manipulated.split(self.dataset.removeprefix("file:"))
            found += [paths.ROOT / own]
        elif self.options.get("source"):
            found += inputs.data(paths.ROOT / self.options["source"])
        return [from_root(path) for path in found if path.is_file()]


@dataclass(frozen=True)
class PagePlan:
    """A notebook to execute; paths are relative to the checkout."""

    notebook: str  # its name under notebooks/, without suffix
    model: str  # empty for a page of several models or of none
    runs: tuple[RunPlan, ...] = ()
    once: bool = False  # one page for the model, not one of the run's dataset
    shared: bool = False  # one page for the book, outside of every model's folder
    models: tuple[str, ...] = ()  # the audited ones, for a notebook that declares them
    reads: tuple[str, ...] = ()  # executed pages whose tables it reads
    machine: Mapping[str, Any] = field(default_factory=dict)  # dtype, device and date, if given

    @cached_property
    def folder(self) -> str:
        """Of the executed page and its tables."""
        if self.shared:
            return RESULTS
        place = paths.slug(paths.public(self.model))
        if not self.once:
            place += f"/{paths.slug(paths.public(self.runs[0].dataset))}"
        return f"{RESULTS}/{place}"

    @cached_property
    def output(self) -> str:
        """The executed notebook."""
        return f"{self.folder}/{self.notebook}.ipynb"

    @cached_property
    def declared(self) -> Mapping[str, Parameter]:
        """What its notebook declares."""
        return pages.declared(self.notebook)

    @property
    def measurements(self) -> list[str]:
        """Files of measurements, or of a study, that it reads."""
        folders = {"measurements": f"{MEASUREMENTS}/*.json", "study": f"{STUDY}/*.*"}
        wanted = [pattern for name, pattern in folders.items() if name in self.declared]
        return sorted(from_root(path) for each in wanted for path in paths.ROOT.glob(each))

    @property
    def weights(self) -> list[str]:
        """Files of the model's folder, which pages load or compare their runs with."""
        if not self.model:
            return []
        return [from_root(path) for path in inputs.weights(paths.ROOT / self.model)]

    @property
    def check(self) -> str:
        """The committed check of its model, which every page heeds; empty without."""
        path = committed(self.model) if self.model else None
        return from_root(path) if path and path.is_file() else ""

    @property
    def explains(self) -> bool:
        """Does it read the effects of its run?"""
        return "effects" in self.declared and len(self.runs) == 1

    @property
    def patches(self) -> bool:
        """Does it need some of its run's comparisons patched?"""
        return self.explains and "patched" in self.declared

    @property
    def about(self) -> str:
        """What the page is about, for titles; empty for a page of the whole book."""
        if self.shared:
            return ""
        model = paths.public(self.model)
        return model if self.once else f"{model} on {paths.public(self.runs[0].dataset)}"

    @property
    def parameters(self) -> dict[str, Any]:
        """For papermill: those of these values that the notebook declares, by public names."""
        given: dict[str, Any] = {"tables": self.folder, "results": RESULTS}
        models = [paths.public(model) for model in self.models]
        given |= {"models": models, "measurements": MEASUREMENTS, "study": STUDY, **self.machine}
        if self.model:
            given["model"] = self.model
        if self.check:
            given["check"] = self.check
        if self.runs or not self.shared:
            given["runs"] = [run.folder for run in self.runs]
            given["explained"] = [run.effects for run in self.runs if run.explained]
        if len(self.runs) == 1:
            (run,) = self.runs
            given |= {"dataset": run.dataset, "run": run.folder, **run.options}
            given["effects"] = run.effects
        for name in ("model", "dataset", "source"):
            if name in given:
                given[name] = paths.public(given[name])
        return {name: value for name, value in given.items() if name in self.declared}

    @property
    def places(self) -> dict[str, str]:
        """Public names of models, datasets and sources outside of the checkout → their paths."""
        names = {self.model, *self.models, *(run.dataset for run in self.runs)}
        names |= {run.options.get("source", "") for run in self.runs}
        return {paths.public(name): name for name in sorted(names) if paths.public(name) != name}


@dataclass(frozen=True)
class Plan:
    """Everything in the book, in order."""

    runs: list[RunPlan]
    pages: list[PagePlan]
    page_minutes: float = MINUTES

    @property
    def models(self) -> list[str]:
        """The audited models, in order."""
        return list(dict.fromkeys(page.model for page in self.pages if not page.shared))


def read(path: Path | None = None, *, local: bool = True) -> Plan:
    """Read ``audit.yml``, and ``audit.local.yml`` beside it.

    Parameters
    ----------
    path
        Of the audit; the checkout's by default.
    local
        Also what ``make audit`` added? The committed table of contents goes without.

    Raises
    ------
    ParameterError
        For unknown keys or notebooks, two pages in one place, or a committed run that isn't
        there.
    """
    path = path or paths.AUDIT
    document = load(path)
    beside = local_audit(path)
    if local and beside.is_file():
        document = merged(document, load(beside))
    return _planned(document, path.name)


def _planned(document: Mapping[str, Any], where: str) -> Plan:
    planned = []
    own: dict[str, dict[str, RunPlan]] = {}
    for audit in document["audits"]:
        model = audit["model"]
        own[model] = {each["name"]: _run(model, each) for each in audit["datasets"]}
        for dataset in audit["datasets"]:
            run = own[model][dataset["name"]]
            every = [] if manipulated.split(run.dataset)[1] else audit.get("pages", ())
            names = dict.fromkeys([*every, *dataset.get("pages", ())])
            planned += [PagePlan(_known(name), model, (run,)) for name in names]
        machine = _machine(own[model].values())
        for entry in audit.get("once", ()):
            chosen = _chosen(entry, model, own[model], where)
            planned.append(PagePlan(entry["notebook"], model, chosen, once=True, machine=machine))
    for entry in document["pages"]:
        model = entry.get("model", "")
        if model and model not in own:
            raise unknown(f"model of {where}", model, own)
        if not model and entry.get("datasets"):
            needed = f"the model whose datasets {entry['notebook']} reads in {where}"
            raise ParameterError(needed, "none", "Name it: model: …")
        chosen = _chosen(entry, model, own.get(model, {}), where)
        planned.append(PagePlan(entry["notebook"], model, chosen, shared=True))
    remedy = "Name the notebook once, or give the model or dataset another name."
    once_each((page.output for page in planned), f"one page a place in {where}", remedy)
    runs = [run for runs in own.values() for run in runs.values()]
    return Plan(runs, _linked(planned), document.get("page_minutes", MINUTES))


def local_audit(path: Path | None = None) -> Path:
    """Where the audits of this checkout alone are listed: ``audit.local.yml``."""
    return (path or paths.AUDIT).with_suffix(".local.yml")


def add(audit: Mapping[str, Any], path: Path | None = None) -> Path:
    """Put a model's audit into ``audit.local.yml`` beside ``path``, by rename.

    What it says of a model that is there already is merged.

    Raises
    ------
    ParameterError
        When the local file, or the plan that would come of it, isn't right; it then stays
        as it was.
    """
    path = path or paths.AUDIT
    target = local_audit(path)
    with FileLock(paths.lock("audit")):
        kept = {key: value for key, value in _with(audit, path).items() if value}
        text = "# What `make audit` added, in the form of audit.yml. Delete what isn't wanted.\n"
        text += yaml.safe_dump(kept, sort_keys=False, allow_unicode=True)
        with replacing(target) as partial:
            partial.write_text(text, encoding="utf-8")
    return target


def check(audit: Mapping[str, Any], path: Path | None = None) -> None:
    """Raise what ``add`` would; change nothing."""
    _with(audit, path or paths.AUDIT)


def _with(audit: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The local document with an audit more, when a plan comes of it."""
    target = local_audit(path)
    checked({"audits": [audit]}, target.name)
    base = load(path)
    document = load(target) if target.is_file() else {"audits": [], "pages": []}
    more = explicit(audit, merged(base, document))
    document = merged(document, {"audits": [more], "pages": []})
    _planned(merged(base, document), target.name)
    return document


def notebooks() -> list[str]:
    """Names of the notebooks there are."""
    there = os.listdir(paths.NOTEBOOKS) if paths.NOTEBOOKS.is_dir() else []
    return sorted(name.removesuffix(".ipynb") for name in there if name.endswith(".ipynb"))


def from_root(path: str | Path) -> str:
    """A path as seen here, as commands at the root of the checkout see it.

    Relative inside of the checkout, absolute elsewhere.
    """
    whole = Path(os.path.abspath(path))
    return str(whole.relative_to(paths.ROOT) if whole.is_relative_to(paths.ROOT) else whole)


def _machine(runs: Iterable[RunPlan]) -> dict[str, Any]:
    """Dtype and device of the first run that has any."""
    each = ({key: run.options[key] for key in MACHINE if run.options.get(key)} for run in runs)
    return next(filter(None, each), {})


def _chosen(
    entry: Mapping[str, Any], model: str, own: Mapping[str, RunPlan], where: str
) -> tuple[RunPlan, ...]:
    """The runs of an entry's datasets."""
    notebook, names = _known(entry["notebook"]), entry.get("datasets", [])
    if names == "all":
        names = [name for name in own if not manipulated.split(name)[1]]
    for name in names:
        if name not in own:
            raise unknown(f"dataset of {model} in {where}", name, own)
    if len(names) > 1 and "runs" not in pages.declared(notebook):
        needed = f"at most one dataset for {notebook} in {where}"
        raise ParameterError(needed, str(len(names)), "Name the one it reads.")
    return tuple(own[name] for name in names)


def _linked(planned: list[PagePlan]) -> list[PagePlan]:
    """The pages, each with those whose tables it reads; the last page last."""
    declared = {name: pages.declared(name) for name in {page.notebook for page in planned}}
    models = tuple(dict.fromkeys(page.model for page in planned if not page.shared))
    first = [page for page in planned if "results" not in declared[page.notebook]]
    found = []
    place = {page.output: _closing(page.notebook) for page in planned}
    for page in sorted(planned, key=lambda page: place[page.output]):
        if place[page.output]:
            read = [other for other in planned if place[other.output] < place[page.output]]
        elif page in first:
            heeds = page.model and page.notebook != CHECK and not page.check
            read = [other for other in first if heeds and _checks(other, page.model)]
        elif "model" in declared[page.notebook]:
            read = [other for other in first if other.model == page.model]
        else:
            read = [other for other in first if not other.shared]
        found.append(replace(page, models=models, reads=tuple(other.output for other in read)))
    return found


def _closing(notebook: str) -> int:
    """0 for a page that doesn't close the book, else its place among those that do, from 1."""
    return CLOSING.index(notebook) + 1 if notebook in CLOSING else 0


def _checks(page: PagePlan, model: str) -> bool:
    return page.notebook == CHECK and page.model == model


def _known(notebook: str) -> str:
    if notebook not in (there := notebooks()):
        raise unknown("notebook", notebook, there)
    return notebook


def _place(model: str, dataset: str) -> str:
    return f"{paths.slug(paths.public(model))}/{paths.slug(paths.public(dataset))}"


def _run(model: str, dataset: Mapping[str, Any]) -> RunPlan:
    name, committed = dataset["name"], "run" in dataset
    place = _place(model, name)
    folder = f"book/runs/{place}" if committed else f"{EXTRACTED}/{place}"
    if committed and not (paths.ROOT / folder / "run.json").is_file():
        raise ParameterError(
            f"the committed run of {model} on {name} at {folder}",
            "none",
            f"Make it: python -m lib extract --model {model} --dataset {name} --out {folder}",
        )
    options = {key: dataset[key] for key in (*LOADING, *EXTRACTING) if key in dataset}
    parts = dataset.get("parts", 1)
    run = RunPlan(model, name, folder, committed, options, parts, "effects" in dataset)
    if run.explained and not (paths.ROOT / run.effects / "effects.json").is_file():
        raise ParameterError(
            f"the committed effects of {model} on {name} at {run.effects}",
            "none",
            f"Make them: python -m lib explain {model} {name} --out {run.effects}",
        )
    return run
