"""One forward pass: tokens of items in, the states that are read out.

Two ways that give the same states: ``packed`` (trees in a row, nothing padded, see
``lib.extraction.attention``) and ``padded`` (length-sorted batches), which every model
supports. States are pooled by position counted from the attention mask, never by looking
for a pad id, so a pad token inside a prompt or on either side changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from lib.errors import ModelError, unknown
from lib.extraction import attention
from lib.models.prompt import EncodedItem

PACKINGS = ("trees", "padded")
CPU_BUDGET = 1024
GPU_BUDGET = 16384


@dataclass(frozen=True)
class States:
    """What is read of one forward pass over items.

    Attributes
    ----------
    hidden
        State at each response's last token, shape (responses, features), float32; the
        responses of an item are neighbours.
    gate_hidden
        State at the end of each item's prompt, shape (items, features), float32.
    """

    hidden: np.ndarray
    gate_hidden: np.ndarray


def check_packing(packing: str) -> None:
    """Raise a ``ModelError`` for an unknown packing."""
    if packing not in PACKINGS:
        raise unknown("packing", packing, PACKINGS, ModelError)


def forward(
    backbone: torch.nn.Module,
    items: Sequence[EncodedItem],
    packing: str = "trees",
    budget: int | None = None,
    padding_side: str = "right",
    pad_id: int = 0,
    on_step=lambda items: None,
) -> States:
    """States of the items, in their order.

    Parameters
    ----------
    backbone
        A transformer that returns ``last_hidden_state``.
    items
        Encoded items, with any number of responses each.
    packing
        ``"trees"`` or ``"padded"``.
    budget
        Tokens a row or batch; a larger item gets one to itself. By default 1,024 on CPU
        and 16,384 on GPU.
    padding_side, pad_id
        For ``"padded"``: neither changes a result beyond rounding.
    on_step
        Called with the number of items finished.

    Raises
    ------
    ModelError
        For an unknown packing.
    """
    check_packing(packing)
    device = next(backbone.parameters()).device
    budget = budget or (CPU_BUDGET if device.type == "cpu" else GPU_BUDGET)
    first = np.cumsum([0, *(len(item.sequences) for item in items)])
    d = backbone.config.hidden_size
    hidden = np.empty((first[-1], d), np.float32)
    gate_hidden = np.empty((len(items), d), np.float32)
    with torch.inference_mode():
        for group in plan([item.n_tokens for item in items], budget):
            chosen = [items[i] for i in group]
            if packing == "trees":
                read, gates = _trees(backbone, chosen, device)
            else:
                read, gates = _padded(backbone, chosen, device, budget, padding_side, pad_id)
            rows = np.concatenate([np.arange(first[i], first[i + 1]) for i in group])
            hidden[rows] = read
            gate_hidden[group] = gates
            on_step(len(group))
    return States(hidden, gate_hidden)


def plan(sizes: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Groups of positions, longest first, each at most ``budget`` in all or a single one."""
    group, used = [], 0
    for i in np.argsort(-np.asarray(sizes), kind="stable"):
        if group and used + sizes[i] > budget:
            yield group
            group, used = [], 0
        group.append(int(i))
        used += sizes[i]
    if group:
        yield group


def _numpy(states: torch.Tensor) -> np.ndarray:
    return states.float().cpu().numpy()


def _trees(backbone, items, device) -> tuple[np.ndarray, np.ndarray]:
    row = attention.lay_out(items, device)
    previous = backbone.config._attn_implementation
    backbone.set_attn_implementation(attention.NAME)
    try:
        with attention.attending(backbone, row):
            out = backbone(
                input_ids=torch.from_numpy(row.ids)[None].to(device),
                position_ids=torch.from_numpy(row.positions)[None].to(device),
                use_cache=False,
            ).last_hidden_state[0]
    finally:
        backbone.set_attn_implementation(previous)
    return _numpy(out[row.read_at]), _numpy(out[row.gate_at])


def _padded(backbone, items, device, budget, side, pad_id) -> tuple[np.ndarray, np.ndarray]:
    sequences = [ids for item in items for ids in item.sequences]
    owner = np.repeat(np.arange(len(items)), [len(item.sequences) for item in items])
    hidden = np.empty((len(sequences), backbone.config.hidden_size), np.float32)
    gates = np.empty((len(items), backbone.config.hidden_size), np.float32)
    lengths = np.asarray([len(ids) for ids in sequences])
    for group in plan(lengths.tolist(), budget):
        width = lengths[group].max()
        ids = np.full((len(group), width), pad_id)
        mask = np.zeros((len(group), width), np.int64)
        for row, i in enumerate(group):
            place = slice(0, lengths[i]) if side == "right" else slice(width - lengths[i], width)
            ids[row, place] = sequences[i]
            mask[row, place] = 1
        out = backbone(
            input_ids=torch.from_numpy(ids).to(device),
            attention_mask=torch.from_numpy(mask).to(device),
            position_ids=torch.from_numpy(np.maximum(mask.cumsum(1) - 1, 0)).to(device),
            use_cache=False,
        ).last_hidden_state
        start = mask.argmax(1)
        rows = np.arange(len(group))
        hidden[group] = _numpy(out[rows, start + lengths[group] - 1])
        gate_at = np.asarray([items[owner[i]].gate_at for i in group])
        gates[owner[group]] = _numpy(out[rows, start + gate_at])
    return hidden, gates
