"""Gating: gains of a gate that only guesses, and of one that knows the prompt."""

from __future__ import annotations

import numpy as np
import pandas as pd

from lib.calibration.checks import FALSE, POWER, check, many, seeds
from lib.planted.gating import gating_world
from lib.stats import gating

PAIRS = 300
NEVER_ERR = 1e9  # strength with which people choose by the better response
FIXED = ("gate's mean", "uniform")
OTHER = dict(zip(FIXED, ("its mean", "the uniform one"), strict=True))
ALPHA = 0.05


def checks(draws: int, seed: int) -> list[dict]:
    """Rows on what a gate gains over fixed rules, and on the identity of its scores."""
    guess, _ = _gains(draws, 200, seed, informed=False, strength=NEVER_ERR)
    knows, identity = _gains(draws, 60, seed, informed=True)
    found = guess["p_adjusted"] < ALPHA
    rows = [
        check(
            f"the gate differs from {OTHER[rule]}",
            f"the gate guesses the kind of prompt; {PAIRS} pairs of 2 kinds",
            "false-positive rate",
            found[rule],
            at_most=FALSE,
            note="a guessing gate is exactly as good as the uniform one",
        )
        for rule in FIXED
    ]
    rows.append(
        check(
            "the gate gains over either",
            f"the gate guesses the kind of prompt; {PAIRS} pairs of 2 kinds",
            "false-positive rate",
            (found & (guess["gain"] > 0))[list(FIXED)].any(axis=1),
            at_most=FALSE,
        )
    )
    gained = (knows["p_adjusted"] < ALPHA) & (knows["gain"] > 0)
    rows += [
        check(
            f"the gate gains over {OTHER[rule]}",
            f"the gate knows the kind of prompt; {PAIRS} pairs of 2 kinds",
            "power",
            gained[rule],
            at_least=POWER,
            note=f"mean gain {knows['gain'][rule].mean():.3f}, median stated MDE "
            f"{knows['mde'][rule].median():.3f}",
        )
        for rule in FIXED
    ]
    rows.append(
        check(
            "the score is rewards times coefficients",
            f"a gated model; {PAIRS} pairs",
            "power",
            identity,
            at_least=POWER,
        )
    )
    return rows


def _gains(draws: int, most: int, seed: int, informed: bool, **world):
    """Gains by world and rule over all prompts, and whether the identity held."""
    tables, identity = [], []
    for k, one in enumerate(seeds(seed, f"gating/{informed}", many(draws, most))):
        run = gating_world(PAIRS, seed=one, informed=informed, **world)
        table = gating.rules(run, seed=one % 1000)
        tables.append(
            table[(table["subset"] == "all") & (table["rule"] != gating.GATE)].assign(k=k)
        )
        identity.append(bool(gating.identity(run)["holds"].all()))
    whole = pd.concat(tables)
    columns = ["gain", "p_adjusted", "mde"]
    wide = whole.pivot(index="k", columns="rule", values=columns)
    return wide, np.asarray(identity)
