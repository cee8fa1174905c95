"""Attention over a row of trees, in two ways that give the same states.

``branching`` runs scaled dot-product attention once a chain, on the chain's own keys after
those of its context: for CPU, for a model that is spread over several devices, and for one
that the other doesn't suit. ``flex`` runs FlexAttention once over the row with a block mask:
for one GPU. Projections
and MLP see the whole row either way, but for what ``lib.extraction.last_mlp`` leaves out.
Both are registered with transformers, for any model that takes its attention from that
registry.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Iterator
from contextvars import ContextVar

import torch
from torch.nn.attention.flex_attention import BlockMask, flex_attention
from torch.nn.functional import scaled_dot_product_attention
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from lib.extraction.pack import Row

BRANCHING, FLEX = "branching", "flex"
KERNELS = (BRANCHING, FLEX)
BLOCK = 64  # tokens a side of FlexAttention's blocks: items are short, so small ones hold less
NARROWEST = 16  # features a head: the kernel's tiles are matrices of no fewer columns
ROOM = 32768  # tokens of a row, at first
# Queries, keys and stages of a program, fastest first; all divide ``BLOCK``.
TILES = ((64, 64, 3), (64, 64, 2), (64, 64, 1), (64, 32, 1), (32, 32, 1), (16, 16, 1))
RESERVED = 16384  # bytes of shared memory for what the kernel holds besides
# Bytes a program may have: of the smallest cards that the kernel suits, until there is one.
_card = {"shared_memory": 101376}
_row: ContextVar[Row] = ContextVar("row")
_masks: ContextVar[dict] = ContextVar("masks")
_own_kernel: ContextVar[bool] = ContextVar("own_kernel", default=False)


def on_one_gpu(backbone: torch.nn.Module) -> bool:
    """Does all of a model lie on one GPU?"""
    devices = {parameter.device for parameter in backbone.parameters()}
    return len(devices) == 1 and devices.pop().type == "cuda"


def too_narrow(backbone: torch.nn.Module) -> str:
    """Why FlexAttention doesn't suit a model's heads; empty where it does."""
    config = backbone.config.get_text_config()
    width = getattr(config, "head_dim", None)
    if width is None:
        width = config.hidden_size // config.num_attention_heads
    if width >= NARROWEST:
        return ""
    return f"{FLEX} takes heads of {NARROWEST} features or more, and these have {width}"


def kernel_for(backbone: torch.nn.Module) -> str:
    """``"flex"`` for a model on one GPU whose heads it suits, ``"branching"`` elsewhere."""
    return FLEX if on_one_gpu(backbone) and not too_narrow(backbone) else BRANCHING


@contextlib.contextmanager
def attending(backbone: torch.nn.Module, kernel: str) -> Iterator[None]:
    """Inside, the model attends with the kernel; its own attention is put back after."""
    device = next(backbone.parameters()).device
    if device.type == "cuda":
        found = torch.cuda.get_device_properties(device)
        _card["shared_memory"] = getattr(
            found, "shared_memory_per_block_optin", _card["shared_memory"]
        )
    previous = backbone.config._attn_implementation
    backbone.set_attn_implementation(kernel)
    try:
        yield
    finally:
        backbone.set_attn_implementation(previous)


def states(backbone: torch.nn.Module, row: Row, kernel: str, own: bool = False) -> torch.Tensor:
    """States after the final norm, shape (tokens, features); call it inside ``attending``.

    With ``own``, for a length that several rows have, FlexAttention is compiled for that
    length alone, which is faster; rows of all other lengths share a kernel.
    """
    device = next(backbone.parameters()).device
    tokens = to_device(row.tokens, device)
    mask = block_mask(tokens[2]) if kernel == FLEX else None
    held, built, kept = _row.set(row), _masks.set({}), _own_kernel.set(own)
    try:
        return backbone(
            input_ids=tokens[0:1],
            position_ids=tokens[1:2],
            attention_mask=mask,
            use_cache=False,
        ).last_hidden_state[0]
    finally:
        _own_kernel.reset(kept)
        _masks.reset(built)
        _row.reset(held)


def to_device(array, device: torch.device) -> torch.Tensor:
    """A host array on the device, without waiting for what the device is at."""
    tensor = torch.from_numpy(array)
    if device.type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


# One call a chain.


def _branching(module, query, key, value, attention_mask, scaling=None, dropout=0.0, **_):
    out = torch.empty_like(query)
    grouped = query.shape[1] != key.shape[1]
    for chain in _row.get().chains:
        own = (chain.start, chain.stop)
        keys, values = (_joined(states, (*chain.context, own)) for states in (key, value))
        out[:, :, slice(*own)] = scaled_dot_product_attention(
            query[:, :, slice(*own)],
            keys,
            values,
            attn_mask=_causal_after(chain, query) if chain.context else None,
            is_causal=not chain.context,
            scale=scaling,
            enable_gqa=grouped,
        )
    return out.transpose(1, 2).contiguous(), None


def _joined(states: torch.Tensor, spans) -> torch.Tensor:
    parts = [states[:, :, start:stop] for start, stop in spans]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=2)


def _causal_after(chain, query: torch.Tensor) -> torch.Tensor:
    """An additive mask: all of the context, and causal after it.

    One band is made a row and device; every chain's mask is a window of it.
    """
    masks = _masks.get()
    if query.device not in masks:
        chains = _row.get().chains
        context = max(c.n_context for c in chains)
        n = max(c.stop - c.start for c in chains if c.context)
        seen = torch.ones(n, context + n, dtype=torch.bool, device=query.device).tril(context)
        band = torch.zeros(seen.shape, dtype=query.dtype, device=query.device)
        masks[query.device] = context, band.masked_fill_(~seen, -torch.inf)
    context, band = masks[query.device]
    n = chain.stop - chain.start
    return band[:n, context - chain.n_context : context + n]


# One call a row.


def block_mask(until: torch.Tensor) -> BlockMask:
    """Who sees whom in a row, from the last token that sees each one, shape (tokens,).

    Which blocks hold anything is told from each block's lowest and highest of these, on the
    device: no mask of tokens × tokens is made, and no loop runs over tokens.
    """
    room = max(ROOM, 1 << (len(until) - 1).bit_length())
    mod, kept = _mask_mod(room, until.device)
    kept[: len(until)] = until
    some, full = _blocks(until)
    partial = some & ~full
    return BlockMask.from_kv_blocks(
        *_ordered(partial),
        *_ordered(full),
        BLOCK_SIZE=BLOCK,
        mask_mod=mod,
    )


@functools.cache
def _mask_mod(room: int, device: torch.device):
    """The rule token by token, on a buffer that is filled anew for each row.

    One function for rows of any length up to the room: compiled code that closes over it
    need not be compiled again.
    """
    with torch.inference_mode(False):  # kept for calls in other modes
        until = torch.empty(room, dtype=torch.int32, device=device)

    def sees(batch, head, q, k):
        return (q >= k) & (q <= until[k])

    return sees, until


def _blocks(until: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Blocks (query, key) that hold something, and those before the diagonal that hold all."""
    lowest, highest = until.view(-1, BLOCK).aminmax(dim=1)
    number = torch.arange(len(lowest), device=until.device)
    first, gap = BLOCK * number[:, None], number[:, None] - number
    some = (gap >= 0) & (highest >= first)
    full = (gap > 0) & (lowest >= first + BLOCK - 1)
    return some, full


