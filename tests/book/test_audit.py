"""make audit: what is wrong is said before anything is written, and how long it will take."""

import json
import os
import shutil
import subprocess
from unittest import mock

import nbformat
import numpy as np
import pytest
import yaml

from lib import load_items, load_model, paths
from lib.book import applies, audit, build, forks, pages, plan
from lib.errors import DataError, ParameterError
from lib.extraction import estimate, extract, load_run
from lib.models import anatomy

GATED = applies.Shape(19, 8, True)
SINGLE = applies.Shape(1, 0, False)
WHY = ["lens", "attribution", "patching", "one_head"]  # of any model whose parts can be told


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A folder that the user is in, outside of the checkout."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


# ---- Names and places ----


def test_a_source_is_the_folder_of_datasets_or_that_of_one(elsewhere):
    (elsewhere / "data" / "hh-rlhf").mkdir(parents=True)
    own = {"name": "hh-rlhf/harmless-base", "source": f"{elsewhere}/data/hh-rlhf"}
    assert audit.located("hh-rlhf/harmless-base", "data") == own
    assert audit.located("hh-rlhf/harmless-base", "data/hh-rlhf") == own
    named = {"name": "hh-rlhf/harmless-base#length"}
    assert audit.located("hh-rlhf/harmless-base#length", "data") == own | named
    assert audit.located("xstest", "data/hh-rlhf")["source"] == own["source"]


def test_stimuli_and_files_of_the_users_own_have_no_source(elsewhere):
    assert audit.located("stimuli/controlled", "nowhere") == {"name": "stimuli/controlled"}
    assert audit.located("file:a b.jsonl") == {"name": f"file:{elsewhere}/a b.jsonl"}
    assert audit.located("xstest") == {"name": "xstest"}


def test_a_source_that_is_no_folder_is_named(elsewhere):
    with pytest.raises(DataError, match="a folder at gone: that of xstest's files.*found none"):
        audit.located("xstest", "gone")


def test_a_source_without_the_files_says_where_they_were_looked_for(elsewhere):
    (elsewhere / "data").mkdir()
    with pytest.raises(DataError) as error:
        audit._loaded(audit.located("xstest", "data"), {})
    assert "the files of xstest" in error.value.needed
    assert f"no folder xstest in {elsewhere}/data" in error.value.found
    assert "leave it out to load from the hub" in error.value.remedy


def test_a_model_in_a_folder_goes_by_its_path_from_the_checkout(elsewhere, monkeypatch):
    (elsewhere / "mine").mkdir()
    (elsewhere / "smol-armo").mkdir()
    assert audit.model_name("mine") == f"{elsewhere}/mine"
    assert audit.model_name("smol-armo") == "smol-armo"
    assert audit.model_name("RLHFlow/ArmoRM") == "RLHFlow/ArmoRM"
    monkeypatch.setattr(paths, "ROOT", elsewhere)
    assert audit.model_name("./mine") == "mine"


# ---- The entry ----


def test_a_gated_model_of_many_heads_gets_every_page():
    found = audit.entry("m", [{"name": "stimuli/controlled"}, {"name": "x"}], GATED, {"limit": 5})
    stimuli, other = found["datasets"]
    assert stimuli == {
        "name": "stimuli/controlled",
        "limit": 5,
        "pages": ["labels", "disentanglement", "geometry", "separability", *WHY],
    }
    assert other == {"name": "x", "limit": 5, "pages": WHY}
    assert found["pages"] == ["data", "validity", "gating"]
    assert {"notebook": "protocols", "datasets": "all"} in found["once"]
    assert {"notebook": "model"} in found["once"]


def test_a_model_of_one_head_gets_those_that_say_something():
    found = audit.entry("m", [{"name": "stimuli/controlled"}], SINGLE, {})
    assert found["datasets"][0]["pages"] == ["separability", *WHY]
    assert "protocols" not in [each["notebook"] for each in found["once"]]


def test_a_set_written_for_one_analysis_gets_its_page_and_keeps_what_that_reads():
    datasets = [{"name": f"stimuli/{part}"} for part in ("concepts", "cascade")]
    concepts, cascade = audit.entry("m", datasets, SINGLE, {})["datasets"]
    assert concepts["pages"] == ["separability", *WHY, "concepts"]
    assert cascade["pages"] == ["separability", *WHY, "cascade"]
    assert concepts["taps"] == ["layers"] and "taps" not in cascade
    kept = audit.entry("m", datasets, SINGLE, {}, committed={"stimuli/concepts"})["datasets"]
    assert kept[0] == {"name": "stimuli/concepts", "pages": ["separability", *WHY, "concepts"]}


