"""What models of a study are put to: test sets, their parts, and the probe of silenced neurons.

A *task* is a test set or a part of it. A comparison is ranked right where the better response
scores higher; ties count half.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lib.training.tension.kept import SOURCES, Study

STYLES = 3  # responses of RM-Bench on each side, in the same order of styles
RM_BENCH, BEST = "rm-bench", ("reward-bench-2",)
ALIKE_IN_STYLE, BEST_OF_ALL = "alike in style", "best of all"


@dataclass(frozen=True)
class Task:
    """A test set or a part of it; ``best`` where a response must beat all others of its item."""

    name: str
    set: str
    rows: np.ndarray
    best: bool = False


def tasks(study: Study) -> Iterator[Task]:
    """Every test set's parts: the two held-out sets first."""
    for name, own in study.sets.items():
        subsets = np.unique(own.subset)
        if name in SOURCES.values():
            yield Task(name, name, np.arange(len(own.better)))
            continue
        for subset in subsets:
            rows = np.flatnonzero(own.subset == subset)
            yield Task(f"{name} {subset}", name, rows)
            if name == RM_BENCH:
                alike = rows[own.worse[rows] - own.better[rows] == STYLES]
                if len(alike):
                    yield Task(f"{name} {subset}, {ALIKE_IN_STYLE}", name, alike)
            if name in BEST:
                yield Task(f"{name} {subset}, {BEST_OF_ALL}", name, rows, best=True)


def seeds_of(study: Study, model: str, holding: str = "") -> list[int]:
    """Seeds that a model was trained with; those alone of which an array was kept, if named."""
    return [
        seed
        for (seed, name), arrays in study.models.items()
        if name == model and (not holding or holding in arrays)
    ]


def margins_of(study: Study, seed: int, model: str, task: str) -> np.ndarray:
    """Score of the better response less that of the worse one, a comparison of a test set each."""
    own, score = study.sets[task], study.models[seed, model][f"score {task}"]
    return score[own.better].astype(float) - score[own.worse]


def ranked(margins: np.ndarray) -> np.ndarray:
    """1 where a margin ranks right, 0 where wrong, ½ for a tie."""
    return (np.sign(margins) + 1) / 2


def outcomes(study: Study, model: str, task: Task, seeds=None) -> tuple[np.ndarray, np.ndarray]:
    """Of each seed what is right, (seeds, comparisons or items), and the prompt of each."""
    own = study.sets[task.set]
    right = np.stack(
        [
            ranked(margins_of(study, seed, model, task.set)[task.rows])
            for seed in (seeds_of(study, model) if seeds is None else seeds)
        ]
    )
    return _items(own, task, right)


def _items(own, task: Task, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    prompt = own.opening[task.rows]
    if not task.best:
        return right, prompt
    better = own.better[task.rows]
    first = np.unique(better, return_index=True)[1]
    won = [(right[:, better == better[i]] == 1).all(axis=1).astype(float) for i in first]
    return np.stack(won, axis=1), prompt[first]


def shortest(study: Study, task: Task) -> np.ndarray:
    """What is right for one who takes the shorter response, a comparison or item each."""
    own = study.sets[task.set]
    shorter = ranked((own.tokens[own.worse] - own.tokens[own.better])[task.rows].astype(float))
    return _items(own, task, shorter[None])[0][0]


def probed(study: Study) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Of each task in the probe: its name, places among margins, and prompts."""
    start = 0
    for name, rows in study.probe:
        own = study.sets[name]
        subset = own.subset[rows]
        for each in np.unique(subset):
            places = np.flatnonzero(subset == each)
            task = name if name in SOURCES.values() else f"{name} {each}"
            yield task, start + places, own.opening[rows[places]]
        start += len(rows)
