"""The store: shards that a killed run finished are used again, and nothing is mixed up."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.data.items import Builder, Items
from lib.errors import ModelError, StoreError
from lib.extraction import extract, extract_part, parity, sealed, store
from lib.extraction import forward as forwards

MANIFEST = {"items": "abc", "backbone": "def", "dtype": "float32"}


def made_up(n: int = 7, text: str = "yes") -> Items:
    builder = Builder("made-up")
    for i in range(n):
        builder.add(f"item-{i}", f"question {i}?", [text, f"no {i}"], [(0, 1, "c", "s")])
    return builder.build()


@pytest.fixture
def small_shards(monkeypatch):
    """Shards of four responses: seven pairs make four shards."""
    monkeypatch.setattr(store, "shard_responses", lambda device: 4)


@pytest.fixture
def forwarded(monkeypatch):
    """The number of items of every shard that is computed."""
    calls = []
    original = forwards.start

    def counted(backbone, items, *args, **options):
        if "on_step" in options:  # not the few that a new store tries its packing on
            calls.append(len(items))
        return original(backbone, items, *args, **options)

    monkeypatch.setattr(forwards, "start", counted)
    return calls


def cut(path, keep: int) -> None:
    """Keep a file's first bytes alone."""
    path.write_bytes(path.read_bytes()[:keep])


def flipped(path, i: int) -> None:
    """Change one bit of a file's byte ``i``."""
    content = bytearray(path.read_bytes())
    content[i] ^= 1
    path.write_bytes(content)


def files(folder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}


# The plan.


@given(counts=st.lists(st.integers(1, 9), max_size=60), size=st.integers(1, 20))
@settings(deadline=None, max_examples=80)
def test_the_plan_covers_every_item_once_in_order(counts, size):
    slices = store.plan(counts, size)
    covered = [i for part in slices for i in range(part.start, part.stop)]
    assert covered == list(range(len(counts)))
    for part in slices:
        held = sum(counts[part])
        assert part.stop > part.start
        assert held < size + max(counts)


def test_the_plan_by_hand():
    # Starts at responses 0, 2, 5, 6, 9: an item goes where its first response falls.
    assert store.plan([2, 3, 1, 3, 1], size=4) == [slice(0, 2), slice(2, 4), slice(4, 5)]
    assert store.plan([]) == []


def test_the_plan_depends_on_the_items_alone(tiny_model, tmp_path, small_shards):
    # Whatever the rows that a machine has room for, shards and labels are the same.
    for name, budget in (("a", 1), ("b", 5000)):
        extract(tiny_model, made_up(), store=tmp_path / name, budget=budget)
    assert sorted(files(tmp_path / "a")) == sorted(files(tmp_path / "b"))
    assert sorted(files(tmp_path / "a")) == [
        *(f"{n:05d}.safetensors" for n in range(4)),
        "manifest.json",
    ]


# Resuming.


def test_a_finished_store_is_read_and_the_model_is_not_run(tiny_model, tmp_path, forwarded):
    first = extract(tiny_model, made_up(), store=tmp_path / "s")
    assert forwarded == [7]
    again = extract(tiny_model, made_up(), store=tmp_path / "s")
    assert forwarded == [7]
    xr.testing.assert_identical(first, again)


def test_new_heads_need_no_new_states(tiny_model, tmp_path, forwarded):
    extract(tiny_model, made_up(), store=tmp_path / "s")
    other = replace(tiny_model, weight=-tiny_model.weight, bias=0 * tiny_model.bias)
    run = extract(other, made_up(), store=tmp_path / "s")
    assert forwarded == [7]
    expected = run["hidden"].values @ other.weight.T
    assert run["score"].values == pytest.approx(expected, abs=1e-5)


