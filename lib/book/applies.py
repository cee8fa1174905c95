"""Which pages make sense for a model: some analyses need several heads, a gate, or a backbone
whose parts can be told.

A page without what it needs still runs, and says so in a sentence; the table of contents
leaves it out. The shape of a model is read from the files of a run, without loading either.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path

from lib import analyses, paths
from lib.book import pages
from lib.book.plan import PagePlan
from lib.declared import Analysis
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
    needed = analysis(notebook)
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


@cache
def analysis(notebook: str) -> Analysis | None:
    """What the analysis of a notebook declares; ``None`` where it asks nothing of a model.

    It alone is imported: those of ``lib.summary``, which need nothing of one, bring all of
    statistics with them, which takes longer than a build that is done.
    """
    if notebook not in {found.name for found in pkgutil.iter_modules(analyses.__path__)}:
        return None
    return importlib.import_module(f"{analyses.__name__}.{notebook}").ANALYSIS


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
    files = tuple(Path(folder) / name for name in ("run.json", "run.safetensors"))
    try:
        states = [path.stat() for path in files]
        held = [(each.st_size, each.st_mtime_ns, each.st_ctime_ns, each.st_ino) for each in states]
        return _of_files(*files, *held)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


@lru_cache(maxsize=256)  # a plan asks for the same few runs page by page
def _of_files(described: Path, kept: Path, *held: tuple[int, ...]) -> Shape:
    """The shape that a run's files tell, of which ``held`` says that they are the same ones."""
    document = json.loads(described.read_bytes())
    with kept.open("rb") as file:  # what reads tensors takes longer to import than all else here
        length = int.from_bytes(file.read(8), "little")
        if not length < kept.stat().st_size:
            raise ValueError("no safetensors")
        gated = "gate" in json.loads(file.read(length))
    shape = _shape(document["sizes"]["head"], document["strings"]["head_concept"], gated)
    return replace(shape, sparse=None)


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
