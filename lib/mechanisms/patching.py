"""What a reward would have been with one node's output taken from elsewhere.

A *node* is what one layer's attention, MLP or whole stream gives, or one attention head. In
the run of a response (the *receiver*) its output is replaced at some positions, everything
after it is computed again, and the rewards are read. The effect is the change in the margin
of the comparison, score(better) − score(worse):

============  =================  ==========================================================
mode          receiver           the node's output is replaced by
============  =================  ==========================================================
``noising``   better             its own in the worse response's run
``denoising``  worse              its own in the better one's
``zero``      both, each apart   nothing
``mean``      both, each apart   its mean over all tokens of all items
``resample``  both, each apart   its own in a response of another item, drawn by a seed
============  =================  ==========================================================

Which positions of two texts of different length belong together is a choice that decides:

- ``both ends``: within the response the first tokens, one by one, and the last with the last.
  Rewards are read at the last token, so patching everything there gives the source's reward
  exactly; that is asserted for every comparison (``everything``).
- ``left``: from the left only, as published. The last token of a longer receiver is then
  never patched, nor is any source's last token that lies beyond it.

Responses of a comparison share their prompt and attention looks back only, so for noising and
denoising a patch at a position of the prompt changes nothing: the prompt is computed once, and
each patched row on its keys and values. A row joins the batch at its node's layer: layers
below aren't computed again. ``zero``, ``mean`` and ``resample`` take ``positions="all"`` (as
published, the prompt's too) or ``"response"``.

A gate reads the prompt's end, so patches of the response leave it as it was; those of all
positions are given with the gate held and with the gate recomputed.

Source: activation patching as in reward-lens, whose alignment is from the left. Checked
against: hooks on whole runs of every described kind of tiny backbone (``tests/mechanisms``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
import xarray as xr
from torch.utils.hooks import RemovableHandle
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from lib.effects import (
    BOTH_ENDS,
    CONSTANT,
    DENOISING,
    EVERYTHING,
    FINAL,
    LEFT,
    MEAN,
    NOISING,
    RESAMPLE,
    ZERO,
)
from lib.errors import DataError, ModelError, unknown
from lib.extraction import store as stores
from lib.extraction import taps
from lib.extraction.forward import forward, out_of_memory
from lib.mechanisms.paths import direct
from lib.mechanisms.tracing import WITHIN
from lib.models import identity
from lib.models.anatomy import Anatomy, describe, linear
from lib.models.prompt import EncodedItem
from lib.run import texts

CONTINUING = "continuing"
METHOD = 1  # one more when the same model and comparisons come out otherwise
EMBEDDING, ATTENTION, MLP, STREAM = "embedding", "attention", "mlp", "stream"
MIXED = "mixed"  # what a layer's output projection is given
ALIGNMENTS = (BOTH_ENDS, LEFT)
MODES = (NOISING, DENOISING, ZERO, MEAN, RESAMPLE)
PAIRED = MODES[:2]  # what is put there comes from the comparison's other response
POSITIONS = ("response", "all")
SIDES = ("better", "worse")
GATE_AGAIN = f"{FINAL}, gate recomputed"
TOKENS = 4096  # of patched rows in one batch, on CPU; a GPU takes eight times as many


@dataclass(frozen=True)
class Node:
    """Places whose output is replaced together: (layer from 0, part, attention head or −1)."""

    name: str
    places: frozenset[tuple[int, str, int]]

    @property
    def entry(self) -> int:
        """The layer below which a run isn't changed."""
        return min(layer for layer, _, _ in self.places)


def nodes(anatomy: Anatomy, parts: Sequence[str] = (ATTENTION, MLP)) -> list[Node]:
    """Every layer's named parts, by layer; ``"heads"`` among them gives each attention head."""
    found = []
    for layer in range(len(anatomy.layers)):
        for part in parts:
            if part == "heads":
                found += [
                    Node(f"attention {layer + 1}.{head + 1}", frozenset({(layer, ATTENTION, head)}))
                    for head in range(anatomy.n_heads)
                ]
            elif part in (ATTENTION, MLP, STREAM):
                found.append(Node(f"{part} {layer + 1}", frozenset({(layer, part, -1)})))
            else:
                raise unknown("part", part, (ATTENTION, MLP, STREAM, "heads"), ModelError)
    return found


