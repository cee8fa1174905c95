"""A full-size drill: an 8B ArmoRM with random weights, saved, loaded, scored and checked.

python bench/armorm_drill.py --source FOLDER [--pairs 200] [--device cuda] [--out FILE]

The checkpoint has the released layout and shape (Llama 3 8B, 19 heads, three gating layers of
1,024) and random weights; the tokenizer is a byte-level BPE trained on the texts at hand,
with Llama 3's special tokens and template. FOLDER holds hh-rlhf in its published layout.
Every invariant of the gate is checked on real prompts; time and peak memory are recorded.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoModel, LlamaConfig, PreTrainedTokenizerFast

from lib.data import load_items
from lib.extraction import align, extract
from lib.extraction.forward import forward
from lib.models import load_model
from lib.models.armorm import save_armorm
from lib.models.gating import Gate
from lib.models.names import KNOWN

HEADS, D = 19, 4096
SPECIAL = ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "[PAD]"]
TEMPLATE = (
    "{% for m in messages %}{% if loop.first %}{{ bos_token }}{% endif %}"
    "{{ '<|start_header_id|>' + m['role'] + '<|end_header_id|>\n\n' + m['content'] | trim }}"
    "{{ '<|eot_id|>' }}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)


def tokenizer(texts):
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=16000,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    raw.train_from_iterator(texts, trainer)
    made = PreTrainedTokenizerFast(
        tokenizer_object=raw, bos_token=SPECIAL[0], eos_token=SPECIAL[3], pad_token=SPECIAL[4]
    )
    made.chat_template = TEMPLATE
    return made


def build(folder, texts, device, layers):
    config = LlamaConfig(
        vocab_size=128257,
        hidden_size=D,
        intermediate_size=14336,
        num_hidden_layers=layers,
        num_attention_heads=32,
        num_key_value_heads=8,
        max_position_embeddings=8192,
        rms_norm_eps=1e-5,
        rope_theta=500000.0,
        pad_token_id=128256,
        dtype="bfloat16",
    )
    torch.manual_seed(0)
    with torch.device("meta"):
        backbone = AutoModel.from_config(config, dtype=torch.bfloat16)
    backbone = backbone.to_empty(device=device)
    with torch.no_grad():
        for parameter in backbone.parameters():
            parameter.normal_(0, 0.02) if parameter.ndim > 1 else parameter.fill_(1.0)
    backbone.rotary_emb = type(backbone.rotary_emb)(config).to(device)
    generator = np.random.default_rng(0)
    sizes = [D, 1024, 1024, 1024, HEADS]
    layers = [
        (generator.normal(0, a**-0.5, (b, a)).astype(np.float32), np.zeros(b, np.float32))
        for a, b in itertools.pairwise(sizes)
    ]
    matrix = np.eye(HEADS, dtype=np.float32)
    matrix[4] -= generator.uniform(0, 0.9, HEADS).astype(np.float32)
    matrix[4, 4] = 0
    save_armorm(
        folder,
        backbone=backbone,
        tokenizer=tokenizer(texts),
        weight=generator.normal(0, D**-0.5, (HEADS, D)).astype(np.float32),
        transform=matrix,
        gate=Gate(layers, logit_scale=1.0, temperature=10.0),
    )


def seconds(work):
    start = time.perf_counter()
    result = work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return result, round(time.perf_counter() - start, 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", required=True)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--out")
    options = parser.parse_args()
    items = load_items("hh-rlhf/harmless-base", source=options.source, limit=options.pairs)
    texts = [turn["content"] for prompt in items.prompts["prompt"] for turn in prompt]
    texts += items.responses["text"].tolist()
    with tempfile.TemporaryDirectory() as folder:
        _, built = seconds(lambda: build(folder, texts, options.device, options.layers))
        size = sum(path.stat().st_size for path in Path(folder).glob("*.safetensors"))
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        model, loaded = seconds(lambda: load_model(folder, device=options.device, dtype="bfloat16"))
        store = Path(folder) / "states"
        run, scored = seconds(lambda: extract(model, items, store=store, progress=False))
        found = check(model, items, run)
    card = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    found |= {
        "card": card,
        "command": "python bench/armorm_drill.py --source FOLDER "
        f"--pairs {options.pairs} --device {options.device} --layers {options.layers}",
        "pairs": len(items),
        "tokens": int(run["n_prompt_tokens"].values.sum() + run["n_response_tokens"].values.sum()),
        "checkpoint_gb": round(size / 1e9, 2),
        "build_and_save_s": built,
        "load_s": loaded,
        "score_s": scored,
        "peak_memory_gib": round(torch.cuda.max_memory_allocated() / 2**30, 1)
        if options.device == "cuda"
        else None,
        "torch": torch.__version__,
    }
    text = json.dumps(found, indent=1)
    print(text)
    if options.out:
        Path(options.out).write_text(text + "\n")


def check(model, items, run):
    """The invariants, each as a number beside its limit; any broken one raises."""
    score, final, gate = (run[name].values.astype(float) for name in ("score", "final", "gate"))
    hidden = run["hidden"].values.astype(float)
    owner = run["item_of_response"].values
    names = [head.name for head in model.heads]
    network = model.gate(run["gate_hidden"].values)
    encoded = [
        model.format.encode(prompt, items.responses["text"][2 * i : 2 * i + 2].tolist())
        for i, prompt in enumerate(items.prompts["prompt"])
    ]
    single = forward(model.backbone, encoded[:40], packing="padded", budget=1)
    alone = model.read(single.hidden, np.repeat(single.gate_hidden, 2, axis=0))
    spread = np.abs(alone.score - run["score"].values[: len(alone.score)]).max(axis=0)
    gap = score[0::2] - score[1::2]
    aligned = align(run)
    found = {
        "names are the released model's": names
        == list(KNOWN["RLHFlow/ArmoRM-Llama3-8B-v0.1"].heads),
        "max |sum r (g M^T) - score|": float(np.abs((score * gate[owner]).sum(1) - final).max()),
        "max |sum g - logit scale|": float(np.abs(network.sum(1) - model.gate.logit_scale).max()),
        "max |r - h W^T| (undebiased)": float(
            np.abs(hidden @ model.weight.T.astype(float) - score).max()
        ),
        "max |g M^T - coefficients|": float(np.abs(network @ model.transform.T - gate).max()),
        "M[4, 4]": float(model.transform[4, 4]),
        "gate state at <|eot_id|>": all(
            item.sequences[0][item.gate_at]
            == model.format.tokenizer.convert_tokens_to_ids("<|eot_id|>")
            for item in encoded
        ),
        "bf16 spread against one at a time, head sd (median head)": float(
            np.median(spread / score.std(axis=0))
        ),
        "tie share of gaps": float((gap == 0).mean()),
        "comparisons": len(aligned),
        "packing": run.attrs["extraction"]["packing"],
    }
    limits = {
        "max |sum r (g M^T) - score|": 1e-3,
        "max |sum g - logit scale|": 1e-5,
        "max |r - h W^T| (undebiased)": 1e-3,
        "max |g M^T - coefficients|": 1e-5,
    }
    broken = [name for name, limit in limits.items() if not found[name] <= limit]
    broken += [name for name, value in found.items() if value is False]
    if broken or found["M[4, 4]"] != 0:
        raise SystemExit(f"broken: {broken} in {json.dumps(found, indent=1)}")
    return found


if __name__ == "__main__":
    main()
