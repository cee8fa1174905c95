"""How long until a first score is at hand, and what a run takes beyond its model.

python bench/start.py --source FOLDER [--items 100] [--repeats 3] [--json]

First score: a fresh process imports the library, loads one pair of the stimuli and the
embedded model, whose weights are cached, and scores the pair. Timed from the start of the
process to the score, ``--repeats`` times. Overhead: of ``extract`` into an empty store, from
items to a Run, what isn't spent in the model's calls on the rows of the run: tokenising,
trying the packing, laying out, shards, writing. Both are clocked in the same run, so that
the noise of the machine is in both; of several runs the shortest counts. FOLDER holds hh-rlhf.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

from extraction import card, say

from lib.data import load_items
from lib.extraction import extract, parity
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
    whole, alone = min(whole_and_model(model, items) for _ in range(options.repeats))
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


def whole_and_model(model, items) -> tuple[float, float]:
    """Seconds of an extraction, and of those the ones in its model's calls on rows."""
    call, try_packing = model.backbone.forward, parity.objection
    trying, seconds = [], []

    def timed(*args, **options):
        start = time.perf_counter()
        found = call(*args, **options)
        if not trying:
            seconds.append(time.perf_counter() - start)
        return found

    def trial(*args):
        trying.append(True)
        try:
            return try_packing(*args)
        finally:
            trying.clear()

    _ = model.fingerprint  # hashed once a model
    with (
        mock.patch.object(model.backbone, "forward", timed),
        mock.patch.object(parity, "objection", trial),
        tempfile.TemporaryDirectory() as folder,
    ):
        start = time.perf_counter()
        extract(model, items, store=Path(folder) / "s", held_out=False, progress=False)
        whole = time.perf_counter() - start
    inside = sum(seconds)
    say(f"extract {whole:.2f} s, its model {inside:.2f} s: {whole / inside - 1:.1%} more")
    return whole, inside


if __name__ == "__main__":
    main()