def test_a_killed_run_goes_on_where_it_stopped(tiny_model, tmp_path, small_shards, monkeypatch):
    whole = extract(tiny_model, made_up(), store=tmp_path / "whole")
    original, done = store.Store.write, []

    def killed(self, shard, tensors):
        if len(done) == 2:
            self.path(shard).with_suffix(".partial-1").write_bytes(b"half")
            raise KeyboardInterrupt
        done.append(shard)
        original(self, shard, tensors)

    monkeypatch.setattr(store.Store, "write", killed)
    with pytest.raises(KeyboardInterrupt):
        extract(tiny_model, made_up(), store=tmp_path / "s")
    monkeypatch.undo()
    monkeypatch.setattr(store, "shard_responses", lambda device: 4)
    finished = files(tmp_path / "s")
    assert "00002.safetensors" not in finished

    calls = []
    start = forwards.start
    monkeypatch.setattr(
        forwards, "start", lambda *a, **o: calls.append(len(a[1])) or start(*a, **o)
    )
    resumed = extract(tiny_model, made_up(), store=tmp_path / "s")
    assert calls == [2, 1]  # items 4 and 5, and item 6
    xr.testing.assert_identical(resumed, whole)
    assert files(tmp_path / "s") == files(tmp_path / "whole")


class Arrival:
    """Stands for what a GPU reaches when it is done."""

    def synchronize(self):
        pass


def test_on_a_gpu_the_next_shard_is_under_way_before_one_is_waited_for(
    tiny_model, tmp_path, small_shards, monkeypatch
):
    done = []
    start, states = forwards.start, forwards.UnderWay.states
    monkeypatch.setattr(forwards, "_arrivals", lambda devices: [Arrival()])
    monkeypatch.setattr(forwards, "start", lambda *a, **o: done.append("start") or start(*a, **o))
    monkeypatch.setattr(forwards.UnderWay, "states", lambda u: done.append("states") or states(u))
    # Its check waits for each of its states.
    monkeypatch.setattr("lib.extraction.parity.objection", lambda *_: "")
    extract(tiny_model, made_up(), store=tmp_path)
    assert done == ["start", "start", "states", "start", "states", "start", "states", "states"]


@pytest.mark.parametrize("gpu", [False, True])
@pytest.mark.parametrize("error", [KeyboardInterrupt, ModelError("memory", "too little", "Less.")])
def test_what_was_computed_is_kept_when_the_next_shard_fails(
    tiny_model, tmp_path, small_shards, monkeypatch, gpu, error
):
    calls, start = [], forwards.start

    def third_fails(*arguments, **options):
        if "on_step" in options:  # not the few that a new store tries its packing on
            calls.append(1)
            if len(calls) == 3:
                raise error
        return start(*arguments, **options)

    if gpu:
        monkeypatch.setattr(forwards, "_arrivals", lambda devices: [Arrival()])
    monkeypatch.setattr(forwards, "start", third_fails)
    with pytest.raises(error if isinstance(error, type) else type(error)):
        extract(tiny_model, made_up(), store=tmp_path)
    assert {"00000.safetensors", "00001.safetensors"} < set(files(tmp_path))


def test_before_is_called_only_where_something_is_to_be_computed(tiny_model, tmp_path):
    calls = []
    extract(tiny_model, made_up(), store=tmp_path / "a", before=lambda: calls.append("new"))
    extract(tiny_model, made_up(), store=tmp_path / "a", before=lambda: calls.append("kept"))
    extract(
        tiny_model,
        made_up(),
        store=tmp_path / "b",
        gather=[tmp_path / "a"],
        before=lambda: calls.append("gathered"),
    )
    assert calls == ["new"]


