"""How long the analyses take on a run as large as the published audits', and in how much memory.

python bench/analyses.py [--pairs 3000] [--features 576] [--wide 4096] [--draws 10000]
                         [--repeats 2] [--only NAME …] [--json]

The run is made up: 19 heads with ArmoRM's names, read off random states, two pairs a prompt,
one criterion a claimed concept, and a gate. Each analysis calls what its page calls, with
``--draws`` wherever something is drawn. Separability is timed like the others, and again with
``--wide`` features, once, but belongs to no sum. Each analysis has a process of its own, so
that peak memory is its own; the process's start and the making of the run count for memory and
not for time.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time

import numpy as np
import xarray as xr

from lib.models.names import ARMORM
from lib.planted.worlds import make_run

TOGETHER = ("validity", "protocols", "labels", "disentanglement", "geometry", "gating")
ANALYSES = (*TOGETHER, "separability")


def made_up(pairs: int, features: int, seed: int = 0) -> tuple[xr.Dataset, np.ndarray]:
    """A gated run, and the head weights that its scores come from."""
    generator = np.random.default_rng(seed)
    heads, concepts = list(ARMORM), list(ARMORM.values())
    claimed = list(dict.fromkeys(filter(None, concepts)))
    weight = generator.standard_normal((len(heads), features)) / np.sqrt(features)
    hidden = generator.standard_normal((2 * pairs, features), dtype=np.float32)
    criterion = [claimed[pair // 2 % len(claimed)] for pair in range(pairs)]
    for k, concept in enumerate(concepts):  # what the better response has more of
        rows = 2 * np.flatnonzero(np.asarray(criterion) == concept)
        hidden[rows] += (0.5 * weight[k] / np.linalg.norm(weight[k])).astype(np.float32)
    score = hidden @ weight.T.astype(np.float32)
    gate = generator.dirichlet(np.ones(len(heads)), pairs // 2 + 1).repeat(2, axis=0)[:pairs]
    run = make_run(
        score,
        prompt=np.arange(pairs) // 2,
        heads=heads,
        concepts=concepts,
        criterion=criterion,
        subset=criterion,
        hidden=hidden,
        tokens=generator.integers(20, 400, 2 * pairs),
        final=(score * gate.repeat(2, axis=0)).sum(axis=1),
        name="stimuli/made-up",
    )
    states = generator.standard_normal((pairs, features), dtype=np.float32)
    run["gate_hidden"] = (("item", "feature"), states)
    return run.assign(gate=(("item", "head"), gate.astype(np.float32))), weight


def validity(run: xr.Dataset, weight: np.ndarray, draws: int) -> None:
    from lib.stats import winrates

    winrates.validity(run, draws=draws)
    winrates.baselines(run)
    winrates.outcomes(run)
    winrates.validity_as_published(run)


def protocols(run: xr.Dataset, weight: np.ndarray, draws: int) -> None:
    from lib.analyses.protocols import stats

    stats.protocol_matrix([run])
    stats.variance_components([run], draws=draws)


def labels(run: xr.Dataset, weight: np.ndarray, draws: int) -> None:
    from lib.analyses.labels import stats

    stats.label_matrix(run)
    stats.label_check(run, draws=draws)
    stats.mtmm(run, draws=draws)


def disentanglement(run: xr.Dataset, weight: np.ndarray, draws: int) -> None:
    from lib.analyses.disentanglement import stats

    published = stats.disentanglement_as_published(run)
    pairs = stats.disentanglement(run, draws=draws)
    clusters = stats.clusters(run, draws=draws)
    factors = stats.factors(run, draws=draws)
    sizes = stats.sizes(run, draws=draws)
    stats.overview(published, pairs, clusters, factors, sizes)


def geometry(run: xr.Dataset, weight: np.ndarray, draws: int) -> None:
    from lib.analyses.geometry import stats

    gain = np.ones(weight.shape[1])
    identity = stats.identity(run, weight)
    stats.location(stats.gauges(run, weight, gain), identity)
    stats.spectrum(run, weight, gain)
    stats.geometry_as_published(run, weight, draws=draws)
    stats.mantel(run, weight, draws=draws)
    stats.pairs(run, weight, gain)


def gating(run: xr.Dataset, weight: np.ndarray, draws: int) -> None:
    from lib.analyses.gating import stats

    stats.identity(run)
    stats.coefficients(run)
    stats.entropy(run)
    stats.rules(run)
    stats.debiasing(run)


def separability(run: xr.Dataset, weight: np.ndarray, draws: int) -> None:
    from lib.analyses.separability import stats

    stats.separability_as_published(run)
    stats.ceiling(run)
    stats.probes(run)
    stats.readout(run)
    stats.learning_curve(run)


def timed(name: str, options: argparse.Namespace) -> dict[str, float]:
    """Seconds and peak memory of one analysis, in this process."""
    run, weight = made_up(options.pairs, options.features)
    start = time.perf_counter()
    globals()[name](run, weight, options.draws)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"seconds": round(seconds, 2), "peak_gib": round(peak, 2)}


def apart(name: str, features: int, repeats: int, options: argparse.Namespace) -> dict[str, float]:
    """``timed`` in a process of its own; the fastest of so many."""
    command = [sys.executable, __file__, "--one", name, "--pairs", str(options.pairs)]
    command += ["--features", str(features), "--draws", str(options.draws)]
    runs = [
        json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for _ in range(repeats)
    ]
    return min(runs, key=lambda found: found["seconds"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=3000)
    parser.add_argument("--features", type=int, default=576)
    parser.add_argument("--wide", type=int, default=4096, help="0: separability once only")
    parser.add_argument("--draws", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=2, help="the fastest counts")
    parser.add_argument("--only", nargs="+", choices=ANALYSES, default=list(ANALYSES))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--one", choices=ANALYSES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(timed(options.one, options)))
        return
    load = os.getloadavg()[0]
    found = {name: apart(name, options.features, options.repeats, options) for name in options.only}
    if options.wide and "separability" in found:
        name = f"separability, {options.wide} features"
        found[name] = apart("separability", options.wide, 1, options)
    several = [found[name]["seconds"] for name in TOGETHER if name in found]
    threads = os.environ.get("OMP_NUM_THREADS", os.cpu_count())
    document = {
        "card": f"{platform.machine()}, {os.cpu_count()} cores, {threads} thread(s)",
        "heads": len(ARMORM),
        "pairs": options.pairs,
        "features": options.features,
        "draws": options.draws,
        "repeats": options.repeats,
        "load_before": round(load, 2),
        "analyses": found,
        "together_seconds": round(sum(several), 2),
        "peak_gib": max(each["peak_gib"] for each in found.values()),
    }
    if options.json:
        print(json.dumps(document, indent=1))
        return
    for name, each in found.items():
        print(f"{name:32}{each['seconds']:8.1f} s{each['peak_gib']:8.2f} GiB")
    print(f"{'all but separability':32}{document['together_seconds']:8.1f} s")


if __name__ == "__main__":
    main()
