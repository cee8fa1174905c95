"""Which items share a row, and how a row is laid out.

A row holds several items as one tree: a root (the tokens that all of them begin with, such
as a template's system prompt), the rest of each item's prompt, and its responses branching
off it. Every token is computed once and none is padding::

    root | prompt 1 | response 1a | response 1b | prompt 2 | response 2a | …

A token sees the root, its item's prompt, its own branch, and nothing later: never a sibling
or another item. Plain arrays, no device; ``lib.extraction.attention`` computes over them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lib.models.prompt import EncodedItem

ROOT, PROMPT = 0, 0  # an item number and a branch number; items and branches count from 1


@dataclass(frozen=True)
class Chain:
    """Tokens ``start:stop`` of a row: causal, after all tokens of the spans in ``context``."""

    start: int
    stop: int
    context: tuple[tuple[int, int], ...] = ()

    @property
    def n_context(self) -> int:
        """Tokens of the context."""
        return sum(stop - start for start, stop in self.context)


@dataclass(frozen=True)
class Row:
    """Several items laid out in one sequence.

    ``tokens`` holds ids, positions, and the last token of the row that sees this one, shape
    (3, length), int64: who sees a token lies between it and that one without a gap.
    ``numbers`` holds item and branch of each token, shape (2, length): item 0 is the root,
    branch 0 a prompt, and padding, if any, one more item at the end.
    """

    tokens: np.ndarray
    numbers: np.ndarray
    chains: Sequence[Chain]  # the same tree as spans, which cover the row without its padding
    read_at: np.ndarray  # where each response's state is read
    gate_at: np.ndarray  # and each item's gate state

    def __len__(self) -> int:
        return self.tokens.shape[1]


def common(items: Sequence[EncodedItem]) -> int:
    """Tokens that every sequence of the items begins with, within their shared prefixes."""
    first = items[0].sequences[0]
    n = min(item.n_shared for item in items)
    for item in items:
        differ = np.flatnonzero(item.sequences[0][:n] != first[:n])
        n = int(differ[0]) if len(differ) else n
    return n


def plan(sizes: Sequence[int], budget: int) -> list[list[int]]:
    """Groups of positions, each at most ``budget`` in all or a single one.

    First fit, longest first: nearly full rows, and the lengths inside a group alike.
    """
    groups: list[list[int]] = []
    room: list[int] = []
    for i in np.argsort(-np.asarray(sizes), kind="stable").tolist():
        place = next((g for g, left in enumerate(room) if sizes[i] <= left), None)
        if place is None:
            groups.append([i])
            room.append(budget - sizes[i])
        else:
            groups[place].append(i)
            room[place] -= sizes[i]
    return groups


def plan_trees(items: Sequence[EncodedItem], budget: int, step: int = 1) -> list[list[int]]:
    """Rows of items: at most ``budget`` tokens each when laid out, or a single item.

    With a ``step`` that divides the length of most rows, these are as few and, among those,
    as short and alike as steps allow: little is padding, and one length is compiled.
    """
    root = common(items)
    sizes = [item.n_tokens - root for item in items]
    room = max(budget - root, 1)
    groups = plan(sizes, room)
    if step == 1:
        return groups
    least = -(-(sum(sizes) // len(groups) + root) // step) * step
    for length in range(least, budget, step):
        shorter = plan(sizes, max(length - root, 1))
        if len(shorter) == len(groups):
            return shorter
    return groups


def length(items: Sequence[EncodedItem]) -> int:
    """Tokens of a row of these items, without padding."""
    root = common(items) if len(items) > 1 else 0
    return root + sum(item.n_tokens - root for item in items)


def plan_batches(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Batches of sequences of like length: at most ``budget`` with their padding, or one."""
    batches: list[list[int]] = []
    for i in np.argsort(-np.asarray(lengths), kind="stable").tolist():
        # The first of a batch is its longest.
        if batches and lengths[batches[-1][0]] * (len(batches[-1]) + 1) <= budget:
            batches[-1].append(i)
        else:
            batches.append([i])
    return batches


def lay_out(items: Sequence[EncodedItem], multiple: int = 1) -> Row:
    """A row of the items' trees, in order, padded to a length that ``multiple`` divides."""
    root = common(items) if len(items) > 1 else 0
    ids = [items[0].sequences[0][:root]]
    owner, branch, offset = [ROOT], [PROMPT], [0]
    chains, read_at, gate_at, until = [], [], [], [-1]
    end = root
    for number, item in enumerate(items, 1):
        start, shared = end, item.n_shared
        gate_at.append(item.gate_at if item.gate_at < root else start + item.gate_at - root)
        ids.append(item.sequences[0][root:shared])
        end += shared - root
        prompt, place = end, len(until)
        until.append(-1)
        for b, sequence in enumerate(item.sequences, 1):
            ids.append(sequence[shared:])
            stop = end + len(sequence) - shared
            if b == 1:  # the prompt and its first response are one causal sequence
                chain = Chain(start, stop, ((0, root),)) if number > 1 else Chain(0, stop)
            else:
                chain = Chain(end, stop, ((0, root), (start, prompt)))
            chains.append(chain)
            read_at.append(stop - 1)
            until.append(stop - 1)
            end = stop
        until[place] = end - 1
        owner += [number] * (1 + len(item.sequences))
        branch += range(1 + len(item.sequences))
        offset += [root, *[shared] * len(item.sequences)]
    padding = -end % multiple
    until[0] = end - 1
    ids.append(np.zeros(padding, np.int64))
    lengths = np.asarray([len(piece) for piece in ids])
    starts = np.cumsum(lengths) - lengths
    offset, until, owner, branch = np.repeat(
        [
            np.asarray([*offset, 0]) - starts,
            [*until, end + padding - 1],
            [*owner, len(items) + 1],
            [*branch, PROMPT],
        ],
        lengths,
        axis=1,
    )
    positions = offset + np.arange(end + padding)
    positions[end:] = 0  # a position that every model has
    return Row(
        np.stack([np.concatenate(ids), positions, until]),
        np.stack([owner, branch]),
        [_joined(chain) for chain in chains],
        np.asarray(read_at),
        np.asarray(gate_at),
    )


def _joined(chain: Chain) -> Chain:
    """The chain with empty spans left out and adjoining ones made one."""
    spans: list[tuple[int, int]] = []
    for start, stop in chain.context:
        if spans and spans[-1][1] == start:
            spans[-1] = (spans[-1][0], stop)
        elif stop > start:
            spans.append((start, stop))
    return Chain(chain.start, chain.stop, tuple(spans))


def distinct(item: EncodedItem) -> tuple[EncodedItem, list[int]]:
    """The item with equal sequences once, and which of them each response is.

    Equal responses then have equal states to the last bit, so they tie.
    """
    place: dict[bytes, int] = {}
    which = [place.setdefault(ids.tobytes(), len(place)) for ids in item.sequences]
    first = [which.index(n) for n in range(len(place))]
    sequences = [item.sequences[i] for i in first]
    return EncodedItem(sequences, item.n_prompt, item.n_shared, item.gate_at), which