def test_a_set_with_several_responses_gets_the_page_of_picks():
    datasets = [{"name": "file:rated.jsonl"}, {"name": "x"}]
    rated, other = audit.entry("m", datasets, SINGLE, {}, several={"file:rated.jsonl"})["datasets"]
    assert rated["pages"] == [*WHY, "selection"] and other["pages"] == WHY


def test_manipulated_responses_get_the_page_of_exploits_alone():
    name = "file:rated.jsonl#length,formatting"
    (own,) = audit.entry("m", [{"name": name}], SINGLE, {}, several={name})["datasets"]
    assert own == {"name": name, "pages": ["exploits"]}


# ---- Before anything is written ----


@pytest.fixture
def tried(elsewhere, monkeypatch, tiny_model):
    """A checkout where the model is tiny and nothing is built; gives what would be."""
    monkeypatch.setattr(paths, "ROOT", elsewhere)
    monkeypatch.setattr(paths, "AUDIT", elsewhere / "audit.yml")
    loading = mock.create_autospec(load_model, return_value=tiny_model)  # takes what it takes
    monkeypatch.setattr("lib.models.load_model", loading)
    built = []
    monkeypatch.setattr(build, "build", lambda cores: built.append(cores) or paths.SITE)
    paths.AUDIT.write_text("audits: []\n")
    return built


def test_an_audit_is_written_down_and_built(tried):
    audit.audit("smol-armo", ["stimuli/probes", "stimuli/probes"], limit=2, cores=3)
    assert tried == [3]
    (found,) = plan.load(plan.local_audit())["audits"]
    assert [each["name"] for each in found["datasets"]] == ["stimuli/probes"]
    assert [run.options["limit"] for run in plan.read().runs] == [2]


def test_a_run_that_keeps_more_is_tried_without_it(tried):
    audit.audit("smol-armo", ["stimuli/concepts"], limit=2, dtype="float32")
    (run,) = plan.read().runs
    assert run.options == {"limit": 2, "dtype": "float32", "taps": ["layers"]}


