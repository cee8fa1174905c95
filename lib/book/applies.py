"""Which pages make sense for a model: some analyses need several heads, a gate, or a backbone
whose parts can be told.

A page without what it needs still runs, and says so in a sentence; the table of contents
leaves it out. The shape of a model is read from the files of a run, without loading either.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from safetensors import SafetensorError, safe_open

from lib import declared, paths
from lib.book import pages
from lib.book.plan import PagePlan
from lib.errors import ModelError


@dataclass(frozen=True)
class Shape:
    """What of a model decides which pages say something.

    Attributes
    ----------
    heads
        How many.
    concepts
        How many different concepts their names claim.
    gated
        Does a gate weigh the heads?
    unexplained
        Why effects of its parts can't be computed, in words; empty where they can, and where
        only loading the model would show it.
    sparse
        Does its reward read a sparse autoencoder? ``None`` where only its weights would show it.
    """

    heads: int
    concepts: int
    gated: bool
    unexplained: str = ""
    sparse: bool | None = field(default=False, compare=False)


def suits(notebook: str, shape: Shape) -> bool:
    """Has an analysis something to say about a model of this shape?"""
    return not missing(notebook, shape)


def missing(notebook: str, shape: Shape) -> str:
    """What a model of this shape lacks for an analysis, in words; empty when nothing."""
    needed = declared.every().get(notebook)
    if needed is None:
        return ""
    if shape.unexplained and explains(notebook):
        return shape.unexplained
    if needed.gated and not shape.gated:
        return "a gate"
    if needed.sparse and shape.sparse is False:
        return "a reward that reads a sparse autoencoder"
    if shape.heads < needed.heads:
        return f"{needed.heads} heads"
    return f"heads that claim {needed.concepts} concepts" * (shape.concepts < needed.concepts)


def explains(notebook: str) -> bool:
    """Does a notebook read effects of a model's parts?"""
    return "effects" in pages.declared(notebook)


def patches(notebook: str) -> bool:
    """Does a notebook read what patching comparisons does to their margins?"""
    return explains(notebook) and "patched" in pages.declared(notebook)


def of_model(model) -> Shape:
    """The shape of a loaded model."""
    from lib.mechanisms.effects import explainable

    shape = _shape(len(model.heads), (head.concept for head in model.heads), model.gated)
    shape = replace(shape, sparse=getattr(model, "reward", None) is not None)
    try:
        explainable(model)
    except ModelError as error:
        return replace(shape, unexplained=str(error))
    return shape


def of_run(folder: str | Path) -> Shape | None:
    """The shape of the model whose run lies in a folder; ``None`` when none can be read."""
    folder = Path(folder)
    try:
        document = json.loads((folder / "run.json").read_bytes())
        with safe_open(folder / "run.safetensors", framework="numpy") as tensors:
            gated = "gate" in tensors.keys()  # noqa: SIM118
        shape = _shape(document["sizes"]["head"], document["strings"]["head_concept"], gated)
        return replace(shape, sparse=None)
    except (OSError, ValueError, KeyError, TypeError, RecursionError, SafetensorError):
        return None


def _shape(heads: int, concepts: Iterable[str], gated: bool) -> Shape:
    return Shape(int(heads), len({concept for concept in concepts if concept}), bool(gated))


def listed(page: PagePlan) -> bool:
    """Does a page belong in the table of contents?

    Yes unless a run that it reads shows a model it has nothing to say about; a run that
    isn't extracted yet shows nothing.
    """
    shapes = (of_run(paths.ROOT / run.folder) for run in page.runs)
    known = next((shape for shape in shapes if shape is not None), None)
    return known is None or suits(page.notebook, known)
