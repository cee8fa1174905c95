"""audit.yml is the one list of what the book shows."""

import json
import shlex
import shutil

import nbformat
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from lib import declared, paths, records, report
from lib.book import applies, document, pages, plan, steps, toc
from lib.book import audit as audits
from lib.errors import ParameterError


def audit(tmp_path, **changes):
    document = {
        "model": "smol-armo",
        "pages": ["data"],
        "datasets": [{"name": "stimuli/controlled"}],
    }
    path = tmp_path / "audit.yml"
    path.write_text(yaml.safe_dump({"audits": [document | changes]}))
    return path


def test_a_dataset_gives_a_run_and_a_page_for_each_notebook(tmp_path):
    found = plan.read(audit(tmp_path, pages=["data", "validity"]))
    assert [f"{run.folder}/run.json" for run in found.runs] == [
        ".cache/runs/smol-armo/stimuli/controlled/run.json"
    ]
    assert [page.output for page in found.pages] == [
        "book/results/smol-armo/stimuli/controlled/data.ipynb",
        "book/results/smol-armo/stimuli/controlled/validity.ipynb",
    ]


def test_loading_options_reach_the_page(tmp_path):
    found = plan.read(audit(tmp_path, datasets=[{"name": "stimuli/probes", "limit": 3}]))
    assert found.pages[0].parameters["limit"] == 3
    assert found.pages[0].about == "smol-armo on stimuli/probes"


def test_a_page_for_the_model_reads_the_runs_it_names(tmp_path):
    once = [{"notebook": "validity", "datasets": "all"}]
    page = plan.read(audit(tmp_path, pages=[], once=once)).pages[0]
    assert page.output == "book/results/smol-armo/validity.ipynb"
    assert page.about == "smol-armo"
    assert page.parameters["run"] == ".cache/runs/smol-armo/stimuli/controlled"


def test_the_page_of_the_model_is_told_how_to_load_it(tmp_path):
    datasets = [{"name": "x"}, {"name": "y", "dtype": "bfloat16", "device": "cuda:1"}]
    document = {"datasets": datasets, "pages": ["validity"], "once": [{"notebook": "model"}]}
    *_, page = plan.read(audit(tmp_path, **document)).pages
    assert page.output == "book/results/smol-armo/model.ipynb"
    assert (page.parameters["dtype"], page.parameters["device"]) == ("bfloat16", "cuda:1")
    *_, page = plan.read(audit(tmp_path, **document | {"datasets": datasets[:1]})).pages
    assert not {"dtype", "device"} & set(page.parameters)


@pytest.fixture
def papermill(monkeypatch):
    """Reads a papermill command as papermill does: what it would give to which notebook."""
    import papermill.cli
    from click.testing import CliRunner

    asked = []
    monkeypatch.setattr(papermill.cli, "execute_notebook", lambda **given: asked.append(given))
    monkeypatch.setattr(papermill.cli, "INPUT_PIPED", False)
    monkeypatch.setattr(papermill.cli, "OUTPUT_PIPED", False)

    def read(command):
        name, *words = shlex.split(command)
        done = CliRunner().invoke(papermill.cli.papermill, words, catch_exceptions=False)
        assert (name, done.exit_code) == ("papermill", 0), done.output
        return asked[-1]["input_path"], asked[-1]["parameters"]

    return read


