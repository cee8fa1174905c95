"""Tiny transformers that are built so that what carries each head is known: is it named?

Features of the residual stream, of 32::

    0     a constant that is large beside all others, so that norms hardly vary
    1     u, 2: v, of each token, at random
    3, 5  what the two heads read
    4     what only an MLP reads

Attention is even over all tokens, so it writes means.

=============  =============================================================================
attention 1    writes ten times u to feature 3, and v to feature 4
mlp 1          takes from feature 3 what attention 1 wrote there
attention 2    writes v to feature 3: it alone carries the head ``by attention``
mlp 2          writes feature 4 to feature 5: it alone adds to the head ``by MLP``, of what
               attention 1 has read
=============  =============================================================================
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lib.analyses.patching import agreement, stats
from lib.analyses.patching.stats import CONFIRMED
from lib.data.items import Builder
from lib.mechanisms.effects import effects
from lib.mechanisms.patching import patch

LARGE, WIDTH = 1000.0, 32
NORMED = np.sqrt(WIDTH) / LARGE  # what a norm makes of a small feature of one
NODES = ["attention 1", "mlp 1", "attention 2", "mlp 2"]
PROMPTS = 24


def circuit(make):
    """A Llama of two layers with these weights and no others."""
    backbone = make(num_key_value_heads=4)
    for parameter in backbone.parameters():
        parameter.data.zero_()
    for module in backbone.modules():
        if type(module).__name__.endswith("RMSNorm"):
            module.weight.data.fill_(1)
    generator = torch.Generator().manual_seed(0)
    table = backbone.embed_tokens.weight.data
    table[:, 0] = LARGE
    table[:, 1:3] = torch.randn(len(table), 2, generator=generator)
    first, second = backbone.layers

    def move(layer, head, read, write, gain):
        width = WIDTH // 4
        layer.self_attn.v_proj.weight.data[head * width, read] = gain / NORMED
        layer.self_attn.o_proj.weight.data[write, head * width] = 1

    def copy(layer, read, write, gain):
        # The gate reads the constant, so the MLP is linear in what it reads.
        layer.mlp.gate_proj.weight.data[0, 0] = 1
        opened = torch.nn.functional.silu(torch.tensor(NORMED * LARGE))
        layer.mlp.up_proj.weight.data[0, read] = 1
        layer.mlp.down_proj.weight.data[write, 0] = gain / NORMED / opened

    move(first, 0, 1, 3, 10)
    move(first, 2, 2, 4, 1)
    copy(first, 3, 3, -1)
    move(second, 1, 2, 3, 1)
    copy(second, 4, 5, 1)
    return backbone


@pytest.fixture(scope="module")
def model(byte_tokenizer, tiny_llama):
    from lib.models import Head
    from lib.models.frozen import FrozenHeads
    from lib.models.prompt import PromptFormat

    weight = np.zeros((2, WIDTH), np.float32)
    weight[0, 3] = weight[1, 5] = 1 / NORMED
    return FrozenHeads(
        name="circuit",
        heads=[Head("by attention", "made up"), Head("by MLP", "made up")],
        backbone=circuit(tiny_llama),
        format=PromptFormat(byte_tokenizer(), "tiny", "<|im_end|>"),
        weight=weight,
        bias=np.zeros(2, np.float32),
        trained_on=frozenset(),
        card={},
    )


@pytest.fixture(scope="module")
def pairs(model):
    """Of which the model scores the better one higher, as the label says."""
    generator = np.random.default_rng(1)
    v = model.backbone.embed_tokens.weight[:, 2].numpy()
    builder = Builder("circuits")
    for n in range(PROMPTS):
        pair = ["".join(generator.choice(list("abcdefghijk"), 12 + k)) for k in range(2)]
        ids = model.format.encode([{"role": "user", "content": f"{n}?"}], pair).sequences
        better = int(v[ids[1]].mean() > v[ids[0]].mean())
        builder.add(f"item {n}", f"{n}?", pair, [(better, 1 - better, "c", "s")])
    return builder.build()


@pytest.fixture(scope="module")
def found(model, pairs, tmp_path_factory):
    return effects(model, pairs, patched=PROMPTS, store=tmp_path_factory.mktemp("store"))


def named(table, head):
    return set(table.loc[(table["head"] == head) & (table["verdict"] == CONFIRMED), "node"])


def test_the_margin_is_what_was_built(found):
    assert (found["margin"].values > 0).all()
    assert found["margin"].values[:, 0] == pytest.approx(found["margin"].values[:, 1], rel=0.02)


def test_patches_name_the_attention_that_carries_a_head_and_not_the_decoys(found):
    table = stats.verdicts(found)
    assert named(table, "by attention") == {"attention 2"}
    row = table[(table["head"] == "by attention") & (table["node"] == "attention 2")].iloc[0]
    assert row["share"] == pytest.approx(1, abs=0.02)
    decoys = table[(table["head"] == "by attention") & table["node"].isin(NODES[:2])]
    assert not decoys["verdict"].eq(CONFIRMED).any()
    # Exchanging attention 1 alone changes nothing: mlp 1 takes back whatever it writes.
    assert decoys["carried"].abs().iloc[0] < 0.02 * row["carried"]


def test_of_all_attention_heads_only_the_one_that_carries_it_moves_the_margin(model, pairs):
    made = patch(model, pairs, parts=("heads",))
    carried = -made["effect"].sel(head="by attention").drop_sel(node="everything")
    share = carried / made["margin"].sel(head="by attention")
    assert share.sel(node="attention 2.2").values == pytest.approx(1, abs=0.05)
    others = share.drop_sel(node="attention 2.2")
    assert len(others["node"]) == 7
    assert np.abs(others.mean("comparison")).max() < 0.05


def test_attribution_has_the_decoys_as_its_largest_parts_and_they_cancel(found):
    part = found["part"].values[found["better"].values] - found["part"].values[found["worse"]]
    at = {name: k for k, name in enumerate(found["component"].values)}
    first, taken, own = (part[:, at[name], 0] for name in NODES[:3])
    assert np.abs(first).mean() > 3 * np.abs(own).mean()
    assert np.abs(first + taken).max() < 0.01 * np.abs(first).mean()
    assert own == pytest.approx(found["margin"].values[:, 0], rel=0.02, abs=1e-3)


def test_an_mlp_that_carries_a_head_is_named_with_what_it_reads(found):
    table = stats.verdicts(found)
    assert named(table, "by MLP") == {"attention 1", "mlp 2"}
    part = stats.largest(found, table, count=1).set_index("head")
    assert part.loc["by MLP", "component"] == "mlp 2"  # attribution names it alone
    assert part.loc["by MLP", "share"] == pytest.approx(1, abs=0.02)
    assert part.loc["by MLP", "direct"] == pytest.approx(part.loc["by MLP", "part"], rel=0.05)


def test_aligned_from_the_left_even_everything_leaves_a_margin(found):
    table = stats.verdicts(found)
    rows = agreement.alignment(found, table, stats.verdicts(found, "left"))
    assert (rows["left_over"] > 0.02).all()
    assert found.attrs["everything_within"] < 1e-3
    assert rows.groupby("head")["unreached"].sum().tolist() == [1, 1]
