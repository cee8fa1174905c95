"""Attribution: directions claimed where chosen and rejected are exchanged, and where one is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from lib.analyses.attribution import stats
from lib.analyses.attribution.worlds import AGAINST, CARRIER, DECOYS, carried, parts_world
from lib.planted.checks import COVERAGE, FALSE, POWER, check, many, seeds

CLAIM = "a component goes toward one of the two responses"
SIZE = "2 heads of 14 components, {} pairs"
EFFECTS = ((48, 0.7), (100, 0.5))  # pairs, and standard deviations of a component's part
NULLS: tuple[tuple[str, int, int, dict[str, Any]], ...] = (  # pairs, draws
    ("", 48, 1200, {}),
    (", components alike (.95)", 48, 400, {"alike": 0.95}),
    (", sizes with a long tail", 100, 400, {"skew": True}),
)


def checks(draws: int, seed: int) -> list[dict]:
    """Rows on directions, on components that cancel, and on the interval of what is carried."""
    rows, plain = [], []
    for more, pairs, most, options in NULLS:
        tables = _tables(f"null{more}", draws, most, seed, pairs=pairs, **options)
        plain = plain or tables
        rows.append(
            check(
                CLAIM,
                f"chosen and rejected exchanged at random per pair{more}; {SIZE.format(pairs)}",
                "false-positive rate",
                np.asarray([bool(_directed(table).any()) for table in tables]),
                at_most=FALSE,
                note="any of all components and heads",
            )
        )
    for pairs, effect in EFFECTS:
        tables = _tables(f"effect/{pairs}", draws, 200, seed, effect=effect, pairs=pairs)
        world = f"two components add {effect:g} of their sd; {SIZE.format(pairs)}"
        right = {CARRIER: stats.TOWARD_BETTER, AGAINST: stats.TOWARD_WORSE}
        rows.append(
            check(
                CLAIM,
                world,
                "power",
                np.concatenate([_found(tables, *each) for each in right.items()]),
                at_least=POWER,
            )
        )
        decoys = [bool(_directed(t)[t["component"].isin(DECOYS)].any()) for t in tables]
        rows.append(
            check(
                "a component that another cancels goes toward a response",
                world,
                "false-positive rate",
                np.asarray(decoys),
                at_most=FALSE,
            )
        )
    for name in (CARRIER, DECOYS[0]):
        true = carried(name)
        own = pd.concat(table[table["component"] == name].head(1) for table in plain)
        rows.append(
            check(
                f"the interval holds the share that {'a decoy' if true == 0 else 'a part'} carries",
                f"chosen and rejected exchanged at random per pair; {SIZE.format(NULLS[0][1])}",
                "coverage",
                (own["carries_low"] <= true).to_numpy() & (own["carries_high"] >= true).to_numpy(),
                at_least=COVERAGE[0],
                note=f"in truth {true:.3f}, on average told {own['carries'].mean():.3f}",
            )
        )
    return rows


def _tables(name: str, draws: int, most: int, seed: int, **options: Any) -> list[pd.DataFrame]:
    one = seeds(seed, f"attribution/{name}", many(draws, most))
    return [stats.parts(parts_world(seed=each, **options)) for each in one]


def _directed(table: pd.DataFrame) -> pd.Series:
    return table["verdict"].isin([stats.TOWARD_BETTER, stats.TOWARD_WORSE])


def _found(tables: list[pd.DataFrame], name: str, verdict: str) -> np.ndarray:
    return np.asarray(
        [(table.loc[table["component"] == name, "verdict"] == verdict).all() for table in tables]
    )
