"""Parts sum to the reward, on every kind of backbone; each is what the model itself shows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from lib.data.items import Builder
from lib.errors import ModelError, StoreError
from lib.extraction import sealed
from lib.extraction.forward import forward
from lib.mechanisms import tracing
from lib.mechanisms.tracing import CONSTANT, FINAL, WITHIN, trace
from lib.models import anatomy, load_model

PLAIN = ("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "gpt2")
BIASED = {"llama biases": ("llama", {"attention_bias": True, "mlp_bias": True})}
KINDS = {kind: (kind, {}) for kind in PLAIN} | BIASED


def items_of(cases):
    builder = Builder("made-up")
    for n, (prompt, responses) in enumerate(cases):
        pairs = [(0, other, "c", "s") for other in range(1, len(responses))]
        builder.add(f"item {n}", prompt, responses, pairs)
    return builder.build()


@pytest.fixture(scope="module")
def models(write_tiny, tmp_path_factory):
    made = {}
    for name, (kind, options) in KINDS.items():
        folder = tmp_path_factory.mktemp("model")
        write_tiny.write_classifier(folder, kind=kind, labels=3, **options)
        made[name] = load_model(str(folder), device="cpu")
    return made


@pytest.fixture(scope="module")
def items(write_tiny):
    return items_of(write_tiny.CASES)


@pytest.fixture(scope="module")
def traces(models, items, tmp_path_factory):
    return {
        name: trace(model, items, attention_heads=True, store=tmp_path_factory.mktemp("store"))
        for name, model in models.items()
    }


def encoded(model, items):
    return [
        model.format.encode(prompt, list(texts))
        for prompt, (_, texts) in zip(
            items.prompts["prompt"],
            items.responses.groupby("item", sort=False)["text"],
            strict=True,
        )
    ]


def ending(model, items):
    """What each response's last token has before the final norm, heard by a plain hook."""
    final, kept = anatomy.describe(model.backbone).final, []
    hook = final.register_forward_pre_hook(lambda m, args: kept.append(args[0][0, -1]))
    for item in encoded(model, items):
        for ids in item.sequences:
            with torch.inference_mode():
                model.backbone(input_ids=torch.from_numpy(ids)[None])
    hook.remove()
    return torch.stack(kept)


@pytest.mark.parametrize("name", KINDS)
def test_parts_sum_to_the_score_and_to_the_margin_of_every_comparison(name, traces):
    found = traces[name]
    assert found.attrs["sums_within"] <= WITHIN
    total = found["part"].sum("component").values
    assert total == pytest.approx(
        found["score"].values, abs=float(1e-4 * found["score"].values.std())
    )


@pytest.mark.parametrize("name", KINDS)
def test_the_lens_ends_at_the_reward_and_begins_at_the_embedding(name, traces, models):
    found = traces[name]
    spread = found["score"].values.std(axis=0)
    last = found["lens"].isel(depth=-1).values
    assert (np.abs(last - found["score"].values) <= 1e-4 * spread).all()
    # As published it ends elsewhere: the state has not been through the final norm.
    raw = found["lens_raw"].isel(depth=-1).values
    assert np.abs(raw - found["score"].values).max() > spread.max()
    assert found.sizes["depth"] == len(anatomy.describe(models[name].backbone).layers) + 1


@pytest.mark.parametrize("name", KINDS)
def test_writes_add_up_to_what_the_final_norm_is_given(name, models, items):
    model = models[name]
    right = ending(model, items).numpy()
    states = forward(model.backbone, encoded(model, items), "padded", taps=["writes"])
    assert states.taps["write"].sum(axis=1) == pytest.approx(right, abs=float(1e-4 * right.std()))


@pytest.mark.parametrize("name", KINDS)
def test_the_norm_written_here_is_the_models(name, models, items):
    described = anatomy.describe(models[name].backbone)
    states = ending(models[name], items)
    with torch.inference_mode():
        right = described.final(states)
    assert torch.allclose(described.norm(states), right, atol=1e-5)


@pytest.mark.parametrize("name", KINDS)
def test_a_part_is_what_the_score_loses_without_it_at_the_same_scale(name, models, items, traces):
    # Found again from the model's own norm: a write left out moves the scale as well, which
    # is put back by the ratio of the two scales.
    model, found = models[name], traces[name]
    described = anatomy.describe(model.backbone)
    weight = torch.from_numpy(model.weight)
    states = ending(model, items)
    written = forward(model.backbone, encoded(model, items), "padded", taps=["writes"])
    writes = torch.from_numpy(written.taps["write"])
    with torch.inference_mode():
        fixed = described.final.bias if described.norm.centred else 0
        whole = described.final(states) - fixed
        for place in range(writes.shape[1]):
            bias = described.biases[place - 1] if place else None
            gone = states - writes[:, place] + (0 if bias is None else bias)
            left = described.final(gone) - fixed
            ratio = described.norm.scale(states) / described.norm.scale(gone)
            lost = (whole - left * ratio[:, None]) @ weight.T
            assert found["part"].values[:, place] == pytest.approx(
                lost.numpy(), abs=float(2e-4 * found["score"].values.std())
            )


