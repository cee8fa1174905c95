"""Calibration: every claim that a page can make, put to worlds whose answer is known.

One module an analysis, each with a function ``checks(draws, seed)`` that gives rows:

``validity``         verdicts on heads, their intervals, what is told of power
``protocols``        components of variance between heads and protocols, heads that change sides
``labels``           names called wrong, names better than random, agreement of heads
``disentanglement``  factors, clusters, intervals of correlations
``geometry``         where entanglement lives
``separability``     concepts found, losses between state and head
``gating``           what a gate gains, and where it loses
``comparing``        differences between models

``calibrate`` puts them together; ``checks`` holds what a row is. Worlds are those of
``lib.planted``, and what judges them is ``lib.stats`` (and ``lib.summary``) itself, in one call
for all draws where its functions take arrays, else in one call a draw. What was computed is
``kept`` under the code that made it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from lib.calibration import (
    comparing,
    disentanglement,
    gating,
    geometry,
    kept,
    labels,
    protocols,
    separability,
    validity,
)
from lib.calibration.checks import COLUMNS

ANALYSES = {
    "validity": validity,
    "protocols": protocols,
    "labels": labels,
    "disentanglement": disentanglement,
    "geometry": geometry,
    "separability": separability,
    "gating": gating,
    "comparing": comparing,
}


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
        One row a check, as in ``lib.calibration.checks.check``, with ``analysis`` first.

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
        One row an analysis: ``analysis``, ``made`` (day), ``seconds``, ``code`` (digest of all
        code that the rows depend on), ``draws``, ``seed`` and ``versions``.
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
    for name, module in ANALYSES.items():
        wanted = kept.identity(module.__name__, draws, seed)
        if fresh or not kept.matches(folder / f"{name}.json", wanted):
            kept.write(folder, name, wanted, module.checks)
            written.append(name)
    return written


def _documents(draws: int, seed: int) -> Iterator[tuple[str, dict]]:
    for name, module in ANALYSES.items():
        yield name, kept.rows(name, module.__name__, module.checks, draws, seed)


__all__ = ["ANALYSES", "calibrate", "keep", "made"]