def test_the_command_of_every_page_gives_it_what_the_plan_gave(papermill):
    planned = plan.read(local=False).pages
    for page in planned:
        defaults = {name: p.default for name, p in pages.declared(page.notebook).items()}
        given = {**defaults, **page.parameters}
        path, told = papermill(report.Page(page.notebook, given, defaults).command())
        assert path == f"notebooks/{page.notebook}.ipynb"
        del given["tables"]
        assert {**defaults, **told, "tables": ""} == {**given, "tables": ""}, page.output
    assert len(planned) > 30


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"model": 3}, "a valid string as audits.0.model in audit.yml; found 3. Put it in quotes"),
        ({"pages": [["validity"]]}, "Put it in quotes"),
        ({"pages": ["validty"]}, "Did you mean 'validity'"),
        ({"pagess": []}, "Did you mean 'pages'"),
        ({"datasets": [{"name": "x", "limt": 3}]}, "Did you mean 'limit'"),
        ({"datasets": [{"name": "x", "run": "commited"}]}, "'committed' as"),
        ({"datasets": [{"name": "x", "run": "committed"}]}, "python -m lib extract"),
        (
            {"datasets": ["x"]},
            'a valid dictionary as audits.smol-armo.datasets.0 in audit.yml; found "x"',
        ),
        ({"once": [{"notebook": "labls"}]}, "labls"),
        (
            {
                "datasets": [{"name": "x"}, {"name": "y"}],
                "once": [{"notebook": "validity", "datasets": "all"}],
            },
            "one dataset for validity",
        ),
        ({"once": [{"notebook": "validity", "datasets": ["y"]}]}, "'y'"),
        *(
            (
                {"once": [{"notebook": "validity", "datasets": datasets}]},
                "a valid list or 'all' as audits.smol-armo.once.validity.datasets in audit.yml",
            )
            for datasets in (None, 3, "stimuli/controlled")
        ),
        ({"once": [{"notebook": "validity", "datasets": [3]}]}, "found 3. Put it in quotes"),
        *(
            (
                {"datasets": [{"name": "x", key: value}]},
                f"{needed} as audits.smol-armo.datasets.x.{key} in audit.yml; found {found}",
            )
            for key, needed, wrong in [
                ("source", "a valid string", {5: "5"}),
                ("device", "a valid string", {0: "0"}),
                ("device", r"a string to match pattern '^[^\x00]*$'", {"a\0": '"a\\u0000"'}),
                ("device", "raw data as a unicode string", {"\ud800": '"\\ud800"'}),
                (
                    "dtype",
                    "'', 'float32', 'bfloat16' or 'float16'",
                    {None: "null", "int8": '"int8"'},
                ),
                ("order", "'sample' or 'head'", {"foo": '"foo"', (): "[]"}),
                (
                    "limit",
                    "a valid integer",
                    {"abc": '"abc"', 1.5: "1.5", True: "true", None: "null"},
                ),
                ("limit", "a number greater than or equal to 0", {-1: "-1"}),
                ("seed", "a valid integer", {"x": '"x"'}),
                ("seed", "a number greater than or equal to 0", {-1: "-1"}),
                ("seed", "a number less than or equal to 4294967295", {2**32: "4294967296"}),
                ("parts", "a valid integer", {"x": '"x"'}),
                ("parts", "a number greater than or equal to 1", {0: "0"}),
            ]
            for value, found in wrong.items()
        ),
    ],
)
def test_a_mistake_in_it_is_named(tmp_path, change, says):
    with pytest.raises(ParameterError) as error:
        plan.read(audit(tmp_path, **change))
    assert says in str(error.value)


def test_the_committed_table_of_contents_is_in_step():
    assert paths.TOC.read_text() == toc.render()


def unfolded(entries):
    for entry in entries:
        yield entry
        yield from unfolded(entry.get("sections", ()))


def test_every_page_is_in_the_table_of_contents_once():
    parts = yaml.safe_load(toc.render())["parts"]
    entries = [entry["file"] for part in parts for entry in unfolded(part["chapters"])]
    pages = [
        page.output.removesuffix(".ipynb")
        for page in plan.read(local=False).pages
        if applies.listed(page)
    ]
    written = {
        f"book/{path.relative_to(paths.BOOK).with_suffix('')}"
        for path in paths.BOOK.rglob("*.md")
        if path.relative_to(paths.BOOK).parts[0] not in ("_build", "results", "runs")
    }
    assert set(entries) == {*pages, *written - {"book/index"}}
    assert len(entries) == len(set(entries))


# ---- Pages of the whole book, and what other pages wrote ----

PARAMETERS = {
    "data": 'model: str = ""\ndataset: str = ""\nrun: str = ""\nlimit: int = 0\ntables: str = ""',
    "gating": 'model: str = ""\ndataset: str = ""\nrun: str = ""\ntables: str = ""',
    "card": 'model: str = ""\nresults: str = ""\ntables: str = ""',
    "across": 'models: list = []\nresults: str = ""\ntables: str = ""',
    "claims": 'model: str = ""\nruns: list = []\ntables: str = ""',
    "draws": 'seed: int = 0\ntables: str = ""',
    "changes": 'results: str = ""\ntables: str = ""',
    "status": 'results: str = ""\ntables: str = ""',
}