@pytest.mark.parametrize(
    ("datasets", "options", "says"),
    [
        ([], {}, "DATASETS="),
        (["stimuli/controled"], {}, "Did you mean 'stimuli/controlled'"),
        (["stimuli/probes"], {"limit": -1}, "a limit of 0"),
        (["xstest"], {"source": "gone"}, "a folder at gone"),
        (["file:gone.jsonl"], {}, "gone.jsonl"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_written(tried, datasets, options, says):
    with pytest.raises((DataError, ParameterError), match=says):
        audit.audit("smol-armo", datasets, **options)
    assert not tried and not plan.local_audit().exists()


def test_hours_have_to_be_asked_for(tried, monkeypatch, capsys):
    slow = guess(items=10_000, tokens=36_000_000, rate=1000.0)
    monkeypatch.setattr(audit, "estimate", lambda model, items: slow)
    with pytest.raises(ParameterError, match="--yes.*a run of about 10 h"):
        audit.audit("smol-armo", ["stimuli/probes"])
    assert not tried and not plan.local_audit().exists()
    assert "Scoring will take about 10 h" in capsys.readouterr().err
    audit.audit("smol-armo", ["stimuli/probes"], yes=True)
    assert tried


def test_a_committed_run_gets_pages_without_its_data_and_isnt_made_in_another_way(
    tried, monkeypatch
):
    dataset = {"name": "xstest", "run": "committed"}
    audits = [{"model": "smol-armo", "datasets": [dataset], "pages": ["data"]}]
    paths.AUDIT.write_text(yaml.safe_dump({"audits": audits}))
    folder = paths.ROOT / "book" / "runs" / "smol-armo" / "xstest"
    folder.mkdir(parents=True)
    (folder / "run.json").touch()
    monkeypatch.setattr(audit, "_loaded", lambda *_: pytest.fail("its data was loaded"))
    audit.audit("smol-armo", ["xstest"])
    assert tried
    (run,) = plan.read().runs
    assert run.committed and not run.options
    assert {"data", "validity"} <= {page.notebook for page in plan.read().pages}
    monkeypatch.setattr("lib.models.load_model", lambda *_, **__: pytest.fail("it was loaded"))
    with pytest.raises(ParameterError, match="the committed run of smol-armo on xstest"):
        audit.audit("smol-armo", ["xstest"], limit=5)


def test_patches_that_take_long_are_left_out_unless_asked_for(tried, monkeypatch, capsys):
    monkeypatch.setattr(audit.applies, "explains", lambda name: name in ("data", "validity"))
    monkeypatch.setattr(audit.applies, "patches", lambda name: name == "validity")
    brief, slow = guess(tokens=100), guess(tokens=36_000)

    def pages(taking, **options):
        monkeypatch.setattr(audit, "_explaining", lambda *_: (brief, taking))
        audit.audit("smol-armo", ["stimuli/probes"], limit=2, **options)
        (found,) = plan.load(plan.local_audit())["audits"]
        plan.local_audit().unlink()
        return set(found["datasets"][0]["pages"])

    assert {"data", "validity"} <= pages(brief)
    assert "No page" not in capsys.readouterr().err
    assert "data" in pages(slow) and "validity" not in pages(slow)
    said = capsys.readouterr().err
    assert "No page validity: patches would take about 60 min" in said and "YES=1" in said
    assert "Scoring will take" not in said
    assert {"data", "validity"} <= pages(slow, yes=True)
    assert "Scoring will take about 60 min" in capsys.readouterr().err


def test_what_has_no_effects_is_told_and_its_other_pages_stand(tried, monkeypatch, capsys):
    monkeypatch.setattr(audit.applies, "explains", lambda name: name == "validity")
    audit.audit("smol-armo", ["stimuli/probes"], limit=2)
    (found,) = plan.load(plan.local_audit())["audits"]
    assert found["datasets"][0]["pages"][-1] == "validity" and "validity" not in found["pages"]
    plan.local_audit().unlink()
    monkeypatch.setattr(anatomy, "KINDS", {"gpt2": anatomy.KINDS["gpt2"]})
    audit.audit("smol-armo", ["stimuli/probes"], limit=2)
    (found,) = plan.load(plan.local_audit())["audits"]
    assert "validity" not in found["datasets"][0]["pages"] and "data" in found["pages"]
    said = capsys.readouterr().err
    assert "No pages on what makes the rewards, for smol-armo" in said
    assert "found llama" in said and "which norm ends it" in said


# ---- How long it takes ----


def guess(items=100, tokens=1000, rate=10.0, device="cpu", dtype="float32"):
    return estimate.Estimate("x", items, 2 * items, tokens, rate, device, dtype)


def test_an_estimate_counts_every_response_and_each_prompt_once(tiny_model):
    items = load_items("stimuli/probes", limit=6)
    found = estimate.estimate(tiny_model, items, seconds=0.05)
    texts = items.responses["text"].to_numpy()
    tokens = sum(
        tiny_model.format.encode(prompt, texts[items.item_of_response == i]).n_tokens
        for i, prompt in enumerate(items.prompts["prompt"])
    )
    assert (found.items, found.responses, found.tokens) == (6, 12, tokens)
    assert found.rate > 0 and found.seconds == pytest.approx(tokens / found.rate)
    assert (found.device, found.dtype) == ("cpu", "float32")


def test_prompts_that_trained_a_head_are_not_counted(tiny_model, monkeypatch):
    items = load_items("stimuli/probes", limit=6)
    trained = frozenset(items.prompts["prompt_hash"][:2])
    monkeypatch.setattr(tiny_model, "trained_on", trained)
    left = int(np.sum(~items.prompts["prompt_hash"].isin(trained)))
    assert estimate.estimate(tiny_model, items, seconds=0).items == left < 6
    assert estimate.estimate(tiny_model, items, seconds=0, held_out=False).items == 6


def test_a_short_run_is_not_announced():
    assert estimate.sentences([guess(tokens=1190)]) == []


def test_a_long_one_says_what_it_takes_and_what_to_lower():
    told = " ".join(estimate.sentences([guess(tokens=12_000), guess(tokens=12_000)]))
    assert "about 40 min on this machine" in told
    assert "x: 200 responses, 12,000 tokens, about 20 min at 10 tokens a second" in told
    assert "(5 items of each take about 2 min)" in told  # 100 items in 2400 s; 120 s
    assert "use a GPU (device)" in told and "bfloat16" not in told
    told = " ".join(estimate.sentences([guess(tokens=12_000, device="cuda")]))
    assert "use bfloat16 (dtype)" in told and "GPU" not in told


@pytest.mark.parametrize(
    ("seconds", "says"),
    [(4, "4 s"), (120, "2 min"), (5400, "1 h 30 min"), (10800, "3 h"), (200_000, "2 days 8 h")],
)
def test_durations_are_told_in_the_units_people_use(seconds, says):
    assert estimate.duration(seconds) == says


# ---- The whole way ----

# One page of each thing that pages read: data, a run, effects, the model, what others left. Of
# other notebooks there are the title and the parameters.
WHOLE = ("data", "validity", "gating", "lens", "model", "scorecard")
STALE = "from lib.book import steps; print(*(step.name for step in steps.stale()))"


@pytest.fixture(scope="session")
def small_checkout(tmp_path_factory, forked):
    """A checkout with nothing in its book, and its command line, whose programs are forks."""
    root = tmp_path_factory.mktemp("checkout")
    (root / "lib").symlink_to(paths.LIB)
    for name in ("Snakefile", "_config.yml"):
        shutil.copy(paths.ROOT / name, root)
    (root / "notebooks").mkdir()
    for path in paths.NOTEBOOKS.glob("*.ipynb"):
        page = nbformat.read(path, 4)
        if path.stem not in WHOLE:
            tagged = [cell for cell in page.cells if pages.TAG in cell.metadata.get("tags", ())]
            page.cells = [page.cells[0], *tagged]
        nbformat.write(page, root / "notebooks" / path.name)
    shutil.copytree(paths.BOOK / "_static", root / "book" / "_static")
    shutil.copy(paths.BOOK / "references.bib", root / "book")
    (root / "book" / "index.md").write_text("# A small book\n\nNothing yet.\n")
    (root / "audit.yml").write_text("audits: []\n")

    def run(*words, module="lib"):
        return subprocess.run(
            [*forks.command(module, forked), *words],
            cwd=root,
            capture_output=True,
            text=True,
            env=os.environ
            | {"REWARD_AUDIT_CACHE": str(root / ".cache"), "OMP_NUM_THREADS": "1"}
            | forked,
        )

    (root / "stale.py").write_text(STALE)
    return root, run


@pytest.mark.slow
def test_a_model_of_ones_own_gets_its_pages_and_nobody_learns_where_it_lies(
    small_checkout, byte_tokenizer, tmp_path
):
    import torch
    from transformers import AutoConfig, AutoModelForSequenceClassification

    root, run = small_checkout
    secret = tmp_path / "home-of-anna"
    own = secret / "my model"
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        "llama",
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=259,
        max_position_embeddings=4096,
        initializer_range=0.3,
        num_labels=1,
        pad_token_id=2,
    )
    AutoModelForSequenceClassification.from_config(config).save_pretrained(own)
    byte_tokenizer().save_pretrained(own)
    rows = [{"prompt": f"q {i}", "chosen": f"yes {i}", "rejected": "no"} for i in range(12)]
    data = secret / "my pairs.jsonl"
    data.write_text("\n".join(map(json.dumps, rows)))
    words = ("audit", "--model", str(own), "--datasets", f"'file:{data}'")
    done = run(*words)
    assert done.returncode == 0 and "The book is built" in done.stdout, done.stdout + done.stderr
    site = root / "book" / "_build" / "html"
    shown = paths.public(str(own))
    folder = site / "book" / "results" / paths.slug(shown)
    dataset = paths.slug(paths.public(f"file:{data}"))
    made = {path.relative_to(folder).as_posix() for path in folder.rglob("*.html")}
    there = {f"{dataset}/data.html", f"{dataset}/validity.html", "model.html", "scorecard.html"}
    there |= {f"{dataset}/lens.html"}
    assert there <= made and f"{dataset}/gating.html" not in made
    assert yaml.safe_load((root / "_toc.yml").read_text())["parts"] == []
    assert ">Validity</a>" in (site / "book" / "index.html").read_text()

    # Where they lie is nobody's business but the user's.
    for path in site.rglob("*"):
        assert "home-of-anna" not in str(path.relative_to(site))
        assert not path.is_file() or b"home-of-anna" not in path.read_bytes(), path
    assert shown in (folder / "scorecard.html").read_text()
    local = yaml.safe_load((root / "audit.local.yml").read_text())
    assert local["audits"][0]["model"] == str(own)

    # Its configuration mended, its weights as they were: another model, so other scores.
    (extracted,) = {path.parent for path in (root / ".cache" / "runs").rglob("run.json")}
    before = load_run(extracted)
    mended = json.loads((own / "config.json").read_text())
    mended["rope_parameters"] = {"rope_type": "default", "rope_theta": 100.0}
    (own / "config.json").write_text(json.dumps(mended))
    place = f"extract/{extracted.relative_to(root / '.cache' / 'runs').as_posix()}"
    assert place in run(module="stale").stdout.split()
    done = run(place, module="lib.book.steps")
    assert done.returncode == 0, done.stdout + done.stderr
    after = load_run(extracted)
    assert (after["score"].values != before["score"].values).all()
    differ = {
        k for k, v in after.attrs["fingerprint"].items() if before.attrs["fingerprint"][k] != v
    }
    assert differ == {"configuration"}
    model = load_model(str(own), device="cpu")
    fresh = extract(model, load_items(f"file:{data}"), store=root / "elsewhere")
    assert np.allclose(after["score"], fresh["score"], atol=1e-5)
