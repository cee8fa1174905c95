"""Two builds of the book, table by table and chart by chart: what changed, and by how much.

    python bench/sameness.py OLD/book/results NEW/book/results

Every Parquet table of the first is looked up in the second by its path. Text and verdicts must
be equal, numbers within ``--tolerance`` (absolute, or relative where they are larger than 1).
Charts are compared as the executed pages
hold them: drawing, data and alternative text. The exit status is 1 when a table differs or is gone.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd


def differences(old: pd.DataFrame, new: pd.DataFrame, tolerance: float) -> list[str]:
    """One line for each way in which a table differs from its successor."""
    lines = []
    gone, come = ([c for c in a.columns if c not in b.columns] for a, b in ((old, new), (new, old)))
    if gone or come:
        lines.append(f"columns: gone {gone}, come {come}")
    if len(old) != len(new):
        return [*lines, f"rows: {len(old)} before, {len(new)} after"]
    for column in old.columns.intersection(new.columns):
        a, b = old[column], new[column]
        if all(pd.api.types.is_numeric_dtype(x) and x.dtype != bool for x in (a, b)):
            a, b = (x.to_numpy(float, na_value=np.nan) for x in (a, b))
            same = np.isclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
            largest = np.nanmax(np.abs(a - b)[~same], initial=0.0)
            lines += [f"{column}: {(~same).sum()} numbers, by at most {largest:.3g}"] * (
                not same.all()
            )
        else:
            a, b = (x.astype(object).where(x.notna(), None).map(str) for x in (a, b))
            where = np.flatnonzero(a.to_numpy() != b.to_numpy())
            if len(where):
                first = where[0]
                lines.append(
                    f"{column}: {len(where)} texts, first {a.iloc[first][:60]!r}"
                    f" -> {b.iloc[first][:60]!r}"
                )
    return lines


def charts(root: Path) -> dict[tuple[str, int], str]:
    """Markup of every chart by its page and its number there."""
    found = {}
    for path in sorted(root.rglob("*.ipynb")):
        outputs = [
            "".join(output.get("data", {}).get("text/html", ""))
            for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
            for output in cell.get("outputs", [])
        ]
        drawn = [markup for markup in outputs if 'class="chart-view"' in markup]
        page = str(path.relative_to(root))
        found |= {(page, number): markup for number, markup in enumerate(drawn, 1)}
    return found


def main() -> int:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--tolerance", type=float, default=1e-12)
    given = parser.parse_args()
    before, after = (
        {str(path.relative_to(root)) for path in root.rglob("*.parquet")}
        for root in (given.old, given.new)
    )
    for name, only in (("gone", before - after), ("come", after - before)):
        print(f"{name}: {', '.join(sorted(only)) or 'none'}")
    differ = 0
    for name in sorted(before & after):
        tables = (pd.read_parquet(root / name) for root in (given.old, given.new))
        lines = differences(*tables, given.tolerance)
        differ += bool(lines)
        for line in lines:
            print(f"{name}: {line}")
    print(f"{len(before & after)} tables in both, {differ} differ")
    old, new = charts(given.old), charts(given.new)
    changed = [
        f"{page} {number}" for page, number in old if old[page, number] != new.get((page, number))
    ]
    print(f"{len(old)} charts before, {len(new)} after, {len(changed)} of them others: {changed}")
    return int(bool(differ or before - after))


if __name__ == "__main__":
    sys.exit(main())
