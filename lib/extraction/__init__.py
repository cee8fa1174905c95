"""One forward pass per item: ``extract`` turns a model and items into a Run.

States are kept in the cache under what made them (weights, tokenizer, template, items,
dtype, device, versions), so heads that change are scored again without running the model.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from lib import paths
from lib.data.items import Items
from lib.errors import DataError, ModelError, ParameterError
from lib.extraction import store as stores
from lib.extraction.run import (
    SCHEMA,
    TRAINED,
    align,
    check,
    check_target,
    comparisons,
    load_run,
    pool,
    save_run,
)
from lib.extraction.stream import extract_stream

__all__ = [
    "TRAINED",
    "align",
    "check",
    "check_target",
    "comparisons",
    "extract",
    "extract_part",
    "extract_stream",
    "load_run",
    "pool",
    "save_run",
]

TOO_LONG = "longer than the model's context"
REFUSED = "refused by the chat template"
NO_EMBEDDING = "token that the model has no embedding for"
# Compiling layers takes about a minute and saves about a fifth: for runs of minutes.
COMPILE_FROM = 2e17  # floating-point operations


class NothingToScoreError(DataError):
    """No item is left; ``dropped`` counts why, ``unscored`` names those that can't be scored."""

    def __init__(
        self,
        name: str,
        dropped: Mapping[str, int],
        unscored: Mapping[str, Sequence[str]] | None = None,
    ):
        self.name, self.dropped, self.unscored = name, dict(dropped), dict(unscored or {})
        super().__init__(
            f"an item of {name} to score",
            "none: " + ", ".join(f"{count} {reason}" for reason, count in dropped.items()),
            "Choose other data, or extract with held_out=False.",
        )

    def __reduce__(self):
        return type(self), (self.name, self.dropped, self.unscored)


def extract(
    model,
    items: Items,
    *,
    store: str | Path | None = None,
    packing: str = "trees",
    budget: int | None = None,
    held_out: bool = True,
    progress: bool | None = None,
    gather: Sequence[str | Path] = (),
    taps: Sequence[str] = (),
    before: Callable[[], object] | None = None,
) -> xr.Dataset:
    """Score every response of the items.

    Parameters
    ----------
    model
        A ``lib.models.RewardModel``.
    items
        What ``load_items`` returned.
    store
        Folder for the states; in the cache by default.
    packing
        ``"trees"`` (each prompt computed once, no padding) or ``"padded"``. A model that
        trees don't suit is padded all the same, and the run's attributes say why.
    budget
        Tokens a row or batch; by device when ``None``. Results don't depend on it beyond
        rounding. Halved, with a warning, when memory is short.
    held_out
        Leave out items whose prompt trained one of the model's heads, and count them.
    progress
        Show a bar; by default only in a terminal.
    gather
        Stores that ``extract_part`` filled elsewhere, whose shards are taken.
    taps
        What else to keep of the same pass, by name: see ``lib.extraction.taps``.
    before
        Called before the model runs, unless all states are at hand; may raise.

    Returns
    -------
    xarray.Dataset
        A Run, as described in ``lib.extraction.run``.

    Raises
    ------
    DataError
        When no item is left to score.
    ModelError
        For an unknown packing or tap, a backbone without what a tap listens to, or when a
        state isn't finite, naming the item.
    StoreError
        When the store is another's, in use, or can't be written.
    """
    job = _prepare(model, items, store, packing, held_out, taps)
    if before is not None and not job.is_stored:
        before()
    with stores.opened(job.folder, job.manifest, job.decide) as opened:
        for folder in gather:
            stores.adopt(folder, opened, len(job.shards))
        states = _states(job, opened, budget, progress)
    return _run(job, states, opened.manifest)