def everything(anatomy: Anatomy) -> Node:
    """The embedding and all writes."""
    writes = {(n, part, -1) for n in range(len(anatomy.layers)) for part in (ATTENTION, MLP)}
    return Node(EVERYTHING, frozenset(writes | {(0, EMBEDDING, -1)}))


def aligned(receiver: int, source: int, alignment: str) -> tuple[np.ndarray, np.ndarray]:
    """Positions of a receiver of so many tokens, and those of the source put there.

    Both count from where the two texts begin to differ.
    """
    if alignment not in ALIGNMENTS:
        raise unknown("alignment", alignment, ALIGNMENTS, ModelError)
    both = min(receiver, source)
    if alignment == LEFT:
        return np.arange(both), np.arange(both)
    first = np.arange(both - 1)
    return np.append(first, receiver - 1), np.append(first, source - 1)


@dataclass
class Prefix:
    """Keys and values of tokens that were computed before, by layer."""

    length: int = 0
    states: torch.Tensor | None = None  # after the final norm, (tokens, features), float32
    keys: dict[int, torch.Tensor] = field(default_factory=dict)
    values: dict[int, torch.Tensor] = field(default_factory=dict)


@dataclass
class Recorded:
    """What one run wrote, (tokens, width) each, by (layer, part); ``state`` after the norm."""

    outputs: dict[tuple[int, str], torch.Tensor]
    states: torch.Tensor  # (tokens, features), float32


_prefix: ContextVar[Prefix] = ContextVar("prefix")
_recording: ContextVar[bool] = ContextVar("recording", default=False)


def _continuing(module, query, key, value, attention_mask, scaling=None, softcap=None, **options):
    """Attention of tokens that come after a prefix; rows of a batch share it."""
    prefix, layer = _prefix.get(), module.layer_idx
    if _recording.get():
        prefix.keys[layer], prefix.values[layer] = key, value
    elif prefix.length:
        key, value = (
            torch.cat([before[layer].expand(len(now), -1, -1, -1), now], dim=2)
            for before, now in ((prefix.keys, key), (prefix.values, value))
        )
    weights, value = weighed(query, key, value, scaling, softcap, **options)
    return (weights.to(value.dtype) @ value).transpose(1, 2).contiguous(), None


def weighed(query, key, value, scaling=None, softcap=None, sliding_window=None, **_):
    """Weights of causal attention, float32, and values for each attention head.

    The queries are the last of the keys' tokens: (rows, heads, queries, head's width), with keys
    and values (rows, heads or groups of them, tokens, width). Gives (rows, heads, queries,
    tokens) and (rows, heads, tokens, width).
    """
    groups = query.shape[1] // key.shape[1]
    key, value = (x.repeat_interleave(groups, dim=1) for x in (key, value))
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    logits = query @ key.transpose(2, 3) * scaling
    if softcap is not None:
        logits = softcap * torch.tanh(logits / softcap)
    n, m = logits.shape[-2:]
    seen = torch.ones(n, m, dtype=torch.bool, device=logits.device).tril(m - n)
    if sliding_window:
        seen &= torch.ones_like(seen).triu(m - n - sliding_window + 1)
    return logits.masked_fill(~seen, -torch.inf).softmax(dim=-1, dtype=torch.float32), value


ALL_ATTENTION_FUNCTIONS.register(CONTINUING, _continuing)
ALL_MASK_ATTENTION_FUNCTIONS.register(CONTINUING, lambda *_, **__: None)


