"""What bfloat16 takes from lens, attribution and patches: sums that are missed, numbers that move.

python bench/rounding.py [--models smol-armo smol-mixed] [--items 24] [--patched 12]
                         [--device cpu|cuda] [--json lib/analyses/attribution/rounding.json]

Effects of a model on ``stimuli/controlled``, once in float32 and once in bfloat16, each with what
its own invariants miss, and the second beside the first. Distances are in the standard deviation
of a head's scores, root mean square over comparisons, layers and heads; a rank correlation is
over nodes, the median over comparisons and heads. Stimuli are part of this repository.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import xarray as xr

from lib.analyses.patching import agreement
from lib.analyses.patching.stats import way_of
from lib.data import load_items
from lib.effects import EVERYTHING, NOISING
from lib.mechanisms.effects import effects
from lib.models import load_model
from lib.models.identity import versions

DATASET = "stimuli/controlled"
DTYPES = ("float32", "bfloat16")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=["smol-armo", "smol-mixed"])
    parser.add_argument("--items", type=int, default=24, help="that are traced")
    parser.add_argument("--patched", type=int, default=12, help="comparisons")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--json", help="file to write")
    options = parser.parse_args()
    rows = []
    for name in options.models:
        exact, rounded = (measured(name, dtype, options) for dtype in DTYPES)
        rows.append({"model": name, "dataset": DATASET, **beside(exact, rounded)})
        print(rows[-1], file=sys.stderr)
    given = [part for part in sys.argv[1:] if part not in ("--json", options.json)]
    content = {
        "command": " ".join(["python bench/rounding.py", *given, "--json FILE"]),
        "device": options.device if options.device == "cpu" else torch.cuda.get_device_name(),
        "machine": platform.machine(),
        "versions": versions(),
        "rows": rows,
    }
    text = json.dumps(content, indent=1) + "\n"
    if options.json:
        Path(options.json).write_text(text, encoding="utf-8")
    else:
        print(text, end="")


def measured(name: str, dtype: str, options: argparse.Namespace) -> xr.Dataset:
    """Effects in a number type, of the same items and comparisons in each."""
    model = load_model(name, device=options.device, dtype=dtype)
    items = load_items(DATASET)
    with tempfile.TemporaryDirectory() as store:
        return effects(
            model, items, traced=options.items, patched=options.patched, seed=0, store=store
        )


def beside(exact: xr.Dataset, rounded: xr.Dataset) -> dict[str, float]:
    """What each misses of its own invariants, and how far the second's numbers are."""
    size = exact["score"].values.std(axis=0)
    real = exact["node"].values != EVERYTHING
    moved = {
        name: rounded[name].values.astype(float) - exact[name].values
        for name in ("score", "lens", "part", "effect")
    }
    carried = [each["effect"].sel(way=way_of(NOISING)).values[:, real] for each in (exact, rounded)]
    ranks = agreement.over_nodes(*(each.astype(float) for each in carried))
    sides = np.sign(exact["margin"].values) != np.sign(rounded["margin"].values)
    return {
        "items": exact.sizes["item"],
        "patched": exact.sizes["patched"],
        **{
            f"sums_{t}": e.attrs["sums_within"]
            for t, e in zip(DTYPES, (exact, rounded), strict=True)
        },
        **{
            f"everything_{t}": e.attrs["everything_within"]
            for t, e in zip(DTYPES, (exact, rounded), strict=True)
        },
        **{f"{n}_moved": float(np.sqrt(((m / size) ** 2).mean())) for n, m in moved.items()},
        "node_ranks": float(np.nanmedian(ranks)),
        "other_side": float(sides.mean()),
    }


if __name__ == "__main__":
    main()