@pytest.fixture
def made_up(tmp_path, monkeypatch):
    """A checkout of made-up notebooks; writes its audit and returns the plan's reader."""
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    monkeypatch.setattr(paths, "BOOK", tmp_path / "book")
    monkeypatch.setattr(paths, "NOTEBOOKS", tmp_path / "notebooks")
    monkeypatch.setattr(paths, "AUDIT", tmp_path / "audit.yml")
    (tmp_path / "notebooks").mkdir()
    for name, source in PARAMETERS.items():
        book = nbformat.v4.new_notebook()
        book.cells = [
            nbformat.v4.new_markdown_cell(f"# The {name}\n\nProse."),
            nbformat.v4.new_code_cell(source, metadata={"tags": ["parameters"]}),
        ]
        nbformat.write(book, tmp_path / "notebooks" / f"{name}.ipynb")

    def write(document=None, local=None):
        paths.AUDIT.write_text(yaml.safe_dump(document or TWO))
        if local:
            plan.local_audit().write_text(yaml.safe_dump(local))
        return plan.read()

    return write


TWO = {
    "audits": [
        {
            "model": model,
            "pages": ["data"],
            "datasets": [{"name": "x"}, {"name": "y"}],
            "once": [{"notebook": "card"}],
        }
        for model in ("m", "n")
    ],
    "pages": [
        {"notebook": "status"},
        {"notebook": "draws"},
        {"notebook": "across"},
        {"notebook": "claims", "model": "m", "datasets": ["y", "x"]},
    ],
}


def of(found, notebook):
    return [page for page in found.pages if page.notebook == notebook]


def test_a_page_of_the_book_lies_outside_of_every_model(made_up):
    found = made_up()
    (claims,), (draws,) = of(found, "claims"), of(found, "draws")
    assert claims.output == "book/results/claims.ipynb"
    assert claims.parameters == {
        "model": "m",
        "runs": [".cache/runs/m/y", ".cache/runs/m/x"],
        "tables": "book/results",
    }
    assert draws.parameters == {"tables": "book/results"}
    assert draws.reads == claims.reads == ()


def test_a_page_about_tables_of_its_model_comes_after_the_pages_that_write_them(made_up):
    card = of(made_up(), "card")[1]
    assert card.reads == ("book/results/n/x/data.ipynb", "book/results/n/y/data.ipynb")
    assert card.parameters == {"model": "n", "results": "book/results", "tables": "book/results/n"}


def test_a_page_about_all_models_comes_after_the_pages_of_all(made_up):
    (across,) = of(made_up(), "across")
    assert across.reads == tuple(
        f"book/results/{model}/{dataset}/data.ipynb" for model in "mn" for dataset in "xy"
    )
    assert across.parameters["models"] == ["m", "n"]


def test_the_status_page_comes_after_every_other(made_up):
    found = made_up()
    status = found.pages[-1]
    assert status.notebook == "status"
    assert sorted(status.reads) == sorted(page.output for page in found.pages[:-1])


def test_pages_that_close_the_book_come_in_their_order(made_up):
    pages = [{"notebook": name} for name in ("status", "changes", "draws")]
    found = made_up(TWO | {"pages": pages}).pages
    assert [page.notebook for page in found[-3:]] == ["draws", "changes", "status"]
    before, changes = [page.output for page in found[:-2]], found[-2]
    assert sorted(changes.reads) == sorted(before)
    assert sorted(found[-1].reads) == sorted([*before, changes.output])


def test_manipulated_responses_have_their_own_pages_and_are_no_protocol(made_up):
    own, name = {"name": "file:x.jsonl"}, "file:x.jsonl#length"
    (paths.ROOT / "x.jsonl").write_text("{}")
    audit = TWO["audits"][0] | {"once": []}
    audit["datasets"] = [own, {"name": name, "pages": ["gating"]}]
    shared = {"notebook": "claims", "model": "m", "datasets": "all"}
    found = made_up({"audits": [audit], "pages": [shared]})
    assert [(page.notebook, page.runs[0].dataset) for page in found.pages] == [
        ("data", "file:x.jsonl"),
        ("gating", name),
        ("claims", "file:x.jsonl"),
    ]
    assert [run.inputs for run in found.runs] == [["x.jsonl"]] * 2
    assert len({run.folder for run in found.runs}) == 2