class Runner:
    """Runs of one backbone that go on from a prefix, recorded or patched; see ``running``."""

    def __init__(self, backbone: torch.nn.Module, anatomy: Anatomy):
        self.backbone, self.anatomy = backbone, anatomy
        self.own = backbone.config._attn_implementation
        self.device = next(backbone.parameters()).device

    def prefix(self, ids: np.ndarray) -> Prefix:
        """Keys and values of tokens from the start of a text."""
        prefix = Prefix()
        if len(ids):
            recording = _recording.set(True)
            try:
                prefix.states = self._run(ids, prefix)[0].float()
            finally:
                _recording.reset(recording)
            prefix.length = len(ids)
        return prefix

    def record(self, ids: np.ndarray, prefix: Prefix, mixed: bool = False) -> Recorded:
        """A run as it is, with what each part gives at each token."""
        outputs: dict[tuple[int, str], torch.Tensor] = {}

        def keep(layer, part):
            return lambda module, args, output: outputs.__setitem__(
                (layer, part), (output[0] if isinstance(output, tuple) else output)[0]
            )

        def given(layer, part):
            return lambda module, args, kwargs: outputs.__setitem__(
                (layer, part), (args[0] if args else kwargs["hidden_states"])[0]
            )

        def hooks():
            for n, layer in enumerate(self.anatomy.layers):
                yield layer.attention.register_forward_hook(keep(n, ATTENTION))
                yield layer.mlp.register_forward_hook(keep(n, MLP))
                yield layer.module.register_forward_hook(keep(n, STREAM))
                if mixed:
                    yield layer.out.register_forward_pre_hook(given(n, MIXED), with_kwargs=True)
            first = self.anatomy.layers[0].module
            yield first.register_forward_pre_hook(given(0, EMBEDDING), with_kwargs=True)

        states = self._run(ids, prefix, hooks())
        return Recorded(outputs, states[0].float())

    def patched(
        self,
        ids: np.ndarray,
        prefix: Prefix,
        some: Sequence[Node],
        at: np.ndarray,
        values,
        read: Sequence[int] = (-1,),
    ) -> torch.Tensor:
        """States at the tokens that are read, of one run a node: (nodes, read, features).

        Parameters
        ----------
        at
            Positions that are replaced, counted from the end of the prefix.
        values
            Of (layer, part, attention head), what stands there instead, (positions, width).
        """
        order = np.argsort([node.entry for node in some], kind="stable")
        rows = [some[i] for i in order]
        entries = np.asarray([node.entry for node in rows])
        at = torch.as_tensor(at, device=self.device)

        def join(layer):
            def before(module, args, kwargs):
                hidden = args[0] if args else kwargs["hidden_states"]
                new = int((entries == layer).sum())
                # The first row is the run as it is: what a new one was up to here.
                hidden = torch.cat([hidden, hidden[:1].expand(new, -1, -1)])
                if layer == 0:
                    hidden = put(0, EMBEDDING)(module, args, hidden)
                return (
                    ((hidden, *args[1:]), kwargs)
                    if args
                    else (args, {**kwargs, "hidden_states": hidden})
                )

            return before

        def put(layer, part):
            def after(module, args, output):
                made = output[0] if isinstance(output, tuple) else output
                those = [i for i, node in enumerate(rows, 1) if (layer, part, -1) in node.places]
                if those:
                    made = made.clone()
                    made[torch.tensor(those, device=made.device)[:, None], at] = values(
                        layer, part, -1
                    ).to(made)
                return (made, *output[1:]) if isinstance(output, tuple) else made

            return after

        def put_heads(layer):
            def before(module, args):
                given = args[0].clone()
                width = given.shape[-1] // self.anatomy.n_heads
                for i, node in enumerate(rows, 1):
                    for where, part, head in node.places:
                        if where == layer and part == ATTENTION and head >= 0:
                            own = slice(head * width, (head + 1) * width)
                            given[i, at, own] = values(layer, part, head).to(given)
                return (given, *args[1:])

            return before

        headed = {layer for node in rows for layer, part, head in node.places if head >= 0}

        def hooks():
            for n, layer in enumerate(self.anatomy.layers):
                yield layer.module.register_forward_pre_hook(join(n), with_kwargs=True)
                yield layer.attention.register_forward_hook(put(n, ATTENTION))
                yield layer.mlp.register_forward_hook(put(n, MLP))
                yield layer.module.register_forward_hook(put(n, STREAM))
                if n in headed:
                    yield layer.out.register_forward_pre_hook(put_heads(n))

        states = self._run(ids, prefix, hooks())
        states = states[1:, list(read)].float()
        return states[torch.as_tensor(np.argsort(order), device=states.device)]

    def _run(
        self, ids: np.ndarray, prefix: Prefix, hooks: Iterable[RemovableHandle] = ()
    ) -> torch.Tensor:
        """States after the final norm of tokens that follow a prefix; hooks are gone after."""
        tokens = torch.as_tensor(np.asarray(ids), device=self.device)[None]
        places = prefix.length + torch.arange(tokens.shape[1], device=self.device)[None]
        held = _prefix.set(prefix)
        try:
            with contextlib.ExitStack() as stack:
                for hook in hooks:
                    stack.callback(hook.remove)
                return self.backbone(
                    input_ids=tokens, position_ids=places, attention_mask=None, use_cache=False
                ).last_hidden_state
        finally:
            _prefix.reset(held)


