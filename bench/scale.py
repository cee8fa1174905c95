"""What large inputs cost: outcomes, geometry, and a validity page's tables and chart.

python bench/scale.py [--base FOLDER] [--only NAME …] [--json]

Each case has a process of its own and runs in this checkout and, with ``--base``, in another
one right after it, so that the ratio is of one machine at one time. Peak memory counts the
start of Python and the making of the run; ``before_mb`` is what these had taken. The page's
parts are made of a table of random numbers: 500 heads on 400 subsets.
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
from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).resolve().parents[1]


def outcomes():
    """20 heads on 200,000 comparisons."""
    from lib.planted.worlds import make_run
    from lib.stats import winrates

    score = np.random.default_rng(0).standard_normal((400_000, 20), dtype=np.float32)
    run = make_run(score, prompt=np.arange(200_000) // 2)
    return lambda: {"rows": len(winrates.outcomes(run))}


def geometry():
    """19 heads on 3,000 pairs, 4,096 features: what its page calls."""
    sys.path.insert(0, str(HERE / "bench"))
    import analyses

    run, weight = analyses.made_up(3000, 4096)
    return lambda: analyses.geometry(run, weight, 10_000) or {}


def page():
    """500 heads on 400 subsets: the chart and the two long tables of a validity page."""
    from lib import charts, report

    heads, subsets = 500, 400
    generator = np.random.default_rng(0)
    many = heads * (subsets + 1)
    rate, half = generator.uniform(0.2, 0.9, many), generator.uniform(0.02, 0.1, many)
    names = ["all", *(f"subset {k}" for k in range(subsets))]
    table = pd.DataFrame(
        {
            "head": np.tile([f"head {k}" for k in range(heads)], subsets + 1),
            "subset": np.repeat(names, heads),
            "n": np.repeat(generator.integers(50, 900, subsets + 1), heads),
            "win_rate": rate,
            "low": rate - half,
            "high": rate + half,
            "p_adjusted": generator.uniform(0, 1, many) ** 4,
            "verdict": generator.choice(["tracks", "inverted", "inconclusive"], many),
            "mde": generator.uniform(0.02, 0.2, many),
            "note": "",
        }
    ).assign(wins=1.0, ties=0.0, losses=1.0)
    formats = dict.fromkeys(["win_rate", "low", "high", "mde"], ".3f") | {"p_adjusted": ".2g"}

    def made() -> dict[str, int]:
        chart = charts.validity(table)
        parts = [chart.html(), report.table(table, formats).markup]
        parts.append(report.table(table[["head", "subset", "n", "win_rate"]], formats).markup)
        size = round(sum(map(len, parts)) / 1e6, 2)
        return {"megabytes": size, "chart_px": chart.spec["height"]}

    return made


CASES = {"outcomes": outcomes, "geometry": geometry, "page": page}


def timed(name: str) -> dict[str, float]:
    """Seconds, those of the processor, and peak memory of one case, in this process."""
    call = CASES[name]()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    wall, cpu = time.perf_counter(), time.process_time()
    found = call()
    return {
        "seconds": round(time.perf_counter() - wall, 1),
        "cpu_seconds": round(time.process_time() - cpu, 1),
        "before_mb": round(before),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        **found,
    }


def apart(name: str, checkout: Path) -> dict[str, float]:
    """``timed`` with the code of a checkout, in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--one", name],
        env=os.environ | {"PYTHONPATH": str(checkout)},
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", type=Path, help="another checkout, measured beside this one")
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--one", choices=CASES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(timed(options.one)))
        return
    checkouts = {"now": HERE} | ({"base": options.base} if options.base else {})
    measured = {
        name: {which: apart(name, checkout) for which, checkout in checkouts.items()}
        for name in options.only
    }
    threads = os.environ.get("OMP_NUM_THREADS", os.cpu_count())
    card = f"{platform.machine()}, {os.cpu_count()} cores, {threads} thread(s), shared"
    document = {"card": card, "load": round(os.getloadavg()[0], 1), "measured": measured}
    print(json.dumps(document, indent=1) if options.json else pd.json_normalize(measured).T)


if __name__ == "__main__":
    main()
