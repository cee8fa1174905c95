"""What a page needs besides tables and charts: checked parameters, its run, its provenance.

A page opens with ``page = report.begin("validity", globals())`` and calls methods of ``page``.
Text that comes from data or models is escaped wherever it is shown.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd
import xarray as xr

from lib import manipulated, parameters, paths, records, tables
from lib.check import lines as checks
from lib.data import load_items
from lib.data.items import Items
from lib.effects import FINAL
from lib.errors import AuditError, ParameterError
from lib.extraction import extract, load_run
from lib.markup import Html, escape
from lib.markup import said as said
from lib.markup import table as table
from lib.markup import takeaways as takeaways
from lib.mechanisms.disk import load_effects
from lib.models.files import EMBEDDED
from lib.run import pool

INJECTED = "# Parameters"
PACKAGES = ("numpy", "scipy", "pandas", "xarray", "altair")
STIMULI = ("stimuli/controlled", "stimuli/holistic", "stimuli/probes")


@dataclass
class Page:
    """An executing page."""

    name: str  # the notebook's, without suffix
    parameters: dict[str, Any]  # checked
    defaults: Mapping[str, Any] = field(default_factory=dict)  # what the notebook declares
    _saved: list[str] = field(default_factory=list)
    _started: float = field(default_factory=time.monotonic)

    @cached_property
    def run(self) -> xr.Dataset:
        """The Run: from the folder that ``run`` names, those that ``runs`` names as one, or
        extracted now.
        """
        if self.parameters.get("run"):
            return self._matching(self.parameters["run"], ("model", "dataset"))
        if self.parameters.get("runs"):
            return pool(self.runs)
        return extract(self.model, self.items, taps=tuple(self.parameters.get("taps", ())))

    @cached_property
    def runs(self) -> list[xr.Dataset]:
        """The Runs: from the folders that ``runs`` names, else the page's one run if it declares
        ``run``, else of the stimuli, extracted now.
        """
        folders = self.parameters.get("runs")
        if "run" in self.parameters and (self.parameters["run"] or not folders):
            return [self.run]
        if folders:
            return [self._matching(folder, ("model",)) for folder in folders]
        return [extract(self.model, load_items(name)) for name in STIMULI]

    @cached_property
    def judged(self) -> pd.DataFrame | None:
        """Comparisons with whose choice each was, where the items of the page's one run are at
        hand and say so.
        """
        if self.parameters.get("runs") and not self.parameters.get("run"):
            return None
        items = self.items
        named = not isinstance(items, str) and "user" in items.comparisons
        return items.comparisons if named else None

    @cached_property
    def controlled(self) -> xr.Dataset | None:
        """The run of controlled stimuli: in the folder that ``named`` names, among the page's
        runs, the committed one of an embedded model, or extracted as the page's own run is;
        ``None`` where there is none.
        """
        given = self.parameters
        if given.get("named"):
            return self._matching(given["named"], ("model",))
        own = [run for run in self.runs if run.attrs["dataset"] == STIMULI[0]]
        if own or given.get("run") or given.get("runs"):
            return own[0] if own else None
        committed = paths.RUNS / given["model"] / STIMULI[0]
        if given["model"] in EMBEDDED and committed.is_dir():
            return self._matching(str(committed), ("model",))
        return extract(self.model, load_items(STIMULI[0]))

    @cached_property
    def effects(self) -> xr.Dataset:
        """Effects (``lib.effects``): from the folder that ``effects`` names, or computed now, with
        as many comparisons patched as the page declares.
        """
        if self.parameters.get("effects"):
            return self._matching(self.parameters["effects"], ("model", "dataset"), load_effects)
        from lib.mechanisms.effects import effects  # imports torch

        sizes = {name: self.parameters.get(name, 0) for name in ("seed", "patched")}
        return effects(self.model, self.texts, **sizes)

    @cached_property
    def explained(self) -> list[xr.Dataset]:
        """Effects from the folders that ``explained`` names; none where it names none."""
        folders = self.parameters["explained"]
        return [self._matching(folder, ("model",), load_effects) for folder in folders]

    @cached_property
    def model(self):
        """The reward model, on the ``device`` and with the ``dtype`` that the page is given."""
        from lib.models import load_model  # imports torch

        options = {key: self.parameters.get(key) or None for key in ("device", "dtype", "date")}
        name = self.parameters["model"]
        model = load_model(paths.place(name), **options)
        if paths.place(name) != name:
            model.name = name
        return model

    @cached_property
    def checked(self):
        """The check of the page's model: from the file that ``check`` names, else made now."""
        given = self.parameters
        name = given["model"]
        if given.get("check"):
            found = checks.load(paths.found(given["check"]))
            if found.model != name:
                raise ParameterError(
                    f"a check of {name}", f"one of {found.model}", "Name that model's, or none."
                )
            return found
        from lib.check import check  # imports torch

        options = {key: given[key] or None for key in ("source", "device", "date")}
        options |= {key: given[key] for key in ("items", "seed", "quick")}
        found = check(paths.place(name), data=paths.place(given["dataset"]), **options)
        return replace(found, model=name, dataset=paths.shown(found.dataset))

    @cached_property
    def items(self) -> Items | str:
        """The items with their text; of a run extracted before, those it scored.

        A sentence where their text isn't at hand, or isn't what was scored.
        """
        given = self.parameters
        folder, name = given.get("run", ""), given["dataset"]
        kept = folder or given.get("effects", "")
        if kept and not (given.get("source") or _at_hand(paths.place(name))):
            return _not_at_hand(name)
        if not kept:
            return self.texts
        return _scored(self.texts, self.run if folder else self.effects, kept)

    @cached_property
    def texts(self) -> Items:
        """The items with their text, whatever was computed of them before."""
        given = self.parameters
        options = {key: given[key] for key in ("limit", "seed", "order") if key in given}
        if given.get("run") and "ties" in self.run.attrs.get("about", {}):
            options["ties"] = "keep"
        source = paths.place(given.get("source") or "")
        items = load_items(paths.place(given["dataset"]), source=source, **options)
        return replace(items, name=paths.shown(items.name))

    def _matching(
        self, folder: str, names: Sequence[str], load: Callable[..., xr.Dataset] = load_run
    ) -> xr.Dataset:
        """The run, or what ``load`` reads, in the folder, when it is of the page's model and
        dataset.
        """
        run = load(paths.found(folder))
        for name in ("model", "dataset"):
            run.attrs[name] = paths.shown(run.attrs[name])
        for name in names:
            if run.attrs[name] != self.parameters[name]:
                raise ParameterError(
                    f"a run of {name} {self.parameters[name]!r}",
                    f"one of {run.attrs[name]!r} in {folder}",
                    f"Name the run of that {name}, or leave it out to extract it.",
                )
        return run

    def glue(self, **values) -> None:
        """Keep values under their names, for this page's prose and for other pages.

        Numbers are kept as Python's own, so that a page can format them.
        """
        from myst_nb import glue

        for name, value in values.items():
            glue(name, value.item() if hasattr(value, "item") else value, display=False)

    def save(self, table: pd.DataFrame, name: str) -> None:
        """Write a table beside the executed page as ``name.parquet``, by rename.

        Before ``provenance``, whose record names the page's tables.
        """
        folder = self.parameters.get("tables", "")
        if not folder:
            return
        try:
            tables.write(paths.tables(folder), **{name: table})
        except OSError as error:
            raise _no_tables(folder, str(error)) from None
        self._saved.append(name)

    def provenance(self) -> Html:
        """What made this page, folded: model, data, versions, machine, commit, command.

        A page that declares no run has none of the rows that speak of one.
        """
        runs = self.runs if {"run", "runs"} & set(self.parameters) else []
        runs = runs or ([self.effects] if "effects" in self.parameters else [])
        compared = [self._compared(run) for run in runs]
        rows = {}
        if runs:
            attrs = runs[0].attrs
            rows = {
                "Model": f"{attrs['model']} ({_pairs(attrs['fingerprint'])})",
                "Data": "; ".join(map(_data, runs)),
                "Extraction": "; ".join(sorted({_pairs(run.attrs["extraction"]) for run in runs})),
                "Extracted with": _pairs(attrs["versions"]),
                "Against the model at hand": " ".join(now for _, now in compared),
            }
        if "check" in self.parameters:
            found, now = self.checked, self._as_at_hand()
            compared.append(now)
            rows = {
                "Model": f"{found.model} ({_pairs(found.fingerprint)})",
                "Data": f"{found.dataset}: {found.items} items",
                "Checked with": _pairs(found.versions),
                "Against the model at hand": now[1],
            }
        rows |= {
            "Page made with": _pairs({name: version(name) for name in PACKAGES}),
            "Machine": f"{platform.machine()}, {os.cpu_count()} cores, Python "
            f"{platform.python_version()}",
            "Seed": str(self.parameters.get("seed", "none")),
            "Commit": _commit(),
            "Run time": f"{time.monotonic() - self._started:.1f} s",
        }
        if runs:
            rows["Prompt as rendered"] = runs[0].attrs["template_example"]
        elif "check" in self.parameters:
            rows["Prompt as rendered"] = self.checked.example
        rows["Made by"] = self.command()
        if self.parameters.get("tables"):
            folder = paths.tables(self.parameters["tables"])
            records.write(self.name, rows, folder, [run.attrs for run in runs], self._saved)
        body = "".join(
            f"<tr><th>{escape(key)}</th><td><code>{escape(value)}</code></td></tr>"
            for key, value in rows.items()
        )
        other = [f'<p class="mismatch">{escape(text)}</p>' for differs, text in compared if differs]
        return Html(
            f'{"".join(other)}<details class="provenance"><summary>How this page was made</summary>'
            f'<table class="mathjax_ignore">{body}</table></details>'
        )

    def _compared(self, run: xr.Dataset) -> tuple[bool, str]:
        """Is a run of another model than the one at hand by that name? And that in words."""
        from lib.models import identity
        from lib.models.names import GIVEN

        made, attrs = run.attrs["extraction"], run.attrs
        run = run.sel(head=run["head"] != FINAL)  # which effects have beside the heads
        sources = set(run["head_source"].values.tolist())
        heads = run["head"].values.tolist() if sources == {GIVEN} else None
        try:
            place, date = paths.place(attrs["model"]), made.get("date", "")
            now = identity.at_hand(place, dtype=made["dtype"], date=date, heads=heads)
        except (AuditError, KeyError, OSError) as error:
            return False, f"{attrs['dataset']}: not compared ({paths.shown(str(error))})."
        parts = identity.differences(attrs["fingerprint"], now)
        return bool(parts), against(attrs, parts, identity.versions())

    def _as_at_hand(self) -> tuple[bool, str]:
        """As ``_compared``, of the page's check."""
        from lib.models import identity

        found = self.checked
        if not self.parameters["check"] or not found.fingerprint:
            return False, "Checked now." if found.fingerprint else "It didn't load."
        try:
            now = identity.at_hand(paths.place(found.model), date=self.parameters["date"])
        except (AuditError, OSError) as error:
            return False, f"not compared ({paths.shown(str(error))})."
        parts = identity.differences(found.fingerprint, now)
        attrs = {"model": found.model, "dataset": found.dataset, "versions": found.versions}
        return bool(parts), against(attrs, parts, identity.versions(), "check")

    def command(self) -> str:
        """The papermill command that makes this page, without its tables.

        Empty values are left out where they are the defaults.
        """
        given = self.parameters
        words = ["papermill", f"notebooks/{self.name}.ipynb", "out.ipynb"]
        for name, value in given.items():
            unused = name == "dataset" and given.get("runs") and not given.get("run")
            default = not value and value == self.defaults.get(name, value)
            if name != "tables" and not unused and not default:
                words += _words(name, value)
        return " ".join(shlex.quote(word) for word in words)


