"""The Run: its schema, its way to disk and back, and which comparisons it answers."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

from lib.analyses.data import stats
from lib.data.items import Builder, Items
from lib.errors import DataError, ModelError, ParameterError, StoreError
from lib.extraction import (
    TRAINED,
    align,
    check,
    check_target,
    comparisons,
    disk,
    extract,
    extract_part,
    is_stored,
    load_run,
    pool,
    save_run,
    sealed,
)
from lib.extraction import forward as forwards
from lib.extraction.job import prepare
from lib.models.base import Readout
from lib.models.prompt import PromptFormat
from lib.planted.worlds import make_run
from lib.run import texts

SECRET = "zebra-crossing"  # in every text, so that a run with text in it is found out


def made_up(n: int = 6) -> Items:
    """Items of two and three responses; items 0 and 1 have the same prompt."""
    builder = Builder("made-up", {"licence": "MIT", "origin": "this test"})
    for i in range(n):
        responses = [f"{SECRET} yes {i}", f"{SECRET} no, not at all"] + [f"{SECRET} well"] * (i % 2)
        pairs = [(i % 2, 1 - i % 2, "helpful", "odd" if i % 2 else "even")]
        pairs += [(0, 2, "safe", "odd")] * (i % 2)
        builder.add(f"part/{i}", f"{SECRET} question {max(i, 1)}?", responses, pairs)
    builder.drop("empty", 3)
    return builder.build()


@pytest.fixture(scope="module")
def items() -> Items:
    return made_up()


@pytest.fixture(scope="module")
def run(tiny_model, items, tmp_path_factory) -> xr.Dataset:
    return extract(tiny_model, items, store=tmp_path_factory.mktemp("states") / "store")


@pytest.fixture
def edited(run):
    """A copy of the run that may be changed."""
    return run.copy(deep=True)


# The schema.

DOCUMENTED = {
    "score": (("response", "head"), np.float32),
    "hidden": (("response", "feature"), np.float32),
    "gate_hidden": (("item", "feature"), np.float32),
    "item_of_response": (("response",), np.int64),
    "slot": (("response",), np.int64),
    "prompt_hash": (("item",), np.str_),
    "n_prompt_tokens": (("item",), np.int64),
    "n_response_tokens": (("response",), np.int64),
    "n_chars": (("response",), np.int64),
    "better": (("comparison",), np.int64),
    "worse": (("comparison",), np.int64),
    "criterion": (("comparison",), np.str_),
    "subset": (("comparison",), np.str_),
    "head_source": (("head",), np.str_),
    "head_concept": (("head",), np.str_),
    "response": (("response",), np.int64),
    "head": (("head",), np.str_),
    "item": (("item",), np.str_),
}


def assert_documented(run: xr.Dataset) -> None:
    for name, (dims, kind) in DOCUMENTED.items():
        assert run[name].dims == dims, name
        assert np.issubdtype(run[name].dtype, kind), name
    assert set(run.variables) == set(DOCUMENTED)


def test_a_run_has_the_documented_variables_dims_and_types(run):
    assert_documented(run)
    assert dict(run.sizes) == {
        "response": 15,
        "head": 2,
        "item": 6,
        "feature": 32,
        "comparison": 9,
    }
    assert check(run) is run


def test_a_run_says_what_it_was_made_from(run, tiny_model, items):
    assert run.attrs["model"] == "tiny"
    assert run.attrs["dataset"] == "made-up"
    assert run.attrs["items"] == items.fingerprint
    assert run.attrs["fingerprint"] == tiny_model.fingerprint
    parts = {"backbone", "configuration", "tokenizer", "template", "tokens", "heads"}
    assert set(tiny_model.fingerprint) == parts
    assert run.attrs["dropped"] == {"empty": 3}
    assert run.attrs["about"] == {"licence": "MIT", "origin": "this test"}
    assert run.attrs["extraction"] == {
        "dtype": "float32",
        "device": "cpu",
        "packing": "trees",
        "attention": "branching",
        "reads": "the last '<|im_end|>'",
    }
    assert set(run.attrs["versions"]) == {
        "torch",
        "transformers",
        "tokenizers",
        "safetensors",
    }
    assert "capital of France" in run.attrs["template_example"]
    json.dumps(run.attrs)  # plain JSON


def test_labels_and_lengths_are_those_of_the_items(run, items):
    assert run["item"].values.tolist() == items.prompts["item"].tolist()
    assert run["head"].values.tolist() == ["first", "second"]
    assert run["head_concept"].values.tolist() == ["helpfulness", ""]
    assert run["item_of_response"].values.tolist() == items.item_of_response.tolist()
    assert run["slot"].values.tolist() == items.responses["slot"].tolist()
    assert run["n_chars"].values.tolist() == [len(text) for text in items.responses["text"]]
    # The tokens are bytes: those of the response and the end of its turn.
    assert (run["n_response_tokens"] == run["n_chars"] + 1).all()
    # <|im_start|>user\n … <|im_end|>\n<|im_start|>assistant\n: 5 + 2 + 11 tokens about the text.
    text = items.prompts["prompt"][0][0]["content"]
    assert run["n_prompt_tokens"][0] == len(text) + 1 + 5 + 1 + 1 + 1 + 10


def test_scores_can_be_recomputed_from_the_states(run, tiny_model):
    again = tiny_model.read(run["hidden"].values).score
    assert again == pytest.approx(run["score"].values, abs=1e-6)
    by_label = run["score"].sel(response=3, head="second")
    assert by_label == run["score"].values[3, 1]


def test_a_planted_run_follows_the_schema():
    assert_documented(make_run(np.zeros((4, 2))))


@pytest.mark.parametrize(
    ("damage", "needed"),
    [
        (lambda run: run.drop_vars("score"), "variable 'score' in a run"),
        (lambda run: run.drop_vars("head"), "coordinate 'head' in a run"),
        (lambda run: run.assign(slot=run["slot"].astype(float)), "'slot' with dims"),
        (
            lambda run: run.assign(score=run["score"].T),
            r"'score' with dims \('response', 'head",
        ),
        (lambda run: run.assign(better=run["better"] + 100), "'better' among the run's"),
        (lambda run: run.assign(worse=run["worse"] * 0 - 1), "'worse' among the run's"),
        (lambda run: run.assign(gate=run["score"]), "'gate' with dims"),
        (lambda run: run.assign(layer_hidden=run["hidden"]), "'layer_hidden' with dims"),
        (
            lambda run: run.assign_coords(head=["same"] * run.sizes["head"]),
            "distinct names of heads in a run; found 'same' more than once",
        ),
        (
            lambda run: run.assign_coords(item=["twice"] * run.sizes["item"]),
            "distinct ids of items in a run; found 'twice' more than once",
        ),
    ],
)
def test_what_breaks_the_schema_is_named(edited, damage, needed):
    with pytest.raises(StoreError, match=needed):
        check(damage(edited))


def test_a_missing_attribute_is_named(edited):
    del edited.attrs["dropped"]
    with pytest.raises(StoreError, match="attribute 'dropped' of a run"):
        check(edited)


def test_a_run_that_breaks_the_schema_is_not_saved(edited, tmp_path):
    with pytest.raises(StoreError):
        save_run(edited.drop_vars("slot"), tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


# To disk and back.


def test_a_run_comes_back_as_it_was(run, tmp_path):
    folder = save_run(run, tmp_path / "a" / "run")
    back = load_run(folder)
    xr.testing.assert_identical(back, run)
    assert_documented(back)


def test_optional_variables_and_odd_strings_come_back_too(edited, tmp_path):
    generator = np.random.default_rng(0)
    shape = (edited.sizes["item"], edited.sizes["head"])
    edited["final"] = ("response", generator.random(15).astype(np.float32))
    edited["gate"] = (("item", "head"), generator.random(shape).astype(np.float32))
    edited["subset"][0] = 'é "quoted" \n</script>'
    edited["score"][2, 0] = np.nan
    edited.attrs["missing"] = ["日本"]
    xr.testing.assert_identical(load_run(save_run(edited, tmp_path / "run")), edited)


@pytest.fixture
def tapped(run):
    """The run with two layers tapped: three entries of the stream, two of the MLPs."""
    generator = np.random.default_rng(0)
    return run.assign(
        layer_hidden=(
            ("response", "layer", "feature"),
            generator.random((15, 3, 32), np.float32),
        ),
        neuron_mean=(("response", "mlp", "neuron"), generator.random((15, 2, 7), np.float32)),
    )


def test_taps_fill_the_run_and_the_store(run, tiny_model, items, tmp_path, monkeypatch):
    found = extract(tiny_model, items, store=tmp_path / "s", taps=("layers", "neurons"))
    assert found["layer_hidden"].shape == (15, 3, 32)
    assert found["neuron_mean"].shape == (15, 2, 48)
    # Untapped, the last MLP sees fewer tokens at once: the same states but for rounding.
    xr.testing.assert_allclose(
        found.drop_vars(["layer_hidden", "neuron_mean"]), run, rtol=1e-5, atol=1e-6
    )
    monkeypatch.setattr("lib.extraction.forward.start", None)  # not run again
    again = extract(tiny_model, items, store=tmp_path / "s", taps=("neurons", "layers"))
    xr.testing.assert_identical(again, found)
    with pytest.raises(StoreError, match="another taps"):
        extract(tiny_model, items, store=tmp_path / "s")


def test_an_unknown_tap_starts_no_store(tiny_model, items, tmp_path):
    with pytest.raises(ModelError, match="Did you mean 'layers'"):
        extract(tiny_model, items, store=tmp_path / "s", taps=("layer",))
    assert not (tmp_path / "s").exists()


def test_what_was_tapped_comes_back_too(tapped, tmp_path):
    assert check(tapped) is tapped
    xr.testing.assert_identical(load_run(save_run(tapped, tmp_path / "run")), tapped)


def test_what_was_tapped_is_sampled_with_the_states(tapped, tmp_path):
    back = load_run(save_run(tapped, tmp_path / "run", states=2, seed=1))
    kept = np.isfinite(back["hidden"].values).all(axis=1)
    assert 0 < kept.sum() < 15
    for name in ("layer_hidden", "neuron_mean"):
        assert (back[name].values[kept] == tapped[name].values[kept]).all()
        assert np.isnan(back[name].values[~kept]).all()
    xr.testing.assert_identical(load_run(save_run(back, tmp_path / "again")), back)


def test_a_folder_holds_two_files_and_no_text(run, tmp_path):
    folder = save_run(run, tmp_path / "run")
    assert sorted(path.name for path in folder.iterdir()) == ["run.json", "run.safetensors"]
    for path in folder.iterdir():
        assert SECRET.encode() not in path.read_bytes()


def test_saving_twice_gives_the_same_bytes(run, tmp_path):
    first, second = save_run(run, tmp_path / "a"), save_run(run, tmp_path / "b")
    for name in ("run.json", "run.safetensors"):
        assert (first / name).read_bytes() == (second / name).read_bytes()


def test_a_sample_keeps_the_states_of_so_many_items_and_every_score(run, tmp_path):
    back = load_run(save_run(run, tmp_path / "run", states=2, seed=1))
    assert (back["score"] == run["score"]).all()
    kept = np.isfinite(back["gate_hidden"].values).all(axis=1)
    assert kept.sum() == 2
    responses = np.isfinite(back["hidden"].values).all(axis=1)
    assert (responses == kept[run["item_of_response"].values]).all()
    assert (back["hidden"].values[responses] == run["hidden"].values[responses]).all()
    assert np.isnan(back["hidden"].values[~responses]).all()


def test_the_sample_is_seeded_and_smaller_on_disk(run, tmp_path):
    def save(name, **options):
        return (save_run(run, tmp_path / name, **options) / "run.safetensors").read_bytes()

    whole, first, again, other = (
        save("whole"),
        save("first", states=2, seed=0),
        save("again", states=2, seed=0),
        save("other", states=2, seed=3),
    )
    assert first == again != other
    assert len(first) < 0.6 * len(whole)
    assert save("all", states=6) == whole


def test_a_sampled_run_can_be_saved_again(run, tmp_path):
    once = load_run(save_run(run, tmp_path / "a", states=2))
    twice = load_run(save_run(once, tmp_path / "b"))
    xr.testing.assert_identical(once, twice)


def test_an_older_run_in_the_folder_is_replaced(run, edited, tmp_path):
    save_run(run, tmp_path / "run")
    edited["score"][:] = 7
    save_run(edited, tmp_path / "run")
    assert (load_run(tmp_path / "run")["score"] == 7).all()
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("name", ["thesis.txt", ".git", "run.json.bak", "runs/run.json"])
def test_a_folder_with_anything_else_in_it_is_refused_and_kept(run, tmp_path, name):
    folder = save_run(run, tmp_path / "run")
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("mine")
    with pytest.raises(StoreError, match=f"found {name.split('/')[0]}\\. Name another folder"):
        save_run(run, folder)
    with pytest.raises(StoreError, match="one with a run alone"):
        check_target(folder)
    assert (folder / name).read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_folder_or_link_that_is_named_as_a_file_of_a_run_is_refused(tmp_path):
    (tmp_path / "a" / "run.json").mkdir(parents=True)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "run.json").symlink_to(tmp_path / "elsewhere")
    for name in ("a", "b"):
        with pytest.raises(StoreError, match=r"found run\.json"):
            check_target(tmp_path / name)


def test_many_things_are_counted(tmp_path):
    for name in "abcde":
        (tmp_path / name).write_text("")
    with pytest.raises(StoreError, match="found a, b, c and 2 more"):
        check_target(tmp_path)


def test_a_path_that_is_a_file_or_lies_below_one_is_refused(run, tmp_path):
    (tmp_path / "file").write_text("mine")
    for path in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(StoreError, match="found a file"):
            save_run(run, path)
    assert (tmp_path / "file").read_text() == "mine"


def test_an_empty_folder_is_filled_and_a_symlink_stays_one(run, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for _ in range(2):
        save_run(run, tmp_path / "link")
        assert (tmp_path / "link").is_symlink()
        xr.testing.assert_identical(load_run(tmp_path / "real"), run)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real"]
    assert check_target(tmp_path / "link") == (tmp_path / "real").resolve()


def test_a_loop_of_symlinks_is_refused(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(StoreError):
        check_target(tmp_path / "loop")


def test_what_came_into_the_folder_meanwhile_is_not_deleted(run, tmp_path, monkeypatch):
    folder = save_run(run, tmp_path / "run")
    save = sealed.save

    def slow(*args, **options):
        save(*args, **options)
        (folder / "late.txt").write_text("mine")

    monkeypatch.setattr(sealed, "save", slow)
    save_run(run, folder)
    (kept,) = tmp_path.glob("*/late.txt")
    assert kept.read_text() == "mine"
    xr.testing.assert_identical(load_run(folder), run)


def test_a_negative_number_of_states_is_an_error(run, tmp_path):
    with pytest.raises(ParameterError, match="states=-1"):
        save_run(run, tmp_path / "run", states=-1)
    with pytest.raises(ParameterError, match="states=-1"):
        check_target(tmp_path / "run", states=-1)
    assert np.isnan(load_run(save_run(run, tmp_path / "run", states=0))["hidden"]).all()


def test_a_save_that_fails_leaves_the_older_run_and_nothing_else(run, tmp_path, monkeypatch):
    save_run(run, tmp_path / "run")

    def full(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr(sealed, "save_file", full)
    with pytest.raises(StoreError, match=r"No space left .* an older run there is untouched"):
        save_run(run, tmp_path / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    xr.testing.assert_identical(load_run(tmp_path / "run"), run)


def test_a_swap_that_fails_puts_the_older_run_back(run, tmp_path, monkeypatch):
    save_run(run, tmp_path / "run")
    replace_, moved = os.replace, []

    def second_fails(source, target):
        moved.append(target)
        if len(moved) == 2:
            raise OSError("disk quota exceeded")
        replace_(source, target)

    monkeypatch.setattr(disk.os, "replace", second_fails)
    with pytest.raises(StoreError, match="disk quota"):
        save_run(run, tmp_path / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    xr.testing.assert_identical(load_run(tmp_path / "run"), run)


@pytest.fixture
def saved(run, tmp_path):
    return save_run(run, tmp_path / "run")


def test_a_folder_without_a_run_says_how_to_make_one(saved, tmp_path):
    with pytest.raises(StoreError, match=r"a run .*; found none\. .*lib extract"):
        load_run(tmp_path / "nowhere")
    (saved / "run.safetensors").unlink()
    with pytest.raises(StoreError, match="found none"):
        load_run(saved)


@pytest.mark.parametrize("keep", [0, 5, 400, -8])
def test_cut_tensors_are_an_error(saved, keep):
    path = saved / "run.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(StoreError, match=r"a whole run in .*Delete the folder"):
        load_run(saved)


@pytest.mark.parametrize("name", ["run.json", "run.safetensors"])
def test_a_byte_that_changed_on_disk_is_an_error(saved, name):
    path = saved / name
    content = path.read_bytes()
    for i in np.random.default_rng(0).integers(0, len(content), 40):
        changed = bytearray(content)
        changed[i] ^= 1 << (i % 8)
        path.write_bytes(changed)
        with pytest.raises(StoreError):
            load_run(saved)
    path.write_bytes(content)
    load_run(saved)


def test_a_document_that_was_edited_is_an_error(saved):
    rewrite(saved, lambda document: document["attrs"].update(model="another"))
    with pytest.raises(StoreError, match=r"run\.json that doesn't match its checksum"):
        load_run(saved)


def rewrite(saved, change) -> None:
    path = saved / "run.json"
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def seal_again(saved) -> None:
    """As a writer with a bug would: a damaged document under a checksum that fits."""
    tensors, _ = sealed.load(saved / "run.safetensors")
    digest = hashlib.sha256((saved / "run.json").read_bytes()).hexdigest()
    sealed.save(saved / "run.safetensors", tensors, **{"run.json": digest})


@pytest.mark.parametrize("text", [b"", b'{"format": 1', b"\xff\xfe"])
def test_a_damaged_document_is_an_error(saved, text):
    (saved / "run.json").write_bytes(text)
    with pytest.raises(StoreError, match="a whole run in"):
        load_run(saved)


@pytest.mark.parametrize("text", ["[]", "{}", '{"format": 1}', '"run"', "null"])
def test_a_document_of_another_format_is_an_error(saved, text):
    (saved / "run.json").write_text(text)
    with pytest.raises(StoreError, match="a run of format 2"):
        load_run(saved)


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document.pop("sizes"),
        lambda document: document.pop("strings"),
        lambda document: document["strings"].pop("head"),
        lambda document: document["strings"].pop("subset"),
        lambda document: document["strings"]["subset"].pop(),
        lambda document: document["sizes"].update(response=14),
        lambda document: document["attrs"].pop("model"),
        lambda document: document.update(sizes=[]),
    ],
)
def test_a_document_that_lacks_a_part_is_an_error(saved, change):
    rewrite(saved, change)
    seal_again(saved)
    with pytest.raises(StoreError, match=r"^(?!.*checksum)"):
        load_run(saved)


@pytest.mark.parametrize(
    ("attribute", "value", "place"),
    [
        ("dropped", {"empty": "3"}, "dropped.empty"),
        ("dropped", [], "dropped"),
        ("missing", None, "missing"),
        ("fingerprint", {"heads": 7}, "fingerprint.heads"),
        ("unscored", {"long": "12"}, "unscored.long"),
        ("model", ["m"], "model"),
    ],
)
def test_an_attribute_of_another_type_is_named(saved, attribute, value, place):
    rewrite(saved, lambda document: document["attrs"].update({attribute: value}))
    seal_again(saved)
    with pytest.raises(StoreError, match=f"as {place} in the run in .*Delete the folder"):
        load_run(saved)


def test_tensors_of_another_run_are_an_error(saved, tmp_path):
    other = save_run(make_run(np.zeros((8, 2))), tmp_path / "other")
    (saved / "run.safetensors").write_bytes((other / "run.safetensors").read_bytes())
    with pytest.raises(StoreError, match="doesn't match its checksum"):
        load_run(saved)
    seal_again(saved)
    with pytest.raises(StoreError, match=r"^(?!.*checksum)"):
        load_run(saved)


# Whose comparisons.


def test_the_runs_own_comparisons_are_those_of_the_items(run, items):
    table = comparisons(run)
    assert table.columns.tolist() == items.comparisons.columns.tolist()
    assert table.values.tolist() == items.comparisons.values.tolist()


def test_positions_criteria_and_prompts_of_the_comparisons(run):
    found = align(run)
    assert len(found) == 9
    # Items of 2, 3, 2, 3, 2, 3 responses start at rows 0, 2, 5, 7, 10, 12.
    assert found.better.tolist() == [0, 3, 2, 5, 8, 7, 10, 13, 12]
    assert found.worse.tolist() == [1, 2, 4, 6, 7, 9, 11, 12, 14]
    assert found.criterion.tolist()[:3] == ["helpful", "helpful", "safe"]
    assert found.subset.tolist()[:3] == ["even", "odd", "odd"]
    # Items 0 and 1 share their prompt's text, so they are one prompt.
    same = found.prompt == found.prompt[0]
    assert same.tolist() == [True] * 3 + [False] * 6
    assert sorted(set(found.prompt.tolist())) == list(range(5))


def test_other_comparisons_over_the_same_items_are_answered(run, items):
    table = items.comparisons.iloc[[4, 0]]
    assert align(run, table).better.tolist() == [8, 0]


def test_a_filtered_run_still_answers_the_comparisons_of_all_items(
    tiny_model, items, run, tmp_path
):
    trained = frozenset(items.prompts["prompt_hash"][[2, 4]])
    model = replace(tiny_model, trained_on=trained)
    left = extract(model, items, store=tmp_path / "left")
    assert left["item"].values.tolist() == ["part/0", "part/1", "part/3", "part/5"]
    assert left["response"].values.tolist() == [0, 1, 2, 3, 4, 7, 8, 9, 12, 13, 14]
    assert left.attrs["dropped"] == {"empty": 3, TRAINED: 2}
    found = align(left, items.comparisons)
    kept = items.comparisons[~items.comparisons["item"].isin(["part/2", "part/4"])]
    assert left["response"].values[found.better].tolist() == kept["better"].tolist()
    assert left["response"].values[found.worse].tolist() == kept["worse"].tolist()
    assert comparisons(left).values.tolist() == kept.values.tolist()
    # The same scores under the same labels, on disk too.
    same = run["score"].sel(response=left["response"])
    assert left["score"].values == pytest.approx(same.values, abs=1e-4)
    back = load_run(save_run(left, tmp_path / "run"))
    xr.testing.assert_identical(back, left)
    assert align(back, items.comparisons).better.tolist() == found.better.tolist()


def test_comparisons_of_other_items_are_an_error(run, items):
    other = items.comparisons.assign(item="elsewhere/0")
    with pytest.raises(DataError, match="the run of made-up holds; found 9 of other items"):
        align(run, other)


def test_comparisons_across_items_are_an_error(run, items):
    crossed = items.comparisons.drop(columns="item").assign(worse=0)
    with pytest.raises(DataError, match="of other items"):
        align(run, crossed)


def test_comparisons_of_which_the_run_holds_none_are_an_error(run, items):
    beyond = items.comparisons.assign(
        better=items.comparisons["better"] + 1000, worse=items.comparisons["worse"] + 1000
    )
    with pytest.raises(DataError, match="9 of other items"):
        align(run, beyond)


# What can't be scored is counted, never squeezed in.


def test_items_refused_by_the_template_are_left_out_and_counted(
    tiny_model, byte_tokenizer, tmp_path
):
    strict = (
        "{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
        "{{ raise_exception('roles must alternate') }}{% endif %}"
        "{{ m['role'] + m['content'] + '<|im_end|>' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ 'assistant' }}{% endif %}"
    )
    form = PromptFormat(byte_tokenizer(strict), "strict", "<|im_end|>")
    builder = Builder("mixed")
    twice = [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]
    for i, prompt in enumerate(["one", twice, "three"]):
        builder.add(str(i), prompt, ["yes", "no"], [(0, 1, "c", "s")])
    items = builder.build()
    found = extract(replace(tiny_model, format=form), items, store=tmp_path / "store")
    assert found["item"].values.tolist() == ["0", "2"]
    assert found["response"].values.tolist() == [0, 1, 4, 5]
    assert found.attrs["dropped"] == {"refused by the chat template": 1}
    assert align(found, items.comparisons).better.tolist() == [0, 2]


def test_responses_of_the_same_tokens_are_no_comparison_and_counted(
    tiny_model, byte_tokenizer, tmp_path
):
    trims = (
        "{% for m in messages %}{{ m['role'] + (m['content'] | trim) + '<|im_end|>' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ 'assistant' }}{% endif %}"
    )
    form = PromptFormat(byte_tokenizer(trims), "trims", "<|im_end|>")
    builder = Builder("same")
    builder.add("0", "one", ["yes", " yes", "no"], [(0, 1, "c", "s"), (0, 2, "c", "s")])
    builder.add("1", "two", ["yes", "no"], [(1, 0, "c", "s")])
    builder.add("2", "three", ["yes ", "yes"], [(1, 0, "c", "s")])
    items = builder.build()
    found = extract(replace(tiny_model, format=form), items, store=tmp_path / "store")
    assert found["better"].values.tolist() == [0, 4] and found["worse"].values.tolist() == [2, 3]
    assert found.attrs["dropped"] == {"comparisons of identical tokens": 2}
    assert found["item"].values.tolist() == ["0", "1", "2"]
    assert found.attrs["items"] == items.fingerprint


@pytest.mark.parametrize("alone", [1, 3, 100])
def test_shards_that_hold_nothing_to_score_change_nothing(tiny_model, tmp_path, monkeypatch, alone):
    monkeypatch.setattr("lib.extraction.store.shard_responses", lambda device: alone)
    builder = Builder("long")
    for i, words in enumerate([600, 1, 600, 600, 2, 600]):
        builder.add(str(i), f"q{i}", ["yes", "w" * words], [(0, 1, "c", "s")])
    found = extract(tiny_model, builder.build(), store=tmp_path / "store")
    assert found["item"].values.tolist() == ["1", "4"]
    assert found["response"].values.tolist() == [2, 3, 8, 9]
    assert found.attrs["unscored"] == {"longer than the model's context": ["0", "2", "3", "5"]}
    again = extract(tiny_model, builder.build(), store=tmp_path / "store")
    xr.testing.assert_identical(again, found)
    expected = extract(tiny_model, builder.build().select([1, 4]), store=tmp_path / "two")
    assert np.allclose(found["score"], expected["score"], atol=1e-5)


def test_the_length_of_a_shard_is_that_of_its_texts(tiny_model, tmp_path, monkeypatch):
    monkeypatch.setattr("lib.extraction.store.shard_responses", lambda device: 4)
    builder = Builder("two shards")
    turns = [("user", "one"), ("assistant", "four"), ("user", "x")]  # 8 characters
    turns = [{"role": role, "content": text} for role, text in turns]
    for i, (prompt, answers) in enumerate(
        [(turns, ["a", "bb"]), ("yy", ["c", "d"]), ("z", ["e" * 9])]
    ):
        builder.add(str(i), prompt, answers, [])
    job = prepare(tiny_model, builder.build(), tmp_path / "s", "trees", True, ())
    assert job.shards == [slice(0, 2), slice(2, 3)]
    assert job.n_chars == [8 + 1 + 2 + 2 + 1 + 1, 1 + 9]


def test_a_shard_is_encoded_when_its_turn_comes_and_by_nobody_else(
    tiny_model, items, tmp_path, monkeypatch
):
    monkeypatch.setattr("lib.extraction.store.shard_responses", lambda device: 4)
    asked, started = [], []
    encode, start = PromptFormat.encode_many, forwards.start
    monkeypatch.setattr(
        PromptFormat,
        "encode_many",
        lambda self, prompts, responses: (
            asked.append(len(prompts)) or encode(self, prompts, responses)
        ),
    )
    monkeypatch.setattr(
        "lib.extraction.parity.objection", lambda *_: ""
    )  # which would start something too
    monkeypatch.setattr("lib.models.prompt.PROBES", ())  # which the model's name encodes
    monkeypatch.setattr(
        forwards, "start", lambda *args, **more: started.append(len(asked)) or start(*args, **more)
    )
    extract(tiny_model, items, store=tmp_path / "all")
    assert sum(asked) == len(items)
    assert started == list(range(1, len(asked) + 1))
    asked.clear()
    assert is_stored(tiny_model, items, store=tmp_path / "all")
    assert len(asked) == 1
    asked.clear()
    folder = extract_part(tiny_model, items, 1, 3, store=tmp_path / "part")
    assert len(asked) == 1 + len(list(folder.glob("*.safetensors")))  # the first, to try it


def test_items_longer_than_the_context_are_left_out_and_counted(tiny_model, tmp_path):
    builder = Builder("long")
    for i, words in enumerate([1, 600, 2]):  # a context of 512 tokens
        builder.add(str(i), "q", ["yes", "w" * words], [(0, 1, "c", "s")])
    found = extract(tiny_model, builder.build(), store=tmp_path / "store")
    assert found["item"].values.tolist() == ["0", "2"]
    assert found.attrs["items"] == builder.build().select([0, 2]).fingerprint
    assert found.attrs["dropped"] == {"longer than the model's context": 1}
    assert found.attrs["unscored"] == {"longer than the model's context": ["1"]}
    save_run(found, tmp_path / "run")
    kept = load_run(tmp_path / "run")
    assert stats.unscored(kept).values.tolist() == [["longer than the model's context", "1"]]
    other = kept.copy()
    del other.attrs["unscored"]  # of before items were named
    assert stats.unscored(other).empty
    named = pool([kept, kept.assign_attrs(dataset="again")]).attrs["unscored"]
    assert named == {"longer than the model's context": ["long: 1", "again: 1"]}


def test_items_of_tokens_without_an_embedding_are_left_out_and_counted(
    tiny_model, tiny_llama, tmp_path
):
    # The tokens are bytes; the model lacks "delete", which comes after those of the prompts.
    last = int(tiny_model.format.tokenize("\x7f")[0])
    builder = Builder("odd")
    for i, text in enumerate(["well", "so\x7f", "no"]):
        builder.add(str(i), "q", ["yes", text], [(0, 1, "c", "s")])
    model = replace(tiny_model, backbone=tiny_llama(vocab_size=last))
    found = extract(model, builder.build(), store=tmp_path / "store")
    assert found["item"].values.tolist() == ["0", "2"]
    assert found.attrs["dropped"] == {"token that the model has no embedding for": 1}


def test_prompts_that_trained_a_head_can_be_kept_on_request(tiny_model, items, tmp_path):
    model = replace(tiny_model, trained_on=frozenset(items.prompts["prompt_hash"]))
    kept = extract(model, items, store=tmp_path / "store", held_out=False)
    assert kept.sizes["item"] == 6
    with pytest.raises(DataError, match=f"none: 3 empty, 6 {TRAINED}.*held_out=False"):
        extract(model, items, store=tmp_path / "other")


def test_the_items_given_are_untouched(tiny_model, items, run):
    assert items.fingerprint == made_up().fingerprint
    assert "row" not in items.responses


def test_a_gated_model_reads_both_states_and_keeps_its_gate(tiny_model, items, tmp_path):
    class Gated(type(tiny_model)):
        gated = True

        def read(self, hidden, gate_hidden=None):
            score = super().read(hidden).score
            gate = np.stack([gate_hidden[:, 0], 1 - gate_hidden[:, 0]], axis=1)
            return Readout(score, (score * gate).sum(axis=1), gate)

    model = Gated(**vars(tiny_model))
    found = extract(model, items, store=tmp_path / "store")
    gate = found["gate"].values
    assert gate.shape == (6, 2)
    assert gate[:, 0] == pytest.approx(found["gate_hidden"].values[:, 0])
    owner = found["item_of_response"].values
    expected = (found["score"].values * gate[owner]).sum(axis=1)
    assert found["final"].values == pytest.approx(expected, abs=1e-5)


def test_a_nul_at_the_end_of_a_name_merges_no_two():
    assert texts(["a", "b", 3]).tolist() == ["a", "b", "3"]
    # In an array of fixed width "a" and "a\0" would be the same.
    with pytest.raises(StoreError, match="NUL"):
        texts(["a", "a\0"])
