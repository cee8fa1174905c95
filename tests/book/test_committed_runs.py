"""What is committed under ``book/runs`` is still what its model makes of its data."""

from __future__ import annotations

import json

import pytest

from lib import load_items, paths
from lib.__main__ import main
from lib.book import plan

STIMULI = [
    run
    for run in plan.read(local=False).runs
    if run.committed and run.dataset.startswith("stimuli/")
]


@pytest.mark.parametrize("run", STIMULI, ids=lambda run: f"{run.model}-{run.dataset}")
def test_stimuli_that_changed_need_another_run(run):
    made = json.loads((paths.ROOT / run.folder / "run.json").read_text())["attrs"]
    assert made["items"] == load_items(run.dataset).fingerprint, (
        f"extract {run.dataset} again with {run.model}, as book/reproduce.md says"
    )


@pytest.mark.slow
@pytest.mark.parametrize("run", STIMULI, ids=lambda run: f"{run.model}-{run.dataset}")
def test_the_model_at_hand_gives_what_is_committed(run, capsys):
    assert main(["verify", run.folder]) == 0, capsys.readouterr()
