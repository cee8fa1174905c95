"""What the cards of the embedded models say, and how their two files are written.

``fit_preference``  a Bradley–Terry head and its scores
``standardise``     heads in units of one standard deviation
``accuracy``, ``rounded``, ``shown``   a score with its interval
``write``           weights and card into a folder
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from lib import paths
from lib.atomic import replacing
from lib.errors import DataError, ParameterError
from lib.models.frozen import CARD, WEIGHTS
from lib.stats.proportions import by_cluster, wilson
from lib.training import bradley_terry, split

FOLDS = 5
UNIT = "one standard deviation over the training responses"


def fit_preference(
    difference: np.ndarray, side: np.ndarray, group: np.ndarray
) -> tuple[np.ndarray, dict]:
    """A Bradley–Terry head, its penalty chosen on the choosing pairs, and its scores.

    Parameters
    ----------
    difference
        State of the preferred response minus the other's, shape (pairs, features).
    side
        One of ``split.SIDES`` for each pair.
    group
        Integers, equal where prompts share an opening.

    Returns
    -------
    numpy.ndarray, dict
        Weights, shape (features,), and of the card: ``score``, ``penalty``, ``rows`` that
        trained it, accuracy ``cross_validated`` over all but the held-out pairs, and on
        those ``held_out``.

    Raises
    ------
    DataError
        When a side has no pairs, or there are fewer openings than folds.
    """
    train, seen = side == "train", side != "held_out"
    _check_sides(side, group[seen])
    c = bradley_terry.choose(difference, train, side == "choose")
    weight = bradley_terry.fit(difference[train], c)
    found = {
        "score": "accuracy",
        "penalty": c,
        "rows": int(train.sum()),
        "cross_validated": accuracy(
            bradley_terry.cross_validate(difference[seen], group[seen], FOLDS, c=c), group[seen]
        ),
        "held_out": accuracy(bradley_terry.accuracy(weight, difference[~seen]), group[~seen]),
    }
    return weight, found


def _check_sides(side: np.ndarray, group: np.ndarray) -> None:
    counts = {name: int((side == name).sum()) for name in split.SIDES}
    openings = len(np.unique(group))
    if min(counts.values()) == 0 or openings < FOLDS:
        raise DataError(
            f"comparisons on every side of the split, and {FOLDS} openings that aren't held out",
            ", ".join(f"{n} {name}" for name, n in counts.items()) + f", {openings} openings",
            "Give more items.",
        )


def standardise(
    weight: np.ndarray, bias: np.ndarray, hidden: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Heads (weights and bias) of mean 0 and standard deviation 1 over the states."""
    scores = hidden @ weight.T + bias
    spread = scores.std(axis=0)
    return weight / spread[:, None], (bias - scores.mean(axis=0)) / spread


def accuracy(correct: np.ndarray, group: np.ndarray) -> dict[str, float]:
    """Accuracy with its interval, prompts with one opening (``group``) as one.

    ``correct`` is 1, ½ or 0 for each pair. A ``DataError`` for fewer than two openings, which
    have no interval.
    """
    openings = len(np.unique(group))
    if openings < 2:
        raise DataError(
            "comparisons of two openings to score a head on", f"{openings}", "Give more items."
        )
    found = wilson(*by_cluster(correct, np.unique(group, return_inverse=True)[1]))
    return rounded(found.estimate, found.low, found.high, len(correct))


def rounded(value: float, low: float, high: float, rows: int) -> dict[str, float]:
    """A score with its interval as the card holds it."""
    numbers = {"value": value, "low": low, "high": high}
    return {key: round(float(number), 4) for key, number in numbers.items()} | {"rows": rows}


def shown(score: Mapping[str, float]) -> str:
    """The same for a line of text."""
    return f"{score['value']:.3f} [{score['low']:.3f}, {score['high']:.3f}]"


def folder(name: str, out: str | Path | None, limit: int) -> Path:
    """Where a model's files go: ``out``, or the package's own folder.

    A ``ParameterError`` when a model trained on some of its data would replace the package's.
    """
    if out:
        return Path(out)
    if limit:
        raise ParameterError(
            "a folder for a model that is trained on a part of its data",
            f"limit={limit} and none",
            f"Name one with out, or leave limit out to make {name} again.",
        )
    return paths.embedded(name)


def command(name: str, limit: int) -> str:
    """What makes the model, as its card says it."""
    cut = f" --limit {limit} --out FOLDER" if limit else ""
    return f"python -m lib train {name} --source FOLDER{cut}"


def write(out: Path, arrays: Mapping[str, np.ndarray], card: dict) -> None:
    """Write weights and card into a folder, each by rename."""
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(card, indent=1, ensure_ascii=False)
    # Thousands of hashes, a line each, would hide the card: wrap them instead.
    text = re.sub(r'(?<=[0-9a-f]{16}"),\n\s+(?=")', ", ", text)
    writers = {
        WEIGHTS: lambda path: save_file(dict(arrays), path),
        CARD: lambda path: path.write_text(text + "\n"),
    }
    for name, write in writers.items():
        with replacing(out / name) as partial:
            write(partial)
            os.chmod(partial, 0o644)
