"""How fast items go through a reward model, against the ordinary ways, in one run.

python bench/extraction.py --source FOLDER [--device cpu|cuda] [--model embedded|armorm-8b]
                           [--n 100] [--repeats 3] [--sets hh-rlhf rm-bench] [--json]

FOLDER holds hh-rlhf and rm-bench in their published layouts (``FOLDER/hh-rlhf/…``). One at
a time, padded 32 in the order of the data, length-sorted padded, and ours run over the same
tokens, interleaved; each figure is the shortest of ``--repeats``. ``armorm-8b`` has the
shape of an ArmoRM on Llama 3 8B, random weights made on the device and a tokenizer trained
on the texts at hand. The table goes to stderr; ``--json`` prints one object to stdout.

The share of the limit is that of the card's matmul rate which the products that must be
computed would need: of tokens that responses share once, of the last layer's MLP those of the
tokens that are read, none of attention. The rate is the best of a few short products, on the
model's own shapes; ``share_of_held`` is of the rate that the card holds when it does one
model's products for seconds, at the power that it is allowed.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable

import numpy as np
import torch

from lib.data import load_items
from lib.extraction import attention, pack
from lib.extraction.forward import default_budget, forward, row_step
from lib.models.prompt import EncodedItem, PromptFormat

PARTS = {"hh-rlhf": "hh-rlhf", "rm-bench": "rm-bench/safety-refuse"}
SORTED = {
    "cpu": {"sorted 8": (8, None), "sorted 16": (16, None)}
    | {f"sorted {n:,} tokens": (None, n) for n in (1024, 2048)},
    "cuda": {"sorted 32": (32, None)} | {f"sorted {n:,} tokens": (None, n) for n in (8192, 16384)},
}
TEMPLATE = (
    "{% for m in messages %}{% if loop.first %}{{ bos_token }}{% endif %}"
    "{{ '<|start_header_id|>' + m['role'] + '<|end_header_id|>\n\n' + m['content'] | trim }}"
    "{{ '<|eot_id|>' }}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)


def main() -> None:
    options = arguments()
    torch.manual_seed(0)
    datasets = {
        name: load_items(PARTS[name], source=f"{options.source}/{name}", limit=options.n)
        for name in options.sets
    }
    backbone, format = model(options, datasets.values())
    limit, held = matmul_rate(backbone), held_rate(backbone)
    say(
        f"{card(backbone)}; {options.model}; matmul {limit / 1e12:.3f} TFLOP/s, "
        f"held {held / 1e12:.3f}"
    )
    found = {
        "card": card(backbone),
        "model": options.model,
        "matmul_tflops": limit / 1e12,
        "held_tflops": held / 1e12,
    }
    for name, items in datasets.items():
        texts = items.responses.groupby("item", sort=False)["text"].apply(list)
        start = time.perf_counter()
        encoded = format.encode_many(
            items.prompts["prompt"], [texts[item] for item in items.prompts["item"]]
        )
        host = time.perf_counter() - start
        found[name] = compare(backbone, encoded, (limit, held), options)
        found[name]["encoding_s_per_1000"] = 1000 * host / len(encoded)
    if options.json:
        print(json.dumps(found))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", required=True)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--model", choices=["embedded", "armorm-8b"], default="embedded")
    parser.add_argument("--sets", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--n", type=int, default=100, help="items of each set")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--slow-repeats", type=int, help="of one at a time and padded 32")
    parser.add_argument("--budgets", type=int, nargs="+", help="tokens a row of ours")
    parser.add_argument("--no-compile", action="store_true", help="of decoder layers, on cuda")
    parser.add_argument("--layers", type=int, default=32, help="of armorm-8b")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# The models.


def model(options, datasets) -> tuple[torch.nn.Module, PromptFormat]:
    if options.model == "embedded":
        from lib.models.backbone import END_OF_TURN, load_embedded

        dtype = torch.float32 if options.device == "cpu" else torch.bfloat16
        backbone, tokenizer = load_embedded(options.device, dtype)
        return backbone, PromptFormat(tokenizer, options.model, END_OF_TURN)
    from transformers import AutoModel, LlamaConfig

    config = LlamaConfig(
        vocab_size=128256,
        hidden_size=4096,
        intermediate_size=14336,
        num_hidden_layers=options.layers,
        num_attention_heads=32,
        num_key_value_heads=8,
        max_position_embeddings=8192,
        rope_parameters={"rope_type": "default", "rope_theta": 500000.0},
    )
    with torch.device(options.device):
        backbone = AutoModel.from_config(config, dtype=torch.bfloat16)
    texts = [text for items in datasets for text in items.responses["text"]]
    texts += [turn["content"] for i in datasets for p in i.prompts["prompt"] for turn in p]
    return backbone.eval().requires_grad_(False), PromptFormat(trained(texts), options.model)


def trained(texts: list[str]):
    """A byte-level BPE with Llama 3's special tokens: about as many tokens as Llama's own."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    special = ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
    raw.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=16000,
            special_tokens=special,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=raw, bos_token=special[0], eos_token=special[3]
    )
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def card(backbone: torch.nn.Module) -> str:
    device = next(backbone.parameters()).device
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{platform.processor() or platform.machine()}, {torch.get_num_threads()} thread(s)"


