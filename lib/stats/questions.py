"""What a run can be asked about its states: its comparisons, concept by concept.

``questions``  the comparisons about each concept whose states were kept, as differences
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr

from lib.data import concepts
from lib.errors import DataError
from lib.run import align

TYPES = 4  # sign bits of the prompt state's leading components: 16 types of prompt


@dataclass(frozen=True)
class Question:
    """The comparisons of a run about one concept whose states were kept.

    Attributes
    ----------
    concept
        In the vocabulary of ``lib.data.concepts``; the criterion where it has none.
    hidden, scores
        Better minus worse, shapes (comparisons, features) and (comparisons, heads).
    length
        Difference of log token counts, shape (comparisons,).
    prompt, item
        Of each comparison: the group that folds keep together, and the run's item.
    types
        Kind of prompt, an integer; −1 where prompt states weren't kept.
    note
        Why nothing can be said; empty when something can.
    """

    concept: str
    hidden: np.ndarray
    scores: np.ndarray
    length: np.ndarray
    prompt: np.ndarray
    item: np.ndarray
    types: np.ndarray
    note: str

    @property
    def prompts(self) -> int:
        """How many prompts there are."""
        return len(np.unique(self.prompt))


def questions(
    run: xr.Dataset, comparisons: pd.DataFrame | None = None, folds: int = 5
) -> list[Question]:
    """The run's comparisons by concept, in order of appearance; one that says so without any."""
    aligned = align(run, comparisons)
    hidden, scores = run["hidden"].values, run["score"].values
    kept = np.isfinite(hidden[aligned.better]).all(axis=1)
    kept &= np.isfinite(hidden[aligned.worse]).all(axis=1)
    length = np.log(np.maximum(run["n_response_tokens"].values, 1))
    owner = run["item_of_response"].values
    kinds = _prompt_types(run["gate_hidden"].values)
    asked = list(zip(aligned.criterion.tolist(), aligned.subset.tolist(), strict=True))
    known = {pair: _concept(run.attrs["dataset"], *pair) for pair in dict.fromkeys(asked)}
    about = np.asarray([known[pair] for pair in asked], dtype=object)
    out = []
    for concept in dict.fromkeys(about) or ["every criterion"]:
        rows = np.flatnonzero((about == concept) & kept)
        better, worse = aligned.better[rows], aligned.worse[rows]
        difference = hidden[better].astype(float) - hidden[worse]
        prompts = len(np.unique(aligned.prompt[rows]))
        note = ""
        if not len(aligned):
            note = "no comparisons"
        elif not len(rows):
            note = "no states were kept"
        elif not difference.any():
            note = "the states do not differ between responses"
        elif prompts < folds:
            note = f"{folds} folds need as many prompts; there are {prompts}"
        out.append(
            Question(
                concept,
                difference,
                scores[better].astype(float) - scores[worse],
                length[better] - length[worse],
                aligned.prompt[rows],
                owner[better],
                kinds[owner[better]],
                note,
            )
        )
    return out


def _concept(dataset: str, criterion: str, subset: str) -> str:
    try:
        return concepts.of_comparison(dataset, criterion, subset) or criterion
    except DataError:
        return criterion


def _prompt_types(states: np.ndarray) -> np.ndarray:
    """Kind of each item's prompt: the signs of its state's leading components."""
    kinds = np.full(len(states), -1)
    kept = np.isfinite(states).all(axis=1)
    centred = states[kept].astype(float)
    centred -= centred.mean(axis=0) if len(centred) else 0
    if not centred.any():
        return kinds
    bits = min(TYPES, *centred.shape)
    axes = np.linalg.svd(centred, full_matrices=False)[2][:bits]
    kinds[kept] = (centred @ axes.T > 0) @ (1 << np.arange(bits))
    return kinds