def test_a_process_killed_while_writing_leaves_a_store_that_opens(tmp_path):
    code = f"""
import os, signal
import numpy as np
from lib.extraction import sealed, store

def half(tensors, path, metadata):
    path.write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGKILL)

with store.lock({str(tmp_path)!r}):
    opened = store.open_store({str(tmp_path)!r}, {MANIFEST!r})
    opened.write(0, {{"hidden": np.ones((2, 3), np.float32)}})
    sealed.save_file = half
    opened.write(1, {{"hidden": np.ones((2, 3), np.float32)}})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert any(".partial-" in path.name for path in tmp_path.iterdir())
    (tmp_path / ".tmpaIKZHh").write_bytes(b"half")  # where safetensors itself was killed
    with store.lock(tmp_path):  # the lock died with its holder
        opened = store.open_store(tmp_path, MANIFEST)
    assert (opened.read(0, {"hidden": 2})["hidden"] == 1).all()
    assert opened.read(1, {"hidden": 2}) is None
    assert sorted(files(tmp_path)) == ["00000.safetensors", "manifest.json"]


@pytest.mark.parametrize("keep", [0, 7, 200, -4])
@pytest.mark.parametrize("damage", [cut, flipped])
def test_a_cut_or_changed_shard_is_computed_again(
    tiny_model, tmp_path, small_shards, forwarded, damage, keep
):
    first = extract(tiny_model, made_up(), store=tmp_path)
    before = files(tmp_path)
    damage(tmp_path / "00001.safetensors", keep)
    forwarded.clear()
    again = extract(tiny_model, made_up(), store=tmp_path)
    assert forwarded == [2]
    xr.testing.assert_identical(first, again)
    assert files(tmp_path) == before


def test_a_shard_of_another_length_or_content_is_not_read(tmp_path):
    opened = store.open_store(tmp_path, MANIFEST)
    opened.write(0, {"hidden": np.ones((3, 2), np.float32)})
    assert opened.read(0, {"hidden": 3}) is not None
    assert opened.read(0, {"hidden": 2}) is None
    assert opened.read(0, {"hidden": 3, "gate_hidden": 1}) is None
    assert opened.read(1, {"hidden": 3}) is None


def test_the_same_items_give_the_same_bytes(tiny_model, tmp_path, small_shards):
    for name in ("a", "b"):
        extract(tiny_model, made_up(), store=tmp_path / name)
    assert files(tmp_path / "a") == files(tmp_path / "b")


# Foreign stores.


def test_the_manifest_identifies_model_items_and_way_and_holds_no_time(tiny_model, tmp_path):
    extract(tiny_model, made_up(), store=tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert set(manifest) == {
        "items",
        "backbone",
        "configuration",
        "tokenizer",
        "template",
        "tokens",
        "dtype",
        "device",
        "versions",
        "packing",
        "method",
        "shard_responses",
        "decided",
    }
    assert manifest["decided"] == {"packing": "trees", "attention": "branching"}
    assert set(manifest["versions"]) == {"torch", "transformers", "tokenizers"}
    assert manifest["items"] == made_up().fingerprint
    assert manifest["backbone"] == tiny_model.fingerprint["backbone"]


def test_a_store_of_other_items_is_an_error_that_says_so(tiny_model, tmp_path):
    extract(tiny_model, made_up(), store=tmp_path)
    before = files(tmp_path)
    with pytest.raises(StoreError, match=r"one with another items. Name another folder"):
        extract(tiny_model, made_up(text="maybe"), store=tmp_path)
    assert files(tmp_path) == before


def test_a_store_of_another_model_is_an_error_that_says_so(tiny_model, tiny_llama, tmp_path):
    extract(tiny_model, made_up(), store=tmp_path)
    other = replace(tiny_model, backbone=tiny_llama(seed=1))
    with pytest.raises(StoreError, match="one with another backbone"):
        extract(other, made_up(), store=tmp_path)


def test_a_store_of_another_version_or_device_is_an_error_that_says_so(
    tiny_model, tmp_path, monkeypatch
):
    extract(tiny_model, made_up(), store=tmp_path)
    monkeypatch.setattr("lib.models.identity.version", lambda name: "1.2.3+cpu")
    with pytest.raises(StoreError, match="one with another versions"):
        extract(tiny_model, made_up(), store=tmp_path)


def test_what_was_decided_is_asked_once_and_no_difference(tmp_path):
    decided = {"packing": "padded", "attention": "sdpa"}
    first = store.open_store(tmp_path, MANIFEST, lambda: decided)
    again = store.open_store(tmp_path, MANIFEST, lambda: pytest.fail("asked again"))
    assert first.manifest == again.manifest == {**MANIFEST, "decided": decided}
    # In the same order too: a run's attributes are written down in it.
    assert list(first.manifest["decided"]) == list(again.manifest["decided"])


def test_all_that_differs_is_named(tmp_path):
    store.open_store(tmp_path, MANIFEST)
    other = {"items": "abc", "backbone": "x", "dtype": "bfloat16", "extra": 1}
    with pytest.raises(StoreError, match="another backbone, dtype, extra"):
        store.open_store(tmp_path, other)
    store.open_store(tmp_path, dict(reversed(MANIFEST.items())))  # order is no difference


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[1]", "null", "7", "{}", '{"decided": 7}', '{"decided": []}', "[" * 100_000),
        *('{"decided": null}', '[["decided", {}]]'),
    ],
)
def test_a_damaged_manifest_is_an_error_and_nothing_is_removed(tmp_path, text):
    (tmp_path / "manifest.json").write_text(text)
    (tmp_path / "00000.partial-12").write_text("half")
    before = files(tmp_path)
    with pytest.raises(StoreError, match=r"a manifest at .*delete this one if it was a store"):
        store.open_store(tmp_path, MANIFEST)
    assert files(tmp_path) == before


def test_a_manifest_without_the_packing_that_was_decided_is_an_error(tiny_model, tmp_path):
    extract(tiny_model, made_up(), store=tmp_path)
    path = tmp_path / "manifest.json"
    manifest = json.loads(path.read_text())
    for decided in ({}, {"packing": 7}, {"attention": "sdpa"}):
        path.write_text(json.dumps(manifest | {"decided": decided}))
        with pytest.raises(StoreError, match="a manifest at"):
            extract(tiny_model, made_up(), store=tmp_path)


def test_a_manifest_that_is_a_folder_or_no_text_is_an_error(tmp_path):
    for name in ("folder", "bytes"):
        (tmp_path / name).mkdir()
    (tmp_path / "folder" / "manifest.json").mkdir()
    (tmp_path / "bytes" / "manifest.json").write_bytes(b"\xff\xfe")
    for name in ("folder", "bytes"):
        with pytest.raises(StoreError, match="a manifest at"):
            store.open_store(tmp_path / name, MANIFEST)


@pytest.mark.parametrize(
    "name", ["thesis.partial-2", ".tmpnotes", ".tmpabc.txt", "data.safetensors"]
)
def test_a_folder_of_the_users_is_refused_and_left_as_it_was(tmp_path, name):
    (tmp_path / name).write_text("mine")
    (tmp_path / "00000.partial-12").write_text("half")
    with pytest.raises(StoreError, match=f"found {re.escape(name)} and no manifest.json"):
        store.open_store(tmp_path, MANIFEST)
    with (
        pytest.raises(StoreError, match="a store, or an empty or new folder"),
        store.lock(tmp_path),
    ):
        pass
    assert sorted(os.listdir(tmp_path)) == sorted([name, "00000.partial-12"])


def test_a_store_of_another_kind_keeps_its_partial_files(tmp_path):
    store.open_store(tmp_path, MANIFEST)
    (tmp_path / "00000.partial-12").write_text("half")
    with pytest.raises(StoreError, match="one with another items"):
        store.open_store(tmp_path, {**MANIFEST, "items": "others"})
    assert (tmp_path / "00000.partial-12").exists()


def test_in_a_store_only_our_own_partial_files_are_removed(tmp_path):
    store.open_store(tmp_path, MANIFEST)
    ours = [
        "00000.partial-12",
        "manifest.partial-7",
        "00000.safetensors.partial-12-00ab12ff",
        "manifest.json.partial-7-00ab12ff",
        ".tmpaIKZHh",
    ]
    theirs = ["thesis.partial-2", "00000.partial-old", ".tmpnotes", ".tmp"]
    for name in ours + theirs:
        (tmp_path / name).write_text("x")
    store.open_store(tmp_path, MANIFEST)
    assert sorted(os.listdir(tmp_path)) == sorted([*theirs, "manifest.json"])


def test_a_process_killed_before_its_manifest_leaves_a_folder_that_can_be_used(tmp_path):
    with store.lock(tmp_path):
        pass
    (tmp_path / "manifest.partial-7").write_text("{")
    store.open_store(tmp_path, MANIFEST)
    assert not (tmp_path / "manifest.partial-7").exists()


def test_shards_without_a_manifest_are_an_error(tmp_path):
    (tmp_path / "00000.safetensors").write_bytes(b"")
    with pytest.raises(StoreError, match="a manifest beside the shards"):
        store.open_store(tmp_path, MANIFEST)


def test_an_unknown_packing_starts_no_store(tiny_model, tmp_path):
    with pytest.raises(ModelError, match="Did you mean 'trees'"):
        extract(tiny_model, made_up(), store=tmp_path / "s", packing="tree")
    assert list(tmp_path.iterdir()) == []


def test_without_a_folder_states_go_to_the_cache_under_what_made_them(
    tiny_model, tmp_path, monkeypatch, forwarded
):
    monkeypatch.setenv("REWARD_AUDIT_CACHE", str(tmp_path))
    for items in (made_up(), made_up(), made_up(text="maybe")):
        extract(tiny_model, items)
    extract(tiny_model, made_up(), packing="padded")
    assert forwarded == [7, 7, 7]
    assert len(list((tmp_path / "states").iterdir())) == 3


# Any order, any rows, short of memory.


@pytest.fixture(scope="module")
def scored(tiny_model, tmp_path_factory):
    """Scores of seven items, each in its place whatever their order."""

    def score(order, workers=0, **options):
        builder = Builder("made-up")
        for i in order:
            builder.add(f"item-{i}", f"question {i}?", ["yes" * i, f"no {i}"], [(0, 1, "c", "s")])
        folder = tmp_path_factory.mktemp("s") / "s"
        for part in range(workers):
            extract_part(tiny_model, builder.build(), part, workers, store=folder, **options)
        run = extract(tiny_model, builder.build(), store=folder, **options)
        at = np.argsort(run["item"].values)
        return run["score"].values.reshape(7, 2, 2)[at]

    return score


@pytest.fixture(scope="module")
def one_by_one(scored):
    return scored(range(7), packing="padded", budget=1)


@given(
    order=st.permutations(range(7)),
    budget=st.integers(1, 400),
    way=st.booleans(),
    workers=st.integers(0, 5),
)
@settings(deadline=None, max_examples=20)
def test_any_order_row_budget_packing_or_worker_count_gives_the_same_run(
    scored, one_by_one, order, budget, way, workers
):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "shard_responses", lambda device: 4)
        found = scored(order, workers, budget=budget, packing="trees" if way else "padded")
    sd = one_by_one.reshape(14, 2).std(axis=0)
    assert (np.abs(found - one_by_one) <= 1e-4 * sd).all()


def test_short_memory_is_said_and_lasts_for_the_rest_of_the_run(
    tiny_model, tmp_path, small_shards, monkeypatch
):
    expected = extract(tiny_model, made_up(), store=tmp_path / "a")
    backbone, sizes = tiny_model.backbone, []
    calls = backbone.forward

    def small(*args, input_ids, **options):
        sizes.append(input_ids.numel())
        if input_ids.numel() > 45:  # one item has 40 tokens or so
            raise MemoryError
        return calls(*args, input_ids=input_ids, **options)

    monkeypatch.setattr(parity, "objection", lambda *_: "")
    monkeypatch.setattr(backbone, "forward", small)
    with pytest.warns(UserWarning, match="going on with 32 tokens a row instead of 64") as said:
        found = extract(tiny_model, made_up(), store=tmp_path / "b", budget=64)
    assert len(said) == 1
    assert found.attrs["extraction"].pop("out of memory") == "rows cut to 32"
    assert found.attrs == expected.attrs
    assert sum(size > 45 for size in sizes) == 1
    assert found["score"].values == pytest.approx(expected["score"].values, abs=1e-3)


# In use, full, not writable.


def test_a_second_process_is_refused_at_once_and_let_in_later(tmp_path):
    code = f"""