def begin(name: str, namespace: Mapping[str, Any]) -> Page:
    """Open a page, given the notebook's name and ``globals()``.

    Raises
    ------
    ParameterError
        For an injected name that the page doesn't declare, a value of another type, or
        ``tables`` where no folder can be.
    """
    cells = [str(cell) for cell in namespace.get("In", [])]
    known: dict[str, parameters.Parameter] = {}
    given: set[str] = set()
    for cell in cells:
        if cell.startswith(INJECTED):
            given |= parameters.assigned(cell)
        elif not known and cell.strip():
            known = parameters.declared(cell)
    values = {name: namespace[name] for name in known}
    checked = parameters.check(known, values, names=[*known, *sorted(given)])
    if checked.get("tables"):
        _check_tables(checked["tables"])
    _heed(checked.get("model", ""))
    return Page(name, checked, {name: parameter.default for name, parameter in known.items()})


def _heed(model: str) -> None:
    """Say it at the top where the scores of a page's model are known to be wrong."""
    from IPython.display import display

    if model and (lines := checks.unsound(model)):
        display(Html(f'<p class="mismatch">{escape(checks.warning(model, lines))}</p>'))


def _check_tables(folder: str) -> None:
    """Say at once, and not after hours, that no table can be written there."""
    try:
        place = paths.found(folder)
        blocked = [each for each in (place, *place.parents) if each.exists() and not each.is_dir()]
    except OSError as error:  # a name too long
        raise _no_tables(folder, str(error)) from None
    if blocked:
        raise _no_tables(folder, f"{blocked[0]}, which isn't one")