# What the card can do.


def matmul_rate(backbone: torch.nn.Module) -> float:
    """Floating-point operations a second of matrix products, the best of a few shapes."""
    weight = next(backbone.parameters())
    d, f = backbone.config.hidden_size, backbone.config.intermediate_size
    shapes = [(1024, d, f), (2048, f, d)]
    if weight.device.type == "cuda":
        shapes = [(16384, d, f), (16384, f, d), (8192, 8192, 8192)]
    best = 0.0
    for m, k, n in shapes:
        a = torch.randn(m, k, dtype=weight.dtype, device=weight.device)
        b = torch.randn(k, n, dtype=weight.dtype, device=weight.device)
        fastest = min(timed(lambda a=a, b=b: [a @ b for _ in range(10)], a) for _ in range(5))
        best = max(best, 10 * 2 * m * k * n / fastest)
    return best


def held_rate(backbone: torch.nn.Module, seconds: float = 4.0) -> float:
    """The same over one layer's products after another, for so long."""
    weight = next(backbone.parameters())
    tokens = 16384 if weight.device.type == "cuda" else 1024
    linear = linear_of(backbone.layers[0])
    inputs = {
        n: torch.randn(tokens, n, dtype=weight.dtype, device=weight.device)
        for n in {m.in_features for m in linear}
    }
    operations = 2 * tokens * weights_of(linear)
    done, taken = 0.0, 0.0
    with torch.inference_mode():
        for m in linear:
            m(inputs[m.in_features])
        while taken < seconds:
            taken += timed(lambda: [m(inputs[m.in_features]) for m in 8 * linear], weight)
            done += 8 * operations
    return done / taken


def operations(backbone: torch.nn.Module, tokens: int, reads: int) -> float:
    """Of the linear layers, twice their weights a token; of the last MLP for reads alone."""

    last = weights_of(linear_of(backbone.layers[-1].mlp))
    return 2.0 * (tokens * (weights_of(linear_of(backbone)) - last) + reads * last)


def linear_of(module: torch.nn.Module) -> list[torch.nn.Linear]:
    return [m for m in module.modules() if isinstance(m, torch.nn.Linear)]


def weights_of(layers: list[torch.nn.Linear]) -> int:
    return sum(layer.weight.numel() for layer in layers)


def timed(call: Callable[[], object], on: torch.Tensor) -> float:
    wait(on)
    start = time.perf_counter()
    call()
    wait(on)
    return time.perf_counter() - start


def wait(on: torch.Tensor) -> None:
    if on.device.type == "cuda":
        torch.cuda.synchronize(on.device)


# The ways.


def in_order(lengths: list[int]) -> list[list[int]]:
    return [list(range(i, min(i + 32, len(lengths)))) for i in range(0, len(lengths), 32)]


def by_length(lengths: list[int], size: int | None, tokens: int | None) -> list[list[int]]:
    if tokens:
        return pack.plan_batches(lengths, tokens)
    order = np.argsort(-np.asarray(lengths), kind="stable").tolist()
    return [order[i : i + size] for i in range(0, len(order), size)]


def padded(backbone, sequences: list[np.ndarray], batches: list[list[int]]) -> torch.Tensor:
    """The states of all sequences, in order, by ordinary padded batches."""
    device = next(backbone.parameters()).device
    found: list = [None] * len(sequences)
    with torch.inference_mode():
        for batch in batches:
            width = max(len(sequences[i]) for i in batch)
            ids = np.zeros((len(batch), width), np.int64)
            mask = np.zeros_like(ids)
            for row, i in enumerate(batch):
                ids[row, : len(sequences[i])] = sequences[i]
                mask[row, : len(sequences[i])] = 1
            last = attention.to_device(mask.sum(1) - 1, device)
            mask = None if mask.all() else attention.to_device(mask, device)
            states = backbone(
                input_ids=attention.to_device(ids, device), attention_mask=mask, use_cache=False
            ).last_hidden_state
            read = states[torch.arange(len(batch), device=device), last]
            for i, state in zip(batch, read, strict=True):
                found[i] = state
    return torch.stack(found).float().cpu()


