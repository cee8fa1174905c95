"""Calibration: every claim that a page can make, put to worlds whose answer is known.

An analysis that declares itself calibrated (``lib.declared``) has a module ``calibration`` with a
function ``checks(draws, seed)`` that gives rows; what a row is stands in ``lib.planted.checks``.
What judges the worlds is what the page calls. ``calibrate`` puts the rows together, computed or as
``kept`` under the code that made them; ``charts`` and ``words`` show them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pandas as pd

from lib import declared
from lib.calibration import kept
from lib.planted.checks import COLUMNS


def calibrate(draws: int = 10_000, seed: int = 0) -> pd.DataFrame:
    """All checks of all analyses, computed or as kept under the code that made them.

    Parameters
    ----------
    draws
        Worlds of a kind, at most; a check that is slow takes fewer and says so.
    seed
        Of everything.

    Returns
    -------
    pandas.DataFrame
        One row a check, as in ``lib.planted.checks.check``, with ``analysis`` first.

    Raises
    ------
    ParameterError
        When ``draws`` isn't above 0.
    """
    rows = [
        {"analysis": name} | row
        for name, document in _documents(draws, seed)
        for row in document["rows"]
    ]
    return pd.DataFrame(rows)[["analysis", *COLUMNS]]


def made(draws: int = 10_000, seed: int = 0) -> pd.DataFrame:
    """When and by what each analysis' rows were made.

    Returns
    -------
    pandas.DataFrame
        One row an analysis: ``analysis``, ``made`` (day), ``seconds`` (of processor time),
        ``code`` (digest of all code that the rows depend on), ``draws``, ``seed`` and
        ``versions``.
    """
    return pd.DataFrame(
        [
            {"analysis": name, "versions": ", ".join(f"{k} {v}" for k, v in versions.items())}
            | {key: document[key] for key in ("made", "seconds", "code", "draws", "seed")}
            for name, document in _documents(draws, seed)
            for versions in [document["versions"]]
        ]
    )[["analysis", "made", "seconds", "code", "draws", "seed", "versions"]]


def keep(folder: Path, draws: int = 10_000, seed: int = 0, fresh: bool = False) -> list[str]:
    """Write what isn't kept in a folder yet, or all of it: names of what was computed.

    With ``fresh`` everything is computed again, whatever matches.
    """
    written = []
    for name, module in _calibrated():
        wanted = kept.identity(module.__name__, draws, seed)
        if fresh or not kept.matches(folder / f"{name}.json", wanted):
            kept.write(folder, name, wanted, module.checks)
            written.append(name)
    return written


def _calibrated() -> Iterator[tuple[str, ModuleType]]:
    for name, analysis in declared.every().items():
        if analysis.calibrated:
            yield name, analysis.module("calibration")


def _documents(draws: int, seed: int) -> Iterator[tuple[str, dict]]:
    for name, module in _calibrated():
        yield name, kept.rows(name, module.__name__, module.checks, draws, seed)


__all__ = ["calibrate", "keep", "made"]
