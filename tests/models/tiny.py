"""Tiny random checkpoints in the layouts that are released, for tests.

Everything is drawn from a seed, with wide weights: the default initialisation of a tiny
model makes all states alike, and then nothing can be seen to go wrong.
"""

from __future__ import annotations

import functools
import itertools
import json
from pathlib import Path

import numpy as np
import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    PreTrainedTokenizerFast,
)

from lib.models.armorm import Gate, save_armorm
from lib.models.cut import cut
from lib.models.sae import SAE, Reward
from lib.models.sarm import save_sarm

D = 32
BOS, START, END, EOT = (
    "<|begin_of_text|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
)
HEADER = f"{START}assistant{END}\n\n"
PATTERN = EOT + HEADER
# As Llama 3's: BOS once, then each turn in a header and closed by EOT.
LLAMA = (
    "{% for m in messages %}{% if loop.first %}{{ bos_token }}{% endif %}"
    "{{ '<|start_header_id|>' + m['role'] + '<|end_header_id|>\n\n' }}"
    "{{ m['content'] | trim }}{{ '<|eot_id|>' }}{% endfor %}"
)
OPENS_WHEN_ASKED = LLAMA + "{% if add_generation_prompt %}{{ '" + HEADER + "' }}{% endif %}"
NEVER_OPENS = LLAMA
BARE = "{% for m in messages %}{{ m['content'] + '<|eot_id|>' }}{% endfor %}"
ALWAYS_OPENS = LLAMA + "{{ '" + HEADER + "' }}"
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + "
    "'<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
MISTRAL = (
    "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'user' %}"
    "{{ '[INST] ' + m['content'] + ' [/INST]' }}{% else %}"
    "{{ ' ' + m['content'] + eos_token }}{% endif %}{% endfor %}"
)

KINDS = {
    "llama": {"num_key_value_heads": 2},
    "mistral": {"num_key_value_heads": 2, "sliding_window": None},
    "qwen2": {"num_key_value_heads": 2},
    "qwen3": {"num_key_value_heads": 2, "head_dim": 8},
    "gemma2": {
        "num_key_value_heads": 2,
        "head_dim": 8,
        "query_pre_attn_scalar": 8,
        "attn_logit_softcapping": 2.0,
        "sliding_window": 4096,
    },
    "gemma": {"num_key_value_heads": 2, "head_dim": 8},
    "gemma3_text": {
        "num_key_value_heads": 2,
        "head_dim": 8,
        "query_pre_attn_scalar": 8,
        "sliding_window": 4096,
    },
    "gpt2": {},
    "gpt_neox": {"rotary_pct": 0.5},
}

USER = [{"role": "user", "content": "Name three words for beautiful, please."}]
DIALOGUE = [
    {"role": "system", "content": "You are terse."},
    {"role": "user", "content": "What is the capital of France?"},
    {"role": "assistant", "content": "Paris.\n\nIt lies on the Seine."},
    {"role": "user", "content": "And of Spain?"},
]
CASES = [
    (USER, ["Pretty, lovely, fair.", "No."]),
    (DIALOGUE, ["Madrid, in the middle of the country, since 1561.", "Madrid.", "I won't say"]),
    ([{"role": "user", "content": "Hi"}], ["Hello there, how can I help you today? " * 4]),
]


@functools.cache
def _trained() -> str:
    tokenizer = Tokenizer(models.BPE())
    # Line breaks stay together whatever follows, as in Llama 3.
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\s*[\r\n]+| ?\S+|\s+"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    texts = [turn["content"] for prompt, _ in CASES for turn in prompt]
    texts += [text for _, responses in CASES for text in responses] + ["assistant\n\nuser\n\n"]
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<pad>", "<s>", "</s>", BOS, START, END, EOT, "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(texts * 3, trainer)
    return tokenizer.to_str()


def tokenizer(template: str | None = OPENS_WHEN_ASKED, **special) -> PreTrainedTokenizerFast:
    """A byte-level BPE with Llama 3's special tokens; its pad token is its EOS."""
    special = {"bos_token": BOS, "eos_token": EOT, "pad_token": EOT} | special
    made = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(_trained()), **special)
    if template:
        made.chat_template = template
    return made


