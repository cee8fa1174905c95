"""Extract made-up items with a tiny model into a folder: what a test starts and kills."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch

from lib.data.items import Builder
from lib.extraction import extract, save_run
from lib.extraction import store as stores
from lib.models.base import Head
from lib.models.frozen import FrozenHeads
from lib.models.prompt import PromptFormat

sys.path.insert(0, str(Path(__file__).parents[1] / "models"))
import tiny


def main(folder: Path) -> None:
    stores.shard_responses = lambda device: 8
    builder = Builder("made-up")
    for i in range(300):
        builder.add(f"{i}", f"question {i}? " * 3, ["yes " * (i % 9 + 1), f"no {i}"], [])
    model = FrozenHeads(
        name="tiny",
        heads=[Head("first", "made up")],
        backbone=tiny.backbone().requires_grad_(False),
        format=PromptFormat(tiny.tokenizer(), "tiny"),
        weight=np.ones((1, tiny.D), np.float32),
        bias=np.zeros(1, np.float32),
        trained_on=frozenset(),
        card={},
    )
    torch.set_num_threads(1)
    print("started", flush=True)
    run = extract(model, builder.build(), store=folder / "states", progress=False)
    save_run(run, folder / "run")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