def _no_tables(folder: str, found: str) -> ParameterError:
    return ParameterError(f"a folder for the page's tables at {folder!r}", found, "Name another.")


def examples(items: Items | str, n: int = 3, seed: int = 0, longest: int = 700) -> Html:
    """A seeded sample of comparisons with their text, escaped and cut to ``longest``.

    In place of items a sentence says why they can't be shown.
    """
    if isinstance(items, str):
        return Html(f"<p>{escape(items)}</p>")
    sample = items.comparisons.sample(min(n, len(items.comparisons)), random_state=seed)
    return _shown(items, sample, longest)


def example(items: Items | str, item: str, better: int, worse: int, longest: int = 4000) -> Html:
    """One comparison with its text, unfolded: of an item, by the places of its two responses.

    In place of items a sentence says why it can't be shown.
    """
    if isinstance(items, str):
        return Html(f"<p>{escape(items)}</p>")
    rows, slot = items.comparisons, items.responses["slot"]
    places = (slot[rows["better"]].to_numpy() == better) & (slot[rows["worse"]].to_numpy() == worse)
    one = rows[places & (rows["item"].astype(str) == item).to_numpy()].head(1)
    return _shown(items, one, longest, " open")


def _shown(items: Items, rows: pd.DataFrame, longest: int, opened: str = "") -> Html:
    prompts = items.prompts.set_index("item")["prompt"]
    texts = items.responses["text"]
    blocks = []
    for row in rows.itertuples():
        turns = [(turn["role"], turn["content"]) for turn in prompts[row.item]]
        turns += [("better", texts[row.better]), ("worse", texts[row.worse])]
        lines = "".join(
            f'<dt>{escape(role)}</dt><dd dir="auto">{escape(_cut(text, longest))}</dd>'
            for role, text in turns
        )
        label = f"<summary>{escape(f'{row.item} ({row.criterion})')}</summary>"
        blocks.append(f"<details{opened}>{label}<dl>{lines}</dl></details>")
    return Html(f'<div class="examples mathjax_ignore">{"".join(blocks)}</div>')


