"""How long effects will take: the passes of ``lib.mechanisms.effects``, as tokens to compute."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lib.extraction import estimate as scoring
from lib.extraction.estimate import Estimate
from lib.mechanisms.effects import PATCHED, TRACED, drawn
from lib.models.anatomy import describe


def estimate(
    model, items, *, traced: int = TRACED, patched: int = PATCHED, seed: int = 0
) -> Estimate:
    """Measure a model on some of the items, and count what is to be computed of them.

    Raises
    ------
    AuditError
        As ``effects`` for what can't be explained.
    """
    traces, patches = parts(model, items, traced=traced, patched=patched, seed=seed)
    return replace(traces, tokens=traces.tokens + patches.tokens)


def parts(
    model, items, *, traced: int = TRACED, patched: int = PATCHED, seed: int = 0
) -> tuple[Estimate, Estimate]:
    """Of ``estimate`` the traces and the patches, from one measurement.

    A row joins its batch at its node's layer, so it costs half of what a whole one does. With
    p tokens of the prompt and a and b of the responses, of N nodes: noising and denoising in
    two alignments are N (a + b), three modes of both responses 3 N (a + b) / 2, and the
    better text with its prompt N (p + a) / 2.

    Raises
    ------
    AuditError
        As ``estimate``.
    """
    some = drawn(model, items, traced, seed)
    measured = scoring.estimate(model, some, held_out=False)
    nodes = 2 * len(describe(model.backbone).layers) + 1
    lengths = []
    for item in scoring.sample(model, some):
        own = [len(ids) - item.n_shared for ids in item.sequences[:2]]
        lengths.append(nodes / 2 * (5 * sum(own) + len(item.sequences[0])))
    tokens = round(float(np.mean(lengths)) * min(patched, len(some)))
    return (
        replace(measured, dataset=f"Effects on {measured.dataset}"),
        replace(measured, dataset=f"Patches on {measured.dataset}", tokens=tokens),
    )
