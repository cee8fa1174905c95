"""What bfloat16 takes from parts and patches, as ``bench/rounding.py`` measured it once.

Parts are asserted to sum in float32 alone; in bfloat16 the stream is rounded after each write, and
the miss is recorded. How large it is, and how far numbers move, is measured on embedded models.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from lib import documents, words
from lib.errors import DataError

MEASURED = Path(__file__).with_name("rounding.json")


def measured(path: Path = MEASURED) -> tuple[pd.DataFrame, str]:
    """The measurement and the command that made it.

    Returns
    -------
    table
        One row a model: ``model``, ``dataset``, ``items`` and ``patched``; the largest miss of a
        sum of parts (``sums_float32``, ``sums_bfloat16``) and of a margin where everything is
        patched (``everything_…``), in the larger of the margin and the head's standard
        deviation; by how many of those standard deviations bfloat16 moves scores, lenses, parts
        and patches' effects (root mean square; ``score_moved`` …); ``node_ranks``, the median
        rank correlation over nodes of patches in both; and ``other_side``, the share of margins
        with another sign.
    command
        Of ``bench/rounding.py``.
    """
    held = documents.read_json(path, what="the measurement of rounding", error=DataError)
    return pd.DataFrame(held["rows"]), held["command"]


def told(table: pd.DataFrame, command: str) -> list[str]:
    """What the measurement says, and what made it."""
    moved = words.span(table["part_moved"], ".2g"), words.span(table["effect_moved"], ".2g")
    row = table.iloc[0]
    return [
        f"In bfloat16 parts don't sum exactly: for {' and '.join(table['model'])} the largest miss "
        f"is {words.span(table['sums_bfloat16'], '.2g')} of the larger of the margin and the "
        f"head's standard deviation ({words.span(table['sums_float32'], '.1g')} in float32). "
        f"Parts move by {moved[0]} and patches' effects by {moved[1]} of these standard deviations "
        "(root mean square), and the nodes' ranks by noising correlate "
        f"{words.span(table['node_ranks'], '.2f')} with those in float32. Measured on "
        f"{words.count(int(row['items']), 'item')} of {row['dataset']}, "
        f"{int(row['patched'])} of them patched: {command}"
    ]
