"""What ``audit.local.yml`` adds to ``audit.yml``, and what ``make audit`` adds to that.

Both are documents as ``lib.book.document.load`` returns them. Models, datasets and notebooks keep
the place where they were first named.

``merged``    two documents as one
``explicit``  an audit that says what it leaves out, where it must
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lib.book.document import EXTRACTING, LOADING, Dataset
from lib.errors import ParameterError

NAMES = ("notebook", "name", "model")  # of entries, the first that there is
# What an entry that doesn't name it means.
UNSAID = {key: Dataset.model_fields[key].default for key in (*LOADING, *EXTRACTING)}
OF_THE_RUN = {key: value for key, value in UNSAID.items() if key != "source"} | {"parts": 1}


def merged(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Two documents as one; what both say of a thing is the second's word, and pages add up.

    Raises
    ------
    ParameterError
        When the second would make a committed run of the first in another way.
    """
    _keep_committed(base, more)
    return _together(base, more)


def explicit(audit: Mapping[str, Any], known: Mapping[str, list]) -> dict[str, Any]:
    """An audit that can be merged and means what it means alone.

    Where an earlier entry of a dataset says what this one leaves out, it says it as well.
    Entries of committed runs stay as they are.
    """
    before = {
        dataset["name"]: dataset
        for each in known["audits"]
        if each["model"] == audit["model"]
        for dataset in each["datasets"]
        if "run" not in dataset
    }
    datasets = []
    for dataset in audit["datasets"]:
        earlier = before.get(dataset["name"], {})
        unsaid = {
            key: value
            for key, value in UNSAID.items()
            if key not in dataset and earlier.get(key, value) != value
        }
        datasets.append({**dataset, **unsaid})
    return {**audit, "datasets": datasets}


def _together(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    both = {**first, **second}
    if "notebook" not in both:  # the datasets of a page are as the second names them
        for key in ("audits", "datasets", "once", "pages"):
            if key in both:
                both[key] = _joined(first.get(key, ()), second.get(key, ()))
    return both


def _joined(first: Iterable, second: Iterable) -> list:
    """Names, or entries by their names."""
    found: dict[str, Any] = {}
    for entry in (*first, *second):
        named = isinstance(entry, Mapping)
        name = next(entry[key] for key in NAMES if key in entry) if named else entry
        found[name] = _together(found.get(name, {}), entry) if named else entry
    return list(found.values())


def _keep_committed(base: Mapping[str, Any], more: Mapping[str, Any]) -> None:
    """Refuse another word on how a committed run was made: chapters of the book show it."""
    committed = {
        (audit["model"], dataset["name"]): dataset
        for audit in base["audits"]
        for dataset in audit["datasets"]
        if "run" in dataset
    }
    again = ((audit["model"], dataset) for audit in more["audits"] for dataset in audit["datasets"])
    for model, dataset in again:
        name = dataset["name"]
        known = committed.get((model, name), dataset)
        changed = [
            f"{key}: {dataset[key]}"
            for key, unsaid in OF_THE_RUN.items()
            if key in dataset and dataset[key] != known.get(key, unsaid)
        ]
        if changed:
            raise ParameterError(
                f"the committed run of {model} on {name} as it is: the book's chapters show it",
                ", ".join(changed),
                "Leave that out to add pages of this run, or make single pages of another sample: "
                f"python -m lib page validity -p model={model} -p dataset={name} …",
            )
