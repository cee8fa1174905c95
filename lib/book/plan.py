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
    pages:                               # notebooks, one page for the book
      - notebook: published
        model: smol-armo
        datasets: [hh-rlhf/harmless-base]
      - notebook: compare

Other keys of a dataset go to extraction: ``source``, ``limit``, ``seed``, ``order``, which
the pages get too, and ``dtype``, ``device``, ``date``. A page for the model gets those as well, as
the first of the model's datasets has them that has any. A notebook under ``once`` or
``pages`` gets the runs of its datasets: as ``runs`` when it declares that, else as ``run`` of
its only one; without any it uses its defaults. ``datasets: all`` names every dataset of the
audit.

A notebook that declares ``results`` reads what other pages wrote, and is executed after
them: after the pages of its model when it declares ``model``, after those of all models
otherwise, always without those that declare ``results`` themselves. The last page, ``LAST``,
comes after every other. One that declares ``measurements`` reads the files of ``MEASUREMENTS``.

``audit.local.yml`` has the same form and isn't committed. What it says is added: a model of
its own, or to a model of ``audit.yml`` more datasets and pages. Where both name a dataset or
a notebook each key of the local entry counts, and the pages of both are made. A committed
run stays as it is: a local entry may add pages to it and name its ``source``, no more.

``page_minutes`` is how long a page may run: a number, ``MINUTES`` when it isn't given.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock

from lib import paths
from lib.atomic import replacing
from lib.book import inputs, pages
from lib.book.merging import COMMITTED, explicit, merged
from lib.documents import DEPTH, read_bytes
from lib.errors import ParameterError, unknown
from lib.parameters import SEEDS

MOST_PARTS = 1000
MOST_ITEMS = 2**63 - 1
MOST_BYTES = 1 << 20  # of a document
MOST_ENTRIES = 100_000
SHOWN = 200  # characters of a value that an error shows
MINUTES = 360  # that a page may run
MOST_MINUTES = 100_000
ORDERS = ("sample", "head")
DTYPES = ("", "float32", "bfloat16", "float16")
NAMED = ("name", "model", "notebook")
LOADING = ("source", "limit", "seed", "order")
EXTRACTING = ("dtype", "device", "date")
RESULTS = "book/results"
EXTRACTED = ".cache/runs"
MEASUREMENTS = "bench/results"
LAST = "status"  # the notebook that tells of all other pages


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
        Is it committed? Others are extracted into the checkout's ``.cache``.
    options
        Of loading and extraction: source, limit, seed, order, dtype, device.
    parts
        In how many pieces it is computed, each a job of its own.
    """

    model: str
    dataset: str
    folder: str
    committed: bool
    options: Mapping[str, Any] = field(default_factory=dict)
    parts: int = 1

    @property
    def inputs(self) -> list[str]:
        """Files of the user's that the run is made from: a folder's weights, data files."""
        found = inputs.weights(paths.ROOT / self.model)
        if self.dataset.startswith("file:"):
            found += [paths.ROOT / self.dataset.removeprefix("file:")]
        elif self.options.get("source"):
            found += inputs.data(paths.ROOT / self.options["source"])
        return [from_root(path) for path in found if path.is_file()]


@dataclass(frozen=True)
class PagePlan:
    """A notebook to execute.

    Attributes
    ----------
    notebook
        Name under ``notebooks/``, without suffix.
    model
        The model's name; empty for a page of several models or of none.
    runs
        What it reads.
    once
        One page for the model, or one of the run's dataset?
    shared
        One page for the book, outside of every model's folder?
    models
        The audited models, for a notebook that declares them.
    reads
        Executed pages whose tables it reads, relative to the checkout.
    machine
        The model's dtype and device, where they are given.
    """

    notebook: str
    model: str
    runs: tuple[RunPlan, ...] = ()
    once: bool = False
    shared: bool = False
    models: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    machine: Mapping[str, Any] = field(default_factory=dict)

    @property
    def folder(self) -> str:
        """Of the executed page and its tables, relative to the checkout."""
        if self.shared:
            return RESULTS
        place = paths.slug(paths.public(self.model))
        if not self.once:
            place += f"/{paths.slug(paths.public(self.runs[0].dataset))}"
        return f"{RESULTS}/{place}"

    @property
    def output(self) -> str:
        """The executed notebook, relative to the checkout."""
        return f"{self.folder}/{self.notebook}.ipynb"

    @property
    def measurements(self) -> list[str]:
        """Files of measurements that it reads, relative to the checkout."""
        if "measurements" not in pages.declared(self.notebook):
            return []
        return sorted(map(from_root, (paths.ROOT / MEASUREMENTS).glob("*.json")))

    @property
    def weights(self) -> list[str]:
        """Files of the model's folder, which pages load or compare their runs with."""
        if not self.model:
            return []
        return [from_root(path) for path in inputs.weights(paths.ROOT / self.model)]

    @property
    def about(self) -> str:
        """What the page is about, for titles; empty for a page of the whole book."""
        if self.shared:
            return ""
        return paths.public(self.model if self.once else self.runs[0].dataset)

    @property
    def parameters(self) -> dict[str, Any]:
        """For papermill: those of these values that the notebook declares, by public names."""
        given: dict[str, Any] = {"tables": self.folder, "results": RESULTS}
        models = [paths.public(model) for model in self.models]
        given |= {"models": models, "measurements": MEASUREMENTS, **self.machine}
        if self.model:
            given["model"] = self.model
        if self.runs or not self.shared:
            given["runs"] = [run.folder for run in self.runs]
        if len(self.runs) == 1:
            (run,) = self.runs
            given |= {"dataset": run.dataset, "run": run.folder, **run.options}
        for name in ("model", "dataset", "source"):
            if name in given:
                given[name] = paths.public(given[name])
        known = pages.declared(self.notebook)
        return {name: value for name, value in given.items() if name in known}

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


