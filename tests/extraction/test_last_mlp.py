"""The last layer's MLP sees those tokens alone that are read."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lib.extraction import last_mlp
from lib.extraction.forward import forward
from lib.models.prompt import EncodedItem

IDS = torch.arange(12)[None] % 9


def seen_by(mlp: torch.nn.Module) -> tuple[list[int], object]:
    lengths: list[int] = []
    hook = mlp.register_forward_hook(lambda module, args, output: lengths.append(args[0].shape[1]))
    return lengths, hook


@torch.inference_mode()
def test_states_that_are_read_are_those_of_the_whole_pass(tiny_llama):
    backbone, at = tiny_llama(), np.asarray([2, 11, 5])
    expected = backbone(input_ids=IDS).last_hidden_state[0]
    with last_mlp.reading(backbone, at):
        found = backbone(input_ids=IDS).last_hidden_state[0]
    assert torch.allclose(found[at], expected[at], atol=1e-6)
    assert not torch.allclose(found[[0, 1, 3]], expected[[0, 1, 3]], atol=1e-3)
    assert torch.equal(backbone(input_ids=IDS).last_hidden_state[0], expected)


@torch.inference_mode()
def test_its_hooks_are_gone_after_an_error(tiny_llama):
    backbone = tiny_llama()
    mlp = backbone.layers[-1].mlp
    with pytest.raises(IndexError), last_mlp.reading(backbone, np.asarray([99])):
        backbone(input_ids=IDS)
    assert not mlp._forward_hooks
    assert not mlp._forward_pre_hooks


def test_a_backbone_without_such_layers_is_computed_in_full():
    linear = torch.nn.Linear(2, 2)
    with last_mlp.reading(linear, np.asarray([0])):
        assert linear(torch.ones(3, 2)).shape == (3, 2)


class Odd(torch.nn.Module):
    """Doubles states, and is called and answers in its own way."""

    def __init__(self, way: str):
        super().__init__()
        self.way = way

    def forward(self, states):
        return (2 * states, "router") if self.way == "a tuple" else 2 * states


class Backbone(torch.nn.Module):
    def __init__(self, way: str):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Module()])
        self.layers[0].mlp = Odd(way)

    def forward(self, states):
        mlp = self.layers[0].mlp
        if mlp.way == "by name":
            return mlp(states=states)
        if mlp.way == "flat":
            return mlp(states[0])[None]
        made = mlp(states)
        return made[0] if mlp.way == "a tuple" else made


@pytest.mark.parametrize(("way", "cut"), [("a tuple", True), ("by name", False), ("flat", False)])
def test_an_mlp_of_another_shape_gives_the_same_states(way, cut):
    backbone, states, at = Backbone(way), torch.randn(1, 6, 3), np.asarray([5, 0])
    with last_mlp.reading(backbone, at):
        found = backbone(states)
    assert torch.equal(found[:, at], 2 * states[:, at])
    assert bool((found[:, 1] == 0).all()) is cut


@pytest.mark.parametrize("kernel", ["branching", "flex"])
def test_a_row_of_trees_asks_for_its_responses_and_gates(tiny_llama, kernel):
    backbone = tiny_llama()
    items = [
        EncodedItem([np.asarray([1, n, 3, 4]), np.asarray([1, n, 5])], 2, 2, 1) for n in range(4)
    ]
    lengths, hook = seen_by(backbone.layers[-1].mlp)
    found = forward(backbone, items, kernel=kernel)
    assert lengths == [3 * 4]  # two responses and a gate each
    tapped = forward(backbone, items, kernel=kernel, taps="layers")
    assert lengths[1] >= 4 * 4  # a tap hears every token
    hook.remove()
    padded = forward(backbone, items, packing="padded")
    for states in (found, tapped):
        assert np.allclose(states.hidden, padded.hidden, atol=1e-5)
        assert np.allclose(states.gate_hidden, padded.gate_hidden, atol=1e-5)
