"""Audit a reward model: run it once over preference data, do the arithmetic, show a page.

>>> import lib
>>> items = lib.load_items("stimuli/controlled", limit=8)
>>> run = lib.extract(lib.load_model("smol-armo"), items)
>>> table = lib.stats.validity(run)
>>> chart = lib.charts.validity(table)

Data flows one way: Items → Run → Table → Chart → Page. Importing this package imports
nothing heavy; each name is fetched when it is first used.
"""

from __future__ import annotations

import importlib
import os

os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"  # read when the hub's client is imported

_FUNCTIONS = {"load_items": "lib.data", "load_model": "lib.models", "extract": "lib.extraction"}
_MODULES = (
    "analyses",
    "book",
    "calibration",
    "charts",
    "check",
    "data",
    "extraction",
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
