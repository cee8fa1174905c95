"""Train and hold-out by conversation, so that no prompt is on both sides.

A conversation that occurs at several depths (the same opening question, more turns) must
not be split either, so the unit is the opening: the first user turn. Its digest decides the
side, which makes the split independent of row order, of sampling, and of which other
datasets are there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from lib.data.items import Items, Prompt

HELD_OUT_SHARE = 0.2


def opening(prompt: Prompt) -> str:
    """Digest of the first user turn, case and space folded; 16 hex digits."""
    first = next((turn["content"] for turn in prompt if turn["role"] == "user"), "")
    return hashlib.sha256(" ".join(first.lower().split()).encode()).hexdigest()[:16]


def held_out(prompts: Sequence[Prompt], share: float = HELD_OUT_SHARE) -> np.ndarray:
    """Mask of the prompts on the hold-out side, shape (prompts,).

    The digest, read as a number in [0, 1), is below ``share``.
    """
    return np.asarray([int(opening(prompt), 16) / 16**16 < share for prompt in prompts])


def groups(items: Items) -> np.ndarray:
    """An integer for the opening of each comparison's prompt, for grouped folds."""
    keys = np.asarray([opening(prompt) for prompt in items.prompts["prompt"]])
    _, code = np.unique(keys, return_inverse=True)
    return code[items.item_of_response[items.comparisons["better"].to_numpy()]]