def test_the_parts_of_the_contents_are_models_then_across_then_methods_then_status(made_up):
    found = made_up()
    (paths.BOOK / "how-to").mkdir(parents=True)
    (paths.BOOK / "findings").mkdir()
    for name in ("methods", "how-to/b", "how-to/a", "findings/one", "unlisted"):
        (paths.BOOK / f"{name}.md").write_text("# x")
    parts = yaml.safe_load(toc.render(found))["parts"]
    assert [part["caption"] for part in parts] == [
        "Findings",
        "Models",
        "Across models",
        "Methods",
        "This build",
    ]
    files = [[chapter["file"].removeprefix("book/") for chapter in p["chapters"]] for p in parts]
    assert files[0] == ["findings/one"]
    assert files[1] == ["results/m/card", "results/n/card"]
    assert files[2] == ["results/draws", "results/across", "results/claims"]
    assert files[3] == ["methods", "how-to/a", "how-to/b"]
    assert files[4] == ["results/status"]


def test_pages_of_a_model_are_below_it_and_those_of_a_dataset_below_that(made_up):
    (audit, _), pages = TWO["audits"], {"pages": ["gating", "data"]}
    found = made_up({"audits": [audit | pages]})
    (entry,) = yaml.safe_load(toc.render(found))["parts"][0]["chapters"]

    def told(entry, under=""):
        yield f"{under}{entry['title']} → {entry['file'].removeprefix('book/results/m/')}"
        for each in entry.get("sections", ()):
            yield from told(each, under + "· ")

    assert list(told(entry)) == [
        "m: The card → card",
        "· x → x/data",
        "· · The gating → x/gating",
        "· y → y/data",
        "· · The gating → y/gating",
    ]


def test_datasets_of_a_model_without_a_page_of_its_own_name_it(made_up):
    found = made_up({"audits": [{"model": "m", "pages": ["gating"], "datasets": [{"name": "x"}]}]})
    (entry,) = yaml.safe_load(toc.render(found))["parts"][0]["chapters"]
    assert entry == {"file": "book/results/m/x/gating", "title": "m on x: The gating"}


def test_a_model_in_a_folder_is_called_by_its_last_part_unless_two_share_it():
    assert toc.captions(["/a/big", "org/big"]) == {"/a/big": "big", "org/big": "org/big"}
    # Digits of sha256("/a/big") and sha256("/b/big").
    two = {"/a/big": "big-392ea417", "/b/big": "big-ab161390"}
    assert toc.captions(["/a/big", "/b/big"]) == two


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"notebook": "acros"}, "Did you mean 'across'"),
        ({"notebook": "claims", "model": "o"}, "known model of audit.yml"),
        ({"notebook": "claims", "datasets": ["x"]}, "model whose datasets claims reads"),
        ({"notebook": "claims", "model": "m", "datasets": ["z"]}, "'z'"),
        ({"notebook": "claims", "model": "m", "datasets": "x"}, "a valid list or 'all'"),
        ({"notebook": "claims", "model": "m", "datasets": None}, "a valid list or 'all'"),
        (
            {"notebook": "claims", "model": ["m"]},
            'a valid string as pages.claims.model in audit.yml; found ["m"]',
        ),
        ({"notebok": "claims"}, "Did you mean 'notebook'"),
        ({"model": "m"}, "a value as pages.m.notebook in audit.yml; found none"),
        ({"notebook": "status"}, "book/results/status.ipynb 2 times"),
    ],
)
def test_a_mistake_among_the_pages_is_named(made_up, entry, says):
    with pytest.raises(ParameterError) as error:
        made_up({**TWO, "pages": [*TWO["pages"], entry]})
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("audits: {}\n- x", "YAML at"),
        ("audits: 3", "a valid list as audits"),
        ("audits: [{model: m}]", "a value as audits.m.datasets"),
        ("audits: [{model: m, datasets: [{name: x}, {name: x}]}]", "x 2 times"),
        ("audits: [&a {model: m, datasets: [{name: x}]}, *a]", "each model once.*m 2 times"),
        ("[1]", "a valid dictionary in audit.yml"),
        ("audits:\n- model: m\n  datasets:\n  - {name: x}\n  model: n", "model 2 times.*line 2"),
        ("pages: []\npages: []", "pages 2 times"),
    ],
)
def test_a_file_that_is_no_audit_is_an_error_that_says_so(made_up, text, says):
    made_up()
    paths.AUDIT.write_text(text)
    with pytest.raises(ParameterError, match=says):
        plan.read()


