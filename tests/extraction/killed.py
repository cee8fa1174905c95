"""Extract made-up items with a tiny model into a folder: what a test starts and kills.

For each line on its input, a folder, a child is forked that has the model loaded; the parent says
its process id, and when it is gone how it ended.
"""

from __future__ import annotations

import os
import sys
import tempfile
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


def main() -> None:
    torch.set_num_threads(1)  # a fork takes along no thread
    stores.shard_responses = lambda device: 8
    builder = Builder("made-up")
    for i in range(300):
        builder.add(f"{i}", f"question {i}? " * 3, ["yes " * (i % 9 + 1), f"no {i}"], [])
    items = builder.build()
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
    with tempfile.TemporaryDirectory() as folder:  # imports and warms what children will use
        extract(model, items.select(np.arange(2)), store=folder, progress=False)
    print("ready", flush=True)
    for line in sys.stdin:
        child = os.fork()
        if not child:
            folder = Path(line.strip())
            run = extract(model, items, store=folder / "states", progress=False)
            save_run(run, folder / "run")
            os._exit(0)
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
