"""A run in parts: each a job of its own, gathered into what one job makes."""

import os
import shutil
import subprocess

import numpy as np
import pytest
import yaml

from lib import load_items, load_model, paths
from lib.book import forks, plan, steps
from lib.errors import ParameterError
from lib.extraction import extract, load_run

RUN = ".cache/runs/{}/stimuli/controlled"


def audit(parts, model="smol-armo") -> dict:
    dataset = {"name": "stimuli/controlled", "limit": 12, "parts": parts}
    return {"audits": [{"model": model, "datasets": [dataset], "pages": ["validity"]}]}


def test_parts_are_jobs_of_their_own(tmp_path):
    path = tmp_path / "audit.yml"
    path.write_text(yaml.safe_dump(audit(2)))
    place = "smol-armo/stimuli/controlled"
    parts = [f"part/{place}/{part}-of-2" for part in range(2)]
    graph = steps.steps(plan.read(path))
    assert list(graph)[:3] == [*parts, f"extract/{place}"]
    assert graph[f"extract/{place}"].after == tuple(parts)
    assert graph[f"page/{place}/validity"].after == (f"extract/{place}",)
    path.write_text(yaml.safe_dump(audit(1)))
    assert not {"part"} & {step.kind for step in steps.steps(plan.read(path)).values()}


@pytest.mark.parametrize("parts", [0, -1, 1001, "two", True, 1.5])
def test_a_number_of_parts_that_is_none_is_an_error(tmp_path, parts):
    path = tmp_path / "audit.yml"
    path.write_text(yaml.safe_dump(audit(parts)))
    with pytest.raises(ParameterError, match=r"stimuli/controlled\.parts in audit\.yml"):
        plan.read(path)


@pytest.mark.slow
def test_snakemake_scatters_and_gathers(tmp_path, write_tiny, forked):
    write_tiny.write_classifier(tmp_path / "tiny", max_position_embeddings=4096)
    for name in ("lib", "notebooks"):
        shutil.copytree(
            paths.ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy(paths.ROOT / "Snakefile", tmp_path)
    (tmp_path / "book").mkdir()
    for name in steps.REQUIRED:
        (tmp_path / name).touch()
    (tmp_path / "audit.yml").write_text(yaml.safe_dump(audit(2, "tiny")))
    made = subprocess.run(
        [
            *(*forks.command("snakemake", forked), "--snakefile", "Snakefile", "--cores", "2"),
            *("--", f"{steps.RECEIPTS}/extract/tiny/stimuli/controlled.json"),
        ],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(tmp_path),
            "REWARD_AUDIT_CACHE": str(tmp_path / ".cache"),
            "OMP_NUM_THREADS": "1",
            **forked,
        },
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stderr
    part = f"{steps.RECEIPTS}/part/tiny/stimuli/controlled/1-of-2.json"
    assert (tmp_path / part).is_file()
    items = load_items("stimuli/controlled", limit=12)
    whole = extract(
        load_model(str(tmp_path / "tiny"), device="cpu"), items, store=tmp_path / "states"
    )
    found = load_run(tmp_path / RUN.format("tiny"))
    assert found["item"].values.tolist() == whole["item"].values.tolist()
    sd = whole["score"].values.std(axis=0)
    assert (np.abs(found["score"].values - whole["score"].values) <= 1e-4 * sd).all()
