"""Pages check their own parameters and show hostile text as itself."""

import base64
import gzip
import itertools
import json
import re
from xml.etree import ElementTree

import nbformat
import numpy as np
import pandas as pd
import pytest
import xarray as xr

from lib import load_items, paths, records, report
from lib.data import layouts
from lib.errors import ParameterError
from lib.markup import PACKED
from lib.mechanisms.disk import save_effects
from lib.mechanisms.effects import effects
from lib.planted.effects import effects_world
from lib.planted.worlds import validity_world

DECLARED = 'model: str = "smol-armo"\nlimit: int = 0\n'


def namespace(injected="", **values):
    cells = ["", DECLARED]
    if injected:
        cells.append(f"# Parameters\n{injected}")
    return {"In": [*cells, "page = report.begin(...)"], "model": "smol-armo", "limit": 0, **values}


def test_a_page_without_injected_parameters_has_its_defaults():
    page = report.begin("validity", namespace())
    assert page.parameters == {"model": "smol-armo", "limit": 0}


def test_an_injected_name_that_is_not_declared_is_an_error():
    with pytest.raises(ParameterError, match="'limt'.*Did you mean 'limit'"):
        report.begin("validity", namespace("limt = 7", limt=7))


def test_an_injected_value_of_another_type_is_an_error():
    with pytest.raises(ParameterError, match="limit of type int.*'seven'"):
        report.begin("validity", namespace('limit = "seven"', limit="seven"))


@pytest.mark.parametrize("place", ["{here}/file", "{here}/file/in", "/dev/null", "x" * 300])
def test_tables_that_cannot_be_written_are_told_at_once(tmp_path, place):
    (tmp_path / "file").touch()
    folder = place.format(here=tmp_path)
    given = namespace(tables=folder)
    given["In"][1] = DECLARED + "tables: str = ''"
    with pytest.raises(ParameterError, match="a folder for the page's tables.*Name another"):
        report.begin("validity", given)
    given["tables"] = str(tmp_path / "new" / "folder")
    assert report.begin("validity", given).parameters["tables"] == given["tables"]


def test_tables_that_stop_being_written_are_an_error_that_says_so(tmp_path):
    (tmp_path / "file").touch()
    page = report.Page("validity", {"tables": str(tmp_path / "file")})
    with pytest.raises(ParameterError, match="a folder for the page's tables.*Name another"):
        page.save(pd.DataFrame({"a": [1]}), "validity")


def test_the_command_names_what_differs_from_nothing():
    page = report.begin("validity", namespace("limit = 7", limit=7))
    assert (
        page.command()
        == "papermill notebooks/validity.ipynb out.ipynb -r model smol-armo -p limit 7"
    )


def test_the_command_names_an_empty_value_that_is_not_the_default():
    assert report.Page("model", {"limit": 0, "seed": 0}, {"limit": 8, "seed": 0}).command() == (
        "papermill notebooks/model.ipynb out.ipynb -p limit 0"
    )


def test_the_command_names_the_dataset_unless_runs_stand_for_it():
    given = {"dataset": "x", "run": "a", "runs": ["a"]}
    assert (
        report.Page("gating", given)
        .command()
        .endswith("""-r dataset x -r run a -y '{"runs": ["a"]}'""")
    )
    assert "dataset" not in report.Page("gating", given | {"run": ""}).command()


def test_the_model_is_loaded_as_the_page_is_told(monkeypatch):
    asked = []
    monkeypatch.setattr("lib.models.load_model", lambda *args, **given: asked.append((args, given)))
    for more in ({}, {"dtype": "", "device": ""}, {"dtype": "bfloat16", "device": "cuda:1"}):
        _ = report.Page("model", {"model": "m", **more}).model
    default = (("m",), {"device": None, "dtype": None, "date": None})
    given = {"device": "cuda:1", "dtype": "bfloat16", "date": None}
    assert asked == [default, default, (("m",), given)]


HOSTILE = "<script>alert(1)</script></textarea>{{ x }}$$y$$\n---\n\u202eabc\x1b[31m"


