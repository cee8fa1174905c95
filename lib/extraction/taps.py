"""Taps: what else is kept of the forward pass that gives the scores.

A tap names modules of a backbone to listen to, and a reduction that makes one state a
response of what a module gives for each token. Rows of trees and padded batches alike are
reduced where they are computed, and nothing else of them is kept:

===========  ================  ========================  ====================================
tap          variable          dims                      content
===========  ================  ========================  ====================================
``layers``   ``layer_hidden``  response, layer, feature  residual stream at the response's
                                                         last token: entry 0 as it enters the
                                                         first layer, entry l as layer l leaves
                                                         it, so one more than there are layers;
                                                         the last is before the final norm
``neurons``  ``neuron_mean``   response, mlp, neuron     output of the MLP's activation
                                                         function (in a gated MLP act(gate),
                                                         before × up), mean over all tokens of
                                                         prompt and response; entry m is of
                                                         layer m + 1
``writes``   ``write``         response, component,      what the embedding and each layer's
                               feature                   attention and MLP add to the residual
                                                         stream at the response's last token;
                                                         order of ``lib.models.anatomy``
``attended`` ``attended``      response, attention,      at the same token, the outputs of an
                               attended_feature          attention's heads side by side, before
                                                         they are projected
===========  ================  ========================  ====================================

Values are float32, ``4 · layers · width`` bytes a response; they stay on the device until
the last row of a call of ``forward`` is done. Another ``Tap`` can be given wherever a name
can, to ``forward``.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.utils.hooks import RemovableHandle

from lib.errors import ModelError, unknown
from lib.extraction import attention
from lib.extraction.pack import Row
from lib.models import anatomy

LAYERS = ("layers", "h")  # where a backbone keeps its decoder layers
ACTIVATIONS = ("act_fn", "act", "activation_fn")  # and their ``mlp`` its activation


@dataclass(frozen=True)
class Places:
    """Where the responses of a row or batch lie among its tokens, batches flattened.

    Arrays of integers, on the host or on a device: the position of each response's ``last``
    token; lengths of the consecutive ``pieces`` that make up all tokens, padding included,
    some of them 0; and the ``parts`` of them that each response has, (responses, parts).
    """

    last: np.ndarray | torch.Tensor
    pieces: np.ndarray | torch.Tensor
    parts: np.ndarray | torch.Tensor

    @classmethod
    def of_row(cls, row: Row) -> Places:
        """Root, item's prompt and branch of each response in a row of trees."""
        item, branch = row.numbers
        owner, own = item[row.read_at], branch[row.read_at]
        branches = np.bincount(owner)  # the root, item 0, has none
        first = np.cumsum(branches + 1) - branches - 1  # each item's prompt among the pieces
        stop = int(row.read_at.max()) + 1
        used = np.bincount(first[item[:stop]] + branch[:stop])
        root = np.zeros_like(owner)
        return cls(
            row.read_at,
            np.append(used, len(row) - stop),
            np.stack([root, first[owner], first[owner] + own], axis=1),
        )

    @classmethod
    def of_batch(cls, start: np.ndarray, lengths: np.ndarray, width: int) -> Places:
        """Sequences of so many tokens, each from a start in its line of the batch on."""
        line = np.arange(len(start))
        stop = start + lengths
        return cls(
            line * width + stop - 1,
            np.stack([start, lengths, width - stop], axis=1).ravel(),
            3 * line[:, None] + 1,
        )

    def to(self, device: torch.device) -> Places:
        """Host arrays on a device."""
        return Places(
            *(attention.to_device(x, device) for x in (self.last, self.pieces, self.parts))
        )


def last(states: torch.Tensor, places: Places) -> torch.Tensor:
    """The state at each response's last token: (tokens, width) to (responses, width)."""
    return states[places.last].float()


def mean(states: torch.Tensor, places: Places) -> torch.Tensor:
    """Mean over a response's tokens, its prompt's too: (tokens, width) to (responses, width).

    What responses share is summed once. Sums are float32, in the order of the tokens, and
    no piece enters another's, so padding that holds NaN does no harm.
    """
    # Lengths are right by construction; to check them would wait for the device.
    sums = torch.segment_reduce(
        states.float(), "sum", lengths=places.pieces, axis=0, initial=0, unsafe=True
    )
    return sums[places.parts].sum(dim=1) / places.pieces[places.parts].sum(dim=1, keepdim=True)


@dataclass(frozen=True)
class Port:
    """One place to listen at: what a module gives, or the states that it is given."""

    module: torch.nn.Module
    given: bool = False


@dataclass(frozen=True)
class Tap:
    """Something to keep of a forward pass.

    It fills the variable of its name, with dims (response, port, width). ``ports`` tells of a
    backbone where the tap listens, in order and all of one width, or raises a ``ModelError``;
    ``reduce`` makes of a state for each token one for each response: ``last``, ``mean`` or
    alike. ``project`` makes of all ports' states what is kept, where they are computed:
    (responses, ports, width) to (responses, …); without it they are kept as they are. ``key``
    names in a store all that determines it; the name of the tap where that alone does.
    """

    name: str
    ports: Callable[[torch.nn.Module], list[Port]]
    reduce: Callable[[torch.Tensor, Places], torch.Tensor]
    project: Callable[[torch.Tensor], torch.Tensor] | None = None
    key: str = ""


def _layers(backbone: torch.nn.Module) -> Sequence[torch.nn.Module]:
    for name in LAYERS:
        layers = getattr(backbone, name, None)
        if isinstance(layers, torch.nn.ModuleList) and len(layers):
            return layers
    raise ModelError(
        f"a backbone with its decoder layers under {' or '.join(LAYERS)}",
        f"none in {type(backbone).__name__}",
        "Extract without taps.",
    )


