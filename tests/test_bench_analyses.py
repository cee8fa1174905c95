"""The benchmark of analyses calls what the pages call, on a run that is a real one but for size."""

from __future__ import annotations

import importlib.util
from argparse import Namespace

import numpy as np
import pytest

from lib import paths
from lib.analyses.gating import stats
from lib.analyses.geometry import stats as geometry
from lib.extraction import align, check


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location(
        "bench_analyses", paths.ROOT / "bench/analyses.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_made_up_run_is_gated_linear_and_has_two_pairs_a_prompt(bench):
    run, weight = bench.made_up(64, 24)
    check(run)
    assert run.sizes["head"] == 19
    assert np.bincount(align(run).prompt).tolist() == [2] * 32
    assert stats.identity(run)["holds"].all()
    assert geometry.identity(run, weight)["verdict"].eq("holds").all()


@pytest.mark.parametrize("name", ["validity", "labels", "disentanglement", "geometry", "gating"])
def test_an_analysis_is_timed_with_its_memory(bench, name):
    found = bench.timed(name, Namespace(pairs=64, features=24, draws=20))
    assert 0 < found["seconds"] < 60 and 0 < found["peak_gib"] < 8


def test_each_analysis_is_one_that_the_module_holds(bench):
    assert all(callable(getattr(bench, name)) for name in bench.ANALYSES)
    assert set(bench.TOGETHER) < set(bench.ANALYSES)