import sys
from lib.extraction import store
with store.lock({str(tmp_path)!r}):
    print("held", flush=True)
    sys.stdin.readline()
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout.readline() == "held\n"
        refused = pytest.raises(StoreError, match=r"in use\. Wait for the other process")
        with refused, store.lock(tmp_path):
            pass
        holder.communicate("go\n")
    with store.lock(tmp_path):
        pass


def test_the_lock_is_let_go_when_something_fails(tmp_path):
    with pytest.raises(KeyboardInterrupt), store.lock(tmp_path):
        raise KeyboardInterrupt
    with store.lock(tmp_path):
        pass


def test_a_full_disk_is_a_clear_error_and_leaves_no_partial_file(tmp_path, monkeypatch):
    opened = store.open_store(tmp_path, MANIFEST)
    opened.write(0, {"hidden": np.ones((1, 1), np.float32)})

    def full(tensors, path, metadata):
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sealed, "save_file", full)
    with pytest.raises(StoreError, match=r"No space left on device.*finished shards are kept"):
        opened.write(1, {"hidden": np.ones((1, 1), np.float32)})
    assert sorted(files(tmp_path)) == ["00000.safetensors", "manifest.json"]


def test_a_path_that_is_no_folder_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    refused = pytest.raises(StoreError, match="a folder to write at")
    with refused, store.lock(tmp_path / "file"):
        pass


