"""Separability: concepts found where none is, missed losses, and what can't be measured."""

from __future__ import annotations

import pandas as pd

from lib.analyses.separability import stats
from lib.analyses.separability.readout import at_least
from lib.analyses.separability.worlds import separability_world
from lib.planted.checks import COVERAGE, FALSE, POWER, check, many, seeds

FEATURES = 12
ALPHA = 0.05
SHORT = "150 pairs, 120 features"  # where probes fall short of planted directions
ONE_SIDED = 0.95  # of bounds on one side
SEEN = ("read out", "not read out")


def checks(draws: int, seed: int) -> list[dict]:
    """Rows on probes and readout losses."""
    hidden = _verdicts("not read out", 400, draws, 60, seed)
    absent = _verdicts("absent", 400, draws, 80, seed)
    # Neither a loss nor its interval needs controls or planted directions.
    equal = _verdicts("head equals concept", 400, draws, 400, seed, flips=0, plants=0)
    lost = (equal["p_adjusted"] < ALPHA) & (equal["loss"] > 0)
    length = _verdicts("only length", 400, draws, 120, seed, plants=0)
    few = _verdicts("not read out", 150, draws, 40, seed, features=120, strength=1.0)
    wide = {"features": 120}
    no_loss = _verdicts("head equals concept", 150, draws, 120, seed, **wide, flips=0, plants=0)
    loss = _verdicts("not read out", 250, draws, 60, seed, **wide)
    size = f"400 pairs, {FEATURES} features"
    false, power = "false-positive rate", "power"
    return [
        check(
            "the concept is in the state",
            f"people choose by nothing that the state holds; {size}",
            false,
            absent["verdict"].isin(SEEN),
            at_most=FALSE,
        ),
        check(
            "the concept is in the state beyond length",
            f"people choose by length, which the state holds; {size}",
            false,
            (length["probe_p"] < ALPHA) & (length["probe"] > 0.5),
            at_most=FALSE,
        ),
        check(
            "the concept is in the state beyond length",
            f"people choose by a direction that no head reads; {size}",
            power,
            (hidden["probe_p"] < ALPHA) & (hidden["probe"] > 0.5),
            at_least=POWER,
        ),
        check(
            "a head loses at least some of the concept",
            f"the head is the concept; {SHORT}",
            false,
            (no_loss["p_adjusted"] < ALPHA) & (no_loss["loss"] > 0),
            at_most=FALSE,
            note=f"said where a loss is not measurable; mean loss {no_loss['loss'].mean():.3f}",
        ),
        check(
            "a head loses at least some of the concept",
            "people choose by a direction that no head reads; 250 pairs, 120 features",
            power,
            at_least(loss),
            at_least=POWER,
            note=f"mean loss {loss['loss'].mean():.3f}",
        ),
        check(
            "the concept is there and not read out",
            f"people choose by a direction that no head reads; {size}",
            power,
            hidden["verdict"] == "not read out",
            at_least=POWER,
        ),
        check(
            "something is lost before the head",
            f"the head is the concept; {size}",
            false,
            lost,
            at_most=FALSE,
        ),
        check(
            "the interval holds a loss of 0",
            f"the head is the concept; {size}",
            "coverage",
            (equal["low"] <= 0) & (equal["high"] >= 0),
            at_least=COVERAGE[0],
            note=f"mean loss {equal['loss'].mean():.4f}: a probe learns from finite data what "
            "the head has, so the interval lies too low",
        ),
        check(
            "a loss is at least its lower end",
            f"the head is the concept; {size}",
            "coverage",
            equal["low"] <= 0,
            at_least=ONE_SIDED,
            note="the end that a verdict rests on",
        ),
        check(
            "a probe can measure this",
            SHORT,
            false,
            few["verdict"].isin((*SEEN, "not found")),
            at_most=FALSE,
            note=f"planted directions rank {few['planted'].mean():.2f}, probes of them "
            f"{few['recovered'].mean():.2f}",
        ),
        check(
            "a probe can measure this",
            f"people choose by a direction that no head reads; {size}",
            power,
            hidden["verdict"] != "not measurable",
            at_least=POWER,
            note=f"planted directions rank {hidden['planted'].mean():.2f}, probes of them "
            f"{hidden['recovered'].mean():.2f}",
        ),
    ]


def _verdicts(
    kind: str,
    pairs: int,
    draws: int,
    most: int,
    seed: int,
    *,
    features: int = FEATURES,
    strength: float = 2.5,
    **options: int,
) -> pd.DataFrame:
    """The readout's row of each world; folds are divided once."""
    rows = []
    for one in seeds(seed, f"separability/{kind}/{pairs}", many(draws, most)):
        run = separability_world(kind, pairs=pairs, features=features, strength=strength, seed=one)
        rows.append(stats.readout(run, repeats=1, seed=one, **options))
    return pd.concat(rows, ignore_index=True).astype({"loss": float, "low": float, "high": float})
