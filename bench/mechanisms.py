"""How fast parts of a model are patched, against reward-lens, on the same pairs in one run.

REWARD_LENS=FOLDER python bench/mechanisms.py [--source FOLDER] [--device cpu|cuda]
                           [--shape embedded|8b] [--pairs 4] [--repeats 1] [--json]

All nodes of a pair, each layer's attention and MLP, in three modes: noising, denoising, zero.

- ``reward-lens``: its ``patch_all_components``, one mode after another, a whole run for each node.
- ``ours, as published``: the same effects (left alignment, all positions, the better response).
- ``ours``: what the pages use (both ends, the response's positions, both responses).

REWARD_LENS names an unpacked wheel of reward-lens 2.0.1, which is no dependency. Both tools are
given one module, so weights, number type and attention are the same; their effects are compared.
Without ``--source`` pairs are of stimuli/cascade, else single turns of hh-rlhf in that folder.
``embedded`` is SmolLM2-135M with its own weights, ``8b`` has Llama 3 8B's shape and random ones;
the reward's head is random. float32 on a CPU, bfloat16 on a GPU. Beside it: how long the trace of
all components takes, of the same extraction without it. The table goes to stderr, ``--json``
prints one object to stdout.

Wall and processor seconds are the shortest of ``--repeats``. Memory is the most that is held: on a
GPU by torch, on a CPU by the process, which has the weights. ``seconds`` of ours are without the
digest of the weights that names a run.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable

import numpy as np
import torch
from extraction import card, say, trained, wait

from lib.data import load_items
from lib.data.items import Builder
from lib.extraction import extract
from lib.mechanisms import patching
from lib.mechanisms.tracing import trace
from lib.models.base import Head
from lib.models.classifier import Classifier
from lib.models.prompt import PromptFormat

MODES = ("noising", "denoising", "zero")
SHAPE_8B = {
    "vocab_size": 128256,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 8192,
    "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0},
}
# Ends with the token that is read, for both tools.
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' }}"
    "{% if not loop.last or add_generation_prompt %}{{ '\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
THEIRS, PUBLISHED, OURS = "reward-lens", "ours, as published", "ours"


class Same(Classifier):
    """A classifier made in memory; its parts are named without reading 16 GB of weights."""

    @property
    def fingerprint(self) -> dict[str, str]:
        names = ("backbone", "configuration", "tokenizer", "template", "tokens", "heads")
        return dict.fromkeys(names, "bench")


def main() -> None:
    options = arguments()
    torch.manual_seed(0)
    items = pairs(options)
    whole, tokenizer, model = made(options, items)
    weight = whole.score.weight
    say(f"{card(model.backbone)}; {options.shape}, {weight.dtype}; {len(items)} pairs")
    theirs = package(whole, tokenizer)
    same_tokens(theirs, model, items)
    common = {"modes": list(MODES)}
    published = {"alignment": patching.LEFT, "positions": "all", "sides": ["better"]}
    ways: dict[str, Callable] = {
        THEIRS: lambda: published_effects(theirs, items),
        PUBLISHED: lambda: patching.patch(model, items, **common, **published),
        OURS: lambda: patching.patch(model, items, **common),
    }
    found, effects = measured(ways, weight, options.repeats)
    margin = effects[PUBLISHED]["margin"].values[:, 0]
    own = -effects[PUBLISHED]["effect"].values[:, :, :-1, 0]
    away = float(np.abs(own - effects[THEIRS]).max())
    about = {
        "card": card(model.backbone),
        "shape": options.shape,
        "dtype": str(weight.dtype).removeprefix("torch."),
        "pairs": len(items),
        "tokens": int(sum(len(ids) for ids in sequences(model, items))),
        "nodes": own.shape[2],
        "modes": list(MODES),
        "load_before": round(os.getloadavg()[0], 2),
        "ways": found,
        "times_faster": {
            name: {key: found[THEIRS][key] / found[name][key] for key in ("seconds", "cpu_seconds")}
            for name in (PUBLISHED, OURS)
        },
        "effects_apart": away,
        "margins_rms": float(np.sqrt((margin**2).mean())),
        "trace": traced(model, items, options),
    }
    for name, row in found.items():
        say(
            f"{name:20} {row['seconds']:9.2f} s {row['cpu_seconds']:9.2f} s of processor "
            f"{row['peak_gib']:7.2f} GiB"
        )
    say(
        f"times faster: {about['times_faster']}; effects differ by {away:.2g} at most, of margins "
        f"{about['margins_rms']:.2g}; trace {about['trace']}"
    )
    if options.json:
        print(json.dumps(about))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", help="folder of hh-rlhf; stimuli/cascade without it")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--shape", choices=["embedded", "8b"], default="embedded")
    parser.add_argument("--layers", type=int, help="of the 8b shape, fewer for a trial")
    parser.add_argument("--pairs", type=int, default=4)
    parser.add_argument("--traced", type=int, default=16, help="pairs of the trace")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def pairs(options, many: int = 0):
    """Pairs whose prompt is one turn, which is all that reward-lens takes."""
    name = "hh-rlhf" if options.source else "stimuli/cascade"
    found = load_items(name, source=options.source, limit=0 if not options.source else 400)
    builder = Builder("pairs")
    texts = found.responses.groupby("item", sort=False)["text"].apply(list)
    for item, prompt in zip(found.prompts["item"], found.prompts["prompt"], strict=True):
        if len(prompt) == 1 and len(texts[item]) == 2:
            builder.add(item, prompt[0]["content"], texts[item], [(0, 1, "c", "s")])
    return first(builder.build(), many or options.pairs)


def first(items, many: int):
    """The first so many items."""
    builder = Builder("pairs")
    texts = items.responses.groupby("item", sort=False)["text"].apply(list)
    for item, prompt in list(zip(items.prompts["item"], items.prompts["prompt"], strict=True))[
        :many
    ]:
        builder.add(item, prompt, texts[item], [(0, 1, "c", "s")])
    return builder.build()


def made(options, items):
    """One module for both tools, its tokenizer, and ours around it."""
    from transformers import LlamaConfig, LlamaForSequenceClassification

    device, dtype = options.device, torch.float32 if options.device == "cpu" else torch.bfloat16
    if options.shape == "embedded":
        from lib.models.backbone import END_OF_TURN, load_embedded

        backbone, tokenizer = load_embedded(device, dtype)
        tokenizer.chat_template, end = CHATML, END_OF_TURN
        config = backbone.config
    else:
        layers = {"num_hidden_layers": options.layers} if options.layers else {}
        config, backbone = LlamaConfig(**SHAPE_8B | layers), None
        texts = [*items.responses["text"], *(p[0]["content"] for p in items.prompts["prompt"])]
        tokenizer, end = trained(texts), None
    config.num_labels, config.pad_token_id = 1, None
    with torch.device("meta" if backbone is not None else device):
        whole = LlamaForSequenceClassification._from_config(config, dtype=dtype)
    if backbone is not None:
        whole.model = backbone
        whole.score = torch.nn.Linear(config.hidden_size, 1, bias=False).to(device, dtype)
    whole.eval().requires_grad_(False)
    heads = [Head("score", "random", "")]
    format = PromptFormat(tokenizer, "bench", end) if end else PromptFormat(tokenizer, "bench")
    weight = whole.score.weight.float().cpu().numpy()
    return whole, tokenizer, Same("bench", heads, whole.model, format, weight, {})


def package(whole, tokenizer):
    """reward-lens around the module."""
    folder = os.environ.get("REWARD_LENS", "")
    if not folder:
        raise SystemExit("REWARD_LENS doesn't name an unpacked reward-lens")
    sys.path.insert(0, folder)
    from reward_lens.model import RewardModel, setup_torch_perf
    from reward_lens.model_adapters import get_adapter

    device = whole.score.weight.device
    if device.type == "cuda":
        setup_torch_perf()
    return RewardModel(whole, tokenizer, get_adapter(whole, "bench"), device)


def texts_of(items):
    texts = items.responses.groupby("item", sort=False)["text"].apply(list)
    for item, prompt in zip(items.prompts["item"], items.prompts["prompt"], strict=True):
        yield prompt[0]["content"], texts[item]


def sequences(model, items) -> list[np.ndarray]:
    texts = [texts for _, texts in texts_of(items)]
    encoded = model.format.encode_many(items.prompts["prompt"], texts)
    return [ids for item in encoded for ids in item.sequences]


def same_tokens(theirs, model, items) -> None:
    given = [
        theirs.tokenize_conversation(prompt, text)["input_ids"][0].tolist()
        for prompt, texts in texts_of(items)
        for text in texts
    ]
    if given != [list(ids) for ids in sequences(model, items)]:
        raise SystemExit("the two tools tokenise the pairs differently")


def published_effects(theirs, items) -> np.ndarray:
    """What the margin loses, (modes, comparisons, nodes)."""
    from reward_lens.patching import ActivationPatcher

    patcher = ActivationPatcher(theirs)
    return np.asarray(
        [
            [
                patcher.patch_all_components(
                    prompt, *texts, mode=mode, show_progress=False
                ).patch_effects
                for prompt, texts in texts_of(items)
            ]
            for mode in MODES
        ]
    )


# Time and memory.


def measured(ways: dict[str, Callable], on: torch.Tensor, repeats: int):
    """Shortest times and largest memory of each way, interleaved, and what each gave."""
    found: dict[str, dict] = {}
    results = {}
    for _ in range(repeats):
        for name, way in ways.items():
            row, results[name] = timed(way, on)
            before = found.setdefault(name, row)
            for key in ("seconds", "cpu_seconds"):
                before[key] = min(before[key], row[key])
            before["peak_gib"] = max(before["peak_gib"], row["peak_gib"])
    return found, results


def timed(way: Callable, on: torch.Tensor):
    with Peak(on) as peak:
        wait(on)
        start, own = time.perf_counter(), time.process_time()
        result = way()
        wait(on)
        row = {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - own}
    return row | {"peak_gib": peak.gib}, result


class Peak:
    """The most memory held inside: by torch on a GPU, by the process on a CPU."""

    def __init__(self, on: torch.Tensor):
        self.device, self.most = on.device, 0

    def __enter__(self):
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
        else:
            self.over = threading.Event()
            self.watch = threading.Thread(target=self._watch, daemon=True)
            self.watch.start()
        return self

    def __exit__(self, *_):
        if self.device.type == "cuda":
            self.most = torch.cuda.max_memory_allocated(self.device)
        else:
            self.over.set()
            self.watch.join()

    def _watch(self):
        page = os.sysconf("SC_PAGE_SIZE")
        while True:
            with open("/proc/self/statm") as file:
                self.most = max(self.most, int(file.read().split()[1]) * page)
            if self.over.wait(0.02):
                return

    @property
    def gib(self) -> float:
        return self.most / 2**30


def traced(model, items, options) -> dict:
    """An extraction alone and one with the trace of all components, the shortest of three."""
    items = pairs(options, options.traced)
    on = torch.empty(0, device=options.device)
    ways = {"extraction": extract, "trace": trace}
    times: dict[str, list[dict]] = {name: [] for name in ways}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(4):  # of which the first warms up
            for name, way in ways.items():
                store = f"{folder}/{name}-{turn}"
                row, _ = timed(lambda way=way, store=store: way(model, items, store=store), on)
                times[name].append(row)
    shortest = {
        key: {name: min(row[key] for row in rows[1:]) for name, rows in times.items()}
        for key in ("seconds", "cpu_seconds")
    }
    return {
        "pairs": len(items),
        **{f"{name}_{key}": value for key, row in shortest.items() for name, value in row.items()},
        **{f"ratio_{key}": row["trace"] / row["extraction"] for key, row in shortest.items()},
    }


if __name__ == "__main__":
    main()
