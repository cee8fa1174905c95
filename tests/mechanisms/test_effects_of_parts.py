"""Effects: what they hold follows from the model, and comes back from disk as it was."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
import torch
from made_up import TEXTS

from lib import effects as schema
from lib.__main__ import main
from lib.data.items import Builder
from lib.effects import CONSTANT, EVERYTHING, FINAL, PUBLISHED, check, gaps
from lib.errors import DataError, ModelError, ParameterError, StoreError
from lib.mechanisms import patching
from lib.mechanisms.disk import NAMES, load_effects, save_effects
from lib.mechanisms.effects import effects
from lib.models import anatomy as anatomies
from lib.models import load_model
from lib.planted.effects import components, effects_world, make_effects


@pytest.fixture(scope="module")
def computed(gated, pairs, tmp_path_factory):
    return effects(gated, pairs, store=tmp_path_factory.mktemp("store"))


def test_parts_and_lens_end_at_the_score_and_everything_at_zero(computed):
    assert computed["head"].values.tolist()[-1] == FINAL
    score = computed["score"].values
    assert computed["part"].sum("component").values == pytest.approx(score, abs=1e-3)
    assert computed["lens"].values[:, -1] == pytest.approx(score, abs=1e-3)
    raw = computed["lens_raw"].values[:, -1]
    assert computed["part_raw"].sum("component").values == pytest.approx(raw, abs=1e-2)
    assert computed.attrs["sums_within"] <= 1e-4
    assert computed.attrs["everything_within"] <= 1e-3
    every = computed["effect"].sel(way="noising, both ends", node=EVERYTHING).values
    assert every == pytest.approx(-computed["margin"].values, abs=1e-3)


def test_margins_are_those_of_the_chosen_comparisons(computed):
    assert gaps(computed, "score").shape == (3, 4)
    assert schema.patched(computed, "score") == pytest.approx(computed["margin"].values, abs=1e-4)
    assert sorted(computed["comparison_of_patched"].values) == [0, 1, 2]
    assert computed["head_source"].values[-1] == "gate"


def test_with_none_patched_all_that_is_traced_is_the_same(gated, pairs, computed, tmp_path):
    found = check(effects(gated, pairs, patched=0, store=tmp_path / "store"))
    assert found.sizes["patched"] == 0 and found.attrs["everything_within"] == 0
    for name in ("part", "part_raw", "lens", "lens_raw", "score", "better", "worse"):
        assert found[name].equals(computed[name])
    for name in ("node", "way", "head", "component", "mode", "gate", "head_source"):
        assert found[name].values.tolist() == computed[name].values.tolist()
    save_effects(found, tmp_path / "effects")
    again = load_effects(tmp_path / "effects")
    assert again["effect"].shape == found["effect"].shape and again["margin"].shape == (0, 4)


def test_with_the_gate_recomputed_only_the_final_score_differs(computed):
    held = computed["effect"].sel(way=PUBLISHED)
    again = computed["effect"].sel(way=f"{PUBLISHED}, gate recomputed")
    differs = np.abs(held - again).max(("patched", "node")).values
    assert (differs[:-1] == 0).all() and differs[-1] > 1e-4


def test_a_direct_effect_is_what_the_final_norm_makes_of_the_changed_stream(gated, pairs, computed):
    # By hooks on whole runs: what enters the final norm, less the better text's MLP write and
    # plus the worse one's, through the model's own norm and heads.
    described = anatomies.describe(gated.backbone)
    prompt, better, worse = TEXTS[0]
    kept = {}

    def run(text, hooks):
        item = gated.format.encode([{"role": "user", "content": prompt}], [text])
        handles = [module.register_forward_hook(hook) for module, hook in hooks]
        handles += [described.final.register_forward_pre_hook(lambda m, a: kept.update(end=a[0]))]
        try:
            with torch.inference_mode():
                states = gated.backbone(input_ids=torch.as_tensor(item.sequences[0])[None])
        finally:
            for handle in handles:
                handle.remove()
        return states.last_hidden_state[0].numpy(), item

    def keep(name):
        return lambda m, a, output: kept.update({name: output[0, -1]})

    mlp = described.layers[0].mlp
    run(worse, [(mlp, keep("worse"))])
    states, item = run(better, [(mlp, keep("better"))])
    with torch.inference_mode():
        changed = described.final(kept["end"][0, -1] - kept["better"] + kept["worse"]).numpy()
    gate = states[item.gate_at][None]
    moved, clean = (gated.read(x[None], gate) for x in (changed, states[-1]))
    right = np.append(moved.score - clean.score, moved.final - clean.final)
    assert computed["direct"].sel(component="mlp 1").values[0] == pytest.approx(right, abs=1e-3)
    assert (computed["direct"].sel(component=CONSTANT).values == 0).all()


def test_effects_come_back_from_disk_as_they_were(computed, tmp_path):
    back = load_effects(save_effects(computed, tmp_path / "effects"))
    for name in ("part", "lens", "score", "margin"):
        assert np.array_equal(back[name].values, computed[name].values)
    for name in ("effect", "direct", "part_raw", "lens_raw"):  # kept in half precision
        scale = np.abs(computed[name].values)
        assert (np.abs(back[name].values - computed[name].values) <= scale / 2000 + 1e-7).all()
    for name in ("better", "worse", "way", "node", "component", "head", "prompt_hash"):
        assert back[name].values.tolist() == computed[name].values.tolist()
    assert back.attrs == computed.attrs
    text = (tmp_path / "effects" / NAMES[0]).read_text()
    assert not any(part in text for pair in TEXTS for part in pair[1:] if len(part) > 5)


def test_damaged_effects_are_refused(tmp_path):
    folder = save_effects(effects_world(pairs=4), tmp_path / "effects")
    labels = folder / NAMES[0]
    labels.write_text(labels.read_text().replace("planted", "planned"))
    with pytest.raises(StoreError, match="whole effects"):
        load_effects(folder)
    with pytest.raises(StoreError, match="explain"):
        load_effects(tmp_path)
    (folder / "mine.txt").write_text("mine")
    with pytest.raises(StoreError, match="effects alone"):
        save_effects(effects_world(pairs=4), folder)
    assert (folder / "mine.txt").read_text() == "mine"


def test_a_killed_run_goes_on_where_it_stopped(gated, pairs, tmp_path, monkeypatch):
    done = []

    def stop():
        done.append(1)
        if len(done) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        patching.patch(gated, pairs, store=tmp_path / "s", on_comparison=stop)
    assert sorted(p.name for p in (tmp_path / "s").glob("0*")) == [
        "00000.safetensors",
        "00001.safetensors",
    ]
    computed = []
    comparison = patching._Job.comparison
    monkeypatch.setattr(
        patching._Job, "comparison", lambda *a: computed.append(a[1]) or comparison(*a)
    )
    found = patching.patch(gated, pairs, store=tmp_path / "s")
    assert computed == [2]
    right = patching.patch(gated, pairs)
    assert np.array_equal(found["effect"].values, right["effect"].values)
    # One byte of a kept comparison changes: it is computed again, the others aren't.
    path = tmp_path / "s" / "00001.safetensors"
    os.chmod(path, 0o644)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    computed.clear()
    again = patching.patch(gated, pairs, store=tmp_path / "s")
    assert computed == [1] and np.array_equal(again["effect"].values, right["effect"].values)


def test_what_another_model_order_or_mode_left_is_never_merged(gated, pairs, tmp_path, write_tiny):
    patching.patch(gated, pairs, store=tmp_path / "s")
    before = {path.name: path.read_bytes() for path in (tmp_path / "s").glob("*.*")}
    write_tiny.write_armorm(tmp_path / "other", heads=3, seed=5)
    other = load_model(str(tmp_path / "other"), device="cpu")
    from dataclasses import replace

    turned = replace(pairs, comparisons=pairs.comparisons.iloc[::-1].reset_index(drop=True))
    swapped = pairs.comparisons.rename(columns={"better": "worse", "worse": "better"})
    for model, items, options in (
        (other, pairs, {}),
        (gated, replace(turned, comparisons=swapped), {}),
        (gated, pairs, {"modes": ["zero"]}),
        (gated, pairs, {"alignment": "left"}),
        (gated, pairs, {"seed": 1}),
    ):
        with pytest.raises(StoreError, match="another"):
            patching.patch(model, items, store=tmp_path / "s", **options)
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "s").glob("*.*")}


def test_what_has_no_effects_is_refused(gated, pairs, tiny_model, tmp_path):
    alone = Builder("made-up")
    for n, (prompt, better, _) in enumerate(TEXTS):
        alone.add(f"item {n}", prompt, [better], [])
    with pytest.raises(DataError, match="two responses to one prompt"):
        effects(gated, alone.build(), store=tmp_path)
    for options in ({"traced": 0}, {"patched": -1}):
        with pytest.raises(DataError, match="Ask for some"):
            effects(gated, pairs, store=tmp_path, **options)


def test_memory_that_runs_out_loses_nothing_that_was_done(gated, pairs, tmp_path, monkeypatch):
    patched, short = patching.Runner.patched, []

    def tight(self, ids, prefix, some, *rest):
        if len(some) > 2 or (short and len(list((tmp_path / "s").glob("0*"))) == 1):
            raise torch.OutOfMemoryError("made up")
        return patched(self, ids, prefix, some, *rest)

    monkeypatch.setattr(patching.Runner, "patched", tight)
    short.append("from the second comparison on there is no room for a single row")
    with pytest.raises(ModelError, match="one patched row.*leave long items out"):
        patching.patch(gated, pairs, store=tmp_path / "s")
    assert len(list((tmp_path / "s").glob("0*"))) == 1
    short.clear()  # later there is room for two
    found = patching.patch(gated, pairs, store=tmp_path / "s")
    monkeypatch.undo()
    right = patching.patch(gated, pairs)["effect"].values
    assert found["effect"].values == pytest.approx(right, abs=1e-4)


def test_one_prompt_alone_is_not_resampled(gated, pairs, tmp_path):
    found = effects(gated, pairs, traced=1, store=tmp_path)
    assert found.sizes["patched"] == 1 and "resample, response" not in found["way"].values


def test_a_backbone_that_is_not_described_is_refused_by_name(gated, pairs, tmp_path, monkeypatch):
    monkeypatch.setattr(anatomies, "KINDS", {"gpt2": anatomies.KINDS["gpt2"]})
    with pytest.raises(ModelError, match="llama.*which norm ends it"):
        effects(gated, pairs, store=tmp_path)


# The schema, and planted effects that follow it.


def test_planted_effects_sum_to_their_scores():
    world = effects_world(pairs=6, layers=3)
    assert world["component"].values.tolist() == components(3)
    assert world["part"].sum("component").values == pytest.approx(world["score"].values, abs=1e-4)
    assert world["lens"].values[:, -1] == pytest.approx(world["score"].values, abs=1e-4)
    every = world["effect"].sel(node=EVERYTHING).values
    assert every == pytest.approx(np.broadcast_to(-world["margin"].values, every.shape), abs=1e-4)


def test_gaps_by_hand():
    part = np.zeros((4, 4, 1))
    part[:, 1, 0] = [3, 1, 10, 20]  # attention 1 of better, worse, better, worse
    found = gaps(make_effects(part), "part")
    assert found[:, 1, 0].tolist() == [2, -10] and found.shape == (2, 4, 1)
    with pytest.raises(StoreError, match="a variable of responses"):
        gaps(make_effects(part), "effect")


def test_a_layer_or_a_head_that_is_not_there_is_named():
    world = effects_world(pairs=3, layers=2, carrier="mlp 2", decoy=("attention 1", "mlp 1"))
    assert schema.pick(world, node="mlp 2", head="head_0")["effect"].dims == ("way", "patched")
    for labels in ({"node": "mlp 3"}, {"head": "head_7"}, {"component": "mlp"}, {"way": "noise"}):
        with pytest.raises(ParameterError, match="Known: "):
            schema.pick(world, **labels)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda e: e.drop_vars("direct"), "direct"),
        (lambda e: e.assign(score=e["score"].astype(int)), "score"),
        (lambda e: e.assign_coords(node=e["node"].values[::-1]), "everything"),
        (lambda e: e.assign_coords(way=["same"] * e.sizes["way"]), "way"),
        (lambda e: e.assign(comparison_of_patched=e["comparison_of_patched"] + 99), "patched"),
        (lambda e: e.assign_attrs(model="x").drop_attrs(), "attribute"),
    ],
)
def test_what_breaks_the_schema_is_named(change, told):
    with pytest.raises(StoreError, match=told):
        check(change(effects_world(pairs=3)))


def test_json_holds_no_numbers_of_another_kind(tmp_path):
    folder = save_effects(effects_world(pairs=3), tmp_path / "effects")
    assert json.loads((folder / NAMES[0]).read_text())["format"] == 1


# The command.


@pytest.fixture
def on_disk(write_tiny, tmp_path):
    """A checkpoint, and pairs in a file."""
    write_tiny.write_armorm(tmp_path / "model", heads=3)
    rows = [{"prompt": p, "chosen": better, "rejected": worse} for p, better, worse in TEXTS]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return str(tmp_path / "model"), f"file:{tmp_path / 'pairs.jsonl'}"


def test_the_command_keeps_effects_and_how_they_were_made(on_disk, tmp_path, capsys):
    model, dataset = on_disk
    words = ["explain", model, dataset, "--out", str(tmp_path / "out"), "--patched", "2"]
    words += ["--store", str(tmp_path / "store"), "--device", "cpu", "--attention-heads"]
    assert main(words) == 0, capsys.readouterr().err
    assert "3 items traced, 2 comparisons patched; left out: none" in capsys.readouterr().out
    found = load_effects(tmp_path / "out")
    assert found.sizes["patched"] == 2 and found.sizes["response"] == 6
    assert "--patched 2 --device cpu --attention-heads" in found.attrs["command"]
    assert "attention_part" in found
    assert str(tmp_path) not in found.attrs["command"]


def test_none_patched_has_to_be_asked_for(on_disk, tmp_path, capsys):
    model, dataset = on_disk
    words = ["explain", model, dataset, "--out", str(tmp_path / "out"), "--patched", "0"]
    assert main([*words, "--store", str(tmp_path / "store"), "--device", "cpu"]) == 0
    assert "3 items traced, 0 comparisons patched" in capsys.readouterr().out
    assert "--patched 0" in load_effects(tmp_path / "out").attrs["command"]


def test_the_command_says_what_would_have_to_be_described(on_disk, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(anatomies, "KINDS", {"gpt2": anatomies.KINDS["gpt2"]})
    model, dataset = on_disk
    assert main(["explain", model, dataset, "--out", str(tmp_path / "out")]) == 1
    said = capsys.readouterr().err
    assert "found llama" in said and "which norm ends it" in said
    assert not (tmp_path / "out").exists()


def test_pairs_that_share_no_prompt_are_told(on_disk, tmp_path, capsys):
    def turns(prompt, response):
        roles = ("user", prompt), ("assistant", response)
        return [{"role": role, "content": content} for role, content in roles]

    rows = [
        {"chosen": turns(f"one {n}?", "yes"), "rejected": turns(f"another {n}?", "no")}
        for n in range(3)
    ]
    (tmp_path / "apart.jsonl").write_text("\n".join(map(json.dumps, rows)))
    words = ["explain", on_disk[0], f"file:{tmp_path / 'apart.jsonl'}", "--device", "cpu"]
    assert main([*words, "--out", str(tmp_path / "out")]) == 1
    assert (
        "DataError" in (said := capsys.readouterr().err) and "part before their last turn" in said
    )
    assert not (tmp_path / "out").exists()


def test_effects_that_are_there_stay_when_new_ones_fail(on_disk, tmp_path, monkeypatch):
    model, dataset = on_disk
    folder = save_effects(effects_world(pairs=3), tmp_path / "out")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def none(*_, **__):
        raise torch.OutOfMemoryError("made up")

    monkeypatch.setattr(patching.Runner, "patched", none)
    words = ["explain", model, dataset, "--out", str(folder), "--device", "cpu"]
    assert main([*words, "--store", str(tmp_path / "store")]) == 1
    assert before == {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_estimate_counts_what_patching_computes(gated, pairs):
    from lib.extraction import estimate as scoring
    from lib.mechanisms.estimate import estimate

    alone = scoring.estimate(gated, pairs, held_out=False, seconds=0.01).tokens
    some = [gated.format.encode([{"role": "user", "content": p}], [b, w]) for p, b, w in TEXTS]
    nodes = 5  # two layers of attention and MLP, and everything
    rows = [
        5 * sum(len(ids) - one.n_shared for ids in one.sequences) + len(one.sequences[0])
        for one in some
    ]
    found = estimate(gated, pairs, patched=2)
    assert found.tokens == pytest.approx(alone + 2 * nodes / 2 * np.mean(rows), abs=1)