def _planned(document: Mapping[str, list], where: str) -> Plan:
    runs, planned = [], []
    own: dict[str, dict[str, RunPlan]] = {}
    for audit in document["audits"]:
        model = audit["model"]
        own[model] = {each["name"]: _run(model, each) for each in audit["datasets"]}
        runs += own[model].values()
        for dataset in audit["datasets"]:
            run = own[model][dataset["name"]]
            names = dict.fromkeys([*audit.get("pages", ()), *dataset.get("pages", ())])
            planned += [PagePlan(_known(name), model, (run,)) for name in names]
        for entry in audit.get("once", ()):
            chosen = _chosen(entry, model, own[model], where)
            machine = _machine(own[model].values())
            page = PagePlan(_known(entry["notebook"]), model, chosen, once=True, machine=machine)
            planned.append(page)
    planned += [_shared(entry, own, where) for entry in document["pages"]]
    _distinct(planned, where)
    return Plan(runs, _linked(planned), document.get("page_minutes", MINUTES))


def local_audit(path: Path | None = None) -> Path:
    """Where the audits of this checkout alone are listed: ``audit.local.yml``."""
    return (path or paths.AUDIT).with_suffix(".local.yml")


def load(path: Path) -> dict[str, list]:
    """The audits and pages of a file, checked for keys and kinds.

    Raises
    ------
    ParameterError
        When the file isn't YAML of the form above.
    """
    content = read_bytes(path, what="YAML", error=ParameterError, limit=MOST_BYTES)
    try:
        document = yaml.load(content.decode("utf-8"), _Loader) or {}
    except Exception as error:  # a tag on a value that isn't one raises whatever Python does
        found = str(error) if isinstance(error, yaml.YAMLError) else f"a value: {error}"
        raise ParameterError(f"YAML at {path}", found, "Mend the file.") from None
    where = path.name
    _only(document, {"audits", "pages", "page_minutes"}, where)
    audits, shared = document.get("audits") or [], document.get("pages") or []
    for audit in _listed(audits, "audits", where):
        _only(audit, {"model", "pages", "once", "datasets"}, where, required=("model", "datasets"))
        for dataset in _listed(audit["datasets"], "datasets", where):
            keys = {"name", "run", "pages", "parts", *LOADING, *EXTRACTING}
            _only(dataset, keys, where, required=("name",))
            _values(dataset, where)
            _names(dataset.get("pages", []), "pages", where)
        _names(audit.get("pages", []), "pages", where)
        for entry in _listed(audit.get("once", []), "once", where):
            _only(entry, {"notebook", "datasets"}, where, required=("notebook",))
            _all_or_names(entry, where)
        _once_each(audit, where)
    for entry in _listed(shared, "pages", where):
        _only(entry, {"notebook", "model", "datasets"}, where, required=("notebook",))
        _text(entry, "model", where)
        _all_or_names(entry, where)
    for model, count in Counter(audit["model"] for audit in audits).items():
        if count > 1:
            raise ParameterError(f"each model once in {where}", f"{model} twice", "Join the two.")
    found = {"audits": audits, "pages": shared}
    return found | _minutes(document, where)


