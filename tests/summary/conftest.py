"""Tables as executed pages leave them, made without executing any."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
import xarray as xr

from lib import paths, stats
from lib.stats.margins import outcomes


@pytest.fixture
def keep(tmp_path):
    """Writes tables of a model's page: ``keep("m", "llmbar", validity=frame)`` → the folder."""

    def write(model: str, dataset: str = "", **tables: pd.DataFrame) -> Path:
        place = paths.slug(model) + (f"/{paths.slug(dataset)}" if dataset else "")
        folder = tmp_path / "results" / place
        folder.mkdir(parents=True, exist_ok=True)
        for name, table in tables.items():
            table.to_parquet(folder / f"{name}.parquet", index=False)
        return tmp_path / "results"

    return write


@pytest.fixture
def audit(keep):
    """Leaves what the validity page of a run leaves, under other names of model and dataset."""

    def write(model: str, dataset: str, run: xr.Dataset, kept: bool = True) -> Path:
        run = run.assign_attrs(model=model, dataset=dataset)
        tables = {"validity": stats.validity(run), "baselines": stats.baselines(run)}
        return keep(model, dataset, **tables, **({"outcomes": outcomes(run)} if kept else {}))

    return write
