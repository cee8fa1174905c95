"""How long latent bases take to fit, here and in a straightforward PyTorch loop, on the same pairs.

A thousand users of a hundred pairs each, mixtures of planted rewards on states whose variance
falls off as a power, in one process, one after the other. The loop is the released one of LoRe:
a loss summed user by user, Adam on V and weights, 500 steps. All steps cost the same, so with
``--timed`` only so many are taken and the seconds of all told from these; else both are judged on
pairs of the same users that neither saw::

    OMP_NUM_THREADS=2 python bench/bases.py --out FILE [--users 1000] [--features 576 4096]
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import time
from pathlib import Path

import numpy as np
import torch

from lib.training import bases, lore

PLANTED, HELD = 5, 20  # rewards; pairs a user held out


def world(users: int, pairs: int, features: int, seed: int = 0):
    """Differences as float32, the users of their rows, and which rows are held out."""
    generator = np.random.default_rng(seed)
    spread = ((1 + np.arange(features)) ** -0.5).astype(np.float32)
    spread /= np.sqrt((spread**2).mean())
    # Rewards have parts along all directions, as much as these vary.
    rewards = generator.standard_normal((features, PLANTED), dtype=np.float32)
    rewards *= 3 / np.linalg.norm(rewards * spread[:, None], axis=0)
    mixture = generator.dirichlet([0.3] * PLANTED, users).astype(np.float32)
    total = pairs + HELD
    user = np.repeat(np.arange(users), total)
    x = generator.standard_normal((users * total, features), dtype=np.float32)
    x *= spread
    margin = np.einsum("ij,ij->i", x @ rewards, mixture[user])
    x *= np.where(generator.random(len(x)) < 1 / (1 + np.exp(-margin)), 1, -1)[:, None]
    held = np.tile(np.arange(total) >= pairs, users)
    return x, user, held


def ours(x, user, count: int):
    """V and weights by ``lib.training.bases``, with seconds of its two parts."""
    started = time.perf_counter()
    pairs = bases.grouped(x, user)
    grouped = time.perf_counter()
    found = bases.fit(pairs, count, starts=1)
    done = time.perf_counter()
    return (
        found.vectors(pairs),
        found.weights[np.argsort(np.asarray(pairs.names, int))],
        {
            "seconds": done - started,
            "coordinates": grouped - started,
            "fit": done - grouped,
            "components": pairs.z.shape[1],
            "kept": pairs.kept,
        },
    )


def loop(x, user, count: int, steps: int, timed: int):
    """V and weights by Adam on a loss that is summed user by user."""
    torch.manual_seed(0)
    ends = np.searchsorted(user, np.arange(user.max() + 2))
    parts = [torch.from_numpy(x[a:b]) for a, b in itertools.pairwise(ends)]
    started = time.perf_counter()
    vectors = torch.randn(x.shape[1], count, requires_grad=True)
    logits = torch.randn(len(parts), count, requires_grad=True)
    adam = torch.optim.Adam([vectors, logits], lr=lore.RATE)
    taken = min(timed, steps) if timed else steps
    for _ in range(taken):
        adam.zero_grad()
        mixed = vectors @ torch.softmax(logits, dim=1).T
        loss = sum(
            -torch.nn.functional.logsigmoid(part @ mixed[:, k] / lore.SCALE).mean()
            for k, part in enumerate(parts)
        )
        loss.backward()
        adam.step()
    took = time.perf_counter() - started
    weights = torch.softmax(logits, dim=1).detach().numpy()
    row = {"seconds": took * steps / taken, "timed_steps": taken}
    return vectors.detach().numpy(), weights, row


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--users", type=int, default=1000)
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--features", type=int, nargs="+", default=[576, 4096])
    parser.add_argument("--steps", type=int, default=lore.STEPS)
    parser.add_argument("--timed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    found = {key: getattr(options, key) for key in ("users", "pairs", "steps", "threads")}
    found["rows"] = []
    for features in options.features:
        x, user, held = world(options.users, options.pairs, features)
        unseen, whose = x[held], user[held]
        x, user = x[~held], user[~held]
        learners = (("ours", ours, ()), ("loop", loop, (options.steps, options.timed)))
        for name, learn, given in learners:
            vectors, weights, row = learn(x, user, PLANTED, *given)
            whole = row.get("timed_steps", options.steps) == options.steps
            share = lore.right(vectors, weights, unseen, whose).mean() if whole else None
            judged = {"held_out": None if share is None else float(share)}
            found["rows"].append({"features": features, "learner": name} | judged | row)
            print(json.dumps(found["rows"][-1]), flush=True)
    found["host_bytes"] = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    Path(options.out).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