# ---- What make audit adds ----

OWN = {
    "model": "m",
    "datasets": [{"name": "y", "limit": 7}, {"name": "z"}],
    "pages": ["gating"],
    "once": [{"notebook": "card"}],
}


def test_a_local_audit_adds_to_a_model_and_its_word_counts(made_up):
    found = made_up(local={"audits": [OWN, {"model": "o", "datasets": [{"name": "x"}]}]})
    runs = [(run.model, run.dataset, dict(run.options)) for run in found.runs]
    assert runs[:3] == [("m", "x", {}), ("m", "y", {"limit": 7}), ("m", "z", {})]
    assert [page.output.removeprefix("book/results/m/") for page in found.pages[:7]] == [
        *("x/data.ipynb", "x/gating.ipynb", "y/data.ipynb", "y/gating.ipynb"),
        *("z/data.ipynb", "z/gating.ipynb", "card.ipynb"),
    ]
    assert runs[-1] == ("o", "x", {})


def test_the_committed_contents_know_nothing_of_it(made_up):
    made_up()
    before = toc.render()
    made_up(local={"audits": [OWN]})
    assert toc.render() == before
    assert "m/z/data" in toc.render(plan.read())


def test_adding_an_audit_twice_updates_its_entry(made_up):
    made_up()
    plan.add(OWN)
    plan.add(OWN | {"datasets": [{"name": "z", "limit": 3}]})
    (audit,) = plan.load(plan.local_audit())["audits"]
    assert audit["datasets"] == [{"name": "y", "limit": 7}, {"name": "z", "limit": 3}]
    assert sorted(path.name for path in paths.ROOT.glob("*audit*")) == [
        "audit.local.yml",
        "audit.yml",
    ]


def test_an_audit_that_no_plan_comes_of_changes_nothing(made_up):
    made_up()
    plan.add(OWN)
    before = plan.local_audit().read_text()
    for do in (plan.check, plan.add):
        with pytest.raises(ParameterError, match="gatng"):
            do(OWN | {"pages": ["gatng"]})
    plan.check(OWN | {"pages": ["card"]})
    assert plan.local_audit().read_text() == before


def test_an_audit_of_values_that_no_run_takes_is_not_added(made_up):
    made_up()
    with pytest.raises(
        ParameterError, match="less than or equal to 4294967295 as audits.m.datasets.x.seed"
    ):
        plan.add({"model": "m", "datasets": [{"name": "x", "seed": 2**32}]})
    assert not plan.local_audit().exists()


def test_known_values_of_loading_and_extraction_are_kept(made_up):
    given = {"limit": 3, "seed": 2**32 - 1, "order": "head", "dtype": "", "device": "cuda:1"}
    found = made_up({"audits": [{"model": "m", "datasets": [{"name": "x", **given}]}]})
    assert found.runs[0].options == given


def test_an_audit_without_a_limit_is_of_all_whatever_was_asked_before(made_up):
    limited = {**TWO["audits"][0], "datasets": [{"name": "x", "limit": 5, "parts": 2}]}
    made_up({"audits": [limited], "pages": []})
    plan.add({"model": "m", "datasets": [{"name": "x"}, {"name": "z", "dtype": "bfloat16"}]})
    plan.add({"model": "m", "datasets": [{"name": "z"}]})
    x, z = plan.read().runs
    assert (dict(x.options), x.parts) == ({"limit": 0}, 2)
    assert dict(z.options) == {"dtype": ""}


def test_a_committed_run_keeps_its_pages_and_gets_more(tmp_path):
    path = tmp_path / "audit.yml"
    path.write_text(paths.AUDIT.read_text())
    before = plan.read(path)
    name = "hh-rlhf/harmless-base"
    shape = applies.Shape(heads=19, concepts=8, gated=True)
    found = [{"name": name, "source": "data/hh-rlhf"}]
    plan.add(audits.entry("smol-armo", found, shape, {}) | {"pages": ["data", "labels"]}, path)
    after = plan.read(path)
    outputs = {page.output for page in after.pages}
    new = {page.output for page in before.pages} ^ outputs
    assert f"book/results/smol-armo/{name}/labels.ipynb" in new and new <= outputs
    (run,) = [run for run in after.runs if (run.model, run.dataset) == ("smol-armo", name)]
    assert run.committed and dict(run.options) == {"source": "data/hh-rlhf"}


