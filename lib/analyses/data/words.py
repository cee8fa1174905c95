"""What the data page keeps for other pages, from its tables."""

from __future__ import annotations

import pandas as pd

from lib.stats.winrates import ALL


def counted(counts: pd.DataFrame, lengths: pd.DataFrame) -> dict[str, str]:
    """Values of the data page for other pages."""
    items = counts.set_index("step")["items"]
    longer = lengths[lengths["subset"] == ALL].iloc[0]
    return {
        "read": str(items["read"]),
        "usable": str(items["usable"]),
        "scored": str(items["scored"]),
        "longer": "–" if pd.isna(longer["longer_wins"]) else f"{longer['longer_wins']:.3f}",
    }
