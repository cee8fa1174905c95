"""How far scores move with the number type and with packing, and what that does to pairs.

python bench/precision.py --source FOLDER [--items 100] [--device cpu|cuda] [--json]

Pairs of hh-rlhf through the embedded model: in float32 one response at a time, which is the
reference, in float32 packed, and in bfloat16 packed. Told in standard deviations of each
head over the reference's scores, and as shares of the pairs: how many tie, and how many
change sides. Head products are float32 in every case, as in a run; what would tie if the
scores were rounded to the number type first is told beside it. FOLDER holds hh-rlhf.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np
import torch
from extraction import card, say

from lib.data import load_items
from lib.extraction.forward import forward
from lib.models import load_model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", required=True)
    parser.add_argument("--items", type=int, default=100, help="pairs of hh-rlhf")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    items = load_items("hh-rlhf", source=f"{options.source}/hh-rlhf", limit=options.items)
    reference = scores(options.device, torch.float32, items, packing="padded", budget=1)
    pairs = items.comparisons[["better", "worse"]].to_numpy().T
    ways = {}
    for dtype in (torch.float32, torch.bfloat16):
        found = compare(reference, scores(options.device, dtype, items), pairs, dtype)
        ways[f"{str(dtype).removeprefix('torch.')}, packed"] = found
        say(f"{dtype}: {found}")
    model = load_model("smol-armo", device=options.device)
    about = {"card": card(model.backbone), "model": model.name, "items": len(items)}
    if options.json:
        print(json.dumps(about | {"pairs": pairs.shape[1], "ways": ways}))


def scores(device: str, dtype: torch.dtype, items, **options) -> np.ndarray:
    """Head scores of all responses, shape (responses, heads)."""
    model = load_model("smol-armo", device=device, dtype=str(dtype).removeprefix("torch."))
    texts = items.responses.groupby("item", sort=False)["text"].apply(list)
    responses = [texts[item] for item in items.prompts["item"]]
    encoded = model.format.encode_many(items.prompts["prompt"], responses)
    states = forward(model.backbone, encoded, **options)
    owner = np.repeat(np.arange(len(responses)), [len(each) for each in responses])
    return model.read(states.hidden, states.gate_hidden[owner]).score


def compare(reference, found, pairs, dtype: torch.dtype) -> dict[str, Any]:
    """Differences in standard deviations of a head, and shares of pairs, over heads."""
    moved = (found - reference) / reference.std(axis=0)
    spread = np.sqrt((moved**2).mean(axis=0))
    rounded = torch.from_numpy(found).to(dtype).float().numpy()
    before, after, coarse = (
        each[pairs[0]] - each[pairs[1]] for each in (reference, found, rounded)
    )
    return {
        "spread_median": float(np.median(spread)),
        "spread_most": float(spread.max()),
        "largest": float(np.abs(moved).max()),
        "ties": float((after == 0).mean(axis=0).max()),
        "ties_if_rounded": float((coarse == 0).mean(axis=0).max()),
        "sides_median": float(np.median((np.sign(before) != np.sign(after)).mean(axis=0))),
        "sides_most": float((np.sign(before) != np.sign(after)).mean(axis=0).max()),
    }


if __name__ == "__main__":
    main()
