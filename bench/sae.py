"""How long an autoencoder takes to learn, here and with sparsify, on the same states.

Both learn one of the same sizes from the same float16 states, in one process, one after the
other. Held-out explained variance is looked at every few hundred steps, off the clock, and what
is compared is the time at which each first reaches what the slower learner ends with.

``sparsify`` is its ``SparseCoder`` in the loop of its ``Trainer.fit`` (bfloat16 autocast, its own
kernels, its gradient and norm steps), with Adam at the rate of ours, since its own default
optimiser is made for far larger sets; without its package only ours is measured::

    python bench/sae.py --seen FOLDER --held FOLDER --out FILE [--device cuda]
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path

import numpy as np
import torch

from lib.training import sae, token_states

LOOK = 500


class Clock:
    """Seconds of learning alone, and explained variance at some of its steps."""

    def __init__(self, held: torch.Tensor, device: str):
        self.held, self.device = held, device
        self.spread = (held - held.mean(dim=0)).square().sum()
        self.seconds, self.points = 0.0, []
        self.begin()

    def begin(self):
        self.wait()
        self.since = time.perf_counter()

    def wait(self):
        if self.device != "cpu":
            torch.cuda.synchronize()

    def look(self, step: int, rebuilt) -> None:
        self.wait()
        self.seconds += time.perf_counter() - self.since
        with torch.no_grad():
            error = sum((x - rebuilt(x)).square().sum() for x in self.held.split(8192))
        self.points.append(
            {"step": step, "seconds": self.seconds, "explained": float(1 - error / self.spread)}
        )
        self.begin()


def ours(seen, recipe, clock, device):
    def look(step, learner):
        if step % LOOK == 0 or step == recipe.steps:
            clock.look(step, lambda x: learner.forward(x)[2])

    clock.begin()
    sae.train(seen, recipe, device=device, on_step=look)


def theirs(seen, recipe, clock, device):
    from sparsify import SparseCoder, SparseCoderConfig

    torch.manual_seed(recipe.seed)
    config = SparseCoderConfig(num_latents=recipe.latents, k=recipe.k)
    clock.begin()
    coder = SparseCoder(seen.features, config, device=device, dtype=torch.float32)
    adam = torch.optim.Adam(coder.parameters(), lr=recipe.rate, fused=device != "cpu")
    torch.set_float32_matmul_precision("high")
    for step, x in enumerate(sae.batches(seen, recipe, device), 1):
        if step == 1:
            coder.b_dec.data = x.mean(dim=0)
        coder.set_decoder_norm_to_unit_norm()
        for group in adam.param_groups:
            group["lr"] = recipe.rate * sae._schedule(step, recipe)
        coder(x).fvu.backward()
        coder.remove_gradient_parallel_to_decoder_directions()
        adam.step()
        adam.zero_grad()
        if step % LOOK == 0 or step == recipe.steps:
            clock.look(step, lambda x: coder(x).sae_out)


def reached(points, goal: float):
    """Seconds at which a learner first explains so much; none if it never does."""
    return next((p["seconds"] for p in points if p["explained"] >= goal), None)


def main():
    parser = argparse.ArgumentParser()
    for name in ("--seen", "--held", "--out"):
        parser.add_argument(name, required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--latents", type=int, default=4608)
    parser.add_argument("--k", type=int, default=64)
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--batch", type=int, default=4096)
    options = parser.parse_args()
    seen, held = token_states.opened(options.seen), token_states.opened(options.held)
    some = np.concatenate([each["states"] for each in held.shards()])[:65536]
    some = torch.from_numpy(some).to(options.device).float()
    recipe = sae.Recipe(options.latents, options.k, 0, steps=options.steps, batch=options.batch)
    found = {"device": options.device, "tokens": len(seen), "recipe": vars(recipe), "learners": {}}
    if options.device != "cpu":
        found["device"] = torch.cuda.get_device_name()
    # The first steps of a process wait for its kernels: both have had some before.
    warm = sae.Recipe(options.latents, options.k, 0, steps=20, batch=options.batch)
    for name, learn in (("ours", ours), ("sparsify", theirs)):
        try:
            learn(seen, warm, Clock(some, options.device), options.device)
            clock = Clock(some, options.device)
            if options.device != "cpu":
                torch.cuda.reset_peak_memory_stats()
            learn(seen, recipe, clock, options.device)
        except ImportError as error:
            found["learners"][name] = {"missing": str(error)}
            continue
        peak = torch.cuda.max_memory_allocated() if options.device != "cpu" else None
        found["learners"][name] = {"points": clock.points, "device_bytes": peak}
    points = {n: v["points"] for n, v in found["learners"].items() if "points" in v}
    goal = min(each[-1]["explained"] for each in points.values())
    found["goal"] = goal
    found["seconds_to_goal"] = {name: reached(each, goal) for name, each in points.items()}
    found["host_bytes"] = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    Path(options.out).write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps({k: found[k] for k in ("goal", "seconds_to_goal")}))


if __name__ == "__main__":
    main()