def config(kind: str = "llama", **changes):
    """Of a two-layer model."""
    common = {
        "hidden_size": D,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": 512,
        "vocab_size": 400,
        "pad_token_id": 0,
    }
    return AutoConfig.for_model(kind, **common | KINDS[kind] | changes)


def widen(module: torch.nn.Module, seed: int = 0) -> torch.nn.Module:
    """Weights drawn wide enough for states to differ."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(module.named_parameters()):
            if parameter.ndim > 1:
                parameter.normal_(0, 1.2 / D**0.5, generator=generator)
                if "emb" in name or "wte" in name or "wpe" in name:
                    parameter.mul_(3)
            else:
                parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.1)
    return module.eval()


def backbone(kind: str = "llama", *, seed: int = 0, **changes) -> torch.nn.Module:
    """A tiny random transformer."""
    return widen(AutoModel.from_config(config(kind, **changes)), seed)


def head(
    heads: int = 19, *, features: int = D, hidden: int = 16, depth: int = 3, seed: int = 0
) -> dict:
    """W, M and a gate that discriminates, with a row of M as debiasing makes it."""
    rng = np.random.default_rng(seed)
    sizes = [features, *[hidden] * depth, heads]
    layers = [
        (
            rng.normal(0, 1.8 / np.sqrt(a), (b, a)).astype(np.float32),
            rng.normal(0, 0.5, b).astype(np.float32),
        )
        for a, b in itertools.pairwise(sizes)
    ]
    transform = np.eye(heads, dtype=np.float32)
    row = min(4, heads - 1)
    transform[row] -= rng.uniform(0, 0.9, heads).astype(np.float32)
    transform[row, row] = 0
    return {
        "weight": rng.normal(0, 1 / np.sqrt(features), (heads, features)).astype(np.float32),
        "transform": transform,
        "gate": Gate(layers, logit_scale=1.25, temperature=10.0),
    }


def write_armorm(
    folder: Path,
    *,
    kind: str = "llama",
    heads: int = 19,
    template: str | None = OPENS_WHEN_ASKED,
    names: list[str] | None = None,
    dtype: torch.dtype = torch.float32,
    max_shard_size: str = "5GB",
    depth: int = 3,
    **changes,
) -> tuple[torch.nn.Module, dict]:
    """An ArmoRM-shaped checkpoint in ``folder``; returns its backbone and its head."""
    module, arrays = backbone(kind, **changes).to(dtype), head(heads, depth=depth)
    save_armorm(
        folder,
        backbone=module,
        tokenizer=tokenizer(template),
        names=names,
        max_shard_size=max_shard_size,
        **arrays,
    )
    return module, arrays


def write_classifier(
    folder: Path,
    *,
    kind: str = "llama",
    labels: int = 1,
    names: list[str] | None = None,
    template: str | None = OPENS_WHEN_ASKED,
    tokens: PreTrainedTokenizerFast | None = None,
    **changes,
) -> torch.nn.Module:
    """A classifier as transformers writes it; returns transformers' own model."""
    changes |= {"num_labels": labels} if names is None else {"id2label": dict(enumerate(names))}
    module = widen(AutoModelForSequenceClassification.from_config(config(kind, **changes)))
    module.save_pretrained(folder)
    (tokens or tokenizer(template)).save_pretrained(folder)
    return module


def write_sarm(folder: Path, topk: bool, *, latents: int = 96, k: int = 5, **changes) -> None:
    """SARM's layout: a reward of an autoencoder's latents at the second of four layers."""
    part = cut(backbone(num_hidden_layers=4, **changes), 2)
    rng = np.random.default_rng(3)
    shapes = (latents, D), (D, latents), D, latents, latents
    *parts, weight = (rng.normal(0, 1, shape).astype(np.float32) for shape in shapes)
    reward = Reward(SAE(*parts, k), weight, topk)
    save_sarm(folder, backbone=part, tokenizer=tokenizer(), reward=reward)


def edit(path: Path, **changes) -> None:
    """Change entries of a JSON file; ``None`` takes one out."""
    document = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({k: v for k, v in document.items() if v is not None}))
