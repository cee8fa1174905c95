"""Responses as a sparse reward reads them: latents, what each adds, and the comparisons.

``sparse``      the responses of a run whose states were kept, read by a reward
``rates``       how often each latent is kept
``NO_SPARSE``   why nothing can be said of other models
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import xarray as xr

from lib.models.sae import Reward
from lib.run import align
from lib.stats import proportions

NO_SPARSE = "the reward of this model is not read from a sparse autoencoder"
NO_STATES = "no comparison has the states of both of its responses"
FIT = "the states of this run are not those that the autoencoder reads"


@dataclass(frozen=True)
class Sparse:
    """Responses of a run and their comparisons, read by a sparse reward.

    Attributes
    ----------
    reward
        r = w·z, or w·pre with its flag off; ``None`` where there is a ``note``.
    x
        States, shape (responses, features), float32.
    score
        As the run stored it, shape (responses,).
    response, item
        The run's labels of the responses, and the names of their items.
    better, worse
        Positions along ``response``, shape (comparisons,).
    prompt
        An integer for the prompt of each comparison, from 0 without gaps.
    criterion, subset
        Strings, shape (comparisons,).
    note
        Why there is nothing; empty where there is something.
    """

    reward: Reward | None
    x: np.ndarray
    score: np.ndarray
    response: np.ndarray
    item: np.ndarray
    better: np.ndarray
    worse: np.ndarray
    prompt: np.ndarray
    criterion: np.ndarray
    subset: np.ndarray
    note: str = ""

    @cached_property
    def pre(self) -> np.ndarray:
        """Pre-activations of all latents, (responses, latents), float32."""
        return self.reward.sae.pre(self.x)

    @cached_property
    def z(self) -> np.ndarray:
        """The k largest of them, 0 elsewhere, (responses, latents), float32."""
        return self.reward.sae.top(self.pre).dense()

    @property
    def value(self) -> np.ndarray:
        """What the reward reads: z, or all pre-activations with the flag off."""
        return self.z if self.reward.topk else self.pre

    @cached_property
    def used(self) -> np.ndarray:
        """Latents that are not 0 for some response, which alone can add anything."""
        return np.flatnonzero((self.value != 0).any(axis=0))

    @cached_property
    def parts(self) -> np.ndarray:
        """w_i z_i of the latents that are used, (responses, used), float64."""
        return self.value[:, self.used].astype(float) * self.reward.weight[self.used]

    @cached_property
    def gaps(self) -> np.ndarray:
        """w_i z_i of the better less that of the worse response, (comparisons, used)."""
        return self.parts[self.better] - self.parts[self.worse]

    @property
    def margin(self) -> np.ndarray:
        """Of each comparison: Σ w_i z_i of its better response less that of the other."""
        return self.gaps.sum(axis=1)

    def by_prompt(self, values: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """Each prompt's mean of its comparisons, of all or of those in ``rows``."""
        if rows is None:
            rows = np.arange(len(self.prompt))
        prompt = np.unique(self.prompt[rows], return_inverse=True)[1]
        totals, sizes = proportions.by_prompt(values[rows], prompt)
        return totals / sizes.reshape(-1, *[1] * (totals.ndim - 1))


def sparse(run: xr.Dataset, reward: Reward | None, note: str = "") -> Sparse:
    """The run's responses whose states were kept, and the comparisons among them.

    Parameters
    ----------
    run
        A Run of the model whose reward this is.
    reward
        ``None`` for a model without one, for the reason in ``note``.
    """
    aligned = align(run)
    hidden = run["hidden"].values
    kept = np.isfinite(hidden).all(axis=1)
    rows = np.flatnonzero(kept)
    pairs = np.flatnonzero(kept[aligned.better] & kept[aligned.worse])
    if reward is None:
        note = note or NO_SPARSE
    elif hidden.shape[1] != reward.sae.features:
        note = FIT
    elif not len(pairs):
        note = NO_STATES
    if note:
        reward, rows, pairs = None, rows[:0], pairs[:0]
    place = np.cumsum(kept) - 1
    owner = run["item_of_response"].values[rows]
    return Sparse(
        reward,
        hidden[rows].astype(np.float32),
        run["score"].values[rows, 0].astype(float),
        run["response"].values[rows],
        run["item"].values[owner],
        place[aligned.better[pairs]],
        place[aligned.worse[pairs]],
        np.unique(aligned.prompt[pairs], return_inverse=True)[1],
        aligned.criterion[pairs],
        aligned.subset[pairs],
        note,
    )


def rates(found: Sparse) -> np.ndarray:
    """Share of the responses for which each latent is among the k largest, (latents,)."""
    return (found.z != 0).mean(axis=0)
