"""States of a dataset on disk, shard by shard.

A folder with ``manifest.json`` (what was extracted, from what, how) and one safetensors
file a shard. The plan of shards depends on the items alone, so any run makes the same
ones. Each shard is written by rename; what a killed run finished is used again, a damaged
shard is computed again, and a store made from another model or dataset is an error. The
manifest holds no times: the same plan, threads and machine give the same bytes.
Shards carry a checksum, so a byte that changed on disk counts as damage.

Several workers may share the work: each computes its part of the shards (``parts``), into
one store or one of its own, and whoever reads them all gathers (``adopt``). Which shards
those are depends on the items and the number of workers alone, and what a shard holds on
neither, so any number of workers gives the same shards.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError

from lib.atomic import replacing
from lib.errors import StoreError
from lib.extraction import folders, sealed

MANIFEST = "manifest.json"
DECIDED = "decided"
SHARD_RESPONSES = 512
LOCK = ".lock"
ENTERING_S = 600.0
PART_LOCK = re.compile(r"\.lock-\d+-of-\d+")
SHARD = re.compile(r"\d{5,}\.safetensors")
# The second kind is safetensors' own, for a moment, before ours has its name.
PARTIAL = re.compile(
    r"(\d{5,}(\.safetensors)?|manifest(\.json)?)\.partial-\d+(-[0-9a-f]{8})?|\.tmp[A-Za-z0-9]{6}"
)
OURS = re.compile(rf"\{LOCK}|{PART_LOCK.pattern}|{PARTIAL.pattern}")  # in a store not yet begun


def shard_responses(device: str) -> int:
    """Responses a shard: some seconds of work, so that a kill costs little and rows are full."""
    return SHARD_RESPONSES if device == "cpu" else 2 * SHARD_RESPONSES


def plan(responses_per_item: Sequence[int], size: int = SHARD_RESPONSES) -> list[slice]:
    """Consecutive slices of items with about ``size`` responses each."""
    ends = np.cumsum(responses_per_item)
    if not len(ends):
        return []
    shard = (ends - np.asarray(responses_per_item)) // size
    starts = np.flatnonzero(np.diff(shard, prepend=-1))
    return [slice(int(a), int(b)) for a, b in zip(starts, [*starts[1:], len(ends)], strict=True)]


def parts(lengths: Sequence[int], workers: int) -> list[list[int]]:
    """Shards of each worker, ascending: the largest first, each to who has least to do.

    ``lengths`` are of the shards: tokens, or characters.
    """
    mine: list[list[int]] = [[] for _ in range(workers)]
    load = np.zeros(workers, np.int64)
    for shard in np.argsort(-np.asarray(lengths, np.int64), kind="stable").tolist():
        least = int(load.argmin())
        mine[least].append(shard)
        load[least] += lengths[shard]
    return [sorted(shards) for shards in mine]


@dataclass(frozen=True)
class Store:
    """An open store.

    Its manifest is plain JSON that identifies its content, and under ``"decided"`` what was
    found out when it was started.
    """

    folder: Path
    manifest: Mapping

    def path(self, shard: int) -> Path:
        """Of one shard."""
        return self.folder / f"{shard:05d}.safetensors"

    def holds(self, shards: Iterable[int]) -> bool:
        """Is there a file of each of these shards? What is in it is told by ``read``."""
        return all(self.path(shard).exists() for shard in shards)

    def read(self, shard: int, check: Mapping[str, int]) -> dict[str, np.ndarray] | None:
        """A shard's tensors; ``None`` when it is missing or damaged.

        ``check`` gives the length that each tensor must have along its first axis.
        """
        try:
            tensors, _ = sealed.load(self.path(shard))
        except (SafetensorError, OSError):
            return None
        whole = all(name in tensors and len(tensors[name]) == n for name, n in check.items())
        return tensors if whole else None

    def write(self, shard: int, tensors: Mapping[str, np.ndarray]) -> None:
        """Write a shard by rename; a disk that has no room for it is a ``StoreError``."""
        target = self.path(shard)
        try:
            with replacing(target) as partial:
                sealed.save(partial, tensors)
        except (OSError, SafetensorError) as error:
            raise StoreError(
                f"room to write {target}",
                str(error),
                "Free some disk, or move the cache with REWARD_AUDIT_CACHE; finished "
                "shards are kept.",
            ) from None


def adopt(folder: str | Path, store: Store, shards: int) -> int:
    """Copy into a store what another store of the same content has and it lacks.

    Damaged shards of the other are passed over. Gives the number of those copied, of
    ``shards`` in all.

    Raises
    ------
    StoreError
        When the other is no store, or one of something else, naming what differs.
    """
    own = {key: value for key, value in store.manifest.items() if key != DECIDED}
    decided = _decided(Path(folder) / MANIFEST, own)
    if decided != store.manifest[DECIDED]:
        raise StoreError(
            f"parts of one run, computed in one way, in {folder} and {store.folder}",
            f"{decided} and {dict(store.manifest[DECIDED])}",
            "Compute that part again on a machine like the others.",
        )
    other = Store(Path(folder), store.manifest)
    copied = 0
    for shard in range(shards):
        if not store.path(shard).exists() and (tensors := other.read(shard, {})) is not None:
            store.write(shard, tensors)
            copied += 1
    return copied


def open_store(
    folder: str | Path,
    manifest: Mapping,
    decide: Callable[[], Mapping] = dict,
    *,
    tidy: bool = True,
) -> Store:
    """Open a store, or start it where there is none; call it inside ``lock``.

    The manifest is plain JSON that identifies the content. ``decide`` is called for a new
    store only: further plain JSON, kept as ``manifest["decided"]``. What killed processes
    half wrote is removed, unless ``tidy`` is false because other workers write.

    Raises
    ------
    StoreError
        When the folder holds a store made from something else, naming what differs, a
        damaged manifest, or no manifest but other files; or when it can't be written. What
        was in it is then untouched.
    """
    folder = Path(folder)
    path = folder / MANIFEST
    manifest = json.loads(json.dumps(manifest))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _refuse_foreign(folder)
        decided = _decided(path, manifest) if path.exists() else None
        # Only now is the folder known to be a store, or to hold nothing of anybody else's.
        for partial in folder.iterdir() if tidy else ():
            if PARTIAL.fullmatch(partial.name) and partial.is_file():
                partial.unlink()
    except OSError as error:
        raise folders.unwritable(folder, error) from None
    if decided is None:
        text = json.dumps({**manifest, DECIDED: dict(decide())}, indent=1, sort_keys=True) + "\n"
        decided = json.loads(text)[DECIDED]  # as it will be read again, order included
        folders.write(path, text)
    return Store(folder, {**manifest, DECIDED: decided})


def _refuse_foreign(folder: Path) -> None:
    """An error for a folder that has things in it and is no store."""
    names = {path.name for path in folder.iterdir()}
    others = [name for name in names if not OURS.fullmatch(name)]
    if MANIFEST in names or not others:
        return
    if all(SHARD.fullmatch(name) for name in others):
        raise StoreError(
            f"a manifest beside the shards in {folder}", "none", "Name another folder."
        )
    raise folders.foreign(
        f"a store, or an empty or new folder for one, at {folder}",
        f"{folders.listed(others)} and no {MANIFEST}",
    )


def _decided(path: Path, manifest: Mapping) -> dict:
    """What the manifest on disk says was decided, when it is the same one otherwise."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict) or not isinstance(found.get(DECIDED), dict):
            raise ValueError(f"no object with an object {DECIDED!r}")
        if not all(isinstance(text, str) for text in found[DECIDED].values()):
            raise ValueError(f"{DECIDED!r} with something other than texts")
        # A packing is asked for under the name that what was decided has.
        if "packing" in manifest and "packing" not in found[DECIDED]:
            raise ValueError(f"no packing in {DECIDED!r}")
    except (OSError, ValueError, RecursionError) as error:
        raise StoreError(
            f"a manifest at {path}",
            str(error),
            "Name another folder, or delete this one if it was a store.",
        ) from None
    decided = found.pop(DECIDED)
    differ = sorted(key for key in {*found, *manifest} if found.get(key) != manifest.get(key))
    if differ:
        raise StoreError(
            f"a store of this model and dataset in {path.parent}",
            "one with another " + ", ".join(differ),
            "Name another folder, or delete this one.",
        )
    return decided


