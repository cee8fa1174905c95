"""The matched pairs of a run, concept by concept, one row a prompt.

``pairs``   states, gaps of the heads, and lengths of the pairs about each concept
``halves``  divisions of the prompts into two, for directions that are tried on other prompts
``within``  inner products of the pairs' differences with length taken out by other prompts
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from lib.run import align
from lib.stats import signed

LEAST = 8  # prompts of a concept, below which nothing is said of it
SPLITS = 10


@dataclass(frozen=True)
class Pairs:
    """Pairs that differ in one concept; where a prompt has several, their mean.

    Attributes
    ----------
    concept
        The criterion of the comparisons.
    high, low
        States of the responses with more and less of the concept, shape (prompts, features).
    gap
        What each head gives the former more than the latter, shape (prompts, heads).
    length
        Difference of log token counts, shape (prompts,).
    prompt
        An integer for each prompt, the same in every concept.
    note
        Why nothing can be said; empty when something can.
    """

    concept: str
    high: np.ndarray
    low: np.ndarray
    gap: np.ndarray
    length: np.ndarray
    prompt: np.ndarray
    note: str

    def __len__(self) -> int:
        return len(self.prompt)

    @property
    def difference(self) -> np.ndarray:
        """High minus low, shape (prompts, features)."""
        return self.high - self.low


def pairs(run: xr.Dataset, states: np.ndarray | None = None) -> list[Pairs]:
    """The run's comparisons whose states were kept, by criterion in order of appearance.

    ``states`` has shape (responses, features); ``hidden`` by default.
    """
    aligned = align(run)
    states = run["hidden"].values if states is None else states
    score = run["score"].values
    length = np.log(np.maximum(run["n_response_tokens"].values, 1))
    kept = np.isfinite(states[aligned.better]).all(axis=1)
    kept &= np.isfinite(states[aligned.worse]).all(axis=1)
    found = []
    for concept in dict.fromkeys(aligned.criterion.tolist()):
        rows = np.flatnonzero((aligned.criterion == concept) & kept)
        better, worse, prompt = aligned.better[rows], aligned.worse[rows], aligned.prompt[rows]
        columns = (
            states[better],
            states[worse],
            score[better].astype(float) - score[worse],
            length[better] - length[worse],
        )
        high, low, gap, longer = (signed.per_prompt(column, prompt) for column in columns)
        note = "" if len(high) >= LEAST else f"{len(high)} prompts; {LEAST} are needed"
        if not note and not (high - low).any():
            note = "the states do not differ between responses"
        found.append(Pairs(concept, high, low, gap, longer, np.unique(prompt), note))
    return found


def halves(prompts: int, splits: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Random halves of the prompts, each used to find a direction and to try one."""
    generator = np.random.default_rng([seed, prompts])
    orders = [generator.permutation(prompts) for _ in range(splits)]
    cuts = [(order[: prompts // 2], order[prompts // 2 :]) for order in orders]
    return [half for a, b in cuts for half in ((a, b), (b, a))]


def within(
    products: np.ndarray, length: np.ndarray | None, fit: np.ndarray, tried: np.ndarray
) -> np.ndarray:
    """Inner products of tried with fitting differences, shape (tried, fitting).

    Parameters
    ----------
    products
        Of all differences, shape (prompts, prompts).
    length
        Taken out of every difference by its slope through the origin over the fitting prompts;
        ``None`` leaves it in.
    fit, tried
        Prompts.

    Notes
    -----
    With l the lengths and D the differences of the fitting prompts, b = lᵀD/lᵀl, and what is left
    of a difference d of length m is d − m b. If better and worse are exchanged in any pair, what
    is left of it changes its sign and nothing else does.
    """
    cross = products[np.ix_(tried, fit)]
    if length is None or not (square := length[fit] @ length[fit]) > 0:
        return cross
    share = length[fit] / square
    inner = products[np.ix_(fit, fit)]
    left = cross - np.outer(length[tried], share @ inner)
    return left - np.outer(left @ share, length[fit])