def extract_part(
    model,
    items: Items,
    part: int,
    parts: int,
    *,
    store: str | Path | None = None,
    packing: str = "trees",
    budget: int | None = None,
    held_out: bool = True,
    progress: bool | None = None,
    taps: Sequence[str] = (),
    before: Callable[[], object] | None = None,
) -> Path:
    """Compute one worker's share of the states, for ``extract`` to gather.

    Workers may write into one store, on one host or a shared disk, or each into its own,
    which ``extract(…, gather=folders)`` then collects.

    Parameters
    ----------
    model, items, store, packing, budget, held_out, progress, taps, before
        As for ``extract``.
    part, parts
        Which worker of how many, from 0. Shards are shared out by their tokens.

    Returns
    -------
    Path
        The store.

    Raises
    ------
    ParameterError
        For a part that isn't one of them.
    """
    if not 0 <= part < parts:
        raise ParameterError(
            f"a part from 0 to {parts - 1} of {parts}", str(part), "Number the workers from 0."
        )
    job = _prepare(model, items, store, packing, held_out, taps)
    if before is not None and not job.is_stored:
        before()
    tokens = [sum(item.n_tokens for item in job.encoded[shard]) for shard in job.shards]
    mine = stores.parts(tokens, parts)[part]
    with stores.opened(job.folder, job.manifest, job.decide, (part, parts)) as opened:
        for _ in _computed(job, opened, mine, _Budget(job, budget), progress):
            pass
    return job.folder


@dataclass(frozen=True)
class _Job:
    """What is to be computed, and where it goes."""

    model: Any
    items: Items
    encoded: list
    unscored: dict[str, list[str]]  # ids of items that can't be scored, by reason
    fingerprint: dict[str, str]
    manifest: dict
    folder: Path
    taps: list  # of ``lib.extraction.taps.Tap``

    @property
    def counts(self) -> list[int]:
        """Responses of each item."""
        return [len(item.sequences) for item in self.encoded]

    @property
    def shards(self) -> list[slice]:
        """Items of each shard."""
        return stores.plan(self.counts, self.manifest["shard_responses"])

    @property
    def is_stored(self) -> bool:
        """Is there a file of every shard?"""
        kept = stores.Store(self.folder, self.manifest)
        return all(kept.path(number).exists() for number in range(len(self.shards)))

    def decide(self) -> dict[str, str]:
        """How it is computed; asked for a new store only."""
        return _decide(self.model, self.encoded, self.manifest["packing"])


def _prepare(model, items: Items, store, packing: str, held_out: bool, taps) -> _Job:
    from lib.extraction import taps as tapping
    from lib.extraction.forward import check_packing

    check_packing(packing)
    for tap in taps:
        if not isinstance(tap, str):  # a store knows its taps by their names
            raise ModelError("names of taps", repr(tap), "Give a Tap of your own to forward.")
    taps = tapping.resolve(taps)
    tapping.check(model.backbone, taps)
    items = replace(items, responses=items.responses.assign(row=np.arange(len(items.responses))))
    if held_out and model.trained_on:
        known = items.prompts["prompt_hash"].isin(model.trained_on).to_numpy()
        items = items.select(~known, TRAINED)
    encoded, items, unscored = _encode(model, items)
    fingerprint = model.fingerprint
    manifest = _manifest(model, items, fingerprint, packing)
    if taps:  # without, the store of before taps is still the same one
        manifest["taps"] = sorted(tap.name for tap in taps)
    folder = Path(store) if store else paths.cache() / "states" / _digest(manifest)
    return _Job(model, items, encoded, unscored, fingerprint, manifest, folder, taps)


def unfit(model, item) -> str:
    """Why an encoded item can't be scored; empty when it can."""
    limit = getattr(model.backbone.config, "max_position_embeddings", None) or sys.maxsize
    if max(map(len, item.sequences)) > limit:
        return TOO_LONG
    known = model.backbone.get_input_embeddings().weight.shape[0]
    return NO_EMBEDDING if max(int(ids.max()) for ids in item.sequences) >= known else ""