def test_escaped_text_neither_closes_nor_opens_anything():
    shown = report.escape(HOSTILE)
    assert "<" not in shown and "$" not in shown and "\x1b" not in shown and "\u202e" not in shown
    assert "&lt;script&gt;" in shown and "[U+202E]" in shown and "\u241b[31m" in shown


def test_tables_escape_columns_and_cells():
    shown = report.table(pd.DataFrame({HOSTILE: [HOSTILE], "verdict": [HOSTILE]})).markup
    assert shown.count("&lt;script&gt;") == 3
    assert "<script" not in shown and "$$" not in shown and "\x1b" not in shown


def test_missing_numbers_are_dashes_and_formats_apply():
    shown = report.table(pd.DataFrame({"p": [0.12345, None]}), {"p": ".2f"}).markup
    assert "0.12" in shown and "–" in shown and "nan" not in shown.lower()


def test_examples_show_hostile_data_as_itself(tmp_path):
    path = tmp_path / "pairs.jsonl"
    row = {"prompt": HOSTILE, "chosen": HOSTILE + "a", "rejected": HOSTILE + "b" * 2000}
    path.write_text(pd.Series([row]).to_json(orient="records", lines=True))
    shown = report.examples(load_items(f"file:{path}")).markup
    assert "<script" not in shown and "more characters" in shown


def test_one_example_is_the_one_that_is_asked_for_and_shows_hostile_data_as_itself(tmp_path):
    path = tmp_path / "pairs.jsonl"
    rows = [
        {"prompt": f"{HOSTILE} {k}", "chosen": f"{HOSTILE} yes {k}", "rejected": f"{HOSTILE} no"}
        for k in range(3)
    ]
    path.write_text(pd.DataFrame(rows).to_json(orient="records", lines=True))
    items = load_items(f"file:{path}")
    item = str(items.prompts["item"][1])
    shown = report.example(items, item, 0, 1).markup
    assert shown.count("<details open>") == 1 and "yes 1" in shown and "yes 2" not in shown
    assert shown.index("yes 1") < shown.index(" no<")
    assert "<script" not in shown and "more characters" not in shown
    assert report.example(items, "nowhere", 0, 1).markup.count("<details") == 0
    assert report.example("<b>not</b> here", item, 0, 1).markup == (
        "<p>&lt;b&gt;not&lt;/b&gt; here</p>"
    )


def test_examples_say_when_the_text_is_not_at_hand():
    page = report.Page("data", {"model": "m", "dataset": "xstest", "run": "f", "source": ""})
    assert "text of xstest isn&#x27;t read here" in report.examples(page.items).markup
    assert "as source" in page.items


@pytest.fixture
def of_a_file(tmp_path, tiny_model):
    """A page about the run of a file, which leaves out an item, and the file."""
    from lib.extraction import extract, save_run

    path = tmp_path / "pairs.jsonl"
    rows = [{"prompt": f"p{i}", "chosen": f"good {i}", "rejected": f"bad {i}"} for i in range(4)]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    name = f"file:{path}"
    kept = load_items(name).select([0, 2, 3], "left out")
    folder = save_run(extract(tiny_model, kept, store=tmp_path / "states"), tmp_path / "run")
    return path, lambda: report.Page("data", {"model": "tiny", "dataset": name, "run": str(folder)})


def test_the_text_of_a_file_is_at_hand_for_its_run(of_a_file):
    _, page = of_a_file
    assert page().items.responses["text"].tolist() == [
        *("good 0", "bad 0", "good 2", "bad 2", "good 3", "bad 3"),
    ]


def test_a_file_that_changed_since_is_not_shown_as_what_was_scored(of_a_file):
    path, page = of_a_file
    path.write_text(path.read_text().replace("bad 2", "sad 2"))
    assert "isn't what this run scored" in page().items
    assert "Extract the run again" in report.examples(page().items).markup
    path.unlink()
    assert page().items == f"There is no file at {path}, so no example is shown."