def _ordered(blocks: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """How many blocks each query block has, and which, those first: as BlockMask wants it."""
    count = blocks.sum(dim=1, dtype=torch.int32)
    which = blocks.to(torch.int8).argsort(dim=1, descending=True, stable=True).to(torch.int32)
    return count[None, None], which.contiguous()[None, None]


def _many_lengths() -> None:
    """Lengths, dtypes and numbers of heads are entries of their own among what is compiled."""
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, 64)


@functools.cache
def _compiled_flex(own: bool):
    _many_lengths()
    return torch.compile(flex_attention, dynamic=not own)


def _flex(module, query, key, value, attention_mask, scaling=None, dropout=0.0, **_):
    heads, groups = query.shape[1], key.shape[1]
    if heads & (heads - 1):  # the kernel shares keys among 2, 4, 8, … heads only
        key, value = (x.repeat_interleave(heads // groups, dim=1) for x in (key, value))
    options = {
        "block_mask": attention_mask,
        "scale": scaling,
        "enable_gqa": key.shape[1] != heads,
        "kernel_options": _tiles(key.shape[-1] * key.element_size(), _card["shared_memory"]),
    }
    if torch.compiler.is_compiling():
        out = flex_attention(query, key, value, **options)
    elif query.device.type == "cuda":
        out = _compiled_flex(_own_kernel.get())(query, key, value, **options)
    else:  # for tests: slow, but the same arithmetic
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            out = flex_attention(query, key, value, **options)
    return out.transpose(1, 2).contiguous(), None


def _tiles(bytes_a_token: int, shared_memory: int) -> dict[str, int]:
    """What a program of the kernel has at hand: as much as the card's shared memory holds.

    That is some queries, and so many stages of keys and values; sizes of heads are rounded
    up to a power of two there.
    """
    room = (shared_memory - RESERVED) // (1 << (bytes_a_token - 1).bit_length())
    for queries, keys, stages in TILES:
        if queries + 2 * stages * keys <= room:
            break
    return {"BLOCK_M": queries, "BLOCK_N": keys, "num_warps": 4, "num_stages": stages}


@contextlib.contextmanager
def compiled_layers(backbone: torch.nn.Module) -> Iterator[None]:
    """Inside, decoder layers run as compiled code, made once for each length of rows.

    All but the last, of which ``lib.extraction.last_mlp`` leaves most out.
    """
    layers = getattr(backbone, "layers", ())[:-1]
    _many_lengths()
    for layer in layers:
        if not hasattr(layer, "_compiled_for_rows"):
            layer.compile(dynamic=False)
            layer._compiled_for_rows = layer._compiled_call_impl
        layer._compiled_call_impl = layer._compiled_for_rows
    try:
        yield
    finally:
        for layer in layers:
            layer._compiled_call_impl = None


for _name, _function in ((BRANCHING, _branching), (FLEX, _flex)):
    ALL_ATTENTION_FUNCTIONS.register(_name, _function)
    ALL_MASK_ATTENTION_FUNCTIONS.register(_name, lambda *_, **__: None)
