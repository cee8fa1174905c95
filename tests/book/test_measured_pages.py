"""A page of measurements is made again when a file of them changes, and no other page is."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pandas as pd
import pytest

from lib import paths
from lib.book import pages, plan, steps


def test_only_a_page_that_declares_measurements_reads_them():
    speed = plan.PagePlan("speed", "", shared=True)
    files = sorted((paths.ROOT / "bench" / "results").glob("*.json"))
    assert speed.measurements == [f"bench/results/{path.name}" for path in files]
    assert speed.parameters == {"measurements": "bench/results", "tables": "book/results"}
    assert plan.PagePlan("calibration", "", shared=True).measurements == []


def test_the_graph_of_steps_has_them_as_inputs():
    graph = steps.steps()
    files = {f"bench/results/{path.name}" for path in (paths.ROOT / "bench/results").glob("*.json")}
    assert files and files <= set(graph["page/speed"].given)
    assert not files & set(graph["page/calibration"].given)


@pytest.mark.slow
def test_the_page_is_made_from_the_files_alone(tmp_path):
    for path in (paths.ROOT / "bench" / "results").glob("*.json"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    given = {"measurements": str(tmp_path), "tables": str(tmp_path / "out")}
    page: Path = pages.run_page("speed", tmp_path / "page.ipynb", given)
    text = nbformat.writes(nbformat.read(page, 4))
    assert "was aimed for" in text and '<figure class=\\"chart' in text
    assert len(pd.read_parquet(tmp_path / "out" / "speed_targets.parquet")) >= 8