def test_a_committed_run_is_not_replaced(tmp_path):
    path = tmp_path / "audit.yml"
    path.write_text(paths.AUDIT.read_text())
    for more in ({"limit": 200}, {"dtype": "bfloat16"}, {"seed": 3}, {"parts": 2}):
        dataset = {"name": "hh-rlhf/harmless-base", **more}
        with pytest.raises(ParameterError, match="the committed run of smol-armo") as error:
            plan.add({"model": "smol-armo", "datasets": [dataset]}, path)
        (said,) = more.items()
        assert error.value.found == f"{said[0]}: {said[1]}"
        assert "python -m lib page validity" in error.value.remedy
    assert not plan.local_audit(path).exists()


def test_weights_and_data_files_of_the_users_own_are_inputs_of_the_run(made_up, tmp_path):
    made_up()
    (tmp_path / "mine").mkdir()
    for name in ("config.json", "model.safetensors", "README.md"):
        (tmp_path / "mine" / name).write_text("")
    run = plan.RunPlan("mine", "file:mine/README.md", "f", False)
    assert run.inputs == ["mine/config.json", "mine/model.safetensors", "mine/README.md"]
    assert plan.RunPlan("org/name", "x", "f", False).inputs == []


def test_the_files_of_a_source_are_inputs_of_the_run(tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "data").mkdir(parents=True)
    for name in ("test.jsonl.gz", "data/b.parquet", "notes.md"):
        (elsewhere / name).touch()
    (tmp_path / "checkout").mkdir()
    monkeypatch.setattr(paths, "ROOT", tmp_path / "checkout")
    run = plan.RunPlan("m", "xstest", "f", False, {"source": str(elsewhere)})
    assert run.inputs == [f"{elsewhere}/test.jsonl.gz", f"{elsewhere}/data/b.parquet"]
    run = plan.RunPlan("m", "xstest", "f", False, {"source": "../elsewhere/data"})
    assert run.inputs == [f"{elsewhere}/data/b.parquet"]


# ---- Pages that a model has nothing for ----


def test_each_analysis_needs_what_it_compares():
    one, many = applies.Shape(1, 0, False), applies.Shape(19, 8, True, sparse=True)
    left_out = [name for name in plan.notebooks() if not applies.suits(name, one)]
    heads = ["disentanglement", "gating", "geometry", "labels", "protocols"]
    assert left_out == [*heads, "sarm", "steering"]
    assert all(applies.suits(name, many) for name in plan.notebooks())
    assert applies.missing("gating", one) == "a gate"
    assert applies.missing("geometry", one) == "2 heads"
    assert applies.missing("labels", applies.Shape(3, 1, False)) == "heads that claim 2 concepts"
    for name in ("sarm", "steering"):
        assert applies.missing(name, one) == "a reward that reads a sparse autoencoder"
        # Weights would show it, which a run doesn't hold.
        assert applies.suits(name, applies.Shape(1, 0, False, sparse=True))
        assert applies.suits(name, applies.Shape(1, 0, False, sparse=None))
    assert applies.missing("data", one) == ""


def test_the_shape_of_a_model_is_read_from_its_run():
    run = plan.read(local=False).runs
    committed = next(each for each in run if each.committed)
    assert applies.of_run(paths.ROOT / committed.folder) == applies.Shape(10, 6, True)
    assert applies.of_run(paths.ROOT / "nowhere") is None


def test_a_page_without_what_it_needs_is_left_out_of_the_contents(made_up, monkeypatch):
    document = {
        "audits": [{"model": "m", "pages": ["data", "gating"], "datasets": [{"name": "x"}]}]
    }
    found = made_up(document)
    assert "gating" in toc.render(found), "before the run is there nothing is known"
    monkeypatch.setattr(applies, "of_run", lambda folder: applies.Shape(5, 5, False))
    assert "gating" not in toc.render(found)
    assert "m/x/data" in toc.render(found)


