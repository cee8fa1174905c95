"""Kept runs, and audits of them, made of planted scores."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from lib.audits import command, document, measure
from lib.extraction import save_run
from lib.planted.worlds import make_run

PAIRS = 120


def made(name: str = "xstest", heads: int = 2, seed: int = 0, noise: float = 1.0, **given):
    """A run of a model ``m`` whose heads win more than half of the comparisons."""
    source = np.random.default_rng(seed)
    scores = noise * source.standard_normal((2 * PAIRS, heads))
    scores += np.tile([[1.0], [0.0]], (PAIRS, 1))
    run = make_run(scores, name=name, **given)
    run = run.assign_attrs(model="m", dataset=name)
    return run.assign(final=("response", run["score"].values.mean(axis=1)))


@pytest.fixture
def run_of():
    """Makes a run of 120 comparisons, each of its own prompt: of a dataset's name, heads, seed."""
    return made


@pytest.fixture
def audited(tmp_path):
    """Keeps runs under a folder's name and audits them; gives what was found."""

    def audit(*runs, name: str = "kept", **options):
        for run in runs:
            save_run(run, tmp_path / name / run.attrs["dataset"])
        return measure.audit(str(tmp_path / name), [], tmp_path / f"{name}-results", **options)

    return audit


@pytest.fixture
def content(audited):
    """``audit.json`` of kept runs."""

    def make(*runs, **options):
        return document.document([command.of(audited(*runs, **options))])

    return make


@pytest.fixture
def other():
    """A copy of an audit that may be changed."""
    return copy.deepcopy
