"""*Invariance*: the same texts in other batches, orders, kernels and number types.

All but number types are compared in float32, over the few items, with each text by itself; a
number type over all items, with float32, as an extraction computes both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from scipy.stats import chi2

from lib.check.lines import INVARIANCE, NOTE, RIGHT, UNTOLD, WRONG, Row
from lib.check.subject import Subject
from lib.extraction import parity
from lib.models import load_model

# Largest difference in float32, of rounding about 2e-5, and of a number type root mean square:
# such noise makes up a tenth of what a score then varies by.
ROUNDING, NOISE = parity.TOLERANCE[torch.float32], 0.3
AT_ONCE = 8


def rows(subject: Subject, **loading) -> tuple[list[Row], list[dict]]:
    """Rows, and the table ``shifts``; ``loading`` goes to ``load_model`` for number types."""
    found = [_row(subject, way, compute) for way, compute in _ways(subject)]
    found += [_number_type(subject, dtype, loading) for dtype in _number_types(subject)]
    return [row for row, _ in found], [record for _, record in found if record]


def _ways(subject: Subject) -> Iterator[tuple[str, Callable[[], np.ndarray]]]:
    few, whole = subject.few, 10**9  # tokens of a batch
    inside = int(few[0].sequences[0][len(few[0].sequences[0]) // 2])
    padded = {"packing": "padded", "budget": whole}

    def by_eights() -> np.ndarray:
        groups = [few[i : i + AT_ONCE // 2] for i in range(0, len(few), AT_ONCE // 2)]
        return np.concatenate([subject.scores(group, **padded) for group in groups])

    def reversed_order() -> np.ndarray:
        counts = [len(item.sequences) for item in few]
        found = subject.fast(few[::-1])
        parts = np.split(found, np.cumsum(counts[::-1])[:-1])
        return np.concatenate(parts[::-1])

    yield f"batches of {AT_ONCE}", by_eights
    yield "one batch", lambda: subject.scores(few, **padded)
    yield "padding on the left", lambda: subject.scores(few, padding_side="left", **padded)
    yield "pad id inside the text", lambda: subject.scores(few, pad_id=inside, **padded)
    yield "order of items", reversed_order
    if subject.kernel[0]:
        yield "packing", lambda: subject.packed
    if getattr(subject.model.backbone, "_supports_sdpa", False):
        yield "attention kernel", lambda: _eager(subject)


def _eager(subject: Subject) -> np.ndarray:
    backbone = subject.model.backbone
    before = backbone.config._attn_implementation
    backbone.set_attn_implementation("eager" if before != "eager" else "sdpa")
    try:
        return subject.scores(subject.few, packing="padded", budget=1)
    finally:
        backbone.set_attn_implementation(before)


def _row(subject: Subject, way: str, compute: Callable[[], np.ndarray]) -> tuple[Row, dict | None]:
    expected = f"at most {ROUNDING:g} sd from each text by itself"
    try:
        found = compute()
    except Exception as error:  # of as many kinds as there are models
        told = (str(error).splitlines() or [type(error).__name__])[0][:200]
        return Row(INVARIANCE, way, told, expected, UNTOLD, "The model doesn't run that way."), None
    record = _record(subject, way, found, subject.alone, subject.few)
    right = record["largest"] <= ROUNDING
    do = "" if right else "Score one text at a time, or find what reads its neighbours."
    return Row(INVARIANCE, way, _told(record), expected, RIGHT if right else WRONG, do), record


def _number_types(subject: Subject) -> list[str]:
    on_cpu = next(subject.model.backbone.parameters()).device.type == "cpu"
    return ["bfloat16"] if on_cpu else ["bfloat16", "float16"]


def _number_type(subject: Subject, dtype: str, loading: dict) -> tuple[Row, dict]:
    other = load_model(subject.name, dtype=dtype, **loading)
    record = _record(subject, dtype, subject.fast(subject.encoded, other), subject.all, None)
    low = shown(record["spread"], len(subject.encoded))
    right = low <= NOISE
    do = "" if right else f"Score in float32: {dtype} keeps too little of these states."
    expected = f"a spread from float32 that isn't shown to exceed {NOISE:g} sd"
    told = f"{_told(record)}; a spread of at least {low:.2g} is shown"
    return Row(INVARIANCE, dtype, told, expected, RIGHT if right else WRONG, do), record


def shown(spread: float, n: int) -> float:
    """The least that a root mean square over n independent shifts is shown to be, at 95%.

    By the chi-square distribution of a sum of squares of normal shifts around 0. Responses to
    one prompt aren't independent, so n counts items.
    """
    return float(spread * np.sqrt(n / chi2.ppf(0.95, n)))


def _record(subject: Subject, way: str, found, right, few) -> dict:
    """Largest shift and, of the score that it is worst for, its root mean square and sides."""
    shift = subject.shift(found, right)
    gaps, before = (subject.gaps(each, few) for each in (found, right))
    changed = (np.sign(gaps) != np.sign(before)).mean(axis=0) if len(gaps) else np.zeros(1)
    return {
        "way": way,
        "largest": float(shift.max(initial=0.0)),
        "spread": float(np.sqrt((shift**2).mean(axis=0)).max(initial=0.0)),
        "sides": float(changed.max(initial=0.0)),
        "comparisons": len(gaps),
    }


def _told(record: dict) -> str:
    return (
        f"largest shift {record['largest']:.2g} sd, spread {record['spread']:.2g}; "
        f"{record['sides']:.1%} of {record['comparisons']} comparisons change sides"
    )


def alone(subject: Subject) -> list[Row]:
    """Notes on what a model has one way of: items that are padded, a single attention kernel."""
    kernel, why = subject.kernel
    rows = [] if kernel else [Row(INVARIANCE, "packing", f"not packed: {why}", "", NOTE)]
    if not getattr(subject.model.backbone, "_supports_sdpa", False):
        rows.append(Row(INVARIANCE, "attention kernel", "the model has one alone", "", NOTE))
    return rows
