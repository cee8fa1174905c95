"""How long, and in how much memory, is a large file described?

python bench/describe.py [--rows 1000000] [--beside FOLDER] [--json]

Writes JSON Lines and Parquet of made-up pairs and runs ``python -m lib describe`` on each in
a process of its own; with ``--beside``, of another checkout as well. ``--json`` prints one
object to stdout.
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

import pyarrow as pa
import pyarrow.parquet

PIECE = 10_000  # rows written at a time: a process's peak counts that of the one it came from


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--beside", type=Path, default=None, metavar="FOLDER")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    checkouts = [Path(__file__).resolve().parents[1]]
    if options.beside:
        checkouts.append(options.beside.resolve())
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder) / "pairs.jsonl", Path(folder) / "pairs.parquet"
        write(options.rows, *files)
        found = [measured(path, checkout) for path in files for checkout in checkouts]
    for each in found:
        print(each, file=sys.stderr)
    if options.json:
        told = {"card": f"{os.uname().machine}, {os.cpu_count()} cores, shared"}
        print(json.dumps({**told, "rows": options.rows, "measured": found}, indent=1))


def write(rows: int, lines: Path, table: Path) -> None:
    """Pairs of short texts in both formats."""
    columns = ("prompt", "chosen", "rejected", "subset")
    with (
        lines.open("w") as text,
        pa.parquet.ParquetWriter(table, pa.schema([(name, pa.string()) for name in columns])) as to,
    ):
        for start in range(0, rows, PIECE):
            piece = [
                {
                    "prompt": f"question {i}?",
                    "chosen": f"yes {i} " * (i % 40 + 1),
                    "rejected": f"no {i}",
                    "subset": f"part {i % 3}",
                }
                for i in range(start, min(start + PIECE, rows))
            ]
            text.writelines(json.dumps(row) + "\n" for row in piece)
            to.write_table(pa.Table.from_pylist(piece))


def measured(path: Path, checkout: Path) -> dict[str, object]:
    """Seconds, those of the processor, and the most memory of one description."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "lib", "describe", f"file:{path}"]
    here = {"cwd": checkout, "env": os.environ | {"PYTHONPATH": str(checkout)}}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **here)
    first = process.stdout.read().split("\n", 1)[0]
    _, status, used = os.wait4(process.pid, 0)
    return {
        "file": path.suffix,
        "checkout": "this" if checkout == Path(__file__).resolve().parents[1] else "beside",
        "described": first.partition(": ")[2],
        "status": os.waitstatus_to_exitcode(status),
        "seconds": round(time.perf_counter() - start, 1),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "peak_mb": round(used.ru_maxrss / 1024),
    }


if __name__ == "__main__":
    main()