def add(audit: Mapping[str, Any], path: Path | None = None) -> Path:
    """Put a model's audit into ``audit.local.yml``, by rename.

    Parameters
    ----------
    audit
        An entry of ``audits``: what it says of a model that is there already is merged.
    path
        Of ``audit.yml``; the local file lies beside it.

    Raises
    ------
    ParameterError
        When the local file, or the plan that would come of it, isn't right; it then stays
        as it was.
    """
    path = path or paths.AUDIT
    with FileLock(paths.lock("audit")):
        return _write(_with(audit, path), local_audit(path))


def check(audit: Mapping[str, Any], path: Path | None = None) -> None:
    """Raise what ``add`` would; change nothing."""
    _with(audit, path or paths.AUDIT)


def _with(audit: Mapping[str, Any], path: Path) -> dict[str, list]:
    """The local document with an audit more, when a plan comes of it."""
    target = local_audit(path)
    for dataset in audit["datasets"]:
        _values(dataset, target.name)
    for name in (audit["model"], *(dataset["name"] for dataset in audit["datasets"])):
        if not _writable(name):
            raise ParameterError("a name in UTF-8", ascii(name), "Rename it.")
    base = load(path)
    document = load(target) if target.is_file() else {"audits": [], "pages": []}
    said = explicit(audit, merged(base, document))
    document = merged(document, {"audits": [said], "pages": []})
    _planned(merged(base, document), target.name)
    return document


def _write(document: Mapping[str, list], target: Path) -> Path:
    kept = {key: value for key, value in document.items() if value}
    text = "# What `make audit` added, in the form of audit.yml. Delete what isn't wanted.\n"
    text += yaml.safe_dump(kept, sort_keys=False, allow_unicode=True)
    with replacing(target) as partial:
        partial.write_text(text, encoding="utf-8")
    return target


def notebooks() -> list[str]:
    """Names of the notebooks there are."""
    return sorted(path.stem for path in paths.NOTEBOOKS.glob("*.ipynb"))


def from_root(path: str | Path) -> str:
    """A path as seen here, as commands at the root of the checkout see it.

    Relative inside of the checkout, absolute elsewhere.
    """
    whole = Path(os.path.abspath(path))
    return str(whole.relative_to(paths.ROOT) if whole.is_relative_to(paths.ROOT) else whole)


def _machine(runs: Iterable[RunPlan]) -> dict[str, Any]:
    """Dtype and device of the first run that has any."""
    each = ({key: run.options[key] for key in EXTRACTING if run.options.get(key)} for run in runs)
    return next(filter(None, each), {})


def _shared(entry: Mapping[str, Any], own: Mapping[str, Mapping], where: str) -> PagePlan:
    notebook = _known(entry["notebook"])
    model = entry.get("model", "")
    if model and model not in own:
        raise unknown(f"model of {where}", model, own)
    if not model and entry.get("datasets"):
        raise ParameterError(
            f"the model whose datasets {notebook} reads in {where}", "none", "Name it: model: …"
        )
    chosen = _chosen(entry, model, own.get(model, {}), where)
    return PagePlan(notebook, model, chosen, shared=True)


