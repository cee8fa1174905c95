"""How much faster two GPUs of one host are than one, on the same items, in one run.

accelerate launch --num_processes 2 bench/workers.py --source FOLDER/hh-rlhf [--items 2000] [--json]

Each process makes the same random ArmoRM-shaped 8B model on its own GPU. First one process
computes all shards while the others wait, then all share them; the time of each is from the
moment that all are ready to the moment that the last is done, models loaded and layers
compiled before, as they are in runs of minutes. Tokenising and writing the shards count;
gathering them into a run is timed by itself, and so is the model alone, without tokenising,
shards and writing, in rows over all items: ``overhead``.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from extraction import model as armorm_8b
from torch import distributed

from lib.data import load_items
from lib.extraction import extract, extract_part, shards
from lib.extraction.forward import forward
from lib.extraction.workers import world
from lib.models import Head
from lib.models.frozen import FrozenHeads


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", required=True)
    parser.add_argument("--items", type=int, default=2000, help="pairs")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    shards.COMPILE_FROM = 0  # whatever the length of this run
    place = world()
    options.device, options.model = place.device or "cpu", "armorm-8b"
    items = load_items("hh-rlhf", source=options.source, limit=options.items)
    torch.manual_seed(0)
    backbone, format = armorm_8b(options, [items])
    model = FrozenHeads(
        name="armorm-8b",
        heads=[Head("random", "made up")],
        backbone=backbone,
        format=format,
        weight=np.ones((1, 4096), np.float32),
        bias=np.zeros(1, np.float32),
        trained_on=frozenset(),
        card={},
    )
    _ = model.fingerprint  # hashed once; not what is timed
    work = Path(tempfile.gettempdir()) / "workers-bench"
    shutil.rmtree(work, ignore_errors=True) if place.rank == 0 else None
    with place.together():
        seconds = measure(place, model, items, work, options.repeats)
    if place.rank == 0:
        start = time.perf_counter()
        extract(model, items, store=work / f"all-{options.repeats - 1}", progress=False)
        gathered = time.perf_counter() - start
        alone = forward_seconds(model, items, options.repeats)
        found = {
            "card": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
            "workers": place.size,
            "items": len(items),
            "one_s": seconds["one"],
            "all_s": seconds["all"],
            "ratio": seconds["one"] / seconds["all"],
            "gather_s": gathered,
            "forward_s": alone,
            "overhead": seconds["one"] / alone - 1,
        }
        print(json.dumps(found) if options.json else found)


def forward_seconds(model, items, repeats: int) -> float:
    """Shortest time of the model alone: tokens at hand, no shards, nothing written."""
    texts = items.responses.groupby("item", sort=False)["text"].apply(list)
    responses = [texts[item] for item in items.prompts["item"]]
    encoded = model.format.encode_many(items.prompts["prompt"], responses)
    took = []
    for _ in range(1 + repeats):
        start = time.perf_counter()
        forward(model.backbone, encoded, compiled=True)
        took.append(time.perf_counter() - start)
    return min(took[1:])  # the first compiles


def measure(place, model, items, work: Path, repeats: int) -> dict[str, float]:
    """Shortest seconds of one process and of all, taking turns."""

    def compute(name: str, part: int, parts: int) -> None:
        extract_part(model, items, part, parts, store=work / name, progress=False)

    compute(f"compiling-{place.rank}", 0, 1)  # every process all of it, in a place of its own
    seconds: dict[str, float] = {}
    for turn in range(repeats):
        for way, parts in (("one", 1), ("all", place.size)):
            distributed.barrier()
            start = time.perf_counter()
            if place.rank < parts:
                compute(f"{way}-{turn}", place.rank, parts)
            distributed.barrier()
            seconds[way] = min(time.perf_counter() - start, seconds.get(way, np.inf))
    return seconds


if __name__ == "__main__":
    main()
