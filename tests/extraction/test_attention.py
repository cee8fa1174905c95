"""The block mask, against the rule written out token by token."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.extraction import attention
from lib.extraction.attention import BLOCK, block_mask, kernel_for


@st.composite
def rows(draw) -> tuple[list[int], list[int]]:
    """Items and branches of a row of four blocks, spans from one token to two blocks."""
    length = st.sampled_from([1, 5, 100, BLOCK, 2 * BLOCK])
    item, branch = [0] * draw(st.sampled_from([0, 3, BLOCK])), []
    branch += item
    number = 1
    while len(item) < 4 * BLOCK:
        for b in range(draw(st.integers(2, 4))):
            n = draw(length)
            item += [number] * n
            branch += [b] * n
        number += 1
    return item[: 4 * BLOCK], branch[: 4 * BLOCK]


def sees(item, branch) -> np.ndarray:
    """The rule: causal; the root, the item's prompt and the own branch."""
    item, branch = np.asarray(item), np.asarray(branch)
    q, k = np.indices((len(item), len(item)))
    own = (branch[k] == 0) | (branch[q] == branch[k])
    return (k <= q) & ((item[k] == 0) | ((item[q] == item[k]) & own))


def by_blocks(dense: np.ndarray) -> np.ndarray:
    n = len(dense) // BLOCK
    return dense.reshape(n, BLOCK, n, BLOCK).swapaxes(1, 2).reshape(n, n, -1)


def listed(count, which, n) -> np.ndarray:
    """A table of blocks, from how many each query block has and which."""
    table = np.zeros((n, n), bool)
    for q in range(n):
        table[q, which[0, 0, q, : count[0, 0, q]].numpy()] = True
    return table


def until(item, branch) -> torch.Tensor:
    """The last token that sees each one, by the rule."""
    seen = sees(item, branch)
    return torch.tensor(len(seen) - 1 - seen[::-1].argmax(axis=0))


@given(row=rows())
@settings(deadline=None, max_examples=20)
def test_blocks_hold_all_that_is_seen_and_full_ones_nothing_else(row):
    mask = block_mask(until(*row))
    blocks = by_blocks(sees(*row))
    partial = listed(mask.kv_num_blocks, mask.kv_indices, 4)
    full = listed(mask.full_kv_num_blocks, mask.full_kv_indices, 4)
    assert not (partial & full).any()
    assert ((partial | full) == blocks.any(axis=2)).all()
    assert (full <= blocks.all(axis=2)).all()
    q, k = torch.arange(4 * BLOCK)[:, None], torch.arange(4 * BLOCK)[None]
    assert (mask.mask_mod(0, 0, q, k).numpy() == sees(*row)).all()


def test_blocks_of_other_items_and_siblings_are_skipped_and_prompts_are_full():
    # Two items: a prompt of two blocks and two branches of a block; then a block of its own.
    item, branch = np.repeat([[1, 1, 1, 1, 2], [0, 0, 1, 2, 0]], BLOCK, axis=1)
    mask = block_mask(until(item, branch))
    assert listed(mask.full_kv_num_blocks, mask.full_kv_indices, 5).astype(int).tolist() == [
        [0, 0, 0, 0, 0],
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [0, 0, 0, 0, 0],
    ]
    partial = listed(mask.kv_num_blocks, mask.kv_indices, 5)
    assert (partial == np.eye(5, dtype=bool)).all()


def test_the_rule_is_one_function_for_rows_of_any_length_and_follows_the_row():
    first = block_mask(torch.full((2 * BLOCK,), 2 * BLOCK - 1)).mask_mod
    assert first(0, 0, torch.tensor(9), torch.tensor(1))
    second = block_mask(torch.arange(BLOCK)).mask_mod
    assert second is first
    assert not second(0, 0, torch.tensor(9), torch.tensor(1))


def test_a_row_longer_than_the_room_has_a_larger_one(monkeypatch):
    monkeypatch.setattr(attention, "ROOM", BLOCK)
    rule = block_mask(torch.full((3 * BLOCK,), 3 * BLOCK - 1)).mask_mod
    assert rule(0, 0, torch.tensor(3 * BLOCK - 1), torch.tensor(0))


@pytest.mark.parametrize(("heads", "groups"), [(4, 2), (6, 2), (3, 3)])
def test_flex_shares_keys_among_any_number_of_heads(heads, groups):
    torch.manual_seed(0)
    query = torch.randn(1, heads, BLOCK, 8)
    key, value = torch.randn(2, 1, groups, BLOCK, 8).unbind()
    mask = block_mask(torch.full((BLOCK,), BLOCK - 1))
    found, _ = attention._flex(None, query, key, value, mask, scaling=0.3)
    many = [x.repeat_interleave(heads // groups, dim=1) for x in (key, value)]
    expected = torch.nn.functional.scaled_dot_product_attention(
        query, *many, is_causal=True, scale=0.3
    )
    assert torch.allclose(found.transpose(1, 2), expected, atol=1e-5)


def test_a_model_on_cpu_or_over_several_devices_takes_a_call_a_chain(tiny_llama):
    model = tiny_llama()
    assert kernel_for(model) == "branching"
    model.layers[0].to("meta")
    assert kernel_for(model) == "branching"


@pytest.mark.parametrize(
    ("size", "memory", "keys", "stages"),
    [
        (128 * 2, 232448, 64, 3),  # bfloat16, 128 a head, H100: 64 K of queries, 3 · 32 K
        (128 * 4, 232448, 64, 2),  # float32
        (256 * 4, 232448, 64, 1),
        (64 * 4, 101376, 64, 2),  # float32, 64 a head, a card of 99 K
        (128 * 4, 101376, 32, 1),
        (256 * 4, 166912, 32, 1),
        (80 * 2, 101376, 64, 2),  # as 128 a head
        (256 * 4, 101376, 16, 1),
    ],
)
def test_a_program_of_the_kernel_fits_into_shared_memory(size, memory, keys, stages):
    found = attention._tiles(size, memory)
    assert (found["BLOCK_N"], found["num_stages"]) == (keys, stages)
    assert size * (found["BLOCK_M"] + 2 * keys * stages) < memory
    assert BLOCK % found["BLOCK_M"] == BLOCK % found["BLOCK_N"] == 0


def test_compiled_code_can_follow_what_the_kernel_is_given(tiny_llama):
    query, key, value = torch.randn(1, 4, BLOCK, 8), *torch.randn(2, 1, 2, BLOCK, 8)
    mask = block_mask(torch.full((BLOCK,), BLOCK - 1))

    def attend(query, key, value):
        return attention._flex(None, query, key, value, mask, scaling=0.3)[0]

    compiled = torch.compile(attend, backend="eager", fullgraph=True)
    expected = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, is_causal=True, scale=0.3, enable_gqa=True
    )
    assert torch.allclose(compiled(query, key, value).transpose(1, 2), expected, atol=1e-5)
