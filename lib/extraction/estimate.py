"""How long scoring will take, measured on this device before it starts.

A few responses are run for about a second; their tokens a second, and the tokens of a sample of
the items, give the time for all. It is a guess of the right size: a device that heats up or
is shared, and longer rows than the few that were tried, move it by a factor of two.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from lib.errors import ParameterError

LONG = 120.0  # seconds above which a reader is warned
VERY_LONG = 3 * 3600.0  # seconds above which a run must be asked for
PATIENCE = 10  # times what is measured for: a first response slower than this is the only one
SAMPLED = 200  # items whose tokens are counted


@dataclass(frozen=True)
class Estimate:
    """What scoring a dataset takes."""

    dataset: str
    items: int
    responses: int
    tokens: int  # that the model computes, a prompt counted once
    rate: float  # tokens a second, as measured
    device: str  # of the weights, as their dtype
    dtype: str

    @property
    def seconds(self) -> float:
        """Time for all."""
        return self.tokens / self.rate


def estimate(model, items, *, held_out: bool = True, seconds: float = 1.0) -> Estimate:
    """Measure a model on some of the items, for about so many seconds.

    Items whose prompt trained a head are left out with ``held_out``, as ``extract`` does.

    Raises
    ------
    ParameterError
        When no item can be rendered.
    """
    kept = np.arange(len(items))
    if held_out and model.trained_on:
        kept = np.flatnonzero(~items.prompts["prompt_hash"].isin(model.trained_on).to_numpy())
    encoded = sample(model, items, kept)
    if not encoded:
        needed = f"an item of {items.name} that the model can score"
        raise ParameterError(needed, "none", "Choose other data.")
    responses = int(np.isin(items.item_of_response, kept).sum())
    weights = next(model.backbone.parameters())
    return Estimate(
        dataset=items.name,
        items=len(kept),
        responses=responses,
        tokens=round(float(np.mean([item.n_tokens for item in encoded])) * len(kept)),
        rate=_rate(model.backbone, encoded, seconds),
        device=weights.device.type,
        dtype=str(weights.dtype).removeprefix("torch."),
    )


def sample(model, items, kept: np.ndarray | None = None) -> list:
    """Tokens of a sample, evenly spaced, of the items at the given places or of all."""
    from lib.extraction.job import unfit
    from lib.models.prompt import RenderError

    kept = np.arange(len(items)) if kept is None else kept
    answers, prompts = items.answers, items.prompts["prompt"].to_list()
    found = []
    for i in kept[:: max(1, -(-len(kept) // SAMPLED))]:
        try:
            item = model.format.encode(prompts[i], answers[i])
        except RenderError:
            continue
        if not unfit(model, item):
            found.append(item)
    return found


def _rate(backbone, encoded: list, seconds: float) -> float:
    """Tokens a second in the last and largest of a growing series of batches.

    Batches are padded, which needs no kernel to be compiled; a padded token costs about what
    a packed one does. They are of responses, since an item may have dozens. The first call is
    slower than what follows, and counts only where a single response takes so long that no
    second one is tried.
    """
    single = [replace(item, sequences=[ids]) for item in encoded for ids in item.sequences]
    rate, first = _timed(backbone, single[:1])
    spent, start, count = (first if first > PATIENCE * seconds else 0.0), 1, 2
    while spent < seconds and start < len(single):
        rate, taken = _timed(backbone, single[start : start + count])
        spent, start, count = spent + taken, start + count, 2 * count
    return rate


def _timed(backbone, batch: list) -> tuple[float, float]:
    """Tokens a second of a batch, and its seconds."""
    from lib.extraction.forward import forward

    began = time.perf_counter()
    forward(backbone, batch, "padded")
    taken = max(time.perf_counter() - began, 1e-6)
    return sum(len(ids) for item in batch for ids in item.sequences) / taken, taken


def sentences(estimates: Iterable[Estimate]) -> list[str]:
    """What a reader is warned of before a long run; nothing for a short one."""
    estimates = list(estimates)
    total = sum(each.seconds for each in estimates)
    if total <= LONG:
        return []
    return [
        f"Scoring will take about {duration(total)} on this machine.",
        *(
            f"{each.dataset}: {each.responses:,} responses, {each.tokens:,} tokens, about "
            f"{duration(each.seconds)} at {each.rate:,.0f} tokens a second "
            f"({each.device}, {each.dtype})."
            for each in estimates
        ),
        f"{_shorter(estimates, total)} What was scored is kept when it is stopped.",
    ]


def _shorter(estimates: list[Estimate], total: float) -> str:
    items = int(min(each.items for each in estimates) * LONG / total)
    limit = max(1, items - items % 10 ** (len(str(items)) - 1))
    ways = [f"To shorten it, lower the limit ({limit} items of each take about {duration(LONG)})"]
    if any(each.device == "cpu" for each in estimates):
        ways.append("use a GPU (device)")
    if any(each.device != "cpu" and each.dtype == "float32" for each in estimates):
        ways.append("use bfloat16 (dtype)")
    return ", or ".join(ways) + "."


def duration(seconds: float) -> str:
    """``40 s``, ``12 min``, ``3 h 20 min``, ``2 days 4 h``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes, hours = round(seconds / 60), round(seconds / 3600)
    if minutes < 90:
        return f"{minutes} min"
    if minutes < 48 * 60:
        whole, part = f"{minutes // 60} h", f"{minutes % 60} min"
        return f"{whole} {part}" if minutes % 60 else whole
    whole, part = f"{hours // 24} days", f"{hours % 24} h"
    return f"{whole} {part}" if hours % 24 else whole


def announce(estimates: Iterable[Estimate], yes: bool = False) -> None:
    """Print to stderr what a long run takes, and stop before a very long one.

    Raises
    ------
    ParameterError
        When it takes hours and ``yes`` is false.
    """
    estimates = list(estimates)
    for sentence in sentences(estimates):
        print(sentence, file=sys.stderr, flush=True)
    total = sum(each.seconds for each in estimates)
    if total > VERY_LONG and not yes:
        needed = f"--yes (make audit: YES=1) for a run of about {duration(total)}"
        raise ParameterError(needed, "none", "Lower the limit, or add it; nothing was started.")
