"""Gating: gains of a gate that only guesses, of one that knows the prompt, of one that is equal."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import xarray as xr

from lib.analyses.gating import stats
from lib.analyses.gating.worlds import debiased_world, equal_world, gating_world
from lib.planted.checks import FALSE, POWER, check, many, seeds

PAIRS = 300
NEVER_ERR = 1e9  # strength with which people choose by the better response
FIXED = ("gate's mean", stats.UNIFORM)
OTHER = dict(zip(FIXED, ("its mean", "uniform weights, debiased"), strict=True))
ALPHA = 0.05
CHOSEN = (stats.BEST, stats.RIDGE)
LARGE = 1000  # pairs at which ridge's gain over an equal gate is to be found
NOISY = 2.0  # noise that debiasing puts in, of what it takes out


def checks(draws: int, seed: int) -> list[dict]:
    """Rows on what a gate gains over fixed rules, and on the identity of its scores."""
    guess, _ = _gains(_guessing, draws, 200, seed)
    knows, identity = _gains(_informed, draws, 80, seed)
    equal, _ = _gains(_equal, draws, 100, seed)
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
    rows += [*_chosen(guess, gained, equal), *_debiased(draws, seed)]
    rows.append(
        check(
            "the score is rewards times coefficients",
            f"a gated model; {PAIRS} pairs",
            "power",
            identity,
            at_least=1.0,
            note="an identity: one exception is a failure",
        )
    )
    return rows


def _chosen(guess: pd.DataFrame, gained: pd.DataFrame, equal: pd.DataFrame) -> list[dict]:
    """Rules that are chosen on other prompts: the best single head and ridge."""
    best, ridge = CHOSEN
    same = f"the score is exactly as good as one head; {LARGE} pairs"
    differs = equal["p_adjusted"] < ALPHA
    lost = (guess["p_adjusted"] < ALPHA) & (guess["gain"] < 0)
    rows = [
        check(
            f"the gate differs from the {best}",
            same,
            "false-positive rate",
            differs[best],
            at_most=FALSE,
        ),
        check(
            f"the gate loses against {ridge}",
            f"the gate guesses the kind of prompt; {PAIRS} pairs of 2 kinds",
            "false-positive rate",
            lost[ridge],
            at_most=FALSE,
            note="no fixed weights are better than the guessing gate",
        ),
        check(
            f"the gate loses against {ridge}",
            f"weights of three to one are better than the gate; {LARGE} pairs",
            "power",
            (differs & (equal["gain"] < 0))[ridge],
            at_least=POWER,
            note=f"mean gain {equal['gain'][ridge].mean():.3f}, median stated MDE "
            f"{equal['mde'][ridge].median():.3f}",
        ),
    ]
    return rows + [
        check(
            f"the gate gains over {'the ' if rule == best else ''}{rule}",
            f"the gate knows the kind of prompt; {PAIRS} pairs of 2 kinds",
            "power",
            gained[rule],
            at_least=POWER,
        )
        for rule in CHOSEN
    ]


def _debiased(draws: int, seed: int) -> list[dict]:
    """The gate beside itself without debiasing."""
    (same, _), (worse, _) = (_gains(world, draws, 200, seed) for world in (_swapped, _noisy))
    lost = (worse["p_adjusted"] < ALPHA) & (worse["gain"] < 0)
    return [
        check(
            "the gate differs from itself, not debiased",
            f"debiasing puts in as much noise as it takes out; {LARGE} pairs",
            "false-positive rate",
            (same["p_adjusted"] < ALPHA)[stats.RAW],
            at_most=FALSE,
        ),
        check(
            "debiasing costs the gate something",
            f"debiasing puts in {NOISY:g} times the noise that it takes out; {LARGE} pairs",
            "power",
            lost[stats.RAW],
            at_least=POWER,
            note=f"mean gain {worse['gain'][stats.RAW].mean():.3f}, median stated MDE "
            f"{worse['mde'][stats.RAW].median():.3f}",
        ),
    ]


def _swapped(seed: int) -> xr.Dataset:
    return debiased_world(LARGE, seed=seed)


def _noisy(seed: int) -> xr.Dataset:
    return debiased_world(LARGE, seed=seed, noise=NOISY)


def _guessing(seed: int) -> xr.Dataset:
    return gating_world(PAIRS, seed=seed, informed=False, strength=NEVER_ERR)


def _informed(seed: int) -> xr.Dataset:
    return gating_world(PAIRS, seed=seed)


def _equal(seed: int) -> xr.Dataset:
    return equal_world(LARGE, seed=seed)


def _gains(world: Callable[[int], xr.Dataset], draws: int, most: int, seed: int):
    """Gains by world and rule over all prompts, and whether the identity held."""
    tables, identity = [], []
    for k, one in enumerate(seeds(seed, f"gating/{world.__name__}", many(draws, most))):
        run = world(one)
        table = stats.rules(run, seed=one % 1000)
        tables.append(table[(table["subset"] == "all") & (table["rule"] != stats.GATE)].assign(k=k))
        identity.append(bool(stats.identity(run)["holds"].all()))
    whole = pd.concat(tables)
    columns = ["gain", "p_adjusted", "mde"]
    wide = whole.pivot(index="k", columns="rule", values=columns)
    return wide, np.asarray(identity)
