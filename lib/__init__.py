"""Audit a reward model: run it once over preference data, do the arithmetic, show a page.

>>> import lib
>>> items = lib.load_items("stimuli/controlled", limit=8)
>>> run = lib.extract(lib.load_model("smol-armo"), items)
>>> table = lib.stats.validity(run)
>>> chart = lib.charts.validity(table)

Data flows one way: Items → Run → Table → Chart → Page. Importing this package imports
nothing heavy; each name is fetched when it is first used.

``data``         items: preference sets, files of pairs, stimuli
``models``       reward models of any layout, their names and templates
``extraction``   runs: one pass of a model over items, kept as it goes
``mechanisms``   effects of a model's parts: lens, attribution, patches
``training``     the embedded models, and how one's own is trained
``check``        is a score even right?
``stats``        tables that several analyses share
``charts``       their figures
``words``        tables as sentences
``analyses``     a folder an analysis: its statistics, charts, words, planted worlds
``planted``      worlds whose answer is known
``calibration``  what each analysis got wrong on them
``summary``      what several pages say together: scorecard, models compared, published claims
``audits``       an audit as one file, and what changed since another
``book``         pages, what they are made from, and the site
``callback``     an audit while a trainer runs
``report``       what a notebook calls
"""

from __future__ import annotations

import importlib
import os

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # read when the hub's client is imported

_FUNCTIONS = {"load_items": "lib.data", "load_model": "lib.models", "extract": "lib.extraction"}
_MODULES = (
    "analyses",
    "audits",
    "book",
    "calibration",
    "callback",
    "charts",
    "check",
    "data",
    "extraction",
    "mechanisms",
    "models",
    "planted",
    "report",
    "stats",
    "summary",
    "training",
    "words",
)

__all__ = ["extract", "load_items", "load_model"]


def __getattr__(name: str):
    if name in _FUNCTIONS:
        return getattr(importlib.import_module(_FUNCTIONS[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"lib.{name}")
    raise AttributeError(f"module 'lib' has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *_FUNCTIONS, *_MODULES])
