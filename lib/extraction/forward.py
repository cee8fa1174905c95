"""One forward pass: tokens of items in, the states that are read out.

Two ways that give the same states: ``trees`` (rows in which nothing is computed twice or
padded, see ``lib.extraction.pack``) and ``padded`` (length-sorted batches), which every
model supports. States are pooled by position counted from the attention mask, never by
looking for a pad id, so a pad token inside a prompt or on either side changes nothing.

Nothing here waits for the device before the last row is under way: while it computes one
row, the host lays out the next. ``start`` doesn't wait at all, so that the rows of further
items can be under way before the states of these are asked for. Only states that are read
come back, and what taps make of the others (``lib.extraction.taps``).
"""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from lib.errors import ModelError, unknown
from lib.extraction import attention, last_mlp, pack
from lib.extraction import taps as tapping
from lib.models.prompt import EncodedItem

HIDDEN, GATES = "hidden", "gate_hidden"
PACKINGS = ("trees", "padded")
CPU_BUDGET = 1024
GPU_BUDGET = 16384
MULTIPLE = 128  # tokens: divides any row for FlexAttention, and is divided by attention.BLOCK


@dataclass(frozen=True)
class States:
    """What is read of one forward pass over items; all float32.

    The responses of an item are neighbours.
    """

    hidden: np.ndarray  # at each response's last token, (responses, features)
    gate_hidden: np.ndarray  # at the end of each item's prompt, (items, features)
    budget: int  # tokens a row: what was asked for, or what memory had room for
    tokens: int = 0  # how many were computed in all, padding too
    taps: dict[str, np.ndarray] = field(default_factory=dict)  # (responses, ports, width)


def check_packing(packing: str) -> None:
    """Raise a ``ModelError`` for an unknown packing."""
    if packing not in PACKINGS:
        raise unknown("packing", packing, PACKINGS, ModelError)


def default_budget(backbone: torch.nn.Module) -> int:
    """Tokens a row on the model's device."""
    return CPU_BUDGET if next(backbone.parameters()).device.type == "cpu" else GPU_BUDGET