def residual_stream(backbone: torch.nn.Module) -> list[Port]:
    """What enters the first decoder layer, then what each one leaves."""
    layers = _layers(backbone)
    return [Port(layers[0], given=True), *map(Port, layers)]


def activations(backbone: torch.nn.Module) -> list[Port]:
    """The activation function in each decoder layer's MLP."""
    found = []
    for number, layer in enumerate(_layers(backbone), 1):
        mlp = getattr(layer, "mlp", None)
        candidates = (getattr(mlp, name, None) for name in ACTIVATIONS)
        module = next((c for c in candidates if isinstance(c, torch.nn.Module)), None)
        if module is None:
            raise ModelError(
                f"an activation module ({', '.join(ACTIVATIONS)}) in the MLP of each layer",
                f"none in layer {number} of {type(backbone).__name__}",
                "Leave the tap 'neurons' out.",
            )
        found.append(Port(module))
    return found


def writes(backbone: torch.nn.Module) -> list[Port]:
    """What enters the first decoder layer, then what each attention and MLP adds to it."""
    layers = anatomy.describe(backbone).layers
    modules = (part for layer in layers for part in (layer.attention, layer.mlp))
    return [Port(layers[0].module, given=True), *map(Port, modules)]


def attended(backbone: torch.nn.Module) -> list[Port]:
    """What each attention's output projection is given."""
    return [Port(layer.out, given=True) for layer in anatomy.describe(backbone).layers]


TAPS = {
    "layers": Tap("layer_hidden", residual_stream, last),
    "neurons": Tap("neuron_mean", activations, mean),
    "writes": Tap("write", writes, last),
    "attended": Tap("attended", attended, last),
}


def resolve(taps: str | Tap | Sequence[str | Tap]) -> list[Tap]:
    """The taps meant by names of ``TAPS`` or given as they are, each once.

    An unknown name and two taps that fill one variable are a ``ModelError``.
    """
    found: dict[str, Tap] = {}
    for tap in (taps,) if isinstance(taps, (str, Tap)) else taps:
        if isinstance(tap, str):
            if tap not in TAPS:
                raise unknown("tap", tap, TAPS, ModelError)
            tap = TAPS[tap]
        if found.setdefault(tap.name, tap) != tap:
            raise ModelError(
                "one tap a variable", f"two for {tap.name!r}", "Give one of them another name."
            )
    return list(found.values())


def check(backbone: torch.nn.Module, taps: Sequence[Tap]) -> None:
    """Raise a ``ModelError`` when the backbone doesn't have what a tap listens to."""
    for tap in taps:
        tap.ports(backbone)


class Listener:
    """Hears what the ports of some taps give, row by row; see ``listening``."""

    def __init__(self, backbone: torch.nn.Module, taps: Sequence[Tap]):
        self._ports = {tap.name: tap.ports(backbone) for tap in taps}
        self._taps = taps
        self._places: dict[torch.device | None, Places] = {}
        self._heard: dict[str, list[torch.Tensor | None]] = {}

    def begin(self, places: Places) -> None:
        """Before a row is computed; forgets a row that failed."""
        self._places = {None: places}
        self._heard = {name: [None] * len(ports) for name, ports in self._ports.items()}

    def end(self) -> dict[str, torch.Tensor]:
        """After it: for each tap, shape (responses, ports, width), float32, or as it projects.

        A port that gave nothing is a ``ModelError``.
        """
        heard, self._heard = self._heard, {}
        for name, states in heard.items():
            silent = sum(state is None for state in states)
            if silent:
                raise ModelError(
                    f"states at {len(states)} places for {name!r}",
                    f"none at {silent} of them",
                    "The backbone doesn't call those modules; extract without that tap.",
                )
        found = {
            name: torch.stack([state.to(states[0].device) for state in states], dim=1)
            for name, states in heard.items()
        }
        for tap in self._taps:
            if tap.project is not None:
                found[tap.name] = tap.project(found[tap.name])
        return found

    def hooks(self) -> Iterator[RemovableHandle]:
        """Listen from now on, until they are removed."""
        for tap in self._taps:
            for place, port in enumerate(self._ports[tap.name]):
                hear = functools.partial(self._hear, tap, place)
                if port.given:
                    yield port.module.register_forward_pre_hook(
                        lambda module, args, kwargs, hear=hear: hear(
                            module, args[0] if args else kwargs["hidden_states"]
                        ),
                        with_kwargs=True,
                    )
                else:
                    yield port.module.register_forward_hook(
                        lambda module, args, output, hear=hear: hear(
                            module, output[0] if isinstance(output, tuple) else output
                        )
                    )

    def _hear(self, tap: Tap, place: int, module: torch.nn.Module, states: torch.Tensor) -> None:
        host = self._places[None]
        tokens = states.reshape(-1, states.shape[-1])
        if len(tokens) != host.pieces.sum() or self._heard[tap.name][place] is not None:
            raise ModelError(
                f"one state a token from {type(module).__name__} for {tap.name!r}",
                f"shape {tuple(states.shape)} for {host.pieces.sum()} tokens, or several calls",
                "Extract without that tap.",
            )
        if tokens.device not in self._places:
            self._places[tokens.device] = host.to(tokens.device)
        self._heard[tap.name][place] = tap.reduce(tokens, self._places[tokens.device])


@contextlib.contextmanager
def listening(backbone: torch.nn.Module, taps: Sequence[Tap]) -> Iterator[Listener]:
    """Inside, a listener hears the backbone; its hooks are gone after.

    Each row is computed between the listener's ``begin`` and ``end``.
    """
    listener = Listener(backbone, taps)
    with contextlib.ExitStack() as hooks:
        for hook in listener.hooks():
            hooks.callback(hook.remove)
        yield listener