def compare(backbone, items: list[EncodedItem], rates: tuple[float, float], options) -> dict:
    sequences = [ids for item in items for ids in item.sequences]
    lengths = [len(ids) for ids in sequences]
    weight = next(backbone.parameters())
    kind = weight.device.type
    batches = {
        "one at a time": [[i] for i in range(len(sequences))],
        "padded 32": in_order(lengths),
        **{name: by_length(lengths, *how) for name, how in SORTED[kind].items()},
    }
    ways: dict[str, Callable[[], torch.Tensor]] = {
        name: lambda b=b: padded(backbone, sequences, b) for name, b in batches.items()
    }
    tokens = {
        name: sum(len(b) * max(lengths[i] for i in b) for b in rows)
        for name, rows in batches.items()
    }
    compiled = kind == "cuda" and not options.no_compile
    reduced = [pack.distinct(item)[0] for item in items]
    needed = {}
    for budget in options.budgets or [default_budget(backbone)]:
        name = f"ours {budget:,}"

        def ours(budget=budget, name=name) -> torch.Tensor:
            found = forward(backbone, items, budget=budget, compiled=compiled)
            tokens[name] = found.tokens
            return torch.from_numpy(found.hidden)

        ways[name] = ours
        rows = pack.plan_trees(reduced, budget, row_step(budget) if kind == "cuda" else 1)
        needed[name] = sum(pack.length([reduced[i] for i in row]) for row in rows)
    seconds, peak, states = measure(ways, weight, options)
    best = min((name for name in needed), key=seconds.get)
    ordered = min((name for name in ways if name.startswith("sorted")), key=seconds.get)
    baseline = min((name for name in ways if name not in needed), key=seconds.get)
    reads = sum(1 + len(item.sequences) for item in reduced)
    rate = operations(backbone, needed[best], reads) / seconds[best]
    share, share_of_held = (rate / limit for limit in rates)
    reference = states["one at a time"]
    say(f"\n{len(items)} items, {len(sequences)} responses, {sum(lengths):,} tokens")
    say(f"{'':24}{'s / 1,000 items':>16}{'tokens':>12}{'× ours':>8}{'peak GB':>9}{'states':>10}")
    for name in ways:
        error = float((states[name] - reference).norm() / reference.norm())
        say(
            f"{name:24}{1000 * seconds[name] / len(items):16.2f}{tokens[name]:12,}"
            f"{seconds[name] / seconds[best]:8.2f}{peak[name]:9.2f}{error:10.1e}"
        )
    say(
        f"{share:.1%} of the limit, {share_of_held:.1%} of what the card holds, "
        f"on the {needed[best]:,} tokens that must be computed"
    )
    return {
        "items": len(items),
        "vs_single": seconds["one at a time"] / seconds[best],
        "vs_padded": seconds["padded 32"] / seconds[best],
        "vs_sorted": seconds[ordered] / seconds[best],
        "vs_best": seconds[baseline] / seconds[best],
        "share_of_limit": share,
        "share_of_held": share_of_held,
        "best": best,
        "baseline": baseline,
        "seconds_per_1000": {name: 1000 * s / len(items) for name, s in seconds.items()},
        "tokens": tokens | {"needed": needed[best]},
        "peak_gb": peak,
    }


def measure(ways, weight: torch.Tensor, options) -> tuple[dict, dict, dict]:
    """Shortest seconds, peak GB and states of each way; the ways take turns."""
    few = options.slow_repeats or options.repeats
    seconds, peak, states = {}, {}, {}
    for name in (name for name in ways if name.startswith("ours")):
        start = time.perf_counter()
        ways[name]()
        say(f"{name}: {time.perf_counter() - start:.1f} s the first time")
    for turn in range(max(options.repeats, few)):
        for name, way in ways.items():
            if turn >= (few if name in ("one at a time", "padded 32") else options.repeats):
                continue
            if weight.device.type == "cuda":
                torch.cuda.reset_peak_memory_stats()
            took = timed(lambda way=way, name=name: states.update({name: way()}), weight)
            seconds[name] = min(took, seconds.get(name, np.inf))
            peak[name] = peak_gb(weight)
    return seconds, peak, states


def peak_gb(weight: torch.Tensor) -> float:
    """The card's peak since it was reset; on CPU the process's peak so far."""
    if weight.device.type == "cuda":
        return torch.cuda.max_memory_allocated() / 1e9
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


if __name__ == "__main__":
    main()