@pytest.mark.parametrize("name", KINDS)
def test_attention_heads_sum_to_their_layer(name, traces):
    found = traces[name]
    layers = found.sizes["attention"]
    attention = found["part"].sel(component=[f"attention {n}" for n in range(1, layers + 1)])
    total = found["attention_part"].sum("attention_head").values
    assert total == pytest.approx(attention.values, abs=float(1e-4 * found["score"].values.std()))
    assert found.sizes["attention_head"] == 4


def test_a_bias_is_constant_and_no_part_of_what_is_said(traces):
    # Of a Llama without biases the constant is the head's own: nothing.
    assert traces["llama"]["part"].sel(component=CONSTANT).values == pytest.approx(0, abs=1e-7)
    assert np.abs(traces["llama biases"]["part"].sel(component=CONSTANT).values).max() > 0.01
    assert np.abs(traces["gpt2"]["part"].sel(component=CONSTANT).values).max() > 0.01


def test_a_gated_models_final_score_is_the_sum_of_its_parts(write_tiny, tmp_path, items):
    write_tiny.write_armorm(tmp_path / "model", heads=5)
    model = load_model(str(tmp_path / "model"), device="cpu")
    found = trace(model, items, store=tmp_path / "store")
    assert list(found["head"].values)[-1] == FINAL
    final = found.sel(head=FINAL)
    total = final["part"].sum("component").values
    assert total == pytest.approx(
        final["score"].values, abs=float(1e-4 * final["score"].values.std())
    )
    # Worked out again for one response: coefficients of its prompt times parts of each head.
    states = forward(model.backbone, encoded(model, items))
    gate = model.read(states.hidden[:1], states.gate_hidden[:1]).gate[0]
    first = found.isel(response=0)
    own = first["part"].sel(head=model_heads(model)).values @ gate
    assert first["part"].sel(head=FINAL).values == pytest.approx(own, rel=1e-3, abs=1e-4)


def model_heads(model):
    return [head.name for head in model.heads]


def test_a_backbone_that_is_not_described_is_refused_by_name(write_tiny, tmp_path, items):
    write_tiny.write_classifier(tmp_path / "model", kind="gpt_neox")
    model = load_model(str(tmp_path / "model"), device="cpu")
    with pytest.raises(ModelError, match="gpt_neox") as caught:
        trace(model, items, store=tmp_path / "store")
    assert "which modules of a layer write" in caught.value.remedy


def test_a_bias_before_a_norm_of_the_writes_own_is_refused(write_tiny, tmp_path, items):
    write_tiny.write_classifier(tmp_path / "model", kind="gemma2", attention_bias=True)
    model = load_model(str(tmp_path / "model"), device="cpu")
    with pytest.raises(ModelError, match="before a norm"):
        trace(model, items, store=tmp_path / "store")


def test_a_write_that_was_not_heard_is_an_error(models, items, tmp_path, monkeypatch):
    # As a wrong description would have it: the MLPs wrote twice what was heard of them.
    def half(self, written):
        written[:, 2::2] *= 0.5
        return read(self, written)

    read = tracing.Reader.__call__
    monkeypatch.setattr(tracing.Reader, "__call__", half)
    with pytest.raises(ModelError, match="parts that sum"):
        trace(models["llama"], items, store=tmp_path)


def test_writes_stay_where_they_are_computed(models, items, tmp_path):
    # What is stored of a response is what heads make of its writes, and none of the writes.
    trace(models["llama"], items, store=tmp_path)
    (shard,) = tmp_path.glob("0*.safetensors")
    tensors, _ = sealed.load(shard)
    assert "write" not in tensors
    parts, depths = 2 * 2 + 2, 2 + 1  # of two layers, with embedding and constant
    assert tensors["traced"].shape == (len(items.responses), 2 * parts + 2 * depths + 1, 3)


def test_other_heads_on_the_same_backbone_are_other_traces(models, items, tmp_path):
    model = models["llama"]
    first = trace(model, items, store=tmp_path)
    other = replace(model, weight=model.weight * 2)
    with pytest.raises(StoreError, match="another taps"):
        trace(other, items, store=tmp_path)
    again = trace(other, items, store=tmp_path / "other")
    assert again["part"].values == pytest.approx(2 * first["part"].values, rel=1e-3, abs=1e-4)