def layout(run: xr.Dataset) -> Html:
    """How the rows of a file were read, and which columns weren't; nothing for other sets."""
    about = run.attrs.get("about", {})
    rows = {"Read as": "layout", "Columns not read": "not read", "Ties": "ties"}
    rows |= {"Manipulated": "manipulated", "Responses left as they are": "not manipulated"}
    sentences = [f"{what}: {escape(about[key])}." for what, key in rows.items() if key in about]
    return Html(f"<p>{' '.join(sentences)}</p>" if sentences else "")


def _cut(text: str, longest: int) -> str:
    left = len(text) - longest
    return text if left <= 0 else f"{text[:longest]} … ({left} more characters)"


def _data(run: xr.Dataset) -> str:
    attrs = run.attrs
    dropped = ", ".join(f"{n} {reason}" for reason, n in attrs["dropped"].items()) or "none"
    missing = ", ".join(attrs["missing"]) or "none"
    return (
        f"{attrs['dataset']} (fingerprint {attrs['items']}): {run.sizes['item']} items, "
        f"{run.sizes['response']} responses; left out: {dropped}; missing: {missing}"
    )


def _pairs(mapping: Mapping[str, str]) -> str:
    return ", ".join(f"{key} {value}" for key, value in mapping.items())


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    try:
        done = subprocess.run(command, cwd=paths.ROOT, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return done.stdout.strip() or "unknown"


def _at_hand(dataset: str) -> bool:
    """Is the dataset's text there without a source?"""
    dataset, _ = manipulated.split(dataset)
    if dataset.startswith("file:"):
        return Path(dataset.removeprefix("file:")).is_file()
    return dataset.startswith("stimuli/")


def _not_at_hand(dataset: str) -> str:
    dataset, _ = manipulated.split(dataset)
    if dataset.startswith("file:"):
        return f"There is no file at {dataset.removeprefix('file:')}, so no example is shown."
    return (
        f"The text of {dataset} isn't read here. To see examples, execute this page with the "
        "folder of its files as source."
    )


def _scored(items: Items, run: xr.Dataset, folder: str) -> Items | str:
    """The items that a run scored, unless their text is another now."""
    from lib.extraction.stream import is_stream

    kept = items.select(items.prompts["item"].astype(str).isin(run["item"].values).to_numpy())
    if is_stream(paths.found(folder)):  # its fingerprint is of pieces, whose size isn't known
        lengths = kept.responses["text"].str.len().tolist()
        same = kept.prompts["prompt_hash"].tolist() == run["prompt_hash"].values.tolist()
        same = same and lengths == run["n_chars"].values.tolist()
    else:
        same = kept.fingerprint == run.attrs["items"]
    if same:
        return kept
    return (
        f"The text of {items.name} that is at hand isn't what this run scored, so no example "
        "is shown. Extract the run again, or give the files that it was made from."
    )


def _words(name: str, value: Any) -> list[str]:
    """A parameter as papermill reads it: as text, as a number, or else as YAML."""
    if isinstance(value, str):
        return ["-r", name, value]
    if isinstance(value, (list, dict)):
        return ["-y", json.dumps({name: value})]
    return ["-p", name, str(value)]


def against(
    attrs: Mapping, parts: Sequence[str], versions: Mapping[str, str], kind: str = "run"
) -> str:
    """A run or a check, by its attributes, beside the model at hand: which parts are others, as
    ``lib.models.identity.differences`` names them, and which of the installed versions.
    """
    run = f"the {kind} of {attrs['model']} on {attrs['dataset']}"
    if parts:
        differing = " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))
        return (
            f"T{run[1:]} was made by another model than the one at hand by that name: "
            f"{differing} differ. Its numbers are of then; make it again for those of now."
        )
    others = [
        f"{name} {made} then and {versions[name]} now"
        for name, made in attrs["versions"].items()
        if versions.get(name, made) != made
    ]
    found = f"In {run} weights, configuration, tokens and heads are those of the model at hand"
    if "verified" in attrs:
        again = attrs["verified"]
        found += (
            f", found by tokenising its {again['items']} items and scoring "
            f"{again['responses']} responses again (within {again['within']:g} sd of a head)"
        )
    return found + (f"; other versions: {', '.join(others)}." if others else ".")


if "ipykernel" in sys.modules:  # progress bars belong in terminals, not in pages
    os.environ.setdefault("TQDM_DISABLE", "1")
    warnings.filterwarnings("ignore", message="IProgress not found")