def test_pages_that_left_the_plan_are_removed_with_their_tables(tmp_path, monkeypatch):
    from lib.book import build

    monkeypatch.setattr(paths, "RESULTS", tmp_path)
    for folder in ("kept", "gone"):
        (tmp_path / folder).mkdir()
        for name in ("validity.ipynb", "validity.parquet", "validity.provenance.json"):
            (tmp_path / folder / name).touch()
    (tmp_path / "kept" / "data.ipynb").touch()
    build.prune({tmp_path / "kept" / "validity.ipynb"})
    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*"))
    assert found == [
        "kept/validity.ipynb",
        "kept/validity.parquet",
        "kept/validity.provenance.json",
    ]


def test_a_page_of_before_its_tables_were_recorded_takes_them_too(tmp_path, monkeypatch):
    from lib.book import build

    monkeypatch.setattr(paths, "RESULTS", tmp_path)
    (tmp_path / "validity.ipynb").touch()
    cell = {"cell_type": "code", "source": ["table = f(run)\n", 'page.save(table, "labels")']}
    (tmp_path / "labels.ipynb").write_text(json.dumps({"cells": [cell]}))
    (tmp_path / "labels.provenance.json").write_text(json.dumps({"page": "labels"}))
    for name in ("labels", "validity"):
        (tmp_path / f"{name}.parquet").touch()
    build.prune({tmp_path / "validity.ipynb"})
    assert sorted(p.name for p in tmp_path.iterdir()) == ["validity.ipynb", "validity.parquet"]


def test_a_page_that_left_takes_its_tables_from_a_folder_where_another_stays(tmp_path, monkeypatch):
    from lib.book import build

    monkeypatch.setattr(paths, "RESULTS", tmp_path)
    wrote = {"validity": ["validity", "both"], "labels": ["labels", "labels_pairs", "both"]}
    for page, tables in wrote.items():
        (tmp_path / f"{page}.ipynb").touch()
        records.write(page, {}, tmp_path, [], tables)
        for table in tables:
            (tmp_path / f"{table}.parquet").touch()
    build.prune({tmp_path / "validity.ipynb"})
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "both.parquet",
        "validity.ipynb",
        "validity.parquet",
        "validity.provenance.json",
    ]