@contextlib.contextmanager
def running(backbone: torch.nn.Module, anatomy: Anatomy) -> Iterator[Runner]:
    """Inside, the backbone attends so that runs can go on from a prefix."""
    runner = Runner(backbone, anatomy)
    with attending(backbone, CONTINUING), torch.inference_mode():
        yield runner


@contextlib.contextmanager
def attending(backbone: torch.nn.Module, kernel: str) -> Iterator[None]:
    """Inside, the backbone attends by another kernel of its own or of ours."""
    previous = backbone.config._attn_implementation
    backbone.set_attn_implementation(kernel)
    try:
        yield
    finally:
        backbone.set_attn_implementation(previous)


def patch(
    model,
    items,
    *,
    modes: Sequence[str] = PAIRED,
    parts: Sequence[str] = (ATTENTION, MLP),
    alignment: str = BOTH_ENDS,
    positions: str = "response",
    sides: Sequence[str] = SIDES,
    seed: int = 0,
    tokens: int | None = None,
    paths: bool = False,
    fingerprint: Mapping[str, str] | None = None,
    store: str | Path | None = None,
    on_comparison: Callable[[], None] = lambda: None,
) -> xr.Dataset:
    """Effects of every node on every comparison's margin.

    Parameters
    ----------
    model
        A ``lib.models.linear.LinearHeads`` on a described backbone.
    items
        What ``load_items`` returned; comparisons of equal texts are left out.
    modes, alignment, positions
        See the head of this module. Noising and denoising are of the response's positions,
        whichever are asked for: the prompt's change nothing.
    sides
        Which responses ``zero``, ``mean`` and ``resample`` are done to: both, or as published
        the better one alone.
    parts
        Which nodes: ``"attention"``, ``"mlp"``, ``"stream"`` of each layer, ``"heads"`` of each
        attention.
    seed
        Draws which other item's response ``resample`` takes.
    tokens
        Of patched rows in one batch; halved when memory is short, as often as it takes.
    paths
        Also tell direct effects (``lib.mechanisms.paths``).
    fingerprint
        Of the model, where it is known: it takes reading all weights.
    store
        Folder where each comparison is kept when it is done, so that a run that was killed
        goes on; nothing is kept when ``None``.
    on_comparison
        Called after each.

    Returns
    -------
    xarray.Dataset
        ``effect`` (mode, comparison, node, head): what the patch adds to the margin, in
        rewards' units; the last node is ``everything``. ``margin`` (comparison, head), and on
        request ``direct`` (comparison, component, head).
        ``better``, ``worse``, ``criterion``, ``subset``, ``prompt_hash``, ``item`` of each
        comparison. With a gate the final score stands among the heads, the gate held, and
        where the prompt is patched once more with the gate recomputed.

    Raises
    ------
    ModelError
        For a backbone that isn't described, unknown options, memory that has no room for one
        row, or where patching everything doesn't give the source's reward in float32.
    DataError
        Where no comparison is left, or ``resample`` has no other item.
    StoreError
        When the store is of another model, of other comparisons or options, in use, or can't
        be written.
    """
    for mode in modes:
        if mode not in MODES:
            raise unknown("mode", mode, MODES, ModelError)
    if positions not in POSITIONS:
        raise unknown("positions", positions, POSITIONS, ModelError)
    if not sides or not set(sides) <= set(SIDES):
        raise unknown("side", ", ".join(sides), SIDES, ModelError)
    anatomy = describe(model.backbone)
    some = [*nodes(anatomy, parts), everything(anatomy)]
    pairs = _pairs(model, items)
    job = _Job(model, anatomy, some, pairs, alignment, positions, sides, tokens)
    job.paths = paths
    fingerprint = model.fingerprint if fingerprint is None else fingerprint
    if "resample" in modes:
        job.deal(seed)
    options = {"modes": list(modes), "alignment": alignment, "positions": positions}
    options |= {"sides": list(sides), "seed": seed}
    done = []
    with contextlib.ExitStack() as ways:
        kept = None
        if store is not None:
            about = _manifest(
                job, items, fingerprint, options | {"parts": list(parts), "paths": paths}
            )
            kept = ways.enter_context(stores.opened(store, about))
        job.runner = ways.enter_context(running(model.backbone, anatomy))
        for number in range(len(pairs)):
            one = kept.read(number, job.lengths(modes)) if kept else None
            if one is None:
                one = job.comparison(number, modes)
                if kept:
                    kept.write(number, one)
            done.append(one)
            on_comparison()
    dims = {"effect": ("mode", "comparison", "node", "head"), "margin": ("comparison", "head")}
    dims |= {"direct": ("comparison", "component", "head")} if paths else {}
    found = xr.Dataset(
        {
            **{
                name: (
                    dims[name],
                    np.stack([one[name] for one in done], axis=dims[name].index("comparison")),
                )
                for name in dims
            },
            **{
                name: ("comparison", np.asarray([getattr(pair, name) for pair in pairs]))
                for name in ("better", "worse")
            },
            **{
                name: ("comparison", texts(getattr(pair, name) for pair in pairs))
                for name in ("item", "prompt_hash", "criterion", "subset")
            },
        },
        {
            "mode": list(modes),
            "node": [node.name for node in some],
            "head": job.names,
            **({"component": [*anatomy.components, CONSTANT]} if paths else {}),
        },
        {
            "model": model.name,
            "dataset": items.name,
            "items": items.fingerprint,
            "fingerprint": dict(fingerprint),
            "dtype": str(next(model.backbone.parameters()).dtype).removeprefix("torch."),
            **{name: options[name] for name in ("alignment", "positions", "sides", "seed")},
        },
    )
    _assert_everything(found, model.name)
    return found


