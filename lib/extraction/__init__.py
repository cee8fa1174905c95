"""One forward pass per item: ``extract`` turns a model and items into a Run.

States are kept in the cache under what made them (weights, tokenizer, template, items,
dtype, device, versions), so heads that change are scored again without running the model.

``job``       what is to be computed (``prepare``), and under which name it is kept
``shards``    its states, shard by shard; ``store`` has them on disk, ``sealed`` checksums them
``forward``   tokens in, states out: rows from ``pack``, attention from ``attention``, what
              else to keep from ``taps``, what to leave out in ``last_mlp``, a trial of the
              packing in ``parity``
``assembly``  the Run that they make; ``run`` has its schema, ``disk`` writes and reads it
``stream``    sets that don't fit in memory, ``lazy`` what is read of them when asked for
``workers``   processes that share one extraction
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import xarray as xr

from lib.data.items import Items
from lib.errors import ParameterError
from lib.extraction import disk, shards, stream
from lib.extraction import store as stores
from lib.extraction.assembly import assemble
from lib.extraction.disk import check_target, save_run
from lib.extraction.job import NothingToScoreError, prepare
from lib.extraction.stream import extract_stream
from lib.run import TRAINED, align, check, comparisons, pool

__all__ = [
    "TRAINED",
    "align",
    "check",
    "check_target",
    "comparisons",
    "extract",
    "extract_part",
    "extract_stream",
    "is_stored",
    "load_run",
    "pool",
    "save_run",
]


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
        Called before shards are computed, unless all that are asked for are at hand; may
        raise.

    Returns
    -------
    xarray.Dataset
        A Run, as described in ``lib.run``.

    Raises
    ------
    DataError
        When no item is left to score.
    ModelError
        For an unknown packing or tap, a backbone without what a tap listens to, a template
        that closes a response in a way of its own, or when a state isn't finite, naming the
        item. What is computed by then is kept.
    StoreError
        When the store is another's, in use, or can't be written.
    """
    job = prepare(model, items, store, packing, held_out, taps)
    with stores.opened(job.folder, job.manifest, job.decide) as opened:
        for folder in gather:
            stores.adopt(folder, opened, len(job.shards))
        _announce(before, opened, range(len(job.shards)))
        states = shards.collect(job, opened, budget, progress)
    return assemble(job, states, opened.manifest)


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
        Which worker of how many, from 0. Shards are shared out by the length of their texts.

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
    job = prepare(model, items, store, packing, held_out, taps)
    mine = stores.parts(job.n_chars, parts)[part]
    for number in mine[:1]:
        job.encode_ahead(number)  # while another worker decides for all
    with stores.opened(job.folder, job.manifest, job.decide, (part, parts)) as opened:
        _announce(before, opened, mine)
        for _ in shards.computed(job, opened, mine, shards.Budget(job, budget), progress):
            pass
    return job.folder


def _announce(before: Callable[[], object] | None, store, numbers: Iterable[int]) -> None:
    if before is not None and not store.holds(numbers):
        before()


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
        return prepare(model, items, store, "trees", held_out, taps).is_stored
    except NothingToScoreError:
        return True


def load_run(folder: str | Path) -> xr.Dataset:
    """Read a run that ``save_run`` or ``extract_stream`` wrote.

    Raises
    ------
    StoreError
        When the folder holds no run, a damaged one, or one of another format.
    """
    return stream.load(folder) if stream.is_stream(folder) else disk.load(folder)