@contextmanager
def lock(folder: str | Path) -> Iterator[None]:
    """Hold the store for this process alone.

    Raises
    ------
    StoreError
        At once, while another process holds it or a part of it, when the folder is no store
        and has other things in it, or when it can't be written.
    """
    with ExitStack() as held:
        held.enter_context(folders.held(Path(folder, LOCK), _refuse_foreign))
        for path in sorted(Path(folder).iterdir()):  # nobody enters while the first is held
            if PART_LOCK.fullmatch(path.name):
                held.enter_context(folders.held(path, _refuse_foreign))
        yield


@contextmanager
def opened(
    folder: str | Path,
    manifest: Mapping,
    decide: Callable[[], Mapping] = dict,
    part: tuple[int, int] | None = None,
) -> Iterator[Store]:
    """A store as ``open_store`` gives it, locked for this process or for one worker of several.

    ``part`` says which worker of how many, from 0. Workers enter one after another, so that
    one decides for all, and then write side by side.

    Raises
    ------
    StoreError
        As ``lock`` and ``open_store``. A worker waits for others to enter, ten minutes at most.
    """
    with ExitStack() as held:
        if part is None:
            held.enter_context(lock(folder))
            store = open_store(folder, manifest, decide)
        else:
            own = Path(folder, f"{LOCK}-{part[0]}-of-{part[1]}")
            with folders.held(Path(folder, LOCK), _refuse_foreign, ENTERING_S):
                held.enter_context(folders.held(own, _refuse_foreign))
                store = open_store(folder, manifest, decide, tidy=False)
        yield store
