"""Figures of an earlier run beside ours.

Columns of ``AGAINST``: ``what``, ``earlier``, its ``least`` and ``most`` where it is a range,
``seeds`` of it; ``ours``, ``predicted_low``, ``predicted_high``; ``within``.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd

from lib.analyses.tension import crossed
from lib.analyses.tension.neurons import jaccard, mask
from lib.analyses.tension.published import figures
from lib.analyses.tension.tasks import outcomes, probed, ranked, seeds_of, tasks
from lib.training.tension.kept import (
    BASE,
    HARMLESS,
    HELPFUL,
    NONE,
    OBJECTIVES,
    OWN,
    PUT,
    SOURCES,
    WAYS,
    Study,
)

AGAINST = (
    *("what", "earlier", "least", "most", "seeds", "ours", "predicted_low", "predicted_high"),
    "within",
)


def against(study: Study) -> pd.DataFrame:
    """Figures of an earlier run beside where ours would expect them.

    A figure lies within where it lies in the 95% prediction interval of as many further seeds as
    it is a mean of; a range of figures where it meets the interval of one.
    """
    earlier = figures()["earlier"]
    rows = []
    for task, values in earlier["accuracy"].items():
        place = {each.name: each for each in tasks(study)}.get(task)
        for model, value in zip(OBJECTIVES, values, strict=True):
            if place is None or not seeds_of(study, model):
                continue
            ours = outcomes(study, model, place)[0].mean(axis=1)
            rows.append(
                _expected(f"{model}, {task}", value, value, earlier["seeds"]["accuracy"], ours)
            )
    for model, sets in earlier["silenced"].items():
        for name, values in sets.items():
            for task, value in zip(SOURCES.values(), values, strict=True):
                ours = _accuracies(study, model, task, name)
                if ours is not None:
                    label = (
                        f"{model}, {name} silenced, {task}" if name != NONE else f"{model}, {task}"
                    )
                    rows.append(_expected(label, value, value, earlier["seeds"]["silenced"], ours))
    masks = {key: mask(study, *key, OWN) for key in study.models if key[1] in OBJECTIVES}
    found = {
        "own and base's": [jaccard(m, mask(study, *key, BASE)) for key, m in masks.items()],
        "helpful and harmless": [
            jaccard(masks[s, HELPFUL], masks[s, HARMLESS])
            for s in study.seeds
            if (s, HELPFUL) in masks and (s, HARMLESS) in masks
        ],
        "two seeds of one objective": [
            jaccard(masks[a], masks[b]) for a, b in combinations(masks, 2) if a[1] == b[1]
        ],
    }
    for what, (least, most) in earlier["overlap"].items():
        if found[what]:
            rows.append(_expected(f"Jaccard, {what}", least, most, 1, np.asarray(found[what])))
    return pd.DataFrame(rows, columns=AGAINST)


def _accuracies(study: Study, model: str, task: str, name: str) -> np.ndarray | None:
    """Of each seed how much of a held-out set is right with a set silenced; None where unknown."""
    seeds = seeds_of(study, model, "margin")
    found = {each: places for each, places, _ in probed(study)}
    if not seeds or task not in found:
        return None
    arrays = [study.models[seed, model] for seed in seeds]
    if name.startswith("random "):
        few = np.flatnonzero(np.isin(study.few, found[task]))
        arrays = [of for of in arrays if name in of]
        if not arrays or not len(few):
            return None
        # What random sets change on fewer prompts, from what is right of all.
        return np.asarray(
            [
                ranked(of["margin"][0, found[task]].astype(float)).mean()
                + ranked(of[name][:, few].astype(float)).mean()
                - ranked(of["margin"][0, study.few[few]].astype(float)).mean()
                for of in arrays
            ]
        )
    way = WAYS.index(NONE if name == NONE else f"{name}, {PUT[0]}")
    return np.asarray(
        [ranked(of["margin"][way, found[task]].astype(float)).mean() for of in arrays]
    )


def _expected(what: str, least: float, most: float, seeds: int, ours: np.ndarray) -> dict:
    low, high = np.clip(crossed.predicted(ours, seeds), 0, 1)  # all of them are shares
    known = np.isfinite(low)
    return {
        "what": what,
        "earlier": (least + most) / 2,
        "least": least,
        "most": most,
        "seeds": seeds,
        "ours": float(np.mean(ours)),
        "predicted_low": low,
        "predicted_high": high,
        # published with two digits, so half of the last one is nobody's
        "within": bool(low - 0.005 <= most and least <= high + 0.005) if known else None,
    }