def _chosen(
    entry: Mapping[str, Any], model: str, own: Mapping[str, RunPlan], where: str
) -> tuple[RunPlan, ...]:
    """The runs of an entry's datasets."""
    names = entry.get("datasets", [])
    names = list(own) if names == "all" else names
    for name in names:
        if name not in own:
            raise unknown(f"dataset of {model} in {where}", name, own)
    if len(names) > 1 and "runs" not in pages.declared(_known(entry["notebook"])):
        raise ParameterError(
            f"at most one dataset for {entry['notebook']} in {where}",
            str(len(names)),
            "Name the one it reads.",
        )
    return tuple(own[name] for name in names)


def _linked(planned: list[PagePlan]) -> list[PagePlan]:
    """The pages, each with those whose tables it reads; the last page last."""
    declared = {page.notebook: pages.declared(page.notebook) for page in planned}
    models = tuple(dict.fromkeys(page.model for page in planned if not page.shared))
    first = [page for page in planned if "results" not in declared[page.notebook]]
    found = []
    for page in sorted(planned, key=lambda page: page.notebook == LAST):
        if page.notebook == LAST:
            read = [other for other in planned if other.notebook != LAST]
        elif page in first:
            read = []
        elif "model" in declared[page.notebook]:
            read = [other for other in first if other.model == page.model]
        else:
            read = [other for other in first if not other.shared]
        found.append(replace(page, models=models, reads=tuple(other.output for other in read)))
    return found


def _known(notebook: str) -> str:
    if notebook not in notebooks():
        raise unknown("notebook", str(notebook), notebooks())
    return notebook


def _run(model: str, dataset: Mapping[str, Any]) -> RunPlan:
    name = dataset["name"]
    committed = dataset.get("run") == COMMITTED
    if "run" in dataset and not committed:
        raise ParameterError(
            f"run: {COMMITTED}, or no run", _brief(dataset["run"]), "Mend audit.yml."
        )
    place = f"{paths.slug(paths.public(model))}/{paths.slug(paths.public(name))}"
    folder = f"book/runs/{place}" if committed else f"{EXTRACTED}/{place}"
    if committed and not (paths.ROOT / folder / "run.json").is_file():
        raise ParameterError(
            f"the committed run of {model} on {name} at {folder}",
            "none",
            f"Make it: python -m lib extract --model {model} --dataset {name} --out {folder}",
        )
    options = {key: dataset[key] for key in (*LOADING, *EXTRACTING) if key in dataset}
    return RunPlan(model, name, folder, committed, options, dataset.get("parts", 1))


def _minutes(document: Mapping[str, Any], where: str) -> dict[str, float]:
    """How long a page may run, where the document says it."""
    if "page_minutes" not in document:
        return {}
    value = document["page_minutes"]
    good = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not good or not 0 < value <= MOST_MINUTES:
        needed = f"page_minutes as a number above 0, at most {MOST_MINUTES}, in {where}"
        raise ParameterError(needed, _brief(value), "Mend it.")
    return {"page_minutes": value}


class _Loader(yaml.SafeLoader):
    """Safe and bounded; a date stays text; a key that is there twice is refused: one value of
    it would be lost.
    """

    _depth = 0

    def get_single_node(self):
        node = super().get_single_node()
        _weigh(node, {}, ())
        return node

    def compose_node(self, parent, index):
        self._depth += 1
        if self._depth > DEPTH:
            raise yaml.YAMLError(f"entries nested more than {DEPTH} deep")
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def compose_scalar_node(self, anchor):
        node = super().compose_scalar_node(anchor)
        if not _writable(node.value):
            line = node.start_mark.line + 1
            raise yaml.YAMLError(f"a character that no name can have, at line {line}")
        return node

    def compose_mapping_node(self, anchor):
        node = super().compose_mapping_node(anchor)
        for key, count in Counter(key.value for key, _ in node.value if key.id == "scalar").items():
            if count > 1:
                line = node.start_mark.line + 1
                raise yaml.YAMLError(f"{key} {count} times in the entry at line {line}")
        return node


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in each if not tag.endswith(":timestamp")]
    for first, each in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _weigh(node: yaml.Node | None, known: dict[int, int], within: tuple[int, ...]) -> int:
    """How many entries a document has once each alias stands for what it names."""
    if id(node) in within:
        raise yaml.YAMLError("an entry that holds itself")
    if id(node) not in known:
        value = node.value if isinstance(node, yaml.CollectionNode) else []
        below = [each for entry in value for each in (entry if type(entry) is tuple else [entry])]
        inside = (*within, id(node))
        known[id(node)] = 1 + sum(_weigh(each, known, inside) for each in below)
    if known[id(node)] > MOST_ENTRIES:
        raise yaml.YAMLError(f"more than {MOST_ENTRIES:,} entries")
    return known[id(node)]