def test_a_page_that_loads_its_model_depends_on_the_files_of_its_folder(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    own = plan.PagePlan("model", str(tmp_path), once=True)
    assert own.weights == [str(tmp_path / "config.json")]
    run = plan.RunPlan(str(tmp_path), "xstest", "book/runs/x", True)  # it is compared with it
    assert plan.PagePlan("validity", str(tmp_path), (run,)).weights == own.weights
    assert plan.PagePlan("model", "smol-armo", once=True).weights == []
    assert plan.PagePlan("compare", "", shared=True).weights == []


def test_a_date_in_an_audit_stays_text(tmp_path):
    path = tmp_path / "audit.yml"
    path.write_text("audits:\n- model: m\n  datasets:\n  - name: xstest\n    date: 2025-01-31\n")
    assert plan.read(path).runs[0].options["date"] == "2025-01-31"


KEYS = st.sampled_from(
    ["audits", "pages", "model", "datasets", "name", "once", "notebook", "limit"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("all"),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(VALUES)
@settings(max_examples=300, deadline=None)
def test_any_value_is_a_document_or_one_error_that_names_its_place(value):
    try:
        found = document.checked(value, "audit.yml")
    except ParameterError as error:
        assert "in audit.yml" in str(error) or "of audit.yml" in str(error)
        assert error.remedy and len(str(error)) < 1500
    else:
        assert all(audit["datasets"] for audit in found["audits"])


# ---- Effects ----

READS = """
model: str = "smol-armo"  # A model
dataset: str = "stimuli/controlled"  # A dataset
effects: str = ""  # Folder of effects computed before; empty: compute now
"""
PATCHES = f"{READS}patched: int = 48  # Comparisons to patch\n"


@pytest.fixture
def explaining(tmp_path, monkeypatch):
    """A checkout of notebooks of which ``why`` alone reads effects, and ``how`` patches too."""
    root = tmp_path / "checkout"
    shutil.copytree(paths.NOTEBOOKS, root / "notebooks")
    for name, declares in (("why", READS), ("how", PATCHES)):
        page = nbformat.v4.new_notebook()
        tagged = {"tags": ["parameters"]}
        page.cells = [nbformat.v4.new_code_cell(declares, metadata=tagged)]
        nbformat.write(page, root / "notebooks" / f"{name}.ipynb")
    monkeypatch.setattr(paths, "ROOT", root)
    monkeypatch.setattr(paths, "NOTEBOOKS", root / "notebooks")
    return root


def test_a_page_that_reads_effects_waits_for_them(explaining, tmp_path):
    datasets = [{"name": "stimuli/controlled", "limit": 3, "pages": ["why"]}]
    planned = plan.read(audit(tmp_path, datasets=datasets))
    place = "smol-armo/stimuli/controlled"
    (page,) = [page for page in planned.pages if page.notebook == "why"]
    assert page.parameters["effects"] == f".cache/effects/{place}"
    graph = steps.steps(planned)
    assert f"effects/{place}" in graph[f"page/{place}/why"].after
    assert f"effects/{place}" not in graph[f"page/{place}/data"].after
    assert graph[f"effects/{place}"].words()["options"]["limit"] == 3
    given = graph[f"effects/{place}"].given
    assert not any("charts" in path or "analyses" in path for path in given)


def test_what_a_run_keeps_beside_scores_is_no_option_of_its_effects(explaining, tmp_path):
    datasets = [{"name": "stimuli/controlled", "taps": ["layers"], "pages": ["why"]}]
    graph = steps.steps(plan.read(audit(tmp_path, datasets=datasets)))
    place = "smol-armo/stimuli/controlled"
    assert graph[f"extract/{place}"].words()["options"]["taps"] == ["layers"]
    assert "taps" not in graph[f"effects/{place}"].words()["options"]


def test_comparisons_are_patched_only_where_a_page_reads_that(explaining, tmp_path):
    def options(*names):
        datasets = [{"name": "stimuli/controlled", "pages": list(names)}]
        graph = steps.steps(plan.read(audit(tmp_path, datasets=datasets)))
        return graph["effects/smol-armo/stimuli/controlled"].words()["options"]

    assert options("why")["patched"] == 0
    assert "patched" not in options("why", "how")


def test_nothing_is_computed_for_committed_effects_or_pages_that_read_none(explaining, tmp_path):
    dataset = {"name": "stimuli/controlled", "effects": "committed", "pages": ["why"]}
    with pytest.raises(ParameterError, match="python -m lib explain smol-armo stimuli/contr"):
        plan.read(audit(tmp_path, datasets=[dataset]))
    folder = explaining / "book" / "effects" / "smol-armo" / "stimuli" / "controlled"
    folder.mkdir(parents=True)
    (folder / "effects.json").touch()
    graph = steps.steps(plan.read(audit(tmp_path, datasets=[dataset])))
    assert not any(step.kind == "effects" for step in graph.values())
    page = graph["page/smol-armo/stimuli/controlled/why"]
    assert f"{plan.from_root(folder)}/effects.json" in page.given
    plain = steps.steps(plan.read(audit(tmp_path)))
    assert not any(step.kind == "effects" for step in plain.values())


def test_a_model_whose_parts_cannot_be_told_gets_none_of_those_pages(explaining, monkeypatch):
    analysis = declared.Analysis("lib.analyses.why", 1, audited=declared.EACH)
    others = {n: each for n, each in declared.every().items() if not applies.explains(n)}
    known = {"why": analysis, **others}
    monkeypatch.setattr(declared, "every", lambda: known)
    monkeypatch.setattr(applies, "analysis", known.get)
    can, cannot = applies.Shape(1, 0, False), applies.Shape(1, 0, False, "what it lacks")
    assert applies.suits("why", can) and applies.missing("why", cannot) == "what it lacks"
    assert applies.suits("validity", cannot)
    datasets = [{"name": "x"}, {"name": "y"}]
    found = audits.entry("m", datasets, can, {}, plain={"y": "no pairs"})
    assert [each["pages"] for each in found["datasets"]] == [["why"], []]
    assert "why" not in found["pages"]
    found = audits.entry("m", datasets, cannot, {})
    assert [each["pages"] for each in found["datasets"]] == [[], []]
