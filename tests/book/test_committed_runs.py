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
@pytest.mark.parametrize("model", sorted({run.model for run in STIMULI}))
def test_the_model_at_hand_gives_what_is_committed(model, capsys):
    """The tokens of all items, and the scores of some."""
    folders = [run.folder for run in STIMULI if run.model == model]
    assert main(["verify", *folders, "--items", "4"]) == 0, capsys.readouterr()
    assert capsys.readouterr().out.count("the largest difference") == len(folders)
