"""A job's shards, one after another: read where they are there, else computed and kept.

While a GPU computes one shard, the one before is checked, written and handed on; without
one each is written before the next begins. What was computed is kept when the next one
fails. Rows get shorter for good when memory is short.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from lib.errors import ModelError
from lib.extraction import store as stores
from lib.extraction.job import Job
from lib.extraction.run import SCHEMA

# Compiling layers takes about a minute and saves about a fifth: for runs of minutes.
COMPILE_FROM = 2e17  # floating-point operations


@dataclass(frozen=True)
class States:
    """States of all items; ``halved`` is the budget that memory had room for, if it was cut."""

    hidden: np.ndarray
    gate_hidden: np.ndarray
    taps: dict[str, np.ndarray]
    halved: int | None


class Budget:
    """Tokens a row: as asked, until memory is short."""

    def __init__(self, job: Job, asked: int | None):
        from lib.extraction import forward as forwards

        self.asked = self.now = asked or forwards.default_budget(job.model.backbone)

    def cut(self, found: int) -> None:
        """Go on with less, and say so."""
        if found < self.now:
            warnings.warn(
                f"out of memory: going on with {found} tokens a row instead of {self.now}",
                stacklevel=9,  # who called extract
            )
            self.now = found

    @property
    def halved(self) -> int | None:
        """What it was cut to, if it was."""
        return self.now if self.now < self.asked else None


def collect(job: Job, store, budget: int | None, progress: bool | None) -> States:
    """States of all items, kept in an open store; budget and progress as ``extract`` has them."""
    size = Budget(job, budget)
    tensors = list(computed(job, store, range(len(job.shards)), size, progress))
    return States(
        np.concatenate([shard["hidden"] for shard in tensors]),
        np.concatenate([shard["gate_hidden"] for shard in tensors]),
        {tap.name: np.concatenate([shard[tap.name] for shard in tensors]) for tap in job.taps},
        size.halved,
    )


def computed(
    job: Job, store, numbers: Iterable[int], budget: Budget, progress
) -> Iterator[dict[str, np.ndarray]]:
    """Tensors of the shards with these numbers: read where they are there, else computed."""
    numbers, shards = list(numbers), _Shards(job, store, budget)
    total = sum(shards.n_items(number) for number in numbers)
    with _bar(total, progress) as advance, _behind(store.write) as write:
        yield from _one_ahead(shards.begin(number, advance, write) for number in numbers)


def _one_ahead(calls: Iterable[Callable[[], Any]]) -> Iterator[Any]:
    """What each call gives, made once the next one has come, or has failed to."""
    before: Callable[[], Any] | None = None
    try:
        for call in calls:
            ready, before = before, call
            if ready is not None:
                yield ready()
    except BaseException:
        if before is not None:
            with suppress(Exception):  # the first error is the one to tell
                before()
        raise
    if before is not None:
        yield before()


class _Shards:
    """A job's shards, to be begun one by one."""

    def __init__(self, job: Job, store, budget: Budget):
        self.job, self.store, self.budget = job, store, budget
        self.slices, self.counts = job.shards, job.counts
        self.first = np.cumsum([0, *self.counts])
        self.ids = job.items.prompts["item"].to_numpy()
        self.compiled = _operations(job.model, job.encoded) >= COMPILE_FROM

    def n_items(self, number: int) -> int:
        return self.slices[number].stop - self.slices[number].start

    def begin(self, number: int, advance, write) -> Callable[[], dict[str, np.ndarray]]:
        """Read a shard, or have the device start on it; what waits for its tensors."""
        shard = self.slices[number]
        responses = int(self.first[shard.stop] - self.first[shard.start])
        kept = self.store.read(
            number,
            {"hidden": responses, "gate_hidden": self.n_items(number)}
            | {tap.name: responses for tap in self.job.taps},
        )
        if kept is not None:
            advance(self.n_items(number))
            return lambda: kept
        under_way = self._start(shard, advance)

        def finish() -> dict[str, np.ndarray]:
            states = under_way.states()
            tensors = {"hidden": states.hidden, "gate_hidden": states.gate_hidden, **states.taps}
            _finite(tensors, self.ids[shard], self.counts[shard])
            write(number, tensors)
            return tensors

        if under_way.pending:
            return finish
        tensors = finish()
        return lambda: tensors

    def _start(self, shard: slice, advance):
        from lib.extraction import forward as forwards

        under_way = forwards.start(
            self.job.model.backbone,
            self.job.encoded[shard],
            self.store.manifest[stores.DECIDED]["packing"],
            self.budget.now,
            on_step=advance,
            compiled=self.compiled,
            taps=self.job.taps,
        )
        self.budget.cut(under_way.budget)
        return under_way


@contextmanager
def _behind(call: Callable) -> Iterator[Callable]:
    """The call, made while the next shard is computed; its error is raised with the next."""
    waiting: list[Future] = []

    def later(*args) -> None:
        for one in waiting:
            one.result()
        waiting[:] = [pool.submit(call, *args)]

    with ThreadPoolExecutor(1) as pool:
        yield later
        for one in waiting:
            one.result()


def _operations(model, encoded) -> float:
    """Floating-point operations of the run's matrix products, about."""
    weights = sum(parameter.numel() for parameter in model.backbone.parameters())
    return 2.0 * weights * sum(item.n_tokens for item in encoded)


def _finite(tensors, ids, counts) -> None:
    owners = {
        "item": np.arange(len(ids)),
        "response": np.repeat(np.arange(len(ids)), counts),
    }
    for name, values in tensors.items():
        bad = np.flatnonzero(~np.isfinite(values).all(axis=tuple(range(1, values.ndim))))
        if len(bad):
            owner = owners[SCHEMA[name][0][0]][bad[0]]
            raise ModelError(
                "finite hidden states",
                f"NaN or infinity for item {ids[owner]!r} ({len(bad)} in all)",
                "Run in float32, or leave that item out.",
            )


@contextmanager
def _bar(total: int, progress: bool | None) -> Iterator:
    from tqdm import tqdm

    show = sys.stderr.isatty() if progress is None else progress
    with tqdm(total=total, unit="item", disable=not show, desc="extract") as bar:
        yield bar.update