def test_kept_ties_are_in_the_run_and_its_page_says_so(tmp_path, tiny_model, monkeypatch):
    from lib.__main__ import main

    monkeypatch.setattr("lib.models.load_model", lambda *args, **options: tiny_model)
    monkeypatch.setenv("REWARD_AUDIT_CACHE", str(tmp_path / "cache"))
    path, folder = tmp_path / "pairs.jsonl", tmp_path / "run"
    row = {"prompt": "p", "chosen": "good", "rejected": "bad", "<b>": 1}
    path.write_text(json.dumps(row) + "\n" + json.dumps(row | {"tie": True}) + "\n")
    words = ["extract", "--model", "m", "--dataset", f"file:{path}", "--out", str(folder)]
    assert main([*words, "--ties", "keep", "--yes"]) == 0
    given = {"model": "tiny", "dataset": f"file:{path}", "run": str(folder)}
    page = report.Page("data", given)
    assert (page.run.sizes["item"], page.run.sizes["comparison"]) == (2, 1)
    assert page.items.responses["text"].tolist() == ["good", "bad"] * 2
    shown = report.layout(page.run).markup
    assert layouts.TEXTS in shown and "&lt;b&gt;" in shown and "Ties: kept" in shown


def test_a_run_in_pieces_is_compared_by_what_it_carries(tmp_path, tiny_model, of_a_file):
    from lib.data import stream_items
    from lib.extraction import extract_stream

    path, _ = of_a_file
    name, folder = f"file:{path}", tmp_path / "stream"
    extract_stream(tiny_model, stream_items(name, size=3), folder)
    given = {"model": "tiny", "dataset": name, "run": str(folder)}
    assert len(report.Page("data", given).items) == 4
    path.write_text(path.read_text().replace("bad 2", "worse 2"))
    assert "isn't what this run scored" in report.Page("data", given).items


def test_the_record_of_a_page_names_its_tables(tmp_path):
    page = report.Page("calibration", {"seed": 3, "tables": str(tmp_path)})
    for name in ("one", "two", "one"):
        page.save(pd.DataFrame({"a": [1]}), name)
    page.provenance()
    made = [tmp_path / f"{name}.parquet" for name in ("one", "two")]
    assert records.tables(tmp_path / "calibration.ipynb") == made
    assert records.tables(tmp_path / "gone.ipynb") == []


@pytest.mark.parametrize("path", sorted(paths.NOTEBOOKS.glob("*.ipynb")), ids=lambda p: p.stem)
def test_every_notebook_saves_before_it_tells_what_made_it(path):
    cells = nbformat.read(path, as_version=4).cells
    source = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    assert source.count("page.provenance()") == 1
    assert "page.save" not in source.partition("page.provenance()")[2]


def test_a_page_without_a_run_tells_what_made_it_and_nothing_of_a_run():
    shown = report.Page("calibration", {"draws": 7, "seed": 3, "tables": ""}).provenance().markup
    assert "<th>Seed</th><td><code>3</code>" in shown
    assert "papermill notebooks/calibration.ipynb out.ipynb -p draws 7 -p seed 3" in shown
    for row in ("Model", "Data", "Extraction", "Extracted with", "Prompt as rendered"):
        assert f"<th>{row}</th>" not in shown


def test_a_page_with_a_run_tells_of_it():
    page = report.Page("validity", {"run": "somewhere"})
    page.run = validity_world(10)
    shown = page.provenance().markup
    assert "<th>Model</th><td><code>planted" in shown and "10 items, 20 responses" in shown
    assert "<th>Prompt as rendered</th>" in shown


@pytest.fixture
def folders(tmp_path):
    from lib.extraction import save_run

    made = []
    for seed, name in enumerate(["planted/one", "planted/two"]):
        run = validity_world(6, seed=seed)
        run.attrs["dataset"] = name
        made.append(str(save_run(run, tmp_path / f"run{seed}")))
    return made


def test_several_runs_are_pooled_and_each_is_told_of(folders):
    given = {"model": "planted", "dataset": "ignored", "run": "", "runs": folders}
    page = report.Page("gating", given)
    assert page.run.attrs["dataset"] == "planted/one + planted/two"
    assert page.run.sizes["item"] == 12
    shown = page.provenance().markup
    assert "planted/one (" in shown and "planted/two (" in shown and "6 items" in shown


