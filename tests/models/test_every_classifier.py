"""Every sequence classifier of transformers: our scores are its own, or its pooling is named.

The list is in the ids of the tests: ``pytest tests/models -k every_classifier -v``.
"""

from __future__ import annotations

import numpy as np
import pytest
import tiny
import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES as CLASSES,
)

from lib.errors import ModelError
from lib.extraction.forward import forward
from lib.models import load_model, pooling

LABELS = 3
WIDTH, LAYERS, OF_A_HEAD, INNER, ROOM = 32, 2, 16, 48, 256
# By whatever name a configuration has them.
NAMES = {
    WIDTH: "hidden_size d_model n_embd dim emb_dim embedding_size d_latents",
    LAYERS: "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers "
    "num_decoder_layers num_attention_heads n_head n_heads num_heads num_key_value_heads "
    "encoder_attention_heads decoder_attention_heads num_experts_per_tok type_vocab_size "
    "eos_token_id",
    OF_A_HEAD: "head_dim d_kv d_head v_head_dim q_lora_rank kv_lora_rank",
    INNER: "intermediate_size n_inner hidden_dim d_ff dff ffn_dim encoder_ffn_dim d_inner "
    "decoder_ffn_dim ffn_hidden_size moe_intermediate_size shared_expert_intermediate_size",
    ROOM: "max_position_embeddings n_positions n_ctx max_seq_len",
    8: "qk_rope_head_dim qk_nope_head_dim",
    4: "num_local_experts n_routed_experts num_experts",
    1: "n_group topk_group n_shared_experts first_k_dense_replace bos_token_id",
    0: "pad_token_id",
    400: "vocab_size",
    0.3: "initializer_range init_std",
}
SIZES = {name: size for size, names in NAMES.items() for name in names.split()}
MIXED = {"layer_types": ["linear_attention", "full_attention"]}
HYBRID = {
    "num_hidden_layers": 3,
    "layers_block_type": ["linear_attention", "hybrid", "hybrid"],
    "mamba_d_state": 8,
}
# What some need besides.
MORE = {
    "axk1": {"head_dim": 8},
    "deepseek_v3": {"head_dim": 8},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "gptj": {"rotary_dim": 8},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "qwen3_next": MIXED,
    "qwen3_5_text": MIXED,
    "qwen3_5": {"text_config": MIXED},
    "zamba": HYBRID,
    "zamba2": HYBRID | {"n_mamba_heads": 2, "chunk_size": 16},
    "t5gemma2": {"encoder": {"text_config": {"hidden_size": WIDTH, "vocab_size": 400}}},
    "mobilebert": {"initializer_range": 0.02},
    "layoutlmv3": {"coordinate_size": 5, "shape_size": 6},
    "lilt": {"hidden_size": 48},
    "luke": {"entity_vocab_size": 10},
    "perceiver": {"num_latents": 8, "num_blocks": 1, "num_self_attends_per_block": 1},
    "roc_bert": {"shape_vocab_size": 20, "pronunciation_vocab_size": 20},
    "reformer": {
        "axial_pos_embds": False,
        "attn_layers": ["local", "local"],
        "attention_head_size": 16,
        "feed_forward_size": 48,
    },
    "t5": {"decoder_start_token_id": 0},
    "mt5": {"decoder_start_token_id": 0},
    "umt5": {"decoder_start_token_id": 0},
    "xmod": {"default_language": "en_XX"},
}
# Where the gradient of a score reaches the states, by the name of the pooling.
REACHED = {
    "the first token's state, through a pooler": "first",
    "the first token's state, through further layers": "first",
    "the decoder's state at the last end-of-sequence token, through further layers": "end",
    "the decoder's state at its last token, beside an encoder's": "last",
    "the last token's state, through further layers": "last",
}
# Not to be had of these: no such state, or only a training pass has gradients.
UNREACHED = ("canine", "reformer", "t5gemma2")


