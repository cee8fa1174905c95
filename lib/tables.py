"""Tables as files that pages read, each whole or not there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lib.atomic import replacing

if TYPE_CHECKING:  # what is imported to write a page's record needs no table
    import pandas as pd


def write(folder: Path, **tables: pd.DataFrame) -> None:
    """Write each as ``NAME.parquet``, by rename, into a folder that is made when it isn't there."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        with replacing(folder / f"{name}.parquet") as partial:
            table.to_parquet(partial, index=False)