def is_stored(
    model,
    items: Items,
    *,
    store: str | Path | None = None,
    held_out: bool = True,
    taps: Sequence[str] = (),
) -> bool:
    """Are all states of an extraction at hand, so that it takes no time?

    Parameters
    ----------
    model, items, store, held_out, taps
        As for ``extract``.
    """
    try:
        return _prepare(model, items, store, "trees", held_out, taps).is_stored
    except NothingToScoreError:
        return True


def _encode(model, items: Items):
    """Tokens of each item, the items without those that can't be scored, and the ids of these."""
    from lib.models.prompt import RenderError

    texts = items.responses["text"].to_numpy()
    first = np.searchsorted(items.item_of_response, np.arange(len(items) + 1))
    encoded, left = [], []
    unscored: dict[str, list[str]] = {}
    ids = items.prompts["item"].to_list()
    found = model.format.encode_many(
        items.prompts["prompt"], (texts[a:b] for a, b in itertools.pairwise(first))
    )
    for i, item in enumerate(found):
        reason = REFUSED if isinstance(item, RenderError) else unfit(model, item)
        if reason:
            unscored.setdefault(reason, []).append(str(ids[i]))
            continue
        encoded.append(item)
        left.append(i)
    dropped = Counter(items.dropped)
    dropped.update({reason: len(those) for reason, those in unscored.items()})
    if not left:
        raise NothingToScoreError(items.name, dropped, unscored)
    return encoded, replace(items.select(left), dropped=dict(dropped)), unscored


def _manifest(model, items: Items, fingerprint: dict[str, str], packing: str) -> dict:
    """What identifies the states, before anything is computed."""
    weights = next(model.backbone.parameters())
    return {
        "items": items.fingerprint,
        **{part: fingerprint[part] for part in ("backbone", "tokenizer", "template")},
        "dtype": str(weights.dtype).removeprefix("torch."),
        "device": weights.device.type,
        "versions": versions(),
        "packing": packing,
        "shard_responses": stores.shard_responses(weights.device.type),
    }


def versions() -> dict[str, str]:
    """Of what computes the states."""
    import torch
    import transformers

    return {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__}


def _digest(manifest: dict) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()[:16]


def _decide(model, encoded, packing: str) -> dict[str, str]:
    """The packing that suits model and items, its attention, and why if it's another."""
    from lib.extraction import attention, parity

    fallback = ""
    if packing == "trees":
        limit = getattr(model, "tree_limit", sys.maxsize)
        longest = max(len(ids) for item in encoded for ids in item.sequences)
        if longest > limit:
            fallback = (
                f"a sequence of {longest} tokens; the model's attention suits trees up to {limit}"
                if limit
                else "the model's attention doesn't suit trees"
            )
        else:
            first = next(iter(stores.plan([len(item.sequences) for item in encoded])))
            fallback = parity.objection(model, encoded[first])
    if packing == "padded" or fallback:
        decided = {"packing": "padded", "attention": model.backbone.config._attn_implementation}
    else:
        decided = {"packing": "trees", "attention": attention.kernel_for(model.backbone)}
    return decided | ({"fallback": fallback} if fallback else {})


@dataclass(frozen=True)
class _States:
    """States of all items; ``halved`` is the budget that memory had room for, if it was cut."""

    hidden: np.ndarray
    gate_hidden: np.ndarray
    taps: dict[str, np.ndarray]
    halved: int | None


class _Budget:
    """Tokens a row: as asked, until memory is short."""

    def __init__(self, job: _Job, asked: int | None):
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


def _states(job: _Job, store, budget, progress) -> _States:
    size = _Budget(job, budget)
    tensors = list(_computed(job, store, range(len(job.shards)), size, progress))
    return _States(
        np.concatenate([shard["hidden"] for shard in tensors]),
        np.concatenate([shard["gate_hidden"] for shard in tensors]),
        {tap.name: np.concatenate([shard[tap.name] for shard in tensors]) for tap in job.taps},
        size.halved,
    )


