"""What the data page keeps for other pages, from its tables."""

from __future__ import annotations

import pandas as pd

from lib import words
from lib.stats.winrates import ALL


def glued(counts: pd.DataFrame, lengths: pd.DataFrame) -> dict[str, str]:
    """Values of the data page for other pages."""
    items = counts.set_index("step")["items"]
    longer = lengths.loc[lengths["subset"] == ALL, "longer_wins"].iloc[0]
    kept = {step: str(items[step]) for step in ("read", "usable", "scored")}
    return kept | {"longer": words.number(longer, ".3f")}
