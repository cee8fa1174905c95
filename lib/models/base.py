"""What a reward model is, to everything after it.

A backbone turns tokens into hidden states; a readout turns the state at a response's last
token (and, for gated models, the state where its prompt ends) into one score a head and
one final score. The two halves are apart so that stored states can be scored again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from lib.models.prompt import PromptFormat

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Head:
    """One labelled score: its name, where the name comes from, and what the name claims.

    ``concept`` is of the vocabulary of ``lib.data.concepts``; empty when the name claims
    nothing that a comparison could test.
    """

    name: str
    source: str
    concept: str = ""


@dataclass(frozen=True)
class Readout:
    """Scores of n responses.

    ``score`` and ``gate`` (the heads' coefficients in ``final``) have shape (n, heads),
    float32; ``final``, the one score that the model is used by, has shape (n,). ``None``
    where the model has no rule for combining its heads, or no gate.
    """

    score: np.ndarray
    final: np.ndarray | None = None
    gate: np.ndarray | None = None

    @property
    def columns(self) -> np.ndarray:
        """The heads' scores, with one more column for a final score that isn't the only head's."""
        if self.final is None or self.score.shape[1] == 1:
            return self.score
        return np.column_stack([self.score, self.final])


@runtime_checkable
class RewardModel(Protocol):
    """The protocol that ``lib.extraction`` asks for.

    Attributes
    ----------
    name
        As given to ``load_model``.
    heads
        Named heads, in the order of the score's columns.
    backbone
        A transformer that returns ``last_hidden_state`` (after its final norm).
    format
        Turns conversations into tokens; knows which tokens are read.
    gated
        Does ``read`` need the state at the prompt's end?
    trained_on
        Hashes of prompts that any head was trained on.
    card
        What the page about the model shows: data, splits, held-out scores, limits.
    """

    name: str
    heads: Sequence[Head]
    backbone: torch.nn.Module
    format: PromptFormat
    gated: bool
    trained_on: frozenset[str]
    card: dict

    def read(self, hidden: np.ndarray, gate_hidden: np.ndarray | None = None) -> Readout:
        """Scores from states: ``hidden`` and ``gate_hidden`` of shape (n, features)."""
        ...

    def own_scores(self, sequences: Sequence[np.ndarray]) -> np.ndarray:
        """Scores of token ids by the checkpoint's own class, loaded anew, in float32.

        One text at a time; as ``Readout.columns``. A ``ModelError`` where its class can't tell.
        """
        ...

    @property
    def fingerprint(self) -> dict[str, str]:
        """Digests of what makes its scores, 16 hex digits each.

        ``backbone`` (all weights) and ``configuration`` make a state of tokens;
        ``tokenizer``, ``template`` and ``tokens`` (what both make of a set of conversations)
        make the tokens; ``heads`` make scores of states.
        """
        ...
