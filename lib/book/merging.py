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

# What an entry that doesn't name it means.
UNSAID = {key: Dataset.model_fields[key].default for key in (*LOADING, *EXTRACTING)}
OF_THE_RUN = {key: value for key, value in UNSAID.items() if key != "source"} | {"parts": 1}


def merged(base: Mapping[str, list], more: Mapping[str, list]) -> dict[str, list]:
    """Two documents as one; what both say of a thing is the second's word, and pages add up.

    Raises
    ------
    ParameterError
        When the second would make a committed run of the first in another way.
    """
    audits = {audit["model"]: audit for audit in base["audits"]}
    for audit in more["audits"]:
        known = audits.get(audit["model"])
        audits[audit["model"]] = _together(known, audit) if known else audit
    shared = _joined("notebook", base["pages"], more["pages"])
    document = {"audits": list(audits.values()), "pages": shared}
    for each in (base, more):
        document |= {key: value for key, value in each.items() if key not in ("audits", "pages")}
    return document


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


def _together(known: Mapping[str, Any], audit: Mapping[str, Any]) -> dict[str, Any]:
    named = {dataset["name"]: dataset for dataset in known["datasets"]}
    for dataset in audit["datasets"]:
        _unchanged(known["model"], named.get(dataset["name"], {}), dataset)
    both = {
        "model": known["model"],
        "datasets": _joined("name", known["datasets"], audit["datasets"]),
        "pages": _union(known, audit),
        "once": _joined("notebook", known.get("once", ()), audit.get("once", ())),
    }
    return {key: value for key, value in both.items() if value}


def _joined(key: str, first: Iterable[Mapping], second: Iterable[Mapping]) -> list[dict]:
    found: dict[str, dict] = {}
    for entry in (*first, *second):
        known = found.get(entry[key], {})
        pages = _union(known, entry)
        found[entry[key]] = {**known, **entry, **({"pages": pages} if pages else {})}
    return list(found.values())


def _union(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys([*first.get("pages", ()), *second.get("pages", ())]))


def _unchanged(model: str, known: Mapping[str, Any], dataset: Mapping[str, Any]) -> None:
    """Refuse another word on how a committed run was made: chapters of the book show it."""
    if "run" not in known:
        return
    changed = [
        f"{key}: {dataset[key]}"
        for key, unsaid in OF_THE_RUN.items()
        if key in dataset and dataset[key] != known.get(key, unsaid)
    ]
    if changed:
        name = known["name"]
        raise ParameterError(
            f"the committed run of {model} on {name} as it is: the book's chapters show it",
            ", ".join(changed),
            "Leave that out to add pages of this run, or make single pages of another sample: "
            f"python -m lib page validity -p model={model} -p dataset={name} …",
        )
