"""What is read from each token, found again with transformers' own weights and plain hooks."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import torch

from lib.effects import FINAL
from lib.errors import ModelError
from lib.mechanisms import tokens
from lib.mechanisms.tokens import token_parts
from lib.mechanisms.tracing import WITHIN
from lib.models import load_model
from lib.models.anatomy import describe

PLAIN = ("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "gpt2")
KINDS = {kind: (kind, {}) for kind in PLAIN}
KINDS["llama biases"] = ("llama", {"attention_bias": True, "mlp_bias": True})
KINDS["mistral, window"] = ("mistral", {"sliding_window": 16})


@pytest.fixture(scope="module")
def models(write_tiny, tmp_path_factory):
    made = {}
    for name, (kind, options) in KINDS.items():
        folder = tmp_path_factory.mktemp("model")
        write_tiny.write_classifier(folder, kind=kind, labels=3, **options)
        made[name] = load_model(str(folder), device="cpu")
    return made


def text(write_tiny):
    prompt, responses = write_tiny.CASES[1]
    return prompt, responses[0]


@contextlib.contextmanager
def hearing(modules, kept):
    """Inputs and outputs of modules at every token, by the number of each."""
    with contextlib.ExitStack() as stack:
        for number, module in enumerate(modules):

            def hook(_, args, output, number=number):
                made = output[0] if isinstance(output, tuple) else output
                kept[number] = (args[0] if args else None), made

            stack.callback(module.register_forward_hook(hook).remove)
        yield


def values_of(layer, given, attention):
    """Values of each attention head from the layer's own projection: (heads, tokens, width)."""
    own = layer.module.self_attn if hasattr(layer.module, "self_attn") else layer.module.attn
    # GPT-2 keeps queries, keys and values in one.
    whole = hasattr(own, "c_attn")
    made = own.c_attn(given).chunk(3, dim=-1)[2] if whole else own.v_proj(given)
    heads = attention.shape[0]
    width = layer.out_weight().shape[1] // heads
    made = made.reshape(len(given), -1, width).transpose(0, 1)
    return made.repeat_interleave(heads // len(made), dim=0)


def again(model, ids):
    """Reads of each token: the model's own modules on one weighted value at a time."""
    backbone, anatomy = model.backbone, describe(model.backbone)
    entered, ended = {}, {}
    own = [
        layer.module.self_attn if hasattr(layer.module, "self_attn") else layer.module.attn
        for layer in anatomy.layers
    ]
    inner = [a.v_proj if hasattr(a, "v_proj") else a.c_attn for a in own]
    outs = {}
    backbone.set_attn_implementation("eager")
    with (
        torch.inference_mode(),
        hearing(inner, entered),
        hearing([layer.out for layer in anatomy.layers], outs),
        hearing([anatomy.final], ended),
    ):
        found = backbone(input_ids=torch.from_numpy(ids)[None], output_attentions=True)
    with torch.inference_mode():  # unheard from here on
        state, normed = ended[0][0][0, -1], ended[0][1][0, -1]
        shift = anatomy.final.bias if anatomy.norm.centred else 0.0
        centred = state - state.mean() if anatomy.norm.centred else state
        final = (normed - shift) / centred  # the norm as the linear map that it is here
        weight = torch.from_numpy(model.weight)
        reads = torch.zeros(len(ids), len(weight))
        for number, layer in enumerate(anatomy.layers):
            attention = found.attentions[number][0]
            values = values_of(layer, entered[number][0][0], attention)
            nothing = layer.out(torch.zeros_like(outs[number][0][0, -1]))
            for t in range(len(ids)):
                one = (attention[:, -1, t, None] * values[:, t]).flatten()
                write = layer.out(one) - nothing
                if layer.posted is not None:
                    whole = outs[number][1][0, -1]
                    write = write * layer.attention(whole) / whole
                if anatomy.norm.centred:
                    write = write - write.mean()
                reads[t] += weight @ (final * write)
    return reads.numpy()


@pytest.mark.parametrize("name", KINDS)
def test_what_is_read_of_each_token_is_what_the_models_own_modules_make_of_it(
    name, models, write_tiny
):
    model = models[name]
    prompt, response = text(write_tiny)
    found = token_parts(model, prompt, response)
    right = again(model, model.format.encode(prompt, [response]).sequences[0])
    part = found["part"].values.copy()
    part[-1] = found["own"].sel(what="attention to itself").values
    assert part == pytest.approx(right, abs=2e-4 * float(np.abs(right).max()))


@pytest.mark.parametrize("name", KINDS)
def test_tokens_and_constant_sum_to_the_reward(name, models, write_tiny):
    model = models[name]
    prompt, response = text(write_tiny)
    found = token_parts(model, prompt, response)
    ids = model.format.encode(prompt, [response]).sequences[0]
    with torch.inference_mode():
        states = model.backbone(input_ids=torch.from_numpy(ids)[None]).last_hidden_state
    right = model.read(states[0, -1:].numpy()).score[0]
    total = (found["part"].sum("token") + found["constant"]).values
    assert total == pytest.approx(right, abs=WITHIN * float(np.abs(found["part"]).max()))
    assert found["own"].sum("what").values == pytest.approx(found["part"].values[-1])


def test_a_gated_models_final_score_is_read_at_its_own_coefficients(write_tiny, tmp_path):
    write_tiny.write_armorm(tmp_path / "model", heads=5)
    model = load_model(str(tmp_path / "model"), device="cpu")
    found = token_parts(model, *text(write_tiny))
    assert found["head"].values[-1] == FINAL
    total = (found["part"].sum("token") + found["constant"]).sel(head=FINAL)
    final = float(found["score"].sel(head=FINAL))
    assert float(total) == pytest.approx(final, abs=1e-4 * float(np.abs(found["part"]).max()))


def test_tokens_are_named_by_their_text_and_place(models, write_tiny):
    model = models["llama"]
    prompt, response = text(write_tiny)
    found = token_parts(model, prompt, response)
    item = model.format.encode(prompt, [response])
    assert (found["place"] == "prompt").sum() == item.n_prompt
    whole = "".join(found["text"].values)
    assert response in whole and prompt[-1]["content"] in whole


def test_the_backbone_attends_as_before(models, write_tiny):
    backbone = models["llama"].backbone
    backbone.set_attn_implementation("sdpa")
    hooks = [len(module._forward_hooks) for module in backbone.modules()]
    token_parts(models["llama"], *text(write_tiny))
    assert backbone.config._attn_implementation == "sdpa"
    assert [len(module._forward_hooks) for module in backbone.modules()] == hooks


def test_a_wrong_weight_is_an_error(models, write_tiny, monkeypatch):
    whole = tokens._listening

    def heard(module, *arguments, **options):
        found = whole(module, *arguments, **options)
        weights, values = tokens._heard.get()[module.layer_idx]
        tokens._heard.get()[module.layer_idx] = weights * 0.5, values
        return found

    monkeypatch.setitem(tokens.ALL_ATTENTION_FUNCTIONS, tokens.LISTENING, heard)
    with pytest.raises(ModelError, match="parts of tokens that sum"):
        token_parts(models["llama"], *text(write_tiny))