def test_one_run_named_counts_before_a_list_and_is_not_pooled(folders):
    given = {"model": "planted", "dataset": "planted/one", "run": folders[0], "runs": folders[:1]}
    page = report.Page("gating", given)
    assert page.run.attrs["dataset"] == "planted/one"
    assert page.runs == [page.run]


def test_runs_of_another_model_are_not_pooled(folders):
    page = report.Page("gating", {"model": "other", "dataset": "", "run": "", "runs": folders})
    with pytest.raises(ParameterError, match="a run of model 'other'"):
        _ = page.run


def test_a_table_without_rows_says_so():
    assert "no rows" in report.table(pd.DataFrame({"a": [], "<b>": []})).markup


# The run beside the model at hand.


@pytest.fixture
def audited(tmp_path, monkeypatch):
    """A folder of a tiny model and a run of it; pages then find both."""
    monkeypatch.syspath_prepend(str(paths.ROOT / "tests" / "models"))
    import tiny

    from lib import load_model
    from lib.data.items import Builder
    from lib.extraction import extract

    monkeypatch.setenv("REWARD_AUDIT_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "model"
    tiny.write_classifier(folder)
    builder = Builder("made up")
    for number, (prompt, responses) in enumerate(tiny.CASES[:2]):
        builder.add(str(number), prompt, responses[:2], [(0, 1, "c", "s")])
    items = builder.build()
    return folder, extract(load_model(str(folder), device="cpu"), items), items


def shown_of(run) -> str:
    page = report.Page("validity", {"run": "somewhere"})
    page.run = run
    return page.provenance().markup


def test_a_page_says_when_its_run_is_of_the_model_at_hand(audited):
    _, run, _ = audited
    shown = shown_of(run)
    assert "mismatch" not in shown
    assert "tokens and heads are those of the model at hand." in shown


def test_other_versions_alone_are_told_where_the_page_was_made(audited):
    _, run, _ = audited
    run.attrs["versions"] = {**run.attrs["versions"], "torch": "1.0"}
    shown = shown_of(run)
    assert "mismatch" not in shown
    assert "other versions: torch 1.0 then and" in shown


def test_a_page_says_what_of_the_model_is_another_since_its_run(audited):
    import tiny

    folder, run, _ = audited
    tiny.edit(folder / "config.json", rms_norm_eps=0.1)
    shown = shown_of(run)
    assert shown.startswith('<p class="mismatch">')
    assert "by that name: configuration differ" in shown
    (folder / "chat_template.jinja").write_text("{{ 'Be kind. ' }}" + tiny.OPENS_WHEN_ASKED)
    assert "configuration, chat template and tokens differ" in shown_of(run)


def test_a_page_whose_model_is_gone_says_that_nothing_was_compared(audited):
    import shutil

    folder, run, _ = audited
    shutil.rmtree(folder)
    shown = shown_of(run)
    assert "mismatch" not in shown and "made up: not compared" in shown


def test_a_fingerprint_is_remembered_until_a_file_is_another(audited, monkeypatch):
    import os

    from lib import models
    from lib.models import identity

    folder, run, _ = audited
    asked = []
    load = models.load_model
    monkeypatch.setattr(models, "load_model", lambda *a, **k: asked.append(a) or load(*a, **k))
    first = identity.at_hand(str(folder))
    assert identity.at_hand(str(folder), dtype="float32") == first == run.attrs["fingerprint"]
    assert len(asked) == 1
    weights = folder / "model.safetensors"
    stat, content = weights.stat(), bytearray(weights.read_bytes())
    content[-1] ^= 0x80  # as long as before, and put back to its time
    weights.write_bytes(content)
    os.utime(weights, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert identity.differences(first, identity.at_hand(str(folder))) in (["weights"], ["heads"])
    assert len(asked) == 2


def unpacked(markup):
    text = re.search(r'class="table-rows">([^<]*)<', markup).group(1)
    columns = json.loads(gzip.decompress(base64.b64decode(text)))
    return pd.DataFrame({c["name"]: [c["texts"][row] for row in c["rows"]] for c in columns})


def test_a_long_table_shows_a_page_and_packs_every_row_as_it_would_be_shown():
    n = 1204
    frame = pd.DataFrame({"head": [f"<b>{i}" for i in range(n)], "p": np.linspace(0, 1, n)})
    frame.loc[3, "p"] = np.nan
    markup = report.table(frame, {"p": ".2f"}).markup
    assert markup.count("<tr>") == 1 + 50 and "<b>" not in markup
    assert "Table of 1204 rows" in markup and "rows are on this page" not in markup
    rows = unpacked(markup)
    assert rows["head"].tolist() == frame["head"].tolist()
    assert rows["p"].tolist() == ["–" if i == 3 else f"{i / 1203:.2f}" for i in range(n)]
    short = report.table(frame.head(1000), {"p": ".2f"}).markup
    assert short.count("<tr>") == 1001 and "table-paged" not in short


def test_a_table_of_any_length_has_a_bounded_size_and_says_what_is_left_out():
    n = 60_000
    frame = pd.DataFrame({"a": np.random.default_rng(0).random(n), "row": np.arange(n)})
    markup = report.table(frame).markup
    assert len(markup) < PACKED + 20_000
    rows = unpacked(markup)
    assert rows["row"].tolist() == [str(i) for i in range(len(rows))]
    assert f"The first {len(rows)} of 60000 rows are on this page" in markup


@pytest.mark.parametrize(("box", "many"), list(itertools.product(["takeaways", "said"], range(13))))
def test_five_sentences_stand_open_and_the_rest_is_folded_in_order(box, many):
    sentences = [f"<b>{number}</b> & more" for number in range(many)]
    page = ElementTree.fromstring(getattr(report, box)(sentences).markup)
    assert page.attrib["class"] == f"{box} mathjax_ignore"
    assert [item.text for item in page.iter("li")] == sentences
    folded = page.findall("details")
    assert [item.text for item in page.findall("ul/li")] == sentences[:5]
    assert [item.text for fold in folded for item in fold.iter("li")] == sentences[5:]
    if many > 5:
        words = f"{many - 5} more sentence{'s' if many > 6 else ''}"
        assert [fold.find("summary").text for fold in folded] == [words]
        assert not any("open" in fold.attrib for fold in folded)


# Effects.


def test_a_page_reads_the_effects_that_it_is_given_and_says_so(tmp_path):
    folder = save_effects(effects_world(pairs=4), tmp_path / "effects")
    given = {"model": "planted", "dataset": "planted/effects world", "effects": str(folder)}
    page = report.Page("lens", given)
    assert page.effects.sizes["response"] == 8
    assert "4 items, 8 responses" in page.provenance()._repr_html_()
    assert isinstance(page.items, str)
    with pytest.raises(ParameterError, match="'other'"):
        report.Page("lens", given | {"model": "other"}).effects  # noqa: B018


def test_without_a_folder_effects_are_computed_and_their_text_is_at_hand(tiny_model, tmp_path):
    items = load_items("stimuli/probes", limit=3)
    made = effects(tiny_model, items, store=tmp_path / "store")
    folder = save_effects(made, tmp_path / "effects")
    page = report.Page(
        "lens", {"model": "tiny", "dataset": "stimuli/probes", "effects": str(folder)}
    )
    assert page.items.prompts["item"].tolist() == items.prompts["item"].tolist()
    page = report.Page("lens", {"model": "tiny", "dataset": "stimuli/probes", "limit": 3})
    page.__dict__["model"] = tiny_model
    assert page.effects["part"].values == pytest.approx(made["part"].values, abs=1e-4)


def test_names_of_bases_are_tested_on_the_committed_stimuli_of_an_embedded_model(monkeypatch):
    monkeypatch.setattr(report, "extract", lambda *_: pytest.fail("nothing is extracted again"))
    page = report.Page("bases", {"model": "smol-mixed", "dataset": "llmbar", "run": ""})
    monkeypatch.setattr(report.Page, "run", xr.Dataset(attrs={"dataset": "llmbar"}))
    run = page.controlled
    assert (run.attrs["model"], run.attrs["dataset"]) == ("smol-mixed", "stimuli/controlled")
