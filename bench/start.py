"""How long until a first score is at hand, and what a run takes beyond its model.

python bench/start.py --source FOLDER [--items 100] [--repeats 3] [--json]

First score: a fresh process imports the library, loads one pair of the stimuli and the
embedded model, whose weights are cached, and scores the pair. Timed from the start of the
process to the score, ``--repeats`` times. Overhead: ``extract`` into an empty store, from
items to a Run (tokenising, trying the packing, shards, writing), beside the model alone on
the same tokens; they take turns, and each figure is the shortest. FOLDER holds hh-rlhf.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from extraction import card, say

from lib.data import load_items
from lib.extraction import extract
from lib.extraction.forward import forward
from lib.models import load_model

FIRST = """
import sys, tempfile
from lib import extract, load_items, load_model

items = load_items("stimuli/controlled", limit=1)
with tempfile.TemporaryDirectory() as store:
    run = extract(load_model("smol-armo", device="cpu"), items, store=store, progress=False)
print(float(run["score"][0, 0]), flush=True)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", required=True)
    parser.add_argument("--items", type=int, default=100, help="pairs of hh-rlhf")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    first_score()  # caches the weights, and isn't what is timed
    firsts = [first_score() for _ in range(options.repeats)]
    say(f"first score after {', '.join(f'{s:.2f}' for s in firsts)} s")
    items = load_items("hh-rlhf", source=f"{options.source}/hh-rlhf", limit=options.items)
    model = load_model("smol-armo", device="cpu")
    whole, alone = whole_and_alone(model, items, options.repeats)
    say(f"extract {whole:.2f} s, its model alone {alone:.2f} s: {whole / alone - 1:.1%} more")
    found = {
        "card": card(model.backbone),
        "model": model.name,
        "first_score_s": min(firsts),
        "slowest_first_score_s": max(firsts),
        "items": len(items),
        "extract_s": whole,
        "forward_s": alone,
        "overhead": whole / alone - 1,
    }
    if options.json:
        print(json.dumps(found))


def first_score() -> float:
    """Seconds from the start of a process to its score."""
    start = time.perf_counter()
    with subprocess.Popen([sys.executable, "-c", FIRST], stdout=subprocess.PIPE) as process:
        line = process.stdout.readline()
        took = time.perf_counter() - start
    if process.returncode or not line:
        raise SystemExit(f"no score: exit status {process.returncode}")
    return took


def whole_and_alone(model, items, repeats: int) -> tuple[float, float]:
    """Shortest seconds of an extraction, and of the model alone on its tokens."""
    texts = items.responses.groupby("item", sort=False)["text"].apply(list)
    encoded = model.format.encode_many(
        items.prompts["prompt"], [texts[item] for item in items.prompts["item"]]
    )
    _ = model.fingerprint  # hashed once a model
    wholes, alones = [], []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            # held_out=False: the same items both times.
            extract(model, items, store=Path(folder) / "s", held_out=False, progress=False)
            wholes.append(time.perf_counter() - start)
        start = time.perf_counter()
        forward(model.backbone, encoded)
        alones.append(time.perf_counter() - start)
        say(f"extract {wholes[-1]:.2f} s, alone {alones[-1]:.2f} s")
    return min(wholes), min(alones)


if __name__ == "__main__":
    main()
