"""The form of ``audit.yml``, and the guard that reads it.

What the keys mean is said in ``lib.book.plan``. A document stays as it was written: nothing
is converted, and no default is put in.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, model_validator

from lib.documents import DEPTH, DIGITS, OnceEach, misfit, read_bytes, shown
from lib.errors import ParameterError, unknown
from lib.parameters import SEEDS

MOST_PARTS = 1000
MOST_ITEMS = 2**63 - 1
MOST_BYTES = 1 << 20  # of a document
MOST_ENTRIES = 100_000
MINUTES = 360  # that a page may run
MOST_MINUTES = 100_000
LOADING = ("source", "limit", "seed", "order")
MACHINE = ("dtype", "device", "date")
EXTRACTING = (*MACHINE, "taps")

Text = Annotated[str, Field(pattern=r"^[^\x00]*$")]  # what a path can be
Name = Annotated[Text, Field(min_length=1)]


class Entry(BaseModel):
    """A mapping of known keys."""

    model_config = ConfigDict(strict=True)

    @model_validator(mode="before")
    @classmethod
    def _known(cls, value: Any, about: ValidationInfo) -> Any:
        for key in value if isinstance(value, Mapping) else ():
            if key not in cls.model_fields:
                raise unknown(f"key of {about.context}", shown(key).strip('"'), cls.model_fields)
        return value


class Dataset(Entry):
    """A run of a model, and pages of it."""

    name: Name
    run: Literal["committed"] = None  # else it is extracted when the book is built
    effects: Literal["committed"] = None  # else they are computed then, where a page reads them
    pages: list[Name] = []
    parts: Annotated[int, Field(ge=1, le=MOST_PARTS)] = 1
    source: Text = ""
    limit: Annotated[int, Field(ge=0, le=MOST_ITEMS)] = 0
    seed: Annotated[int, Field(ge=0, le=SEEDS[-1])] = 0
    order: Literal["sample", "head"] = "sample"
    dtype: Literal["", "float32", "bfloat16", "float16"] = ""
    device: Text = ""
    date: Text = ""
    taps: list[Literal["layers", "neurons", "writes", "attended"]] = []


class Once(Entry):
    """A page of a model as a whole."""

    notebook: Name
    datasets: list[Name] | Literal["all"] = []  # "all" of its model


class Shared(Once):
    """A page of the book as a whole."""

    model: Text = ""


class Audit(Entry):
    """A model with its datasets."""

    model: Name
    datasets: Annotated[list[Dataset], Field(min_length=1)]
    pages: list[Name] = []
    once: list[Once] = []


class Document(Entry):
    """All of ``audit.yml``."""

    audits: list[Audit] | None = []
    pages: list[Shared] | None = []
    page_minutes: Annotated[float, Field(gt=0, le=MOST_MINUTES)] = MINUTES


def load(path: Path) -> dict[str, Any]:
    """The document in a file, checked.

    Raises
    ------
    ParameterError
        When the file isn't YAML of this form; the message names the place in it.
    """
    content = read_bytes(path, what="YAML", error=ParameterError, limit=MOST_BYTES)
    try:
        document = copy.deepcopy(_parsed(content))  # what follows puts more into it
    except RecursionError:
        found = f"entries nested more than {DEPTH} deep"
        raise ParameterError(f"YAML at {path}", found, "Mend the file.") from None
    except Exception as error:  # a tag on a value that isn't one raises whatever Python does
        found = str(error) if isinstance(error, yaml.YAMLError) else f"a value: {error}"
        raise ParameterError(f"YAML at {path}", found, "Mend the file.") from None
    return checked(document, path.name)


@lru_cache(maxsize=8)  # a build asks for the same one or two step by step
def _parsed(content: bytes) -> Any:
    return yaml.load(content.decode("utf-8"), _Loader) or {}


def checked(document: Any, where: str) -> dict[str, Any]:
    """A document of the right form, with its lists of audits and pages there."""
    wrong = misfit(document, Document, context=where)
    if wrong:
        place, needed, found = wrong
        of = f" as {_place(document, place)}" if place else ""
        remedy = "Put it in quotes." if needed == "a valid string" else "Mend it."
        raise ParameterError(f"{needed}{of} in {where}", found, remedy)
    document |= {key: document.get(key) or [] for key in ("audits", "pages")}
    once_each((audit["model"] for audit in document["audits"]), f"each model once in {where}")
    for audit in document["audits"]:
        names = (dataset["name"] for dataset in audit["datasets"])
        once_each(names, f"each dataset of {audit['model']} once in {where}")
    return document


def _place(document: Any, place: Iterable[str]) -> str:
    """``audits.MODEL.datasets.NAME.limit``: an entry goes by its name where it has one."""
    words, inner = [], document
    for part in place:
        inner = inner[int(part)] if isinstance(inner, list) else inner.get(part)
        named = inner if isinstance(inner, Mapping) else {}
        names = (named[key] for key in ("model", "name", "notebook") if key in named)
        words.append(next((name for name in names if isinstance(name, str)), part))
    return ".".join(words)


def once_each(names: Iterable[str], needed: str, remedy: str = "Leave one entry.") -> None:
    """Raise when a name is there twice."""
    for name, count in Counter(names).items():
        if count > 1:
            raise ParameterError(needed, f"{name} {count} times", remedy)


class _Loader(OnceEach):
    """Safe and bounded. A date stays text, and a key is there once."""

    def get_single_node(self):
        node = super().get_single_node()
        _weigh(node, {}, ())
        return node

    def construct_yaml_int(self, node):
        value = super().construct_yaml_int(node)
        if abs(value) >= 10**DIGITS:
            raise yaml.YAMLError(f"a whole number of more than {DIGITS} digits")
        return value


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in each if not tag.endswith(":timestamp")]
    for first, each in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _weigh(node: yaml.Node | None, known: dict[int, int], within: tuple[int, ...]) -> int:
    """How many entries a document has once each alias stands for what it names."""
    if id(node) in within:
        raise yaml.YAMLError("an entry that holds itself")
    if len(within) > DEPTH:
        raise RecursionError
    if id(node) not in known:
        value = node.value if isinstance(node, yaml.CollectionNode) else []
        below = [each for entry in value for each in (entry if type(entry) is tuple else [entry])]
        known[id(node)] = 1 + sum(_weigh(each, known, (*within, id(node))) for each in below)
    if known[id(node)] > MOST_ENTRIES:
        raise yaml.YAMLError(f"more than {MOST_ENTRIES:,} entries")
    return known[id(node)]
