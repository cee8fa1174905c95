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
from lib.extraction.job import Encoded, Job
from lib.run import SCHEMA

# Compiling layers takes 10 s, 4 more for each further length of rows, and saves a fifth: for
# runs of minutes.
COMPILE_FROM = 1e17  # floating-point operations


@dataclass(frozen=True)
class Shard:
    """What was encoded of a shard, and its states by name."""

    encoded: Encoded
    tensors: dict[str, np.ndarray]


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
                stacklevel=8,  # who called extract
            )
            self.now = found

    @property
    def halved(self) -> int | None:
        """What it was cut to, if it was."""
        return self.now if self.now < self.asked else None


def computed(job: Job, store, numbers: Iterable[int], budget: Budget, progress) -> Iterator[Shard]:
    """The shards with these numbers: read where they are there, else computed."""
    numbers, shards = list(numbers), _Shards(job, store, budget)
    total = sum(job.n_items(number) for number in numbers)
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
        self.compiled = _operations(job) >= COMPILE_FROM

    def begin(self, number: int, advance, write) -> Callable[[], Shard]:
        """Read a shard, or have the device start on it; what waits for its tensors."""
        encoded = self.job.encode(number)
        responses = sum(encoded.counts)
        lengths = {"hidden": responses, "gate_hidden": len(encoded.items)}
        lengths |= {tap.name: responses for tap in self.job.taps}
        kept = self.store.read(number, lengths)
        if kept is not None:
            advance(self.job.n_items(number))
            return lambda: Shard(encoded, kept)
        advance(self.job.n_items(number) - len(encoded.items))
        if not encoded.items:
            write(number, {name: np.zeros((0, 0), np.float32) for name in lengths})
            return lambda: Shard(encoded, {})
        under_way = self._start(encoded, advance)

        def finish() -> Shard:
            states = under_way.states()
            tensors = {"hidden": states.hidden, "gate_hidden": states.gate_hidden, **states.taps}
            _finite(tensors, self.job, encoded)
            write(number, tensors)
            return Shard(encoded, tensors)

        if under_way.pending:
            return finish
        finished = finish()
        return lambda: finished

    def _start(self, encoded: Encoded, advance):
        from lib.extraction import attention
        from lib.extraction import forward as forwards

        decided = self.store.manifest[stores.DECIDED]
        under_way = forwards.start(
            self.job.model.backbone,
            encoded.items,
            decided["packing"],
            self.budget.now,
            on_step=advance,
            # Where it is spread over several devices the other kernel isn't to be had.
            kernel=decided["attention"] if decided["attention"] == attention.BRANCHING else None,
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


def _operations(job: Job) -> float:
    """Floating-point operations of the run's matrix products, about: as of its first items."""
    weights = sum(parameter.numel() for parameter in job.model.backbone.parameters())
    some = job.first_scorable().items
    tokens = sum(item.n_tokens for item in some) / len(some)
    return 2.0 * weights * tokens * len(job.items)


def _finite(tensors: dict[str, np.ndarray], job: Job, encoded: Encoded) -> None:
    owners = {"item": encoded.places, "response": np.repeat(encoded.places, encoded.counts)}
    for name, values in tensors.items():
        bad = np.flatnonzero(~np.isfinite(values).all(axis=tuple(range(1, values.ndim))))
        if len(bad):
            owner = job.items.prompts["item"].iloc[owners[SCHEMA[name][0][0]][bad[0]]]
            raise ModelError(
                "finite hidden states",
                f"NaN or infinity for item {owner!r} ({len(bad)} in all)",
                "Run in float32, or leave that item out.",
            )


@contextmanager
def _bar(total: int, progress: bool | None) -> Iterator:
    from tqdm import tqdm

    show = sys.stderr.isatty() if progress is None else progress
    with tqdm(total=total, unit="item", disable=not show, desc="extract") as bar:
        yield bar.update
