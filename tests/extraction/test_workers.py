"""Several workers: together they make what one makes, byte for byte."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.data.items import Builder, Items
from lib.errors import ParameterError, StoreError
from lib.extraction import extract, extract_part, store


def made_up(n: int = 9) -> Items:
    builder = Builder("made-up")
    for i in range(n):
        builder.add(f"item-{i}", f"question {i}?", ["yes " * i, f"no {i}"], [(0, 1, "c", "s")])
    return builder.build()


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    monkeypatch.setattr(store, "shard_responses", lambda device: 4)


def shards(folder) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes()
        for path in folder.iterdir()
        if not path.name.startswith(store.LOCK)
    }


@given(tokens=st.lists(st.integers(1, 1000), max_size=40), workers=st.integers(1, 9))
def test_every_shard_has_one_worker_and_none_has_much_more_than_another(tokens, workers):
    parts = store.parts(tokens, workers)
    assert sorted(shard for part in parts for shard in part) == list(range(len(tokens)))
    load = [sum(tokens[shard] for shard in part) for part in parts]
    # Largest first: nobody was given a shard while another had less to do.
    assert max(load) - min(load) <= max(tokens, default=0)


def test_the_shares_by_hand():
    # 9 | 7 | then 5 to the second (12), 4 to the first (13), 3 to the second (15).
    assert store.parts([4, 9, 3, 7, 5], 2) == [[0, 1], [2, 3, 4]]


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
def test_any_number_of_workers_makes_the_shards_of_one(tiny_model, tmp_path, workers):
    alone = extract(tiny_model, made_up(), store=tmp_path / "alone")
    for part in reversed(range(workers)):
        extract_part(tiny_model, made_up(), part, workers, store=tmp_path / "shared")
    assert shards(tmp_path / "shared") == shards(tmp_path / "alone")
    run = extract(tiny_model, made_up(), store=tmp_path / "shared")
    assert run.identical(alone)


def test_stores_of_their_own_are_gathered(tiny_model, tmp_path):
    alone = extract(tiny_model, made_up(), store=tmp_path / "alone")
    folders = [
        extract_part(tiny_model, made_up(), part, 3, store=tmp_path / f"{part}")
        for part in range(3)
    ]
    run = extract(tiny_model, made_up(), store=tmp_path / "all", gather=folders)
    assert run.identical(alone)
    assert shards(tmp_path / "all") == shards(tmp_path / "alone")


def test_a_store_of_other_items_is_never_gathered(tiny_model, tmp_path):
    other = extract_part(tiny_model, made_up(5), 0, 1, store=tmp_path / "other")
    with pytest.raises(StoreError, match="another items"):
        extract(tiny_model, made_up(), store=tmp_path / "all", gather=[other])
    assert not list((tmp_path / "all").glob("*.safetensors"))


def test_a_damaged_shard_is_passed_over_and_computed_again(tiny_model, tmp_path):
    alone = extract(tiny_model, made_up(), store=tmp_path / "alone")
    folder = extract_part(tiny_model, made_up(), 0, 1, store=tmp_path / "part")
    path = folder / "00001.safetensors"
    path.write_bytes(path.read_bytes()[:-3])
    run = extract(tiny_model, made_up(), store=tmp_path / "all", gather=[folder])
    assert np.array_equal(run["score"].values, alone["score"].values)


def test_a_store_computed_another_way_is_never_gathered(tiny_model, tmp_path, monkeypatch):
    folder = extract_part(tiny_model, made_up(), 0, 1, store=tmp_path / "part")
    from lib.extraction import parity

    monkeypatch.setattr(parity, "objection", lambda *_: "made up")
    with pytest.raises(StoreError, match="computed in one way"):
        extract(tiny_model, made_up(), store=tmp_path / "all", gather=[folder])


@pytest.mark.parametrize(("part", "parts"), [(2, 2), (-1, 2), (0, 0)])
def test_a_part_that_is_none_of_them_is_an_error(tiny_model, tmp_path, part, parts):
    with pytest.raises(ParameterError, match="Number the workers from 0"):
        extract_part(tiny_model, made_up(), part, parts, store=tmp_path / "s")


def test_workers_write_side_by_side_and_nobody_else_may(tiny_model, tmp_path):
    manifest = {"items": "abc"}
    with (
        store.opened(tmp_path / "s", manifest, dict, (0, 2)),
        store.opened(tmp_path / "s", manifest, dict, (1, 2)),
    ):
        with (
            pytest.raises(StoreError, match="in use"),
            store.opened(tmp_path / "s", manifest, dict, (1, 2)),
        ):
            pass
        with pytest.raises(StoreError, match="in use"), store.lock(tmp_path / "s"):
            pass
    with store.lock(tmp_path / "s"):
        pass


@pytest.fixture
def released(write_tiny, tmp_path):
    """What the command is given of a tiny checkpoint and a file of six pairs."""
    write_tiny.write_classifier(tmp_path / "model")
    file = tmp_path / "pairs.jsonl"
    row = '{{"prompt": "question {i}?", "chosen": "yes {i}", "rejected": "no"}}\n'
    file.write_text("".join(row.format(i=i) for i in range(6)))
    return ["extract", "--model", str(tmp_path / "model"), "--dataset", f"file:{file}"]


@pytest.mark.slow
def test_processes_of_a_launcher_share_the_work(released, tmp_path):
    launched = subprocess.run(
        [
            *(sys.executable, "-m", "accelerate.commands.launch", "--cpu", "--num_processes", "2"),
            *("-m", "lib", *released, "--out", str(tmp_path / "two")),
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert launched.returncode == 0, launched.stderr
    assert launched.stdout.count("6 items scored") == 1
    from lib import load_items, load_model
    from lib.extraction import load_run

    model, items = load_model(released[2]), load_items(released[4])
    alone = extract(model, items, store=tmp_path / "s")
    two = load_run(tmp_path / "two")
    sd = alone["score"].values.std(axis=0)
    assert (np.abs(two["score"].values - alone["score"].values) <= 1e-4 * sd).all()


@pytest.mark.slow
def test_parts_and_streams_from_the_shell_make_the_run_of_one_command(released, tmp_path, capsys):
    from lib.__main__ import main
    from lib.extraction import load_run

    folders = [str(tmp_path / f"part-{part}") for part in range(2)]
    for part, folder in enumerate(folders):
        assert main([*released, "--part", f"{part}/2", "--store", folder]) == 0
    gather = [word for folder in folders for word in ("--gather", folder)]
    assert main([*released, *gather, "--out", str(tmp_path / "gathered")]) == 0
    assert main([*released, "--stream", "3", "--out", str(tmp_path / "streamed")]) == 0
    assert main([*released, "--out", str(tmp_path / "whole")]) == 0
    whole = load_run(tmp_path / "whole")["score"].values
    for name in ("gathered", "streamed"):
        found = load_run(tmp_path / name)["score"].values
        assert (np.abs(found - whole) <= 1e-4 * whole.std(axis=0)).all()
    assert main([*released, "--stream", "3", "--limit", "2", "--out", str(tmp_path / "x")]) == 1
    assert main(released) == 1
    assert "--out FOLDER" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--stream", "3", "--out", "x"], "without the launcher"),
        (["--part", "0/2"], "without the launcher"),
    ],
)
def test_a_launcher_shares_the_work_by_itself(monkeypatch, capsys, flags, says):
    from lib.__main__ import main

    for name, value in {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    given = ["extract", "--model", "smol-armo", "--dataset", "stimuli/probes"]
    assert main([*given, *flags]) == 1
    assert says in capsys.readouterr().err


def test_variables_of_a_launcher_that_are_no_numbers_are_an_error(monkeypatch):
    from lib.extraction.workers import world

    monkeypatch.setenv("WORLD_SIZE", "two")
    with pytest.raises(ParameterError, match="accelerate launch"):
        world()
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert world() is None


def test_a_part_alone_writes_no_run(capsys):
    from lib.__main__ import main

    given = ["extract", "--model", "smol-armo", "--dataset", "stimuli/probes", "--part", "0/2"]
    assert main([*given, "--out", "x"]) == 1
    assert "--part by itself" in capsys.readouterr().err