def _computed(
    job: _Job, store, numbers: Iterable[int], budget: _Budget, progress
) -> Iterator[dict[str, np.ndarray]]:
    """Tensors of the shards with these numbers: read where they are there, else computed."""
    numbers, shards = list(numbers), _Shards(job, store, budget)
    total = sum(shards.n_items(number) for number in numbers)
    with _bar(total, progress) as advance, _behind(store.write) as write:
        yield from _one_ahead(shards.begin(number, advance, write) for number in numbers)


def _one_ahead(calls: Iterable[Callable[[], Any]]) -> Iterator[Any]:
    """What each call gives, made once the next one has come."""
    before = None
    for call in calls:
        if before is not None:
            yield before()
        before = call
    if before is not None:
        yield before()


class _Shards:
    """A job's shards, to be begun one by one."""

    def __init__(self, job: _Job, store, budget: _Budget):
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

        return finish

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


def _run(job: _Job, states: _States, manifest) -> xr.Dataset:
    import safetensors

    model, items, encoded = job.model, job.items, job.encoded
    hidden, gate_hidden = states.hidden, states.gate_hidden
    halved = {} if states.halved is None else {"out of memory": f"rows cut to {states.halved}"}
    owner = items.item_of_response
    readout = model.read(hidden, gate_hidden[owner] if model.gated else None)
    n_prompt = np.asarray([item.n_prompt for item in encoded])
    lengths = np.asarray([len(ids) for item in encoded for ids in item.sequences])
    table = items.comparisons
    row = items.responses["row"].to_numpy(np.int64)
    variables = {
        "score": (("response", "head"), readout.score),
        "hidden": (("response", "feature"), hidden),
        "gate_hidden": (("item", "feature"), gate_hidden),
        **{name: (SCHEMA[name][0], values) for name, values in states.taps.items()},
        "item_of_response": ("response", owner),
        "slot": ("response", items.responses["slot"].to_numpy(np.int64)),
        "prompt_hash": ("item", items.prompts["prompt_hash"].to_numpy(np.str_)),
        "n_prompt_tokens": ("item", n_prompt),
        "n_response_tokens": ("response", lengths - n_prompt[owner]),
        "n_chars": ("response", items.responses["text"].str.len().to_numpy(np.int64)),
        "better": ("comparison", row[table["better"]]),
        "worse": ("comparison", row[table["worse"]]),
        "criterion": ("comparison", table["criterion"].to_numpy(np.str_)),
        "subset": ("comparison", table["subset"].to_numpy(np.str_)),
        "head_source": ("head", np.asarray([head.source for head in model.heads], np.str_)),
        "head_concept": ("head", np.asarray([head.concept for head in model.heads], np.str_)),
    }
    if readout.final is not None:
        variables["final"] = ("response", readout.final)
    if readout.gate is not None:
        first = np.unique(owner, return_index=True)[1]
        variables["gate"] = (("item", "head"), readout.gate[first])
    return check(
        xr.Dataset(
            variables,
            {
                "response": row,
                "head": np.asarray([head.name for head in model.heads], np.str_),
                "item": items.prompts["item"].to_numpy(np.str_),
            },
            {
                "model": model.name,
                "dataset": items.name,
                "items": items.fingerprint,
                "fingerprint": job.fingerprint,
                "dropped": {reason: int(count) for reason, count in items.dropped.items()},
                "unscored": job.unscored,
                "missing": list(items.missing),
                "about": dict(items.about),
                "extraction": {
                    "dtype": manifest["dtype"],
                    "device": manifest["device"],
                    **manifest[stores.DECIDED],
                    **halved,
                },
                "versions": {**manifest["versions"], "safetensors": safetensors.__version__},
                "template_example": model.format.example,
            },
        )
    )