def _manifest(job: _Job, items, fingerprint: Mapping[str, str], options: dict) -> dict:
    """What identifies the effects of a store."""
    weights = next(job.model.backbone.parameters())
    return {
        "items": items.fingerprint,
        "comparisons": [[pair.better, pair.worse] for pair in job.pairs],
        **fingerprint,
        "dtype": str(weights.dtype).removeprefix("torch."),
        "device": weights.device.type,
        "versions": identity.versions(),
        "method": METHOD,
        **options,
    }


@dataclass(frozen=True)
class _Pair:
    """One comparison: tokens of both texts, of which the first so many are shared."""

    sequences: tuple[np.ndarray, np.ndarray]  # better, worse
    shared: int
    gate_at: int
    place: int  # of the item
    item: str
    prompt_hash: str
    better: int
    worse: int
    criterion: str
    subset: str


def _pairs(model, items) -> list[_Pair]:
    table = items.comparisons
    owner, slot = items.item_of_response, items.responses["slot"].to_numpy()
    encoded = model.format.encode_many(items.prompts["prompt"], items.answers)
    found = []
    for better, worse, criterion, subset in table[
        ["better", "worse", "criterion", "subset"]
    ].itertuples(index=False):
        place = int(owner[better])
        item = encoded[place]
        if isinstance(item, Exception):
            continue
        first, second = (item.sequences[slot[row]] for row in (better, worse))
        if np.array_equal(first, second):
            continue
        found.append(
            _Pair(
                (first, second),
                item.n_shared,
                item.gate_at,
                place,
                str(items.prompts["item"].iloc[place]),
                str(items.prompts["prompt_hash"].iloc[place]),
                int(better),
                int(worse),
                str(criterion),
                str(subset),
            )
        )
    if not found:
        raise DataError(
            f"a comparison of two texts in {items.name}",
            f"none among {len(table)}",
            "Take a dataset with pairs of different responses.",
        )
    return sorted(found, key=lambda pair: pair.place)


