"""How long, and in how much memory, is a large file described?

python bench/describe.py [--rows 1000000] [--json]

Writes JSON Lines and Parquet of made-up pairs and runs ``python -m lib describe`` on each in
a process of its own. ``--json`` prints one object to stdout.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            {
                "prompt": f"question {i}?",
                "chosen": f"yes {i} " * (i % 40 + 1),
                "rejected": f"no {i}",
                "subset": f"part {i % 3}",
            }
            for i in range(options.rows)
        ]
        with (Path(folder) / "pairs.jsonl").open("w") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        pd.DataFrame(rows).to_parquet(Path(folder) / "pairs.parquet")
        found = [measured(Path(folder) / name) for name in ("pairs.jsonl", "pairs.parquet")]
    for each in found:
        print(each, file=sys.stderr)
    if options.json:
        told = {"card": f"{os.uname().machine}, {os.cpu_count()} cores, shared"}
        print(json.dumps({**told, "rows": options.rows, "measured": found}, indent=1))


def measured(path: Path) -> dict[str, object]:
    """Seconds, those of the processor, and the most memory of one description."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "lib", "describe", f"file:{path}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    first = process.stdout.read().split("\n", 1)[0]
    _, status, used = os.wait4(process.pid, 0)
    return {
        "file": path.suffix,
        "described": first.partition(": ")[2],
        "status": os.waitstatus_to_exitcode(status),
        "seconds": round(time.perf_counter() - start, 1),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "peak_mb": round(used.ru_maxrss / 1024),
    }


if __name__ == "__main__":
    main()
