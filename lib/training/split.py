"""Train, choose and hold out by conversation, so that no prompt is on both sides.

A conversation that occurs at several depths (the same opening question, more turns) must
not be split either, so the unit is the opening: the first user turn. Its digest decides the
side, which makes the split independent of row order, of sampling, and of which other
datasets are there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np
from sklearn.model_selection import GroupKFold

from lib.data.items import Prompt

HELD_OUT_SHARE = 0.2
CHOOSE_SHARE = 0.16
SIDES = ("train", "choose", "held_out")


def opening(prompt: Prompt) -> str:
    """Digest of the first user turn, case and space folded; 16 hex digits."""
    first = next((turn["content"] for turn in prompt if turn["role"] == "user"), "")
    return hashlib.sha256(" ".join(first.lower().split()).encode()).hexdigest()[:16]


def side(prompts: Sequence[Prompt]) -> np.ndarray:
    """Where each prompt belongs: ``"held_out"``, ``"choose"`` or ``"train"``, shape (prompts,).

    The digest, read as a number in [0, 1), is held out below ``HELD_OUT_SHARE`` and serves
    the choice of penalties in the next ``CHOOSE_SHARE``.
    """
    place = np.asarray([int(opening(prompt), 16) / 16**16 for prompt in prompts])
    held_out = place < HELD_OUT_SHARE
    choose = place < HELD_OUT_SHARE + CHOOSE_SHARE
    return np.select([held_out, choose], ["held_out", "choose"], "train")


def out_of_fold(
    group: np.ndarray,
    predict: Callable[[np.ndarray, np.ndarray], np.ndarray],
    folds: int = 5,
    seed: int = 0,
) -> np.ndarray:
    """What ``predict(train, test)`` says of the test rows of each grouped fold, in row order."""
    splitter = GroupKFold(folds, shuffle=True, random_state=seed)
    parts = list(splitter.split(group, groups=group))
    rows = np.concatenate([test for _, test in parts])
    return np.concatenate([predict(train, test) for train, test in parts])[np.argsort(rows)]