class _Job:
    """What all comparisons share."""

    runner: Runner

    def __init__(self, model, anatomy, some, pairs, alignment, positions, sides, tokens):
        self.model, self.anatomy, self.nodes, self.pairs = model, anatomy, some, pairs
        self.alignment, self.positions, self.sides = alignment, positions, sides
        on_cpu = next(model.backbone.parameters()).device.type == "cpu"
        self.tokens = tokens or TOKENS * (1 if on_cpu else 8)
        self.names = [head.name for head in model.heads]
        if model.gated:
            self.names += [FINAL] + [GATE_AGAIN] * (positions == "all")
        self.paths = False  # tell direct effects too
        self.others: list[int] = []
        self._item: tuple[int, Prefix] | None = None

    def deal(self, seed: int) -> None:
        """Another item for each."""
        places = [pair.place for pair in self.pairs]
        if len(set(places)) < 2:
            raise DataError("two items to resample from", "one", "Give more items.")
        generator = np.random.default_rng(seed)
        others = [np.flatnonzero(np.asarray(places) != place) for place in places]
        self.others = [int(generator.choice(other)) for other in others]

    @property
    def headed(self) -> bool:
        """Is any node an attention head?"""
        return any(head >= 0 for node in self.nodes for _, _, head in node.places)

    @cached_property
    def means(self) -> dict[tuple[int, str], torch.Tensor]:
        """Of what each part gives, over all tokens of all texts."""
        wanted = [taps.Tap("means", taps.writes, taps.mean)]
        if self.headed:
            wanted.append(taps.Tap("mixed", taps.attended, taps.mean))
        items = [
            EncodedItem(list(pair.sequences), pair.shared, pair.shared, pair.gate_at)
            for pair in self.pairs
        ]
        with attending(self.model.backbone, self.runner.own):
            heard = forward(self.model.backbone, items, "padded", taps=wanted).taps
        lengths = np.asarray([len(ids) for item in items for ids in item.sequences], float)
        layers = range(len(self.anatomy.layers))
        keys = {
            "means": [(0, EMBEDDING), *((n, part) for n in layers for part in (ATTENTION, MLP))],
            "mixed": [(n, MIXED) for n in layers],
        }
        found = {}
        for name, states in heard.items():
            mean = torch.from_numpy(np.average(states, axis=0, weights=lengths))
            found |= dict(zip(keys[name], mean, strict=True))
        return found

    def prefix(self, pair: _Pair) -> Prefix:
        """Of the pair's item, computed once for all its comparisons."""
        if self._item is None or self._item[0] != pair.place:
            self._item = (pair.place, self.runner.prefix(pair.sequences[0][: pair.shared]))
        return self._item[1]

    def lengths(self, modes) -> dict[str, int]:
        """Of what ``comparison`` gives, along the first axis."""
        components = {"direct": len(self.anatomy.components) + 1} if self.paths else {}
        return {"margin": len(self.names), "effect": len(modes), **components}

    def comparison(self, number: int, modes) -> dict[str, np.ndarray]:
        """``margin`` (heads,), ``effect`` (modes, nodes, heads), ``direct`` (components, heads)."""
        pair = self.pairs[number]
        prefix = self.prefix(pair)
        own = [ids[pair.shared :] for ids in pair.sequences]
        recorded = [self.runner.record(ids, prefix, self.headed) for ids in own]
        last = torch.stack([each.states[-1] for each in recorded])
        gate = self._gate_state(pair, prefix, recorded[0])
        clean = self.read(last, gate)
        effects = []
        for mode in modes:
            if mode in PAIRED:
                receiver = PAIRED.index(mode)
                source = recorded[1 - receiver]
                ids, where = own[receiver], own[1 - receiver]
                at, there = aligned(len(ids), len(where), self.alignment)
                states = self.run(ids, prefix, at, self._from(source, there))
                moved = self.read(states, gate) - clean[receiver]
                effects.append(moved if receiver == 0 else -moved)
            else:
                moved = 0.0
                for sign, side in ((1, 0), (-1, 1)):
                    if SIDES[side] in self.sides:
                        moved = moved + sign * self._apart(number, side, mode, clean[side], gate)
                effects.append(moved)
        found = {"margin": clean[0] - clean[1], "effect": np.stack(effects)}
        if self.paths:
            found["direct"] = self._direct(recorded, gate)
        return {name: values.astype(np.float32) for name, values in found.items()}

    def _direct(self, recorded: Sequence[Recorded], gate) -> np.ndarray:
        places = [(0, EMBEDDING)]
        layers = range(len(self.anatomy.layers))
        places += [(n, part) for n in layers for part in (ATTENTION, MLP)]
        written = [[each.outputs[place][-1] for place in places] for each in recorded]
        found = direct(self.anatomy, linear(self.model), *written)
        if gate is None:
            return found
        state = gate.cpu().numpy()[None]
        coefficients = self.model.read(state, state).gate[0].astype(np.float64)
        more = [found @ coefficients] * (len(self.names) - found.shape[1])
        return np.column_stack([found, *more])

    def _apart(self, number: int, side: int, mode: str, clean, gate) -> np.ndarray:
        """What a mode that takes nothing from the other response does to one's rewards."""
        pair = self.pairs[number]
        whole = self.positions == "all"
        prefix = Prefix() if whole else self.prefix(pair)
        ids = pair.sequences[side][0 if whole else pair.shared :]
        at = np.arange(len(ids))
        if mode == "resample":
            other = self.pairs[self.others[number]]
            before = Prefix() if whole else self.runner.prefix(other.sequences[0][: other.shared])
            theirs = other.sequences[side][0 if whole else other.shared :]
            source = self.runner.record(theirs, before, self.headed)
            at, there = aligned(len(ids), len(theirs), self.alignment)
            values = self._from(source, there)
        elif mode == "mean":
            means = self.means  # before any hook is in place
            values = self._of(lambda key: means[key].to(self.runner.device)[None])
        else:
            values = self._of(lambda key: torch.zeros(1, 1, device=self.runner.device))
        read = (-1, pair.gate_at) if whole and self.model.gated else (-1,)
        states = self.run(ids, prefix, at, values, read)
        if len(read) == 1:
            return self.read(states, gate) - clean
        again = self.read(states[:, 0], states[:, 1])[:, -1:]
        held = self.read(states[:, 0], gate)
        return np.concatenate([held[:, :-1], again], axis=1) - clean

    def _from(self, source: Recorded, there: np.ndarray):
        return self._of(lambda key: source.outputs[key][there])

    def _of(self, output: Callable[[tuple[int, str]], torch.Tensor]):
        """What a node's place is given, of what each (layer, part) is given."""

        def values(layer, part, head):
            if head < 0:
                return output((layer, part))
            whole = output((layer, MIXED))
            width = whole.shape[-1] // self.anatomy.n_heads
            return whole[:, head * width : (head + 1) * width] if width else whole

        return values

    def _gate_state(self, pair: _Pair, prefix: Prefix, first: Recorded) -> torch.Tensor | None:
        if not self.model.gated:
            return None
        if pair.gate_at < prefix.length:
            return prefix.states[pair.gate_at]
        return first.states[pair.gate_at - prefix.length]

    def run(self, ids, prefix, at, values, read=(-1,)) -> torch.Tensor:
        """States of all nodes, (nodes, features), or (nodes, read, features) of several."""
        step = max(1, self.tokens // len(ids))
        found, start = [], 0
        while start < len(self.nodes):
            some = self.nodes[start : start + step]
            try:
                found.append(self.runner.patched(ids, prefix, some, at, values, read))
            except (RuntimeError, MemoryError) as error:
                if not out_of_memory(error):
                    raise
                short = True
            else:
                start, short = start + len(some), False
            if short:  # outside the handler, so that nothing of the batch is held
                if step == 1:
                    raise ModelError(
                        f"memory for one patched row of {len(ids)} tokens",
                        "too little",
                        "Use bfloat16, a device with more memory, or leave long items out.",
                    )
                if torch.cuda.is_available():
                    torch.cuda.empty_cache()
                step //= 2
                self.tokens = step * len(ids)
        states = torch.cat(found)
        return states[:, 0] if len(read) == 1 else states

    def read(self, states: torch.Tensor, gate: torch.Tensor | None) -> np.ndarray:
        """Rewards of states (n, features), and the final score of a gated model; float64."""
        hidden = states.cpu().numpy()
        if gate is None:
            return self.model.read(hidden).score.astype(np.float64)
        gates = np.broadcast_to(gate.cpu().numpy(), hidden.shape)
        found = self.model.read(hidden, gates)
        columns = [found.score, found.final[:, None]]
        columns += [found.final[:, None]] * (self.positions == "all")
        return np.concatenate(columns, axis=1).astype(np.float64)


def _assert_everything(found: xr.Dataset, name: str) -> None:
    """Patching everything gives the source's reward, so the margin of the pair becomes 0."""
    if found.attrs["alignment"] != BOTH_ENDS or found.attrs["dtype"] != "float32":
        return
    margin = found["margin"].values
    spread = margin.std(axis=0)
    for mode in set(PAIRED) & set(found["mode"].values):
        effect = found["effect"].sel(mode=mode, node=EVERYTHING).values
        scale = np.maximum(np.maximum(np.abs(margin), spread), np.finfo(np.float32).tiny)
        miss = float((np.abs(effect + margin) / scale).max())
        if not miss <= 10 * WITHIN:
            raise ModelError(
                f"the source's reward where everything is patched in {name}",
                f"a margin that is off by {miss:.3g} of itself ({mode})",
                "The backbone adds to its stream in a way that its description lacks; report "
                "it with the model's config.json.",
            )
