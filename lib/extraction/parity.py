"""Do trees give a model's scores? Tried on a few items before a store is started."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from lib.errors import AuditError
from lib.extraction import attention
from lib.extraction.forward import States, forward
from lib.models.prompt import EncodedItem

ITEMS = 3
BRANCHES = 4  # responses of each that are tried, so that a trial costs less than what follows
# Largest difference, in standard deviations of the head over the responses tried. Rounding
# is about 3e-5 of one in float32; attention to a wrong token is of the order of one.
TOLERANCE = {torch.float32: 1e-3, torch.float16: 0.1, torch.bfloat16: 0.5}
# States this much alike, relative to that, are equal whatever the heads make of them.
STATES = 0.02


def kernel(model, items: Sequence[EncodedItem]) -> tuple[str, str]:
    """The kernel that gives the model's scores of trees, and why a faster one isn't it.

    No kernel where none does: the items are then to be padded.
    """
    backbone = model.backbone
    reasons = [attention.too_narrow(backbone) if attention.on_one_gpu(backbone) else ""]
    for each in dict.fromkeys((attention.kernel_for(backbone), attention.BRANCHING)):
        why = objection(model, items, each)
        if not why:
            return each, "; ".join(filter(None, reasons))
        reasons.append(why if each == attention.BRANCHING else f"{each}: {why}")
    return "", "; ".join(filter(None, reasons))


def objection(model, items: Sequence[EncodedItem], kernel: str | None = None) -> str:
    """Why the model's items must not be packed as trees; empty when they may be.

    Compares the scores of a few responses of a few short items, packed in one row, with those
    of their sequences in a padded batch and, where these differ, with those of each sequence alone.
    States that aren't finite are left for the extraction to report. Models and compilers
    raise errors of many kinds for rows that they don't suit.
    """
    some = sorted(items, key=lambda item: (len(item.sequences) == 1, item.n_tokens))[:ITEMS]
    some = [replace(item, sequences=item.sequences[:BRANCHES]) for item in some]
    try:
        packed = forward(model.backbone, some, kernel=kernel)
    except AuditError:
        raise
    except Exception as error:
        return f"packed as trees the model fails: {(str(error).splitlines() or [''])[0][:120]}"
    dtype = next(model.backbone.parameters()).dtype
    allowed = TOLERANCE.get(dtype, TOLERANCE[torch.float32])
    with contextlib.suppress(Exception):  # in one batch, which is soon done
        if _alike(model, some, packed, forward(model.backbone, some, packing="padded"), allowed):
            return ""
    alone = forward(model.backbone, some, packing="padded", budget=1)
    if not all(np.isfinite(states).all() for states in (alone.hidden, alone.gate_hidden)):
        return ""
    if _alike(model, some, packed, alone, allowed):
        return ""
    return f"packed as trees the scores differ by more than {allowed:g} standard deviations"


def _alike(model, items, packed: States, expected: States, allowed: float) -> bool:
    if all(
        np.linalg.norm(a - b) <= allowed * STATES * np.linalg.norm(b)
        for a, b in (
            (packed.hidden, expected.hidden),
            (packed.gate_hidden, expected.gate_hidden),
        )
    ):
        return True
    found, right = (scores(model, items, states) for states in (packed, expected))
    # A head that hardly varies over so few responses is held to its size instead.
    scale = np.maximum(right.std(axis=0), 0.01 * np.sqrt((right**2).mean(axis=0)))
    return bool((np.abs(found - right) <= allowed * scale).all())


def scores(model, items: Sequence[EncodedItem], states: States) -> np.ndarray:
    """Scores of the items' responses, float64, in the columns of ``Readout.columns``."""
    owner = np.repeat(np.arange(len(items)), [len(item.sequences) for item in items])
    readout = model.read(states.hidden, states.gate_hidden[owner] if model.gated else None)
    return readout.columns.astype(np.float64)
