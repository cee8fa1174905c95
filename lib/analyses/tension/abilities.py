"""What each model ranks right: by itself, beside the shorter response, beside the mixed model.

Columns of ``ACCURACY``: ``model``; ``task``; ``n`` comparisons, ``prompts``, ``seeds``;
``accuracy``, ``low``, ``high``; ``published``; ``predicted_low``, ``predicted_high``, where
another seed's accuracy is to be expected; ``shortest``, the accuracy of the shorter response.

Columns of ``LENGTHS``: ``model``, ``task``; ``n``; ``accuracy``; ``shortest``, that of the shorter
response; ``more``, the difference, ``low``, ``high``; ``chooses_shorter``, how often the model
does, of comparisons of unequal length; ``at_equal``, the mean margin at equal length in standard
deviations of margins, from a line in the difference of lengths, ``at_equal_low``,
``at_equal_high``.

Columns of ``HELPS``: ``model``; ``seeds``; ``helpful`` and ``harmless``, accuracies on the held-out
pairs; ``worse``, the smaller of them; ``gain_helpful`` and ``gain_harmless`` over ``mixed`` of the
same seeds, with ``_low`` and ``_high``; ``gain``, their mean, ``gain_low``, ``gain_high``.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from lib.analyses.tension import crossed
from lib.analyses.tension.published import figures
from lib.analyses.tension.tasks import Task, margins_of, outcomes, seeds_of, shortest, tasks
from lib.training.tension import kept
from lib.training.tension.kept import HARMLESS, HELPFUL, MIXED, OBJECTIVES, SOURCES, Study

ACCURACY = (
    *("model", "task", "n", "prompts", "seeds", "accuracy", "low", "high", "published"),
    *("predicted_low", "predicted_high", "shortest"),
)
LENGTHS = (
    *("model", "task", "n", "accuracy", "shortest", "more", "low", "high", "chooses_shorter"),
    *("at_equal", "at_equal_low", "at_equal_high"),
)
HELPS = (
    *("model", "seeds", "helpful", "harmless", "worse", "gain", "gain_low", "gain_high"),
    *("gain_helpful", "gain_helpful_low", "gain_helpful_high"),
    *("gain_harmless", "gain_harmless_low", "gain_harmless_high"),
)
LENGTH_TASKS = ("llmbar Neighbor", "rm-bench safety-refuse, alike in style")
LENGTH_TASKS += ("rm-bench safety-response, alike in style",)


def accuracy(study: Study) -> pd.DataFrame:
    """How often each model ranks right, task by task, beside the published figures.

    Returns
    -------
    DataFrame
        Columns ``ACCURACY``, a row a model and task.
    """
    published = figures()["paper"]["accuracy"]
    rows = []
    for model in [name for name in (*OBJECTIVES, *kept.HELPS) if seeds_of(study, name)]:
        for task in tasks(study):
            right, prompt = outcomes(study, model, task)
            found = crossed.mean(crossed.by_prompt(right, prompt))
            low, high = np.clip(crossed.predicted(right.mean(axis=1)), 0, 1)
            place = OBJECTIVES.index(model) if model in OBJECTIVES else None
            theirs = published.get(task.name, [None] * 3)[place] if place is not None else None
            rows.append(
                {
                    "model": model,
                    "task": task.name,
                    "n": right.shape[1],
                    "prompts": len(np.unique(prompt)),
                    "seeds": len(right),
                    "accuracy": found.estimate,
                    "low": np.maximum(found.low, 0),
                    "high": np.minimum(found.high, 1),
                    "published": np.nan if theirs is None else theirs,
                    "predicted_low": low,
                    "predicted_high": high,
                    "shortest": shortest(study, task).mean(),
                }
            )
    return pd.DataFrame(rows, columns=ACCURACY)


def lengths(study: Study) -> pd.DataFrame:
    """Is an ability more than a taste for short responses?

    Returns
    -------
    DataFrame
        Columns ``LENGTHS``, a row an objective and task where length could tell.
    """
    rows = []
    wanted = (*SOURCES.values(), *LENGTH_TASKS)
    for model in [m for m in OBJECTIVES if seeds_of(study, m)]:
        for task in tasks(study):
            if task.name not in wanted:
                continue
            own = study.sets[task.set]
            right, prompt = outcomes(study, model, task)
            short = shortest(study, task)
            more = crossed.mean(crossed.by_prompt(right - short, prompt))
            longer = (own.tokens[own.better] - own.tokens[own.worse])[task.rows].astype(float)
            unequal = longer != 0
            shorter = np.where(longer < 0, right, 1 - right)[:, unequal]
            at_equal = _at_equal(study, model, task, longer, prompt)
            rows.append(
                {
                    "model": model,
                    "task": task.name,
                    "n": right.shape[1],
                    "accuracy": right.mean(),
                    "shortest": short.mean(),
                    "more": more.estimate,
                    "low": more.low,
                    "high": more.high,
                    "chooses_shorter": shorter.mean() if unequal.any() else np.nan,
                    "at_equal": at_equal.estimate,
                    "at_equal_low": at_equal.low,
                    "at_equal_high": at_equal.high,
                }
            )
    return pd.DataFrame(rows, columns=LENGTHS)


def _at_equal(study: Study, model: str, task: Task, longer, prompt) -> crossed.Mean:
    """Mean margin at equal length, in standard deviations of margins.

    Of each seed the intercept of a least-squares line of margins over the difference of lengths;
    its interval is that of the mean of its influence values, a comparison each.
    """
    values = []
    for seed in seeds_of(study, model):
        margin = margins_of(study, seed, model, task.set)[task.rows]
        spread = margin.std()
        if not spread:
            return crossed.Mean(np.nan, np.nan, np.nan, np.nan)
        margin, x = margin / spread, longer - longer.mean()
        slope = (x @ margin) / (x @ x) if x.any() else 0.0
        left = margin - margin.mean() - slope * x
        intercept = margin.mean() - slope * longer.mean()
        weight = 1 - longer.mean() * x / x.var() if x.any() else 1.0
        values.append(intercept + weight * left)
    return crossed.mean(crossed.by_prompt(np.stack(values), prompt))


def helps(study: Study) -> pd.DataFrame:
    """Who keeps both abilities: models of both sources beside ``mixed`` of the same seeds.

    Returns
    -------
    DataFrame
        Columns ``HELPS``, a row a model.
    """
    sides = {
        side: Task(task, task, np.arange(len(study.sets[task].better)))
        for side, task in SOURCES.items()
    }
    rows = []
    for model in (*OBJECTIVES, *kept.HELPS):
        seeds = [seed for seed in seeds_of(study, model) if (seed, MIXED) in study.models]
        if not seeds:
            continue
        row: dict = {"model": model, "seeds": len(seeds)}
        gains = []
        for side, task in sides.items():
            right, prompt = outcomes(study, model, task, seeds)
            mixed, _ = outcomes(study, MIXED, task, seeds)
            gain = crossed.by_prompt(right - mixed, prompt)
            gains.append(gain)
            found = crossed.mean(gain)
            row |= {side: right.mean(), f"gain_{side}": found.estimate}
            row |= {f"gain_{side}_low": found.low, f"gain_{side}_high": found.high}
        # The mean of both sides: each prompt counts as its share of its own side's.
        n = [gain.shape[1] for gain in gains]
        both = np.concatenate([g * (sum(n) / 2 / k) for g, k in zip(gains, n, strict=True)], axis=1)
        found = crossed.mean(both)
        row |= {"worse": min(row[HELPFUL], row[HARMLESS]), "gain": found.estimate}
        rows.append(row | {"gain_low": found.low, "gain_high": found.high})
    return pd.DataFrame(rows, columns=HELPS)