def small(kind: str):
    """A configuration of two narrow layers."""
    made = CONFIG_MAPPING[kind]
    default, aliases = made(), getattr(made, "attribute_map", {})

    def of(config) -> dict:
        known = config.to_dict()
        return {k: v for k, v in SIZES.items() if k in known and k not in aliases}

    subs = {name: getattr(default, name, None) for name in getattr(made, "sub_configs", {})}
    options = of(default) | {name: of(sub) for name, sub in subs.items() if sub is not None}
    for key, value in MORE.get(kind, {}).items():
        options[key] = options[key] | value if isinstance(value, dict) else value
    return made(**options, num_labels=LABELS)


def outcome(kind: str) -> str:
    name = pooling.NAMES.get(kind)
    return f"refused: {name}" if name else "equal"


@pytest.mark.parametrize("kind", [pytest.param(k, id=f"{k} {outcome(k)}") for k in CLASSES])
def test_every_classifier_is_read_as_its_class_reads_or_refused_by_its_pooling(kind, tmp_path):
    if outcome(kind) == "equal":
        assert_equal(kind, tmp_path)
    else:
        assert_refused(kind, tmp_path)


def assert_equal(kind, folder):
    torch.manual_seed(0)
    theirs = getattr(transformers, CLASSES[kind])(small(kind)).eval()
    theirs.save_pretrained(folder)
    tiny.tokenizer().save_pretrained(folder)
    model = load_model(str(folder), device="cpu")
    items = [model.format.encode(*case) for case in tiny.CASES]
    ours = model.read(forward(model.backbone, items, "padded", budget=1).hidden).score
    ids = [torch.from_numpy(ids)[None] for item in items for ids in item.sequences]
    with torch.no_grad():
        expected = np.concatenate([theirs(input_ids=each).logits.numpy() for each in ids])
    sd = expected.std(axis=0)
    assert (sd > 0.01).all()
    assert (np.abs(ours - expected) <= 1e-4 * sd).all()


def assert_refused(kind, folder):
    name = pooling.NAMES[kind]
    config = small(kind)
    config.save_pretrained(folder)
    tiny.tokenizer().save_pretrained(folder)
    save_file({"classifier.weight": torch.zeros(LABELS, WIDTH)}, folder / "model.safetensors")
    with pytest.raises(ModelError) as caught:
        load_model(str(folder), device="cpu")
    assert caught.value.found == f"{kind}, whose classifier passes {name}"
    if name in REACHED and kind not in UNREACHED:
        assert reached(kind, config) == REACHED[name]


def reached(kind, config) -> str:
    """At which of twenty tokens, of which the tenth ends a sequence, a score reads a state."""
    torch.manual_seed(0)
    theirs = getattr(transformers, CLASSES[kind])(config).eval()
    ids = torch.arange(20, 40)[None]
    ids[0, 10] = getattr(config.get_text_config(), "eos_token_id", None) or 5
    kept = []
    theirs.base_model.register_forward_hook(lambda m, a, out: kept.append(out[0]))
    score = theirs(input_ids=ids).logits[0, 0]
    (gradient,) = torch.autograd.grad(score, kept[-1])
    return {(0,): "first", (10,): "end", (19,): "last"}.get(
        tuple(gradient[0].abs().sum(-1).nonzero()[:, 0].tolist()), "elsewhere"
    )


def test_every_classifier_of_the_table_is_one_of_transformers():
    assert pooling.NAMES.keys() <= CLASSES.keys()
    assert CLASSES.keys() >= set(pooling.LAST.split())
    assert not pooling.NAMES.keys() & set(pooling.LAST.split())


def test_an_encoder_without_such_a_class_is_no_decoder():
    config = AutoConfig.for_model("clip_text_model")
    assert pooling.pooling(config) == pooling.UNKNOWN
    assert pooling.pooling(AutoConfig.for_model("granite")) == ""
