"""Does memory stay the same however many responses there are?

python bench/memory.py [--responses 1000000] [--device cpu|cuda] [--piece 4096] [--json]

Writes a JSONL file of made-up pairs, streams it through a tiny random Llama, and tells the
process's resident memory after each tenth; then opens the run lazily and reads a slice.
The table goes to stderr; ``--json`` prints one object to stdout.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from extraction import card, say, trained
from transformers import LlamaConfig, LlamaModel

from lib.data import stream_items
from lib.extraction import extract_stream, load_run
from lib.models import Head
from lib.models.frozen import FrozenHeads
from lib.models.prompt import PromptFormat


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--responses", type=int, default=1_000_000)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--piece", type=int, default=4096, help="items held at a time")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    model = tiny(options.device)
    pairs = options.responses // 2
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pairs.jsonl"
        with path.open("w") as file:
            for i in range(pairs):
                row = {
                    "prompt": f"question {i}?",
                    "chosen": f"yes {i} " * (i % 4 + 1),
                    "rejected": f"no {i}",
                }
                file.write(json.dumps(row) + "\n")
        tenths: dict[int, float] = {}
        steps = watched(stream_items(f"file:{path}", size=options.piece), pairs, tenths)
        start = time.perf_counter()
        out = extract_stream(model, steps, Path(folder) / "run", progress=False)
        took = time.perf_counter() - start
        run = load_run(out)
        opened = told(f"opened {run.sizes['response']:,} responses")
        part = run["hidden"].isel(response=slice(-1000, None)).values
        read = told(f"read {part.shape} of {run['hidden'].shape}")
        found = {
            "card": card(model.backbone),
            "responses": run.sizes["response"],
            "piece_items": options.piece,
            "seconds": took,
            "tenths_mib": list(tenths.values()),
            "opened_mib": opened,
            "read_mib": read,
        }
    if options.json:
        print(json.dumps(found))


def tiny(device: str) -> FrozenHeads:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=16000,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    backbone = LlamaModel(config).eval().requires_grad_(False).to(device)
    texts = [f"question {i}? yes no" for i in range(2000)]
    return FrozenHeads(
        name="tiny",
        heads=[Head("random", "made up")],
        backbone=backbone,
        format=PromptFormat(trained(texts), "tiny"),
        weight=np.ones((1, 64), np.float32),
        bias=np.zeros(1, np.float32),
        trained_on=frozenset(),
        card={},
    )


def watched(pieces, pairs: int, tenths: dict[int, float]):
    """The pieces as they come; memory is written down once each tenth is done."""
    seen = 0
    for items in pieces:
        yield items
        seen += len(items)
        tenth = seen * 10 // pairs
        if tenth and tenth not in tenths:
            tenths[tenth] = told(f"{2 * seen:,} responses")


def told(what: str) -> float:
    """The memory now, MiB, which is also said."""
    now = resident()
    say(f"{what}: {now:.0f} MiB")
    return now


def resident() -> float:
    """Of this process now, MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


if __name__ == "__main__":
    main()