def _writable(text: str) -> bool:
    try:
        return b"\0" not in text.encode("utf-8")
    except UnicodeEncodeError:  # half of a surrogate pair, bytes that are no text
        return False


def _brief(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # a whole number of thousands of digits
        return "a number that is too long to show"
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"


def _values(dataset: Mapping[str, Any], where: str) -> None:
    """Check what a dataset says of loading and extraction."""
    of = f"for {dataset['name']} in {where}"
    for key in ("source", "device", "date"):
        _text(dataset, key, where)
    for key, known in (("order", ORDERS), ("dtype", DTYPES)):
        _text(dataset, key, where)
        if key in dataset and dataset[key] not in known:
            raise unknown(f"{key} {of}", dataset[key], filter(None, known))
    whole = {
        "limit": (0, MOST_ITEMS, "a limit of 0 (all) or more"),
        "seed": (0, SEEDS[-1], f"a seed from 0 to {SEEDS[-1]}"),
        "parts": (1, MOST_PARTS, f"a number of parts from 1 to {MOST_PARTS}"),
    }
    for key, (least, most, needed) in whole.items():
        value = dataset.get(key, least)
        good = isinstance(value, int) and not isinstance(value, bool) and value >= least
        if not good or value > most:
            raise ParameterError(f"{needed} {of}", f"{key}: {_brief(value)}", "Mend it.")


def _text(entry: Mapping[str, Any], key: str, where: str) -> None:
    if key in entry and not isinstance(entry[key], str):
        raise ParameterError(
            f"a text for {key} in {where}", _brief(entry[key]), "Put it in quotes."
        )


def _only(mapping: Any, keys: set[str], where: str, required: Iterable[str] = ()) -> None:
    if not isinstance(mapping, Mapping):
        raise ParameterError(
            f"keys {', '.join(sorted(keys))} in {where}", _brief(mapping), "Mend it."
        )
    for key in mapping:
        if key not in keys:
            raise unknown(f"key of {where}", _brief(key).strip("'"), keys)
    for key in required:
        if not mapping.get(key):
            raise ParameterError(
                f"a {key} in each such entry of {where}", _brief(mapping), "Add it."
            )
        if key in NAMED and not isinstance(mapping[key], str):
            raise ParameterError(
                f"a text for {key} in {where}", _brief(mapping[key]), "Put it in quotes."
            )


def _names(value: Any, key: str, where: str) -> list[str]:
    for name in _listed(value, key, where):
        if not isinstance(name, str):
            raise ParameterError(f"names of {key} in {where}", _brief(name), "Put it in quotes.")
    return value


def _all_or_names(entry: Mapping[str, Any], where: str) -> None:
    """Check the datasets of a page: a list of names, or ``all``."""
    if "datasets" in entry and entry["datasets"] != "all":
        _names(entry["datasets"], "datasets", where)


def _listed(value: Any, key: str, where: str) -> list:
    if not isinstance(value, list):
        raise ParameterError(f"a list of {key} in {where}", _brief(value), "Write it as one.")
    return value


def _once_each(audit: Mapping[str, Any], where: str) -> None:
    names = [dataset["name"] for dataset in audit["datasets"]]
    for name, count in Counter(names).items():
        if count > 1:
            raise ParameterError(
                f"each dataset of {audit['model']} once in {where}",
                f"{name} {count} times",
                "Leave one entry.",
            )


def _distinct(planned: list[PagePlan], where: str) -> None:
    for output, count in Counter(page.output for page in planned).items():
        if count > 1:
            raise ParameterError(
                f"one page a place in {where}",
                f"{count} at {output}",
                "Name the notebook once, or give the model or dataset another name.",
            )