def row_step(budget: int) -> int:
    """What divides the length that several rows have, for FlexAttention.

    It is compiled for that length, so there should be few of them.
    """
    return max(MULTIPLE, budget // 8 // MULTIPLE * MULTIPLE)


def forward(
    backbone: torch.nn.Module, items: Sequence[EncodedItem], *arguments, **options
) -> States:
    """What ``start`` has computed, waited for; takes and raises what it does."""
    return start(backbone, items, *arguments, **options).states()


@dataclass(frozen=True)
class UnderWay:
    """States that the device may still be computing."""

    budget: int  # as that of ``States``: known before they are
    _job: _Trees | _Padded
    _place: np.ndarray
    _arrivals: Sequence[torch.cuda.Event]

    @property
    def pending(self) -> bool:
        """Is a device at work on them? Elsewhere than on a GPU they are there already."""
        return bool(self._arrivals)

    def states(self) -> States:
        """Wait for them."""
        for arrival in self._arrivals:
            arrival.synchronize()
        read = {name: found.numpy() for name, found in self._job.read.items()}
        gates = read.pop(GATES)
        taps = {name: found[self._place] for name, found in read.items()}
        return States(taps.pop(HIDDEN), gates, self.budget, self._job.tokens_computed, taps)


def start(
    backbone: torch.nn.Module,
    items: Sequence[EncodedItem],
    packing: str = "trees",
    budget: int | None = None,
    padding_side: str = "right",
    pad_id: int = 0,
    on_step: Callable[[int], None] = lambda items: None,
    kernel: str | None = None,
    compiled: bool = False,
    taps: str | tapping.Tap | Sequence[str | tapping.Tap] = (),
) -> UnderWay:
    """Have the states of the items computed, in their order.

    Returns when all is under way on a GPU, and elsewhere when it is done.

    Parameters
    ----------
    backbone
        A transformer that returns ``last_hidden_state``.
    budget
        Tokens a row or batch; a larger item gets one to itself. By default 1,024 on CPU
        and 16,384 on GPU. Halved when memory is short, as often as it takes.
    padding_side, pad_id
        For ``"padded"``: neither changes a result beyond rounding.
    on_step
        Called with the number of items finished.
    kernel
        For ``"trees"``: one of ``attention.KERNELS``; by device when ``None``.
    compiled
        For ``"trees"`` with the kernel ``"flex"``: rows of the commonest length run through
        compiled layers. Compiling takes some ten seconds, so it is for long runs.
    taps
        Names of ``taps.TAPS``, or taps: what else to keep of the same pass. Layers are then
        not compiled, since compiled code passes over what listens inside it.

    Raises
    ------
    ModelError
        For an unknown packing or tap, a backbone without what a tap listens to, or when
        memory has no room for a single item.
    """
    check_packing(packing)
    wanted = tapping.resolve(taps)
    budget = budget or default_budget(backbone)
    reduced, which = zip(*map(pack.distinct, items), strict=True)
    if packing == "trees":
        kernel = kernel or attention.kernel_for(backbone)
        job = _Trees(backbone, reduced, kernel, compiled and not wanted, bool(wanted))
    else:
        job = _Padded(backbone, reduced, padding_side, pad_id)
    listening = tapping.listening(backbone, wanted)
    with torch.inference_mode(), job.ready, listening as job.listener:
        budget = _every(job, budget, on_step)
    # Equal responses were computed once: where the state of each of them is.
    first = np.cumsum([0, *(len(item.sequences) for item in reduced)])
    place = np.concatenate([first[i] + np.asarray(w) for i, w in enumerate(which)])
    return UnderWay(budget, job, place, _arrivals(job.devices))


def _arrivals(devices: Iterable[torch.device]) -> list[torch.cuda.Event]:
    """What each GPU reaches when it is done with all that it has been given so far."""
    found = []
    for device in devices:
        if device.type == "cuda":
            found.append(torch.cuda.Event())
            found[-1].record(torch.cuda.current_stream(device))
    return found


def _every(job: _Trees | _Padded, budget: int, on_step: Callable[[int], None]) -> int:
    """Run all of a job's groups; the budget that was left in the end."""
    groups = job.plan(range(job.size), budget)
    while groups:
        group, done = groups.pop(0), None
        try:
            done = job.run(group)
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
        if done is not None:
            on_step(done)
            continue
        # Outside the handler, so that nothing of the failed row is held any longer.
        if len(group) == 1:
            raise ModelError(
                f"memory for one sequence or item of {job.tokens(group[0])} tokens",
                "too little",
                "Use bfloat16, a device with more memory, or leave long items out.",
            )
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        budget = max(1, budget // 2)
        groups = job.plan([*group, *(i for other in groups for i in other)], budget)
    return budget


def out_of_memory(error: Exception) -> bool:
    """Is it a device's or the host's way to say that memory is short?"""
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or (
        "can't allocate memory" in str(error)
    )


class _Read:
    """States read so far, on their way to the host, and where each belongs."""

    def __init__(self):
        self._states: list[torch.Tensor] = []
        self._places: list[np.ndarray] = []

    def add(self, places: np.ndarray, states: torch.Tensor) -> None:
        self._places.append(places)
        # Behind the row that makes them, and before the next: nobody waits for that one.
        self._states.append(states.to("cpu", non_blocking=states.is_cuda))

    def numpy(self) -> np.ndarray:
        """In the order of the places, which are 0, 1, …, float32."""
        shape = self._states[0].shape[1:]
        found = np.empty((sum(map(len, self._places)), *shape), np.float32)
        for places, states in zip(self._places, self._states, strict=True):
            found[places] = states.numpy()
        return found


def _at(states: torch.Tensor, *index: np.ndarray) -> torch.Tensor:
    return states[tuple(attention.to_device(i, states.device) for i in index)].float()


class _Job:
    """What has been read of all rows or batches."""

    listener: tapping.Listener

    def __init__(self, backbone: torch.nn.Module, ready: contextlib.AbstractContextManager):
        self.backbone, self.ready = backbone, ready
        self.read: dict[str, _Read] = defaultdict(_Read)
        self.devices: set[torch.device] = set()
        self.tokens_computed = 0

    def keep(self, tokens: int, responses, hidden, items, gates) -> None:
        """What was read of one row, and what was heard: all of it or, on an error, nothing."""
        found = {name: (responses, states) for name, states in self.listener.end().items()}
        self.tokens_computed += tokens
        found |= {HIDDEN: (responses, hidden), GATES: (items, gates)}
        for name, (places, states) in found.items():
            self.devices.add(states.device)
            self.read[name].add(places, states)


class _Trees(_Job):
    """Rows of items."""

    def __init__(self, backbone, items, kernel: str, compiled: bool, tapped: bool):
        super().__init__(backbone, attention.attending(backbone, kernel))
        self.items, self.kernel = items, kernel
        self.compiled = compiled and kernel == attention.FLEX
        self.every_token = tapped  # a tap hears what each of them makes
        self.size = len(items)
        self.first = np.cumsum([0, *(len(item.sequences) for item in items)])
        self.step = self.multiple = 1  # divide the commonest length of rows, and any; see plan
        self.common_length = 0  # that length, when several have it

    def tokens(self, i: int) -> int:
        return self.items[i].n_tokens

    def plan(self, which: Sequence[int], budget: int) -> list[list[int]]:
        items = [self.items[i] for i in which]
        if self.kernel == attention.FLEX:
            self.step, self.multiple = row_step(budget), MULTIPLE
        groups = pack.plan_trees(items, budget, self.step)
        lengths = Counter(self._up(pack.length([items[i] for i in group])) for group in groups)
        [(commonest, rows)] = lengths.most_common(1)
        self.common_length = commonest if rows > 1 else 0
        return [[which[i] for i in group] for group in groups]

    def _up(self, length: int) -> int:
        return -(-length // self.step) * self.step

    def run(self, group: list[int]) -> int:
        items = [self.items[i] for i in group]
        common = self._up(pack.length(items)) == self.common_length
        row = pack.lay_out(items, self.step if common else self.multiple)
        self.listener.begin(tapping.Places.of_row(row))
        with contextlib.ExitStack() as ways:
            if self.compiled and common:
                ways.enter_context(attention.compiled_layers(self.backbone))
            if not self.every_token:
                read = np.concatenate([row.read_at, row.gate_at])
                ways.enter_context(last_mlp.reading(self.backbone, read))
            states = attention.states(self.backbone, row, self.kernel, common)
        responses = np.concatenate([np.arange(self.first[i], self.first[i + 1]) for i in group])
        responses_at, gates_at = (_at(states, at) for at in (row.read_at, row.gate_at))
        self.keep(len(row), responses, responses_at, np.asarray(group), gates_at)
        return len(group)


class _Padded(_Job):
    """Batches of sequences."""

    def __init__(self, backbone, items, side: str, pad_id: int):
        super().__init__(backbone, contextlib.nullcontext())
        self.side, self.pad_id = side, pad_id
        self.sequences = [ids for item in items for ids in item.sequences]
        counts = [len(item.sequences) for item in items]
        self.size = len(self.sequences)
        self.owner = np.repeat(np.arange(len(items)), counts)
        self.gate_at = np.asarray([item.gate_at for item in items])
        self.first = np.cumsum([0, *counts])[:-1]
        self.left = np.asarray(counts)
        self.device = next(backbone.parameters()).device

    def tokens(self, i: int) -> int:
        return len(self.sequences[i])

    def plan(self, which: Sequence[int], budget: int) -> list[list[int]]:
        groups = pack.plan_batches([self.tokens(i) for i in which], budget)
        return [[which[i] for i in group] for group in groups]

    def run(self, group: list[int]) -> int:
        group = np.asarray(group)
        lengths = np.asarray([self.tokens(i) for i in group])
        width = lengths.max()
        start = np.zeros(len(group), np.int64) if self.side == "right" else width - lengths
        ids = np.full((len(group), width), self.pad_id)
        mask = np.zeros((len(group), width), np.int64)
        for row, i in enumerate(group):
            place = slice(start[row], start[row] + lengths[row])
            ids[row, place] = self.sequences[i]
            mask[row, place] = 1
        inputs = np.stack([ids, mask, np.maximum(mask.cumsum(1) - 1, 0)])
        ids, mask, positions = attention.to_device(inputs, self.device)
        self.listener.begin(tapping.Places.of_batch(start, lengths, width))
        try:
            states = self.backbone(
                input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=False
            ).last_hidden_state
        except Exception as error:  # as many kinds as there are models
            if out_of_memory(error):
                raise
            raise ModelError(
                "a model that computes padded batches",
                f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}",
                "Check its config.json against its release.",
            ) from error
        rows = np.arange(len(group))
        owner = self.owner[group]
        opening = group == self.first[owner]  # an item's first sequence gives its gate
        gate_at = (start + self.gate_at[owner])[opening]
        self.keep(
            ids.numel(),
            group,
            _at(states, rows, start + lengths - 1),
            owner[opening],
            _at(states, rows[opening], gate_at),
        )
        np.subtract.at(self.left, owner, 1)
        return int((self.left[np.unique(owner)] == 0).sum())
