"""What is committed under ``book/effects`` is still what its model makes of its data."""

from __future__ import annotations

import re
import shlex
import subprocess
from dataclasses import replace

import numpy as np
import pytest

from lib import __main__ as shell
from lib import load_items, load_model, paths
from lib.book import plan
from lib.effects import FINAL
from lib.extraction import load_run
from lib.mechanisms.disk import NAMES, load_effects
from lib.mechanisms.patching import patch

MEGABYTES = 9  # of all of them together
EXPLAINED = [run for run in plan.read(local=False).runs if run.explained]
STIMULI = [run for run in EXPLAINED if run.dataset.startswith("stimuli/")]


def named(runs):
    return pytest.mark.parametrize("run", runs, ids=lambda run: f"{run.model}-{run.dataset}")


def test_they_are_small_and_all_of_them_are_read():
    folder = paths.BOOK / "effects"
    files = [path for path in folder.rglob("*") if path.is_file()]
    known = {paths.ROOT / run.effects / name for run in EXPLAINED for name in NAMES}
    assert set(files) == known
    assert sum(path.stat().st_size for path in files) <= MEGABYTES * 1e6


@named(EXPLAINED)
def test_parts_sum_everything_is_patched_and_scores_are_those_of_the_run(run):
    found = load_effects(paths.ROOT / run.effects)
    assert (found.attrs["model"], found.attrs["dataset"]) == (run.model, run.dataset)
    assert found.attrs["extraction"]["dtype"] == "float32"
    assert found.attrs["sums_within"] <= 1e-4 and found.attrs["everything_within"] <= 1e-3
    assert "--source" not in found.attrs["command"] or "--source SOURCE" in found.attrs["command"]
    kept = load_run(paths.ROOT / run.folder)
    scores = kept["score"].values
    if "final" in kept and kept.sizes["head"] > 1:
        scores = np.column_stack([scores, kept["final"].values])
    place = {
        (kept["item"].values[item], slot): row
        for row, (item, slot) in enumerate(
            zip(kept["item_of_response"].values, kept["slot"].values, strict=True)
        )
    }
    owners = found["item"].values[found["item_of_response"].values]
    rows = [place[key] for key in zip(owners, found["slot"].values, strict=True)]
    spread = scores.std(axis=0)
    assert (np.abs(found["score"].values - scores[rows]) <= 1e-3 * spread).all()


@named(STIMULI)
def test_stimuli_that_changed_need_other_effects(run):
    found, items = load_effects(paths.ROOT / run.effects), load_items(run.dataset)
    kept = items.select(items.prompts["item"].isin(found["item"].values).to_numpy())
    assert kept.fingerprint == found.attrs["items"], (
        f"explain {run.dataset} again with {run.model}, as book/reproduce.md says"
    )


@pytest.mark.slow
@named(STIMULI)
def test_the_model_at_hand_gives_what_is_committed(run):
    found, items = load_effects(paths.ROOT / run.effects), load_items(run.dataset)
    items = items.select(items.prompts["item"].isin(found["item"].values).to_numpy())
    some = found["comparison_of_patched"].values
    rows = [np.flatnonzero(found["response"] == found["better"].values[c])[0] for c in some]
    shortest = int(found["n_response_tokens"].values[rows].argmin())
    one = replace(items, comparisons=items.comparisons.iloc[[some[shortest]]])
    model = load_model(run.model, device="cpu")
    again = patch(model, one, modes=["noising"], parts=["mlp"])
    assert again["better"].values[0] == found["better"].values[some[shortest]]
    kept = found["effect"].sel(way="noising, both ends", node=again["node"].values)
    kept = kept.values[shortest]
    new = again["effect"].sel(head=found["head"].values).values[0, 0]
    assert FINAL not in found["head"].values or FINAL in again["head"].values
    spread = found["score"].values.std(axis=0)
    assert (np.abs(kept - new) <= np.abs(new) / 1000 + 1e-3 * spread).all()


@pytest.mark.skipif(not EXPLAINED, reason="no effects are committed")
def test_every_committed_effect_has_its_command():
    page = (paths.BOOK / "reproduce.md").read_text(encoding="utf-8")
    (body,) = re.findall(r"```sh\n([^`]*book/effects/[^`]*)```", page)
    script = body.replace(".venv/bin/python -m lib", "echo")
    lines = subprocess.run(["bash", "-euc", script], capture_output=True, text=True, check=True)
    told = [shell._parser().parse_args(shlex.split(line)) for line in lines.stdout.splitlines()]
    assert {(each.out, each.model, each.dataset) for each in told} == {
        (run.effects, run.model, run.dataset) for run in EXPLAINED
    }