# States that are no numbers.


@pytest.mark.parametrize("part", ["hidden", "gate_hidden"])
def test_a_state_that_is_no_number_names_its_item_and_is_not_stored(
    tiny_model, tmp_path, small_shards, monkeypatch, part
):
    original = forwards.UnderWay.states

    def spoiled(under_way):
        states = original(under_way)
        if len(states.gate_hidden) == 1:  # the last shard holds item 6 alone
            getattr(states, part)[-1, 3] = np.nan if part == "hidden" else np.inf
        return states

    monkeypatch.setattr(forwards.UnderWay, "states", spoiled)
    with pytest.raises(ModelError, match=r"NaN or infinity for item 'item-6' \(1 in all\)"):
        extract(tiny_model, made_up(), store=tmp_path)
    assert "00003.safetensors" not in files(tmp_path)
    assert "00002.safetensors" in files(tmp_path)


def test_the_item_of_a_bad_state_inside_a_shard_is_named(tiny_model, tiny_llama, tmp_path):
    # A token of one item alone, "@", has an embedding that is no number.
    backbone = tiny_llama()
    at = tiny_model.format.tokenize("@")[0]
    backbone.embed_tokens.weight[at] = np.nan
    builder = Builder("made-up")
    for i in range(5):
        builder.add(f"item-{i}", "q", ["yes", "n@" if i == 3 else "no"], [(0, 1, "c", "s")])
    with pytest.raises(ModelError, match="for item 'item-3'"):
        extract(replace(tiny_model, backbone=backbone), builder.build(), store=tmp_path)
    assert os.listdir(tmp_path).count("00000.safetensors") == 0


