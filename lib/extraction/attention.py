"""Attention over a row of trees: each prompt once, its responses branching off it.

A row is a sequence of segments. A prompt attends causally to itself; a branch attends to
its prompt and causally to itself, never to a sibling or to another item. Projections and
MLP run once over the whole row, so a prompt shared by k responses is computed once and no
token is padding. Registered with transformers under the name ``"branching"``, for any
model that takes its attention from that registry.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from lib.models.prompt import EncodedItem

NAME = "branching"
_row: ContextVar[Row] = ContextVar("row")


@dataclass(frozen=True)
class Segment:
    """Tokens ``start:stop`` of a row, which also attend to ``prompt_start:prompt_stop``."""

    start: int
    stop: int
    prompt_start: int
    prompt_stop: int
    mask: torch.Tensor | None


@dataclass(frozen=True)
class Row:
    """Several items laid out in one sequence.

    Attributes
    ----------
    ids, positions
        Shape (tokens,).
    segments
        Prompts and branches in order.
    read_at, gate_at
        Where each response's state, and each item's gate state, is read.
    """

    ids: np.ndarray
    positions: np.ndarray
    segments: Sequence[Segment]
    read_at: np.ndarray
    gate_at: np.ndarray


def lay_out(items: Sequence[EncodedItem], device: str = "cpu") -> Row:
    """A row of the items' trees, in order."""
    ids, positions, segments, read_at, gate_at = [], [], [], [], []
    end = 0
    for item in items:
        start, shared = end, item.n_shared
        gate_at.append(start + item.gate_at)
        ids.append(item.sequences[0][:shared])
        positions.append(np.arange(shared))
        end += shared
        segments.append(Segment(start, end, start, start, None))
        for sequence in item.sequences:
            branch = sequence[shared:]
            n = len(branch)
            ids.append(branch)
            positions.append(np.arange(shared, shared + n))
            mask = torch.ones(n, shared + n, dtype=torch.bool, device=device).tril(shared)
            segments.append(Segment(end, end + n, start, start + shared, mask))
            end += n
            read_at.append(end - 1)
    return Row(
        np.concatenate(ids),
        np.concatenate(positions),
        segments,
        np.asarray(read_at),
        np.asarray(gate_at),
    )


@contextlib.contextmanager
def attending(model: torch.nn.Module, row: Row) -> Iterator[None]:
    """Inside, the model's attention follows the row's segments."""
    token = _row.set(row)
    try:
        yield
    finally:
        _row.reset(token)


def _attend(module, query, key, value, attention_mask, scaling=None, dropout=0.0, **_):
    out = torch.empty_like(query)
    grouped = query.shape[1] != key.shape[1]
    for segment in _row.get().segments:
        own = slice(segment.start, segment.stop)
        prompt = slice(segment.prompt_start, segment.prompt_stop)
        if segment.mask is None:
            keys, values = key[:, :, own], value[:, :, own]
        else:
            keys = torch.cat([key[:, :, prompt], key[:, :, own]], dim=2)
            values = torch.cat([value[:, :, prompt], value[:, :, own]], dim=2)
        out[:, :, own] = scaled_dot_product_attention(
            query[:, :, own],
            keys,
            values,
            attn_mask=segment.mask,
            is_causal=segment.mask is None,
            scale=scaling,
            enable_gqa=grouped,
        )
    return out.transpose(1, 2).contiguous(), None


ALL_ATTENTION_FUNCTIONS.register(NAME, _attend)
ALL_MASK_ATTENTION_FUNCTIONS.register(NAME, lambda *_, **__: None)
