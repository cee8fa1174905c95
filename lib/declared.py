"""What each analysis declares of itself, and all of them by name.

An analysis is a folder of ``lib.analyses``, or of ``lib.summary`` where it reads what others
left. Its front holds one ``Analysis``; every list of analyses in this package is made from these.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType

PACKAGES = ("lib.analyses", "lib.summary")
EACH, STIMULI, ONCE, OVER_ALL = "each dataset", "each of the stimuli", "once", "once, over all"
SEVERAL = "each dataset with several responses a prompt"


@dataclass(frozen=True)
class Analysis:
    """One analysis: where it stands, whom it suits, and what others take of it.

    Attributes
    ----------
    package
        The front's ``__name__``; its last part names the analysis and its notebook.
    place
        Order among all analyses, in an audit's pages and on the calibration page.
    method
        Heading of its section in ``book/methods.md``; empty where it computes nothing new.
    audited
        When ``make audit`` makes its page: for ``EACH`` dataset, each of the ``STIMULI``, each
        with ``SEVERAL`` responses to some prompt (three or more), one that
        is named, ``ONCE`` a model, once ``OVER_ALL`` datasets; empty for pages that an audit
        doesn't add.
    heads, concepts, gated, sparse
        What a model needs for the page to say something: that many heads, that many different
        concepts claimed by their names, a gate, a reward that reads a sparse autoencoder.
    calibrated
        Does its ``calibration`` module hold ``checks(draws, seed)``?
    keeps
        Tables of its page that other pages read, with the columns they read.
    """

    package: str
    place: int
    method: str = ""
    audited: str = ""
    heads: int = 1
    concepts: int = 0
    gated: bool = False
    sparse: bool = False
    calibrated: bool = False
    keeps: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Of the folder and the notebook."""
        return self.package.rpartition(".")[2]

    def module(self, part: str) -> ModuleType:
        """A module of its folder, such as ``calibration``."""
        return importlib.import_module(f"{self.package}.{part}")


@cache
def every() -> dict[str, Analysis]:
    """All analyses by name, in their order."""
    fronts = [
        importlib.import_module(f"{package}.{found.name}")
        for package in PACKAGES
        for found in pkgutil.iter_modules(importlib.import_module(package).__path__)
        if found.ispkg
    ]
    known = sorted((front.ANALYSIS for front in fronts), key=lambda each: each.place)
    return {each.name: each for each in known}


def audited(when: str) -> list[str]:
    """Names of the analyses whose pages an audit makes then."""
    return [name for name, each in every().items() if each.audited == when]