# Killed, again and again.


@pytest.fixture
def extracting():
    """Starts an extraction into a folder: ``extracting(folder)`` is its process id, how it ended."""
    command = [sys.executable, str(Path(__file__).with_name("killed.py"))]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as parent:
        assert "ready\n" in iter(parent.stdout.readline, "")

        def start(folder):
            print(folder, file=parent.stdin, flush=True)
            return int(parent.stdout.readline()), lambda: int(parent.stdout.readline())

        yield start
        parent.stdin.close()


@pytest.mark.slow
def test_twenty_kills_at_random_moments_and_then_the_same_bytes(tmp_path, extracting):
    assert extracting(tmp_path / "whole")[1]() == 0
    states = tmp_path / "killed" / "states"

    def shards():
        return len(list(states.glob("*.safetensors")))

    random, finished, kills = np.random.default_rng(0), [], 0
    while kills < 20:
        # Before it writes any shard or after some, then at any moment of the next one.
        reached = shards() + random.integers(0, 6)
        child, ended = extracting(tmp_path / "killed")
        with suppress(ProcessLookupError):  # it got through
            while shards() < reached:
                os.kill(child, 0)
                time.sleep(0.001)
            time.sleep(random.uniform(0, 0.05))
            os.kill(child, signal.SIGKILL)
        kills += ended() == -signal.SIGKILL
        finished.append(shards())
        if (tmp_path / "killed" / "run").exists():  # it got through: take some away
            for shard in sorted(states.glob("*.safetensors"))[5:]:
                shard.unlink()
            shutil.rmtree(tmp_path / "killed" / "run")
    assert len(set(finished)) > 2  # some at other moments than others
    assert extracting(tmp_path / "killed")[1]() == 0
    for part in ("states", "run"):
        whole, killed = (files(tmp_path / name / part) for name in ("whole", "killed"))
        assert whole == killed
